/*
 * numbers_check.c: are the whole numbers of translated contracts GMP's? TAP.
 * Attackers: none.
 * Promise: each operation on each pair of numbers around the ends of 32, 64, 128 and more bits is compared.
 */
#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

enum { DIGITS_MAX = 128, VALUES_MAX = 256 };

static char values[VALUES_MAX][DIGITS_MAX];
static size_t count;

static void add_value(const mpz_t value) { mpz_get_str(values[count++], 10, value); }

/* 0, and what lies around each power, below zero too. */
static void make_values(void) {
  static const unsigned powers[] = {0, 1, 8, 31, 32, 62, 63, 64, 65, 126, 127, 128, 129, 200};
  mpz_t value;
  for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++)
    for (int beside = -1; beside <= 1; beside++) {
      mpz_init(value);
      mpz_setbit(value, powers[i]);
      if (beside < 0) mpz_sub_ui(value, value, 1);
      if (beside > 0) mpz_add_ui(value, value, 1);
      add_value(value);
      mpz_neg(value, value);
      add_value(value);
      contract_numbers_forget();
    }
}

static int fits(const mpz_t value) { return mpz_sizeinbase(value, 2) <= 127; }

/* What fits 127 bits and a sign must be small. */
static int is_same(const contract_number *found, const mpz_t expected) {
  char digits[DIGITS_MAX];
  contract_number same;
  if (fits(expected)) {
    mpz_t back;
    const unsigned __int128 size =
        found->small < 0 ? -(unsigned __int128)found->small : (unsigned __int128)found->small;
    if (found->wide != NULL) return 0;
    mpz_init_set_ui(back, (unsigned long)(size >> 64));
    mpz_mul_2exp(back, back, 64);
    mpz_add_ui(back, back, (unsigned long)size);
    if (found->small < 0) mpz_neg(back, back);
    return mpz_cmp(back, expected) == 0;
  }
  mpz_get_str(digits, 10, expected);
  number_init_set_str(&same, digits, 10);
  return number_cmp(found, &same) == 0;
}

typedef struct operation {
  const char *name;
  void (*ours)(contract_number *z, const contract_number *a, const contract_number *b);
  void (*theirs)(mpz_ptr z, mpz_srcptr a, mpz_srcptr b);
} operation;

static void ours_add(contract_number *z, const contract_number *a, const contract_number *b) { number_add(z, a, b); }
static void ours_sub(contract_number *z, const contract_number *a, const contract_number *b) { number_sub(z, a, b); }
static void ours_mul(contract_number *z, const contract_number *a, const contract_number *b) { number_mul(z, a, b); }
static void ours_and(contract_number *z, const contract_number *a, const contract_number *b) { number_and(z, a, b); }
static void ours_quotient(contract_number *z, const contract_number *a, const contract_number *b) {
  number_tdiv_q(z, a, b);
}

static const operation operations[] = {{"sum", ours_add, mpz_add},
                                       {"difference", ours_sub, mpz_sub},
                                       {"product", ours_mul, mpz_mul},
                                       {"quotient", ours_quotient, mpz_tdiv_q},
                                       {"bits of both", ours_and, mpz_and}};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static int sign(int number) { return (number > 0) - (number < 0); }

static int pair_is_same(const operation *does, const char *a, const char *b) {
  contract_number left, right, found;
  mpz_t first, second, expected;
  contract_numbers_forget();
  number_init_set_str(&left, a, 10);
  number_init_set_str(&right, b, 10);
  mpz_init_set_str(first, a, 10);
  mpz_init_set_str(second, b, 10);
  mpz_init(expected);
  if (does == NULL) return sign(number_cmp(&left, &right)) == sign(mpz_cmp(first, second));
  if (does->theirs == mpz_tdiv_q && mpz_sgn(second) == 0) return 1;
  does->ours(&found, &left, &right);
  does->theirs(expected, first, second);
  return is_same(&found, expected);
}

static int check(int number, const char *name, const operation *does) {
  size_t wrong = 0;
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < count; j++) {
      if (pair_is_same(does, values[i], values[j])) continue;
      if (wrong++ < 5) printf("# of %s and %s\n", values[i], values[j]);
    }
  printf("%s %d - %s of %zu pairs\n", wrong == 0 ? "ok" : "not ok", number, name, count * count);
  return wrong != 0;
}

int main(void) {
  int failed = 0;
  contract_numbers_start();
  make_values();
  printf("1..%d\n", OPERATIONS + 1);
  for (int i = 0; i < OPERATIONS; i++) failed |= check(i + 1, operations[i].name, &operations[i]);
  failed |= check(OPERATIONS + 1, "order", NULL);
  return failed;
}
