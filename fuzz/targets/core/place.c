/*
 * place.c: blocks in free spans, granules in spans.
 * Attackers: sizes, alignments and addresses near 2^64.
 * Promise: one call, its arguments in the order of the prototype; a granule or an alignment of 0 becomes 1; a span that
 * is not whole, where it must be, becomes one that ends at 2^64-1; a block outside its span becomes one inside.
 */
#include "nxmem/place.h"

#include "call.h"

static uint64_t not_zero(core_call *call) {
  const uint64_t taken = fuzz_take_u64(&call->in);
  return taken == 0u ? 1u : taken;
}

/* The next number, or the most that still ends below 2^64. */
static uint64_t bytes_from(core_call *call, uint64_t first) {
  const uint64_t bytes = fuzz_take_u64(&call->in);
  return bytes <= UINT64_MAX - first ? bytes : UINT64_MAX - first;
}

/* Input: u64 bytes | u64 align | u8 the exponent of the unit. */
static void run_nxmem_place_ask(core_call *call) {
  const uint64_t bytes = fuzz_take_u64(&call->in);
  const uint64_t align = fuzz_take_u64(&call->in);
  const uint64_t unit = (uint64_t)1u << fuzz_take_u8(&call->in) % 64u;
  nxmem_block *block = core_room(call, sizeof *block);
  core_kept_unless_accepted(call, nxmem_place_ask(bytes, align, unit, block));
}

static void run_nxmem_place_fit(core_call *call) {
  const uint64_t first = fuzz_take_u64(&call->in);
  const uint64_t bytes = bytes_from(call, first);
  const uint64_t block_bytes = fuzz_take_u64(&call->in);
  const uint64_t align = not_zero(call);
  if (!nxmem_place_fit(first, bytes, block_bytes, align, core_room(call, sizeof(uint64_t)))) core_kept(call);
}

/* Input: u64 first | u64 bytes | u64 what lies before the block | u64 its size. */
static void run_nxmem_place_cut(core_call *call) {
  const uint64_t first = fuzz_take_u64(&call->in);
  const uint64_t bytes = bytes_from(call, first);
  uint64_t before = fuzz_take_u64(&call->in);
  uint64_t block = fuzz_take_u64(&call->in);
  if (before > bytes) before = bytes;
  if (block > bytes - before) block = bytes - before;
  nxmem_free_span *below = core_room(call, sizeof *below);
  nxmem_place_cut(first, bytes, first + before, block, below, core_room(call, sizeof *below));
}

static void run_nxmem_place_joins(core_call *call) {
  const uint64_t first = fuzz_take_u64(&call->in);
  const uint64_t bytes = bytes_from(call, first);
  nxmem_place_joins(first, bytes, fuzz_take_u64(&call->in));
}

/* Input: the arena, the span, its neighbours below and above: u64 first | u64 bytes each. */
static void run_nxmem_place_check_back(core_call *call) {
  nxmem_free_span arena;
  arena.first = fuzz_take_u64(&call->in);
  arena.bytes = bytes_from(call, arena.first);
  const nxmem_free_span *whole = core_given(call, &arena, sizeof arena);
  const nxmem_free_span *span = core_given_next(call, sizeof *span);
  const nxmem_free_span *below = core_given_next(call, sizeof *below);
  nxmem_place_check_back(whole, span, below, core_given_next(call, sizeof *below));
}

static void run_nxmem_granule_of(core_call *call) {
  const uint64_t offset = fuzz_take_u64(&call->in);
  nxmem_granule_of(offset, not_zero(call));
}

static void run_nxmem_granules_whole(core_call *call) {
  const uint64_t offset = fuzz_take_u64(&call->in);
  const uint64_t bytes = bytes_from(call, offset);
  const uint64_t granule = not_zero(call);
  nxmem_granules_whole(offset, bytes, granule, core_room(call, sizeof(uint64_t)));
}

static void run_nxmem_granule_address(core_call *call) {
  const uint64_t base = fuzz_take_u64(&call->in);
  const uint64_t index = fuzz_take_u64(&call->in);
  const uint64_t granule = not_zero(call);
  if (!nxmem_granule_address(base, index, granule, core_room(call, sizeof(uint64_t)))) core_kept(call);
}

static void run_nxmem_granule_index(core_call *call) {
  const uint64_t base = fuzz_take_u64(&call->in);
  const uint64_t bytes = fuzz_take_u64(&call->in);
  const uint64_t granule = not_zero(call);
  const uint64_t address = fuzz_take_u64(&call->in);
  if (!nxmem_granule_index(base, bytes, granule, address, core_room(call, sizeof(uint64_t)))) core_kept(call);
}

static void run_nxmem_granules_bytes(core_call *call) {
  const uint64_t count = fuzz_take_u64(&call->in);
  const uint64_t granule = not_zero(call);
  if (!nxmem_granules_bytes(count, granule, core_room(call, sizeof(uint64_t)))) core_kept(call);
}

static const core_row rows[] = {
    CORE_ROW(nxmem_place_ask),      CORE_ROW(nxmem_place_fit),        CORE_ROW(nxmem_place_cut),
    CORE_ROW(nxmem_place_joins),    CORE_ROW(nxmem_place_check_back), CORE_ROW(nxmem_granule_of),
    CORE_ROW(nxmem_granules_whole), CORE_ROW(nxmem_granule_address),  CORE_ROW(nxmem_granule_index),
    CORE_ROW(nxmem_granules_bytes),
};
CORE_TOPIC(place);
