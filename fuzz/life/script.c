/*
 * script.c: records of the input, and what callers and plugin make of them.
 * Attackers: the input.
 * Promise: each record means something; behind the last one every answer is honest.
 */
#include <string.h>

#include "life.h"

life_record life_take(void) {
  uint8_t wire[LIFE_RECORD];
  life_record r = {0};
  fuzz_take(&it.in, wire, sizeof wire);
  r.op = wire[0];
  r.a = wire[1];
  r.b = wire[2];
  r.c = wire[3];
  r.d = wire[4];
  r.x = (uint32_t)wire[5] | (uint32_t)wire[6] << 8 | (uint32_t)wire[7] << 16;
  memcpy(&r.y, wire + 8, sizeof r.y);
  return r;
}

life_record life_take_answer(void) {
  static const life_record honest;
  return it.honest ? honest : life_take();
}

int life_is_direct(void) { return (it.header.mode & LIFE_DIRECT) != 0; }

/* Mostly OK: what lies behind a success is what is looked at most. */
static uint32_t status_code(const life_record *answer) {
  switch (answer->a & 15u) {
    case 10:
      return NXMEM_STATUS_OUT_OF_MEMORY;
    case 11:
      return NXMEM_STATUS_RELEASE_QUARANTINED;
    case 12:
      return NXMEM_STATUS_BUSY;
    case 13:
      return NXMEM_STATUS_CALLBACK_FAILED;
    case 14:
      return 0x80000000u | answer->x;
    case 15:
      return NXMEM_STATUS_INVALID_ARGUMENT;
    default:
      return NXMEM_STATUS_OK;
  }
}

/* A message that is not ended, too long or not UTF-8 comes with a failure only: of a success it is not read. */
NxmemStatus life_status(const life_record *answer) {
  NxmemStatus status;
  fuzz_clear(&status, sizeof status);
  status.code = status_code(answer);
  if (status.code == NXMEM_STATUS_OK || (answer->b & 0x80u) == 0) return status;
  status.message_len = answer->x;
  for (uint32_t i = 0; i < sizeof status.message; i++) status.message[i] = (uint8_t)(answer->y >> 8u * (i % 8u));
  return status;
}

uint64_t life_number(uint8_t kind, uint64_t honest, const life_record *answer) {
  switch (kind & 15u) {
    case 8:
      return 0;
    case 9:
      return LIFE_UNWRITTEN;
    case 10:
      return answer->y;
    case 11:
      return honest + 1u;
    case 12:
      return honest - 1u;
    case 13:
      return LIFE_TOTAL_MAX;
    case 14:
      return answer->x;
    case 15:
      return LIFE_UNWRITTEN - 1u;
    default:
      return honest;
  }
}

uint64_t life_size(const life_record *op) {
  switch (op->d & 7u) {
    case 4:
      return (uint64_t)op->x << 12;
    case 5:
      return op->y;
    case 6:
      return 1ull << op->x % 64u;
    case 7:
      return op->x;
    default:
      return 1u + op->x % 8192u;
  }
}

void life_store(uint64_t *out, uint64_t value) {
  if (value != LIFE_UNWRITTEN) *out = value;
}

/* Operations from inside a slot: no more than the depth allows. */
void life_nest(const life_record *answer) {
  static const uint8_t counts[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3};
  if (it.honest || it.depth >= LIFE_DEPTH) return;
  const uint32_t most = counts[answer->a >> 4];
  it.depth++;
  for (uint32_t i = 0; i < most && it.in.left > 0; i++) life_step();
  it.depth--;
}

life_frame *life_push(life_kind kind) {
  if (it.frame_count > 0) it.frames[it.frame_count - 1u].nested++;
  life_expect(it.frame_count < sizeof it.frames / sizeof it.frames[0], "harness: too deep");
  life_frame *f = &it.frames[it.frame_count++];
  fuzz_clear(f, sizeof *f);
  f->kind = kind;
  return f;
}

life_frame *life_top(void) {
  life_expect(it.frame_count > 0, "the plugin is entered though nobody called the host");
  return &it.frames[it.frame_count - 1u];
}

void life_pop(void) { it.frame_count--; }
