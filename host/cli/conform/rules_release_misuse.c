/*
 * rules_release_misuse.c: rules about records that a release slot must refuse.
 * Attackers: a plugin that trusts its caller, or finds blocks by address alone.
 * Promise: one table for deallocate, release_allocation and enqueue_release; after each refusal the block is still
 * live and every count is as before.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/families.h"
#include "conform/memory.h"
#include "conform/slots.h"
#include "nxmem.h"

/* ---- The slots --------------------------------------------------------------------------------------------------- */

typedef union out_record {
  uint64_t number;
  NxmemReleaseOutcome outcome;
} out_record;

typedef uint32_t (*give_slot)(const nx_opened *opened, const NxmemAllocation *allocation, out_record *out);

static uint32_t by_deallocate(const nx_opened *opened, const NxmemAllocation *allocation, out_record *out) {
  return nx_deallocate(opened, allocation, out ? &out->number : NULL).code;
}

static uint32_t by_release(const nx_opened *opened, const NxmemAllocation *allocation, out_record *out) {
  if (out) out->outcome = nx_blank_outcome();
  return nx_release_allocation(opened, allocation, out ? &out->outcome : NULL).code;
}

static uint32_t by_enqueue(const nx_opened *opened, const NxmemAllocation *allocation, out_record *out) {
  if (out) out->number = NX_UNWRITTEN;
  return nx_enqueue(opened, allocation, out ? &out->number : NULL).code;
}

/* ---- What is wrong with the record ------------------------------------------------------------------------------- */

typedef struct misuse {
  give_slot slot;
  const char *what;
  void (*spoil)(NxmemAllocation *allocation);
  nx_codes accepted;
} misuse;

static void other_id(NxmemAllocation *a) { a->allocation_id ^= 1ull << 35; }
static void id_zero(NxmemAllocation *a) { a->allocation_id = 0; }
static void other_mechanism(NxmemAllocation *a) { a->mechanism_id ^= 1ull << 40; }
static void other_device(NxmemAllocation *a) { a->device.index++; }
static void other_ptr(NxmemAllocation *a) { a->ptr += 64; }
static void no_ptr(NxmemAllocation *a) { a->ptr = NULL; }
static void other_bytes(NxmemAllocation *a) { a->bytes++; }
static void other_align(NxmemAllocation *a) { a->align *= 2; }

#define NOT_THE_BLOCK (NX_CODE(INVALID_ARGUMENT) | NX_CODE(UNKNOWN_ALLOCATION))

#define SLOT_MISUSES(name, slot)                                                                            \
  static const misuse name[] = {{slot, "an id that was never live", other_id, NX_CODE(UNKNOWN_ALLOCATION)}, \
                                {slot, "id 0", id_zero, NX_CODE(UNKNOWN_ALLOCATION)},                       \
                                {slot, "another mechanism", other_mechanism, NX_CODE(WRONG_MECHANISM)},     \
                                {slot, "another device", other_device, NX_CODE(WRONG_DEVICE)},              \
                                {slot, "another address", other_ptr, NOT_THE_BLOCK},                        \
                                {slot, "a NULL address", no_ptr, NOT_THE_BLOCK},                            \
                                {slot, "another size", other_bytes, NOT_THE_BLOCK},                         \
                                {slot, "another alignment", other_align, NOT_THE_BLOCK}}
SLOT_MISUSES(DEALLOCATE, by_deallocate);
SLOT_MISUSES(RELEASE, by_release);
SLOT_MISUSES(ENQUEUE, by_enqueue);

static void must_refuse(const nx_opened *opened, give_slot slot, const void *record, nx_codes accepted,
                        const char *what) {
  out_record out;
  nx_expect_code(slot(opened, record, &out), accepted, what);
}

static void wrong_record(nx_trial *trial, const void *with) {
  const misuse *wrong = with;
  nx_opened opened = nx_open_ready(trial);
  nx_block block = nx_take(&opened, 4096, 64);
  NxmemUnloadReport before = nx_plugin_report(trial);
  NxmemAllocation record = block.allocation;
  wrong->spoil(&record);
  must_refuse(&opened, wrong->slot, &record, wrong->accepted, wrong->what);
  nx_same_counts(trial, &before, wrong->what);
  nx_still_live(&opened, &block, wrong->what);
  nx_seen("%s; the block is still live", nx_codes_words(wrong->accepted));
}

static void short_record(nx_trial *trial, const void *with) {
  const misuse *row = with;
  nx_opened opened = nx_open_ready(trial);
  nx_block block = nx_take(&opened, 4096, 64);
  NxmemUnloadReport before = nx_plugin_report(trial);
  uint32_t sizes[NX_SHORT_SIZES], count = nx_short_sizes(NX_ALLOCATION_BYTES, sizes);
  for (uint32_t i = 0; i < count; i++)
    must_refuse(&opened, row->slot, nx_short_copy(&block.allocation, sizes[i], NX_ALLOCATION_BYTES),
                NX_CODE(SHORT_STRUCT), "a record below 56 bytes");
  nx_same_counts(trial, &before, "a short record");
  nx_still_live(&opened, &block, "a short record");
  nx_seen("SHORT_STRUCT at 0, 8, 48 and 55 bytes");
}

static void null_arguments(nx_trial *trial, const void *with) {
  const misuse *row = with;
  nx_opened opened = nx_open_ready(trial);
  nx_block block = nx_take(&opened, 4096, 64);
  NxmemUnloadReport before = nx_plugin_report(trial);
  must_refuse(&opened, row->slot, NULL, NX_CODE(INVALID_ARGUMENT), "a NULL record");
  nx_expect_code(row->slot(&opened, &block.allocation, NULL), NX_CODE(INVALID_ARGUMENT), "a NULL out-parameter");
  nx_same_counts(trial, &before, "a NULL argument");
  nx_still_live(&opened, &block, "a NULL argument");
  nx_seen("INVALID_ARGUMENT for a NULL record and for a NULL out-parameter");
}

static void twice(nx_trial *trial, const void *with) {
  const misuse *row = with;
  nx_opened opened = nx_open_ready(trial);
  nx_block block = nx_take(&opened, 4096, 64), other = nx_take(&opened, 4096, 64);
  out_record out;
  NX_GIVEN(row->slot(&opened, &block.allocation, &out) == NXMEM_STATUS_OK, "the first release was refused");
  NxmemUnloadReport before = nx_plugin_report(trial);
  must_refuse(&opened, row->slot, &block.allocation, NX_CODE(UNKNOWN_ALLOCATION), "the same block once more");
  nx_same_counts(trial, &before, "a second release");
  nx_still_live(&opened, &other, "a second release of another block");
  nx_seen("UNKNOWN_ALLOCATION");
}

/* Same mechanism, same device, another allocator: the number alone does not decide whose it is. */
static void anothers_block(nx_trial *trial, const void *with) {
  const misuse *row = with;
  nx_opened owner = nx_open_ready(trial), other = nx_open_once(trial, NULL);
  nx_block block = nx_take(&owner, 4096, 64);
  NxmemUnloadReport before = nx_plugin_report(trial);
  must_refuse(&other, row->slot, &block.allocation, NX_CODE(UNKNOWN_ALLOCATION), "another open's block");
  nx_same_counts(trial, &before, "another open's block");
  nx_still_live(&owner, &block, "a release through another open");
  nx_seen("UNKNOWN_ALLOCATION; the block is still live");
}

/* The first other factory that opens; the trial's target is as it was afterwards. */
static nx_opened open_neighbour(nx_trial *trial) {
  const nx_target *own = trial->target;
  nx_target other = *own;
  NX_GIVEN(trial->entry_count > 0, "no mechanism is published");
  if (trial->entry_count < 2) nx_does_not_apply("the module has one mechanism");
  other.index = own->index == 0 ? 1 : 0;
  trial->target = &other;
  nx_opened opened = nx_open_once(trial, NULL);
  trial->target = own;
  return opened;
}

static void neighbours_block(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened owner = nx_open_ready(trial), other = open_neighbour(trial);
  nx_block block = nx_take(&owner, 4096, 64);
  NxmemUnloadReport before = nx_plugin_report(trial);
  const nx_codes refusals = NX_CODE(WRONG_MECHANISM) | NX_CODE(WRONG_DEVICE) | NX_CODE(UNKNOWN_ALLOCATION);
  must_refuse(&other, by_deallocate, &block.allocation, refusals, "another mechanism's block");
  nx_same_counts(trial, &before, "another mechanism's block");
  nx_still_live(&owner, &block, "a release through another mechanism");
  nx_seen("refused; the block is still live");
}

#define ROW(name, text, place, need, cap, function, argument)                                            \
  {                                                                                                      \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = (need), \
    .capability = (cap), .check = (function), .with = (argument)                                         \
  }
#define SLOT_RULES(prefix, slot, need, cap, rows)                                                                      \
  ROW(prefix "021", slot ": an id that was never live is UNKNOWN_ALLOCATION", "Identity", need, cap, wrong_record,     \
      &(rows)[0]),                                                                                                     \
      ROW(prefix "022", slot ": id 0 is UNKNOWN_ALLOCATION", "Identity", need, cap, wrong_record, &(rows)[1]),         \
      ROW(prefix "023", slot ": another mechanism is WRONG_MECHANISM", "Identity", need, cap, wrong_record,            \
          &(rows)[2]),                                                                                                 \
      ROW(prefix "024", slot ": another device is WRONG_DEVICE", "Identity", need, cap, wrong_record, &(rows)[3]),     \
      ROW(prefix "025", slot ": another address is refused", "Identity", need, cap, wrong_record, &(rows)[4]),         \
      ROW(prefix "026", slot ": a NULL address is refused", "Identity", need, cap, wrong_record, &(rows)[5]),          \
      ROW(prefix "027", slot ": another size is refused", "Identity", need, cap, wrong_record, &(rows)[6]),            \
      ROW(prefix "028", slot ": another alignment is refused", "Identity", need, cap, wrong_record, &(rows)[7]),       \
      ROW(prefix "029", slot ": a record below 56 bytes is SHORT_STRUCT, and nothing beyond it is read", "Sizes",      \
          need, cap, short_record, &(rows)[0]),                                                                        \
      ROW(prefix "030", slot ": NULL arguments are INVALID_ARGUMENT", "Sizes", need, cap, null_arguments, &(rows)[0]), \
      ROW(prefix "031", slot ": a block that was given back is UNKNOWN_ALLOCATION", "Identity", need, cap, twice,      \
          &(rows)[0]),                                                                                                 \
      ROW(prefix "032", slot ": another open's block is UNKNOWN_ALLOCATION", "Identity", need, cap, anothers_block,    \
          &(rows)[0])

static const nx_rule RULES[] = {
    SLOT_RULES("NX-DEA-", "deallocate", "NX-ALC-010", 0, DEALLOCATE),
    ROW("NX-DEA-041", "deallocate: a block of the module's other mechanism is refused", "Identity", "NX-ALC-010", 0,
        neighbours_block, NULL),
    SLOT_RULES("NX-STR-", "release_allocation", "NX-STR-003", NXMEM_CAP_STRUCTURED_RELEASE, RELEASE),
    SLOT_RULES("NX-DEF-", "enqueue_release", "NX-DEF-001", NXMEM_CAP_DEFERRED_RELEASE, ENQUEUE),
};

const nx_family nx_release_misuse_rules =
    NX_FAMILY("release records", "Records that a release slot must refuse, the block staying live", RULES);
