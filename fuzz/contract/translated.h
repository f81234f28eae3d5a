/*
 * translated.h: what the translated code calls, so that its compiler sees through it: checks, validity, the
 * behaviours assumed. Names and types are the translator's (Frama-C 25).
 * Attackers: none beyond the inputs of the target.
 * Promise: a false clause ends the process; what costs time costs it there.
 */
#ifndef NX_CONTRACT_TRANSLATED_H
#define NX_CONTRACT_TRANSLATED_H

#include <stddef.h>
#include <stdint.h>

#include "numbers.h"
#include "runtime.h"

/* ---- Checks --------------------------------------------------------------------------------------------------- */

/* Where a clause is false. Does not return. */
_Noreturn void contract_false(const contract_violation *violation);

#define CONTRACT_CHECK(holds, function, clause, kind, text)                       \
  do {                                                                            \
    if (CONTRACT_RARELY(!(holds))) {                                              \
      static const contract_violation violation = {function, clause, kind, text}; \
      contract_false(&violation);                                                 \
    }                                                                             \
  } while (0)

/* Whether a call of a function of sampled.txt goes unchecked. */
int contract_leaves_out(uint64_t size);

/* ---- Memory --------------------------------------------------------------------------------------------------- */

int contract_reachable(const void *at, size_t bytes);

#ifdef __x86_64__
/*
 * AddressSanitizer's shadow of the upper half of memory, where heap, stack and globals are: a byte for each eight, 0
 * where all of them may be touched, else how many of the first. runtime.c compares the place with the sanitizer's.
 */
#define CONTRACT_SHADOW ((uintptr_t)0x7FFF8000u)
#define CONTRACT_UPPER ((uintptr_t)0x10007FFF8000u)
#define CONTRACT_UPPER_END ((uintptr_t)0x7FFFFFFFF000u)

CONTRACT_INLINE int contract_is_upper(uintptr_t at) {
  return at - CONTRACT_UPPER < CONTRACT_UPPER_END - CONTRACT_UPPER;
}

/* Whether an eight may be touched up to the byte at `last`. */
CONTRACT_INLINE int contract_is_open_up_to(uintptr_t last) {
  const int8_t most = ((const int8_t *)CONTRACT_SHADOW)[last >> 3];
  return most == 0 || (int)(last & 7u) < most;
}

/* For one to eight bytes; 0 is no answer. */
CONTRACT_INLINE int contract_surely_reachable(const void *at, size_t bytes) {
  const uintptr_t first = (uintptr_t)at;
  const uintptr_t last = first + bytes - 1u;
  if (bytes - 1u >= 8u || !contract_is_upper(first)) return 0;
  return contract_is_open_up_to(last) && (first >> 3 == last >> 3 || contract_is_open_up_to(first | 7u));
}
#else
CONTRACT_INLINE int contract_surely_reachable(const void *at, size_t bytes) { return 0 * (at == NULL) * (bytes == 0); }
#endif

CONTRACT_INLINE int __e_acsl_valid_read(void *at, size_t bytes, void *base, void *base_address) {
  (void)base;
  (void)base_address;
  return contract_surely_reachable(at, bytes) || contract_reachable(at, bytes);
}

CONTRACT_INLINE int __e_acsl_valid(void *at, size_t bytes, void *base, void *base_address) {
  return __e_acsl_valid_read(at, bytes, base, base_address);
}

typedef struct contract_block {
  const void *at;
  size_t bytes;
} contract_block;

CONTRACT_INLINE int contract_separated(size_t count, const contract_block *blocks) {
  for (size_t i = 0; i < count; i++)
    for (size_t j = i + 1; j < count; j++)
      if ((uintptr_t)blocks[i].at < (uintptr_t)blocks[j].at + blocks[j].bytes &&
          (uintptr_t)blocks[j].at < (uintptr_t)blocks[i].at + blocks[i].bytes)
        return 0;
  return 1;
}

/* `count` pairs of address and size. */
#define __e_acsl_separated(count, ...) contract_separated(count, (const contract_block[]){__VA_ARGS__})

/* ---- Behaviours: which of a contract's are assumed in this call ------------------------------------------------ */

enum { CONTRACT_BEHAVIORS_MAX = 64 };

struct __e_acsl_contract_t {
  uint64_t assumed; /* a bit each */
};

CONTRACT_INLINE struct __e_acsl_contract_t *contract_none_assumed(struct __e_acsl_contract_t *contract, size_t count) {
  if (count > CONTRACT_BEHAVIORS_MAX) __builtin_trap();
  contract->assumed = 0;
  return contract;
}

/* Lives as long as the call of the wrapper. */
#define __e_acsl_contract_init(count) contract_none_assumed(__builtin_alloca(sizeof(struct __e_acsl_contract_t)), count)
#define __e_acsl_contract_clean(contract) ((void)(contract))

CONTRACT_INLINE void __e_acsl_contract_set_behavior_assumes(struct __e_acsl_contract_t *contract, size_t i,
                                                            int assumed) {
  contract->assumed |= (uint64_t)(assumed != 0) << i;
}

CONTRACT_INLINE int __e_acsl_contract_get_behavior_assumes(const struct __e_acsl_contract_t *contract, size_t i) {
  return (int)(contract->assumed >> i & 1u);
}

/* 0, 1, or 2 for more. */
CONTRACT_INLINE int __e_acsl_contract_partial_count_all_behaviors(const struct __e_acsl_contract_t *contract) {
  if ((contract->assumed & (contract->assumed - 1u)) != 0) return 2;
  return contract->assumed != 0;
}

int __e_acsl_contract_partial_count_behaviors(const struct __e_acsl_contract_t *contract, size_t count, ...);

#endif /* NX_CONTRACT_TRANSLATED_H */
