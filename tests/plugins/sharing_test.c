/*
 * sharing_test.c: does each mechanism of libnxmem_scripted_sharing.so commit what its name says, and nothing else?
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: views, prefixes and charges are compared with the module's own counts; behind each story they are gone.
 */
#include <string.h>

#include "backing.h"
#include "mechanisms.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { G = GRANULE };

static NxmemAllocation empty(const scene *s, uint64_t id) { return reserve(s->table, id, 2u * G, NULL, 0u, 0u); }

static NxmemStatus create(const scene *s, uint64_t bytes, NxmemSharedPrefixHandle *handle) {
  const NxmemSharedMappingVtable *m = s->table->shared_mapping;
  *handle = unwritten_handle();
  return m->create_shared_prefix(m->ctx, s->table->mechanism_id, bytes, handle);
}

static void show_honest(const scene *s) {
  const NxmemAllocation a = empty(s, 5u);
  const NxmemSharedPrefixHandle prefix = make_prefix(s->table, G);
  assert_shared(s->table, &prefix, &a, G, G);
  drop_prefix(s->table, &prefix);
  give_back(s->table, &a);
}

/* ---- create ------------------------------------------------------------------------------------------------------ */

static void show_refused(const scene *s) {
  NxmemSharedPrefixHandle handle;
  const NxmemSharedPrefixHandle before = unwritten_handle();
  assert_status(create(s, G, &handle), NXMEM_STATUS_OUT_OF_MEMORY);
  assert_memory_equal(&handle, &before, sizeof before);
  assert_report(s->p, 1u, 0u, 0u, 0u, 0u);
}

static void show_silent(const scene *s) {
  NxmemSharedPrefixHandle handle;
  const NxmemSharedPrefixHandle before = unwritten_handle();
  assert_status(create(s, G, &handle), NXMEM_STATUS_OK);
  assert_memory_equal(&handle, &before, sizeof before);
  assert_report(s->p, 1u, 0u, 0u, 0u, 0u);
}

/* Whole, but for one field, and nothing behind it. */
static NxmemSharedPrefixHandle ghost(const scene *s) {
  NxmemSharedPrefixHandle handle;
  assert_status(create(s, G, &handle), NXMEM_STATUS_OK);
  assert_int_equal(handle.struct_size, 64u);
  assert_int_equal(handle.requested_bytes, G);
  assert_int_equal(handle.mapped_bytes, G);
  assert_report(s->p, 1u, 0u, 0u, 0u, 0u);
  assert_int_equal(counted(s, NX_PROBE_PREFIX_RELEASE_CALLS), 0u);
  return handle;
}

static void show_zero_handle(const scene *s) {
  const NxmemSharedPrefixHandle handle = ghost(s);
  assert_int_equal(handle.handle, 0u);
  assert_int_equal(handle.mechanism_id, s->table->mechanism_id);
  assert_int_equal(handle.device.index, 0u);
}
static void show_other_mechanism(const scene *s) {
  const NxmemSharedPrefixHandle handle = ghost(s);
  assert_int_not_equal(handle.handle, 0u);
  assert_int_equal(handle.mechanism_id, s->table->mechanism_id ^ 1ull << 60);
  assert_int_equal(handle.device.index, 0u);
}
static void show_other_device(const scene *s) {
  const NxmemSharedPrefixHandle handle = ghost(s);
  assert_int_not_equal(handle.handle, 0u);
  assert_int_equal(handle.mechanism_id, s->table->mechanism_id);
  assert_int_equal(handle.device.index, 1u);
}

static void show_other_bytes(const scene *s) {
  NxmemSharedPrefixHandle handle;
  assert_status(create(s, 100u, &handle), NXMEM_STATUS_OK);
  assert_int_equal(handle.requested_bytes, 101u);
  assert_report(s->p, 1u, 0u, 0u, 1u, 0u);
  drop_prefix(s->table, &handle);
}

static void show_huge(const scene *s) {
  NxmemSharedPrefixHandle handle;
  assert_status(create(s, 100u, &handle), NXMEM_STATUS_OK);
  assert_int_equal(handle.requested_bytes, 100u);
  assert_int_equal(handle.committed_physical_bytes, UINT64_MAX);
  assert_int_equal(handle.mapped_bytes, UINT64_MAX);
  assert_report(s->p, 1u, 0u, 0u, 1u, 0u);
  drop_prefix(s->table, &handle);
}

static void show_same_handle(const scene *s) {
  const NxmemSharedPrefixHandle first = make_prefix(s->table, G);
  NxmemSharedPrefixHandle second;
  assert_status(create(s, 2u * G, &second), NXMEM_STATUS_OK);
  assert_memory_equal(&first, &second, sizeof first);
  assert_report(s->p, 1u, 0u, 0u, 1u, 0u);
  drop_prefix(s->table, &first);
  assert_report(s->p, 1u, 0u, 0u, 1u, 0u);
  drop_prefix(s->table, &second);
  assert_int_equal(counted(s, NX_PROBE_PREFIX_CREATE_CALLS), 2u);
  assert_int_equal(counted(s, NX_PROBE_PREFIX_RETAIN_CALLS), 0u);
}

/* ---- commit ------------------------------------------------------------------------------------------------------ */

/* One prefix into one allocation: what is said; whether it is mapped. */
static NxmemSharedPrefixCommitInfo shared(const scene *s, int mapped) {
  const NxmemAllocation a = empty(s, 5u);
  const NxmemSharedPrefixHandle prefix = make_prefix(s->table, G);
  NxmemSharedPrefixCommitInfo info;
  assert_status(share(s->table, &prefix, &a, 0u, &info), NXMEM_STATUS_OK);
  assert_int_equal(accessible(&a), mapped);
  assert_report(s->p, 1u, 1u, (uint64_t)mapped, 1u, 0u);
  assert_int_equal(counted(s, NX_PROBE_PREFIX_COMMIT_CALLS), 1u);
  drop_prefix(s->table, &prefix);
  give_back(s->table, &a);
  return info;
}

static void assert_info(NxmemSharedPrefixCommitInfo info, uint64_t additional, uint64_t mapped, uint64_t granules) {
  assert_int_equal(info.additional_owned_bytes, additional);
  assert_int_equal(info.newly_mapped_bytes, mapped);
  assert_int_equal(info.granules, granules);
}

static void show_share_silent(const scene *s) { assert_info(shared(s, 1), UINT64_MAX, UINT64_MAX, UINT64_MAX); }
static void show_share_huge(const scene *s) {
  assert_info(shared(s, 1), UINT64_MAX - 1u, UINT64_MAX - 1u, UINT64_MAX - 1u);
}
static void show_share_nothing(const scene *s) { assert_info(shared(s, 0), G, G, 1u); }

/* One prefix into four allocations; the commit `fails_at` (4: none) is refused. Charged by those in `charged`. */
typedef struct group {
  NxmemSharedPrefixHandle prefix;
  NxmemAllocation blocks[4];
} group;

static group share_with_four(const scene *s, uint32_t fails_at, uint32_t charged, uint32_t mapped) {
  group g = {.prefix = make_prefix(s->table, G)};
  for (uint32_t i = 0u; i < 4u; i++) {
    NxmemSharedPrefixCommitInfo info;
    g.blocks[i] = empty(s, 5u + i);
    assert_status(share(s->table, &g.prefix, &g.blocks[i], 0u, &info),
                  i == fails_at ? NXMEM_STATUS_OUT_OF_MEMORY : NXMEM_STATUS_OK);
    if (i != fails_at) assert_info(info, (charged >> i & 1u) != 0u ? G : 0u, G, 1u);
    if (i == fails_at) assert_info(info, UINT64_MAX, UINT64_MAX, UINT64_MAX);
    assert_int_equal(accessible(&g.blocks[i]), mapped >> i & 1u);
  }
  assert_int_equal(counted(s, NX_PROBE_PREFIX_COMMIT_CALLS), 4u);
  return g;
}

static void end_group(const scene *s, const group *g) {
  drop_prefix(s->table, &g->prefix);
  for (uint32_t i = 0u; i < 4u; i++) give_back(s->table, &g->blocks[i]);
  assert_report(s->p, 1u, 0u, 0u, 0u, 0u);
}

static void show_charges(const scene *s) {
  const group g = share_with_four(s, 4u, 15u, 15u);
  end_group(s, &g);
}
static void show_fails_first(const scene *s) {
  const group g = share_with_four(s, 0u, 2u, 14u);
  end_group(s, &g);
}
static void show_fails_second(const scene *s) {
  const group g = share_with_four(s, 1u, 1u, 13u);
  end_group(s, &g);
}
static void show_fails_third(const scene *s) {
  const group g = share_with_four(s, 2u, 1u, 11u);
  end_group(s, &g);
}
static void show_fails_mapped(const scene *s) {
  const group g = share_with_four(s, 1u, 1u, 15u);
  assert_report(s->p, 1u, 4u, 4u, 1u, 0u);
  end_group(s, &g);
}

/* What got the prefix stays for good, its view with it. */
static void show_rollback(const scene *s) {
  const group g = share_with_four(s, 1u, 1u, 13u);
  NxmemReleaseOutcome outcome = unwritten();
  assert_status(s->table->release_allocation(s->table->ctx, &g.blocks[0], &outcome), NXMEM_STATUS_OK);
  assert_int_equal(outcome.state, NXMEM_RELEASE_QUARANTINED);
  assert_int_equal(outcome.residual_owned_bytes, G);
  drop_prefix(s->table, &g.prefix);
  for (uint32_t i = 1u; i < 4u; i++) give_back(s->table, &g.blocks[i]);
  assert_report(s->p, 1u, 1u, 1u, 0u, 0u);
}

/* ---- retain, release, incremental -------------------------------------------------------------------------------- */

static void show_retain_refused(const scene *s) {
  const NxmemSharedMappingVtable *m = s->table->shared_mapping;
  const NxmemSharedPrefixHandle prefix = make_prefix(s->table, G);
  assert_status(m->retain_shared_prefix(m->ctx, &prefix), NXMEM_STATUS_DEVICE_ERROR);
  drop_prefix(s->table, &prefix);
  assert_report(s->p, 1u, 0u, 0u, 0u, 0u);
}

static void show_release_refused(const scene *s) {
  const NxmemSharedMappingVtable *m = s->table->shared_mapping;
  const NxmemSharedPrefixHandle prefix = make_prefix(s->table, G);
  assert_status(m->release_shared_prefix(m->ctx, &prefix), NXMEM_STATUS_DEVICE_ERROR);
  assert_report(s->p, 1u, 0u, 0u, 1u, 0u);
  drop_prefix(s->table, &prefix);
  assert_report(s->p, 1u, 0u, 0u, 0u, 0u);
  assert_int_equal(counted(s, NX_PROBE_PREFIX_RELEASE_CALLS), 2u);
}

static void increments(const scene *s, uint32_t code, uint64_t said) {
  const NxmemSharedMappingVtable *m = s->table->shared_mapping;
  const NxmemSharedPrefixHandle prefix = make_prefix(s->table, G);
  uint64_t bytes = UINT64_MAX;
  assert_status(m->incremental_owned_bytes(m->ctx, &prefix, &bytes), code);
  assert_int_equal(bytes, said);
  drop_prefix(s->table, &prefix);
}
static void show_incremental_huge(const scene *s) { increments(s, NXMEM_STATUS_OK, UINT64_MAX - 1u); }
static void show_incremental_silent(const scene *s) { increments(s, NXMEM_STATUS_OK, UINT64_MAX); }
static void show_incremental_refused(const scene *s) { increments(s, NXMEM_STATUS_DEVICE_ERROR, UINT64_MAX); }

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

enum { SHARED = 23 };
#define ROW(name, show) \
  { name, 128, 1, SHARED, ANY, 1, show }

static const mechanism_row rows[] = {
    {"eager", 128, 1, STRUCTURED, ANY, 1, show_eager},
    {"lazy", 128, 1, ALL, ANY, 1, show_honest},
    ROW("prefix-refused", show_refused),
    ROW("prefix-silent", show_silent),
    ROW("prefix-zero-handle", show_zero_handle),
    ROW("prefix-other-mechanism", show_other_mechanism),
    ROW("prefix-other-device", show_other_device),
    ROW("prefix-other-bytes", show_other_bytes),
    ROW("prefix-huge", show_huge),
    ROW("prefix-same-handle", show_same_handle),
    ROW("share-silent", show_share_silent),
    ROW("share-huge", show_share_huge),
    ROW("share-charges-twice", show_charges),
    ROW("share-fails-first", show_fails_first),
    ROW("share-fails-second", show_fails_second),
    ROW("share-fails-third", show_fails_third),
    ROW("share-fails-mapped", show_fails_mapped),
    ROW("share-nothing", show_share_nothing),
    ROW("prefix-retain-refused", show_retain_refused),
    ROW("prefix-release-refused", show_release_refused),
    ROW("incremental-huge", show_incremental_huge),
    ROW("incremental-silent", show_incremental_silent),
    ROW("incremental-refused", show_incremental_refused),
    ROW("rollback-quarantines", show_rollback),
};

int main(void) {
  static const subject sharing = {"libnxmem_scripted_sharing.so", "sharing", 0u, 31u};
  add_mechanisms(&sharing, rows, COUNT(rows), 1);
  return run_added("sharing mechanisms");
}
