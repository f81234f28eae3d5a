/*
 * support.h: what the Eva drivers share: values that may be anything, and memory at addresses that Eva can count with.
 *
 * Attackers: none; never compiled, only analysed.
 * Promise: nothing here narrows what a driver calls its entry point with.
 */
#ifndef NXMEM_EVA_SUPPORT_H
#define NXMEM_EVA_SUPPORT_H

#include <stddef.h>
#include <stdint.h>

/* Each read of a volatile yields any value. */
extern volatile uint8_t any8;
extern volatile uint32_t any32;
extern volatile uint64_t any64;

#ifndef NXMEM_QUIET_WORLD
/* The ledger of loads.h, empty before the one call that a driver makes on each path. */
/*@ ghost int nx_loads[512]; */
#endif

/* Any bytes, all of them initialised. */
static inline void eva_fill(void *to, size_t size_bytes) {
  uint8_t *bytes = to;
  for (size_t i = 0u; i < size_bytes; i++) bytes[i] = any8;
}

/* Each number from low to high, each on a path of its own, so that sizes and offsets computed from it stay exact. */
static inline uint32_t eva_each(uint32_t low, uint32_t high) {
  uint32_t n = low;
  while (n < high && any32 != 0u) n++;
  return n;
}

/*
 * Tables and requests: the readers look at an address's remainder, which Eva knows of numbers only. So the memory they
 * may read is a range of absolute addresses, and a block of n bytes is its last n. A driver named ..__size_only has a
 * range of its own, of 4 bytes: no aligned block of 4 ends where the larger ones end. check.py declares both.
 */
enum { EVA_END = 0x1080, EVA_SIZE_ONLY = 0x2000 };
static inline uintptr_t eva_block(uint32_t size_bytes) {
  eva_fill((void *)(uintptr_t)(EVA_END - size_bytes), size_bytes);
  return EVA_END - size_bytes;
}

/* Every address that is not a multiple of 8, one path for each remainder; nothing may be read there. */
static inline uintptr_t eva_misaligned(void) {
  const uint64_t remainder = eva_each(1u, 7u);
  const uint64_t eighth = any64;
  return eighth <= 0x1FFFFFFFFFFFFFFFu ? eighth * 8u + remainder : remainder;
}

/* 64-bit numbers around every bound that the core knows, each on a path of its own. */
static inline uint64_t eva_bound(void) {
  static const uint64_t bounds[] = {0u,
                                    1u,
                                    4095u,
                                    4096u,
                                    0xFFFFFFFFu,
                                    0x100000000u,
                                    0x7FFFFFFFFFFFFFFFu,
                                    0x8000000000000000u,
                                    0xFFFFFFFFFFFFFFFEu,
                                    0xFFFFFFFFFFFFFFFFu};
  return bounds[eva_each(0u, sizeof(bounds) / sizeof(bounds[0]) - 1u)];
}

#endif /* NXMEM_EVA_SUPPORT_H */
