/*
 * count.c: counters and totals.
 *
 * Attackers: numbers near 2^64, one violation after another.
 * Promise: no sum wraps; a total that would grow too large is left as it is.
 */
#include "nxmem/count.h"

uint64_t nxmem_count_add(uint64_t count, uint64_t amount) {
  return count > UINT64_MAX - amount ? UINT64_MAX : count + amount;
}

uint64_t nxmem_count_up(uint64_t count) { return nxmem_count_add(count, 1u); }

int nxmem_total_add(uint64_t total, uint64_t bytes, uint64_t *total_out) {
  if (bytes > NXMEM_TOTAL_MAX - total) return 0;
  *total_out = total + bytes;
  return 1;
}
