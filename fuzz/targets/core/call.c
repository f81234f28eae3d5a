/*
 * call.c: blocks of one call, and what may not have changed.
 * Attackers: the input itself.
 * Promise: a block ends where it says, so that AddressSanitizer sees one byte more; nothing outlives the call.
 */
#include "call.h"

#include <sanitizer/asan_interface.h>
#include <stdalign.h>
#include <string.h>

#ifdef NXMEM_CONTRACT
#include "runtime.h"
#endif

/*
 * Blocks lie one behind the other in memory that is closed but for them, a gap and what alignment asks for between two.
 * A block of the heap costs ten times as much, and a stray read that is far enough meets another one.
 */
enum { ROOM_BYTES = 16384, ALIGNED = 16, GAP = 32 };

static alignas(ALIGNED) uint8_t room[ROOM_BYTES];
static uint8_t copies[ROOM_BYTES];

static void close_room(void) {
  static int closed;
  if (closed) return;
  ASAN_POISON_MEMORY_REGION(room, sizeof room);
  closed = 1;
}

/* Without address for 0 bytes. The `closed` bytes behind stay closed. */
static core_block *add(core_call *call, size_t bytes, size_t closed) {
  const size_t start = call->used + GAP;
  if (call->count == CORE_BLOCKS_MAX) fuzz_fail("harness", "%s: too many blocks", call->function);
  if (bytes > ROOM_BYTES / 8 || closed > ROOM_BYTES / 8 || start + bytes + closed > ROOM_BYTES)
    fuzz_fail("harness", "%s: a block of %zu bytes", call->function, bytes);
  core_block *block = &call->blocks[call->count++];
  *block = (core_block){bytes == 0 ? NULL : room + start, bytes, NULL, 0};
  call->used = (start + bytes + closed + ALIGNED - 1u) / ALIGNED * ALIGNED;
  close_room();
  ASAN_UNPOISON_MEMORY_REGION(room + start, bytes);
  return block;
}

static void fill(core_block *block, const void *from) {
  if (block->bytes != 0) memcpy(block->at, from, block->bytes);
}

static void keep_copy(core_block *block) {
  if (block->bytes == 0) return;
  block->before = copies + (block->at - room);
  memcpy(block->before, block->at, block->bytes);
}

void *core_given(core_call *call, const void *from, size_t bytes) {
  core_block *block = add(call, bytes, 0);
  fill(block, from);
  keep_copy(block);
  return block->at;
}

void *core_given_next(core_call *call, size_t bytes) {
  uint8_t wire[CORE_RECORD_MAX];
  if (bytes > sizeof wire) fuzz_fail("harness", "%s: %zu bytes given", call->function, bytes);
  fuzz_take(&call->in, wire, bytes);
  return core_given(call, wire, bytes);
}

void *core_given_text(core_call *call, uint32_t most, uint32_t *bytes) {
  const uint32_t claimed = fuzz_take_u16(&call->in);
  const uint32_t wanted = claimed < most ? claimed : most;
  *bytes = call->in.left < wanted ? (uint32_t)call->in.left : wanted;
  void *block = core_given(call, call->in.at, *bytes);
  call->in.at += *bytes;
  call->in.left -= *bytes;
  return block;
}

void *core_changing(core_call *call, const void *from, size_t bytes) {
  core_block *block = add(call, bytes, 0);
  block->changes = 1;
  fill(block, from);
  return block->at;
}

/*
 * A function may rely on it that no output lies where a whole record would: so there is room for one behind, also for a
 * misaligned one.
 */
static uint8_t *short_block(core_call *call, const uint8_t *wire, size_t there, size_t full) {
  core_block *block = add(call, there, 2u * full - there);
  fill(block, wire);
  keep_copy(block);
  return block->at;
}

const void *core_declared(core_call *call, size_t full) {
  uint8_t wire[CORE_RECORD_MAX];
  uint32_t declared;
  const uint32_t address = fuzz_take_u32(&call->in);
  if (full > sizeof wire) fuzz_fail("harness", "%s: a record of %zu bytes", call->function, full);
  fuzz_take(&call->in, wire, full);
  memcpy(&declared, wire, sizeof declared);
  const size_t there = declared < full ? declared : full;
  const uint8_t *block = short_block(call, wire, there < sizeof declared ? sizeof declared : there, full);
  if (address < 128u) return block;
  return address % 8u == 0u ? NULL : block + address % 8u;
}

void *core_room(core_call *call, size_t bytes) {
  core_block *block = add(call, bytes, 0);
  if (bytes != 0) memset(block->at, FUZZ_CANARY, bytes);
  return block->at;
}

void core_fail(const core_call *call, const char *clause, const char *text) {
#ifdef NXMEM_CONTRACT
  const contract_violation violation = {call->function, clause, "Frame", text};
  contract_violated(&violation);
#else
  fuzz_fail(clause, "%s: %s", call->function, text);
#endif
}

void core_kept(core_call *call) {
  for (size_t i = 0; i < call->count; i++) {
    const core_block *block = &call->blocks[i];
    if (block->before == NULL && !block->changes && !fuzz_untouched(block->at, block->bytes))
      core_fail(call, "kept", "an output was written although the call was refused");
  }
}

void core_kept_unless_accepted(core_call *call, nxmem_verdict verdict) {
  if (verdict.reason != NXMEM_REASON_NONE) core_kept(call);
}

void core_end(core_call *call) {
  for (size_t i = 0; i < call->count; i++) {
    const core_block *block = &call->blocks[i];
    if (block->before != NULL && memcmp(block->at, block->before, block->bytes) != 0)
      core_fail(call, "unchanged", "what was given to be read was written");
    ASAN_POISON_MEMORY_REGION(block->at, block->bytes);
  }
}

uint64_t core_small_word(core_call *call) {
  const uint64_t byte = fuzz_take_u8(&call->in);
  return (byte & 15u) + ((byte >> 4) << 32);
}
