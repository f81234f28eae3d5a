/*
 * reference_reader.h: how a published table must be read, written a second time.
 * Attackers: none; it only ever sees bytes the harness owns.
 * Promise: byte offsets from the contract's prose and nothing from the core but the names of its reasons.
 */
#ifndef NXMEM_FUZZ_REFERENCE_READER_H
#define NXMEM_FUZZ_REFERENCE_READER_H

#include <stdint.h>

#include "nxmem/verdict.h"

typedef enum ref_kind { REF_ALLOCATOR, REF_FACTORY, REF_BACKING, REF_SHARING } ref_kind;
enum { REF_KINDS = 4, REF_TABLE_MAX = 128 };

typedef struct ref_table {
  nxmem_verdict verdict;
  uint8_t bytes[REF_TABLE_MAX]; /* the first ref_full_bytes(kind) count; meaningful where the verdict accepts */
  uint32_t declared_minor;
} ref_table;

/* Bytes of the whole table at the highest level this contract knows. */
uint32_t ref_full_bytes(ref_kind kind);

/* Bytes that a table declaring `struct_size` must have readable before a reader may be given it. */
uint32_t ref_readable_bytes(ref_kind kind, uint32_t struct_size);

/* Rules 1: may this address be a table's? */
nxmem_verdict ref_address(uintptr_t address);

/* Rules 2 to 6 over bytes of which ref_readable_bytes() are there. */
void ref_read(ref_kind kind, const uint8_t *bytes, uint32_t ceiling, ref_table *out);

/* Rule 7 over what ref_read delivered; `mechanism` is what a capability table's must equal. */
nxmem_verdict ref_validate(ref_kind kind, const uint8_t *table, uint64_t mechanism);

/* "Capabilities of an allocator", over what ref_read delivered and ref_validate accepted. */
nxmem_verdict ref_capabilities(const uint8_t *table, uint32_t declared_minor, uint32_t ceiling, uint64_t negotiated,
                               uint64_t *effective);

#endif /* NXMEM_FUZZ_REFERENCE_READER_H */
