/*
 * callbacks_test.c: does each mechanism of libnxmem_scripted_callbacks.so commit what its name says, and nothing else?
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: what reaches the callbacks is compared; a row that must end in a fault does so in a child.
 */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mechanisms.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { SIZE = 100, ALIGN = 64 };

static void show_lazy_honest(const scene *s) {
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  give_back(s->table, &block);
  assert_int_equal(s->r->reclaims + s->r->completions, 0u);
}

/* ---- Another's host_ctx: the callbacks only note what came ------------------------------------------------------- */

static void *contexts[8];
static uint64_t came;

static NxmemStatus note_reclaim(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  assert_int_equal(request->struct_size, 32u);
  assert_int_equal(*reclaimed_out, UINT64_MAX);
  contexts[came++ % 8u] = host_ctx;
  return (NxmemStatus){NXMEM_STATUS_BUSY, 0u, {0}};
}

static NxmemStatus note_completion(void *host_ctx, const NxmemReleaseCompletion *completion) {
  assert_int_equal(completion->struct_size, 328u);
  assert_int_equal(completion->allocation_id, 5u);
  contexts[came++ % 8u] = host_ctx;
  return (NxmemStatus){NXMEM_STATUS_OK, 0u, {0}};
}

static const NxmemAllocatorVtable *open_noting(const scene *s, recorder *r) {
  recorder_start(r);
  r->callbacks.request_reclaim = note_reclaim;
  r->callbacks.release_completed = note_completion;
  came = 0u;
  return recorder_open(r, s->p);
}

/* A whole life: the contexts that came, in order. */
static void live(const NxmemAllocatorVtable *table) {
  const NxmemAllocation block = take(table, 5u, SIZE, ALIGN);
  (void)enqueue(table, &block);
  assert_int_equal(drain(table, UINT64_MAX), 1u);
  table->release(table->ctx);
}

static void assert_wrong_then_true(void *wrong, const recorder *r) {
  assert_int_equal(came, 3u);
  assert_ptr_equal(contexts[0], wrong); /* asked */
  assert_ptr_equal(contexts[1], wrong); /* completed */
  assert_ptr_equal(contexts[2], r);     /* and truly */
}

static void show_invented(const scene *s) {
  recorder r;
  live(open_noting(s, &r));
  assert_wrong_then_true((void *)(uintptr_t)0x7E577E57u, &r);
}

static void show_null(const scene *s) {
  recorder r;
  live(open_noting(s, &r));
  assert_wrong_then_true(NULL, &r);
}

static void show_stale(const scene *s) {
  recorder first, second;
  live(open_noting(s, &first));
  assert_int_equal(came, 1u); /* nobody has gone yet: nothing wrong */
  live(open_noting(s, &second));
  assert_wrong_then_true(&first, &second);
}

/* ---- A request that is none ------------------------------------------------------------------------------------- */

typedef struct glance {
  uintptr_t request_at;
  uintptr_t out_at;
  size_t readable_bytes;
  uint8_t bytes[32];
} glance;
static glance seen;
static uint64_t glances;

static NxmemStatus glance_at(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  (void)host_ctx;
  memset(&seen, 0, sizeof seen);
  glances++;
  seen.request_at = (uintptr_t)request;
  seen.out_at = (uintptr_t)reclaimed_out;
  seen.readable_bytes = request == NULL ? 0u : readable(request, 32u);
  memcpy(seen.bytes, request == NULL ? (const void *)"" : request, seen.readable_bytes);
  if (reclaimed_out != NULL) *reclaimed_out = 7u;
  return (NxmemStatus){NXMEM_STATUS_OK, 0u, {0}};
}

/* One allocation, one question; what the question said, as far as it could be read. */
static NxmemReclaimRequest asked(const scene *s) {
  NxmemReclaimRequest request = {0u, 0u, 0u, {0u, 0u}, 0u};
  s->r->callbacks.request_reclaim = glance_at;
  glances = 0u;
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  give_back(s->table, &block);
  assert_int_equal(glances, 1u);
  assert_int_equal(counted(s, NX_PROBE_RECLAIM_CALLS), 1u);
  assert_int_equal(counted(s, NX_PROBE_RECLAIMS_ACCEPTED), 1u);
  memcpy(&request, seen.bytes, sizeof request);
  return request;
}

static void assert_question(const scene *s, const NxmemReclaimRequest *request, uint32_t device, uint64_t bytes) {
  assert_int_equal(request->struct_size, 32u);
  assert_int_equal(request->mechanism_id, s->table->mechanism_id);
  assert_int_equal(request->device.index, device);
  assert_int_equal(request->bytes, bytes);
}

static void show_short(const scene *s) {
  assert_int_equal(asked(s).struct_size, 24u);
  assert_int_equal(seen.readable_bytes, 24u);
}
static void show_lying(const scene *s) {
  assert_int_equal(asked(s).struct_size, 32u);
  assert_int_equal(seen.readable_bytes, 24u);
}
static void show_no_request(const scene *s) {
  (void)asked(s);
  assert_int_equal(seen.request_at, 0u);
}
static void show_wild(const scene *s) {
  (void)asked(s);
  assert_int_equal(seen.readable_bytes, 0u);
  assert_int_not_equal(seen.request_at, 0u);
}
static void show_misaligned(const scene *s) {
  const NxmemReclaimRequest request = asked(s);
  assert_int_equal(seen.request_at % 8u, 4u);
  assert_question(s, &request, 0u, SIZE);
}
static void show_other_device(const scene *s) {
  const NxmemReclaimRequest request = asked(s);
  assert_question(s, &request, 1u, SIZE);
}
static void show_other_mechanism(const scene *s) {
  NxmemReclaimRequest request = asked(s);
  request.mechanism_id ^= 1ull << 60;
  assert_question(s, &request, 0u, SIZE);
}
static void show_huge(const scene *s) {
  const NxmemReclaimRequest request = asked(s);
  assert_question(s, &request, 0u, UINT64_MAX);
}
static void show_zero(const scene *s) {
  const NxmemReclaimRequest request = asked(s);
  assert_question(s, &request, 0u, 0u);
}
static void show_no_out(const scene *s) {
  const NxmemReclaimRequest request = asked(s);
  assert_int_equal(seen.out_at, 0u);
  assert_question(s, &request, 0u, SIZE);
}

/* The host's table says that it ends before its slots, which are there all the same: they are called. */
static void show_unsized(const scene *s) {
  s->r->callbacks.struct_size = 16u;
  const NxmemReclaimRequest request = asked(s);
  assert_question(s, &request, 0u, SIZE);
}

/* ---- The table itself ------------------------------------------------------------------------------------------- */

/* Callbacks in a page of their own, which may no longer be written. */
static NxmemHostCallbacks *sealed_callbacks(recorder *r, size_t page) {
  NxmemHostCallbacks *sealed = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(sealed != MAP_FAILED);
  *sealed = r->callbacks;
  assert_int_equal(mprotect(sealed, page, PROT_READ), 0);
  return sealed;
}

static const NxmemAllocatorVtable *open_sealed(const scene *s, NxmemHostCallbacks *sealed) {
  NxmemOpenRequest request = open_request(s->p);
  const NxmemAllocatorVtable *table = NULL;
  request.callbacks = sealed;
  assert_status(s->p->factory->open_allocator(s->p->factory->ctx, &request, &table), NXMEM_STATUS_OK);
  return table;
}

typedef struct write_scene {
  const scene *s;
  NxmemHostCallbacks *sealed;
} write_scene;

static void write_it(const void *argument) {
  const write_scene *w = argument;
  const NxmemAllocatorVtable *table = open_sealed(w->s, w->sealed);
  const NxmemAllocRequest request = alloc_request(table, 5u, SIZE, ALIGN);
  NxmemAllocResult result = alloc_result();
  (void)table->allocate(table->ctx, &request, &result);
}

static void show_written_table(const scene *s) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  NxmemHostCallbacks *sealed = sealed_callbacks(s->r, page);
  const int status = in_child(write_it, &(write_scene){s, sealed}, 60u);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGSEGV);
  munmap(sealed, page);
  /* Where it may be written, it is. */
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  assert_int_equal(s->r->callbacks.abi_minor, 77u);
  give_back(s->table, &block);
}

static void show_unprotected_table(const scene *s) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  NxmemHostCallbacks *sealed = sealed_callbacks(s->r, page);
  const NxmemAllocatorVtable *table = open_sealed(s, sealed);
  const NxmemAllocation block = take(table, 5u, SIZE, ALIGN);
  assert_int_equal(counted(s, NX_PROBE_UNPROTECT_CALLS), 1u);
  assert_int_equal(counted(s, NX_PROBE_TABLE_UNPROTECTED), 1u); /* private pages cannot resist */
  assert_int_equal(sealed->abi_minor, 77u);
  give_back(table, &block);
  table->release(table->ctx);
  munmap(sealed, page);
}

/* ---- Re-entry --------------------------------------------------------------------------------------------------- */

/* Each step of the story asks twice. */
static void asked_twice(const scene *s, uint64_t *asked_before, NxmemStatus status) {
  assert_status(status, NXMEM_STATUS_OK);
  assert_int_equal(s->r->reclaims, *asked_before + 2u);
  *asked_before = s->r->reclaims;
}

static void ask_backing(const scene *s, uint64_t *n, const NxmemAllocRequest *request, const NxmemAllocation *block) {
  const NxmemVirtualBackingVtable *b = s->table->virtual_backing;
  const NxmemRangeRequest range = {sizeof range, 0u, *block, {0u, SIZE}};
  uint64_t bytes = 0u;
  asked_twice(s, n, b->commit_range(b->ctx, &range));
  asked_twice(s, n, b->mapped_bytes_for_ranges(b->ctx, &range, 1u, &bytes));
  asked_twice(s, n, b->mapped_bytes_for_allocation(b->ctx, request, &bytes));
  asked_twice(s, n, b->committed_bytes(b->ctx, block, &bytes));
  asked_twice(s, n, b->decommit_range(b->ctx, &range, &bytes));
}

static void ask_sharing(const scene *s, uint64_t *n, const NxmemAllocation *block) {
  const NxmemSharedMappingVtable *m = s->table->shared_mapping;
  NxmemSharedPrefixHandle handle = {.struct_size = sizeof handle};
  NxmemSharedPrefixCommitInfo info = {.struct_size = sizeof info};
  uint64_t bytes = 0u;
  asked_twice(s, n, m->create_shared_prefix(m->ctx, s->table->mechanism_id, SIZE, &handle));
  asked_twice(s, n, m->retain_shared_prefix(m->ctx, &handle));
  asked_twice(s, n, m->incremental_owned_bytes(m->ctx, &handle, &bytes));
  const NxmemSharedPrefixCommitRequest commit = {sizeof commit, 0u, handle, *block, 0u};
  asked_twice(s, n, m->commit_shared_prefix(m->ctx, &commit, &info));
  asked_twice(s, n, m->release_shared_prefix(m->ctx, &handle));
  asked_twice(s, n, m->release_shared_prefix(m->ctx, &handle));
}

static void ask_releases(const scene *s, uint64_t *n, const NxmemAllocation *block) {
  const NxmemAllocatorVtable *t = s->table;
  NxmemReleaseOutcome outcome = unwritten();
  uint64_t number = 0u;
  asked_twice(s, n, t->enqueue_release(t->ctx, block, &number));
  asked_twice(s, n, t->pending_release_count(t->ctx, &number));
  asked_twice(s, n, t->drain_releases(t->ctx, 9u, &number));
  NxmemAllocRequest request = alloc_request(t, 6u, SIZE, ALIGN);
  NxmemAllocResult result = alloc_result();
  asked_twice(s, n, t->allocate(t->ctx, &request, &result));
  NxmemAllocation other = allocation_of(&request, &result);
  asked_twice(s, n, t->deallocate(t->ctx, &other, &number));
  request.allocation_id = 7u;
  asked_twice(s, n, t->allocate(t->ctx, &request, &result));
  other = allocation_of(&request, &result);
  asked_twice(s, n, t->release_allocation(t->ctx, &other, &outcome));
}

static void show_reentrant(const scene *s) {
  const NxmemVirtualBackingVtable *b = s->table->virtual_backing;
  const NxmemAllocRequest request = alloc_request(s->table, 5u, SIZE, ALIGN);
  NxmemAllocResult result = alloc_result();
  uint64_t n = 0u;
  assert_int_equal(s->r->reclaims, 0u);
  asked_twice(s, &n, b->allocate_committed(b->ctx, &request, &result));
  const NxmemAllocation block = allocation_of(&request, &result);
  ask_backing(s, &n, &request, &block);
  ask_sharing(s, &n, &block);
  ask_releases(s, &n, &block);
  recorder other;
  recorder_start(&other);
  const NxmemAllocatorVtable *table = recorder_open(&other, s->p);
  table->release(table->ctx);
  assert_int_equal(other.reclaims, 1u); /* inside the last release */
}

static void show_asking_in_open(const scene *s) {
  assert_int_equal(s->r->reclaims, 1u);
  assert_int_equal(s->r->reclaim[0].mechanism_id, s->table->mechanism_id);
  show_lazy_honest(&(scene){s->p, s->table, &(recorder){.reclaims = 0u}});
  assert_int_equal(s->r->reclaims, 1u);
}

static pthread_t asking_thread;
static NxmemStatus note_thread(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  (void)host_ctx, (void)request, (void)reclaimed_out;
  asking_thread = pthread_self();
  glances++;
  return (NxmemStatus){NXMEM_STATUS_BUSY, 0u, {0}};
}

static void show_asking_on_thread(const scene *s) {
  s->r->callbacks.request_reclaim = note_thread;
  glances = 0u;
  const NxmemAllocation block = take(s->table, 5u, SIZE, ALIGN);
  assert_int_equal(glances, 1u);
  assert_false(pthread_equal(asking_thread, pthread_self()));
  give_back(s->table, &block);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

#define ROW(name, show) \
  { name, 128, 1, STRUCTURED, ANY, 1, show }

static const mechanism_row rows[] = {
    ROW("eager", show_eager),
    {"lazy", 128, 1, ALL, ANY, 1, show_lazy_honest},
    {"invented-ctx", 128, 1, DEFERRED, ANY, 1, show_invented},
    {"null-ctx", 128, 1, DEFERRED, ANY, 1, show_null},
    {"stale-ctx", 128, 1, DEFERRED, ANY, 1, show_stale},
    ROW("reclaim-short", show_short),
    ROW("reclaim-lying", show_lying),
    ROW("reclaim-null", show_no_request),
    ROW("reclaim-wild", show_wild),
    ROW("reclaim-misaligned", show_misaligned),
    ROW("reclaim-other-device", show_other_device),
    ROW("reclaim-other-mechanism", show_other_mechanism),
    ROW("reclaim-huge", show_huge),
    ROW("reclaim-zero", show_zero),
    ROW("reclaim-without-out", show_no_out),
    ROW("ignores-callback-size", show_unsized),
    ROW("writes-callbacks", show_written_table),
    ROW("unprotects-callbacks", show_unprotected_table),
    {"reentrant", 128, 1, ALL, ANY, 1, show_reentrant},
    ROW("calls-in-open", show_asking_in_open),
    ROW("asks-on-thread", show_asking_on_thread),
};

int main(void) {
  static const subject callbacks = {"libnxmem_scripted_callbacks.so", "callbacks", 0u, 31u};
  add_mechanisms(&callbacks, rows, COUNT(rows), 1);
  return run_added("callback mechanisms");
}
