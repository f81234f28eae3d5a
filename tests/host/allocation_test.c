/*
 * allocation_test.c: allocate and release: what may be asked, what may be answered, and the books.
 *
 * Attackers played: impossible addresses and numbers with OK; releases that refuse, quarantine, lie or say nothing.
 * Promise: nothing impossible reaches the caller; a charge is never refunded twice; what is in doubt is quarantined and
 * stays charged.
 */
#include "nxmem/outcome.h"
#include "puppet.h"
#include "scripted_probe.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull
#define TWO_63 0x8000000000000000ull
#define U32_MAX 0xFFFFFFFFu

static nx_refusal refused(nxmem_result result, uint32_t reason, uint32_t field, uint64_t found, uint64_t needed) {
  return (nx_refusal){result, reason, field, found, needed, 0};
}

static nxmem_allocator_info info_of(nxmem_allocator allocator) {
  nxmem_allocator_info info;
  assert_int_equal(nxmem_allocator_get_info(allocator, &info, NULL), NXMEM_OK);
  return info;
}

static void assert_books(nxmem_allocator allocator, uint64_t live, uint64_t quarantined, uint64_t owned,
                         uint64_t mapped) {
  const nxmem_allocator_info info = info_of(allocator);
  assert_int_equal(info.live_allocations, live);
  assert_int_equal(info.quarantined, quarantined);
  assert_int_equal(info.owned_bytes, owned);
  assert_int_equal(info.mapped_bytes, mapped);
}

static void assert_allocate_refused(nxmem_allocator allocator, uint64_t bytes, uint64_t align, nx_refusal want) {
  nxmem_allocation allocation = {0x5A5A, (void *)(uintptr_t)0x5A5A};
  nxmem_error error = nx_blank_error();
  nx_assert_refused(nxmem_allocate(allocator, bytes, align, NULL, &allocation, &error), &error, want);
  assert_int_equal(allocation.id, 0x5A5A);
  assert_int_equal((uintptr_t)allocation.ptr, 0x5A5A);
}

static void assert_release_refused(nxmem_allocator allocator, nxmem_allocation allocation, nx_refusal want) {
  nxmem_error error = nx_blank_error();
  nx_assert_refused(nxmem_release(allocator, allocation, NULL, &error), &error, want);
}

/* ---- What may be asked ------------------------------------------------------------------------------------------- */

typedef struct asked_row {
  const char *name;
  nx_modes modes;
  uint64_t bytes;
  uint64_t align;
  uint32_t reason;
  uint64_t found;
  uint64_t needed;
} asked_row;

static const asked_row asked_rows[] = {
    {"zero bytes", 0, 0, 8, NXMEM_REASON_ZERO_BYTES, 0, 1},
    {"zero bytes and zero alignment", 0, 0, 0, NXMEM_REASON_ZERO_BYTES, 0, 1},
    {"zero alignment", 0, 1, 0, NXMEM_REASON_BAD_ALIGNMENT, 0, 1},
    {"alignment 3", 0, 1, 3, NXMEM_REASON_BAD_ALIGNMENT, 3, 1},
    {"alignment 2^64-1", 0, 1, ALL_ONES, NXMEM_REASON_BAD_ALIGNMENT, ALL_ONES, 1},
    {"alignment 2^63+1", 0, 1, TWO_63 + 1, NXMEM_REASON_BAD_ALIGNMENT, TWO_63 + 1, 1},
    {"2^64-1 bytes at 2", 0, ALL_ONES, 2, NXMEM_REASON_SIZE_WRAPS, ALL_ONES, 2},
    {"2^63+1 bytes at 2^63", 0, TWO_63 + 1, TWO_63, NXMEM_REASON_SIZE_WRAPS, TWO_63 + 1, TWO_63},
};

static void test_asked(void **state) {
  const nx_case *c = *state;
  const asked_row *row = c->row;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  assert_allocate_refused(stage.allocator, row->bytes, row->align,
                          refused(NXMEM_ERR_INVALID_ARGUMENT, row->reason, 0, row->found, row->needed));
  assert_int_equal(nx_puppet_calls(NX_IN_ALLOCATE), 0);
  assert_int_equal(nx_counts(stage.host).contract_violations, 0);
  assert_books(stage.allocator, 0, 0, 0, 0);
  nx_stage_strike(&stage);
}

typedef struct passed_row {
  const char *name;
  nx_modes modes;
  uint64_t bytes;
  uint64_t align;
} passed_row;

static const passed_row passed_rows[] = {
    {"1 byte at 1", 0, 1, 1},
    {"6912 bytes at 256", 0, 6912, 256},
    {"1 byte at 64 KiB", 0, 1, 65536},
    {"1 MiB at 4096", 0, 1 << 20, 4096},
};

/* What the plugin is told when it is asked and when it is given back. */
static void test_passed(void **state) {
  const nx_case *c = *state;
  const passed_row *row = c->row;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocation allocation = nx_must_allocate(stage.allocator, row->bytes, row->align);
  const NxmemAllocRequest *request = &puppet.alloc_request;
  assert_int_equal(request->struct_size, 64);
  assert_int_equal(request->reserved, 0);
  assert_int_equal(request->mechanism_id, 77);
  assert_int_equal(request->device.tier, NXMEM_TIER_HOST);
  assert_int_equal(request->bytes, row->bytes);
  assert_int_equal(request->align, row->align);
  assert_null(request->committed_ranges);
  assert_int_equal(request->committed_range_count, 0);
  assert_books(stage.allocator, 1, 0, row->bytes, row->bytes);

  nx_must_release(stage.allocator, allocation);
  assert_int_equal(puppet.released.struct_size, 56);
  assert_int_equal(puppet.released.mechanism_id, 77);
  assert_int_equal(puppet.released.allocation_id, request->allocation_id);
  assert_ptr_equal(puppet.released.ptr, allocation.ptr);
  assert_int_equal(puppet.released.bytes, row->bytes);
  assert_int_equal(puppet.released.align, row->align);
  assert_int_equal(puppet.released.device.tier, NXMEM_TIER_HOST);
  assert_books(stage.allocator, 0, 0, 0, 0);
  nx_stage_strike(&stage);
}

/* ---- What may be answered ---------------------------------------------------------------------------------------- */

typedef struct answer_row {
  const char *name; /* mechanism of the scripted module */
  nx_modes modes;
  nx_refusal want;
  uint64_t handed_back; /* deallocate calls */
  uint64_t quarantined;
} answer_row;

static const answer_row answer_rows[] = {
    {"allocate-refuses", 0, {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, NXMEM_STATUS_OUT_OF_MEMORY}, 0, 0},
    {"null-address", 0, {NXMEM_ERR_CONTRACT, NXMEM_REASON_NULL_ADDRESS, 8, 0, 0, 0}, 0, 1},
    {"misaligned-address", 0, {NXMEM_ERR_CONTRACT, NXMEM_REASON_MISALIGNED_ADDRESS, 8, NX_ANY, 64, 0}, 1, 0},
    {"wrapping-address", 0, {NXMEM_ERR_CONTRACT, NXMEM_REASON_WRAPPING_ADDRESS, 8, ALL_ONES - 63, 4096, 0}, 1, 0},
    {"huge-numbers", 0, {NXMEM_ERR_CONTRACT, NXMEM_REASON_TOTAL_TOO_LARGE, 16, ALL_ONES, TWO_63, 0}, 1, 0},
};

static void test_answer(void **state) {
  const nx_case *c = *state;
  const answer_row *row = c->row;
  nx_observe();
  const char *path = nx_plugin_copy("libnxmem_scripted.so");
  nxmem_host host = nx_host_in(c->mode);
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_allocator allocator = nx_must_open_mechanism(plugin, row->name);
  assert_allocate_refused(allocator, 4096, 64, row->want);
  assert_int_equal(nx_seen[NX_PROBE_ALLOCATE_CALLS], 1);
  assert_int_equal(nx_seen[NX_PROBE_DEALLOCATE_CALLS], row->handed_back);
  assert_int_equal(nx_seen[NX_PROBE_LIVE_ALLOCATIONS], 0);
  assert_books(allocator, 0, row->quarantined, 0, 0);
  const nxmem_host_counts counts = nx_counts(host);
  assert_int_equal(counts.contract_violations, row->want.result == NXMEM_ERR_CONTRACT);
  assert_int_equal(counts.quarantined, row->quarantined);
  assert_int_equal(counts.quarantined_bytes, row->quarantined * 4096);
  nx_must_close(allocator);
  if (row->quarantined == 0) {
    nx_must_unload(plugin, path);
  } else {
    nx_assert_unload_busy(plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, row->quarantined);
    assert_int_equal(nx_counts(host).quarantined, row->quarantined);
    nx_force_leak(host, plugin, path);
  }
  nx_host_gone(host);
}

typedef struct number_row {
  const char *name;
  nx_modes modes;
  uint64_t owned, mapped;
  uint32_t field; /* 0: accepted */
  uint64_t found, needed;
} number_row;

/* The books hold 4096 owned and mapped already. */
static const number_row number_rows[] = {
    {"owned fills the total", 0, TWO_63 - 4096, 0, 0, 0, 0},
    {"mapped fills the total", 0, 0, TWO_63 - 4096, 0, 0, 0},
    {"both fill the total", 0, TWO_63 - 4096, TWO_63 - 4096, 0, 0, 0},
    {"owned one beyond", 0, TWO_63 - 4095, 0, 16, TWO_63 - 4095, TWO_63 - 4096},
    {"mapped one beyond", 0, 0, TWO_63 - 4095, 24, TWO_63 - 4095, TWO_63 - 4096},
    {"owned 2^64-1", 0, ALL_ONES, 1, 16, ALL_ONES, TWO_63 - 4096},
    {"mapped 2^64-1", 0, 1, ALL_ONES, 24, ALL_ONES, TWO_63 - 4096},
    {"owned that would wrap to 0", 0, ALL_ONES - 4095, 0, 16, ALL_ONES - 4095, TWO_63 - 4096},
};

static void test_numbers(void **state) {
  const nx_case *c = *state;
  const number_row *row = c->row;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocation first = nx_must_allocate(stage.allocator, 4096, 8);
  puppet.own_numbers = 1;
  puppet.owned = row->owned;
  puppet.mapped = row->mapped;
  if (row->field == 0) {
    const nxmem_allocation second = nx_must_allocate(stage.allocator, 64, 8);
    assert_books(stage.allocator, 2, 0, 4096 + row->owned, 4096 + row->mapped);
    nx_must_release(stage.allocator, second);
    /* It said 64 bytes were unmapped: what remains of its charge stays mapped. */
    assert_books(stage.allocator, 1, 0, 4096, 4096 + row->mapped - (row->mapped == 0 ? 0 : 64));
  } else {
    assert_allocate_refused(
        stage.allocator, 64, 8,
        refused(NXMEM_ERR_CONTRACT, NXMEM_REASON_TOTAL_TOO_LARGE, row->field, row->found, row->needed));
    assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 1);
    assert_books(stage.allocator, 1, 0, 4096, 4096);
  }
  nx_must_release(stage.allocator, first);
  assert_int_equal(info_of(stage.allocator).owned_bytes, 0);
  nx_stage_strike(&stage);
}

/* OK with nothing written: closed, so the address is NULL. */
static void test_unwritten_result(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(c->mode);
  puppet.leave_out_records = 1;
  assert_allocate_refused(stage.allocator, 64, 8, refused(NXMEM_ERR_CONTRACT, NXMEM_REASON_NULL_ADDRESS, 8, 0, 0));
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), 0);
  assert_books(stage.allocator, 0, 1, 0, 0);
  nx_must_close(stage.allocator);
  nx_force_leak(stage.host, stage.plugin, stage.path);
  nx_host_gone(stage.host);
}

/* ---- Releases ---------------------------------------------------------------------------------------------------- */

typedef struct release_row {
  const char *name;
  nx_modes modes;
  int structured;
  uint32_t code;
  uint32_t state; /* 0xFFFFFFFF: as the host pre-filled it */
  nxmem_result want;
  uint32_t plugin_status;
} release_row;

#define UNWRITTEN NXMEM_UNWRITTEN_STATE
#define GONE NXMEM_OK, 0
#define KEPT(status) NXMEM_ERR_QUARANTINED, (status)
#define LIVE(status) NXMEM_ERR_PLUGIN, (status)

static const release_row release_rows[] = {
    {"OK, COMPLETE", 0, 1, 0, NXMEM_RELEASE_COMPLETE, GONE},
    {"OK, QUARANTINED", 0, 1, 0, NXMEM_RELEASE_QUARANTINED, KEPT(0)},
    {"OK, FAILED", 0, 1, 0, NXMEM_RELEASE_FAILED, LIVE(7)},
    {"OK, state 3", 0, 1, 0, 3, KEPT(0)},
    {"OK, state 2^32-2", 0, 1, 0, U32_MAX - 1, KEPT(0)},
    {"OK, nothing written", 0, 1, 0, UNWRITTEN, KEPT(0)},
    {"error, nothing written", 0, 1, 5, UNWRITTEN, LIVE(5)},
    {"unknown error, nothing written", 0, 1, 4242, UNWRITTEN, LIVE(4242)},
    {"error, FAILED", 0, 1, 5, NXMEM_RELEASE_FAILED, LIVE(5)},
    {"error, COMPLETE", 0, 1, 5, NXMEM_RELEASE_COMPLETE, KEPT(5)},
    {"error, QUARANTINED", 0, 1, 5, NXMEM_RELEASE_QUARANTINED, KEPT(5)},
    {"error, state 3", 0, 1, 5, 3, KEPT(5)},
    {"status quarantined, COMPLETE", 0, 1, 12, NXMEM_RELEASE_COMPLETE, KEPT(12)},
    {"status quarantined, FAILED", 0, 1, 12, NXMEM_RELEASE_FAILED, KEPT(12)},
    {"status quarantined, nothing written", 0, 1, 12, UNWRITTEN, KEPT(12)},
    {"deallocate: OK", 0, 0, 0, UNWRITTEN, GONE},
    {"deallocate: busy", 0, 0, 14, UNWRITTEN, LIVE(14)},
    {"deallocate: status quarantined", 0, 0, 12, UNWRITTEN, KEPT(12)},
    {"deallocate: unknown status", 0, 0, U32_MAX, UNWRITTEN, LIVE(U32_MAX)},
};

static void play_release(const release_row *row) {
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_ugly_status(row->code);
  puppet.outcome = (NxmemReleaseOutcome){.struct_size = 296,
                                         .state = row->state,
                                         .allocation_bytes = 64,
                                         .unmapped_bytes = 64,
                                         .failure = nx_puppet_ugly_status(7)};
}

/* A last honest release where it is still live; else the quarantined one says so for good. */
static void finish_release(nx_stage *stage, nxmem_allocation allocation, const release_row *row) {
  puppet.own_release = 0;
  if (row->want == NXMEM_ERR_PLUGIN) {
    assert_books(stage->allocator, 1, 0, 64, 64);
    nx_must_release(stage->allocator, allocation);
  }
  if (row->want == NXMEM_ERR_QUARANTINED) {
    assert_books(stage->allocator, 0, 1, 64, 64);
    assert_release_refused(stage->allocator, allocation,
                           refused(NXMEM_ERR_QUARANTINED, NXMEM_REASON_WRONG_STATE, 0, 4, 2));
    assert_int_equal(nx_counts(stage->host).quarantined_bytes, 64);
    return;
  }
  assert_books(stage->allocator, 0, 0, 0, 0);
  assert_int_equal(nx_counts(stage->host).quarantined, 0);
}

static void test_release(void **state) {
  static _Alignas(64) uint8_t block[64];
  const nx_case *c = *state;
  const release_row *row = c->row;
  nx_puppet_reset();
  puppet.address = block;
  if (!row->structured) puppet.table.capability_flags = NXMEM_CAP_ALLOCATOR;
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocation allocation = nx_must_allocate(stage.allocator, 64, 64);
  play_release(row);
  nxmem_error error = nx_blank_error();
  const nxmem_result got = nxmem_release(stage.allocator, allocation, NULL, &error);
  assert_int_equal(got, row->want);
  if (got != NXMEM_OK) nx_assert_refused(got, &error, (nx_refusal){row->want, 0, 0, 0, 0, row->plugin_status});
  finish_release(&stage, allocation, row);

  /* Quarantine keeps the module, not the allocator; its charge outlives the allocator. */
  atomic_store(&puppet.live_allocations, 0);
  nx_must_close(stage.allocator);
  if (row->want == NXMEM_ERR_QUARANTINED) {
    assert_int_equal(nx_counts(stage.host).quarantined, 1);
    assert_int_equal(nx_counts(stage.host).owned_bytes, 64);
    assert_int_equal(nx_counts(stage.host).mapped_bytes, 64);
    nx_assert_unload_busy(stage.plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, 1);
    nx_force_leak(stage.host, stage.plugin, stage.path);
  } else {
    nx_must_unload(stage.plugin, stage.path);
  }
  nx_host_gone(stage.host);
}

/* ---- The scripted releases --------------------------------------------------------------------------------------- */

typedef struct scripted_row {
  const char *name;
  nx_modes modes;
  nx_refusal first;     /* result NXMEM_OK: released at once */
  int then_ok;          /* the second try succeeds */
  uint64_t plugin_live; /* what the plugin still counts at the end */
  uint64_t violations;
} scripted_row;

static const scripted_row scripted_rows[] = {
    {"deallocate-refuses", 0, {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, NXMEM_STATUS_BUSY}, 1, 0, 0},
    {"failed-release", 0, {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, NXMEM_STATUS_BUSY}, 1, 0, 0},
    {"over-refund", 0, {NXMEM_OK, 0, 0, 0, 0, 0}, 0, 0, 1},
    {"quarantining", 0, {NXMEM_ERR_QUARANTINED, 0, 0, 0, 0, 0}, 0, 1, 0},
    {"future-state", 0, {NXMEM_ERR_QUARANTINED, 0, 0, 0, 0, 0}, 0, 1, 0},
    {"no-outcome", 0, {NXMEM_ERR_QUARANTINED, 0, 0, 0, 0, 0}, 0, 0, 0},
    {"status-quarantined", 0, {NXMEM_ERR_QUARANTINED, 0, 0, 0, 0, NXMEM_STATUS_RELEASE_QUARANTINED}, 0, 1, 0},
};

static void test_scripted(void **state) {
  const nx_case *c = *state;
  const scripted_row *row = c->row;
  nx_observe();
  const char *path = nx_plugin_copy("libnxmem_scripted.so");
  nxmem_host host = nx_host_in(c->mode);
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_allocator allocator = nx_must_open_mechanism(plugin, row->name);
  const nxmem_allocation allocation = nx_must_allocate(allocator, 4096, 64);
  if (row->first.result == NXMEM_OK)
    nx_must_release(allocator, allocation);
  else
    assert_release_refused(allocator, allocation, row->first);
  const int quarantined = row->first.result == NXMEM_ERR_QUARANTINED;
  if (row->then_ok) {
    assert_books(allocator, 1, 0, 4096, 4096);
    nx_must_release(allocator, allocation);
  }
  assert_books(allocator, 0, (uint64_t)quarantined, quarantined ? 4096 : 0, quarantined ? 4096 : 0);
  assert_int_equal(nx_counts(host).contract_violations, row->violations);
  assert_int_equal(nx_seen[NX_PROBE_LIVE_ALLOCATIONS], row->plugin_live);
  nx_must_close(allocator);
  if (quarantined) {
    if (row->plugin_live != 0)
      nx_assert_unload_busy(plugin, NXMEM_REASON_PLUGIN_HOLDS, 16, 1);
    else
      nx_assert_unload_busy(plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, 1);
    nx_force_leak(host, plugin, path);
  } else {
    nx_must_unload(plugin, path);
    nx_assert_books_closed();
  }
  nx_host_gone(host);
}

/* ---- Refunds ----------------------------------------------------------------------------------------------------- */

typedef struct refund_row {
  const char *name;
  nx_modes modes;
  uint64_t first, second; /* reported unmapped by the two releases of 4096 bytes each */
  uint64_t mapped_between, mapped_after;
  uint64_t violations;
} refund_row;

static const refund_row refund_rows[] = {
    {"each its own", 0, 4096, 4096, 4096, 0, 0},
    {"all with the second", 0, 0, 8192, 8192, 0, 0},
    {"all with the first: never more than its own", 0, 8192, 0, 4096, 4096, 1},
    {"nothing ever", 0, 0, 0, 8192, 8192, 0},
    {"2^64-1 each", 0, ALL_ONES, ALL_ONES, 4096, 0, 2},
    {"a part, then all", 0, 1000, 7192, 7192, 0, 0},
    {"a part, then one too many", 0, 1000, 7193, 7192, 0, 1},
};

static void test_refund(void **state) {
  static _Alignas(64) uint8_t block[64];
  const nx_case *c = *state;
  const refund_row *row = c->row;
  nx_puppet_reset();
  nx_overlap = NXMEM_OVERLAP_TRUSTED;
  puppet.table.capability_flags = NXMEM_CAP_ALLOCATOR;
  puppet.address = block;
  puppet.own_release = 1;
  puppet.release_answer = nx_puppet_status(0);
  nx_stage stage = nx_stage_set(c->mode);
  const nxmem_allocation one = nx_must_allocate(stage.allocator, 4096, 8);
  const nxmem_allocation two = nx_must_allocate(stage.allocator, 4096, 8);
  puppet.outcome.unmapped_bytes = row->first;
  nx_must_release(stage.allocator, one);
  assert_books(stage.allocator, 1, 0, 4096, row->mapped_between);
  puppet.outcome.unmapped_bytes = row->second;
  nx_must_release(stage.allocator, two);
  assert_books(stage.allocator, 0, 0, 0, row->mapped_after);
  assert_int_equal(nx_counts(stage.host).contract_violations, row->violations);
  nx_stage_strike(&stage);
}

static const nx_row_head unwritten_rows[] = {{"OK with nothing written", 0}};

int main(void) {
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(asked_rows), test_asked);
  nx_suite_modes(&suite, ROWS(passed_rows), test_passed);
  nx_suite_modes(&suite, ROWS(answer_rows), test_answer);
  nx_suite_modes(&suite, ROWS(number_rows), test_numbers);
  nx_suite_modes(&suite, ROWS(unwritten_rows), test_unwritten_result);
  nx_suite_modes(&suite, ROWS(release_rows), test_release);
  nx_suite_modes(&suite, ROWS(scripted_rows), test_scripted);
  nx_suite_modes(&suite, ROWS(refund_rows), test_refund);
  return nx_suite_run(&suite, "host_allocation");
}
