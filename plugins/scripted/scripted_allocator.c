/*
 * scripted_allocator.c: opening an allocator of a row, and the honest slots behind its table.
 *
 * Attackers: none by intent; a host with short, NULL, stale or foreign arguments is answered as the contract says.
 * Promise: every argument is checked before anything is touched; a call behind the last release is counted, not obeyed.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "nxmem/identity.h"
#include "nxmem/outcome.h"
#include "nxmem/prefix.h"
#include "nxmem/status.h"
#include "scripted_lazy.h"
#include "scripted_open.h"
#include "scripted_queue.h"
#include "scripted_span.h"

enum { OPEN_REQUEST_BYTES = 32, ALLOC_REQUEST_BYTES = 64, ALLOC_RESULT_BYTES = 32, ALLOCATION_BYTES = 56 };
enum { OUTCOME_BYTES = 296 };

/* Protects the lists below, and of each allocator what links it and its `references` and `row`. */
static pthread_mutex_t opened = PTHREAD_MUTEX_INITIALIZER;
static nx_allocator *allocators;
static nx_allocator *released_first; /* the longest ago */
static nx_allocator *released_last;
static uint64_t released_count;

/* Every letter counts, so that no two rows share a number. */
uint64_t nx_mechanism_id(const nx_mechanism *row) {
  uint64_t id = 0xCBF29CE484222325ull; /* FNV-1a */
  for (const char *c = row->name; *c != '\0'; c++) id = (id ^ (uint8_t)*c) * 0x100000001B3ull;
  return id | 1u;
}

static NxmemStatus invalid(const char *text) { return nx_status(NXMEM_STATUS_INVALID_ARGUMENT, text); }
static NxmemStatus too_short(const char *text) { return nx_status(NXMEM_STATUS_SHORT_STRUCT, text); }

/* ---- References ------------------------------------------------------------------------------------------------- */

/* Change the references of an allocator that has any; returns what is left, UINT64_MAX for a stray call. */
static uint64_t refer(nx_allocator *allocator, uint64_t delta) {
  pthread_mutex_lock(&opened);
  const int stray = allocator->references == 0u;
  if (!stray) allocator->references += delta;
  const uint64_t left = stray ? UINT64_MAX : allocator->references;
  pthread_mutex_unlock(&opened);
  if (stray) nx_count(NX_PROBE_STRAY_ALLOCATOR_CALLS);
  return left;
}

static void retain_slot(void *ctx) {
  nx_count(NX_PROBE_RETAIN_CALLS);
  if (ctx != NULL) (void)refer(ctx, 1u);
}

static void unplace_tables(nx_allocator *allocator) {
  nx_unplace(&allocator->table);
  nx_unplace(&allocator->backing);
  nx_unplace(&allocator->sharing);
}

static void remember(nx_allocator *allocator) {
  pthread_mutex_lock(&opened);
  if (released_first == NULL)
    released_first = allocator;
  else
    released_last->released_next = allocator;
  released_last = allocator;
  released_count++;
  pthread_mutex_unlock(&opened);
}

/* What is named, runs a thread or has something to do in a report is never forgotten. */
static int is_over(const nx_allocator *allocator) {
  return atomic_load(&allocator->named_by) == 0u && atomic_load(&allocator->thread_state) == 0 &&
         allocator->state == NULL && allocator->row->after_drop == NULL;
}

/* One that was released long ago, to be used anew; NULL: there is none. It stays in the list of all. */
static nx_allocator *forget_locked(void) {
  while (released_count > NX_REMEMBERED) {
    nx_allocator *oldest = released_first;
    released_first = oldest->released_next;
    released_count--;
    oldest->released_next = NULL;
    if (is_over(oldest)) return oldest;
  }
  return NULL;
}

static void release_slot(void *ctx) {
  nx_allocator *allocator = ctx;
  if (allocator == NULL || refer(allocator, UINT64_MAX) != 0u) return;
  if (allocator->row->last_release != NULL) allocator->row->last_release(allocator);
  unplace_tables(allocator);
  remember(allocator);
  nx_count(NX_PROBE_ALLOCATORS_RELEASED);
}

int nx_is_released(nx_allocator *allocator) { return refer(allocator, 0u) == UINT64_MAX; }

uint64_t nx_turn(nx_allocator *allocator) { return atomic_fetch_add(&allocator->turns, 1u); }

/* Allocators are only ever added in front, and their memory stays until the module goes: the list may be walked at any time. */
static nx_allocator *first_allocator(void) {
  pthread_mutex_lock(&opened);
  nx_allocator *first = allocators;
  pthread_mutex_unlock(&opened);
  return first;
}

typedef enum standing { OPEN, DROPPED } standing;

static int is_of_row(const nx_allocator *allocator, const nx_mechanism *row, standing wanted) {
  pthread_mutex_lock(&opened);
  const int fits = allocator->row == row && (allocator->references != 0u) == (wanted == OPEN);
  pthread_mutex_unlock(&opened);
  return fits;
}

static nx_allocator *other_of_row(const nx_allocator *allocator, standing wanted) {
  for (nx_allocator *a = first_allocator(); a != NULL; a = a->next)
    if (a != allocator && is_of_row(a, allocator->row, wanted)) return a;
  return NULL;
}

nx_allocator *nx_sibling_of(const nx_allocator *allocator) { return other_of_row(allocator, OPEN); }
nx_allocator *nx_dropped_sibling_of(const nx_allocator *allocator) { return other_of_row(allocator, DROPPED); }

/* A row that has something to do then keeps its allocators: they are not used anew meanwhile. */
static int has_report_work(const nx_allocator *allocator) {
  pthread_mutex_lock(&opened);
  const int work = allocator->references == 0u && allocator->row->after_drop != NULL;
  pthread_mutex_unlock(&opened);
  return work;
}

void nx_visit_dropped(void) {
  for (nx_allocator *a = first_allocator(); a != NULL; a = a->next)
    if (has_report_work(a)) a->row->after_drop(a);
}

/* ---- What every slot checks first ------------------------------------------------------------------------------- */

int nx_unusable(const void *record) { return nxmem_check_table_address((uintptr_t)record).reason != NXMEM_REASON_NONE; }

NxmemStatus nx_check_owner(const nx_allocator *allocator, uint64_t mechanism_id, NxmemDeviceId device) {
  const nxmem_verdict same = nxmem_check_identity(mechanism_id, device, allocator->mechanism_id, allocator->device);
  return same.reason == NXMEM_REASON_NONE ? nx_ok() : nx_status(nxmem_reason_status(same.reason), "another's object");
}

NxmemStatus nx_check_allocation(nx_allocator *allocator, const NxmemAllocation *allocation) {
  if (nx_is_released(allocator)) return invalid("the allocator was released");
  if (allocation->struct_size < ALLOCATION_BYTES) return too_short("allocation below 56 bytes");
  return nx_check_owner(allocator, allocation->mechanism_id, allocation->device);
}

/* ---- Allocate --------------------------------------------------------------------------------------------------- */

/* Also what the two calls of the backing table check that take such a request. */
NxmemStatus nx_check_request(nx_allocator *allocator, const NxmemAllocRequest *request) {
  if (nx_is_released(allocator)) return invalid("allocate: the allocator was released");
  if (request->struct_size < ALLOC_REQUEST_BYTES) return too_short("allocate: request");
  const NxmemStatus identity = nx_check_owner(allocator, request->mechanism_id, request->device);
  if (identity.code != NXMEM_STATUS_OK) return identity;
  const nxmem_verdict size = nxmem_check_alloc_request(request->bytes, request->align);
  return nx_status(nxmem_reason_status(size.reason), size.reason == NXMEM_REASON_NONE ? "" : "allocate: size");
}

NxmemStatus nx_check_result_room(const NxmemAllocResult *result_out) {
  return result_out->struct_size < ALLOC_RESULT_BYTES ? too_short("allocate: room for the result") : nx_ok();
}

NxmemStatus nx_begin_allocate(void *ctx, const NxmemAllocRequest *request, const NxmemAllocResult *result_out) {
  nx_count(NX_PROBE_ALLOCATE_CALLS);
  if (ctx == NULL || nx_unusable(request) || nx_unusable(result_out))
    return invalid("allocate: NULL or misaligned argument");
  const NxmemStatus room = nx_check_result_room(result_out);
  return room.code == NXMEM_STATUS_OK ? nx_check_request(ctx, request) : room;
}

void nx_write_result(NxmemAllocResult *result_out, uint8_t *ptr, uint64_t owned_bytes, uint64_t mapped_bytes) {
  *result_out = (NxmemAllocResult){ALLOC_RESULT_BYTES, 0u, ptr, owned_bytes, mapped_bytes};
}

NxmemStatus nx_allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus begun = nx_begin_allocate(ctx, request, result_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  if (((const nx_allocator *)ctx)->row->lazy) return nx_allocate_span(ctx, request, 1, result_out);
  uint32_t code = NXMEM_STATUS_OK;
  const nx_block *block = nx_block_new(ctx, request, 0u, &code);
  if (block == NULL) return nx_status(code, "allocate: no memory, or the id is live already");
  nx_write_result(result_out, block->ptr, request->bytes, request->bytes);
  return nx_ok();
}

/* ---- Release ---------------------------------------------------------------------------------------------------- */

static NxmemStatus begin_give_back(void *ctx, const NxmemAllocation *allocation, const void *out) {
  if (ctx == NULL || nx_unusable(allocation) || nx_unusable(out))
    return invalid("release: NULL or misaligned argument");
  return nx_check_allocation(ctx, allocation);
}

NxmemStatus nx_begin_deallocate(void *ctx, const NxmemAllocation *allocation, const uint64_t *unmapped_bytes_out) {
  nx_count(NX_PROBE_DEALLOCATE_CALLS);
  return begin_give_back(ctx, allocation, unmapped_bytes_out);
}

NxmemStatus nx_deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_bytes_out) {
  const NxmemStatus begun = nx_begin_deallocate(ctx, allocation, unmapped_bytes_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  uint32_t code = NXMEM_STATUS_OK;
  nx_block *block = nx_block_take(ctx, allocation, &code);
  if (block == NULL) return nx_status(code, "deallocate: not what was allocated");
  *unmapped_bytes_out = nx_block_mapped(block);
  nx_block_free(block);
  return nx_ok();
}

NxmemStatus nx_begin_release(void *ctx, const NxmemAllocation *allocation, const NxmemReleaseOutcome *outcome_out) {
  nx_count(NX_PROBE_RELEASE_ALLOCATION_CALLS);
  const NxmemStatus begun = begin_give_back(ctx, allocation, outcome_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  return outcome_out->struct_size < OUTCOME_BYTES ? too_short("release: room for the outcome") : begun;
}

void nx_write_outcome(NxmemReleaseOutcome *outcome_out, uint32_t state, uint64_t bytes, uint64_t unmapped_bytes,
                      uint64_t residual_owned_bytes, NxmemStatus failure) {
  *outcome_out = (NxmemReleaseOutcome){OUTCOME_BYTES, state, bytes, unmapped_bytes, residual_owned_bytes, failure};
}

NxmemStatus nx_release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome_out) {
  const NxmemStatus begun = nx_begin_release(ctx, allocation, outcome_out);
  if (begun.code != NXMEM_STATUS_OK) return begun;
  uint32_t code = NXMEM_STATUS_OK;
  nx_block *block = nx_block_take(ctx, allocation, &code);
  if (block == NULL) return nx_status(code, "release: not what was allocated");
  const uint64_t unmapped = nx_block_mapped(block);
  nx_block_free(block);
  nx_write_outcome(outcome_out, NXMEM_RELEASE_COMPLETE, allocation->bytes, unmapped, 0u, nx_ok());
  return nx_ok();
}

/* ---- Open ------------------------------------------------------------------------------------------------------- */

/* Everything but its places in the lists. */
static void start_locked(nx_allocator *allocator, const nx_mechanism *row, NxmemDeviceId device,
                         const NxmemOpenRequest *request) {
  allocator->row = row;
  allocator->mechanism_id = nx_mechanism_id(row);
  allocator->device = device;
  allocator->host_minor = request->abi_minor;
  allocator->callbacks = request->callbacks;
  allocator->host_ctx = nx_host_ctx_of(request->callbacks);
  allocator->references = row->stateless ? 0u : 1u;
  atomic_store(&allocator->turns, 0u);
  allocator->spare_backing = (NxmemVirtualBackingVtable){.struct_size = NX_BACKING_BYTES,
                                                         .abi_minor = NX_MINOR,
                                                         .mechanism_id = allocator->mechanism_id,
                                                         .ctx = allocator};
}

static nx_allocator *make_allocator(const nx_mechanism *row, NxmemDeviceId device, const NxmemOpenRequest *request) {
  pthread_mutex_lock(&opened);
  nx_allocator *allocator = forget_locked();
  const int fresh = allocator == NULL;
  if (fresh) allocator = calloc(1u, sizeof *allocator);
  if (allocator != NULL) start_locked(allocator, row, device, request);
  if (allocator != NULL && fresh) {
    allocator->next = allocators;
    allocators = allocator;
  }
  pthread_mutex_unlock(&opened);
  return allocator;
}

static int has(const nx_allocator *allocator, uint64_t capability) {
  return (allocator->row->capability_flags & capability) != 0u;
}

/* The tables and slots of the capabilities that the row declares. */
static void add_capabilities(nx_allocator *allocator, NxmemAllocatorVtable *table) {
  if (has(allocator, NXMEM_CAP_STRUCTURED_RELEASE)) table->release_allocation = nx_release_allocation;
  if (has(allocator, NXMEM_CAP_VIRTUAL_BACKING)) table->virtual_backing = nx_publish_backing(allocator);
  if (has(allocator, NXMEM_CAP_SHARED_MAPPING)) table->shared_mapping = nx_publish_sharing(allocator);
  if (!has(allocator, NXMEM_CAP_DEFERRED_RELEASE)) return;
  table->enqueue_release = nx_enqueue_release;
  table->drain_releases = nx_drain_releases;
  table->pending_release_count = nx_pending_release_count;
}

static void publish_table(nx_allocator *allocator) {
  const nx_mechanism *row = allocator->row;
  NxmemAllocatorVtable table = {.struct_size = row->struct_size,
                                .abi_minor = row->abi_minor,
                                .mechanism_id = allocator->mechanism_id,
                                .device = allocator->device,
                                .capability_flags = row->capability_flags,
                                .name = (const uint8_t *)row->name,
                                .ctx = allocator,
                                .allocate = nx_allocate,
                                .deallocate = nx_deallocate,
                                .retain = retain_slot,
                                .release = release_slot};
  add_capabilities(allocator, &table);
  if (row->spoil != NULL) row->spoil(&table);
  allocator->table = nx_place_table(row->place, row->table_bytes, &table, NX_ALLOCATOR_BYTES);
}

static NxmemStatus check_open(const nx_mechanism *row, NxmemDeviceId device, const NxmemOpenRequest *request,
                              const NxmemAllocatorVtable **out) {
  if (nx_unusable(request) || nx_unusable(out)) return invalid("open: NULL or misaligned argument");
  if (request->struct_size < OPEN_REQUEST_BYTES) return too_short("open: request");
  if (!nxmem_same_device(request->device, device)) return nx_status(NXMEM_STATUS_WRONG_DEVICE, "open: device");
  if ((request->required_capability_flags & ~row->capability_flags) != 0u)
    return nx_status(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "open: a required capability is not there");
  return nx_ok();
}

NxmemStatus nx_open(const nx_mechanism *row, NxmemDeviceId device, const NxmemOpenRequest *request,
                    const NxmemAllocatorVtable **out) {
  const NxmemStatus checked = check_open(row, device, request, out);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  nx_note(NX_PROBE_OPEN_MINOR, request->abi_minor);
  nx_note(NX_PROBE_OPEN_CALLBACKS, request->callbacks != NULL);
  if (row->open != NULL) return row->open(out);
  nx_allocator *allocator = make_allocator(row, device, request);
  if (allocator != NULL) publish_table(allocator);
  if (allocator == NULL || allocator->table.bytes == NULL) return nx_status(NXMEM_STATUS_OUT_OF_MEMORY, "open");
  if (!row->stateless) nx_count(NX_PROBE_ALLOCATORS_OPENED);
  if (row->published != NULL) row->published(allocator);
  *out = (const NxmemAllocatorVtable *)allocator->table.bytes;
  return nx_ok();
}

__attribute__((destructor)) static void free_allocators(void) {
  while (allocators != NULL) {
    nx_allocator *allocator = allocators;
    allocators = allocator->next;
    nx_queue_discard(allocator);
    unplace_tables(allocator);
    free(allocator->state);
    free(allocator);
  }
}
