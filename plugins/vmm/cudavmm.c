/*
 * cudavmm.c: what libnxmem_cudavmm.so offers: on each device one mechanism without shared mapping and one with it.
 *
 * Attackers: a machine that lacks the driver, the device, the support, or has them and fails.
 * Promise: nothing but virtual memory management is ever used; what is missing is named; a refused open owes nothing.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_driver.h"
#include "fork.h"
#include "gate.h"
#include "nxmem_cudavmm.h"
#include "nxmem_memory_abi.h"

#define NX_PUBLIC __attribute__((visibility("default")))

#define PLAIN_ID 0x6E78637564610001ull
#define SHARED_ID 0x6E78637564610002ull
#define PLAIN_CAPABILITIES \
  (NXMEM_CAP_ALLOCATOR | NXMEM_CAP_VIRTUAL_BACKING | NXMEM_CAP_DEFERRED_RELEASE | NXMEM_CAP_STRUCTURED_RELEASE)
/* A block of a terabyte has room beside others on the smallest card. */
#define LADDER_FLOOR (1ull << 42)
#define LADDER_MINIMUM (64ull << 30)
#define POOL (256ull << 20)

static nx_vmm_answer open_offer(const nx_vmm_offer *offer, nx_vmm_driver *out, int *unsupported_out, char why[200]);

/* clang-format off */
#define OFFER(name, id, number, capabilities) \
  {name, id, NXMEM_TIER_DEVICE, number, capabilities, LADDER_FLOOR, LADDER_MINIMUM, POOL, open_offer}
#define DEVICE(number)                                          \
  OFFER("cuda-vmm", PLAIN_ID, number, PLAIN_CAPABILITIES),      \
  OFFER("cuda-vmm-shared", SHARED_ID, number, PLAIN_CAPABILITIES | NXMEM_CAP_SHARED_MAPPING)
#define FOUR(number) DEVICE(number), DEVICE(number + 1), DEVICE(number + 2), DEVICE(number + 3)
static const nx_vmm_offer offers[] = {FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)};
/* clang-format on */
_Static_assert(sizeof offers / sizeof offers[0] == 2 * NX_CUDA_DEVICES, "two offers for each device");

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

static _Atomic uint32_t device_count;

uint32_t nx_cuda_device_count(void) { return atomic_load(&device_count); }

static uint32_t note_count(int count) {
  uint32_t known = count < 0 ? 0 : count > NX_CUDA_DEVICES ? NX_CUDA_DEVICES : (uint32_t)count;
  atomic_store(&device_count, known);
  return known;
}

/* 0 where there is no driver or it does not start. */
static uint32_t count_devices(void) {
  nx_cuda_calls calls;
  char why[NX_CUDA_WHY];
  int count = 0;
  if (!nx_cuda_load(&calls, why)) return 0;
  nx_cuda_result result = calls.cuInit(0);
  if (result == NX_CUDA_SUCCESS) result = calls.cuDeviceGetCount(&count);
  nx_cuda_note_end(result);
  return note_count(result == NX_CUDA_SUCCESS ? count : 0);
}

/* Device 0 is always offered: opening it says what is missing. */
uint32_t nx_vmm_offers(const nx_vmm_offer **out) {
  uint32_t count = count_devices();
  *out = offers;
  return 2 * (count == 0 ? 1 : count);
}

/* ---- Those that are open ----------------------------------------------------------------------------------------- */

/* What a lost device or a driver's end left open goes with the module, without the driver. */
static struct {
  pthread_mutex_t lock;
  nx_cuda *first;
} opened = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note_open(nx_cuda *cuda) {
  pthread_mutex_lock(&opened.lock);
  cuda->next = opened.first;
  opened.first = cuda;
  pthread_mutex_unlock(&opened.lock);
}

static void forget_open(const nx_cuda *cuda) {
  pthread_mutex_lock(&opened.lock);
  nx_cuda **at = &opened.first;
  while (*at != cuda) at = &(*at)->next;
  *at = cuda->next;
  pthread_mutex_unlock(&opened.lock);
}

static void drop_memory(nx_cuda *cuda) {
  nx_cuda_drop_events(cuda, 0);
  pthread_mutex_destroy(&cuda->lock);
  free(cuda);
}

__attribute__((destructor)) static void drop_all(void) {
  while (opened.first != NULL) {
    nx_cuda *cuda = opened.first;
    opened.first = cuda->next;
    drop_memory(cuda);
  }
}

/* Refused once it is tried once more: nobody else knows that this reference is there. */
static void release_context(const nx_cuda *cuda) {
  if (nx_cuda_has_ended()) return;
  nx_cuda_result result = cuda->calls.cuDevicePrimaryCtxRelease(cuda->device);
  nx_vmm_answer answer = nx_cuda_answer(cuda, "cuDevicePrimaryCtxRelease", result);
  int again = answer.outcome != NX_VMM_DONE && answer.outcome != NX_VMM_LOST && answer.outcome != NX_VMM_SHUT_DOWN;
  if (again) cuda->calls.cuDevicePrimaryCtxRelease(cuda->device);
}

/* Events that are left go with the context where nobody else retains it, so that a failure here needs no answer. */
void nx_cuda_close(void *self) {
  nx_cuda *cuda = self;
  nx_vmm_driver table;
  nx_cuda_table(cuda, &table);
  if ((cuda->spare != NULL || cuda->marks != NULL) && table.bind(cuda).outcome == NX_VMM_DONE) {
    nx_cuda_drop_events(cuda, 1);
    table.unbind(cuda);
  }
  release_context(cuda);
  forget_open(cuda);
  drop_memory(cuda);
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static nx_vmm_answer missing(int *unsupported_out) {
  *unsupported_out = 1;
  return (nx_vmm_answer){.outcome = NX_VMM_REFUSED};
}

/* Words for what answered otherwise than DONE. */
static void explain(nx_vmm_answer answer, uint32_t index, char why[NX_CUDA_WHY]) {
  snprintf(why, NX_CUDA_WHY, "CUDA device %u: %s answered %d (%s)", index, answer.call, answer.code,
           answer.name == NULL ? "a result without a name" : answer.name);
}

static nx_vmm_answer start(const nx_cuda *cuda, int *unsupported_out, char why[NX_CUDA_WHY]) {
  int version = 0, count = 0;
  nx_vmm_answer answer = nx_cuda_answer(cuda, "cuInit", cuda->calls.cuInit(0));
  if (answer.code == NX_CUDA_NO_DEVICE) {
    snprintf(why, NX_CUDA_WHY, "the CUDA driver finds no device (cuInit answered CUDA_ERROR_NO_DEVICE)");
    return missing(unsupported_out);
  }
  if (answer.outcome == NX_VMM_DONE) {
    answer = nx_cuda_answer(cuda, "cuDriverGetVersion", cuda->calls.cuDriverGetVersion(&version));
  }
  if (answer.outcome == NX_VMM_DONE) {
    answer = nx_cuda_answer(cuda, "cuDeviceGetCount", cuda->calls.cuDeviceGetCount(&count));
  }
  if (answer.outcome != NX_VMM_DONE) {
    explain(answer, cuda->index, why);
    return answer;
  }
  if (version < NX_CUDA_VERSION) {
    snprintf(why, NX_CUDA_WHY, "the CUDA driver is of version %d, needed %d", version, NX_CUDA_VERSION);
    return missing(unsupported_out);
  }
  if (cuda->index >= note_count(count)) {
    snprintf(why, NX_CUDA_WHY, "no CUDA device %u: the driver has %d", cuda->index, count);
    return missing(unsupported_out);
  }
  return answer;
}

static nx_vmm_answer find_device(nx_cuda *cuda, int *unsupported_out, char why[NX_CUDA_WHY]) {
  int vmm = 0, rdma = 0;
  nx_vmm_answer answer = nx_cuda_answer(cuda, "cuDeviceGet", cuda->calls.cuDeviceGet(&cuda->device, (int)cuda->index));
  if (answer.outcome == NX_VMM_DONE) {
    answer = nx_cuda_answer(cuda, "cuDeviceTotalMem", cuda->calls.cuDeviceTotalMem(&cuda->memory, cuda->device));
  }
  if (answer.outcome == NX_VMM_DONE) {
    answer = nx_cuda_answer(cuda, "cuDeviceGetAttribute",
                            cuda->calls.cuDeviceGetAttribute(&vmm, NX_CUDA_ATTRIBUTE_VMM, cuda->device));
  }
  if (answer.outcome != NX_VMM_DONE) {
    explain(answer, cuda->index, why);
    return answer;
  }
  if (!vmm) {
    snprintf(why, NX_CUDA_WHY, "CUDA device %u has no virtual memory management", cuda->index);
    return missing(unsupported_out);
  }
  /* A driver that does not know the attribute does not know the flag. */
  answer = nx_cuda_answer(cuda, "cuDeviceGetAttribute",
                          cuda->calls.cuDeviceGetAttribute(&rdma, NX_CUDA_ATTRIBUTE_RDMA_WITH_VMM, cuda->device));
  if (answer.outcome == NX_VMM_LOST || answer.outcome == NX_VMM_SHUT_DOWN) {
    explain(answer, cuda->index, why);
    return answer;
  }
  cuda->prop.flags.gpu_direct_rdma_capable = answer.outcome == NX_VMM_DONE && rdma;
  cuda->prop.type = NX_CUDA_ALLOCATION_PINNED;
  cuda->prop.location = (nx_cuda_location){NX_CUDA_LOCATION_DEVICE, cuda->device};
  return nx_cuda_done();
}

/* Inside a section of the capture gate, on the device's own context. */
static nx_vmm_answer settle_bound(nx_cuda *cuda, const nx_vmm_driver *table) {
  nx_vmm_answer answer = table->bind(cuda);
  if (answer.outcome != NX_VMM_DONE) return answer;
  answer = nx_cuda_settle_flagged(cuda, table);
  nx_vmm_answer unbound = table->unbind(cuda);
  return answer.outcome == NX_VMM_DONE ? unbound : answer;
}

static nx_vmm_answer settle_gated(nx_cuda *cuda, const nx_vmm_driver *table) {
  nx_gate *gate = nx_gate_take(NXMEM_TIER_DEVICE, cuda->index);
  if (gate == NULL) return nx_cuda_no_room();
  nx_vmm_answer answer = {NX_VMM_CAPTURING, 0, "the capture gate", "a graph is being captured"};
  if (nx_gate_is_lost(gate)) {
    answer = (nx_vmm_answer){NX_VMM_LOST, 0, "an earlier call", "the device was lost"};
  } else if (nx_gate_open_section(gate)) {
    answer = settle_bound(cuda, table);
    if (answer.outcome == NX_VMM_LOST) nx_gate_lose(gate);
    nx_gate_close_section(gate);
  }
  nx_gate_drop(gate);
  return answer;
}

static nx_vmm_answer retain(nx_cuda *cuda, nx_vmm_driver *out, char why[NX_CUDA_WHY]) {
  nx_vmm_answer answer = nx_cuda_answer(cuda, "cuDevicePrimaryCtxRetain",
                                        cuda->calls.cuDevicePrimaryCtxRetain(&cuda->context, cuda->device));
  if (answer.outcome != NX_VMM_DONE) {
    explain(answer, cuda->index, why);
    return answer;
  }
  nx_cuda_table(cuda, out);
  answer = cuda->prop.flags.gpu_direct_rdma_capable ? settle_gated(cuda, out) : nx_cuda_settle_plain(cuda);
  if (answer.outcome == NX_VMM_DONE) return answer;
  explain(answer, cuda->index, why);
  if (answer.outcome != NX_VMM_LOST && answer.outcome != NX_VMM_SHUT_DOWN) release_context(cuda);
  return answer;
}

static nx_vmm_answer open_steps(nx_cuda *cuda, nx_vmm_driver *out, int *unsupported_out, char why[NX_CUDA_WHY]) {
  if (!nx_cuda_load(&cuda->calls, why))
    return nx_cuda_has_ended() ? nx_cuda_end("cuGetProcAddress") : missing(unsupported_out);
  nx_vmm_answer answer = start(cuda, unsupported_out, why);
  if (answer.outcome == NX_VMM_DONE) answer = find_device(cuda, unsupported_out, why);
  if (answer.outcome == NX_VMM_DONE) answer = retain(cuda, out, why);
  return answer;
}

static nx_vmm_answer open_offer(const nx_vmm_offer *offer, nx_vmm_driver *out, int *unsupported_out, char why[200]) {
  *unsupported_out = 0;
  nx_cuda *cuda = calloc(1, sizeof *cuda);
  if (cuda == NULL) {
    snprintf(why, NX_CUDA_WHY, "no memory for the record of CUDA device %u", offer->index);
    return nx_cuda_no_room();
  }
  cuda->index = offer->index;
  pthread_mutex_init(&cuda->lock, NULL);
  nx_vmm_answer answer = open_steps(cuda, out, unsupported_out, why);
  if (answer.outcome == NX_VMM_DONE)
    note_open(cuda);
  else
    drop_memory(cuda);
  return answer;
}

/* ---- Capture ----------------------------------------------------------------------------------------------------- */

NX_PUBLIC uint32_t NxmemCudaCaptureEnter(uint32_t device_index) {
  if (nx_is_forked()) return NXMEM_STATUS_DEVICE_ERROR;
  if (device_index >= nx_cuda_device_count()) return NXMEM_STATUS_WRONG_DEVICE;
  return nx_vmm_gate_enter(NXMEM_TIER_DEVICE, device_index);
}

NX_PUBLIC uint32_t NxmemCudaCaptureLeave(uint32_t device_index) {
  if (nx_is_forked()) return NXMEM_STATUS_DEVICE_ERROR;
  if (device_index >= nx_cuda_device_count()) return NXMEM_STATUS_WRONG_DEVICE;
  return nx_vmm_gate_leave(NXMEM_TIER_DEVICE, device_index);
}
