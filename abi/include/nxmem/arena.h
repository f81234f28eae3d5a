/*
 * arena.h: what an arena is opened with, and its books: granularity, reservation ladder, pool, totals, shared prefixes.
 *
 * Attackers: a device that reports granularities that are none, options that fit no device, releases that come twice.
 * Promise: nothing that was refused is replaced by a guess; no total goes below 0; the bytes of a prefix go exactly when
 * its last handle and its last mapping are gone, in either order.
 */
#ifndef NXMEM_ARENA_H
#define NXMEM_ARENA_H

#include "nxmem/count.h"
#include "nxmem/range.h"
#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The size of a granule: what the device recommends where that is a multiple of its minimum, else the minimum.
 * BAD_GRANULARITY, found: the number that is 0 or no power of two, the minimum before the recommended one; needed: 0
 * for the minimum, 1 for the recommended one. Also where the minimum is below NXMEM_GRANULE_MIN or above NXMEM_GRANULE_MAX:
 * found it, needed that; a recommended one above it is not taken. A page is the least that anything maps, and books of
 * anything less would be larger than what they are about.
 */
#define NXMEM_GRANULE_MIN 0x1000ull

/*@ requires out_writable: \valid(granule_out);
    assigns *granule_out;
    behavior bad_minimum:
      assumes not_a_power: !NX_POWER_OF_TWO(minimum);
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_BAD_GRANULARITY, 0, minimum, 0);
    behavior bad_recommended:
      assumes power: NX_POWER_OF_TWO(minimum);
      assumes not_a_power: !NX_POWER_OF_TWO(recommended);
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_BAD_GRANULARITY, 0, recommended, 1);
    behavior too_small:
      assumes powers: NX_POWER_OF_TWO(minimum) && NX_POWER_OF_TWO(recommended);
      assumes below: minimum < 0x1000;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_BAD_GRANULARITY, 0, minimum, 0x1000);
    behavior too_large:
      assumes powers: NX_POWER_OF_TWO(minimum) && NX_POWER_OF_TWO(recommended);
      assumes above: minimum > 0x40000000;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_BAD_GRANULARITY, 0, minimum, 0x40000000);
    behavior chosen:
      assumes powers: NX_POWER_OF_TWO(minimum) && NX_POWER_OF_TWO(recommended);
      assumes between: 0x1000 <= minimum <= 0x40000000;
      ensures accepted: NX_ACCEPTED(\result);
      ensures exact: *granule_out ==
                     (recommended % minimum == 0 && recommended <= 0x40000000 ? recommended : minimum);
      ensures power: NX_POWER_OF_TWO(*granule_out);
      ensures within: minimum <= *granule_out <= 0x40000000;
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_granule_choose(uint64_t minimum, uint64_t recommended, uint64_t *granule_out);

/* Rungs of a reservation, from the highest down: bytes, multiples of the granule. */
typedef struct nxmem_ladder {
  uint64_t rung;    /* to be tried now */
  uint64_t minimum; /* the last one */
} nxmem_ladder;

#ifdef __FRAMAC__
/* clang-format off */
#define NX_LARGER(a, b) ((a) > (b) ? (a) : (b))
#define NX_AT_MOST_ALL(n) ((n) <= 0xFFFFFFFFFFFFFFFF ? (n) : 0xFFFFFFFFFFFFFFFF)
#define NX_HIGHEST_RUNG(memory, multiple, floor, least) \
  NX_LARGER(NX_LARGER(NX_AT_MOST_ALL((memory) * (multiple)), floor), least)
#define NX_LADDER_VALID(l) (0 < (l)->minimum <= (l)->rung)
/* clang-format on */
#endif
/*
 * The first rung: `multiple` times the device's memory, or the floor where that is more, or the minimum where that is.
 * Both are rounded down to granules. NO_RUNG where the minimum holds no granule: found: it, needed: the granule.
 */
/*@ requires granule: granule != 0;
    requires out_writable: \valid(out);
    assigns *out;
    behavior too_small:
      assumes no_granule: minimum_bytes < granule;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NO_RUNG, 0, minimum_bytes, granule);
    behavior started:
      assumes granules: minimum_bytes >= granule;
      ensures accepted: NX_ACCEPTED(\result);
      ensures first: out->rung ==
                     NX_ROUNDED_DOWN(NX_HIGHEST_RUNG(memory_bytes, multiple, floor_bytes, minimum_bytes), granule);
      ensures last: out->minimum == NX_ROUNDED_DOWN(minimum_bytes, granule);
      ensures ladder_valid: NX_LADDER_VALID(out);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_ladder_start(uint64_t memory_bytes, uint64_t multiple, uint64_t floor_bytes, uint64_t minimum_bytes,
                                 uint64_t granule, nxmem_ladder *out);

/* The next rung: half of this one, at least the minimum. NO_RUNG, and nothing changed, behind the last. */
/*@ requires granule: granule != 0;
    requires writable: \valid(ladder);
    requires ladder_valid: NX_LADDER_VALID(ladder);
    assigns ladder->rung;
    ensures stays_valid: NX_LADDER_VALID(ladder);
    behavior next:
      assumes more: ladder->rung > ladder->minimum;
      ensures accepted: NX_ACCEPTED(\result);
      ensures half: ladder->rung == NX_LARGER(NX_ROUNDED_DOWN(\old(ladder->rung) / 2, granule), ladder->minimum);
      ensures lower: ladder->rung < \old(ladder->rung);
    behavior last:
      assumes no_more: ladder->rung <= ladder->minimum;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NO_RUNG, 0, ladder->rung, ladder->minimum);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_ladder_next(nxmem_ladder *ladder, uint64_t granule);

/* 1 where a handle of `granule` bytes may be kept in a pool of `pool_bytes` under its bound; a bound of 0: never. */
/*@ requires granule: granule != 0;
    assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> pool_bytes + granule <= bound; */
int nxmem_pool_may_keep(uint64_t pool_bytes, uint64_t granule, uint64_t bound);

/* Take bytes off a total: 1 and what is left in *total_out, or 0 and nothing written where it holds fewer. Adding: count.h. */
/*@ requires out_writable: \valid(total_out);
    assigns *total_out;
    behavior held:
      assumes enough: bytes <= total;
      ensures subtracted: \result == 1;
      ensures rest: *total_out == total - bytes;
    behavior below_zero:
      assumes too_few: bytes > total;
      assigns \nothing;
      ensures refused: \result == 0;
    complete behaviors;
    disjoint behaviors; */
int nxmem_total_subtract(uint64_t total, uint64_t bytes, uint64_t *total_out);

/* The higher of both. */
/*@ assigns \nothing;
    ensures exact: \result == NX_LARGER(peak, now); */
uint64_t nxmem_peak(uint64_t peak, uint64_t now);

/* May a span be unmapped? IN_USE (BUSY) while releases of it are queued, found: how many. */
/*@ assigns \nothing;
    behavior none:
      assumes no_release: queued == 0;
      ensures accepted: NX_ACCEPTED(\result);
    behavior some:
      assumes releases: queued != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_IN_USE, 0, queued, 0);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_not_queued(uint64_t queued);

/* Who keeps the bytes of a shared prefix. All zero: gone. */
typedef struct nxmem_prefix_use {
  uint64_t handles;  /* references that were handed out and not given back */
  uint64_t mappings; /* the owner's counts too */
} nxmem_prefix_use;

/* One handle more. NO_REFERENCE where the last was given back; TOO_MANY_REFERENCES. */
/*@ requires writable: \valid(use);
    assigns use->handles;
    behavior gone:
      assumes none: use->handles == 0;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NO_REFERENCE, 0, 0, 1);
    behavior full:
      assumes some: use->handles != 0;
      assumes highest: use->handles == 0xFFFFFFFFFFFFFFFF;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TOO_MANY_REFERENCES, 0, 0xFFFFFFFFFFFFFFFF,
                                     0xFFFFFFFFFFFFFFFF);
    behavior kept:
      assumes some: use->handles != 0;
      assumes room: use->handles < 0xFFFFFFFFFFFFFFFF;
      ensures accepted: NX_ACCEPTED(\result);
      ensures one_more: use->handles == \old(use->handles) + 1;
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_prefix_use_retain(nxmem_prefix_use *use);
/* One fewer. NO_REFERENCE. */
/*@ requires writable: \valid(use);
    assigns use->handles;
    behavior underflow:
      assumes none: use->handles == 0;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NO_REFERENCE, 0, 0, 1);
    behavior fewer:
      assumes some: use->handles != 0;
      ensures accepted: NX_ACCEPTED(\result);
      ensures one_fewer: use->handles == \old(use->handles) - 1;
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_prefix_use_release(nxmem_prefix_use *use);
/* One mapping more: only while there is a handle. NO_REFERENCE; TOO_MANY_REFERENCES. */
/*@ requires writable: \valid(use);
    assigns use->mappings;
    behavior gone:
      assumes none: use->handles == 0;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NO_REFERENCE, 0, 0, 1);
    behavior full:
      assumes some: use->handles != 0;
      assumes highest: use->mappings == 0xFFFFFFFFFFFFFFFF;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TOO_MANY_REFERENCES, 0, 0xFFFFFFFFFFFFFFFF,
                                     0xFFFFFFFFFFFFFFFF);
    behavior kept:
      assumes some: use->handles != 0;
      assumes room: use->mappings < 0xFFFFFFFFFFFFFFFF;
      ensures accepted: NX_ACCEPTED(\result);
      ensures one_more: use->mappings == \old(use->mappings) + 1;
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_prefix_view(nxmem_prefix_use *use);
/* One fewer. NOT_MAPPED. */
/*@ requires writable: \valid(use);
    assigns use->mappings;
    behavior underflow:
      assumes none: use->mappings == 0;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NOT_MAPPED, 0, 0, 1);
    behavior fewer:
      assumes some: use->mappings != 0;
      ensures accepted: NX_ACCEPTED(\result);
      ensures one_fewer: use->mappings == \old(use->mappings) - 1;
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_prefix_unview(nxmem_prefix_use *use);
/* 1 where no handle and no mapping is left: its bytes go now. */
/*@ requires readable: \valid_read(use);
    assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> use->handles == 0 && use->mappings == 0; */
int nxmem_prefix_is_gone(const nxmem_prefix_use *use);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_ARENA_H */
