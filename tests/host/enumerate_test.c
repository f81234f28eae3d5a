/*
 * enumerate_test.c: from an array the plugin filled to factories the host owns, row by row.
 *
 * Attackers played: counts beyond the room, entries that are wild, short, hollow, repeated or hostile in name.
 * Promise: every entry within the count is released exactly once, whatever was wrong; nothing beyond the count is
 * touched.
 */
#include <sys/mman.h>

#include "nxmem/prefix.h"
#include "puppet.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull
#define CONTRACT(reason, field, found, needed) \
  { NXMEM_ERR_CONTRACT, NXMEM_REASON_##reason, (field), (found), (needed), 0 }
#define UNREADABLE(found, needed) \
  { NXMEM_ERR_UNREADABLE_MEMORY, NXMEM_REASON_UNREADABLE, 0, (found), (needed), 0 }

static void list(uint32_t written, uint64_t count) {
  puppet.written = written;
  puppet.count = count;
}

/* ---- Refused lists ----------------------------------------------------------------------------------------------- */

typedef struct refused_row {
  const char *name;
  nx_modes modes;
  void (*arrange)(void);
  nx_refusal want;
  uint64_t released; /* each of the first so many factories once, no other */
  uint64_t unpaid;
} refused_row;

static void claim_65(void) { list(64, 65); }
static void claim_all_ones(void) { list(3, ALL_ONES); }
static void claim_2_to_32(void) { list(2, 1ull << 32); }
static void leave_count(void) {
  list(2, 0);
  puppet.leave_count = 1;
}
static void overfill(void) { list(70, 70); }
static void count_hole(void) {
  list(3, 3);
  puppet.entries[2] = NULL;
}
static void count_unwritten(void) { list(0, 1); }
static void same_thrice(void) {
  list(4, 4);
  puppet.entries[2] = puppet.entries[3] = puppet.entries[0];
}
static void fail_after_64(void) {
  list(64, 64);
  puppet.create_code = NXMEM_STATUS_OUT_OF_MEMORY;
}
static void misaligned_entry(void) {
  list(2, 2);
  puppet.entries[1] = (const NxmemAllocatorFactoryVtable *)((uintptr_t)puppet.entries[1] + 4);
}
static void wild_entry(void) {
  list(3, 3);
  puppet.entries[2] = (const NxmemAllocatorFactoryVtable *)(uintptr_t)0xDEAD0000DEAD0000ull;
}
static void kernel_entry(void) {
  list(1, 1);
  puppet.entries[0] = (const NxmemAllocatorFactoryVtable *)(uintptr_t)0xFFFFFFFFFFFFFFF8ull;
}
static void size_4(void) { puppet.factories[0].struct_size = 4; }
static void size_7(void) { puppet.factories[0].struct_size = 7; }
static void size_8(void) { puppet.factories[0].struct_size = 8; }
static void size_55(void) { puppet.factories[0].struct_size = 55; }
static void hollow_second(void) {
  list(2, 2);
  puppet.factories[1].open_allocator = NULL;
}
static void null_name(void) { puppet.factories[0].name = NULL; }
static void wild_name(void) { puppet.factories[0].name = (const uint8_t *)0x10; }
static void name_256(void) {
  static uint8_t name[257];
  memset(name, 'n', 256);
  puppet.factories[0].name = name;
}
static void surrogate_name(void) { puppet.factories[0].name = (const uint8_t *)"a\xED\xA0\x80"; }
static void overlong_name(void) { puppet.factories[0].name = (const uint8_t *)"\xC0\xAF"; }
static void newline_name(void) { puppet.factories[0].name = (const uint8_t *)"two\nlines"; }
static void delete_name(void) { puppet.factories[0].name = (const uint8_t *)"del\x7F"; }
static void c1_name(void) { puppet.factories[0].name = (const uint8_t *)"c1\xC2\x9B"; }
static void tier_3(void) { puppet.factories[0].device.tier = 3; }
static void tier_unknown_second(void) {
  list(3, 3);
  puppet.factories[1].device.tier = 0xFFFFFFFFu;
}
static void last_two_same(void) {
  list(64, 64);
  puppet.factories[63].name = puppet.factories[62].name;
}
/* A newer one on an unknown tier is left out; the refusal of the next must not release it again. */
static void left_out_then_bad(void) {
  list(3, 3);
  puppet.factories[1].abi_minor = 2;
  puppet.factories[1].device.tier = 9;
  puppet.factories[2].open_allocator = NULL;
}
static void left_out_then_same(void) {
  list(3, 3);
  puppet.factories[0].abi_minor = 2;
  puppet.factories[0].device.tier = 9;
  puppet.factories[2].name = puppet.factories[1].name;
}
static void releaseless_among_good(void) {
  list(3, 3);
  puppet.factories[2].release = NULL;
}

static const refused_row refused_rows[] = {
    {"65 claimed", 0, claim_65, CONTRACT(TOO_MANY, 0, 65, 64), 64, 0},
    {"2^64-1 claimed", 0, claim_all_ones, CONTRACT(TOO_MANY, 0, ALL_ONES, 64), 3, 0},
    {"2^32 claimed", 0, claim_2_to_32, CONTRACT(TOO_MANY, 0, 1ull << 32, 64), 2, 0},
    {"count not written", 0, leave_count, CONTRACT(TOO_MANY, 0, ALL_ONES, 64), 2, 0},
    {"70 written and claimed", 0, overfill, CONTRACT(TOO_MANY, 0, 70, 64), 64, 0},
    {"NULL as the last", 0, count_hole, CONTRACT(NULL_POINTER, 2, 0, 0), 2, 0},
    {"counted but not written", 0, count_unwritten, CONTRACT(NULL_POINTER, 0, 0, 0), 0, 0},
    {"one object three times", 0, same_thrice, CONTRACT(LISTED_TWICE, 2, 2, 0), 2, 0},
    {"error behind 64 entries", 0, fail_after_64, {NXMEM_ERR_PLUGIN, 0, 0, 0, 0, NXMEM_STATUS_OUT_OF_MEMORY}, 0, 0},
    {"misaligned entry", 0, misaligned_entry, CONTRACT(MISALIGNED, 0, 4, 8), 1, 1},
    {"wild entry", NX_GUARDED_ONLY, wild_entry, UNREADABLE(0, 8), 2, 1},
    {"entry in the last bytes there are", NX_GUARDED_ONLY, kernel_entry, UNREADABLE(0, 8), 0, 1},
    {"factory of size 4", 0, size_4, CONTRACT(SHORT_HEADER, 0, 4, 8), 0, 1},
    {"factory of size 7", 0, size_7, CONTRACT(SHORT_HEADER, 0, 7, 8), 0, 1},
    {"factory of size 8", 0, size_8, CONTRACT(SHORT_TABLE, 0, 8, 56), 0, 1},
    {"factory of size 55", 0, size_55, CONTRACT(SHORT_TABLE, 0, 55, 56), 0, 1},
    {"second without open", 0, hollow_second, CONTRACT(MISSING_SLOT, 40, 0, 0), 2, 0},
    {"name is NULL", 0, null_name, CONTRACT(NULL_POINTER, 0, 0, 256), 1, 0},
    {"name is wild", NX_GUARDED_ONLY, wild_name, UNREADABLE(0, 256), 1, 0},
    {"name of 256 bytes", 0, name_256, CONTRACT(UNTERMINATED_NAME, 0, 256, 256), 1, 0},
    {"name with a surrogate", 0, surrogate_name, CONTRACT(BAD_UTF8, 1, 0xED, 0), 1, 0},
    {"name with an overlong slash", 0, overlong_name, CONTRACT(BAD_UTF8, 0, 0xC0, 0), 1, 0},
    {"name of two lines", 0, newline_name, CONTRACT(CONTROL_CHARACTER, 3, 10, 0), 1, 0},
    {"name with DEL", 0, delete_name, CONTRACT(CONTROL_CHARACTER, 3, 0x7F, 0), 1, 0},
    {"name with a C1 control", 0, c1_name, CONTRACT(CONTROL_CHARACTER, 2, 0x9B, 0), 1, 0},
    {"tier 3", 0, tier_3, CONTRACT(UNKNOWN_TIER, 0, 3, 2), 1, 0},
    {"tier 2^32-1 in the middle", 0, tier_unknown_second, CONTRACT(UNKNOWN_TIER, 0, 0xFFFFFFFFu, 2), 3, 0},
    {"last two of 64 share a name", 0, last_two_same, CONTRACT(SAME_NAME, 0, 63, 62), 64, 0},
    {"one left out, then a bad one", 0, left_out_then_bad, CONTRACT(MISSING_SLOT, 40, 0, 0), 3, 0},
    {"one left out, then a shared name", 0, left_out_then_same, CONTRACT(SAME_NAME, 0, 1, 0), 3, 0},
    {"one without release among good ones", 0, releaseless_among_good, CONTRACT(MISSING_SLOT, 48, 0, 0), 2, 1},
};

static void assert_each_released(uint64_t first, uint64_t times) {
  for (uint32_t i = 0; i < NX_PUPPET_FACTORIES; i++)
    assert_int_equal(atomic_load(&puppet.factory_releases[i]), i < first ? times : 0);
}

static void test_refused(void **state) {
  const nx_case *c = *state;
  const refused_row *row = c->row;
  nx_puppet_reset();
  row->arrange();
  nxmem_host host = nx_host_in(c->mode);
  nx_assert_open_refused(host, nx_puppet_copy(), row->want, row->unpaid != 0);
  assert_each_released(row->released, 1);
  assert_int_equal(atomic_load(&puppet.foreign_contexts), 0);
  assert_int_equal(atomic_load(&puppet.after_the_end), 0);
  assert_int_equal(nx_puppet_calls(NX_IN_DESTRUCTOR), row->unpaid == 0);
  assert_int_equal(nx_counts(host).unpaid_debts, row->unpaid);
  assert_int_equal(nx_counts(host).contract_violations, row->want.reason != 0);
  assert_int_equal(puppet.room, 64);
  assert_true(puppet.room_was_zero);
  nx_host_gone(host);
}

/* ---- Accepted lists ---------------------------------------------------------------------------------------------- */

typedef struct accepted_row {
  const char *name;
  nx_modes modes;
  void (*arrange)(void);
  uint32_t mechanisms;
  uint32_t left_out;
  uint64_t released; /* in the end, each of the first so many once */
} accepted_row;

static void none(void) { list(0, 0); }
static void sixty_four(void) { list(64, 64); }
static void beyond_count(void) {
  list(64, 5);
  puppet.entries[5] = (const NxmemAllocatorFactoryVtable *)(uintptr_t)0x1; /* never looked at */
}
static void beyond_room(void) { list(70, 64); }
static void longer_table(void) {
  puppet.factories[0].struct_size = 0xFFFFFFFFu;
  puppet.factories[0].abi_minor = 0xFFFFFFFFu;
}
static void one_name_per_device(void) {
  list(8, 8);
  for (uint32_t i = 0; i < 8; i++) {
    puppet.factories[i].name = (const uint8_t *)"gpu";
    puppet.factories[i].device = (NxmemDeviceId){NXMEM_TIER_DEVICE, i};
  }
}
static void every_tier(void) {
  list(3, 3);
  for (uint32_t i = 0; i < 3; i++) puppet.factories[i].device.tier = i;
}
static void all_left_out(void) {
  list(3, 3);
  for (uint32_t i = 0; i < 3; i++) {
    puppet.factories[i].abi_minor = 2;
    puppet.factories[i].device.tier = 3 + i;
  }
}
static void every_other_left_out(void) {
  list(6, 6);
  for (uint32_t i = 0; i < 6; i += 2) {
    puppet.factories[i].abi_minor = 9;
    puppet.factories[i].device.tier = 9;
  }
}
static void name_255(void) {
  static uint8_t name[256];
  memset(name, 'n', 255);
  puppet.factories[0].name = name;
}
static void name_utf8(void) { puppet.factories[0].name = (const uint8_t *)"Speicher \xE2\x82\xAC \xF0\x9F\x92\xBE"; }
static void one_letter(void) { puppet.factories[0].name = (const uint8_t *)"m"; }

static const accepted_row accepted_rows[] = {
    {"no factory at all", 0, none, 0, 0, 0},
    {"64 factories", 0, sixty_four, 64, 0, 64},
    {"64 written, 5 counted", 0, beyond_count, 5, 0, 5},
    {"70 written, 64 counted", 0, beyond_room, 64, 0, 64},
    {"size and minor 2^32-1", 0, longer_table, 1, 0, 1},
    {"one name on eight devices", 0, one_name_per_device, 8, 0, 8},
    {"every tier", 0, every_tier, 3, 0, 3},
    {"newer ones on new tiers alone", 0, all_left_out, 0, 3, 3},
    {"every other one left out", 0, every_other_left_out, 3, 3, 6},
    {"name of 255 bytes", 0, name_255, 1, 0, 1},
    {"name in UTF-8", 0, name_utf8, 1, 0, 1},
    {"name of one letter", 0, one_letter, 1, 0, 1},
};

static void assert_listed(nxmem_plugin plugin, uint32_t mechanisms) {
  nxmem_mechanism_info info;
  nxmem_error error = nx_blank_error();
  for (uint32_t i = 0; i < mechanisms; i++) {
    memset(&info, 0xA5, sizeof info);
    assert_int_equal(nxmem_plugin_mechanism(plugin, i, &info, NULL), NXMEM_OK);
    assert_int_equal(info.advertised_flags, NXMEM_CAP_ALLOCATOR);
    assert_int_equal(info.abi_minor, 1);
    assert_in_range(strlen(info.name), 1, 255);
  }
  nx_assert_code(nxmem_plugin_mechanism(plugin, mechanisms, &info, &error), &error, NXMEM_ERR_UNKNOWN_MECHANISM);
  nx_assert_code(nxmem_plugin_mechanism(plugin, 0xFFFFFFFFu, &info, &error), &error, NXMEM_ERR_UNKNOWN_MECHANISM);
}

static void test_accepted(void **state) {
  const nx_case *c = *state;
  const accepted_row *row = c->row;
  nx_puppet_reset();
  row->arrange();
  nxmem_host host = nx_host_in(c->mode);
  const char *path = nx_puppet_copy();
  nxmem_plugin plugin = nx_must_open(host, path);
  nxmem_plugin_info info;
  assert_int_equal(nxmem_plugin_get_info(plugin, &info, NULL), NXMEM_OK);
  assert_int_equal(info.mechanism_count, row->mechanisms);
  assert_int_equal(info.left_out, row->left_out);
  assert_int_equal(nx_puppet_factory_releases(), row->left_out);
  assert_listed(plugin, row->mechanisms);
  if (row->mechanisms == 1) {
    nxmem_mechanism_info first;
    assert_int_equal(nxmem_plugin_mechanism(plugin, 0, &first, NULL), NXMEM_OK);
    assert_string_equal(first.name, (const char *)puppet.factories[0].name);
  }
  nx_must_unload(plugin, path);
  assert_each_released(row->released, 1);
  assert_int_equal(atomic_load(&puppet.after_the_end), 0);
  assert_int_equal(nx_counts(host).contract_violations, 0);
  nx_host_gone(host);
}

/* ---- The host's own copy ----------------------------------------------------------------------------------------- */

/* What was read once is what counts: a plugin that rewrites its factory and its name afterwards changes nothing. */
static void test_rewritten_afterwards(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  static uint8_t name[16];
  strcpy((char *)name, "first");
  puppet.factories[0].name = name;
  nxmem_host host = nx_host_in(c->mode);
  const char *path = nx_puppet_copy();
  nxmem_plugin plugin = nx_must_open(host, path);
  strcpy((char *)name, "second");
  const NxmemAllocatorFactoryVtable kept = puppet.factories[0];
  memset(&puppet.factories[0], 0, sizeof puppet.factories[0]);
  puppet.factories[0].ctx = kept.ctx;

  nxmem_mechanism_info info;
  assert_int_equal(nxmem_plugin_mechanism(plugin, 0, &info, NULL), NXMEM_OK);
  assert_string_equal(info.name, "first");
  nxmem_allocator allocator = nx_must_open_mechanism(plugin, "first");
  nx_must_close(allocator);
  nx_must_unload(plugin, path);
  assert_each_released(1, 1);
  nx_host_gone(host);
}

static const nx_row_head rewritten_rows[] = {{"factory and name rewritten afterwards", 0}};

int main(void) {
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(refused_rows), test_refused);
  nx_suite_modes(&suite, ROWS(accepted_rows), test_accepted);
  nx_suite_modes(&suite, ROWS(rewritten_rows), test_rewritten_afterwards);
  return nx_suite_run(&suite, "host_enumerate");
}
