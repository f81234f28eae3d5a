/*
 * capabilities_test.c: does each mechanism of libnxmem_scripted_capabilities.so publish what its name says?
 *
 * Attackers played: none; here the attackers are under test.
 * Promise: where a capability table is short, it is shown that it really ends there; all else works.
 */
#include <string.h>

#include "mechanisms.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void works(const scene *s) {
  const NxmemAllocation a = take(s->table, 5u, 100u, 64u);
  give_back(s->table, &a);
}

/* ---- Virtual backing --------------------------------------------------------------------------------------------- */

static const NxmemVirtualBackingVtable *backing_of(const scene *s) {
  works(s);
  return s->table->virtual_backing;
}

static void show_backing_null(const scene *s) { assert_null(backing_of(s)); }
static void show_backing_wild(const scene *s) {
  assert_non_null(backing_of(s));
  assert_int_equal((uintptr_t)backing_of(s) % 8u, 0u);
  assert_int_equal(readable(backing_of(s), 1u), 0u);
}
static void show_backing_askew(const scene *s) {
  assert_int_equal((uintptr_t)backing_of(s) % 8u, 4u);
  assert_int_equal(readable(backing_of(s), 72u), 72u);
}
static void show_backing_of_another(const scene *s) {
  assert_int_equal(backing_of(s)->struct_size, 72u);
  assert_int_equal(backing_of(s)->mechanism_id, s->table->mechanism_id ^ 1ull << 60);
}
static void show_backing_short(const scene *s) {
  assert_int_equal(backing_of(s)->struct_size, 64u);
  assert_int_equal(backing_of(s)->mechanism_id, s->table->mechanism_id);
}
static void show_backing_lying(const scene *s) {
  assert_int_equal(backing_of(s)->struct_size, 72u);
  assert_int_equal(readable(backing_of(s), 72u), 64u);
}
static void show_backing_bare(const scene *s) {
  const NxmemVirtualBackingVtable bare = {
      .struct_size = 72u, .abi_minor = 1u, .mechanism_id = s->table->mechanism_id, .ctx = s->table->ctx};
  assert_memory_equal(backing_of(s), &bare, sizeof bare);
}
static void show_backing_ahead(const scene *s) {
  assert_int_equal(backing_of(s)->struct_size, 80u);
  assert_int_equal(backing_of(s)->abi_minor, 2u);
  assert_int_equal(((const uint8_t *)backing_of(s))[72], 0xAA);
  assert_non_null(backing_of(s)->committed_bytes);
}

/* ---- Shared mapping ---------------------------------------------------------------------------------------------- */

static const NxmemSharedMappingVtable *sharing_of(const scene *s) {
  works(s);
  return s->table->shared_mapping;
}

static void show_sharing_null(const scene *s) { assert_null(sharing_of(s)); }
static void show_sharing_wild(const scene *s) {
  assert_non_null(sharing_of(s));
  assert_int_equal(readable(sharing_of(s), 1u), 0u);
}
static void show_sharing_askew(const scene *s) {
  assert_int_equal((uintptr_t)sharing_of(s) % 8u, 4u);
  assert_int_equal(readable(sharing_of(s), 64u), 64u);
}
static void show_sharing_of_another(const scene *s) {
  assert_int_equal(sharing_of(s)->struct_size, 64u);
  assert_int_equal(sharing_of(s)->mechanism_id, s->table->mechanism_id ^ 1ull << 60);
}
static void show_sharing_short(const scene *s) {
  assert_int_equal(sharing_of(s)->struct_size, 56u);
  assert_int_equal(sharing_of(s)->mechanism_id, s->table->mechanism_id);
}
static void show_sharing_lying(const scene *s) {
  assert_int_equal(sharing_of(s)->struct_size, 64u);
  assert_int_equal(readable(sharing_of(s), 64u), 56u);
}
static void show_sharing_bare(const scene *s) {
  const NxmemSharedMappingVtable bare = {
      .struct_size = 64u, .abi_minor = 1u, .mechanism_id = s->table->mechanism_id, .ctx = s->table->ctx};
  assert_memory_equal(sharing_of(s), &bare, sizeof bare);
}
static void show_sharing_undeclared(const scene *s) {
  assert_int_equal(sharing_of(s)->struct_size, 64u);
  assert_int_equal(sharing_of(s)->mechanism_id, s->table->mechanism_id);
}

/* ---- Deferred release -------------------------------------------------------------------------------------------- */

static void slots(const scene *s, int enqueues, int drains, int counts) {
  works(s);
  assert_int_equal(s->table->enqueue_release != NULL, enqueues);
  assert_int_equal(s->table->drain_releases != NULL, drains);
  assert_int_equal(s->table->pending_release_count != NULL, counts);
}
static void show_no_enqueue(const scene *s) { slots(s, 0, 1, 1); }
static void show_no_drain(const scene *s) { slots(s, 1, 0, 1); }
static void show_no_pending(const scene *s) { slots(s, 1, 1, 0); }

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

enum { BACKED = 19, SHARED = 21 };
#define BACKED_ROW(name, guard, show) \
  { name, 128, 1, BACKED, guard, 1, show }
#define SHARED_ROW(name, guard, show) \
  { name, 128, 1, SHARED, guard, 1, show }

static const mechanism_row rows[] = {
    {"eager", 128, 1, STRUCTURED, ANY, 1, show_eager},
    {"lazy", 128, 1, ALL, ANY, 1, works},
    BACKED_ROW("flag-without-backing", ANY, show_backing_null),
    BACKED_ROW("wild-backing", ANY, show_backing_wild),
    BACKED_ROW("misaligned-backing", ANY, show_backing_askew),
    BACKED_ROW("backing-of-another", ANY, show_backing_of_another),
    BACKED_ROW("short-backing", ANY, show_backing_short),
    BACKED_ROW("lying-backing", 128, show_backing_lying),
    BACKED_ROW("backing-without-slots", ANY, show_backing_bare),
    BACKED_ROW("backing-ahead", ANY, show_backing_ahead),
    SHARED_ROW("flag-without-sharing", ANY, show_sharing_null),
    SHARED_ROW("wild-sharing", ANY, show_sharing_wild),
    SHARED_ROW("misaligned-sharing", ANY, show_sharing_askew),
    SHARED_ROW("sharing-of-another", ANY, show_sharing_of_another),
    SHARED_ROW("short-sharing", ANY, show_sharing_short),
    SHARED_ROW("lying-sharing", 128, show_sharing_lying),
    SHARED_ROW("sharing-without-slots", ANY, show_sharing_bare),
    {"undeclared-sharing", 128, 1, STRUCTURED, ANY, 1, show_sharing_undeclared},
    {"flag-without-enqueue", 128, 1, DEFERRED, ANY, 1, show_no_enqueue},
    {"flag-without-drain", 128, 1, DEFERRED, ANY, 1, show_no_drain},
    {"flag-without-pending", 128, 1, DEFERRED, ANY, 1, show_no_pending},
};

int main(void) {
  static const subject capabilities = {"libnxmem_scripted_capabilities.so", "capabilities", 0u, 31u};
  add_mechanisms(&capabilities, rows, COUNT(rows), 0);
  return run_added("capability mechanisms");
}
