/*
 * lazy_test.c: the honest mechanism with every capability: virtual backing, shared mapping, queued releases.
 *
 * Attackers played: ranges that wrap or leave, foreign and dead prefixes, short records, a host without callbacks.
 * Promise: what is said to be mapped can be read and written, what is not cannot; after each story the books are at
 * zero.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <string.h>

#include "recorder.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { G = 65536 };

static const subject lazy = {"libnxmem_scripted.so", "lazy", 31u, 31u};

typedef struct scene {
  plugin p;
  recorder r;
  const NxmemAllocatorVtable *table;
  const NxmemVirtualBackingVtable *backing;
  const NxmemSharedMappingVtable *sharing;
} scene;

typedef struct story {
  const char *name;
  void (*tell)(scene *s);
} story;

/* ---- Steps that must succeed ------------------------------------------------------------------------------------ */

static NxmemAllocation reserve(const scene *s, uint64_t id, uint64_t bytes, const NxmemByteRange *ranges,
                               uint64_t count, uint64_t mapped) {
  NxmemAllocRequest request = alloc_request(s->table, id, bytes, 64u);
  NxmemAllocResult result = alloc_result();
  request.committed_ranges = ranges;
  request.committed_range_count = count;
  uint64_t foretold = UINT64_MAX;
  assert_status(s->backing->mapped_bytes_for_allocation(s->backing->ctx, &request, &foretold), NXMEM_STATUS_OK);
  assert_int_equal(foretold, mapped);
  assert_status(s->backing->allocate_committed(s->backing->ctx, &request, &result), NXMEM_STATUS_OK);
  assert_non_null(result.ptr);
  assert_int_equal(result.owned_bytes, mapped);
  assert_int_equal(result.mapped_bytes, mapped);
  return allocation_of(&request, &result);
}

static NxmemRangeRequest range_of(const NxmemAllocation *allocation, uint64_t offset, uint64_t bytes) {
  return (NxmemRangeRequest){sizeof(NxmemRangeRequest), 0u, *allocation, {offset, bytes}};
}

static uint64_t missing(const scene *s, const NxmemAllocation *allocation, uint64_t offset, uint64_t bytes) {
  const NxmemRangeRequest request = range_of(allocation, offset, bytes);
  uint64_t mapped = UINT64_MAX;
  assert_status(s->backing->mapped_bytes_for_ranges(s->backing->ctx, &request, 1u, &mapped), NXMEM_STATUS_OK);
  return mapped;
}

static uint64_t committed(const scene *s, const NxmemAllocation *allocation) {
  uint64_t bytes = UINT64_MAX;
  assert_status(s->backing->committed_bytes(s->backing->ctx, allocation, &bytes), NXMEM_STATUS_OK);
  return bytes;
}

static void commit(const scene *s, const NxmemAllocation *allocation, uint64_t offset, uint64_t bytes) {
  const NxmemRangeRequest request = range_of(allocation, offset, bytes);
  assert_status(s->backing->commit_range(s->backing->ctx, &request), NXMEM_STATUS_OK);
}

static uint64_t decommit(const scene *s, const NxmemAllocation *allocation, uint64_t offset, uint64_t bytes) {
  const NxmemRangeRequest request = range_of(allocation, offset, bytes);
  uint64_t unmapped = UINT64_MAX;
  assert_status(s->backing->decommit_range(s->backing->ctx, &request, &unmapped), NXMEM_STATUS_OK);
  return unmapped;
}

/* Which granules can be read, as a word of bits. */
static uint32_t accessible(const NxmemAllocation *allocation) {
  uint32_t bits = 0u;
  for (uint32_t i = 0u; i * (uint64_t)G < allocation->bytes; i++)
    bits |= (uint32_t)(readable(allocation->ptr + i * (uint64_t)G, 1u) == 1u) << i;
  return bits;
}

static NxmemSharedPrefixHandle unwritten_handle(void) {
  NxmemSharedPrefixHandle handle;
  memset(&handle, 0xFF, sizeof handle);
  handle.struct_size = sizeof handle;
  return handle;
}

static NxmemSharedPrefixHandle make_prefix(const scene *s, uint64_t bytes) {
  NxmemSharedPrefixHandle handle = unwritten_handle();
  const uint64_t rounded = (bytes + G - 1u) / G * G;
  assert_status(s->sharing->create_shared_prefix(s->sharing->ctx, s->table->mechanism_id, bytes, &handle),
                NXMEM_STATUS_OK);
  assert_int_equal(handle.struct_size, 64u);
  assert_int_equal(handle.mechanism_id, s->table->mechanism_id);
  assert_int_not_equal(handle.handle, 0u);
  assert_int_equal(handle.device.tier, NXMEM_TIER_HOST);
  assert_int_equal(handle.requested_bytes, bytes);
  assert_int_equal(handle.committed_physical_bytes, rounded);
  assert_int_equal(handle.mapped_bytes, rounded);
  return handle;
}

static uint64_t increment(const scene *s, const NxmemSharedPrefixHandle *handle) {
  uint64_t bytes = UINT64_MAX;
  assert_status(s->sharing->incremental_owned_bytes(s->sharing->ctx, handle, &bytes), NXMEM_STATUS_OK);
  return bytes;
}

static NxmemStatus share(const scene *s, const NxmemSharedPrefixHandle *handle, const NxmemAllocation *allocation,
                         uint64_t offset, NxmemSharedPrefixCommitInfo *info) {
  const NxmemSharedPrefixCommitRequest request = {sizeof request, 0u, *handle, *allocation, offset};
  *info = (NxmemSharedPrefixCommitInfo){sizeof *info, 0u, UINT64_MAX, UINT64_MAX, UINT64_MAX};
  return s->sharing->commit_shared_prefix(s->sharing->ctx, &request, info);
}

static void assert_shared(const scene *s, const NxmemSharedPrefixHandle *handle, const NxmemAllocation *allocation,
                          uint64_t offset, uint64_t additional) {
  NxmemSharedPrefixCommitInfo info;
  assert_status(share(s, handle, allocation, offset, &info), NXMEM_STATUS_OK);
  assert_int_equal(info.additional_owned_bytes, additional);
  assert_int_equal(info.newly_mapped_bytes, handle->mapped_bytes);
  assert_int_equal(info.granules, handle->mapped_bytes / G);
}

static void drop_prefix(const scene *s, const NxmemSharedPrefixHandle *handle) {
  assert_status(s->sharing->release_shared_prefix(s->sharing->ctx, handle), NXMEM_STATUS_OK);
}

/* ---- Backing ---------------------------------------------------------------------------------------------------- */

static void whole_allocation(scene *s) {
  const NxmemAllocation a = take(s->table, 1u, 3u * G + 1u, 4096u);
  assert_int_equal(accessible(&a), 15u);
  memset(a.ptr, 0x5A, a.bytes);
  assert_int_equal(committed(s, &a), 4u * G);
  assert_int_equal(give_back(s->table, &a), 4u * G);
  assert_int_equal(readable(a.ptr, 1u), 0u);
}

/* 1 TiB costs nothing until something of it is committed. */
static void reserves_a_tebibyte(scene *s) {
  const NxmemAllocation a = reserve(s, 1u, 1ull << 40, NULL, 0u, 0u);
  assert_int_equal(committed(s, &a), 0u);
  assert_int_equal(readable(a.ptr, 1u), 0u);
  commit(s, &a, (1ull << 40) - 1u, 1u);
  assert_int_equal(committed(s, &a), G);
  a.ptr[(1ull << 40) - 1u] = 7u;
  assert_int_equal(give_back(s->table, &a), G);
}

static void ranges_at_birth(scene *s) {
  const NxmemByteRange ranges[] = {{0u, 1u}, {10u, 100u}, {3u * G - 1u, 2u}};
  const NxmemAllocation a = reserve(s, 1u, 8u * G, ranges, COUNT(ranges), 3u * G);
  assert_int_equal(accessible(&a), 0x0Du);
  assert_int_equal(give_back(s->table, &a), 3u * G);
}

static void commits_and_decommits(scene *s) {
  const NxmemAllocation a = reserve(s, 1u, 8u * G, NULL, 0u, 0u);
  assert_int_equal(missing(s, &a, G + 5u, G), 2u * G);
  commit(s, &a, G + 5u, G);
  assert_int_equal(accessible(&a), 0x06u);
  a.ptr[G] = 9u;
  assert_int_equal(missing(s, &a, 0u, 4u * G), 2u * G);
  commit(s, &a, 0u, 4u * G);
  assert_int_equal(a.ptr[G], 9u); /* what was mapped was not mapped over */
  assert_int_equal(missing(s, &a, 0u, 4u * G), 0u);
  assert_int_equal(committed(s, &a), 4u * G);
  assert_int_equal(decommit(s, &a, 1u, 2u * G), G); /* granule 1 alone lies wholly inside */
  assert_int_equal(accessible(&a), 0x0Du);
  assert_int_equal(decommit(s, &a, 1u, 2u * G), 0u);
  commit(s, &a, G, 1u);
  assert_int_equal(a.ptr[G], 0u); /* its memory really went */
  assert_int_equal(decommit(s, &a, 0u, 8u * G), 4u * G);
  assert_int_equal(accessible(&a), 0u);
  assert_int_equal(s->p.probe(NX_PROBE_GRANULES_MAPPED), 0u);
  assert_int_equal(give_back(s->table, &a), 0u);
}

/* The last granule ends with the allocation, though that is not a multiple of it. */
static void decommits_the_odd_end(scene *s) {
  const NxmemAllocation a = take(s->table, 1u, G + 100u, 64u);
  assert_int_equal(decommit(s, &a, G, 99u), 0u);
  assert_int_equal(decommit(s, &a, G, 100u), G);
  assert_int_equal(give_back(s->table, &a), G);
}

static void counts_a_granule_once(scene *s) {
  const NxmemAllocation a = reserve(s, 1u, 4u * G, NULL, 0u, 0u);
  const NxmemAllocation b = reserve(s, 2u, 4u * G, NULL, 0u, 0u);
  const NxmemRangeRequest requests[] = {range_of(&a, 0u, 1u), range_of(&b, 0u, 1u), range_of(&a, 1u, G),
                                        range_of(&a, 0u, 4u * G)};
  uint64_t mapped = UINT64_MAX;
  assert_status(s->backing->mapped_bytes_for_ranges(s->backing->ctx, requests, COUNT(requests), &mapped),
                NXMEM_STATUS_OK);
  assert_int_equal(mapped, 5u * G);
  assert_int_equal(committed(s, &a) + committed(s, &b), 0u); /* asking maps nothing */
  give_back(s->table, &a);
  give_back(s->table, &b);
}

/* ---- Sharing ---------------------------------------------------------------------------------------------------- */

static void shares_a_prefix(scene *s) {
  const NxmemSharedPrefixHandle prefix = make_prefix(s, G + 3u);
  strcpy((char *)(uintptr_t)prefix.device_ptr, "once");
  const NxmemAllocation a = reserve(s, 1u, 4u * G, NULL, 0u, 0u);
  const NxmemAllocation b = reserve(s, 2u, 4u * G, NULL, 0u, 0u);
  assert_int_equal(increment(s, &prefix), 2u * G);
  assert_shared(s, &prefix, &a, G, 2u * G);
  assert_int_equal(increment(s, &prefix), 0u);
  assert_shared(s, &prefix, &b, 0u, 0u);
  assert_string_equal((const char *)a.ptr + G, "once");
  assert_string_equal((const char *)b.ptr, "once");
  assert_int_equal(committed(s, &a), 2u * G);
  assert_report(&s->p, 1u, 2u, 2u, 1u, 0u);
  drop_prefix(s, &prefix);
  assert_report(&s->p, 1u, 2u, 2u, 0u, 0u);
  assert_string_equal((const char *)b.ptr, "once"); /* the views keep it */
  assert_int_equal(give_back(s->table, &a), 2u * G);
  assert_int_equal(decommit(s, &b, 0u, G), G);
  assert_report(&s->p, 1u, 1u, 1u, 0u, 0u);
  assert_int_equal(decommit(s, &b, G, G), G);
  assert_report(&s->p, 1u, 1u, 0u, 0u, 0u);
  give_back(s->table, &b);
}

static void a_view_is_read_only(scene *s) {
  const NxmemSharedPrefixHandle prefix = make_prefix(s, 1u);
  const NxmemAllocation a = reserve(s, 1u, G, NULL, 0u, 0u);
  assert_shared(s, &prefix, &a, 0u, G);
  assert_int_equal(readable(a.ptr, 1u), 1u);
  assert_false(writable(a.ptr));
  drop_prefix(s, &prefix);
  give_back(s->table, &a);
}

static void references_of_a_prefix(scene *s) {
  const NxmemSharedPrefixHandle prefix = make_prefix(s, 1u);
  assert_status(s->sharing->retain_shared_prefix(s->sharing->ctx, &prefix), NXMEM_STATUS_OK);
  drop_prefix(s, &prefix);
  assert_report(&s->p, 1u, 0u, 0u, 1u, 0u);
  drop_prefix(s, &prefix);
  assert_report(&s->p, 1u, 0u, 0u, 0u, 0u);
  assert_status(s->sharing->release_shared_prefix(s->sharing->ctx, &prefix), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_status(s->sharing->retain_shared_prefix(s->sharing->ctx, &prefix), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  uint64_t bytes = UINT64_MAX;
  assert_status(s->sharing->incremental_owned_bytes(s->sharing->ctx, &prefix, &bytes), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_int_equal(bytes, UINT64_MAX);
}

static void refused_shares(scene *s) {
  const NxmemSharedPrefixHandle prefix = make_prefix(s, 2u * G);
  const NxmemAllocation a = reserve(s, 1u, 4u * G, NULL, 0u, 0u);
  NxmemSharedPrefixCommitInfo info;
  assert_status(share(s, &prefix, &a, 3u * G, &info), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_status(share(s, &prefix, &a, UINT64_MAX - G + 1u, &info), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_status(share(s, &prefix, &a, 1u, &info), NXMEM_STATUS_INVALID_ARGUMENT);
  commit(s, &a, G, 1u);
  a.ptr[G] = 9u;
  assert_status(share(s, &prefix, &a, 0u, &info), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(info.additional_owned_bytes, UINT64_MAX);
  assert_int_equal(a.ptr[G], 9u);
  NxmemSharedPrefixHandle other = prefix;
  other.device_ptr += G;
  assert_status(share(s, &other, &a, 2u * G, &info), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  other = prefix;
  other.mechanism_id++;
  assert_status(share(s, &other, &a, 2u * G, &info), NXMEM_STATUS_WRONG_MECHANISM);
  other = prefix;
  other.device.index++;
  assert_status(share(s, &other, &a, 2u * G, &info), NXMEM_STATUS_WRONG_DEVICE);
  assert_int_equal(increment(s, &prefix), 2u * G); /* nothing was charged */
  drop_prefix(s, &prefix);
  give_back(s->table, &a);
}

static void a_siblings_prefix(scene *s) {
  const NxmemAllocatorVtable *sibling = plugin_open(&s->p);
  const NxmemSharedPrefixHandle prefix = make_prefix(s, G);
  assert_int_equal(sibling->mechanism_id, s->table->mechanism_id);
  const NxmemSharedMappingVtable *other = sibling->shared_mapping;
  assert_status(other->retain_shared_prefix(other->ctx, &prefix), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_status(other->release_shared_prefix(other->ctx, &prefix), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  sibling->release(sibling->ctx);
  drop_prefix(s, &prefix);
}

/* ---- Queued releases -------------------------------------------------------------------------------------------- */

static void queue_in_order(scene *s) {
  NxmemAllocation blocks[5];
  uint64_t tickets[5];
  for (uint64_t i = 0u; i < 5u; i++) blocks[i] = take(s->table, 10u + i, 1u + i * 1000u, 64u);
  for (uint64_t i = 0u; i < 5u; i++) tickets[i] = enqueue(s->table, &blocks[i]);
  assert_report(&s->p, 1u, 0u, 0u, 0u, 5u);
  assert_int_equal(pending(s->table), 5u);
  assert_int_equal(drain(s->table, 0u), 0u);
  assert_int_equal(drain(s->table, 2u), 2u);
  assert_int_equal(pending(s->table), 3u);
  assert_int_equal(drain(s->table, UINT64_MAX), 3u);
  assert_int_equal(drain(s->table, UINT64_MAX), 0u);
  assert_int_equal(s->r.completions, 5u);
  for (uint64_t i = 0u; i < 5u; i++) assert_true_completion(&s->r.completion[i], &blocks[i], tickets[i]);
  for (uint64_t i = 1u; i < 5u; i++) assert_true(tickets[i] > tickets[i - 1u]);
  assert_int_equal(readable(blocks[0].ptr, 1u), 0u);
}

/* From inside a completion: no lock is held, and a second drain waits for nothing. */
static void drain_inside(recorder *r) {
  assert_int_equal(drain(r->table, UINT64_MAX), 0u);
  assert_true(pending(r->table) > 0u);
  const NxmemAllocation other = take(r->table, 100u + r->completions, 64u, 16u);
  give_back(r->table, &other);
}

static void drains_inside_a_completion(scene *s) {
  s->r.inside = drain_inside;
  for (uint64_t i = 0u; i < 3u; i++) {
    const NxmemAllocation a = take(s->table, 10u + i, 64u, 16u);
    enqueue(s->table, &a);
  }
  assert_int_equal(drain(s->table, UINT64_MAX), 3u);
  assert_int_equal(s->r.completions, 3u);
}

static void queued_twice(scene *s) {
  const NxmemAllocation a = take(s->table, 1u, 64u, 16u);
  uint64_t ticket = UINT64_MAX;
  enqueue(s->table, &a);
  assert_status(s->table->enqueue_release(s->table->ctx, &a, &ticket), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_int_equal(ticket, UINT64_MAX);
  uint64_t unmapped = UINT64_MAX;
  assert_status(s->table->deallocate(s->table->ctx, &a, &unmapped), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  const NxmemRangeRequest range = range_of(&a, 0u, 1u);
  assert_status(s->backing->commit_range(s->backing->ctx, &range), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_int_equal(drain(s->table, 1u), 1u);
}

static void queue_without_callbacks(scene *s) {
  const NxmemAllocatorVtable *mute = plugin_open(&s->p);
  const NxmemAllocation a = take(mute, 1u, 64u, 16u);
  uint64_t ticket = UINT64_MAX;
  assert_status(mute->enqueue_release(mute->ctx, &a, &ticket), NXMEM_STATUS_UNSUPPORTED_CAPABILITY);
  assert_int_equal(ticket, UINT64_MAX);
  give_back(mute, &a);
  mute->release(mute->ctx);
}

/* ---- Threads ---------------------------------------------------------------------------------------------------- */

enum { ROUNDS = 400, WORKERS = 4 };

typedef struct worker {
  const scene *s;
  const NxmemSharedPrefixHandle *prefix;
  uint64_t first_id;
  uint32_t failures;
} worker;

static uint32_t one_life(const worker *w, uint64_t id) {
  const scene *s = w->s;
  NxmemAllocRequest request = alloc_request(s->table, id, 6u * G, 64u);
  NxmemAllocResult result = alloc_result();
  if (s->backing->allocate_committed(s->backing->ctx, &request, &result).code != NXMEM_STATUS_OK) return 1u;
  const NxmemAllocation a = allocation_of(&request, &result);
  const NxmemRangeRequest range = range_of(&a, 4u * G, G);
  NxmemSharedPrefixCommitInfo info;
  uint64_t bytes = 0u;
  uint32_t bad = s->backing->commit_range(s->backing->ctx, &range).code != NXMEM_STATUS_OK;
  a.ptr[4u * G] = 1u;
  bad += share(s, w->prefix, &a, 0u, &info).code != NXMEM_STATUS_OK || a.ptr[0] != 77u;
  bad += s->backing->decommit_range(s->backing->ctx, &range, &bytes).code != NXMEM_STATUS_OK || bytes != G;
  if (id % 2u == 0u) return bad + (s->table->deallocate(s->table->ctx, &a, &bytes).code != NXMEM_STATUS_OK);
  bad += s->table->enqueue_release(s->table->ctx, &a, &bytes).code != NXMEM_STATUS_OK;
  return bad + (s->table->drain_releases(s->table->ctx, 2u, &bytes).code != NXMEM_STATUS_OK);
}

static void *work(void *argument) {
  worker *w = argument;
  for (uint64_t i = 0u; i < ROUNDS; i++) w->failures += one_life(w, w->first_id + i);
  return NULL;
}

static pthread_mutex_t completions_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t completions_seen;

static NxmemStatus count_completion(void *host_ctx, const NxmemReleaseCompletion *completion) {
  (void)host_ctx;
  pthread_mutex_lock(&completions_lock);
  completions_seen += completion->struct_size == 328u;
  pthread_mutex_unlock(&completions_lock);
  return (NxmemStatus){NXMEM_STATUS_OK, 0u, {0}};
}

static void four_threads(scene *s) {
  worker workers[WORKERS];
  pthread_t threads[WORKERS];
  const NxmemSharedPrefixHandle prefix = make_prefix(s, 2u * G);
  *(uint8_t *)(uintptr_t)prefix.device_ptr = 77u;
  s->r.callbacks.release_completed = count_completion;
  completions_seen = 0u;
  for (uint64_t i = 0u; i < WORKERS; i++) workers[i] = (worker){s, &prefix, 1u + (i << 32), 0u};
  for (int i = 0; i < WORKERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  for (int i = 0; i < WORKERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < WORKERS; i++) assert_int_equal(workers[i].failures, 0u);
  (void)drain(s->table, UINT64_MAX);
  assert_int_equal(completions_seen, (uint64_t)WORKERS * ROUNDS / 2u);
  drop_prefix(s, &prefix);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

static const story stories[] = {
    {"an allocation that is committed whole", whole_allocation},
    {"a tebibyte reserved, one byte committed", reserves_a_tebibyte},
    {"ranges committed with the allocation", ranges_at_birth},
    {"committed, decommitted, committed again", commits_and_decommits},
    {"the odd end of an allocation decommitted", decommits_the_odd_end},
    {"a granule of two ranges counted once", counts_a_granule_once},
    {"a prefix in two allocations", shares_a_prefix},
    {"a view is read-only", a_view_is_read_only},
    {"a prefix retained and released", references_of_a_prefix},
    {"prefixes that may not be mapped", refused_shares},
    {"a sibling's prefix", a_siblings_prefix},
    {"five releases in order", queue_in_order},
    {"a drain inside a completion", drains_inside_a_completion},
    {"a release queued twice", queued_twice},
    {"a queue without callbacks", queue_without_callbacks},
    {"four threads, every capability", four_threads},
};

static void run_story(const subject *sub, const void *data) {
  static scene s;
  const story *row = data;
  memset(&s, 0, sizeof s);
  plugin_load(&s.p, sub->file);
  plugin_find(&s.p, sub->mechanism);
  recorder_start(&s.r);
  s.table = recorder_open(&s.r, &s.p);
  s.backing = s.table->virtual_backing;
  s.sharing = s.table->shared_mapping;
  row->tell(&s);
  assert_books(&s.p, 1u, 0u);
  assert_int_equal(s.p.probe(NX_PROBE_GRANULES_MAPPED), 0u);
  s.table->release(s.table->ctx);
  assert_books(&s.p, 0u, 0u);
  plugin_close(&s.p);
}

int main(void) {
  for (size_t i = 0u; i < COUNT(stories); i++) add_case(&lazy, "life", &stories[i], run_story);
  return run_added("lazy mechanism");
}
