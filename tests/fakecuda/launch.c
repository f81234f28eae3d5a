/*
 * launch.c: what a device does to memory: copies, and one kernel, which stores a byte.
 *
 * Attackers: a program that stores where nothing is mapped, or through a read-only mapping.
 * Promise: such a store is a sticky illegal address of that device's context, as on hardware; every other store really lands in the pages.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "state.h"

/* Every byte of the range can be reached with this access. */
static int reachable(uint64_t address, uint64_t bytes, unsigned access) {
  if (bytes == 0 || address + bytes < address) return 0;
  for (uint64_t at = address; at < address + bytes;) {
    fc_span *span = fc_span_at(&fc.mappings, at, 1);
    if (span == NULL || (span->access & access) != access) return 0;
    at = span->address + span->bytes;
  }
  return 1;
}

static nx_cuda_result store(struct CUctx_st *context, uint64_t address, uint8_t value) {
  if (context->lost) return context->lost;
  if (reachable(address, 1, NX_CUDA_ACCESS_READ_WRITE)) {
    *(volatile uint8_t *)(uintptr_t)address = value;
    return NX_CUDA_SUCCESS;
  }
  fc_lose(context, NX_CUDA_ILLEGAL_ADDRESS);
  return NX_CUDA_ILLEGAL_ADDRESS;
}

FC_PUBLIC fakecuda_store_fn fakecuda_store;

uint32_t fakecuda_store(int device, uint64_t address, uint8_t value) {
  if (device < 0 || device >= FC_DEVICES) return NX_CUDA_INVALID_DEVICE;
  pthread_mutex_lock(&fc.lock);
  nx_cuda_result code = store(&fc.contexts[device], address, value);
  pthread_mutex_unlock(&fc.lock);
  return code;
}

static nx_cuda_result copy(fc_id id, uint64_t device_address, uint64_t bytes, void *to, const void *from) {
  fc_call call = fc_enter(id, FC_NEEDS_INIT | FC_NEEDS_CONTEXT | FC_SYNCHRONISES, device_address, bytes);
  if (call.code != 0) return fc_leave(&call, 0);
  unsigned access = id == FC_cuMemcpyHtoD ? NX_CUDA_ACCESS_READ_WRITE : NX_CUDA_ACCESS_READ;
  if (!reachable(device_address, bytes, access)) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  memcpy(to, from, bytes);
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuMemcpyHtoD(nx_cuda_ptr to, const void *from, size_t bytes) {
  return copy(FC_cuMemcpyHtoD, to, bytes, (void *)(uintptr_t)to, from);
}

nx_cuda_result cuMemcpyDtoH(void *to, nx_cuda_ptr from, size_t bytes) {
  return copy(FC_cuMemcpyDtoH, from, bytes, to, (const void *)(uintptr_t)from);
}

/* One module with one function: (address, value), which stores the value's low byte. */
static char the_module, the_function;

nx_cuda_result cuModuleLoadData(void **module_out, const void *image) {
  fc_call call = fc_enter(FC_cuModuleLoadData, FC_NEEDS_INIT | FC_NEEDS_CONTEXT, 0, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (module_out == NULL || image == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  *module_out = &the_module;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuModuleUnload(void *module) {
  fc_call call = fc_enter(FC_cuModuleUnload, FC_NEEDS_INIT | FC_NEEDS_CONTEXT, 0, 0);
  if (call.code == 0 && module != &the_module) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_HANDLE));
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuModuleGetFunction(void **function_out, void *module, const char *name) {
  fc_call call = fc_enter(FC_cuModuleGetFunction, FC_NEEDS_INIT | FC_NEEDS_CONTEXT, 0, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (function_out == NULL || module != &the_module || name == NULL) {
    return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  }
  *function_out = &the_function;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

/* A launch succeeds; what its store broke shows at the next call. */
nx_cuda_result cuLaunchKernel(void *function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                              unsigned int by, unsigned int bz, unsigned int shared, nx_cuda_stream stream,
                              void **parameters, void **extra) {
  (void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
  fc_call call = fc_enter(FC_cuLaunchKernel, FC_NEEDS_INIT | FC_NEEDS_CONTEXT, gx, bx);
  if (call.code != 0) return fc_leave(&call, 0);
  if (function != &the_function || parameters == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  uint64_t address;
  uint32_t value;
  memcpy(&address, parameters[0], sizeof address);
  memcpy(&value, parameters[1], sizeof value);
  store(call.context, address, (uint8_t)value);
  return fc_leave(&call, NX_CUDA_SUCCESS);
}
