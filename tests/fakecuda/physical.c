/*
 * physical.c: physical handles: ranges of one memfd for each device, punched out when neither a handle nor a mapping holds them.
 *
 * Attackers: the plugin under test: sizes that are no multiple, handles released twice or not at all.
 * Promise: a byte that is held is charged against the device's memory, and a page that is not held is really gone.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "state.h"

int fc_compare_handles(const void *left, const void *right) {
  const fc_handle *a = left, *b = right;
  return (a->id > b->id) - (a->id < b->id);
}

static int memory_of(int device) {
  if (fc.memory_end[device] != 0) return fc.memory_fd[device];
  fc.memory_fd[device] = memfd_create("fakecuda", MFD_CLOEXEC);
  return fc.memory_fd[device];
}

/* Offsets are never used twice: the file is sparse, and a stale mapping cannot show another handle's bytes. */
int fc_physical_take(fc_handle *handle) {
  int device = handle->device;
  if (handle->bytes > fc.set.memory || fc.memory_used[device] > fc.set.memory - handle->bytes) return 0;
  int fd = memory_of(device);
  handle->offset = fc.memory_end[device];
  if (fd < 0 || ftruncate(fd, (off_t)(handle->offset + handle->bytes)) != 0) return 0;
  fc.memory_end[device] += handle->bytes;
  fc.memory_used[device] += handle->bytes;
  fc.counts.physical_bytes += handle->bytes;
  return 1;
}

/* Pages that cannot be punched out now are never shown again: their offset is not used twice. */
static void untake(const fc_handle *handle) {
  int how = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  fc.memory_used[handle->device] -= handle->bytes;
  fc.counts.physical_bytes -= handle->bytes;
  fallocate(fc.memory_fd[handle->device], how, (off_t)handle->offset, (off_t)handle->bytes);
}

void fc_physical_drop(fc_handle *handle) {
  if (handle->held || handle->mappings > 0) return;
  untake(handle);
  tdelete(handle, &fc.handles, fc_compare_handles);
  free(handle);
}

static int is_plain(const nx_cuda_prop *prop) {
  return prop->type == NX_CUDA_ALLOCATION_PINNED && prop->requested_handle_types == NX_CUDA_HANDLE_TYPE_NONE &&
         prop->location.type == NX_CUDA_LOCATION_DEVICE && prop->win32_handle_meta_data == NULL &&
         prop->flags.compression_type == 0 && prop->flags.usage == 0;
}

static nx_cuda_result judge_prop(const nx_cuda_prop *prop) {
  if (prop == NULL || !is_plain(prop)) return fc_refuse(NX_CUDA_INVALID_VALUE);
  if (prop->location.id < 0 || prop->location.id >= fc.set.devices) return fc_refuse(NX_CUDA_INVALID_DEVICE);
  if (prop->flags.gpu_direct_rdma_capable && !fc.set.rdma) return fc_refuse(NX_CUDA_NOT_SUPPORTED);
  return NX_CUDA_SUCCESS;
}

nx_cuda_result cuMemGetAllocationGranularity(size_t *bytes_out, const nx_cuda_prop *prop, unsigned int option) {
  fc_call call = fc_enter(FC_cuMemGetAllocationGranularity, FC_NEEDS_INIT, option, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (bytes_out == NULL || option > 1) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  nx_cuda_result code = judge_prop(prop);
  if (code != NX_CUDA_SUCCESS) return fc_leave(&call, code);
  *bytes_out = option == 0 ? fc.set.granularity_minimum : fc.set.granularity_recommended;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

static nx_cuda_result create(const struct CUctx_st *context, nx_cuda_handle *handle_out, uint64_t bytes,
                             const nx_cuda_prop *prop) {
  nx_cuda_result code = judge_prop(prop);
  if (code != NX_CUDA_SUCCESS) return code;
  if (prop->location.id != context->device) return fc_refuse(NX_CUDA_INVALID_DEVICE);
  if (prop->flags.gpu_direct_rdma_capable && fc.set.rdma_refused) return NX_CUDA_NOT_SUPPORTED;
  uint64_t unit = fc.set.granularity_minimum;
  if (bytes == 0 || unit == 0 || bytes % unit != 0) return fc_refuse(NX_CUDA_INVALID_VALUE);
  fc_handle *handle = calloc(1, sizeof *handle);
  if (handle == NULL) return NX_CUDA_OUT_OF_MEMORY;
  *handle = (fc_handle){.id = ++fc.next_handle, .bytes = bytes, .device = context->device, .held = 1};
  if (!fc_physical_take(handle)) {
    free(handle);
    return NX_CUDA_OUT_OF_MEMORY;
  }
  if (tsearch(handle, &fc.handles, fc_compare_handles) == NULL) {
    untake(handle);
    free(handle);
    return NX_CUDA_OUT_OF_MEMORY;
  }
  fc.counts.handles++;
  fc.counts.handle_bytes += bytes;
  *handle_out = handle->id;
  return NX_CUDA_SUCCESS;
}

nx_cuda_result cuMemCreate(nx_cuda_handle *handle_out, size_t bytes, const nx_cuda_prop *prop,
                           unsigned long long flags) {
  fc_call call = fc_enter(FC_cuMemCreate, FC_NEEDS_INIT | FC_NEEDS_CONTEXT | FC_SYNCHRONISES, bytes,
                          prop == NULL ? 0 : prop->flags.gpu_direct_rdma_capable);
  if (call.code != 0) return fc_leave(&call, 0);
  if (handle_out == NULL || flags != 0) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  return fc_leave(&call, create(call.context, handle_out, bytes, prop));
}

nx_cuda_result cuMemRelease(nx_cuda_handle id) {
  fc_call call = fc_enter(FC_cuMemRelease, FC_NEEDS_INIT | FC_NEEDS_CONTEXT | FC_SYNCHRONISES | FC_DESTROYS, id, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  fc_handle wanted = {.id = id};
  fc_handle **found = tfind(&wanted, &fc.handles, fc_compare_handles);
  if (found == NULL || !(*found)->held) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  fc_handle *handle = *found;
  handle->held = 0;
  fc.counts.handles--;
  fc.counts.handle_bytes -= handle->bytes;
  fc_physical_drop(handle);
  return fc_leave(&call, NX_CUDA_SUCCESS);
}
