/*
 * reference_reader.c: the contract's tables as lists of fields, read one byte at a time.
 * Attackers: none; it only ever sees bytes the harness owns.
 * Promise: slow and plain; a field is there when every byte of it is, and when its minor is.
 */
#include "reference_reader.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are put together from their low byte up");

typedef struct ref_field {
  uint8_t offset;
  uint8_t width;
  uint8_t since;    /* the first minor that has it */
  uint8_t required; /* a slot that may not be NULL in a usable table */
} ref_field;

typedef struct ref_layout {
  const ref_field *fields;
  uint32_t count;
  uint32_t has_mechanism;
} ref_layout;

static const ref_field allocator_fields[] = {
    {0, 4, 0, 0},  {4, 4, 0, 0},  {8, 8, 0, 0},  {16, 4, 0, 0},  {20, 4, 0, 0},  {24, 8, 0, 0},
    {32, 8, 0, 0}, {40, 8, 0, 0}, {48, 8, 0, 1}, {56, 8, 0, 1},  {64, 8, 0, 1},  {72, 8, 0, 1},
    {80, 8, 0, 0}, {88, 8, 0, 0}, {96, 8, 0, 0}, {104, 8, 0, 0}, {112, 8, 0, 0}, {120, 8, 1, 0}};
static const ref_field factory_fields[] = {{0, 4, 0, 0},  {4, 4, 0, 0},  {8, 8, 0, 0},  {16, 4, 0, 0}, {20, 4, 0, 0},
                                           {24, 8, 0, 0}, {32, 8, 0, 0}, {40, 8, 0, 1}, {48, 8, 0, 1}};
static const ref_field backing_fields[] = {{0, 4, 0, 0},  {4, 4, 0, 0},  {8, 8, 0, 0},  {16, 8, 0, 0}, {24, 8, 0, 0},
                                           {32, 8, 0, 0}, {40, 8, 0, 0}, {48, 8, 0, 0}, {56, 8, 0, 0}, {64, 8, 0, 0}};
static const ref_field sharing_fields[] = {{0, 4, 0, 0},  {4, 4, 0, 0},  {8, 8, 0, 0},  {16, 8, 0, 0}, {24, 8, 0, 0},
                                           {32, 8, 0, 0}, {40, 8, 0, 0}, {48, 8, 0, 0}, {56, 8, 0, 0}};

#define FIELDS(list) list, sizeof list / sizeof list[0]
static const ref_layout layouts[REF_KINDS] = {[REF_ALLOCATOR] = {FIELDS(allocator_fields), 1},
                                              [REF_FACTORY] = {FIELDS(factory_fields), 0},
                                              [REF_BACKING] = {FIELDS(backing_fields), 1},
                                              [REF_SHARING] = {FIELDS(sharing_fields), 1}};

static uint64_t number_at(const uint8_t *bytes, uint32_t offset, uint32_t width) {
  uint64_t value = 0;
  for (uint32_t i = width; i > 0; i--) value = value << 8 | bytes[offset + i - 1];
  return value;
}

static nxmem_verdict say(nxmem_reason reason, uint32_t field, uint64_t found, uint64_t needed) {
  const nxmem_verdict verdict = {(uint32_t)reason, field, found, needed};
  return verdict;
}

/* The end of the last field that a table of this minor has. */
static uint32_t bytes_at_minor(ref_kind kind, uint32_t minor) {
  uint32_t end = 0;
  for (uint32_t i = 0; i < layouts[kind].count; i++) {
    const ref_field *field = &layouts[kind].fields[i];
    if (field->since <= minor && field->offset + field->width > end) end = (uint32_t)field->offset + field->width;
  }
  return end;
}

uint32_t ref_full_bytes(ref_kind kind) { return bytes_at_minor(kind, UINT32_MAX); }

uint32_t ref_readable_bytes(ref_kind kind, uint32_t struct_size) {
  const uint32_t full = ref_full_bytes(kind);
  if (struct_size < 8) return 4; /* struct_size itself; abi_minor is not read */
  return struct_size < full ? struct_size : full;
}

nxmem_verdict ref_address(uintptr_t address) {
  if (address == 0) return say(NXMEM_REASON_NULL_POINTER, 0, 0, 0);
  if ((address & 7u) != 0) return say(NXMEM_REASON_MISALIGNED, 0, address & 7u, 8);
  return say(NXMEM_REASON_NONE, 0, 0, 0);
}

static void copy_field(const ref_field *field, const uint8_t *bytes, uint8_t *out) {
  for (uint32_t i = 0; i < field->width; i++) out[field->offset + i] = bytes[field->offset + i];
}

void ref_read(ref_kind kind, const uint8_t *bytes, uint32_t ceiling, ref_table *out) {
  const uint32_t size = (uint32_t)number_at(bytes, 0, 4);
  memset(out, 0, sizeof *out);
  out->verdict = say(NXMEM_REASON_SHORT_HEADER, 0, size, 8);
  if (size < 8) return;
  const uint32_t minor = (uint32_t)number_at(bytes, 4, 4);
  const uint32_t needed = bytes_at_minor(kind, minor);
  out->verdict = say(NXMEM_REASON_SHORT_TABLE, 0, size, needed);
  if (size < needed) return;

  const uint32_t level = ceiling < minor ? ceiling : minor;
  const uint32_t extent = ref_readable_bytes(kind, size);
  for (uint32_t i = 0; i < layouts[kind].count; i++) {
    const ref_field *field = &layouts[kind].fields[i];
    if (field->since <= level && (uint32_t)field->offset + field->width <= extent) copy_field(field, bytes, out->bytes);
  }
  for (uint32_t i = 0; i < 4; i++) out->bytes[4 + i] = (uint8_t)(level >> 8 * i);
  out->declared_minor = minor;
  out->verdict = say(NXMEM_REASON_NONE, 0, 0, 0);
}

nxmem_verdict ref_validate(ref_kind kind, const uint8_t *table, uint64_t mechanism) {
  for (uint32_t i = 0; i < layouts[kind].count; i++) {
    const ref_field *field = &layouts[kind].fields[i];
    if (field->required && number_at(table, field->offset, field->width) == 0)
      return say(NXMEM_REASON_MISSING_SLOT, field->offset, 0, 0);
  }
  if (!layouts[kind].has_mechanism) return say(NXMEM_REASON_NONE, 0, 0, 0);
  const uint64_t own = number_at(table, 8, 8);
  if (own == 0) return say(NXMEM_REASON_ZERO_MECHANISM, 8, 0, 0);
  const int of_an_allocator = kind == REF_BACKING || kind == REF_SHARING;
  if (of_an_allocator && own != mechanism) return say(NXMEM_REASON_OTHER_MECHANISM, 8, own, mechanism);
  return say(NXMEM_REASON_NONE, 0, 0, 0);
}

/* ---- Capabilities: one row a bit -------------------------------------------------------------------------------- */

typedef struct ref_capability {
  uint8_t bit;
  uint8_t since;
  uint8_t table; /* offset of the pointer to its table; 0: none */
  uint8_t slots[3];
} ref_capability;

static const ref_capability capabilities[] = {{0, 0, 0, {0, 0, 0}},
                                              {1, 0, 80, {0, 0, 0}},
                                              {2, 0, 88, {0, 0, 0}},
                                              {3, 0, 0, {96, 104, 112}},
                                              {4, 1, 0, {120, 0, 0}}};
enum { CAPABILITIES = sizeof capabilities / sizeof capabilities[0] };

static uint64_t defined_at(uint32_t minor) {
  uint64_t bits = 0;
  for (uint32_t i = 0; i < CAPABILITIES; i++)
    if (capabilities[i].since <= minor) bits |= (uint64_t)1 << capabilities[i].bit;
  return bits;
}

static int is_set(uint64_t flags, uint32_t bit) { return (int)(flags >> bit & 1u); }

/* The offset of the first table or slot that a capability in force lacks; 0 where it lacks none. */
static uint32_t first_missing(const ref_capability *capability, const uint8_t *table) {
  if (capability->table != 0 && number_at(table, capability->table, 8) == 0) return capability->table;
  for (uint32_t i = 0; i < 3; i++) {
    const uint32_t slot = capability->slots[i];
    if (slot != 0 && number_at(table, slot, 8) == 0) return slot;
  }
  return 0;
}

static nxmem_verdict judge_slots(const uint8_t *table, uint64_t declared, uint64_t in_force) {
  for (uint32_t i = 0; i < CAPABILITIES; i++) {
    const uint32_t missing = is_set(in_force, capabilities[i].bit) ? first_missing(&capabilities[i], table) : 0;
    if (missing != 0) return say(NXMEM_REASON_FLAG_WITHOUT_SLOT, missing, 0, 0);
  }
  for (uint32_t i = 0; i < CAPABILITIES; i++) {
    const uint32_t at = capabilities[i].table;
    if (at != 0 && !is_set(declared, capabilities[i].bit) && number_at(table, at, 8) != 0)
      return say(NXMEM_REASON_TABLE_WITHOUT_FLAG, at, 0, 0);
  }
  return say(NXMEM_REASON_NONE, 0, 0, 0);
}

nxmem_verdict ref_capabilities(const uint8_t *table, uint32_t declared_minor, uint32_t ceiling, uint64_t negotiated,
                               uint64_t *effective) {
  const uint32_t level = (uint32_t)number_at(table, 4, 4);
  const uint64_t declared = number_at(table, 24, 8);
  uint64_t in_force = 0;
  for (uint32_t bit = 0; bit < 64; bit++) {
    const int defined = is_set(defined_at(declared_minor), bit);
    if (is_set(declared, bit) && !defined && declared_minor <= ceiling)
      return say(NXMEM_REASON_UNKNOWN_CAPABILITY, 24, declared, defined_at(declared_minor));
    if (is_set(declared, bit) && is_set(negotiated, bit) && is_set(defined_at(level), bit))
      in_force |= (uint64_t)1 << bit;
  }
  if (!is_set(in_force, 0)) return say(NXMEM_REASON_NO_ALLOCATOR, 24, declared, 1);
  const nxmem_verdict slots = judge_slots(table, declared, in_force);
  if (slots.reason == NXMEM_REASON_NONE) *effective = in_force;
  return slots;
}
