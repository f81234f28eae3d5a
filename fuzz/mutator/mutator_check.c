/*
 * mutator_check.c: does the mutator keep its promises? TAP.
 * Attackers: none.
 * Promise: exits with 1 where one is broken. Blocks are exact, so that AddressSanitizer sees one byte too many.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutator.h"

enum { ROUNDS = 4000, MOST = 400 };

static int failed, number;

static void say(int holds, const char *what) {
  printf("%s %d - %s\n", holds ? "ok" : "not ok", ++number, what);
  failed |= !holds;
}

static uint8_t *filled(size_t room, size_t size, uint8_t with) {
  uint8_t *block = malloc(room == 0 ? 1 : room);
  if (block == NULL) exit(2);
  memset(block, 0xEE, room);
  memset(block, with, size);
  return block;
}

static size_t size_of_round(uint32_t seed) { return seed * 7919u % (MOST + 1u); }

static int stays_inside(void) {
  for (uint32_t seed = 0; seed < ROUNDS; seed++) {
    const size_t size = size_of_round(seed), max = size + seed % 40u + 1u;
    uint8_t *data = filled(max, size, (uint8_t)seed);
    const size_t made = fuzz_mutate(&fuzz_target_shape, data, size, max, seed);
    free(data);
    if (made == 0 || made > max) return 0;
  }
  return 1;
}

static int is_repeatable(void) {
  for (uint32_t seed = 0; seed < ROUNDS; seed++) {
    const size_t size = size_of_round(seed);
    uint8_t *a = filled(MOST * 2, size, 7), *b = filled(MOST * 2, size, 7);
    const size_t made = fuzz_mutate(&fuzz_target_shape, a, size, MOST * 2, seed);
    const int same = made == fuzz_mutate(&fuzz_target_shape, b, size, MOST * 2, seed) && memcmp(a, b, made) == 0;
    free(a);
    free(b);
    if (!same) return 0;
  }
  return 1;
}

static int changes_something(void) {
  uint32_t changed = 0;
  for (uint32_t seed = 0; seed < ROUNDS; seed++) {
    uint8_t *data = filled(MOST * 2, 80, 7), *before = filled(80, 80, 7);
    const size_t made = fuzz_mutate(&fuzz_target_shape, data, 80, MOST * 2, seed);
    changed += made != 80 || memcmp(data, before, 80) != 0;
    free(data);
    free(before);
  }
  return changed > ROUNDS / 2;
}

/* Where there are records, whole ones come out, and a crossing takes whole ones from both. */
static int keeps_records_whole(void) {
  const size_t head = fuzz_head_bytes(&fuzz_target_shape), record = fuzz_record_bytes(&fuzz_target_shape);
  for (uint32_t seed = 0; record != 0 && seed < ROUNDS; seed++) {
    uint8_t *data = filled(MOST * 2, head + 5u * record, 7);
    const size_t made = fuzz_mutate(&fuzz_target_shape, data, head + 5u * record, MOST * 2, seed);
    free(data);
    if (made < head || (made - head) % record != 0) return 0;
  }
  return 1;
}

static int crosses_between_records(void) {
  const size_t head = fuzz_head_bytes(&fuzz_target_shape), record = fuzz_record_bytes(&fuzz_target_shape);
  const size_t step = record == 0 ? 8 : record, a_size = head + 4u * step, b_size = head + 6u * step;
  int holds = 1;
  for (uint32_t seed = 0; holds && seed < ROUNDS; seed++) {
    uint8_t *a = filled(a_size, a_size, 1), *b = filled(b_size, b_size, 2), *out = filled(MOST, 0, 0);
    const size_t max = head + seed % 12u * step;
    const size_t made = fuzz_cross(&fuzz_target_shape, a, a_size, b, b_size, out, max, seed);
    const uint8_t *second = memchr(out, 2, made);
    holds = made <= max && (made - head) % step == 0;
    holds = holds && (second == NULL || (size_t)(second - out - (ptrdiff_t)head) % step == 0);
    free(a);
    free(b);
    free(out);
  }
  return holds;
}

int main(void) {
  printf("1..5\n");
  say(stays_inside(), "nothing is written behind the most, and something is left");
  say(is_repeatable(), "the same seed makes the same input");
  say(changes_something(), "most inputs are changed");
  say(keeps_records_whole(), "records stay whole");
  say(crosses_between_records(), "a crossing joins between records");
  return failed;
}
