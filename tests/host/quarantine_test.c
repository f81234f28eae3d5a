/*
 * quarantine_test.c: the list of what is quarantined: every way into it, its order, its bound, its end.
 *
 * Attackers played: plugins that keep what they are handed, on every way there is, and one that does so more often than
 * a list has room; a host without memory.
 * Promise: each is listed with what was asked, what is charged and what the plugin said; the list outlives allocators,
 * never grows beyond its bound, and no want of memory loses a count.
 */
#include "quarantine.h"

#include <unistd.h>

#include "nxmem/outcome.h"
#include "puppet_backing.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull

/* ---- A host without memory --------------------------------------------------------------------------------------- */

static int starved;
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void __real_free(void *block);
void __wrap_free(void *block);

/* What was allocated while `watched` was on, until it is freed. */
enum { WATCHED = 16 };
static int watched;
static void *kept[WATCHED];

static void note(void *from, void *to) {
  for (int i = 0; i < WATCHED; i++) {
    if (kept[i] != from) continue;
    kept[i] = to;
    return;
  }
}

static int still_kept(void) {
  int n = 0;
  for (int i = 0; i < WATCHED; i++) n += kept[i] != NULL;
  return n;
}

void *__wrap_calloc(size_t count, size_t bytes) {
  void *made = starved ? NULL : __real_calloc(count, bytes);
  if (watched && made != NULL) note(NULL, made);
  return made;
}

void __wrap_free(void *block) {
  if (block != NULL) note(block, NULL);
  __real_free(block);
}

/* ---- Ways in ----------------------------------------------------------------------------------------------------- */

typedef struct way_row {
  const char *name;
  nx_modes modes;
  void (*arrange)(void); /* before the allocation */
  nxmem_result (*act)(nx_stage *stage,
                      nxmem_allocation *made); /* what ends in quarantine; NULL: the allocation itself */
  nxmem_result want;
  uint64_t charged; /* owned and mapped, as listed */
  uint64_t residual;
  uint32_t status, reason;
} way_row;

enum { BYTES = 192, ALIGN = 64 };
static _Alignas(64) uint8_t memory[BYTES];

static void keep(uint32_t code, uint32_t state, uint64_t residual) {
  puppet.address = memory;
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(code);
  puppet.outcome = (NxmemReleaseOutcome){
      .struct_size = sizeof puppet.outcome, .state = state, .residual_owned_bytes = residual, .failure = {.code = 3}};
}

static void structured(void) { keep(NXMEM_STATUS_OK, NXMEM_RELEASE_QUARANTINED, 77); }
static void by_status(void) { keep(NXMEM_STATUS_RELEASE_QUARANTINED, NXMEM_RELEASE_COMPLETE, 0); }
static void unknown_state(void) { keep(NXMEM_STATUS_OK, 9, ALL_ONES); }
static void refused(void) { keep(NXMEM_STATUS_BUSY, NXMEM_RELEASE_FAILED, 0); }
static void plain(void) {
  puppet.address = memory;
  puppet.table.abi_minor = 0;
  puppet.table.struct_size = 120;
  puppet.table.capability_flags &= ~(uint64_t)NXMEM_CAP_STRUCTURED_RELEASE;
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(NXMEM_STATUS_RELEASE_QUARANTINED);
}
static void unwritten(void) {
  puppet.address = memory;
  puppet.leave_ticket = 1;
}
static void null_address(void) { puppet.leave_out_records = 1; }
static void misaligned(void) {
  keep(NXMEM_STATUS_DEVICE_ERROR, NXMEM_RELEASE_FAILED, 5);
  puppet.address = memory + 1;
}

static nxmem_result release(nx_stage *stage, nxmem_allocation *made) {
  return nxmem_release(stage->allocator, *made, NULL, NULL);
}
static nxmem_result enqueue(nx_stage *stage, nxmem_allocation *made) {
  return nxmem_enqueue_release(stage->allocator, *made, NULL, NULL, NULL);
}
static nxmem_result close_all(nx_stage *stage, nxmem_allocation *made) {
  (void)made;
  return nxmem_allocator_close(stage->allocator, NXMEM_CLOSE_RELEASE_LIVE, NULL);
}
/* Queued, and completed as quarantined. */
static nxmem_result complete(nx_stage *stage, nxmem_allocation *made) {
  uint64_t ticket = 0;
  assert_int_equal(nxmem_enqueue_release(stage->allocator, *made, NULL, &ticket, NULL), NXMEM_OK);
  const NxmemReleaseCompletion completion = {
      .struct_size = sizeof completion,
      .ticket = ticket,
      .mechanism_id = 77,
      .allocation_id = made->id,
      .outcome = {
          .struct_size = sizeof completion.outcome, .state = NXMEM_RELEASE_QUARANTINED, .residual_owned_bytes = 88}};
  puppet.queued = 0; /* the queue lets it go */
  const NxmemStatus answer = puppet.callbacks->release_completed(puppet.callbacks->host_ctx, &completion);
  return answer.code == NXMEM_STATUS_OK ? NXMEM_OK : NXMEM_ERR_PLUGIN;
}

#define KEPT NXMEM_ERR_QUARANTINED
static const way_row way_rows[] = {
    {"kept by a structured release", 0, structured, release, KEPT, BYTES, 77, 0, 0},
    {"kept by status", 0, by_status, release, KEPT, BYTES, 0, 12, 0},
    {"kept by a state nobody knows", 0, unknown_state, release, KEPT, BYTES, ALL_ONES, 0, 0},
    {"kept by a plain release", 0, plain, release, KEPT, BYTES, ALL_ONES, 12, 0},
    {"refused while the allocator closes", 0, refused, close_all, NXMEM_OK, BYTES, 0, 14, 0},
    {"queued without a ticket", 0, unwritten, enqueue, KEPT, BYTES, ALL_ONES, 0, 0},
    {"completed as quarantined", 0, structured, complete, NXMEM_OK, BYTES, 88, 0, 0},
    {"an address of NULL", 0, null_address, NULL, NXMEM_ERR_CONTRACT, 0, ALL_ONES, 0, NXMEM_REASON_NULL_ADDRESS},
    {"a misaligned address that is not taken back", 0, misaligned, NULL, NXMEM_ERR_CONTRACT, 0, 5, 7,
     NXMEM_REASON_MISALIGNED_ADDRESS},
};

static uint32_t list(nxmem_host host, uint64_t first, nxmem_quarantined *out, uint32_t room) {
  uint32_t count = 0x5A5A;
  assert_int_equal(nxmem_host_quarantine(host, first, out, room, &count, NULL, NULL), NXMEM_OK);
  return count;
}

static void assert_listed(const nx_stage *stage, const way_row *row) {
  nxmem_quarantined q[2];
  memset(q, 0xA5, sizeof q);
  assert_int_equal(list(stage->host, 0, q, 2), 1);
  assert_int_equal(q->allocator.id, stage->allocator.id);
  assert_int_equal(q->mechanism_id, 77);
  assert_int_equal(q->device.tier, NXMEM_TIER_HOST);
  assert_int_equal(q->device.index, 0);
  assert_int_equal(q->address, row->arrange == null_address ? 0 : (uintptr_t)puppet.address);
  assert_int_equal(q->bytes, BYTES);
  assert_int_equal(q->owned_bytes, row->charged);
  assert_int_equal(q->mapped_bytes, row->charged);
  assert_int_equal(q->residual_bytes, row->residual);
  assert_int_equal(q->plugin_status, row->status);
  assert_int_equal(q->reason, row->reason);
}

static void end(nx_stage *stage) {
  if (nx_counts(stage->host).open_allocators != 0) nx_must_close(stage->allocator);
  nx_force_leak(stage->host, stage->plugin, stage->path);
  nx_host_gone(stage->host);
}

static void test_way(void **state) {
  const nx_case *c = *state;
  const way_row *row = c->row;
  nx_puppet_reset();
  row->arrange();
  nx_stage stage = nx_stage_set(c->mode);
  nxmem_allocation made = {0, NULL};
  const nxmem_result allocated = nxmem_allocate(stage.allocator, BYTES, ALIGN, NULL, &made, NULL);
  assert_int_equal(row->act == NULL ? allocated : row->act(&stage, &made), row->want);
  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.quarantined, 1);
  assert_int_equal(counts.quarantined_bytes, BYTES);
  assert_listed(&stage, row);
  if (counts.open_allocators != 0) nx_must_close(stage.allocator);
  assert_listed(&stage, row); /* also when its allocator is closed */
  nx_force_leak(stage.host, stage.plugin, stage.path);
  assert_listed(&stage, row); /* and its module given up */
  nx_host_gone(stage.host);
}

/* ---- Pages of the list ------------------------------------------------------------------------------------------- */

/* Quarantine `count` of sizes from `bytes` on, by answers that cannot be. */
static void fill(const nx_stage *stage, uint64_t bytes, uint64_t count) {
  nxmem_allocation none;
  puppet.leave_out_records = 1;
  for (uint64_t i = 0; i < count; i++)
    if (nxmem_allocate(stage->allocator, bytes + i, 1, NULL, &none, NULL) != NXMEM_ERR_CONTRACT) fail_msg("believed");
}

typedef struct page_row {
  const char *name;
  nx_modes modes;
  uint64_t first;
  uint32_t room, count;
} page_row;

enum { LISTED = 600 };
static const page_row page_rows[] = {
    {"page: all", 0, 0, LISTED + 5, LISTED},
    {"page: the first", 0, 0, 1, 1},
    {"page: around a boundary", 0, 255, 3, 3},
    {"page: from a boundary on", 0, 256, 256, 256},
    {"page: up to a boundary", 0, 0, 512, 512},
    {"page: behind two boundaries", 0, 513, LISTED, LISTED - 513},
    {"page: the last", 0, LISTED - 1, 9, 1},
    {"page: behind the last", 0, LISTED, 9, 0},
    {"page: far behind", 0, 1000000, 9, 0},
    {"page: at 2^64-1", 0, ALL_ONES, 9, 0},
    {"page: no room", 0, 0, 0, 0},
};

static void test_page(void **state) {
  const nx_case *c = *state;
  const page_row *row = c->row;
  static nxmem_quarantined out[LISTED + 6];
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  fill(&stage, 1000, LISTED);
  memset(out, 0xA5, sizeof out);
  uint32_t count = 0;
  uint64_t total = 0;
  assert_int_equal(nxmem_host_quarantine(stage.host, row->first, out, row->room, &count, &total, NULL), NXMEM_OK);
  assert_int_equal(count, row->count);
  assert_int_equal(total, LISTED);
  for (uint32_t i = 0; i < count; i++) assert_int_equal(out[i].bytes, 1000 + row->first + i); /* oldest first */
  assert_int_equal(out[count].bytes, 0xA5A5A5A5A5A5A5A5ull);                                  /* and no further */
  end(&stage);
}

/* More than are listed: the oldest stay listed, all are counted. */
static void test_bound(void **state) {
  const nx_case *c = *state;
  static nxmem_quarantined out[1];
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  fill(&stage, 1, NX_QUARANTINE_MAX + 10);
  uint64_t total = 0;
  uint32_t count = 0;
  assert_int_equal(nxmem_host_quarantine(stage.host, NX_QUARANTINE_MAX - 1, out, 1, &count, &total, NULL), NXMEM_OK);
  assert_int_equal(total, 65536);
  assert_int_equal(count, 1);
  assert_int_equal(out[0].bytes, NX_QUARANTINE_MAX);
  assert_int_equal(nx_counts(stage.host).quarantined, 65546);
  end(&stage);
}

/* Two hosts have a list each. */
static void test_two_hosts(void **state) {
  const nx_case *c = *state;
  nxmem_quarantined out[4];
  nx_puppet_reset();
  nx_stage one = nx_stage_set(c->mode);
  nx_stage two = nx_stage_set(c->mode);
  fill(&one, 100, 1);
  fill(&two, 200, 2);
  assert_int_equal(list(one.host, 0, out, 4), 1);
  assert_int_equal(out[0].bytes, 100);
  end(&one);
  assert_int_equal(list(two.host, 0, out, 4), 2);
  assert_int_equal(out[1].bytes, 201);
  end(&two);
  /* Their slots serve others, whose lists begin empty. */
  nxmem_host next = nx_host_in(c->mode);
  assert_int_equal(list(next, 0, out, 4), 0);
  assert_int_equal(nxmem_host_quarantine(one.host, 0, out, 4, &(uint32_t){0}, NULL, NULL), NXMEM_ERR_STALE_HANDLE);
  nx_host_gone(next);
}

/* ---- Want of memory ---------------------------------------------------------------------------------------------- */

static void test_starved(void **state) {
  const nx_case *c = *state;
  nxmem_quarantined out[8];
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nx_must_release(stage.allocator, nx_must_allocate(stage.allocator, 64, 8)); /* one record there is */
  starved = 1;
  fill(&stage, 10, 3); /* no list */
  starved = 0;
  assert_int_equal(list(stage.host, 0, out, 8), 0);
  fill(&stage, 20, 256); /* a page full */
  starved = 1;
  fill(&stage, 1000, 2); /* no second page */
  starved = 0;
  fill(&stage, 2000, 1);
  assert_int_equal(list(stage.host, 255, out, 8), 2);
  assert_int_equal(out[0].bytes, 20 + 255);
  assert_int_equal(out[1].bytes, 2000);
  const nxmem_host_counts counts = nx_counts(stage.host);
  assert_int_equal(counts.quarantined, 3 + 256 + 2 + 1);
  assert_int_equal(counts.contract_violations, 3 + 256 + 2 + 1);
  end(&stage);
}

/* The list goes with its host: its head and each page of it. */
static void test_freed(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  nx_must_release(stage.allocator, nx_must_allocate(stage.allocator, 64, 8)); /* one record there is */
  watched = 1;
  fill(&stage, 1, 600);
  watched = 0;
  assert_int_equal(still_kept(), 4);
  end(&stage);
  assert_int_equal(still_kept(), 0);
}

/* What is kept when the host is gone already is listed nowhere: nobody would free it. */
static void test_hostless(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocation block = nx_must_allocate(stage.allocator, 64, 8);
  assert_int_equal(nxmem_enqueue_release(stage.allocator, block, NULL, NULL, NULL), NXMEM_OK);
  puppet.idle_drain = 1;
  nx_must_close(stage.allocator);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
  nx_puppet_queued queued;
  assert_int_equal(nx_puppet_pop(&queued), 1);
  NxmemReleaseCompletion completion = nx_puppet_completion(&queued);
  completion.outcome.state = NXMEM_RELEASE_QUARANTINED;
  watched = 1;
  assert_int_equal(nx_puppet_complete(&completion), NXMEM_STATUS_OK);
  watched = 0;
  assert_int_equal(still_kept(), 0);
  free(queued.allocation.ptr);
}

static void test_arguments(void **state) {
  const nx_case *c = *state;
  nxmem_quarantined out[1];
  uint32_t count = 0;
  nxmem_host host = nx_host_in(c->mode);
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_host_quarantine(host, 0, out, 1, NULL, NULL, &error), &error, NXMEM_ERR_INVALID_ARGUMENT);
  nx_assert_code(nxmem_host_quarantine(host, 0, NULL, 1, &count, NULL, &error), &error, NXMEM_ERR_INVALID_ARGUMENT);
  uint64_t total = 0x5A5A;
  assert_int_equal(nxmem_host_quarantine(host, 0, NULL, 0, &count, &total, NULL), NXMEM_OK);
  assert_int_equal(total, 0);
  nx_host_gone(host);
}

#define ONE(name, test) static const nx_row_head name##_rows[] = {{test, NX_BOTH_MODES}}
ONE(hosts, "two hosts");
ONE(starved, "a host without memory");
ONE(freed, "a list that goes with its host");
ONE(hostless, "kept when the host is gone");
ONE(argument, "a list without arguments");
static const nx_row_head bound_rows[] = {{"more than are listed", NX_GUARDED_ONLY}};

int main(void) {
  alarm(250);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(way_rows), test_way);
  nx_suite_modes(&suite, ROWS(page_rows), test_page);
  nx_suite_modes(&suite, ROWS(bound_rows), test_bound);
  nx_suite_modes(&suite, ROWS(hosts_rows), test_two_hosts);
  nx_suite_modes(&suite, ROWS(starved_rows), test_starved);
  nx_suite_modes(&suite, ROWS(freed_rows), test_freed);
  nx_suite_modes(&suite, ROWS(hostless_rows), test_hostless);
  nx_suite_modes(&suite, ROWS(argument_rows), test_arguments);
  return nx_suite_run(&suite, "host_quarantine");
}
