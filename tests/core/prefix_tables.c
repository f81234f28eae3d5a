/*
 * prefix_tables.c: the four published tables and their eight readers, seen alike.
 *
 * Attackers: none; the tests play them.
 * Promise: an output starts untouched, so that a refusal that writes is seen.
 */
#include "prefix_tables.h"

static void run_allocator(const void *src, uint32_t ceiling, reading *got) {
  got->verdict = nxmem_read_allocator(src, ceiling, &got->out.allocator, &got->declared_minor);
}

static void run_allocator_unvalidated(const void *src, uint32_t ceiling, reading *got) {
  got->verdict = nxmem_read_allocator_unvalidated(src, ceiling, &got->out.allocator, &got->declared_minor);
}

static void run_factory(const void *src, uint32_t ceiling, reading *got) {
  got->verdict = nxmem_read_factory(src, ceiling, &got->out.factory, &got->declared_minor);
}

static void run_factory_unvalidated(const void *src, uint32_t ceiling, reading *got) {
  got->verdict = nxmem_read_factory_unvalidated(src, ceiling, &got->out.factory, &got->declared_minor);
}

static void run_backing(const void *src, uint32_t ceiling, reading *got) {
  got->verdict = nxmem_read_backing(src, ceiling, MECHANISM, &got->out.backing);
}

static void run_backing_unvalidated(const void *src, uint32_t ceiling, reading *got) {
  got->verdict = nxmem_read_backing_unvalidated(src, ceiling, &got->out.backing);
}

static void run_sharing(const void *src, uint32_t ceiling, reading *got) {
  got->verdict = nxmem_read_sharing(src, ceiling, MECHANISM, &got->out.sharing);
}

static void run_sharing_unvalidated(const void *src, uint32_t ceiling, reading *got) {
  got->verdict = nxmem_read_sharing_unvalidated(src, ceiling, &got->out.sharing);
}

const reader readers[READERS] = {
    {"allocator, validated", 128, 120, 1, 1, run_allocator},
    {"allocator, unvalidated", 128, 120, 0, 1, run_allocator_unvalidated},
    {"factory, validated", 56, 56, 1, 1, run_factory},
    {"factory, unvalidated", 56, 56, 0, 1, run_factory_unvalidated},
    {"virtual backing, validated", 72, 72, 1, 0, run_backing},
    {"virtual backing, unvalidated", 72, 72, 0, 0, run_backing_unvalidated},
    {"shared mapping, validated", 64, 64, 1, 0, run_sharing},
    {"shared mapping, unvalidated", 64, 64, 0, 0, run_sharing_unvalidated},
};

uint64_t filled_value(size_t offset) {
  return offset == 8 ? MECHANISM : 0x5100000000001000ull + offset * 0x100000100ull;
}

void fill_table(uint8_t *bytes, size_t room, uint32_t struct_size, uint32_t abi_minor) {
  uint8_t whole[TABLE_BYTES_MAX + SWEEP_BEYOND + 8];
  memset(whole, 0xEE, sizeof whole);
  nx_put32(whole, struct_size);
  nx_put32(whole + 4, abi_minor);
  for (size_t offset = 8; offset < TABLE_BYTES_MAX; offset += 8) nx_put64(whole + offset, filled_value(offset));
  memcpy(bytes, whole, room < sizeof whole ? room : sizeof whole);
}

void run_reader(const reader *r, const void *src, uint32_t ceiling, reading *got) {
  memset(got, UNTOUCHED, sizeof *got);
  r->read(src, ceiling, got);
}

uint32_t bytes_needed(const reader *r, uint32_t minor) { return minor == 0 ? r->at_minor_0 : r->full; }

void assert_output_untouched(const reading *got) {
  for (size_t i = 0; i < sizeof got->out.bytes; i++) assert_int_equal(got->out.bytes[i], UNTOUCHED);
  assert_int_equal(got->declared_minor, 0xC5C5C5C5u);
}
