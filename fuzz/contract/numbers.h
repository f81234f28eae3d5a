/*
 * numbers.h: the whole numbers of translated contracts.
 * Attackers: none beyond the inputs of the target.
 * Promise: as exact as GMP's functions of the same names: a number that 128 bits do not hold is GMP's.
 */
#ifndef NX_CONTRACT_NUMBERS_H
#define NX_CONTRACT_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

/* Neither checked nor counted, as the wrappers themselves are: a compiler inlines only what is equal in that. */
#define CONTRACT_PLAIN __attribute__((no_sanitize("address", "undefined", "coverage")))
#ifdef __OPTIMIZE__
#define CONTRACT_INLINE static inline __attribute__((always_inline, unused)) CONTRACT_PLAIN
#else /* nothing is gained by it, and a file takes three times as long */
#define CONTRACT_INLINE static __attribute__((unused)) CONTRACT_PLAIN
#endif
#define CONTRACT_RARELY(it) __builtin_expect(!!(it), 0)

typedef struct contract_wide contract_wide;

/* What 128 bits hold is in `small`; anything else is GMP's, and `wide` says where until the target's next call. */
struct __e_acsl_mpz_struct {
  __int128 small;
  contract_wide *wide; /* NULL: small */
};
typedef struct __e_acsl_mpz_struct contract_number;

typedef enum contract_operation {
  CONTRACT_ADD,
  CONTRACT_SUB,
  CONTRACT_MUL,
  CONTRACT_QUOTIENT,
  CONTRACT_AND
} contract_operation;
contract_number contract_calculate(contract_operation operation, contract_number a, contract_number b);
contract_number contract_number_of(const char *digits, int base);
int contract_compare(contract_number a, contract_number b);
/* Once, before all; and before each call of the target: no number lives any more. */
void contract_numbers_start(void);
void contract_numbers_forget(void);

/* A number was asked for as a machine's and does not fit. */
_Noreturn void contract_does_not_fit(void);

CONTRACT_INLINE void contract_set_small(contract_number *z, __int128 value) {
  z->small = value;
  z->wide = NULL;
}

CONTRACT_INLINE int contract_is_wide(const contract_number *a, const contract_number *b) {
  return CONTRACT_RARELY(a->wide != NULL || b->wide != NULL);
}

CONTRACT_INLINE void number_init(contract_number z[1]) { contract_set_small(z, 0); }
CONTRACT_INLINE void number_init_set_ui(contract_number z[1], unsigned long value) { contract_set_small(z, value); }
CONTRACT_INLINE void number_init_set_si(contract_number z[1], long value) { contract_set_small(z, value); }
CONTRACT_INLINE void number_init_set(contract_number z[1], const contract_number a[1]) { *z = *a; }
CONTRACT_INLINE void number_set(contract_number z[1], const contract_number a[1]) { *z = *a; }
CONTRACT_INLINE void number_clear(contract_number z[1]) { (void)z; }
CONTRACT_INLINE int number_init_set_str(contract_number z[1], const char *digits, int base) {
  *z = contract_number_of(digits, base);
  return 0;
}

CONTRACT_INLINE int number_cmp(const contract_number a[1], const contract_number b[1]) {
  if (contract_is_wide(a, b)) return contract_compare(*a, *b);
  return (a->small > b->small) - (a->small < b->small);
}

CONTRACT_INLINE void number_add(contract_number z[1], const contract_number a[1], const contract_number b[1]) {
  __int128 sum;
  if (contract_is_wide(a, b) || CONTRACT_RARELY(__builtin_add_overflow(a->small, b->small, &sum)))
    *z = contract_calculate(CONTRACT_ADD, *a, *b);
  else
    contract_set_small(z, sum);
}

CONTRACT_INLINE void number_sub(contract_number z[1], const contract_number a[1], const contract_number b[1]) {
  __int128 difference;
  if (contract_is_wide(a, b) || CONTRACT_RARELY(__builtin_sub_overflow(a->small, b->small, &difference)))
    *z = contract_calculate(CONTRACT_SUB, *a, *b);
  else
    contract_set_small(z, difference);
}

CONTRACT_INLINE int contract_is_word(__int128 value) { return (unsigned __int128)value <= UINT64_MAX; }

/* Quick for two words whose product is below 2^127. */
CONTRACT_INLINE void number_mul(contract_number z[1], const contract_number a[1], const contract_number b[1]) {
  const int words = contract_is_word(a->small) && contract_is_word(b->small);
  const unsigned __int128 product = (unsigned __int128)(uint64_t)a->small * (uint64_t)b->small;
  if (contract_is_wide(a, b) || CONTRACT_RARELY(!words || (__int128)product < 0))
    *z = contract_calculate(CONTRACT_MUL, *a, *b);
  else
    contract_set_small(z, (__int128)product);
}

/* Towards zero. */
CONTRACT_INLINE void number_tdiv_q(contract_number z[1], const contract_number a[1], const contract_number b[1]) {
  if (contract_is_wide(a, b) || CONTRACT_RARELY(b->small <= 0))
    *z = contract_calculate(CONTRACT_QUOTIENT, *a, *b);
  else if (contract_is_word(a->small) && contract_is_word(b->small))
    contract_set_small(z, (uint64_t)a->small / (uint64_t)b->small);
  else
    contract_set_small(z, a->small / b->small);
}

CONTRACT_INLINE void number_and(contract_number z[1], const contract_number a[1], const contract_number b[1]) {
  if (contract_is_wide(a, b))
    *z = contract_calculate(CONTRACT_AND, *a, *b);
  else
    contract_set_small(z, a->small & b->small);
}

/* The translator asks only for what it has found, or made sure, to fit. */
CONTRACT_INLINE unsigned long number_get_ui(const contract_number a[1]) {
  if (CONTRACT_RARELY(a->wide != NULL || !contract_is_word(a->small))) contract_does_not_fit();
  return (unsigned long)a->small;
}

CONTRACT_INLINE long number_get_si(const contract_number a[1]) {
  if (CONTRACT_RARELY(a->wide != NULL || (long)a->small != a->small)) contract_does_not_fit();
  return (long)a->small;
}

#endif /* NX_CONTRACT_NUMBERS_H */
