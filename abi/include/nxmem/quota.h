/*
 * quota.h: the books of a process: what an authority may use, in three axes that are never inferred from one another.
 *
 * Attackers: a plugin that answers with more bytes than were reserved, or hands back more than it got; callers on many
 * threads whose sums are near a limit.
 * Promise: what is granted keeps within every limit to the byte; what is given back never takes a figure below zero;
 * each result is exact, axis by axis.
 *
 * An authority takes bytes: reserved, in use, or drawn ahead by a thread as room. Its budget caps what it takes. A
 * process limit caps what all authorities of a tier take. An authority may once be delegated a slice of that limit: it
 * is set aside for it as a whole, and caps what it takes as well. A limit that is lowered adopts what is taken already:
 * nothing more is granted until that is below it again.
 */
#ifndef NXMEM_QUOTA_H
#define NXMEM_QUOTA_H

#include "nxmem/count.h"
#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes by axis. */
typedef struct nxmem_axes {
  uint64_t charged;  /* what the owner is billed for */
  uint64_t physical; /* what memory of the device it takes */
  uint64_t mapped;   /* what address space has pages behind it */
} nxmem_axes;

/* The axes by number: what nxmem_verdict.field names. */
typedef enum nxmem_quota_axis {
  NXMEM_QUOTA_CHARGED = 0,
  NXMEM_QUOTA_PHYSICAL = 1,
  NXMEM_QUOTA_MAPPED = 2
} nxmem_quota_axis;

/* All that a decision about one authority looks at, as it is at one moment. */
typedef struct nxmem_quota {
  nxmem_axes taken;       /* by the authority */
  nxmem_axes budget;      /* the most that it may take */
  nxmem_axes slice;       /* of the process limit; looked at where delegated is not 0 */
  nxmem_axes tier_taken;  /* by all authorities of its tier */
  nxmem_axes tier_shares; /* the same, with each slice as a whole (nxmem_quota_share) */
  nxmem_axes tier_limit;  /* the process limit of the tier */
  uint32_t delegated;     /* not 0: it has a slice */
} nxmem_quota;

#ifdef __FRAMAC__
/* clang-format off */
#define NX_AXES_LEQ(a, b) ((a).charged <= (b).charged && (a).physical <= (b).physical && (a).mapped <= (b).mapped)
#define NX_AXES_WITHIN(a) \
  ((a).charged <= 0x8000000000000000 && (a).physical <= 0x8000000000000000 && (a).mapped <= 0x8000000000000000)
#define NX_SUM_WITHIN(a, b) \
  (NX_FITS((a).charged, (b).charged) && NX_FITS((a).physical, (b).physical) && NX_FITS((a).mapped, (b).mapped))
#define NX_LEFT(taken, limit) ((taken) < (limit) ? (limit) - (taken) : 0)
#define NX_MOST_OF(a, b) ((a) < (b) ? (b) : (a))
#define NX_AXIS_FITS(ask, taken, limit) ((ask) <= NX_LEFT(taken, limit))
/* Each axis of `ask` beside `taken` under `limit`, and the first that has no room. */
#define NX_ASK_FITS(ask, taken, limit) \
  (NX_AXIS_FITS((ask).charged, (taken).charged, (limit).charged) && \
   NX_AXIS_FITS((ask).physical, (taken).physical, (limit).physical) && \
   NX_AXIS_FITS((ask).mapped, (taken).mapped, (limit).mapped))
#define NX_SHORT_CHARGED(v, why, ask, taken, limit) \
  (!NX_AXIS_FITS((ask).charged, (taken).charged, (limit).charged) ==> \
   NX_VERDICT_IS(v, why, NXMEM_QUOTA_CHARGED, (ask).charged, NX_LEFT((taken).charged, (limit).charged)))
#define NX_SHORT_PHYSICAL(v, why, ask, taken, limit) \
  (NX_AXIS_FITS((ask).charged, (taken).charged, (limit).charged) && \
   !NX_AXIS_FITS((ask).physical, (taken).physical, (limit).physical) ==> \
   NX_VERDICT_IS(v, why, NXMEM_QUOTA_PHYSICAL, (ask).physical, NX_LEFT((taken).physical, (limit).physical)))
#define NX_SHORT_MAPPED(v, why, ask, taken, limit) \
  (NX_AXIS_FITS((ask).charged, (taken).charged, (limit).charged) && \
   NX_AXIS_FITS((ask).physical, (taken).physical, (limit).physical) ==> \
   NX_VERDICT_IS(v, why, NXMEM_QUOTA_MAPPED, (ask).mapped, NX_LEFT((taken).mapped, (limit).mapped)))
/* What caps an authority besides its budget: its slice, and what the process has left for it. */
#define NX_SLICE_FITS(q, ask) ((q)->delegated == 0 || NX_ASK_FITS(ask, (q)->taken, (q)->slice))
#define NX_TIER_FITS(q, ask) \
  ((q)->delegated != 0 ? NX_ASK_FITS(ask, (q)->tier_taken, (q)->tier_limit) \
                       : NX_ASK_FITS(ask, (q)->tier_shares, (q)->tier_limit))
#define NX_TIER_LEFT(q, axis) \
  ((q)->delegated != 0 ? NX_LEFT((q)->tier_taken.axis, (q)->tier_limit.axis) \
                       : NX_LEFT((q)->tier_shares.axis, (q)->tier_limit.axis))
#define NX_SLICE_LEFT(q, axis) \
  ((q)->delegated != 0 ? NX_LEFT((q)->taken.axis, (q)->slice.axis) : 0xFFFFFFFFFFFFFFFF)
#define NX_QUOTA_LEFT(q, axis) \
  NX_LEAST(NX_LEAST(NX_LEFT((q)->taken.axis, (q)->budget.axis), NX_SLICE_LEFT(q, axis)), NX_TIER_LEFT(q, axis))
/* What the others of the tier have, beside a slice for this one. */
#define NX_OTHERS(q, axis) NX_LEFT((q)->taken.axis, (q)->tier_shares.axis)
#define NX_SLICE_HAS_ROOM(q, s, axis) ((s)->axis <= NX_LEFT(NX_OTHERS(q, axis), (q)->tier_limit.axis))
#define NX_SLICE_REFUSED(v, q, s, why, number, axis) \
  NX_VERDICT_IS(v, why, number, (s)->axis, NX_LEFT(NX_OTHERS(q, axis), (q)->tier_limit.axis))
/* clang-format on */
#endif

/*
 * May the authority take `ask` more? The first limit that refuses, its axes in their order: OVER_BUDGET, OVER_SLICE,
 * OVER_PROCESS_LIMIT. field: an nxmem_quota_axis; found: what is asked for; needed: at most, what is left.
 */
/*@ requires quota_readable: \valid_read(quota);
    requires ask_readable: \valid_read(ask);
    assigns \nothing;
    behavior over_budget:
      assumes beyond: !NX_ASK_FITS(*ask, quota->taken, quota->budget);
      ensures charged: NX_SHORT_CHARGED(\result, NXMEM_REASON_OVER_BUDGET, *ask, quota->taken, quota->budget);
      ensures physical: NX_SHORT_PHYSICAL(\result, NXMEM_REASON_OVER_BUDGET, *ask, quota->taken, quota->budget);
      ensures mapped: NX_SHORT_MAPPED(\result, NXMEM_REASON_OVER_BUDGET, *ask, quota->taken, quota->budget);
    behavior over_slice:
      assumes before: NX_ASK_FITS(*ask, quota->taken, quota->budget);
      assumes beyond: !NX_SLICE_FITS(quota, *ask);
      ensures charged: NX_SHORT_CHARGED(\result, NXMEM_REASON_OVER_SLICE, *ask, quota->taken, quota->slice);
      ensures physical: NX_SHORT_PHYSICAL(\result, NXMEM_REASON_OVER_SLICE, *ask, quota->taken, quota->slice);
      ensures mapped: NX_SHORT_MAPPED(\result, NXMEM_REASON_OVER_SLICE, *ask, quota->taken, quota->slice);
    behavior over_process_limit:
      assumes before: NX_ASK_FITS(*ask, quota->taken, quota->budget);
      assumes slice: quota->delegated == 0;
      assumes beyond: !NX_TIER_FITS(quota, *ask);
      ensures charged: NX_SHORT_CHARGED(\result, NXMEM_REASON_OVER_PROCESS_LIMIT, *ask, quota->tier_shares,
                                        quota->tier_limit);
      ensures physical: NX_SHORT_PHYSICAL(\result, NXMEM_REASON_OVER_PROCESS_LIMIT, *ask, quota->tier_shares,
                                          quota->tier_limit);
      ensures mapped: NX_SHORT_MAPPED(\result, NXMEM_REASON_OVER_PROCESS_LIMIT, *ask, quota->tier_shares,
                                      quota->tier_limit);
    behavior slice_over_process_limit:
      assumes before: NX_ASK_FITS(*ask, quota->taken, quota->budget);
      assumes slice: quota->delegated != 0 && NX_SLICE_FITS(quota, *ask);
      assumes beyond: !NX_TIER_FITS(quota, *ask);
      ensures charged: NX_SHORT_CHARGED(\result, NXMEM_REASON_OVER_PROCESS_LIMIT, *ask, quota->tier_taken,
                                        quota->tier_limit);
      ensures physical: NX_SHORT_PHYSICAL(\result, NXMEM_REASON_OVER_PROCESS_LIMIT, *ask, quota->tier_taken,
                                          quota->tier_limit);
      ensures mapped: NX_SHORT_MAPPED(\result, NXMEM_REASON_OVER_PROCESS_LIMIT, *ask, quota->tier_taken,
                                      quota->tier_limit);
    behavior granted:
      assumes budget: NX_ASK_FITS(*ask, quota->taken, quota->budget);
      assumes slice: NX_SLICE_FITS(quota, *ask);
      assumes tier: NX_TIER_FITS(quota, *ask);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_reserve(const nxmem_quota *quota, const nxmem_axes *ask);

/* What a thread may draw ahead beside `ask`: on each axis at most `step`, and never more than all limits leave. */
/*@ requires quota_readable: \valid_read(quota);
    requires ask_readable: \valid_read(ask);
    requires out_writable: \valid(out);
    requires apart: \separated(out, quota) && \separated(out, ask);
    assigns *out;
    ensures charged: out->charged == NX_LEAST(step, NX_LEFT(ask->charged, NX_QUOTA_LEFT(quota, charged)));
    ensures physical: out->physical == NX_LEAST(step, NX_LEFT(ask->physical, NX_QUOTA_LEFT(quota, physical)));
    ensures mapped: out->mapped == NX_LEAST(step, NX_LEFT(ask->mapped, NX_QUOTA_LEFT(quota, mapped))); */
void nxmem_quota_step(const nxmem_quota *quota, const nxmem_axes *ask, uint64_t step, nxmem_axes *out);

/*
 * May the authority be delegated this slice of its tier's process limit? ALREADY_DELEGATED, once is all; then, axis by
 * axis, SLICE_TOO_SMALL (found: the slice; needed: at least what is taken already) and OVER_PROCESS_LIMIT (found: the
 * slice; needed: at most what the others leave).
 */
/*@ requires quota_readable: \valid_read(quota);
    requires slice_readable: \valid_read(slice);
    assigns \nothing;
    behavior again:
      assumes delegated: quota->delegated != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_ALREADY_DELEGATED, 0, 1, 0);
    behavior too_small:
      assumes first: quota->delegated == 0;
      assumes below: !NX_AXES_LEQ(quota->taken, *slice);
      ensures charged: slice->charged < quota->taken.charged ==>
                       NX_VERDICT_IS(\result, NXMEM_REASON_SLICE_TOO_SMALL, NXMEM_QUOTA_CHARGED, slice->charged,
                                     quota->taken.charged);
      ensures physical: slice->charged >= quota->taken.charged && slice->physical < quota->taken.physical ==>
                        NX_VERDICT_IS(\result, NXMEM_REASON_SLICE_TOO_SMALL, NXMEM_QUOTA_PHYSICAL, slice->physical,
                                      quota->taken.physical);
      ensures mapped: slice->charged >= quota->taken.charged && slice->physical >= quota->taken.physical ==>
                      NX_VERDICT_IS(\result, NXMEM_REASON_SLICE_TOO_SMALL, NXMEM_QUOTA_MAPPED, slice->mapped,
                                    quota->taken.mapped);
    behavior too_large:
      assumes first: quota->delegated == 0;
      assumes holds: NX_AXES_LEQ(quota->taken, *slice);
      assumes beyond: !(NX_SLICE_HAS_ROOM(quota, slice, charged) && NX_SLICE_HAS_ROOM(quota, slice, physical) &&
                        NX_SLICE_HAS_ROOM(quota, slice, mapped));
      ensures charged: !NX_SLICE_HAS_ROOM(quota, slice, charged) ==>
                       NX_SLICE_REFUSED(\result, quota, slice, NXMEM_REASON_OVER_PROCESS_LIMIT, NXMEM_QUOTA_CHARGED,
                                        charged);
      ensures physical: NX_SLICE_HAS_ROOM(quota, slice, charged) && !NX_SLICE_HAS_ROOM(quota, slice, physical) ==>
                        NX_SLICE_REFUSED(\result, quota, slice, NXMEM_REASON_OVER_PROCESS_LIMIT, NXMEM_QUOTA_PHYSICAL,
                                         physical);
      ensures mapped: NX_SLICE_HAS_ROOM(quota, slice, charged) && NX_SLICE_HAS_ROOM(quota, slice, physical) ==>
                      NX_SLICE_REFUSED(\result, quota, slice, NXMEM_REASON_OVER_PROCESS_LIMIT, NXMEM_QUOTA_MAPPED,
                                       mapped);
    behavior delegated:
      assumes first: quota->delegated == 0;
      assumes holds: NX_AXES_LEQ(quota->taken, *slice);
      assumes room: NX_SLICE_HAS_ROOM(quota, slice, charged) && NX_SLICE_HAS_ROOM(quota, slice, physical) &&
                    NX_SLICE_HAS_ROOM(quota, slice, mapped);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_delegation(const nxmem_quota *quota, const nxmem_axes *slice);

/* What an authority counts for in its tier: what it takes, and its whole slice where it has one. */
/*@ requires quota_readable: \valid_read(quota);
    requires out_writable: \valid(out);
    requires apart: \separated(out, quota);
    assigns *out;
    behavior whole:
      assumes delegated: quota->delegated != 0;
      ensures charged: out->charged == NX_MOST_OF(quota->taken.charged, quota->slice.charged);
      ensures physical: out->physical == NX_MOST_OF(quota->taken.physical, quota->slice.physical);
      ensures mapped: out->mapped == NX_MOST_OF(quota->taken.mapped, quota->slice.mapped);
    behavior taken:
      assumes undelegated: quota->delegated == 0;
      ensures charged: out->charged == quota->taken.charged;
      ensures physical: out->physical == quota->taken.physical;
      ensures mapped: out->mapped == quota->taken.mapped;
    complete behaviors;
    disjoint behaviors; */
void nxmem_quota_share(const nxmem_quota *quota, nxmem_axes *out);

/* What a limit adopts: by how much more than it is taken already. */
/*@ requires taken_readable: \valid_read(taken);
    requires limit_readable: \valid_read(limit);
    requires out_writable: \valid(out);
    requires apart: \separated(out, taken) && \separated(out, limit);
    assigns *out;
    ensures charged: out->charged == NX_LEFT(limit->charged, taken->charged);
    ensures physical: out->physical == NX_LEFT(limit->physical, taken->physical);
    ensures mapped: out->mapped == NX_LEFT(limit->mapped, taken->mapped); */
void nxmem_quota_beyond(const nxmem_axes *taken, const nxmem_axes *limit, nxmem_axes *out);

/*
 * What a reservation and the numbers that the plugin answered differ by: `more` is still to be reserved, `spare` goes
 * back. On each axis one of the two is 0.
 */
/*@ requires reserved_readable: \valid_read(reserved);
    requires answered_readable: \valid_read(answered);
    requires more_writable: \valid(more);
    requires spare_writable: \valid(spare);
    requires apart: \separated(more, spare, reserved) && \separated(more, spare, answered);
    assigns *more, *spare;
    ensures more_charged: more->charged == NX_LEFT(reserved->charged, answered->charged);
    ensures more_physical: more->physical == NX_LEFT(reserved->physical, answered->physical);
    ensures more_mapped: more->mapped == NX_LEFT(reserved->mapped, answered->mapped);
    ensures spare_charged: spare->charged == NX_LEFT(answered->charged, reserved->charged);
    ensures spare_physical: spare->physical == NX_LEFT(answered->physical, reserved->physical);
    ensures spare_mapped: spare->mapped == NX_LEFT(answered->mapped, reserved->mapped); */
void nxmem_settle_commit(const nxmem_axes *reserved, const nxmem_axes *answered, nxmem_axes *more, nxmem_axes *spare);

/* Take bytes off what there is room for: 1, or 0 and nothing changed where an axis has fewer. */
/*@ requires room_writable: \valid(room);
    requires bytes_readable: \valid_read(bytes);
    requires apart: \separated(room, bytes);
    assigns *room;
    behavior fits:
      assumes enough: NX_AXES_LEQ(*bytes, *room);
      ensures taken: \result == 1;
      ensures charged: room->charged == \old(room->charged) - bytes->charged;
      ensures physical: room->physical == \old(room->physical) - bytes->physical;
      ensures mapped: room->mapped == \old(room->mapped) - bytes->mapped;
    behavior too_little:
      assumes beyond: !NX_AXES_LEQ(*bytes, *room);
      assigns \nothing;
      ensures refused: \result == 0;
    complete behaviors;
    disjoint behaviors; */
int nxmem_axes_take(nxmem_axes *room, const nxmem_axes *bytes);

/* Add a part to a total: 1, or 0 and nothing changed where an axis would pass NXMEM_TOTAL_MAX. */
/*@ requires total_writable: \valid(total);
    requires part_readable: \valid_read(part);
    requires apart: \separated(total, part);
    requires total_within: NX_AXES_WITHIN(*total);
    assigns *total;
    ensures within: NX_AXES_WITHIN(*total);
    behavior fits:
      assumes room: NX_SUM_WITHIN(*total, *part);
      ensures added: \result == 1;
      ensures charged: total->charged == \old(total->charged) + part->charged;
      ensures physical: total->physical == \old(total->physical) + part->physical;
      ensures mapped: total->mapped == \old(total->mapped) + part->mapped;
    behavior too_large:
      assumes beyond: !NX_SUM_WITHIN(*total, *part);
      assigns \nothing;
      ensures refused: \result == 0;
    complete behaviors;
    disjoint behaviors; */
int nxmem_axes_add(nxmem_axes *total, const nxmem_axes *part);

/* Adopt what is there whatever the limits say: each axis the sum, or NXMEM_TOTAL_MAX. */
/*@ requires total_writable: \valid(total);
    requires part_readable: \valid_read(part);
    requires apart: \separated(total, part);
    requires total_within: NX_AXES_WITHIN(*total);
    assigns *total;
    ensures charged: total->charged == NX_LEAST(\old(total->charged) + part->charged, 0x8000000000000000);
    ensures physical: total->physical == NX_LEAST(\old(total->physical) + part->physical, 0x8000000000000000);
    ensures mapped: total->mapped == NX_LEAST(\old(total->mapped) + part->mapped, 0x8000000000000000); */
void nxmem_axes_adopt(nxmem_axes *total, const nxmem_axes *part);

/*
 * Take back what was held; each axis stays at 0 where that is more than there is. The answer is how many axes that
 * were: not 0 is a bug of the books, which the caller counts.
 */
/*@ requires held_writable: \valid(held);
    requires bytes_readable: \valid_read(bytes);
    requires apart: \separated(held, bytes);
    assigns *held;
    ensures charged: held->charged == NX_LEFT(bytes->charged, \old(held->charged));
    ensures physical: held->physical == NX_LEFT(bytes->physical, \old(held->physical));
    ensures mapped: held->mapped == NX_LEFT(bytes->mapped, \old(held->mapped));
    ensures clamped: \result == (bytes->charged > \old(held->charged) ? 1 : 0) +
                                (bytes->physical > \old(held->physical) ? 1 : 0) +
                                (bytes->mapped > \old(held->mapped) ? 1 : 0); */
uint32_t nxmem_axes_refund(nxmem_axes *held, const nxmem_axes *bytes);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_QUOTA_H */
