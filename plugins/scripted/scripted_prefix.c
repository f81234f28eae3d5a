/*
 * scripted_prefix.c: the honest shared mapping table: pages that several allocations map for reading.
 *
 * Attackers: none by intent; a host with short, NULL, stale or foreign arguments is answered as the contract says.
 * Promise: a prefix is found only by its owner, number and address; its pages live until the last reference and the
 * last view are gone; its physical bytes are charged at the first commit and never again.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nxmem/range.h"
#include "scripted_lazy.h"
#include "scripted_span.h"

enum { HANDLE_BYTES = 64, COMMIT_REQUEST_BYTES = 136, COMMIT_INFO_BYTES = 32 };

/* No prefix is longer: what is asked for is refused before it could overflow. */
#define BYTES_MAX (1ull << 40)

struct nx_prefix {
  struct nx_prefix *next;
  nx_allocator *owner;
  uint64_t number;
  int descriptor;
  uint8_t *writable; /* where its owner fills it; gone with the last reference */
  uint64_t bytes;    /* as requested */
  uint64_t granules;
  uint64_t references;
  uint64_t views;
  int charged;
};

/* Protects the list and every prefix in it. Taken inside the blocks' lock, never around it. */
static pthread_mutex_t prefixes_lock = PTHREAD_MUTEX_INITIALIZER;
static nx_prefix *prefixes;
static uint64_t last_number;

static NxmemStatus invalid(const char *text) { return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, text); }
static NxmemStatus too_short(const char *text) { return nx_status(NXMEM_STATUS_SHORT_STRUCT, text); }

int nx_prefix_descriptor(const nx_prefix *prefix) { return prefix->descriptor; }
uint64_t nx_prefix_granules(const nx_prefix *prefix) { return prefix->granules; }
static uint64_t physical(const nx_prefix *prefix) { return prefix->granules * NX_GRANULE; }

/* ---- Life ------------------------------------------------------------------------------------------------------- */

static nx_prefix *make(nx_allocator *owner, uint64_t bytes) {
  nx_prefix *prefix = calloc(1u, sizeof *prefix);
  if (prefix == NULL) return NULL;
  prefix->owner = owner;
  prefix->bytes = bytes;
  prefix->granules = nxmem_granules_touched(0u, bytes, NX_GRANULE);
  prefix->references = 1u;
  prefix->descriptor = memfd_create("nxmem-scripted-prefix", MFD_CLOEXEC);
  const int sized = prefix->descriptor >= 0 && ftruncate(prefix->descriptor, (off_t)physical(prefix)) == 0;
  void *at =
      !sized ? MAP_FAILED : mmap(NULL, physical(prefix), PROT_READ | PROT_WRITE, MAP_SHARED, prefix->descriptor, 0);
  if (at != MAP_FAILED) {
    prefix->writable = at;
    return prefix;
  }
  if (prefix->descriptor >= 0) close(prefix->descriptor);
  free(prefix);
  return NULL;
}

static void list_prefix(nx_prefix *prefix) {
  pthread_mutex_lock(&prefixes_lock);
  prefix->number = ++last_number;
  prefix->next = prefixes;
  prefixes = prefix;
  atomic_fetch_add(&prefix->owner->named_by, 1u);
  pthread_mutex_unlock(&prefixes_lock);
  nx_count(NX_PROBE_LIVE_PREFIXES);
}

/* Unlists what nobody refers to and nothing maps; the caller destroys it without the lock. */
static nx_prefix *unlist_if_gone_locked(nx_prefix *prefix) {
  if (prefix->references != 0u || prefix->views != 0u) return NULL;
  nx_prefix **link = &prefixes;
  while (*link != prefix) link = &(*link)->next;
  *link = prefix->next;
  atomic_fetch_sub(&prefix->owner->named_by, 1u);
  return prefix;
}

static void destroy(nx_prefix *prefix) {
  if (prefix == NULL) return;
  munmap(prefix->writable, physical(prefix));
  close(prefix->descriptor);
  free(prefix);
}

void nx_prefix_count_view(nx_prefix *prefix) {
  prefix->views++; /* under the lock: a view is made inside nx_commit_prefix */
  nx_count(NX_PROBE_LIVE_VIEWS);
}

void nx_prefix_drop_view(nx_prefix *prefix) {
  pthread_mutex_lock(&prefixes_lock);
  prefix->views--;
  nx_prefix *gone = unlist_if_gone_locked(prefix);
  pthread_mutex_unlock(&prefixes_lock);
  nx_uncount(NX_PROBE_LIVE_VIEWS);
  destroy(gone);
}

/* Behind the destructors without a number: parked blocks and queues drop their views first. */
__attribute__((destructor(200))) static void free_prefixes(void) {
  while (prefixes != NULL) {
    nx_prefix *prefix = prefixes;
    prefixes = prefix->next;
    destroy(prefix);
  }
}

/* ---- Finding ---------------------------------------------------------------------------------------------------- */

static NxmemStatus check_handle(nx_allocator *allocator, const NxmemSharedPrefixHandle *handle) {
  if (nx_is_released(allocator)) return invalid("prefix: the allocator was released");
  if (handle->struct_size < HANDLE_BYTES) return too_short("prefix handle");
  return nx_check_owner(allocator, handle->mechanism_id, handle->device);
}

/* The address tells apart two copies of this module whose numbers are the same. */
static nx_prefix *find_locked(const nx_allocator *owner, const NxmemSharedPrefixHandle *handle) {
  for (nx_prefix *prefix = prefixes; prefix != NULL; prefix = prefix->next)
    if (prefix->number == handle->handle && prefix->owner == owner && prefix->references != 0u &&
        (uintptr_t)prefix->writable == handle->device_ptr)
      return prefix;
  return NULL;
}

static NxmemStatus unknown(void) { return nx_status(NXMEM_STATUS_UNKNOWN_ALLOCATION, "prefix unknown or released"); }

/* ---- The slots -------------------------------------------------------------------------------------------------- */

NxmemStatus nx_create_prefix(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *handle_out) {
  nx_allocator *allocator = ctx;
  nx_count(NX_PROBE_PREFIX_CREATE_CALLS);
  if (allocator == NULL || nx_unusable(handle_out)) return invalid("prefix: NULL or misaligned argument");
  if (nx_is_released(allocator)) return invalid("prefix: the allocator was released");
  if (handle_out->struct_size < HANDLE_BYTES) return too_short("prefix: room for the handle");
  const NxmemStatus owned = nx_check_owner(allocator, mechanism_id, allocator->device);
  if (owned.code != NXMEM_STATUS_OK) return owned;
  if (bytes == 0u) return invalid("prefix of zero bytes");
  nx_prefix *prefix = bytes > BYTES_MAX ? NULL : make(allocator, bytes);
  if (prefix == NULL) return nx_status(NXMEM_STATUS_OUT_OF_MEMORY, "prefix");
  list_prefix(prefix);
  *handle_out = (NxmemSharedPrefixHandle){.struct_size = HANDLE_BYTES,
                                          .mechanism_id = mechanism_id,
                                          .handle = prefix->number,
                                          .device = allocator->device,
                                          .device_ptr = (uintptr_t)prefix->writable,
                                          .committed_physical_bytes = physical(prefix),
                                          .mapped_bytes = physical(prefix),
                                          .requested_bytes = bytes};
  return nx_ok();
}

NxmemStatus nx_retain_prefix(void *ctx, const NxmemSharedPrefixHandle *handle) {
  nx_count(NX_PROBE_PREFIX_RETAIN_CALLS);
  if (ctx == NULL || nx_unusable(handle)) return invalid("prefix: NULL or misaligned argument");
  const NxmemStatus checked = check_handle(ctx, handle);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  pthread_mutex_lock(&prefixes_lock);
  nx_prefix *prefix = find_locked(ctx, handle);
  if (prefix != NULL) prefix->references++;
  pthread_mutex_unlock(&prefixes_lock);
  return prefix == NULL ? unknown() : nx_ok();
}

NxmemStatus nx_release_prefix(void *ctx, const NxmemSharedPrefixHandle *handle) {
  nx_count(NX_PROBE_PREFIX_RELEASE_CALLS);
  if (ctx == NULL || nx_unusable(handle)) return invalid("prefix: NULL or misaligned argument");
  const NxmemStatus checked = check_handle(ctx, handle);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  pthread_mutex_lock(&prefixes_lock);
  nx_prefix *prefix = find_locked(ctx, handle);
  const int last = prefix != NULL && --prefix->references == 0u;
  nx_prefix *gone = last ? unlist_if_gone_locked(prefix) : NULL;
  pthread_mutex_unlock(&prefixes_lock);
  if (last) nx_uncount(NX_PROBE_LIVE_PREFIXES);
  destroy(gone);
  return prefix == NULL ? unknown() : nx_ok();
}

NxmemStatus nx_incremental_bytes(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *bytes_out) {
  nx_count(NX_PROBE_PREFIX_INCREMENTAL_CALLS);
  if (ctx == NULL || nx_unusable(handle) || nx_unusable(bytes_out)) return invalid("NULL or misaligned argument");
  const NxmemStatus checked = check_handle(ctx, handle);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  pthread_mutex_lock(&prefixes_lock);
  const nx_prefix *prefix = find_locked(ctx, handle);
  if (prefix != NULL) *bytes_out = prefix->charged ? 0u : physical(prefix);
  pthread_mutex_unlock(&prefixes_lock);
  return prefix == NULL ? unknown() : nx_ok();
}

/* ---- Commit ----------------------------------------------------------------------------------------------------- */

static NxmemStatus check_commit(nx_allocator *allocator, const NxmemSharedPrefixCommitRequest *request) {
  if (request->struct_size < COMMIT_REQUEST_BYTES) return too_short("prefix commit request");
  const NxmemStatus prefix = check_handle(allocator, &request->prefix);
  if (prefix.code != NXMEM_STATUS_OK) return prefix;
  const NxmemStatus allocation = nx_check_allocation(allocator, &request->allocation);
  if (allocation.code != NXMEM_STATUS_OK) return allocation;
  if (request->byte_offset % NX_GRANULE != 0u) return invalid("prefix: offset is not a multiple of the granule");
  return nx_ok();
}

/* By its true size, whatever the handle says. */
static int fits(const nx_prefix *prefix, const NxmemSharedPrefixCommitRequest *request) {
  return nxmem_check_range(request->byte_offset, prefix->bytes, request->allocation.bytes).reason == NXMEM_REASON_NONE;
}

/* Called with the block locked. */
static NxmemStatus commit_into(nx_span *span, const nx_allocator *owner, const NxmemSharedPrefixCommitRequest *request,
                               NxmemSharedPrefixCommitInfo *info_out) {
  int taken = 0;
  pthread_mutex_lock(&prefixes_lock);
  nx_prefix *prefix = find_locked(owner, &request->prefix);
  const int inside = prefix != NULL && fits(prefix, request);
  const int mapped = inside && nx_span_view(span, request->byte_offset, prefix, &taken);
  if (mapped) {
    const uint64_t additional = prefix->charged ? 0u : physical(prefix);
    prefix->charged = 1;
    *info_out = (NxmemSharedPrefixCommitInfo){COMMIT_INFO_BYTES, 0u, additional, physical(prefix), prefix->granules};
  }
  pthread_mutex_unlock(&prefixes_lock);
  if (mapped) return nx_ok();
  if (prefix == NULL) return unknown();
  if (!inside) return invalid("prefix leaves the allocation");
  return taken ? invalid("prefix: something is mapped there") : nx_status(NXMEM_STATUS_OUT_OF_MEMORY, "prefix");
}

NxmemStatus nx_commit_prefix(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                             NxmemSharedPrefixCommitInfo *info_out) {
  nx_count(NX_PROBE_PREFIX_COMMIT_CALLS);
  if (ctx == NULL || nx_unusable(request) || nx_unusable(info_out)) return invalid("NULL or misaligned argument");
  if (info_out->struct_size < COMMIT_INFO_BYTES) return too_short("prefix: room for the commit info");
  const NxmemStatus checked = check_commit(ctx, request);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  uint32_t code = NXMEM_STATUS_OK;
  nx_block *block = nx_block_lock(ctx, &request->allocation, &code);
  if (block == NULL) return nx_status(code, "prefix: not what was allocated");
  const NxmemStatus done = commit_into(block->span, ctx, request, info_out);
  nx_block_unlock();
  return done;
}
