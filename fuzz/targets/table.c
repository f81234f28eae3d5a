/*
 * table.c: raw bytes as each table that a plugin publishes, judged by the core and by the reference reader.
 * Attackers: the plugin: any size, any level, any slot, a table that ends early, an address that is none.
 * Promise: same verdicts, same output bytes, nothing written on refusal, no byte looked at that the table does not
 * declare.
 *
 * Input: u8 kind (bits 0-1) and skew (bits 2-4) | u64 negotiated capabilities, or the allocator's mechanism id | u64
 * required
 * capabilities | the table.
 */
#include <string.h>

#include "harness.h"
#include "nxmem/capability.h"
#include "nxmem/prefix.h"
#include "reference_reader.h"

typedef struct table_case {
  ref_kind kind;
  uint32_t skew;     /* 0 to 7: how far from aligned an address is that must never be followed */
  uint64_t argument; /* negotiated capabilities, or the mechanism id that a capability table must carry */
  uint64_t required;
  const uint8_t *bytes;
  size_t readable;
} table_case;

/* One call's outputs, with a tail that nothing may reach. */
typedef struct outputs {
  union {
    NxmemAllocatorVtable allocator;
    NxmemAllocatorFactoryVtable factory;
    NxmemVirtualBackingVtable backing;
    NxmemSharedMappingVtable sharing;
    uint8_t bytes[REF_TABLE_MAX];
  } table;
  uint8_t tail[16];
  uint32_t declared_minor;
} outputs;

static nxmem_verdict read_unvalidated(ref_kind kind, const void *src, uint32_t ceiling, outputs *out) {
  switch (kind) {
    case REF_ALLOCATOR:
      return nxmem_read_allocator_unvalidated(src, ceiling, &out->table.allocator, &out->declared_minor);
    case REF_FACTORY:
      return nxmem_read_factory_unvalidated(src, ceiling, &out->table.factory, &out->declared_minor);
    case REF_BACKING:
      return nxmem_read_backing_unvalidated(src, ceiling, &out->table.backing);
    default:
      return nxmem_read_sharing_unvalidated(src, ceiling, &out->table.sharing);
  }
}

static nxmem_verdict read_validated(ref_kind kind, const void *src, uint32_t ceiling, uint64_t mechanism,
                                    outputs *out) {
  switch (kind) {
    case REF_ALLOCATOR:
      return nxmem_read_allocator(src, ceiling, &out->table.allocator, &out->declared_minor);
    case REF_FACTORY:
      return nxmem_read_factory(src, ceiling, &out->table.factory, &out->declared_minor);
    case REF_BACKING:
      return nxmem_read_backing(src, ceiling, mechanism, &out->table.backing);
    default:
      return nxmem_read_sharing(src, ceiling, mechanism, &out->table.sharing);
  }
}

static nxmem_verdict check(ref_kind kind, const outputs *read, uint64_t mechanism) {
  switch (kind) {
    case REF_ALLOCATOR:
      return nxmem_check_allocator(&read->table.allocator);
    case REF_FACTORY:
      return nxmem_check_factory(&read->table.factory);
    case REF_BACKING:
      return nxmem_check_backing(&read->table.backing, mechanism);
    default:
      return nxmem_check_sharing(&read->table.sharing, mechanism);
  }
}

static void expect_outputs(const char *oracle, ref_kind kind, const outputs *found, nxmem_verdict verdict,
                           const ref_table *expected) {
  if (verdict.reason != NXMEM_REASON_NONE) {
    if (!fuzz_untouched(found, sizeof *found)) fuzz_fail(oracle, "an output was written on refusal");
    return;
  }
  const uint32_t full = ref_full_bytes(kind);
  const int tells_minor = kind == REF_ALLOCATOR || kind == REF_FACTORY;
  fuzz_same_bytes(oracle, found->table.bytes, expected->bytes, full);
  if (!fuzz_untouched(found->table.bytes + full, REF_TABLE_MAX - full) ||
      !fuzz_untouched(found->tail, sizeof found->tail))
    fuzz_fail(oracle, "bytes behind the output were written");
  if (tells_minor) fuzz_same_number(oracle, found->declared_minor, expected->declared_minor);
}

/* What both forms must say of a table at `src`, wherever it lies. */
typedef struct expectation {
  uint32_t ceiling;
  ref_table read;          /* unvalidated */
  nxmem_verdict validated; /* the verdict of the validated form */
} expectation;

static void run_at(const table_case *c, const expectation *e, const void *src) {
  const nxmem_verdict address = ref_address((uintptr_t)src);
  const int followed = address.reason == NXMEM_REASON_NONE;
  const nxmem_verdict unvalidated = followed ? e->read.verdict : address;
  const nxmem_verdict validated = followed ? e->validated : address;

  outputs out;
  memset(&out, FUZZ_CANARY, sizeof out);
  fuzz_same_verdict("table, unvalidated", read_unvalidated(c->kind, src, e->ceiling, &out), unvalidated);
  expect_outputs("table, unvalidated", c->kind, &out, unvalidated, &e->read);
  if (unvalidated.reason == NXMEM_REASON_NONE)
    fuzz_same_verdict("table, check", check(c->kind, &out, c->argument), e->validated);

  memset(&out, FUZZ_CANARY, sizeof out);
  fuzz_same_verdict("table, validated", read_validated(c->kind, src, e->ceiling, c->argument, &out), validated);
  expect_outputs("table, validated", c->kind, &out, validated, &e->read);
}

static void run_capabilities(const table_case *c, const expectation *e) {
  NxmemAllocatorVtable table;
  uint64_t found;
  uint64_t expected;
  memcpy(&table, e->read.bytes, sizeof table);
  memset(&found, FUZZ_CANARY, sizeof found);
  memset(&expected, FUZZ_CANARY, sizeof expected);
  const nxmem_verdict want =
      ref_capabilities(e->read.bytes, e->read.declared_minor, e->ceiling, c->argument, &expected);
  fuzz_same_verdict("table, capabilities",
                    nxmem_check_capabilities(&table, e->read.declared_minor, e->ceiling, c->argument, &found), want);
  fuzz_same_number("table, effective capabilities", found, expected);
  if (want.reason != NXMEM_REASON_NONE) return;
  const int lacks = (~found & c->required) != 0;
  const nxmem_verdict missing = {NXMEM_REASON_REQUIRED_MISSING, 0, found, c->required};
  const nxmem_verdict none = {NXMEM_REASON_NONE, 0, 0, 0};
  fuzz_same_verdict("table, required capabilities", nxmem_check_required(found, c->required), lacks ? missing : none);
}

/*
 * The three places a table is read at. `snapshot`: whole, bytes behind the declared size included, as a guarded fetch
 * leaves it.
 * `exact` and `guarded`: only the bytes the table declares, so that one more is seen.
 */
typedef struct places {
  const void *snapshot;
  const void *exact;
  const void *guarded;
} places;

static void run_ceiling(const table_case *c, uint32_t ceiling, const places *at) {
  expectation e;
  e.ceiling = ceiling;
  ref_read(c->kind, at->exact, ceiling, &e.read);
  e.validated = e.read.verdict;
  if (e.read.verdict.reason == NXMEM_REASON_NONE) e.validated = ref_validate(c->kind, e.read.bytes, c->argument);

  run_at(c, &e, at->snapshot);
  run_at(c, &e, at->exact);
  if (!FUZZ_EXACT_IS_SEEN) run_at(c, &e, at->guarded);
  if (c->kind == REF_ALLOCATOR && e.validated.reason == NXMEM_REASON_NONE) run_capabilities(c, &e);
}

/* Addresses that are refused by their number alone: NULL and one inside the unreadable page, misaligned. */
static void run_bad_addresses(const table_case *c) {
  expectation e;
  memset(&e, 0, sizeof e);
  run_at(c, &e, NULL);
  if (c->skew != 0) run_at(c, &e, (const void *)(fuzz_unreadable() + c->skew));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const uint32_t ceilings[] = {0u, 1u, 2u, UINT32_MAX};
  fuzz_input in = fuzz_begin(data, size);
  const uint8_t selector = fuzz_take_u8(&in);
  table_case c = {(ref_kind)(selector & 3u), selector >> 2 & 7u, 0, 0, NULL, 0};
  c.argument = fuzz_take_u64(&in);
  c.required = fuzz_take_u64(&in);
  c.bytes = in.at;
  c.readable = in.left;
  run_bad_addresses(&c);

  /* The fetch's rule: a table whose declared part is not all readable never reaches a reader. */
  uint32_t struct_size = 0;
  if (c.readable < sizeof struct_size) return 0;
  memcpy(&struct_size, c.bytes, sizeof struct_size);
  const uint32_t full = ref_full_bytes(c.kind);
  const uint32_t extent = ref_readable_bytes(c.kind, struct_size);
  fuzz_same_number("table, extent", nxmem_prefix_extent(struct_size, full), struct_size > full ? full : struct_size);
  if (extent > c.readable) return 0;

  uint8_t whole[REF_TABLE_MAX] = {0};
  memcpy(whole, c.bytes, c.readable < full ? c.readable : full);
  const void *snapshot = fuzz_kept(0, whole, full);
  const void *exact = fuzz_kept(1, c.bytes, extent);
  const places at = {snapshot, exact, fuzz_at_guard(c.bytes, extent)};
  for (uint32_t i = 0; i < sizeof ceilings / sizeof ceilings[0]; i++) run_ceiling(&c, ceilings[i], &at);
  return 0;
}
