/*
 * cuda_probe.c: the whole life of one granule, once, before anything is offered.
 *
 * Attackers: a device that says it can and cannot; a flag that only some platforms accept; a driver that takes nothing back.
 * Promise: what is offered was seen to work; what the probe made is given back, and where that fails it is remembered and tried again.
 */
#include "cuda_driver.h"

/* What one probe holds, in the order it was made. */
typedef struct nx_cuda_trial {
  uint64_t bytes, address, handle;
  int reserved, created, mapped;
} nx_cuda_trial;

/* By device: what a driver would not take back twice in a row. Only one probe runs on a device at a time. */
static nx_cuda_trial stranded[NX_CUDA_DEVICES];
static pthread_mutex_t probing = PTHREAD_MUTEX_INITIALIZER;

static int ends_all(nx_vmm_answer answer) {
  return answer.outcome == NX_VMM_LOST || answer.outcome == NX_VMM_SHUT_DOWN;
}

/* Backwards; what is refused once is tried once more, and stays noted in the trial if that fails too. */
static nx_vmm_answer step_back(int *held, nx_vmm_answer first,
                               nx_vmm_answer (*again)(const nx_vmm_driver *, const nx_cuda_trial *),
                               const nx_vmm_driver *table, const nx_cuda_trial *trial) {
  nx_vmm_answer answer = first;
  if (answer.outcome != NX_VMM_DONE && !ends_all(answer)) answer = again(table, trial);
  if (answer.outcome == NX_VMM_DONE) *held = 0;
  return answer;
}

static nx_vmm_answer unmap(const nx_vmm_driver *table, const nx_cuda_trial *trial) {
  return table->unmap(table->self, trial->address, trial->bytes);
}

static nx_vmm_answer destroy(const nx_vmm_driver *table, const nx_cuda_trial *trial) {
  return table->destroy(table->self, trial->handle);
}

static nx_vmm_answer unreserve(const nx_vmm_driver *table, const nx_cuda_trial *trial) {
  return table->unreserve(table->self, trial->address, trial->bytes);
}

static nx_vmm_answer give_back(const nx_vmm_driver *table, nx_cuda_trial *trial) {
  nx_vmm_answer answer = nx_cuda_done();
  if (trial->mapped) answer = step_back(&trial->mapped, unmap(table, trial), unmap, table, trial);
  if (!ends_all(answer) && trial->created) {
    nx_vmm_answer destroyed = step_back(&trial->created, destroy(table, trial), destroy, table, trial);
    if (answer.outcome == NX_VMM_DONE || ends_all(destroyed)) answer = destroyed;
  }
  if (answer.outcome != NX_VMM_DONE || !trial->reserved) return answer;
  return step_back(&trial->reserved, unreserve(table, trial), unreserve, table, trial);
}

static nx_vmm_answer make(const nx_vmm_driver *table, nx_cuda_trial *trial) {
  nx_vmm_answer answer = table->reserve(table->self, trial->bytes, trial->bytes, &trial->address);
  if (answer.outcome != NX_VMM_DONE) return answer;
  trial->reserved = 1;
  answer = table->create(table->self, trial->bytes, &trial->handle);
  if (answer.outcome != NX_VMM_DONE) return answer;
  trial->created = 1;
  answer = table->map(table->self, trial->address, trial->bytes, trial->handle);
  if (answer.outcome != NX_VMM_DONE) return answer;
  trial->mapped = 1;
  return table->set_access(table->self, trial->address, trial->bytes, NX_VMM_READ_WRITE);
}

static nx_vmm_answer try_once(const nx_cuda *cuda, const nx_vmm_driver *table, uint64_t bytes, int read_only,
                              int *unsupported_out) {
  nx_cuda_trial trial = {.bytes = bytes};
  nx_vmm_answer answer = make(table, &trial);
  if (answer.outcome == NX_VMM_DONE && read_only) {
    answer = table->set_access(table->self, trial.address, bytes, NX_VMM_READ_ONLY);
    *unsupported_out = answer.outcome == NX_VMM_REFUSED;
  }
  if (ends_all(answer)) return answer;
  nx_vmm_answer back = give_back(table, &trial);
  if (trial.reserved && !ends_all(back)) stranded[cuda->index] = trial;
  return answer.outcome == NX_VMM_DONE || ends_all(back) ? back : answer;
}

/* The unit that the engine maps in; 0 where the device named none that can be used. */
static uint64_t unit_of(const nx_cuda *cuda) {
  uint64_t least = cuda->minimum, best = cuda->recommended;
  if (least == 0 || (least & (least - 1)) != 0) return 0;
  if (best == 0 || (best & (best - 1)) != 0) return 0;
  return best > least ? best : least;
}

static nx_vmm_answer ask_granularity(nx_cuda *cuda) {
  static const char call[] = "cuMemGetAllocationGranularity";
  nx_cuda_result result =
      cuda->calls.cuMemGetAllocationGranularity(&cuda->minimum, &cuda->prop, NX_CUDA_GRANULARITY_MINIMUM);
  if (result != NX_CUDA_SUCCESS) return nx_cuda_answer(cuda, call, result);
  result = cuda->calls.cuMemGetAllocationGranularity(&cuda->recommended, &cuda->prop, NX_CUDA_GRANULARITY_RECOMMENDED);
  return nx_cuda_answer(cuda, call, result);
}

static nx_vmm_answer probe(nx_cuda *cuda, const nx_vmm_driver *table, int read_only, int *unsupported_out) {
  *unsupported_out = 0;
  nx_vmm_answer answer = ask_granularity(cuda);
  if (answer.outcome != NX_VMM_DONE) return answer;
  uint64_t bytes = unit_of(cuda);
  if (bytes == 0) {
    return (nx_vmm_answer){NX_VMM_REFUSED, 0, "cuMemGetAllocationGranularity", "a granularity that is no power of two"};
  }
  return try_once(cuda, table, bytes, read_only, unsupported_out);
}

/* What an earlier probe had to leave; refused again, it stays and so does the refusal. */
static nx_vmm_answer clear_stranded(const nx_cuda *cuda, const nx_vmm_driver *table) {
  nx_cuda_trial *left = &stranded[cuda->index];
  return left->reserved ? give_back(table, left) : nx_cuda_done();
}

static nx_vmm_answer probe_both(nx_cuda *cuda, const nx_vmm_driver *table, int read_only, int *unsupported_out) {
  *unsupported_out = 0;
  nx_vmm_answer answer = clear_stranded(cuda, table);
  if (answer.outcome != NX_VMM_DONE) return answer;
  answer = probe(cuda, table, read_only, unsupported_out);
  int again = cuda->prop.flags.gpu_direct_rdma_capable && answer.outcome != NX_VMM_DONE && !ends_all(answer);
  if (!again || stranded[cuda->index].reserved) return answer;
  cuda->prop.flags.gpu_direct_rdma_capable = 0;
  return probe(cuda, table, read_only, unsupported_out);
}

nx_vmm_answer nx_cuda_probe(nx_cuda *cuda, const nx_vmm_driver *table, int read_only, int *unsupported_out) {
  pthread_mutex_lock(&probing);
  nx_vmm_answer answer = probe_both(cuda, table, read_only, unsupported_out);
  pthread_mutex_unlock(&probing);
  return answer;
}
