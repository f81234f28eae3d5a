/*
 * lazy_test.c: the honest mechanism with every capability: virtual backing, shared mapping, queued releases.
 *
 * Attackers played: ranges that wrap or leave, foreign and dead prefixes, short records, a host without callbacks.
 * Promise: what is said to be mapped can be read and written, what is not cannot; after each story the books are at
 * zero.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backing.h"
#include "recorder.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { G = GRANULE };

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

/* ---- Backing ---------------------------------------------------------------------------------------------------- */

static void whole_allocation(scene *s) {
  const NxmemAllocation a = take(s->table, 1u, 3u * G + 1u, 4096u);
  assert_int_equal(accessible(&a), 15u);
  memset(a.ptr, 0x5A, a.bytes);
  assert_int_equal(committed(s->table, &a), 4u * G);
  assert_int_equal(give_back(s->table, &a), 4u * G);
  assert_int_equal(readable(a.ptr, 1u), 0u);
}

/* 64 GiB cost nothing until something of them is committed. A sanitizer leaves no room for much more. */
static void reserves_plenty(scene *s) {
  const NxmemAllocation a = reserve(s->table, 1u, 1ull << 36, NULL, 0u, 0u);
  assert_int_equal(committed(s->table, &a), 0u);
  assert_int_equal(readable(a.ptr, 1u), 0u);
  commit(s->table, &a, (1ull << 36) - 1u, 1u);
  assert_int_equal(committed(s->table, &a), G);
  a.ptr[(1ull << 36) - 1u] = 7u;
  assert_int_equal(give_back(s->table, &a), G);
}

static void ranges_at_birth(scene *s) {
  const NxmemByteRange ranges[] = {{0u, 1u}, {10u, 100u}, {3u * G - 1u, 2u}};
  const NxmemAllocation a = reserve(s->table, 1u, 8u * G, ranges, COUNT(ranges), 3u * G);
  assert_int_equal(accessible(&a), 0x0Du);
  assert_int_equal(give_back(s->table, &a), 3u * G);
}

static void commits_and_decommits(scene *s) {
  const NxmemAllocation a = reserve(s->table, 1u, 8u * G, NULL, 0u, 0u);
  assert_int_equal(missing(s->table, &a, G + 5u, G), 2u * G);
  commit(s->table, &a, G + 5u, G);
  assert_int_equal(accessible(&a), 0x06u);
  a.ptr[G] = 9u;
  assert_int_equal(missing(s->table, &a, 0u, 4u * G), 2u * G);
  commit(s->table, &a, 0u, 4u * G);
  assert_int_equal(a.ptr[G], 9u); /* what was mapped was not mapped over */
  assert_int_equal(missing(s->table, &a, 0u, 4u * G), 0u);
  assert_int_equal(committed(s->table, &a), 4u * G);
  assert_int_equal(decommit(s->table, &a, 1u, 2u * G), G); /* granule 1 alone lies wholly inside */
  assert_int_equal(accessible(&a), 0x0Du);
  assert_int_equal(decommit(s->table, &a, 1u, 2u * G), 0u);
  commit(s->table, &a, G, 1u);
  assert_int_equal(a.ptr[G], 0u); /* its memory really went */
  assert_int_equal(decommit(s->table, &a, 0u, 8u * G), 4u * G);
  assert_int_equal(accessible(&a), 0u);
  assert_int_equal(s->p.probe(NX_PROBE_GRANULES_MAPPED), 0u);
  assert_int_equal(give_back(s->table, &a), 0u);
}

/* The last granule ends with the allocation, though that is not a multiple of it. */
static void decommits_the_odd_end(scene *s) {
  const NxmemAllocation a = take(s->table, 1u, G + 100u, 64u);
  assert_int_equal(decommit(s->table, &a, G, 99u), 0u);
  assert_int_equal(decommit(s->table, &a, G, 100u), G);
  assert_int_equal(give_back(s->table, &a), G);
}

static void counts_a_granule_once(scene *s) {
  const NxmemAllocation a = reserve(s->table, 1u, 4u * G, NULL, 0u, 0u);
  const NxmemAllocation b = reserve(s->table, 2u, 4u * G, NULL, 0u, 0u);
  const NxmemRangeRequest requests[] = {range_of(&a, 0u, 1u), range_of(&b, 0u, 1u), range_of(&a, 1u, G),
                                        range_of(&a, 0u, 4u * G)};
  uint64_t mapped = UINT64_MAX;
  assert_status(s->backing->mapped_bytes_for_ranges(s->backing->ctx, requests, COUNT(requests), &mapped),
                NXMEM_STATUS_OK);
  assert_int_equal(mapped, 5u * G);
  assert_int_equal(committed(s->table, &a) + committed(s->table, &b), 0u); /* asking maps nothing */
  give_back(s->table, &a);
  give_back(s->table, &b);
}

/* The memory that a process may have, in bytes. */
static uint64_t data_bytes(void) {
  unsigned long kilobytes = 0u;
  char line[128];
  FILE *status = fopen("/proc/self/status", "r");
  assert_non_null(status);
  while (fgets(line, sizeof line, status) != NULL)
    if (sscanf(line, "VmData: %lu kB", &kilobytes) == 1) break;
  fclose(status);
  return (uint64_t)kilobytes * 1024u;
}

/* With room for some of the granules only: what was mapped is unmapped again, and the next try succeeds. */
static void commit_short_of_memory(const void *argument) {
  const scene *s = argument;
  const NxmemAllocation a = reserve(s->table, 1u, 32u * G, NULL, 0u, 0u);
  commit(s->table, &a, 3u * G, 1u);
  const struct rlimit most = {data_bytes() + 10u * G, RLIM_INFINITY};
  const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
  const NxmemRangeRequest request = range_of(&a, 0u, 32u * G);
  assert_int_equal(setrlimit(RLIMIT_DATA, &most), 0);
  const NxmemStatus refused = s->backing->commit_range(s->backing->ctx, &request);
  assert_int_equal(setrlimit(RLIMIT_DATA, &all), 0);
  assert_status(refused, NXMEM_STATUS_OUT_OF_MEMORY);
  assert_int_equal(accessible(&a), 8u);
  assert_int_equal(committed(s->table, &a), G);
  commit(s->table, &a, 0u, 32u * G);
  assert_int_equal(accessible(&a), UINT32_MAX);
  assert_int_equal(give_back(s->table, &a), 32u * G);
}

static void short_of_memory(scene *s) {
  const int status = in_child(commit_short_of_memory, s, 60u);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), RETURNED);
}

/* ---- Sharing ---------------------------------------------------------------------------------------------------- */

static void shares_a_prefix(scene *s) {
  const NxmemSharedPrefixHandle prefix = make_prefix(s->table, G + 3u);
  strcpy((char *)(uintptr_t)prefix.device_ptr, "once");
  const NxmemAllocation a = reserve(s->table, 1u, 4u * G, NULL, 0u, 0u);
  const NxmemAllocation b = reserve(s->table, 2u, 4u * G, NULL, 0u, 0u);
  assert_int_equal(increment(s->table, &prefix), 2u * G);
  assert_shared(s->table, &prefix, &a, G, 2u * G);
  assert_int_equal(increment(s->table, &prefix), 0u);
  assert_shared(s->table, &prefix, &b, 0u, 0u);
  assert_string_equal((const char *)a.ptr + G, "once");
  assert_string_equal((const char *)b.ptr, "once");
  assert_int_equal(committed(s->table, &a), 2u * G);
  assert_report(&s->p, 1u, 2u, 2u, 1u, 0u);
  drop_prefix(s->table, &prefix);
  assert_report(&s->p, 1u, 2u, 2u, 0u, 0u);
  assert_string_equal((const char *)b.ptr, "once"); /* the views keep it, but not its handle */
  NxmemSharedPrefixCommitInfo info;
  assert_status(share(s->table, &prefix, &b, 2u * G, &info), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_status(s->sharing->retain_shared_prefix(s->sharing->ctx, &prefix), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_int_equal(give_back(s->table, &a), 2u * G);
  assert_int_equal(decommit(s->table, &b, 0u, G), G);
  assert_report(&s->p, 1u, 1u, 1u, 0u, 0u);
  assert_int_equal(decommit(s->table, &b, G, G), G);
  assert_report(&s->p, 1u, 1u, 0u, 0u, 0u);
  give_back(s->table, &b);
}

static void a_view_is_read_only(scene *s) {
  const NxmemSharedPrefixHandle prefix = make_prefix(s->table, 1u);
  const NxmemAllocation a = reserve(s->table, 1u, G, NULL, 0u, 0u);
  assert_shared(s->table, &prefix, &a, 0u, G);
  assert_int_equal(readable(a.ptr, 1u), 1u);
  assert_false(writable(a.ptr));
  drop_prefix(s->table, &prefix);
  give_back(s->table, &a);
}

static void references_of_a_prefix(scene *s) {
  const NxmemSharedPrefixHandle prefix = make_prefix(s->table, 1u);
  assert_status(s->sharing->retain_shared_prefix(s->sharing->ctx, &prefix), NXMEM_STATUS_OK);
  drop_prefix(s->table, &prefix);
  assert_report(&s->p, 1u, 0u, 0u, 1u, 0u);
  drop_prefix(s->table, &prefix);
  assert_report(&s->p, 1u, 0u, 0u, 0u, 0u);
  assert_status(s->sharing->release_shared_prefix(s->sharing->ctx, &prefix), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_status(s->sharing->retain_shared_prefix(s->sharing->ctx, &prefix), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  uint64_t bytes = UINT64_MAX;
  assert_status(s->sharing->incremental_owned_bytes(s->sharing->ctx, &prefix, &bytes), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_int_equal(bytes, UINT64_MAX);
}

static void refused_shares(scene *s) {
  const NxmemSharedPrefixHandle prefix = make_prefix(s->table, 2u * G);
  const NxmemAllocation a = reserve(s->table, 1u, 4u * G, NULL, 0u, 0u);
  NxmemSharedPrefixCommitInfo info;
  assert_status(share(s->table, &prefix, &a, 3u * G, &info), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_status(share(s->table, &prefix, &a, UINT64_MAX - G + 1u, &info), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_status(share(s->table, &prefix, &a, 1u, &info), NXMEM_STATUS_INVALID_ARGUMENT);
  commit(s->table, &a, G, 1u);
  a.ptr[G] = 9u;
  assert_status(share(s->table, &prefix, &a, 0u, &info), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_int_equal(info.additional_owned_bytes, UINT64_MAX);
  assert_int_equal(a.ptr[G], 9u);
  NxmemSharedPrefixHandle other = prefix;
  other.device_ptr += G;
  assert_status(share(s->table, &other, &a, 2u * G, &info), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  other = prefix;
  other.mechanism_id++;
  assert_status(share(s->table, &other, &a, 2u * G, &info), NXMEM_STATUS_WRONG_MECHANISM);
  other = prefix;
  other.device.index++;
  assert_status(share(s->table, &other, &a, 2u * G, &info), NXMEM_STATUS_WRONG_DEVICE);
  assert_int_equal(increment(s->table, &prefix), 2u * G); /* nothing was charged */
  drop_prefix(s->table, &prefix);
  give_back(s->table, &a);
}

static void a_siblings_prefix(scene *s) {
  const NxmemAllocatorVtable *sibling = plugin_open(&s->p);
  const NxmemSharedPrefixHandle prefix = make_prefix(s->table, G);
  assert_int_equal(sibling->mechanism_id, s->table->mechanism_id);
  const NxmemSharedMappingVtable *other = sibling->shared_mapping;
  assert_status(other->retain_shared_prefix(other->ctx, &prefix), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_status(other->release_shared_prefix(other->ctx, &prefix), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  sibling->release(sibling->ctx);
  drop_prefix(s->table, &prefix);
}

/* A second copy of the module: the same mechanism id, the same numbers, and nothing of it is the first's. */
static void copy_file(const char *from, const char *to) {
  char buffer[65536];
  FILE *in = fopen(from, "rb");
  FILE *out = fopen(to, "wb");
  assert_true(in != NULL && out != NULL);
  for (size_t n = fread(buffer, 1u, sizeof buffer, in); n != 0u; n = fread(buffer, 1u, sizeof buffer, in))
    assert_int_equal(fwrite(buffer, 1u, n, out), n);
  fclose(in);
  assert_int_equal(fclose(out), 0);
}

static void another_copys_objects(scene *s) {
  char path[64];
  plugin copy;
  snprintf(path, sizeof path, "/tmp/nxmem-lazy-%ld.so", (long)getpid());
  copy_file(NXMEM_PLUGIN_DIR "/libnxmem_scripted.so", path);
  plugin_load_from(&copy, path);
  assert_int_equal(unlink(path), 0);
  plugin_find(&copy, "lazy");
  const NxmemAllocatorVtable *table = plugin_open(&copy);
  assert_int_equal(table->mechanism_id, s->table->mechanism_id);
  const NxmemAllocation ours = take(s->table, 1u, G, 64u), theirs = take(table, 1u, G, 64u);
  const NxmemSharedPrefixHandle our_prefix = make_prefix(s->table, G), their_prefix = make_prefix(table, G);
  assert_int_equal(our_prefix.handle, their_prefix.handle);
  uint64_t number = UINT64_MAX;
  assert_status(table->deallocate(table->ctx, &ours, &number), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_status(s->table->deallocate(s->table->ctx, &theirs, &number), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_status(s->table->enqueue_release(s->table->ctx, &theirs, &number), NXMEM_STATUS_INVALID_ARGUMENT);
  assert_status(s->sharing->release_shared_prefix(s->sharing->ctx, &their_prefix), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  assert_status(table->shared_mapping->retain_shared_prefix(table->ctx, &our_prefix), NXMEM_STATUS_UNKNOWN_ALLOCATION);
  drop_prefix(s->table, &our_prefix);
  drop_prefix(table, &their_prefix);
  give_back(s->table, &ours);
  give_back(table, &theirs);
  table->release(table->ctx);
  assert_books(&copy, 0u, 0u);
  plugin_close(&copy);
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

static uint8_t *told_of[3];

/* From inside a completion: no lock is held, and a second drain waits for nothing. */
static void drain_inside(recorder *r) {
  assert_int_equal(readable(told_of[r->completions - 1u], 1u), 0u); /* gone before anybody is told */
  assert_int_equal(drain(r->table, UINT64_MAX), 0u);
  assert_true(pending(r->table) > 0u);
  const NxmemAllocation other = take(r->table, 100u + r->completions, 64u, 16u);
  give_back(r->table, &other);
}

static void drains_inside_a_completion(scene *s) {
  s->r.inside = drain_inside;
  for (uint64_t i = 0u; i < 3u; i++) {
    const NxmemAllocation a = take(s->table, 10u + i, 64u, 16u);
    told_of[i] = a.ptr;
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
  bad += share(s->table, w->prefix, &a, 0u, &info).code != NXMEM_STATUS_OK || a.ptr[0] != 77u;
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
  const NxmemSharedPrefixHandle prefix = make_prefix(s->table, 2u * G);
  *(uint8_t *)(uintptr_t)prefix.device_ptr = 77u;
  s->r.callbacks.release_completed = count_completion;
  completions_seen = 0u;
  for (uint64_t i = 0u; i < WORKERS; i++) workers[i] = (worker){s, &prefix, 1u + (i << 32), 0u};
  for (int i = 0; i < WORKERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  for (int i = 0; i < WORKERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < WORKERS; i++) assert_int_equal(workers[i].failures, 0u);
  (void)drain(s->table, UINT64_MAX);
  assert_int_equal(completions_seen, (uint64_t)WORKERS * ROUNDS / 2u);
  drop_prefix(s->table, &prefix);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

/* ---- Many lives ------------------------------------------------------------------------------------------------- */

/* Open and release; how many contexts were used, `other` never among them. */
static uint64_t contexts_of(const plugin *p, uint64_t opens, const void *other) {
  static void *contexts[3000];
  uint64_t distinct = 0u;
  for (uint64_t i = 0u; i < opens; i++) {
    const NxmemAllocatorVtable *table = plugin_open(p);
    const NxmemAllocation block = take(table, 1u, 64u, 16u);
    uint64_t known = 0u;
    while (known < distinct && contexts[known] != table->ctx) known++;
    if (known == distinct) contexts[distinct++] = table->ctx;
    assert_ptr_not_equal(table->ctx, other);
    give_back(table, &block);
    table->release(table->ctx);
  }
  return distinct;
}

/* What was released long ago is forgotten: a module does not grow with the number of opens. */
static void opened_often(scene *s) { assert_int_equal(contexts_of(&s->p, 3000u, NULL), 1025u); }

/* Not what a block still names. The module cannot be unloaded any more: a child tells it. */
static void remembers(const void *argument) {
  const plugin *p = argument;
  const NxmemAllocatorVtable *table = plugin_open(p);
  void (*const release)(void *) = table->release;
  void *const ctx = table->ctx;
  (void)take(table, 1u, 64u, 16u);
  release(ctx);
  assert_int_equal(contexts_of(p, 3000u, ctx), 1025u);
  release(ctx);
  assert_int_equal(p->probe(NX_PROBE_STRAY_ALLOCATOR_CALLS), 1u);
}

static void opened_often_with_a_block_left(scene *s) {
  const int status = in_child(remembers, &s->p, 60u);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), RETURNED);
}

static const story stories[] = {
    {"an allocation that is committed whole", whole_allocation},
    {"64 GiB reserved, one byte committed", reserves_plenty},
    {"ranges committed with the allocation", ranges_at_birth},
    {"committed, decommitted, committed again", commits_and_decommits},
    {"the odd end of an allocation decommitted", decommits_the_odd_end},
    {"a granule of two ranges counted once", counts_a_granule_once},
    {"short of memory in the middle of a commit", short_of_memory},
    {"a prefix in two allocations", shares_a_prefix},
    {"a view is read-only", a_view_is_read_only},
    {"a prefix retained and released", references_of_a_prefix},
    {"prefixes that may not be mapped", refused_shares},
    {"a sibling's prefix", a_siblings_prefix},
    {"two copies, each with the other's objects", another_copys_objects},
    {"five releases in order", queue_in_order},
    {"a drain inside a completion", drains_inside_a_completion},
    {"a release queued twice", queued_twice},
    {"a queue without callbacks", queue_without_callbacks},
    {"four threads, every capability", four_threads},
    {"3,000 allocators, one after another", opened_often},
    {"3,000 allocators behind one that left a block", opened_often_with_a_block_left},
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
