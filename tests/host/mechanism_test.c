/*
 * mechanism_test.c: opening a mechanism: the table is taken or refused, and the release that an OK creates is paid.
 *
 * Attackers played: tables that are NULL, wild, short, hollow, on another device, or lie about their capabilities.
 * Promise: every allocator that was opened is released once; a debt that cannot be paid is counted and shuts the gate.
 */
#include "nxmem/prefix.h"
#include "puppet.h"
#include "scripted_probe.h"

#define U32_MAX 0xFFFFFFFFu
#define HOST_0 (1ull << 32)
#define CONTRACT(reason, field, found, needed) \
  { NXMEM_ERR_CONTRACT, NXMEM_REASON_##reason, (field), (found), (needed), 0 }
#define UNREADABLE(found, needed) \
  { NXMEM_ERR_UNREADABLE_MEMORY, NXMEM_REASON_UNREADABLE, 0, (found), (needed), 0 }

static nxmem_result open_mechanism(nxmem_plugin plugin, const char *name, uint64_t required, nxmem_allocator *out,
                                   nxmem_error *error) {
  const nxmem_open_options options = {.mechanism = name, .required_capability_flags = required};
  *error = nx_blank_error();
  return nxmem_allocator_open(plugin, &options, out, error);
}

static void assert_open_refused(nxmem_plugin plugin, const char *name, uint64_t required, nx_refusal want) {
  nxmem_allocator allocator = {0x5A5A};
  nxmem_error error;
  nx_assert_refused(open_mechanism(plugin, name, required, &allocator, &error), &error, want);
  assert_int_equal(allocator.id, 0x5A5A);
}

/* ---- The scripted module ----------------------------------------------------------------------------------------- */

typedef struct scripted_row {
  const char *name; /* the mechanism */
  nx_modes modes;
  nx_refusal want;
  uint64_t unpaid;
  uint64_t plugin_holds; /* allocators that the plugin still counts */
} scripted_row;

static const scripted_row refused_rows[] = {
    {"short-struct", 0, CONTRACT(SHORT_TABLE, 0, 120, 128), 1, 0},
    {"lying-size", NX_GUARDED_ONLY, UNREADABLE(120, 128), 1, 1},
    {"missing-slot", 0, CONTRACT(MISSING_SLOT, 48, 0, 0), 0, 0},
    {"flag-without-slot", 0, CONTRACT(FLAG_WITHOUT_SLOT, 120, 0, 0), 0, 0},
    {"zero-mechanism", 0, CONTRACT(ZERO_MECHANISM, 8, 0, 0), 0, 0},
    {"unknown-capability", 0, CONTRACT(UNKNOWN_CAPABILITY, 24, (1ull << 40) | 17, 31), 0, 0},
    {"wrong-device", 0, CONTRACT(OTHER_DEVICE, 16, HOST_0 + 1, HOST_0), 0, 0},
    {"undeclared-table", 0, CONTRACT(TABLE_WITHOUT_FLAG, 80, 0, 0), 0, 0},
    {"null-table", 0, CONTRACT(NULL_POINTER, 0, 0, 0), 1, 0},
    {"wild-table", NX_GUARDED_ONLY, UNREADABLE(0, 8), 1, 0},
    {"misaligned-table", 0, CONTRACT(MISALIGNED, 0, 4, 8), 1, 0},
    {"open-refuses", 0, {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, NXMEM_STATUS_DEVICE_ERROR}, 0, 0},
};

/* A debt keeps the module: the plugin's own count names it first, where there is one. */
static void assert_kept(nxmem_host host, nxmem_plugin plugin, const char *path, const scripted_row *row) {
  const uint32_t reason = row->plugin_holds != 0 ? NXMEM_REASON_PLUGIN_HOLDS : NXMEM_REASON_HOST_HOLDS;
  const uint32_t axis = row->plugin_holds != 0 ? 8 : NXMEM_AXIS_UNPAID_DEBTS;
  const nxmem_unload_info info = nx_assert_unload_busy(plugin, reason, axis, 1);
  assert_int_equal(info.host_unpaid_debts, 1);
  assert_int_equal(info.host_allocators, 0);
  assert_int_equal(info.plugin.live_allocators, row->plugin_holds);
  nx_force_leak(host, plugin, path);
}

static void test_scripted_refused(void **state) {
  const nx_case *c = *state;
  const scripted_row *row = c->row;
  nx_observe();
  const char *path = nx_plugin_copy("libnxmem_scripted.so");
  nxmem_host host = nx_host_in(c->mode);
  nxmem_plugin plugin = nx_must_open(host, path);
  assert_open_refused(plugin, row->name, 0, row->want);
  const nxmem_host_counts counts = nx_counts(host);
  assert_int_equal(counts.open_allocators, 0);
  assert_int_equal(counts.unpaid_debts, row->unpaid);
  assert_int_equal(counts.contract_violations, row->want.result != NXMEM_ERR_PLUGIN);
  assert_int_equal(nx_seen[NX_PROBE_OPEN_CALLS], 1);

  /* The others are not harmed by it. */
  nxmem_allocator eager = nx_must_open_mechanism(plugin, "eager");
  nx_must_release(eager, nx_must_allocate(eager, 4096, 4096));
  nx_must_close(eager);
  if (row->unpaid != 0) {
    assert_kept(host, plugin, path, row);
  } else {
    nx_must_unload(plugin, path);
    nx_assert_books_closed();
  }
  nx_host_gone(host);
}

typedef struct driven_row {
  const char *name;
  nx_modes modes;
  uint32_t abi_minor;
  uint64_t effective;
} driven_row;

static const driven_row driven_rows[] = {
    {"eager", 0, 1, 17},         {"legacy-1-0", 0, 0, 1}, {"guard-page-table", 0, 0, 1},
    {"poisoned-tail", 0, 1, 17}, {"ahead", 0, 1, 17},
};

static void test_driven(void **state) {
  const nx_case *c = *state;
  const driven_row *row = c->row;
  nx_observe();
  const char *path = nx_plugin_copy("libnxmem_scripted.so");
  nxmem_host host = nx_host_in(c->mode);
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_allocator allocator = nx_must_open_mechanism(plugin, row->name);
  nxmem_allocator_info info;
  assert_int_equal(nxmem_allocator_get_info(allocator, &info, NULL), NXMEM_OK);
  assert_int_equal(info.abi_minor, row->abi_minor);
  assert_int_equal(info.effective_flags, row->effective);
  nx_must_release(allocator, nx_must_allocate(allocator, 100, 8));
  assert_int_equal(nx_seen[NX_PROBE_RELEASE_ALLOCATION_CALLS], row->effective == 17);
  assert_int_equal(nx_seen[NX_PROBE_DEALLOCATE_CALLS], row->effective == 1);
  assert_int_equal(nx_seen[NX_PROBE_RETAIN_CALLS], 0);
  nx_must_close(allocator);
  nx_must_unload(plugin, path);
  nx_assert_books_closed();
  assert_int_equal(nx_counts(host).contract_violations, 0);
  nx_host_gone(host);
}

/* ---- Real plugins under older and poorer hosts ------------------------------------------------------------------- */

typedef struct host_row {
  const char *name;
  nx_modes modes;
  const char *library, *mechanism;
  uint32_t minor_max;
  uint64_t flags;
  uint64_t structured, plain; /* calls of release_allocation and deallocate; minimal does not say */
} host_row;

#define SCRIPTED "libnxmem_scripted.so"
#define MINIMAL "libnxmem_minimal.so"

static const host_row host_rows[] = {
    {"1.1 host, eager", 0, SCRIPTED, "eager", 1, 31, 1, 0},
    {"1.0 host, eager", 0, SCRIPTED, "eager", 0, 31, 0, 1},
    {"1.1 host without structured release, eager", 0, SCRIPTED, "eager", 1, 15, 0, 1},
    {"1.1 host with the allocator alone, eager", 0, SCRIPTED, "eager", 1, 1, 0, 1},
    {"1.1 host, legacy-1-0", 0, SCRIPTED, "legacy-1-0", 1, 31, 0, 1},
    {"1.0 host, legacy-1-0", 0, SCRIPTED, "legacy-1-0", 0, 31, 0, 1},
    {"1.0 host, poisoned-tail", 0, SCRIPTED, "poisoned-tail", 0, 31, 0, 1},
    {"1.0 host, ahead", 0, SCRIPTED, "ahead", 0, 31, 0, 1},
    {"1.1 host, minimal", 0, MINIMAL, "minimal", 1, 31, 0, 0},
    {"1.0 host, minimal", 0, MINIMAL, "minimal", 0, 1, 0, 0},
};

static void test_host_level(void **state) {
  const nx_case *c = *state;
  const host_row *row = c->row;
  nx_observe();
  const char *path = nx_plugin_copy(row->library);
  nxmem_host host = nx_host_of_level(c->mode, row->minor_max, row->flags);
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_allocator allocator = nx_must_open_mechanism(plugin, row->mechanism);
  nxmem_allocation allocation = nx_must_allocate(allocator, 6912, 256);
  memset(allocation.ptr, 0x77, 6912);
  nx_must_release(allocator, allocation);
  assert_int_equal(nx_counts(host).owned_bytes, 0);
  assert_int_equal(nx_counts(host).mapped_bytes, 0);
  assert_int_equal(nx_seen[NX_PROBE_RELEASE_ALLOCATION_CALLS], row->structured);
  assert_int_equal(nx_seen[NX_PROBE_DEALLOCATE_CALLS], row->plain);
  nx_must_close(allocator);
  nx_must_unload(plugin, path);
  nx_assert_books_closed();
  assert_int_equal(nx_counts(host).contract_violations, 0);
  nx_host_gone(host);
}

/* ---- Tables the test writes itself ------------------------------------------------------------------------------- */

typedef struct table_row {
  const char *name;
  nx_modes modes;
  void (*arrange)(void);
  nx_refusal want;
  uint64_t unpaid;
} table_row;

#define TABLE_ROW_EDIT(function, statement) \
  static void function(void) { statement; }
TABLE_ROW_EDIT(size_0, puppet.table.struct_size = 0)
TABLE_ROW_EDIT(size_7, puppet.table.struct_size = 7)
TABLE_ROW_EDIT(size_8, puppet.table.struct_size = 8)
TABLE_ROW_EDIT(size_119, (puppet.table.struct_size = 119, puppet.table.abi_minor = 0))
TABLE_ROW_EDIT(size_121, puppet.table.struct_size = 121)
TABLE_ROW_EDIT(size_127, puppet.table.struct_size = 127)
TABLE_ROW_EDIT(no_deallocate, puppet.table.deallocate = NULL)
TABLE_ROW_EDIT(no_retain, puppet.table.retain = NULL)
TABLE_ROW_EDIT(no_release, puppet.table.release = NULL)
TABLE_ROW_EDIT(tier_device, puppet.table.device.tier = NXMEM_TIER_DEVICE)
TABLE_ROW_EDIT(tier_unknown, puppet.table.device.tier = 77)
TABLE_ROW_EDIT(no_allocator_flag, puppet.table.capability_flags = NXMEM_CAP_STRUCTURED_RELEASE)
TABLE_ROW_EDIT(all_flags, puppet.table.capability_flags = 0xFFFFFFFFFFFFFFFFull)
TABLE_ROW_EDIT(flag_of_1_at_0, puppet.table.abi_minor = 0)
TABLE_ROW_EDIT(no_enqueue, puppet.table.enqueue_release = NULL)
TABLE_ROW_EDIT(no_drain, puppet.table.drain_releases = NULL)
TABLE_ROW_EDIT(no_pending, puppet.table.pending_release_count = NULL)
TABLE_ROW_EDIT(backing_null, puppet.table.capability_flags |= NXMEM_CAP_VIRTUAL_BACKING)
TABLE_ROW_EDIT(sharing_null, puppet.table.capability_flags |= NXMEM_CAP_SHARED_MAPPING)
TABLE_ROW_EDIT(sharing_undeclared, puppet.table.shared_mapping = &puppet.sharing)

static void backing_at(const void *at) {
  puppet.table.capability_flags |= NXMEM_CAP_VIRTUAL_BACKING;
  puppet.table.virtual_backing = at;
}
static void sharing_at(const void *at) {
  puppet.table.capability_flags |= NXMEM_CAP_SHARED_MAPPING;
  puppet.table.shared_mapping = at;
}
static void backing_wild(void) { backing_at((const void *)(uintptr_t)0x18); }
static void backing_misaligned(void) { backing_at((const uint8_t *)&puppet.backing + 4); }
static void backing_short(void) {
  backing_at(&puppet.backing);
  puppet.backing.struct_size = 71;
}
static void backing_foreign(void) {
  backing_at(&puppet.backing);
  puppet.backing.mechanism_id = 78;
}
static void sharing_wild(void) { sharing_at((const void *)(uintptr_t)0xFFFFFFFFFFFFFFF0ull); }
static void sharing_short(void) {
  sharing_at(&puppet.sharing);
  puppet.sharing.struct_size = 63;
}
static void sharing_foreign(void) {
  sharing_at(&puppet.sharing);
  puppet.sharing.mechanism_id = 0;
}
static void published_null(void) { puppet.published = NULL; }
static void published_wild(void) { puppet.published = (const NxmemAllocatorVtable *)(uintptr_t)0xDEAD0000DEAD0000ull; }
static void published_odd(void) {
  puppet.published = (const NxmemAllocatorVtable *)(const void *)((const uint8_t *)&puppet.table + 1);
}

static const table_row table_rows[] = {
    {"size 0", 0, size_0, CONTRACT(SHORT_HEADER, 0, 0, 8), 1},
    {"size 7", 0, size_7, CONTRACT(SHORT_HEADER, 0, 7, 8), 1},
    {"size 8", 0, size_8, CONTRACT(SHORT_TABLE, 0, 8, 128), 1},
    {"size 119 at minor 0", 0, size_119, CONTRACT(SHORT_TABLE, 0, 119, 120), 1},
    {"size 121: one byte of the newer slot", 0, size_121, CONTRACT(SHORT_TABLE, 0, 121, 128), 1},
    {"size 127: seven bytes of the newer slot", 0, size_127, CONTRACT(SHORT_TABLE, 0, 127, 128), 1},
    {"no deallocate", 0, no_deallocate, CONTRACT(MISSING_SLOT, 56, 0, 0), 0},
    {"no retain", 0, no_retain, CONTRACT(MISSING_SLOT, 64, 0, 0), 0},
    {"no release", 0, no_release, CONTRACT(MISSING_SLOT, 72, 0, 0), 1},
    {"another tier", 0, tier_device, CONTRACT(OTHER_DEVICE, 16, 0, HOST_0), 0},
    {"an unknown tier", 0, tier_unknown, CONTRACT(OTHER_DEVICE, 16, 77ull << 32, HOST_0), 0},
    {"no allocator flag", 0, no_allocator_flag, CONTRACT(NO_ALLOCATOR, 24, 16, 1), 0},
    {"every flag at our level", 0, all_flags, CONTRACT(UNKNOWN_CAPABILITY, 24, 0xFFFFFFFFFFFFFFFFull, 31), 0},
    {"a flag of 1.1 in a table of 1.0", 0, flag_of_1_at_0, CONTRACT(UNKNOWN_CAPABILITY, 24, 25, 15), 0},
    {"deferred release without enqueue", 0, no_enqueue, CONTRACT(FLAG_WITHOUT_SLOT, 96, 0, 0), 0},
    {"deferred release without drain", 0, no_drain, CONTRACT(FLAG_WITHOUT_SLOT, 104, 0, 0), 0},
    {"deferred release without count", 0, no_pending, CONTRACT(FLAG_WITHOUT_SLOT, 112, 0, 0), 0},
    {"virtual backing that is NULL", 0, backing_null, CONTRACT(FLAG_WITHOUT_SLOT, 80, 0, 0), 0},
    {"virtual backing that is wild", NX_GUARDED_ONLY, backing_wild, UNREADABLE(0, 8), 0},
    {"virtual backing that is misaligned", 0, backing_misaligned, CONTRACT(MISALIGNED, 0, 4, 8), 0},
    {"virtual backing of 71 bytes", 0, backing_short, CONTRACT(SHORT_TABLE, 0, 71, 72), 0},
    {"virtual backing of another mechanism", 0, backing_foreign, CONTRACT(OTHER_MECHANISM, 8, 78, 77), 0},
    {"shared mapping that is NULL", 0, sharing_null, CONTRACT(FLAG_WITHOUT_SLOT, 88, 0, 0), 0},
    {"shared mapping that is wild", NX_GUARDED_ONLY, sharing_wild, UNREADABLE(0, 8), 0},
    {"shared mapping of 63 bytes", 0, sharing_short, CONTRACT(SHORT_TABLE, 0, 63, 64), 0},
    {"shared mapping of mechanism 0", 0, sharing_foreign, CONTRACT(ZERO_MECHANISM, 8, 0, 0), 0},
    {"shared mapping nobody declared", 0, sharing_undeclared, CONTRACT(TABLE_WITHOUT_FLAG, 88, 0, 0), 0},
    {"published NULL", 0, published_null, CONTRACT(NULL_POINTER, 0, 0, 0), 1},
    {"published wild", NX_GUARDED_ONLY, published_wild, UNREADABLE(0, 8), 1},
    {"published at an odd address", 0, published_odd, CONTRACT(MISALIGNED, 0, 1, 8), 1},
};

/* Also a second time in the same module: each refusal stands for itself. */
static void test_table(void **state) {
  const nx_case *c = *state;
  const table_row *row = c->row;
  nx_puppet_reset();
  row->arrange();
  const char *path = nx_puppet_copy();
  nxmem_host host = nx_host_in(c->mode);
  nxmem_plugin plugin = nx_must_open(host, path);
  for (int i = 0; i < 2; i++) assert_open_refused(plugin, "puppet", 0, row->want);
  assert_int_equal(nx_puppet_calls(NX_IN_OPEN), 2);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), row->unpaid != 0 ? 0 : 2);
  assert_int_equal(atomic_load(&puppet.foreign_contexts), 0);
  assert_int_equal(nx_counts(host).unpaid_debts, 2 * row->unpaid);
  assert_int_equal(nx_counts(host).contract_violations, 2);
  if (row->unpaid == 0) {
    nx_must_unload(plugin, path);
  } else {
    puppet.own_report = 1; /* even when the plugin says that all is well */
    puppet.report = (NxmemUnloadReport){48, 0, 0, 0, 0, 0, 0};
    nx_assert_unload_busy(plugin, NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_UNPAID_DEBTS, 2);
    nx_force_leak(host, plugin, path);
  }
  assert_int_equal(nx_puppet_calls(NX_IN_ALLOCATE) + nx_puppet_calls(NX_IN_DEALLOCATE), 0);
  nx_host_gone(host);
}

/* ---- What the caller may ask ------------------------------------------------------------------------------------- */

typedef struct asked_row {
  const char *name;
  nx_modes modes;
  void (*arrange)(void);
  const char *mechanism;
  uint64_t required;
  nx_refusal want;
  uint64_t entered; /* whether the plugin was asked */
} asked_row;

static void honest(void) {}
static void refuses(void) { puppet.open_answer = nx_puppet_ugly_status(NXMEM_STATUS_BUSY); }
static void refuses_unknown(void) { puppet.open_answer = nx_puppet_ugly_status(U32_MAX); }
static void two_devices(void) {
  puppet.written = 2;
  puppet.count = 2;
  puppet.factories[1].name = puppet.factories[0].name;
  puppet.factories[1].device.index = 1;
}
static void many_long_names(void) {
  static uint8_t names[64][256];
  puppet.written = 64;
  puppet.count = 64;
  for (uint32_t i = 0; i < 64; i++) {
    memset(names[i], 'a' + (int)(i % 26), 200);
    names[i][200] = (uint8_t)('0' + i / 26);
    puppet.factories[i].name = names[i];
  }
}

#define CODE(result) \
  { (result), 0, 0, 0, 0, 0 }

static const asked_row asked_rows[] = {
    {"no mechanism of that name", 0, honest, "other", 0, CODE(NXMEM_ERR_UNKNOWN_MECHANISM), 0},
    {"a name that begins alike", 0, honest, "puppe", 0, CODE(NXMEM_ERR_UNKNOWN_MECHANISM), 0},
    {"the empty name", 0, honest, "", 0, CODE(NXMEM_ERR_UNKNOWN_MECHANISM), 0},
    {"a name with controls", 0, honest, "\x1B[31m\nx", 0, CODE(NXMEM_ERR_UNKNOWN_MECHANISM), 0},
    {"no such name among 64 long ones", 0, many_long_names, "x", 0, CODE(NXMEM_ERR_UNKNOWN_MECHANISM), 0},
    {"two devices and none chosen", 0, two_devices, "puppet", 0, CODE(NXMEM_ERR_UNKNOWN_MECHANISM), 0},
    {"mechanism is NULL", 0, honest, NULL, 0, CODE(NXMEM_ERR_INVALID_ARGUMENT), 0},
    {"required bits that do not exist", 0, honest, "puppet", 1ull << 5, CODE(NXMEM_ERR_INVALID_ARGUMENT), 0},
    {"required and not there",
     0,
     honest,
     "puppet",
     NXMEM_CAP_VIRTUAL_BACKING,
     {NXMEM_ERR_UNSUPPORTED_CAPABILITY, NXMEM_REASON_REQUIRED_MISSING, 0, 25, 2, 0},
     1},
    {"the plugin refuses", 0, refuses, "puppet", 0, {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, NXMEM_STATUS_BUSY}, 1},
    {"the plugin refuses with 2^32-1", 0, refuses_unknown, "puppet", 0, {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, U32_MAX}, 1},
};

static void test_asked(void **state) {
  const nx_case *c = *state;
  const asked_row *row = c->row;
  nx_puppet_reset();
  row->arrange();
  const char *path = nx_puppet_copy();
  nxmem_host host = nx_host_in(c->mode);
  nxmem_plugin plugin = nx_must_open(host, path);
  assert_open_refused(plugin, row->mechanism, row->required, row->want);
  assert_int_equal(nx_puppet_calls(NX_IN_OPEN), row->entered);
  if (row->want.result == NXMEM_ERR_UNSUPPORTED_CAPABILITY)
    assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), 1); /* it said OK: the debt is paid */
  assert_int_equal(nx_counts(host).contract_violations, 0);
  assert_int_equal(nx_counts(host).open_allocators, 0);
  nx_must_unload(plugin, path);
  nx_host_gone(host);
}

/* The device chooses among mechanisms of one name, and the request carries it. */
static void test_device(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  two_devices();
  const char *path = nx_puppet_copy();
  nxmem_host host = nx_host_in(c->mode);
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_allocator allocator = {0};
  for (uint32_t index = 0; index < 2; index++) {
    const NxmemDeviceId device = {NXMEM_TIER_HOST, index};
    puppet.table.device = device;
    const nxmem_open_options options = {.mechanism = "puppet", .device = &device, .required_capability_flags = 16};
    assert_int_equal(nxmem_allocator_open(plugin, &options, &allocator, NULL), NXMEM_OK);
    assert_int_equal(puppet.open_request.struct_size, 32);
    assert_int_equal(puppet.open_request.device.tier, NXMEM_TIER_HOST);
    assert_int_equal(puppet.open_request.device.index, index);
    assert_int_equal(puppet.open_request.required_capability_flags, 17);
    nx_must_close(allocator);
  }
  const NxmemDeviceId absent = {NXMEM_TIER_HOST, 2};
  const nxmem_open_options options = {.mechanism = "puppet", .device = &absent};
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_allocator_open(plugin, &options, &allocator, &error), &error, NXMEM_ERR_UNKNOWN_MECHANISM);
  nx_assert_code(nxmem_allocator_open(plugin, NULL, &allocator, &error), &error, NXMEM_ERR_INVALID_ARGUMENT);
  nx_assert_code(nxmem_allocator_open(plugin, &options, NULL, &error), &error, NXMEM_ERR_INVALID_ARGUMENT);
  nx_must_unload(plugin, path);
  nx_host_gone(host);
}

/* Capability tables that are whole are taken; those that are masked are not even looked at. */
static void test_masked_table(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  backing_at((const void *)(uintptr_t)0x18);
  puppet.response.capability_flags = 29;
  nx_stage stage = nx_stage_set(c->mode);
  nxmem_allocator_info info;
  assert_int_equal(nxmem_allocator_get_info(stage.allocator, &info, NULL), NXMEM_OK);
  assert_int_equal(info.declared_flags, 27);
  assert_int_equal(info.effective_flags, 25);
  assert_int_equal(info.mechanism_id, 77);
  nx_stage_strike(&stage);
}

static const nx_row_head device_rows[] = {{"one name on two devices", 0}};
static const nx_row_head masked_rows[] = {{"a wild table behind a masked flag", 0}};

int main(void) {
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(refused_rows), test_scripted_refused);
  nx_suite_modes(&suite, ROWS(driven_rows), test_driven);
  nx_suite_modes(&suite, ROWS(host_rows), test_host_level);
  nx_suite_modes(&suite, ROWS(table_rows), test_table);
  nx_suite_modes(&suite, ROWS(asked_rows), test_asked);
  nx_suite_modes(&suite, ROWS(device_rows), test_device);
  nx_suite_modes(&suite, ROWS(masked_rows), test_masked_table);
  return nx_suite_run(&suite, "host_mechanism");
}
