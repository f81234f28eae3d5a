/*
 * memory.c: address space and what is mapped into it, with the driver's rules.
 *
 * Attackers: the plugin under test: parts of mappings, overlaps, addresses of nobody, a reservation freed with something in it.
 * Promise: a page can be reached exactly as the driver would let a device reach it; a refused call changed nothing.
 */
#define _GNU_SOURCE
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "state.h"

/* Spans that share a byte are equal: a tree of them finds whatever overlaps. */
static int compare_spans(const void *left, const void *right) {
  const fc_span *a = left, *b = right;
  if (a->address + a->bytes <= b->address) return -1;
  return b->address + b->bytes <= a->address ? 1 : 0;
}

fc_span *fc_span_at(void **tree, uint64_t address, uint64_t bytes) {
  fc_span wanted = {.address = address, .bytes = bytes};
  fc_span **found = tfind(&wanted, tree, compare_spans);
  return found == NULL ? NULL : *found;
}

/* 0: out of memory. */
static int add_span(void **tree, fc_span span) {
  fc_span *kept = malloc(sizeof *kept);
  if (kept == NULL) return 0;
  *kept = span;
  if (tsearch(kept, tree, compare_spans) != NULL) return 1;
  free(kept);
  return 0;
}

static void drop_span(void **tree, fc_span *span) {
  tdelete(span, tree, compare_spans);
  free(span);
}

/* Zero and odd granularities are the schedule's; with them no size fits. */
static int is_multiple(uint64_t value) {
  return fc.set.granularity_minimum != 0 && value % fc.set.granularity_minimum == 0;
}

static int is_range(uint64_t address, uint64_t bytes) {
  return address != 0 && bytes != 0 && is_multiple(address) && is_multiple(bytes) && address + bytes > address;
}

/* ---- Reservations ------------------------------------------------------------------------------------------------ */

static void *reserve_pages(uint64_t bytes, uint64_t align) {
  uint64_t room = bytes + align;
  if (room < bytes) return MAP_FAILED;
  char *start = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return MAP_FAILED;
  uint64_t lead = (align - (uint64_t)(uintptr_t)start % align) % align;
  if (lead > 0) munmap(start, lead);
  if (room - lead > bytes) munmap(start + lead + bytes, room - lead - bytes);
  return start + lead;
}

static nx_cuda_result reserve(nx_cuda_ptr *address_out, uint64_t bytes, uint64_t align, unsigned long long flags) {
  if (address_out == NULL || flags != 0 || bytes == 0 || !is_multiple(bytes)) return fc_refuse(NX_CUDA_INVALID_VALUE);
  if ((align & (align - 1)) != 0) return fc_refuse(NX_CUDA_INVALID_VALUE);
  if (bytes > fc.set.reserve_max) return NX_CUDA_OUT_OF_MEMORY;
  if (align < fc.set.granularity_minimum) align = fc.set.granularity_minimum;
  void *start = reserve_pages(bytes, align);
  if (start == MAP_FAILED) return NX_CUDA_OUT_OF_MEMORY;
  *address_out = (uint64_t)(uintptr_t)start;
  if (!add_span(&fc.reservations, (fc_span){.address = *address_out, .bytes = bytes})) {
    munmap(start, bytes);
    return NX_CUDA_OUT_OF_MEMORY;
  }
  fc.counts.reservations++;
  fc.counts.reserved_bytes += bytes;
  return NX_CUDA_SUCCESS;
}

nx_cuda_result cuMemAddressReserve(nx_cuda_ptr *address_out, size_t bytes, size_t align, nx_cuda_ptr hint,
                                   unsigned long long flags) {
  (void)hint;
  fc_call call = fc_enter(FC_cuMemAddressReserve, FC_NEEDS_INIT | FC_NEEDS_CONTEXT | FC_SYNCHRONISES, bytes, align);
  if (call.code != 0) return fc_leave(&call, 0);
  return fc_leave(&call, reserve(address_out, bytes, align, flags));
}

nx_cuda_result cuMemAddressFree(nx_cuda_ptr address, size_t bytes) {
  fc_call call =
      fc_enter(FC_cuMemAddressFree, FC_NEEDS_INIT | FC_NEEDS_CONTEXT | FC_SYNCHRONISES | FC_DESTROYS, address, bytes);
  if (call.code != 0) return fc_leave(&call, 0);
  fc_span *span = bytes == 0 ? NULL : fc_span_at(&fc.reservations, address, 1);
  if (span == NULL || span->address != address || span->bytes != bytes) {
    return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  }
  if (fc_span_at(&fc.mappings, address, bytes) != NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  munmap((void *)(uintptr_t)address, bytes);
  drop_span(&fc.reservations, span);
  fc.counts.reservations--;
  fc.counts.reserved_bytes -= bytes;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

/* ---- Mappings ---------------------------------------------------------------------------------------------------- */

static fc_handle *handle_of(nx_cuda_handle id) {
  fc_handle wanted = {.id = id};
  fc_handle **found = tfind(&wanted, &fc.handles, fc_compare_handles);
  return found == NULL || !(*found)->held ? NULL : *found;
}

/* The pages of a range as a reservation has them. 0: the kernel has no room, nothing changed. */
static int blank_pages(uint64_t address, uint64_t bytes) {
  return mmap((void *)(uintptr_t)address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
              0) != MAP_FAILED;
}

static nx_cuda_result map(const struct CUctx_st *context, uint64_t address, uint64_t bytes, fc_handle *handle) {
  if (handle == NULL || !is_range(address, bytes) || bytes > handle->bytes) return fc_refuse(NX_CUDA_INVALID_VALUE);
  if (handle->device != context->device) return fc_refuse(NX_CUDA_INVALID_DEVICE);
  fc_span *within = fc_span_at(&fc.reservations, address, 1);
  if (within == NULL || address + bytes > within->address + within->bytes) return fc_refuse(NX_CUDA_INVALID_VALUE);
  if (fc_span_at(&fc.mappings, address, bytes) != NULL) return fc_refuse(NX_CUDA_INVALID_VALUE);
  void *pages = mmap((void *)(uintptr_t)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fc.memory_fd[handle->device],
                     (off_t)handle->offset);
  if (pages == MAP_FAILED) return NX_CUDA_OUT_OF_MEMORY;
  if (!add_span(&fc.mappings, (fc_span){.address = address, .bytes = bytes, .handle = handle})) {
    blank_pages(address, bytes);
    return NX_CUDA_OUT_OF_MEMORY;
  }
  handle->mappings++;
  fc.counts.mappings++;
  fc.counts.mapped_bytes += bytes;
  return NX_CUDA_SUCCESS;
}

nx_cuda_result cuMemMap(nx_cuda_ptr address, size_t bytes, size_t offset, nx_cuda_handle handle,
                        unsigned long long flags) {
  fc_call call = fc_enter(FC_cuMemMap, FC_NEEDS_INIT | FC_NEEDS_CONTEXT | FC_SYNCHRONISES, address, bytes);
  if (call.code != 0) return fc_leave(&call, 0);
  if (offset != 0 || flags != 0) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  return fc_leave(&call, map(call.context, address, bytes, handle_of(handle)));
}

/* Whether mappings of this device, side by side, fill the range exactly. */
static int is_run(const struct CUctx_st *context, uint64_t address, uint64_t bytes) {
  uint64_t at = address, end = address + bytes;
  while (at < end) {
    fc_span *span = fc_span_at(&fc.mappings, at, 1);
    if (span == NULL || span->address != at || span->handle->device != context->device) return 0;
    at += span->bytes;
  }
  return at == end;
}

static void unmap_one(fc_span *span) {
  fc_handle *handle = span->handle;
  fc.counts.mappings--;
  fc.counts.mapped_bytes -= span->bytes;
  handle->mappings--;
  drop_span(&fc.mappings, span);
  fc_physical_drop(handle);
}

nx_cuda_result cuMemUnmap(nx_cuda_ptr address, size_t bytes) {
  fc_call call =
      fc_enter(FC_cuMemUnmap, FC_NEEDS_INIT | FC_NEEDS_CONTEXT | FC_SYNCHRONISES | FC_DESTROYS, address, bytes);
  if (call.code != 0) return fc_leave(&call, 0);
  if (!is_range(address, bytes) || !is_run(call.context, address, bytes)) {
    return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  }
  if (!blank_pages(address, bytes)) return fc_leave(&call, NX_CUDA_OUT_OF_MEMORY);
  for (uint64_t at = address; at < address + bytes;) {
    fc_span *span = fc_span_at(&fc.mappings, at, 1);
    at += span->bytes;
    unmap_one(span);
  }
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

static nx_cuda_result set_access(const struct CUctx_st *context, uint64_t address, uint64_t bytes,
                                 const nx_cuda_access *access) {
  static const int protections[4] = {PROT_NONE, PROT_READ, -1, PROT_READ | PROT_WRITE};
  if (access->flags > 3 || protections[access->flags] < 0) return fc_refuse(NX_CUDA_INVALID_VALUE);
  if (access->location.type != NX_CUDA_LOCATION_DEVICE) return fc_refuse(NX_CUDA_INVALID_VALUE);
  if (access->location.id != context->device) return fc_refuse(NX_CUDA_INVALID_DEVICE);
  if (!is_range(address, bytes) || !is_run(context, address, bytes)) return fc_refuse(NX_CUDA_INVALID_VALUE);
  if (access->flags == NX_CUDA_ACCESS_READ && fc.set.no_read_only) return NX_CUDA_NOT_SUPPORTED;
  if (mprotect((void *)(uintptr_t)address, bytes, protections[access->flags]) != 0) return NX_CUDA_OUT_OF_MEMORY;
  for (uint64_t at = address; at < address + bytes;) {
    fc_span *span = fc_span_at(&fc.mappings, at, 1);
    span->access = access->flags;
    at += span->bytes;
  }
  return NX_CUDA_SUCCESS;
}

nx_cuda_result cuMemSetAccess(nx_cuda_ptr address, size_t bytes, const nx_cuda_access *access, size_t count) {
  fc_call call = fc_enter(FC_cuMemSetAccess, FC_NEEDS_INIT | FC_NEEDS_CONTEXT | FC_SYNCHRONISES, address, bytes);
  if (call.code != 0) return fc_leave(&call, 0);
  if (access == NULL || count != 1) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  return fc_leave(&call, set_access(call.context, address, bytes, access));
}

FC_PUBLIC fakecuda_mapped_fn fakecuda_mapped;

uint64_t fakecuda_mapped(uint64_t address, uint64_t bytes) {
  uint64_t mapped = 0, end = address + bytes;
  pthread_mutex_lock(&fc.lock);
  for (uint64_t at = address; at < end;) {
    fc_span *span = fc_span_at(&fc.mappings, at, 1);
    uint64_t next = span == NULL ? at + 4096 : span->address + span->bytes;
    if (span != NULL) mapped += (next < end ? next : end) - at;
    at = next;
  }
  pthread_mutex_unlock(&fc.lock);
  return mapped;
}
