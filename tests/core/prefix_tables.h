/*
 * prefix_tables.h: the four published tables and their eight readers, seen alike, as bytes.
 *
 * Attackers: none; the tests fill the bytes with what an attacker would.
 * Promise: offsets and sizes here are typed from the wire contract's text, not taken from the header.
 */
#ifndef TESTS_CORE_PREFIX_TABLES_H
#define TESTS_CORE_PREFIX_TABLES_H

#include "nxmem/prefix.h"
#include "support.h"

enum { MECHANISM = 77, TABLE_BYTES_MAX = 128, SWEEP_BEYOND = 64, UNTOUCHED = 0xC5 };

typedef struct reading {
  nxmem_verdict verdict;
  uint32_t declared_minor; /* UNTOUCHED in each byte where the reader wrote none */
  union {
    NxmemAllocatorVtable allocator;
    NxmemAllocatorFactoryVtable factory;
    NxmemVirtualBackingVtable backing;
    NxmemSharedMappingVtable sharing;
    uint8_t bytes[TABLE_BYTES_MAX];
  } out;
} reading;

typedef struct reader {
  const char *name;
  uint32_t full;       /* bytes of the whole table */
  uint32_t at_minor_0; /* bytes it needs at minor 0 */
  int validated;
  int tells_declared; /* reports the claimed minor */
  void (*read)(const void *src, uint32_t ceiling, reading *got);
} reader;

enum { READERS = 8 };
extern const reader readers[READERS];

/* Fill `bytes` (all `room` of them) with a table that every reader accepts: a distinct value in each 8-byte place
   behind the header. */
void fill_table(uint8_t *bytes, size_t room, uint32_t struct_size, uint32_t abi_minor);

/* Run one reader over an untouched output. */
void run_reader(const reader *r, const void *src, uint32_t ceiling, reading *got);

uint32_t bytes_needed(const reader *r, uint32_t minor);

/* Fails the running case unless the output was left as it was. */
void assert_output_untouched(const reading *got);

/* The number fill_table puts at an offset. */
uint64_t filled_value(size_t offset);

#endif /* TESTS_CORE_PREFIX_TABLES_H */
