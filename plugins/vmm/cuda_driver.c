/*
 * cuda_driver.c: the operations of driver.h, each one call of the CUDA driver.
 *
 * Attackers: a driver that fails at any call; another context current on the calling thread.
 * Promise: one operation is one call, repeated where a thread would be left with a context that is not its own; the context that was current before bind is current again after unbind.
 */
#include "cuda_driver.h"

static nx_vmm_answer describe(void *self, nx_vmm_device *out) {
  const nx_cuda *cuda = self;
  *out = (nx_vmm_device){cuda->minimum, cuda->recommended, cuda->memory};
  return nx_cuda_done();
}

/* Where the context cannot be made current nothing else is called, unless the driver says that there is nothing left to call. */
static nx_vmm_answer bind(void *self) {
  const nx_cuda *cuda = self;
  if (nx_cuda_has_ended()) return nx_cuda_end("cuCtxPushCurrent");
  nx_vmm_answer answer = nx_cuda_answer(cuda, "cuCtxPushCurrent", cuda->calls.cuCtxPushCurrent(cuda->context));
  int final = answer.outcome == NX_VMM_DONE || answer.outcome == NX_VMM_LOST || answer.outcome == NX_VMM_SHUT_DOWN;
  if (!final) answer.outcome = NX_VMM_UNBOUND;
  return answer;
}

/* Refused once it is tried once more: whoever called must find their own context again. A loss is told all the same. */
static nx_vmm_answer unbind(void *self) {
  const nx_cuda *cuda = self;
  nx_cuda_context popped = NULL;
  if (nx_cuda_has_ended()) return nx_cuda_end("cuCtxPopCurrent");
  nx_vmm_answer answer = nx_cuda_answer(cuda, "cuCtxPopCurrent", cuda->calls.cuCtxPopCurrent(&popped));
  if (answer.outcome == NX_VMM_SHUT_DOWN) return answer;
  if (answer.outcome != NX_VMM_DONE) {
    nx_cuda_result again = cuda->calls.cuCtxPopCurrent(&popped);
    if (answer.outcome == NX_VMM_LOST) return answer;
    answer = nx_cuda_answer(cuda, "cuCtxPopCurrent", again);
  }
  if (answer.outcome != NX_VMM_DONE || popped == cuda->context) return answer;
  return (nx_vmm_answer){NX_VMM_REFUSED, NX_CUDA_INVALID_CONTEXT, "cuCtxPopCurrent", "another context was current"};
}

static nx_vmm_answer reserve(void *self, uint64_t bytes, uint64_t align, uint64_t *address_out) {
  const nx_cuda *cuda = self;
  nx_cuda_ptr address = 0;
  nx_cuda_result result = cuda->calls.cuMemAddressReserve(&address, bytes, align, 0, 0);
  if (result == NX_CUDA_SUCCESS) *address_out = address;
  return nx_cuda_answer(cuda, "cuMemAddressReserve", result);
}

static nx_vmm_answer unreserve(void *self, uint64_t address, uint64_t bytes) {
  const nx_cuda *cuda = self;
  return nx_cuda_answer(cuda, "cuMemAddressFree", cuda->calls.cuMemAddressFree(address, bytes));
}

static nx_vmm_answer create(void *self, uint64_t bytes, uint64_t *handle_out) {
  const nx_cuda *cuda = self;
  nx_cuda_handle handle = 0;
  nx_cuda_result result = cuda->calls.cuMemCreate(&handle, bytes, &cuda->prop, 0);
  if (result == NX_CUDA_SUCCESS) *handle_out = handle;
  return nx_cuda_answer(cuda, "cuMemCreate", result);
}

static nx_vmm_answer destroy(void *self, uint64_t handle) {
  const nx_cuda *cuda = self;
  return nx_cuda_answer(cuda, "cuMemRelease", cuda->calls.cuMemRelease(handle));
}

static nx_vmm_answer map(void *self, uint64_t address, uint64_t bytes, uint64_t handle) {
  const nx_cuda *cuda = self;
  return nx_cuda_answer(cuda, "cuMemMap", cuda->calls.cuMemMap(address, bytes, 0, handle, 0));
}

static nx_vmm_answer unmap(void *self, uint64_t address, uint64_t bytes) {
  const nx_cuda *cuda = self;
  return nx_cuda_answer(cuda, "cuMemUnmap", cuda->calls.cuMemUnmap(address, bytes));
}

static nx_vmm_answer set_access(void *self, uint64_t address, uint64_t bytes, nx_vmm_access access) {
  const nx_cuda *cuda = self;
  nx_cuda_access wanted = {cuda->prop.location,
                           access == NX_VMM_READ_ONLY ? NX_CUDA_ACCESS_READ : NX_CUDA_ACCESS_READ_WRITE};
  return nx_cuda_answer(cuda, "cuMemSetAccess", cuda->calls.cuMemSetAccess(address, bytes, &wanted, 1));
}

void nx_cuda_table(nx_cuda *cuda, nx_vmm_driver *out) {
  *out = (nx_vmm_driver){.self = cuda,
                         .describe = describe,
                         .bind = bind,
                         .unbind = unbind,
                         .reserve = reserve,
                         .unreserve = unreserve,
                         .create = create,
                         .destroy = destroy,
                         .map = map,
                         .unmap = unmap,
                         .set_access = set_access,
                         .mark = nx_cuda_mark,
                         .mark_state = nx_cuda_mark_state,
                         .drop_mark = nx_cuda_drop_mark,
                         .close = nx_cuda_close};
}
