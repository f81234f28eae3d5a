/*
 * arena.c: what an arena is opened with, and its books.
 *
 * Attackers: numbers near 2^64, and zeros.
 * Promise: no number wraps; a refused change changes nothing.
 */
#include "nxmem/arena.h"

#include "nxmem/backing.h"
#include "verdict_make.h"

nxmem_verdict nxmem_granule_choose(uint64_t minimum, uint64_t recommended, uint64_t *granule_out) {
  if (!nxmem_is_power_of_two(minimum)) return nx_verdict(NXMEM_REASON_BAD_GRANULARITY, 0u, minimum, 0u);
  if (!nxmem_is_power_of_two(recommended)) return nx_verdict(NXMEM_REASON_BAD_GRANULARITY, 0u, recommended, 1u);
  if (minimum < NXMEM_GRANULE_MIN) return nx_verdict(NXMEM_REASON_BAD_GRANULARITY, 0u, minimum, NXMEM_GRANULE_MIN);
  if (minimum > NXMEM_GRANULE_MAX) return nx_verdict(NXMEM_REASON_BAD_GRANULARITY, 0u, minimum, NXMEM_GRANULE_MAX);
  const int taken = recommended % minimum == 0u && recommended <= NXMEM_GRANULE_MAX;
  *granule_out = taken ? recommended : minimum;
  return nx_accept();
}

/*@ assigns \nothing;
    ensures exact: \result == NX_LARGER(a, b); */
static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/*@ assigns \nothing;
    ensures exact: \result == NX_AT_MOST_ALL(a * b); */
static uint64_t times(uint64_t a, uint64_t b) { return b != 0u && a > UINT64_MAX / b ? UINT64_MAX : a * b; }

nxmem_verdict nxmem_ladder_start(uint64_t memory_bytes, uint64_t multiple, uint64_t floor_bytes, uint64_t minimum_bytes,
                                 uint64_t granule, nxmem_ladder *out) {
  if (minimum_bytes < granule) return nx_verdict(NXMEM_REASON_NO_RUNG, 0u, minimum_bytes, granule);
  const uint64_t most = larger(times(memory_bytes, multiple), floor_bytes);
  out->rung = nxmem_round_down(larger(most, minimum_bytes), granule);
  out->minimum = nxmem_round_down(minimum_bytes, granule);
  return nx_accept();
}

nxmem_verdict nxmem_ladder_next(nxmem_ladder *ladder, uint64_t granule) {
  if (ladder->rung <= ladder->minimum) return nx_verdict(NXMEM_REASON_NO_RUNG, 0u, ladder->rung, ladder->minimum);
  ladder->rung = larger(nxmem_round_down(ladder->rung / 2u, granule), ladder->minimum);
  return nx_accept();
}

int nxmem_pool_may_keep(uint64_t pool_bytes, uint64_t granule, uint64_t bound) {
  return pool_bytes <= bound && granule <= bound - pool_bytes;
}

int nxmem_total_subtract(uint64_t total, uint64_t bytes, uint64_t *total_out) {
  if (bytes > total) return 0;
  *total_out = total - bytes;
  return 1;
}

uint64_t nxmem_peak(uint64_t peak, uint64_t now) { return larger(peak, now); }

nxmem_verdict nxmem_check_not_queued(uint64_t queued) {
  if (queued != 0u) return nx_verdict(NXMEM_REASON_IN_USE, 0u, queued, 0u);
  return nx_accept();
}

nxmem_verdict nxmem_prefix_use_retain(nxmem_prefix_use *use) {
  if (use->handles == 0u) return nx_verdict(NXMEM_REASON_NO_REFERENCE, 0u, 0u, 1u);
  if (use->handles == UINT64_MAX) return nx_verdict(NXMEM_REASON_TOO_MANY_REFERENCES, 0u, use->handles, UINT64_MAX);
  use->handles++;
  return nx_accept();
}

nxmem_verdict nxmem_prefix_use_release(nxmem_prefix_use *use) {
  if (use->handles == 0u) return nx_verdict(NXMEM_REASON_NO_REFERENCE, 0u, 0u, 1u);
  use->handles--;
  return nx_accept();
}

nxmem_verdict nxmem_prefix_view(nxmem_prefix_use *use) {
  if (use->handles == 0u) return nx_verdict(NXMEM_REASON_NO_REFERENCE, 0u, 0u, 1u);
  if (use->mappings == UINT64_MAX) return nx_verdict(NXMEM_REASON_TOO_MANY_REFERENCES, 0u, use->mappings, UINT64_MAX);
  use->mappings++;
  return nx_accept();
}

nxmem_verdict nxmem_prefix_unview(nxmem_prefix_use *use) {
  if (use->mappings == 0u) return nx_verdict(NXMEM_REASON_NOT_MAPPED, 0u, 0u, 1u);
  use->mappings--;
  return nx_accept();
}

int nxmem_prefix_is_gone(const nxmem_prefix_use *use) { return use->handles == 0u && use->mappings == 0u; }
