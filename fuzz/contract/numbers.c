/*
 * numbers.c: whole numbers of contracts that 128 bits do not hold, by GMP.
 * Attackers: none beyond the inputs of the target.
 * Promise: exact, or the process ends and says why; nothing is kept from one call of the target to the next.
 */
#include "numbers.h"

#include <gmp.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct contract_wide {
  mpz_t value;
};

/* ---- Memory: one after the other, all given back at once ------------------------------------------------------- */

enum { ARENA_BYTES = 1 << 22 };

static alignas(max_align_t) uint8_t arena[ARENA_BYTES];
static size_t used;

_Noreturn static void give_up(const char *why) {
  fprintf(stderr, "DRIVER number: %s\n", why);
  _Exit(3);
}

static void *take(size_t bytes) {
  const size_t step = (bytes + alignof(max_align_t) - 1u) / alignof(max_align_t) * alignof(max_align_t);
  if (step < bytes || step > ARENA_BYTES - used) give_up("no memory left for wide numbers in one call");
  void *block = arena + used;
  used += step;
  return block;
}

static void *take_more(void *block, size_t bytes, size_t wanted) {
  void *fresh = take(wanted);
  memcpy(fresh, block, bytes < wanted ? bytes : wanted);
  return fresh;
}

static void keep(void *block, size_t bytes) {
  (void)block;
  (void)bytes;
}

void contract_numbers_start(void) { mp_set_memory_functions(take, take_more, keep); }

void contract_numbers_forget(void) { used = 0; }

/* ---- From and to what the translated code has ------------------------------------------------------------------ */

static contract_wide *widened(contract_number a) {
  if (a.wide != NULL) return a.wide;
  contract_wide *wide = take(sizeof *wide);
  const unsigned __int128 size = a.small < 0 ? -(unsigned __int128)a.small : (unsigned __int128)a.small;
  const uint64_t words[2] = {(uint64_t)size, (uint64_t)(size >> 64)};
  mpz_init(wide->value);
  mpz_import(wide->value, 2, -1, sizeof words[0], 0, 0, words);
  if (a.small < 0) mpz_neg(wide->value, wide->value);
  return wide;
}

static contract_number narrowed(contract_wide *wide) {
  contract_number number = {0, wide};
  uint64_t words[2] = {0, 0};
  if (mpz_sizeinbase(wide->value, 2) > 127) return number;
  mpz_export(words, NULL, -1, sizeof words[0], 0, 0, wide->value);
  const __int128 size = (__int128)((unsigned __int128)words[1] << 64 | words[0]);
  number.small = mpz_sgn(wide->value) < 0 ? -size : size;
  number.wide = NULL;
  return number;
}

/* ---- What the translated code asks for ------------------------------------------------------------------------- */

contract_number contract_calculate(contract_operation operation, contract_number a, contract_number b) {
  const contract_wide *left = widened(a);
  const contract_wide *right = widened(b);
  contract_wide *result = take(sizeof *result);
  mpz_init(result->value);
  switch (operation) {
    case CONTRACT_ADD:
      mpz_add(result->value, left->value, right->value);
      break;
    case CONTRACT_SUB:
      mpz_sub(result->value, left->value, right->value);
      break;
    case CONTRACT_MUL:
      mpz_mul(result->value, left->value, right->value);
      break;
    case CONTRACT_QUOTIENT:
      mpz_tdiv_q(result->value, left->value, right->value);
      break;
    case CONTRACT_AND:
      mpz_and(result->value, left->value, right->value);
      break;
  }
  return narrowed(result);
}

contract_number contract_number_of(const char *digits, int base) {
  contract_wide *wide = take(sizeof *wide);
  if (mpz_init_set_str(wide->value, digits, base) != 0) give_up("no number in the translation");
  return narrowed(wide);
}

int contract_compare(contract_number a, contract_number b) { return mpz_cmp(widened(a)->value, widened(b)->value); }

void contract_does_not_fit(void) { give_up("a number of a contract does not fit the type that it is asked for in"); }
