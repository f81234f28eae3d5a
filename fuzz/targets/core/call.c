/*
 * call.c: blocks of one call, and what may not have changed.
 * Attackers: the input itself.
 * Promise: a block ends where it says, so that AddressSanitizer sees one byte more; nothing outlives the call.
 */
#include "call.h"

#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>

#ifdef NXMEM_CONTRACT
#include "runtime.h"
#endif

static core_block *add(core_call *call, size_t bytes) {
  if (call->count == CORE_BLOCKS_MAX) fuzz_fail("harness", "%s: too many blocks", call->function);
  core_block *block = &call->blocks[call->count++];
  block->bytes = bytes;
  block->before = NULL;
  block->changes = 0;
  block->closed = 0;
  return block;
}

void *core_given(core_call *call, const void *from, size_t bytes) {
  core_block *block = add(call, bytes);
  block->at = fuzz_exact(from, bytes);
  block->before = fuzz_exact(from, bytes);
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
  core_block *block = add(call, bytes);
  block->changes = 1;
  block->at = fuzz_exact(from, bytes);
  return block->at;
}

/*
 * A function may rely on it that no output lies where a whole record would: so the block is large enough for one, also
 * a misaligned one, and AddressSanitizer is told that all behind the first `there` bytes must not be touched.
 */
static uint8_t *short_block(core_call *call, const uint8_t *wire, size_t there, size_t full) {
  core_block *block = add(call, there);
  block->closed = 2u * full - there;
  block->at = fuzz_exact_canary(2u * full);
  block->before = fuzz_exact(wire, there);
  memcpy(block->at, wire, there);
  ASAN_POISON_MEMORY_REGION(block->at + there, block->closed);
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
  core_block *block = add(call, bytes);
  block->at = fuzz_exact_canary(bytes);
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
    core_block *block = &call->blocks[i];
    if (block->before != NULL && memcmp(block->at, block->before, block->bytes) != 0)
      core_fail(call, "unchanged", "what was given to be read was written");
    if (block->closed != 0) ASAN_UNPOISON_MEMORY_REGION(block->at + block->bytes, block->closed);
    free(block->before);
    free(block->at);
  }
}

uint64_t core_small_word(core_call *call) {
  const uint64_t byte = fuzz_take_u8(&call->in);
  return (byte & 15u) + ((byte >> 4) << 32);
}
