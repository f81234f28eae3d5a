/*
 * afl_mutator.c: the mutator as AFL++ loads it: a library beside the target.
 * Attackers: none.
 * Promise: a second input, where AFL++ has one, is crossed with the first half of the time; AFL++'s own stages stay.
 */
#include <stdlib.h>
#include <string.h>

#include "mutator.h"

#define EXPORTED __attribute__((visibility("default")))

typedef struct state {
  uint64_t turn;
  uint8_t *out;
  size_t room;
} state;

EXPORTED void *afl_custom_init(void *afl, unsigned int seed);
EXPORTED size_t afl_custom_fuzz(void *data, uint8_t *input, size_t size, uint8_t **out, uint8_t *other,
                                size_t other_size, size_t max);
EXPORTED void afl_custom_deinit(void *data);

void *afl_custom_init(void *afl, unsigned int seed) {
  (void)afl;
  state *s = calloc(1, sizeof *s);
  if (s != NULL) s->turn = seed;
  return s;
}

static int make_room(state *s, size_t bytes) {
  if (bytes <= s->room) return 1;
  uint8_t *grown = realloc(s->out, bytes);
  if (grown == NULL) return 0;
  s->out = grown;
  s->room = bytes;
  return 1;
}

size_t afl_custom_fuzz(void *data, uint8_t *input, size_t size, uint8_t **out, uint8_t *other, size_t other_size,
                       size_t max) {
  state *s = data;
  if (max == 0 || !make_room(s, max)) return 0;
  *out = s->out;
  const uint32_t seed = (uint32_t)(++s->turn * 0x9E3779B9u);
  size_t made = size < max ? size : max;
  if (other != NULL && seed % 2u == 0u)
    made = fuzz_cross(&fuzz_target_shape, input, size, other, other_size, s->out, max, seed);
  else if (made != 0)
    memcpy(s->out, input, made);
  return fuzz_mutate(&fuzz_target_shape, s->out, made, max, seed);
}

void afl_custom_deinit(void *data) {
  state *s = data;
  free(s->out);
  free(s);
}
