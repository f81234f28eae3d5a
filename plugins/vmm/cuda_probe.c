/*
 * cuda_probe.c: what physical handles are made of: with the optional flag only where the whole life of one granule was seen to work with it.
 *
 * Attackers: a device that says it knows the flag and fails once a handle has it; a driver that takes nothing back.
 * Promise: the flag is used or not used for all handles; what the trial made is given back, and where that fails it is remembered and tried again.
 */
#include "cuda_driver.h"

/* What a trial holds, in the order it was made. */
typedef struct nx_cuda_trial {
  uint64_t bytes, address, handle;
  int reserved, created, mapped;
} nx_cuda_trial;

/* By device: what a driver would not take back twice in a row. Only one trial runs at a time. */
static nx_cuda_trial stranded[NX_CUDA_DEVICES];
static pthread_mutex_t trying = PTHREAD_MUTEX_INITIALIZER;

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

/* With the flag, everything that an engine will do to a granule but read-only access, which it tries itself. */
static nx_vmm_answer try_once(const nx_cuda *cuda, const nx_vmm_driver *table, uint64_t bytes) {
  nx_cuda_trial trial = {.bytes = bytes};
  nx_vmm_answer answer = make(table, &trial);
  if (ends_all(answer)) return answer;
  nx_vmm_answer back = give_back(table, &trial);
  if (trial.reserved && !ends_all(back)) stranded[cuda->index] = trial;
  return answer.outcome == NX_VMM_DONE || ends_all(back) ? back : answer;
}

static nx_vmm_answer ask_granularity(nx_cuda *cuda) {
  static const char call[] = "cuMemGetAllocationGranularity";
  nx_cuda_result result =
      cuda->calls.cuMemGetAllocationGranularity(&cuda->minimum, &cuda->prop, NX_CUDA_GRANULARITY_MINIMUM);
  if (result != NX_CUDA_SUCCESS) return nx_cuda_answer(cuda, call, result);
  result = cuda->calls.cuMemGetAllocationGranularity(&cuda->recommended, &cuda->prop, NX_CUDA_GRANULARITY_RECOMMENDED);
  return nx_cuda_answer(cuda, call, result);
}

/* The larger of the two; 0 where one is no power of two: the engine refuses those. */
static uint64_t unit_of(const nx_cuda *cuda) {
  uint64_t least = cuda->minimum, best = cuda->recommended;
  if ((least & (least - 1)) != 0 || (best & (best - 1)) != 0) return 0;
  return best > least ? best : least;
}

static nx_vmm_answer try_flag(nx_cuda *cuda, const nx_vmm_driver *table) {
  nx_vmm_answer answer = ask_granularity(cuda);
  uint64_t bytes = unit_of(cuda);
  if (answer.outcome != NX_VMM_DONE || bytes == 0) return answer;
  return try_once(cuda, table, bytes);
}

/* What an earlier trial had to leave; refused again, it stays and so does the refusal. */
static nx_vmm_answer clear_stranded(const nx_cuda *cuda, const nx_vmm_driver *table) {
  nx_cuda_trial *left = &stranded[cuda->index];
  return left->reserved ? give_back(table, left) : nx_cuda_done();
}

static nx_vmm_answer settle(nx_cuda *cuda, const nx_vmm_driver *table) {
  nx_vmm_answer answer = clear_stranded(cuda, table);
  if (answer.outcome != NX_VMM_DONE) return answer;
  answer = try_flag(cuda, table);
  if (answer.outcome == NX_VMM_DONE || ends_all(answer) || stranded[cuda->index].reserved) return answer;
  cuda->prop.flags.gpu_direct_rdma_capable = 0;
  return ask_granularity(cuda);
}

nx_vmm_answer nx_cuda_settle_plain(nx_cuda *cuda) { return ask_granularity(cuda); }

nx_vmm_answer nx_cuda_settle_flagged(nx_cuda *cuda, const nx_vmm_driver *table) {
  pthread_mutex_lock(&trying);
  nx_vmm_answer answer = settle(cuda, table);
  pthread_mutex_unlock(&trying);
  return answer;
}
