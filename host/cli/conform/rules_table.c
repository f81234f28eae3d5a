/*
 * rules_table.c: rules about the table that open_allocator publishes.
 * Attackers: tables that are short, lie about their size, or contradict themselves.
 * Promise: the table is copied, and the core judges the copy; none of its slots but `release` is called.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "conform/families.h"
#include "conform/plugin.h"
#include "nxmem.h"
#include "nxmem/capability.h"
#include "nxmem/identity.h"
#include "nxmem/name.h"
#include "nxmem/prefix.h"

typedef struct published {
  NxmemAllocatorFactoryVtable factory;
  const NxmemAllocatorVtable *table;
  NxmemStatus status;
} published;

static published publish(nx_trial *trial) {
  nx_plugin_ready(trial);
  published out = {.factory = nx_target_factory(trial)};
  NxmemOpenRequest request = nx_open_request(trial, &out.factory);
  nx_enter("open_allocator");
  out.status = out.factory.open_allocator(out.factory.ctx, &request, &out.table);
  return out;
}

static void opens(nx_trial *trial, const void *with) {
  (void)with;
  published found = publish(trial);
  nx_expect_status(found.status, NX_CODE(OK), "an open at the agreed level");
  nx_seen("OK");
}

static void table_is_whole(nx_trial *trial, const void *with) {
  (void)with;
  published found = publish(trial);
  nx_opened opened;
  nx_given_ok(found.status, "open_allocator");
  nxmem_verdict verdict = nx_opened_read(trial, found.table, &opened);
  NX_EXPECT(verdict.reason == NXMEM_REASON_NONE, "%s", nx_verdict_words(verdict));
  nx_seen("%" PRIu32 " bytes, minor %" PRIu32, opened.table.struct_size, opened.declared_minor);
}

static nx_opened read_published(nx_trial *trial, NxmemDeviceId *device) {
  published found = publish(trial);
  nx_opened opened;
  nx_given_ok(found.status, "open_allocator");
  nxmem_verdict verdict = nx_opened_read(trial, found.table, &opened);
  NX_GIVEN(verdict.reason == NXMEM_REASON_NONE, "%s", nx_verdict_words(verdict));
  if (device) *device = found.factory.device;
  return opened;
}

static void slots_are_there(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = read_published(trial, NULL);
  nxmem_verdict verdict = nxmem_check_allocator(&opened.table);
  NX_EXPECT(verdict.reason != NXMEM_REASON_MISSING_SLOT, "%s", nx_verdict_words(verdict));
  nx_seen("allocate, deallocate, retain, release");
}

static void mechanism_is_set(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = read_published(trial, NULL);
  NX_EXPECT(opened.table.mechanism_id != 0, "mechanism_id is 0");
  nx_seen("%" PRIu64, opened.table.mechanism_id);
}

static void device_is_factorys(nx_trial *trial, const void *with) {
  (void)with;
  NxmemDeviceId device;
  nx_opened opened = read_published(trial, &device);
  NX_EXPECT(nxmem_same_device(opened.table.device, device),
            "the table says tier %" PRIu32 " index %" PRIu32 ", the factory tier %" PRIu32 " index %" PRIu32,
            opened.table.device.tier, opened.table.device.index, device.tier, device.index);
  nx_seen("tier %" PRIu32 " index %" PRIu32, device.tier, device.index);
}

/* The core's own judgement, one reason per rule. */
static void capabilities_fit(nx_trial *trial, const void *with) {
  const uint32_t reason = *(const uint32_t *)with;
  nx_opened opened = read_published(trial, NULL);
  uint64_t effective = 0;
  nxmem_verdict verdict =
      nxmem_check_capabilities(&opened.table, opened.declared_minor, trial->minor, trial->caps, &effective);
  NX_EXPECT(verdict.reason != reason, "%s", nx_verdict_words(verdict));
  nx_seen("0x%" PRIx64, opened.table.capability_flags);
}

static const uint32_t UNKNOWN = NXMEM_REASON_UNKNOWN_CAPABILITY, GAP = NXMEM_REASON_FLAG_WITHOUT_SLOT,
                      LOOSE = NXMEM_REASON_TABLE_WITHOUT_FLAG, NONE = NXMEM_REASON_NO_ALLOCATOR;

static void backing_is_whole(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = read_published(trial, NULL);
  NxmemVirtualBackingVtable table;
  if (!(opened.caps & NXMEM_CAP_VIRTUAL_BACKING)) nx_does_not_apply("no VIRTUAL_BACKING");
  nxmem_verdict verdict = nx_read_backing_table(opened.table.virtual_backing, trial->minor, &table);
  NX_EXPECT(verdict.reason == NXMEM_REASON_NONE, "%s", nx_verdict_words(verdict));
  verdict = nxmem_check_backing(&table, opened.table.mechanism_id);
  NX_EXPECT(verdict.reason == NXMEM_REASON_NONE, "%s", nx_verdict_words(verdict));
  nx_seen("%" PRIu32 " bytes", table.struct_size);
}

static void sharing_is_whole(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = read_published(trial, NULL);
  NxmemSharedMappingVtable table;
  if (!(opened.caps & NXMEM_CAP_SHARED_MAPPING)) nx_does_not_apply("no SHARED_MAPPING");
  nxmem_verdict verdict = nx_read_sharing_table(opened.table.shared_mapping, trial->minor, &table);
  NX_EXPECT(verdict.reason == NXMEM_REASON_NONE, "%s", nx_verdict_words(verdict));
  verdict = nxmem_check_sharing(&table, opened.table.mechanism_id);
  NX_EXPECT(verdict.reason == NXMEM_REASON_NONE, "%s", nx_verdict_words(verdict));
  nx_seen("%" PRIu32 " bytes", table.struct_size);
}

static void name_is_factorys(nx_trial *trial, const void *with) {
  (void)with;
  uint8_t of_table[256], of_factory[256];
  nx_opened opened = read_published(trial, NULL);
  NxmemAllocatorFactoryVtable factory = nx_target_factory(trial);
  NX_GIVEN(nx_read_name(factory.name, of_factory).reason == NXMEM_REASON_NONE, "the factory's name is unfit");
  nxmem_verdict verdict = nx_read_name(opened.table.name, of_table);
  NX_EXPECT(verdict.reason == NXMEM_REASON_NONE, "the allocator's name: %s", nx_verdict_words(verdict));
  NX_EXPECT(nxmem_same_name(of_table, of_factory), "the allocator's name is another than its factory's");
  nx_seen("the factory's name");
}

/* Half a table must not be valid at the size of a whole one: what it declares is really there. */
static void size_is_true(nx_trial *trial, const void *with) {
  (void)with;
  enum { MOST = 4096 };
  uint8_t copy[MOST];
  nx_opened opened = read_published(trial, NULL);
  size_t said = opened.table.struct_size < MOST ? opened.table.struct_size : MOST;
  size_t got = nx_read_memory(copy, opened.published, said);
  NX_EXPECT(got == said, "struct_size is %" PRIu32 ", only %zu bytes can be read", opened.table.struct_size, got);
  nx_seen("%zu bytes", said);
}

#define ALR(name, text, place, need, function, argument)                                                 \
  {                                                                                                      \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = (need), \
    .check = (function), .with = (argument)                                                              \
  }
#define CAPS(name, text, need, reason) ALR(name, text, "Capabilities", need, capabilities_fit, reason)

static const nx_rule RULES[] = {
    ALR("NX-TAB-001", "open_allocator answers OK", "Ownership", "NX-ENU-001", opens, NULL),
    ALR("NX-TAB-002", "OK comes with a table: 8-aligned, whole at the minor it declares", "Sizes", "NX-TAB-001",
        table_is_whole, NULL),
    ALR("NX-TAB-003", "As many bytes as struct_size says are really there", "Sizes", "NX-TAB-002", size_is_true, NULL),
    ALR("NX-TAB-004", "allocate, deallocate, retain and release are not NULL", "Required slots", "NX-TAB-002",
        slots_are_there, NULL),
    ALR("NX-TAB-005", "The mechanism id is not 0", "Identity", "NX-TAB-004", mechanism_is_set, NULL),
    ALR("NX-TAB-006", "The allocator is on its factory's device", "Identity", "NX-TAB-005", device_is_factorys, NULL),
    CAPS("NX-TAB-007", "No capability is declared that the table's own minor does not define", "NX-TAB-002", &UNKNOWN),
    CAPS("NX-TAB-008", "ALLOCATOR is among the effective capabilities", "NX-TAB-007", &NONE),
    CAPS("NX-TAB-009", "Every effective capability has its table and slots", "NX-TAB-008", &GAP),
    CAPS("NX-TAB-010", "No capability table stands behind a flag that is not set", "NX-TAB-009", &LOOSE),
    ALR("NX-TAB-011", "The virtual backing table is whole and names the allocator's mechanism", "Identity",
        "NX-TAB-009", backing_is_whole, NULL),
    ALR("NX-TAB-012", "The shared mapping table is whole and names the allocator's mechanism", "Identity", "NX-TAB-009",
        sharing_is_whole, NULL),
    {.id = "NX-TAB-013",
     .statement = "The allocator's own name is its factory's",
     .section = "Ownership",
     .severity = NX_SEVERITY_WARNING,
     .scope = NX_SCOPE_MECHANISM,
     .needs = "NX-TAB-002",
     .check = name_is_factorys},
};

const nx_family nx_table_rules = NX_FAMILY("allocator table", "What open_allocator publishes", RULES);
