/*
 * rules_enumerate.c: rules about the list of factories and each factory in it.
 * Attackers: counts, pointers, tables and names that are not what they should be.
 * Promise: tables and names are copied, and the core judges the copy.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "conform/families.h"
#include "conform/memory.h"
#include "conform/plugin.h"
#include "nxmem.h"
#include "nxmem/enumerate.h"
#include "nxmem/identity.h"
#include "nxmem/name.h"
#include "nxmem/prefix.h"

/* ---- The list ---------------------------------------------------------------------------------------------------- */

static void lists(nx_trial *trial, const void *with) {
  (void)with;
  uint64_t count = UINT64_MAX;
  nx_plugin_negotiate(trial);
  nx_enter("NxmemCreateAllocatorFactories");
  nx_expect_status(trial->factories(trial->entries, NX_FACTORIES, &count), NX_CODE(OK), "room for 64 factories");
  NX_EXPECT(count != UINT64_MAX, "out_count was left unwritten");
  nx_seen("OK");
}

/* Room for more than a plugin may publish, all zero: what it writes where shows. */
enum { WIDE = 128 };

typedef struct wide_list {
  const NxmemAllocatorFactoryVtable *entries[WIDE];
  uint64_t count;
} wide_list;

static wide_list list_wide(nx_trial *trial) {
  wide_list list = {.count = UINT64_MAX};
  nx_plugin_negotiate(trial);
  nx_enter("NxmemCreateAllocatorFactories");
  NX_GIVEN(trial->factories(list.entries, NX_FACTORIES, &list.count).code == NXMEM_STATUS_OK, "it was refused");
  return list;
}

static void count_fits(nx_trial *trial, const void *with) {
  (void)with;
  uint64_t count = list_wide(trial).count;
  NX_EXPECT(count > 0, "publishes no mechanism");
  NX_EXPECT(count <= NX_FACTORIES, "the count is %" PRIu64 ", there was room for 64", count);
  nx_seen("%" PRIu64, count);
}

static uint32_t listed(const wide_list *list) {
  return list->count < NX_FACTORIES ? (uint32_t)list->count : (uint32_t)NX_FACTORIES;
}

static void entries_are_set(nx_trial *trial, const void *with) {
  (void)with;
  wide_list list = list_wide(trial);
  for (uint32_t i = 0; i < listed(&list); i++) NX_EXPECT(list.entries[i], "entry %" PRIu32 " is NULL", i);
  nx_seen("%" PRIu32 " entries", listed(&list));
}

static void entries_are_distinct(nx_trial *trial, const void *with) {
  (void)with;
  wide_list list = list_wide(trial);
  for (uint32_t i = 0; i < listed(&list); i++)
    for (uint32_t j = 0; j < i; j++)
      NX_EXPECT(list.entries[i] != list.entries[j], "entries %" PRIu32 " and %" PRIu32 " are the same table", j, i);
  nx_seen("%" PRIu32 " tables", listed(&list));
}

static void nothing_behind(nx_trial *trial, const void *with) {
  (void)with;
  wide_list list = list_wide(trial);
  for (uint32_t i = listed(&list); i < WIDE; i++)
    NX_EXPECT(!list.entries[i], "wrote entry %" PRIu32 ", the count is %" PRIu64 ": nobody releases that factory", i,
              list.count);
  nx_seen("nothing behind entry %" PRIu32, listed(&list));
}

/* The array ends at a guard page: an entry beyond `room` faults. */
static void too_little_room(nx_trial *trial, const void *with) {
  (void)with;
  static const NxmemAllocatorFactoryVtable *blank[NX_FACTORIES];
  nx_plugin_ready(trial);
  uint64_t needed = trial->entry_count;
  nx_plugin_release_factories(trial);
  for (uint64_t room = 0; room < needed; room = room + 1 < needed - 1 ? needed - 1 : room + 1) {
    uint64_t count = 0;
    const NxmemAllocatorFactoryVtable **entries = nx_guarded(blank, room * sizeof *entries, 1);
    nx_enter("NxmemCreateAllocatorFactories with room for %" PRIu64 " of %" PRIu64, room, needed);
    nx_expect_status(trial->factories(entries, room, &count), NX_CODE(INVALID_ARGUMENT), "too little room");
  }
  nx_seen("INVALID_ARGUMENT with room for fewer than %" PRIu64, needed);
}

static void exact_room(nx_trial *trial, const void *with) {
  (void)with;
  static const NxmemAllocatorFactoryVtable *blank[NX_FACTORIES];
  uint64_t zero = 0;
  nx_plugin_ready(trial);
  uint64_t needed = trial->entry_count;
  NX_GIVEN(needed > 0, "no mechanism is published");
  nx_plugin_release_factories(trial);
  uint64_t *count = nx_guarded(&zero, sizeof zero, 1);
  nx_enter("NxmemCreateAllocatorFactories with room for exactly %" PRIu64, needed);
  nx_expect_status(trial->factories(nx_guarded(blank, needed * sizeof blank[0], 1), needed, count), NX_CODE(OK),
                   "an array of the exact size");
  NX_EXPECT(*count == needed, "the count went from %" PRIu64 " to %" PRIu64, needed, *count);
  nx_seen("%" PRIu64 " again", needed);
}

static void null_arguments(nx_trial *trial, const void *with) {
  (void)with;
  uint64_t count = 0;
  nx_plugin_negotiate(trial);
  nx_enter("NxmemCreateAllocatorFactories(NULL, 64, count)");
  nx_expect_status(trial->factories(NULL, NX_FACTORIES, &count), NX_CODE(INVALID_ARGUMENT), "a NULL array");
  nx_enter("NxmemCreateAllocatorFactories(array, 64, NULL)");
  nx_expect_status(trial->factories(trial->entries, NX_FACTORIES, NULL), NX_CODE(INVALID_ARGUMENT), "a NULL count");
  nx_seen("INVALID_ARGUMENT for a NULL array and for a NULL count");
}

/* ---- Each factory ------------------------------------------------------------------------------------------------ */

typedef struct seen_factory {
  NxmemAllocatorFactoryVtable table;
  uint32_t declared_minor;
  uint32_t index;
} seen_factory;

/* Those whose table can be read. */
static uint32_t read_all(nx_trial *trial, seen_factory out[NX_FACTORIES]) {
  uint32_t count = 0;
  nx_plugin_ready(trial);
  for (uint32_t i = 0; i < trial->entry_count; i++) {
    seen_factory *seen = &out[count];
    seen->index = i;
    count += nx_read_factory_table(trial->entries[i], &seen->table, &seen->declared_minor).reason == NXMEM_REASON_NONE;
  }
  return count;
}

static void tables_are_whole(nx_trial *trial, const void *with) {
  (void)with;
  nx_plugin_ready(trial);
  for (uint32_t i = 0; i < trial->entry_count; i++) {
    NxmemAllocatorFactoryVtable table;
    uint32_t declared;
    nxmem_verdict verdict = nx_read_factory_table(trial->entries[i], &table, &declared);
    if (!trial->entries[i]) continue;
    NX_EXPECT(verdict.reason == NXMEM_REASON_NONE, "factory %" PRIu32 ": %s", i, nx_verdict_words(verdict));
  }
  nx_seen("%" PRIu64 " tables", trial->entry_count);
}

static void slots_are_there(nx_trial *trial, const void *with) {
  (void)with;
  seen_factory all[NX_FACTORIES];
  uint32_t count = read_all(trial, all);
  for (uint32_t i = 0; i < count; i++) {
    nxmem_verdict verdict = nxmem_check_factory(&all[i].table);
    NX_EXPECT(verdict.reason == NXMEM_REASON_NONE, "factory %" PRIu32 ": %s", all[i].index, nx_verdict_words(verdict));
  }
  nx_seen("open_allocator and release in %" PRIu32 " tables", count);
}

static void name_is_fit(nx_trial *trial, const void *with) {
  const uint32_t reason = *(const uint32_t *)with;
  seen_factory all[NX_FACTORIES];
  uint8_t name[256];
  uint32_t count = read_all(trial, all);
  for (uint32_t i = 0; i < count; i++) {
    nxmem_verdict verdict = nx_read_name(all[i].table.name, name);
    /* An address that leads nowhere has no end either. */
    int same = verdict.reason == reason ||
               (reason == NXMEM_REASON_UNTERMINATED_NAME &&
                (verdict.reason == NXMEM_REASON_UNREADABLE || verdict.reason == NXMEM_REASON_NULL_POINTER));
    NX_EXPECT(!same, "factory %" PRIu32 ": %s", all[i].index, nx_verdict_words(verdict));
  }
  nx_seen("%" PRIu32 " names", count);
}

static const uint32_t ENDS = NXMEM_REASON_UNTERMINATED_NAME, EMPTY = NXMEM_REASON_EMPTY_NAME,
                      UTF8 = NXMEM_REASON_BAD_UTF8, CONTROL = NXMEM_REASON_CONTROL_CHARACTER;

static void tier_is_known(nx_trial *trial, const void *with) {
  (void)with;
  seen_factory all[NX_FACTORIES];
  uint32_t count = read_all(trial, all);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t tier = all[i].table.device.tier;
    if (nxmem_tier_is_left_out(tier, all[i].declared_minor, trial->minor)) continue;
    NX_EXPECT(nxmem_check_tier(tier).reason == NXMEM_REASON_NONE, "factory %" PRIu32 " is on the unknown tier %" PRIu32,
              all[i].index, tier);
  }
  nx_seen("%" PRIu32 " devices", count);
}

static void pairs_are_unique(nx_trial *trial, const void *with) {
  (void)with;
  static uint8_t names[NX_FACTORIES][256];
  seen_factory all[NX_FACTORIES];
  uint32_t count = read_all(trial, all);
  for (uint32_t i = 0; i < count; i++) {
    if (nx_read_name(all[i].table.name, names[i]).reason != NXMEM_REASON_NONE) continue;
    for (uint32_t j = 0; j < i; j++)
      NX_EXPECT(all[i].table.ctx == all[j].table.ctx ||
                    !nxmem_same_mechanism(all[i].table.device, names[i], all[j].table.device, names[j]),
                "factories %" PRIu32 " and %" PRIu32 " have the same name and device", all[j].index, all[i].index);
  }
  nx_seen("%" PRIu32 " pairs of name and device", count);
}

/* ---- Releasing them ---------------------------------------------------------------------------------------------- */

static NxmemUnloadReport report_before(nx_trial *trial) {
  nx_plugin_negotiate(trial);
  NxmemUnloadReport before = nx_plugin_report(trial);
  nx_plugin_enumerate(trial);
  return before;
}

static void counted_in_none(nx_trial *trial, const void *with) {
  (void)with;
  NxmemUnloadReport before = report_before(trial);
  nx_same_counts(trial, &before, "the factories listed");
  nx_seen("no count changed by %" PRIu64 " factories", trial->entry_count);
}

static void release_all(nx_trial *trial, const void *with) {
  (void)with;
  NxmemUnloadReport before = report_before(trial);
  uint64_t count = trial->entry_count;
  nx_plugin_release_factories(trial);
  nx_same_counts(trial, &before, "every factory released");
  nx_seen("%" PRIu64 " released", count);
}

static void lists_again(nx_trial *trial, const void *with) {
  (void)with;
  nx_plugin_ready(trial);
  uint64_t count = trial->entry_count;
  nx_plugin_release_factories(trial);
  uint64_t again = UINT64_MAX;
  memset(trial->entries, 0, sizeof trial->entries);
  nx_enter("NxmemCreateAllocatorFactories once more");
  nx_expect_status(trial->factories(trial->entries, NX_FACTORIES, &again), NX_CODE(OK), "a second list");
  if (again > NX_FACTORIES) again = NX_FACTORIES;
  NX_EXPECT(again == count, "%" PRIu64 " factories at first, then %" PRIu64, count, again);
  nx_seen("%" PRIu64 " again", again);
}

#define ENU(name, text, place, need, function, argument)                                              \
  {                                                                                                   \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MODULE, .needs = (need), \
    .check = (function), .with = (argument)                                                           \
  }
#define LIST(name, text, function) ENU(name, text, "Ownership", "NX-ENU-001", function, NULL)
#define TABLE(name, text, function, argument) ENU(name, text, "Required slots", "NX-ENU-001", function, argument)

static const nx_rule RULES[] = {
    ENU("NX-ENU-001", "NxmemCreateAllocatorFactories lists the factories into room for 64", "Ownership", "NX-UNL-001",
        lists, NULL),
    LIST("NX-ENU-002", "At least one mechanism is published, and at most 64", count_fits),
    LIST("NX-ENU-003", "No entry within the count is NULL", entries_are_set),
    LIST("NX-ENU-004", "No table is listed twice", entries_are_distinct),
    LIST("NX-ENU-005", "Nothing is written behind the reported count", nothing_behind),
    ENU("NX-ENU-006", "Too little room is INVALID_ARGUMENT, and nothing is written beyond it", "Ownership",
        "NX-ENU-002", too_little_room, NULL),
    ENU("NX-ENU-007", "An array of the exact size suffices", "Ownership", "NX-ENU-002", exact_room, NULL),
    LIST("NX-ENU-008", "A NULL array and a NULL count are INVALID_ARGUMENT", null_arguments),
    ENU("NX-ENU-009", "Each factory's table is whole: at least 56 bytes, as many as it says, 8-aligned", "Sizes",
        "NX-ENU-001", tables_are_whole, NULL),
    TABLE("NX-ENU-010", "Each factory has open_allocator and release", slots_are_there, NULL),
    TABLE("NX-ENU-011", "Each name ends within 256 bytes", name_is_fit, &ENDS),
    TABLE("NX-ENU-012", "No name is empty", name_is_fit, &EMPTY),
    TABLE("NX-ENU-013", "Each name is UTF-8", name_is_fit, &UTF8),
    TABLE("NX-ENU-014", "No name holds a control character", name_is_fit, &CONTROL),
    ENU("NX-ENU-015", "Each device is on a known tier", "Identity", "NX-ENU-001", tier_is_known, NULL),
    ENU("NX-ENU-016", "Name and device together are unique", "Identity", "NX-ENU-001", pairs_are_unique, NULL),
    ENU("NX-ENU-017", "Factories are counted in none of the unload report", "Unload report", "NX-ENU-001",
        counted_in_none, NULL),
    ENU("NX-ENU-018", "Every factory can be released, and leaves nothing behind", "Ownership", "NX-ENU-017",
        release_all, NULL),
    ENU("NX-ENU-019", "After every factory was released the list can be asked for again", "Ownership", "NX-ENU-018",
        lists_again, NULL),
};

const nx_family nx_enumeration_rules = NX_FAMILY("enumeration", "The list of factories, their tables and names", RULES);
