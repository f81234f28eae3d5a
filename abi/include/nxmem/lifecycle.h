/*
 * lifecycle.h: what a mechanism may still be used for, when it may be removed, and what a release that owns its allocation comes to.
 *
 * Attackers: callers that race retirement, loss and removal against each other; a plugin that keeps what it should give back.
 * Promise: no step leads back; nothing new begins in what has ended; what was not given back is kept under a reason; nothing is removed that
 * somebody still holds.
 *
 * A mechanism's word (nxmem/handle.h) has its lifecycle where others count users. ACTIVE is 0: nxmem_is_claimable() says yes exactly for a handle whose mechanism
 * is registered and ACTIVE.
 */
#ifndef NXMEM_LIFECYCLE_H
#define NXMEM_LIFECYCLE_H

#include "nxmem/handle.h"
#include "nxmem/outcome.h"
#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nxmem_lifecycle {
  NXMEM_LIFECYCLE_ACTIVE = 0,
  NXMEM_LIFECYCLE_RETIRED = 1,     /* no new work; old allocations may be released */
  NXMEM_LIFECYCLE_DEVICE_LOST = 2, /* everything is refused, and nothing enters the plugin */
  NXMEM_LIFECYCLE_TERMINATED = 3   /* the loss is confirmed: records only */
} nxmem_lifecycle;

enum { NXMEM_LIFECYCLES = 4 };

/* What is asked of a mechanism. */
typedef enum nxmem_work {
  NXMEM_WORK_NEW = 0,    /* bind, allocate, commit, select */
  NXMEM_WORK_RELEASE = 1 /* give back, decommit */
} nxmem_work;

/* Why an allocation is kept. */
typedef enum nxmem_keeping {
  NXMEM_KEPT_NOT = 0, /* given back */
  NXMEM_KEPT_ABANDONED = 1,
  NXMEM_KEPT_OWNER_DROPPED = 2,
  NXMEM_KEPT_QUEUE_REFUSED = 3,
  NXMEM_KEPT_DEVICE_LOST = 4,
  NXMEM_KEPT_TERMINATED = 5,
  NXMEM_KEPT_PARTIAL_RELEASE = 6,  /* the plugin says that it keeps a part, or nobody can know */
  NXMEM_KEPT_ALLOCATOR_REFUSED = 7 /* the plugin says that nothing changed */
} nxmem_keeping;

/* What is held of a mechanism. */
typedef struct nxmem_holdings {
  uint64_t calls_inside; /* of threads in its plugin */
  uint64_t live;         /* allocations, without prepared ones */
  uint64_t prepared;     /* releases that nobody has executed or abandoned */
  uint64_t quarantined;
  uint64_t bindings;
} nxmem_holdings;

/* Which of them, in the order in which they are looked at. */
typedef enum nxmem_holding {
  NXMEM_HOLDING_CALLS_INSIDE = 1,
  NXMEM_HOLDING_LIVE = 2,
  NXMEM_HOLDING_PREPARED = 3,
  NXMEM_HOLDING_QUARANTINED = 4,
  NXMEM_HOLDING_BINDINGS = 5
} nxmem_holding;

#ifdef __FRAMAC__
/* clang-format off */
#define NX_LIFECYCLE(w) NX_WORD_USERS(w)
/* The last lifecycle in which such work begins. */
#define NX_WORK_LAST(work) ((work) == NXMEM_WORK_RELEASE ? NXMEM_LIFECYCLE_RETIRED : NXMEM_LIFECYCLE_ACTIVE)
#define NX_REMOVABLE(l) ((l) == NXMEM_LIFECYCLE_RETIRED || (l) == NXMEM_LIFECYCLE_TERMINATED)
/* What was quarantined of a device that is gone for sure is a record, and goes with its mechanism. */
#define NX_QUARANTINE_BLOCKS(l, h) ((l) != NXMEM_LIFECYCLE_TERMINATED && (h)->quarantined != 0)
#define NX_HELD_NONE_1(h) ((h)->calls_inside == 0)
#define NX_HELD_NONE_2(h) (NX_HELD_NONE_1(h) && (h)->live == 0)
#define NX_HELD_NONE_3(h) (NX_HELD_NONE_2(h) && (h)->prepared == 0)
#define NX_STILL_HELD(v, which, count) NX_VERDICT_IS(v, NXMEM_REASON_STILL_HELD, which, count, 0)
/* clang-format on */
#endif
/* The lifecycle in a mechanism's word, and the word with another one; generation and state stay. */
/*@ assigns \nothing;
    ensures exact: \result == NX_LIFECYCLE(word); */
uint32_t nxmem_lifecycle_of(uint64_t word);
/*@ requires known: lifecycle < NXMEM_LIFECYCLES;
    assigns \nothing;
    ensures same_generation: NX_WORD_GENERATION(\result) == NX_WORD_GENERATION(word);
    ensures same_state: NX_WORD_STATE(\result) == NX_WORD_STATE(word);
    ensures new_lifecycle: NX_LIFECYCLE(\result) == lifecycle; */
uint64_t nxmem_word_in_lifecycle(uint64_t word, uint32_t lifecycle);

/* 1 where a mechanism may go from the one to the other. None leads back, and none from a lifecycle to itself. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==>
                   (from == NXMEM_LIFECYCLE_ACTIVE && to == NXMEM_LIFECYCLE_RETIRED) ||
                   (from == NXMEM_LIFECYCLE_ACTIVE && to == NXMEM_LIFECYCLE_DEVICE_LOST) ||
                   (from == NXMEM_LIFECYCLE_RETIRED && to == NXMEM_LIFECYCLE_DEVICE_LOST) ||
                   (from == NXMEM_LIFECYCLE_DEVICE_LOST && to == NXMEM_LIFECYCLE_TERMINATED);
    ensures no_way_back: \result == 1 ==> from < to; */
int nxmem_lifecycle_leads(uint32_t from, uint32_t to);

/* May such work begin? ENDED: found is the lifecycle, needed the last one in which it may. */
/*@ assigns \nothing;
    behavior open:
      assumes before_end: lifecycle <= NX_WORK_LAST(work);
      ensures accepted: NX_ACCEPTED(\result);
    behavior ended:
      assumes behind_end: lifecycle > NX_WORK_LAST(work);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_ENDED, 0, lifecycle, NX_WORK_LAST(work));
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_work(uint32_t lifecycle, uint32_t work);

/*
 * May a mechanism be removed? NOT_ENDED: found is the lifecycle, needed the one that comes next. STILL_HELD: field says
 * what (nxmem_holding), found how many: the first that is not 0. Quarantine blocks unless TERMINATED.
 */
/*@ requires holdings_readable: \valid_read(holdings);
    assigns \nothing;
    behavior active:
      assumes active: lifecycle == NXMEM_LIFECYCLE_ACTIVE;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NOT_ENDED, 0, lifecycle, NXMEM_LIFECYCLE_RETIRED);
    behavior unconfirmed:
      assumes not_removable: !NX_REMOVABLE(lifecycle) && lifecycle != NXMEM_LIFECYCLE_ACTIVE;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NOT_ENDED, 0, lifecycle, NXMEM_LIFECYCLE_TERMINATED);
    behavior calls:
      assumes ended: NX_REMOVABLE(lifecycle);
      assumes nonzero: !NX_HELD_NONE_1(holdings);
      ensures refused: NX_STILL_HELD(\result, NXMEM_HOLDING_CALLS_INSIDE, holdings->calls_inside);
    behavior live:
      assumes ended: NX_REMOVABLE(lifecycle);
      assumes first: NX_HELD_NONE_1(holdings) && holdings->live != 0;
      ensures refused: NX_STILL_HELD(\result, NXMEM_HOLDING_LIVE, holdings->live);
    behavior prepared:
      assumes ended: NX_REMOVABLE(lifecycle);
      assumes first: NX_HELD_NONE_2(holdings) && holdings->prepared != 0;
      ensures refused: NX_STILL_HELD(\result, NXMEM_HOLDING_PREPARED, holdings->prepared);
    behavior quarantined:
      assumes ended: NX_REMOVABLE(lifecycle);
      assumes first: NX_HELD_NONE_3(holdings) && NX_QUARANTINE_BLOCKS(lifecycle, holdings);
      ensures refused: NX_STILL_HELD(\result, NXMEM_HOLDING_QUARANTINED, holdings->quarantined);
    behavior bindings:
      assumes ended: NX_REMOVABLE(lifecycle);
      assumes others_none: NX_HELD_NONE_3(holdings) && !NX_QUARANTINE_BLOCKS(lifecycle, holdings);
      assumes nonzero: holdings->bindings != 0;
      ensures refused: NX_STILL_HELD(\result, NXMEM_HOLDING_BINDINGS, holdings->bindings);
    behavior free:
      assumes ended: NX_REMOVABLE(lifecycle);
      assumes none: NX_HELD_NONE_3(holdings) && !NX_QUARANTINE_BLOCKS(lifecycle, holdings) && holdings->bindings == 0;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_removal(uint32_t lifecycle, const nxmem_holdings *holdings);

/*
 * What a release that owns its allocation comes to, given what the plugin's answer means and the lifecycle after it:
 * never "nothing changed". A device that is lost decides, whatever was answered.
 */
/*@ assigns \nothing;
    behavior lost:
      assumes lost: lifecycle == NXMEM_LIFECYCLE_DEVICE_LOST;
      ensures kept: \result == NXMEM_KEPT_DEVICE_LOST;
    behavior terminated:
      assumes terminated: lifecycle >= NXMEM_LIFECYCLE_TERMINATED;
      ensures kept: \result == NXMEM_KEPT_TERMINATED;
    behavior gone:
      assumes there: lifecycle <= NXMEM_LIFECYCLE_RETIRED;
      assumes gone: fate == NXMEM_FATE_GONE;
      ensures complete: \result == NXMEM_KEPT_NOT;
    behavior refused:
      assumes there: lifecycle <= NXMEM_LIFECYCLE_RETIRED;
      assumes unchanged: fate == NXMEM_FATE_LIVE;
      ensures kept: \result == NXMEM_KEPT_ALLOCATOR_REFUSED;
    behavior partial:
      assumes there: lifecycle <= NXMEM_LIFECYCLE_RETIRED;
      assumes doubt: fate != NXMEM_FATE_GONE && fate != NXMEM_FATE_LIVE;
      ensures kept: \result == NXMEM_KEPT_PARTIAL_RELEASE;
    complete behaviors;
    disjoint behaviors; */
nxmem_keeping nxmem_settle_owned(uint32_t lifecycle, uint32_t fate);

/* Under which reason it is kept without being asked for: the caller's, unless the device is lost. */
/*@ assigns \nothing;
    behavior lost:
      assumes lost: lifecycle == NXMEM_LIFECYCLE_DEVICE_LOST;
      ensures kept: \result == NXMEM_KEPT_DEVICE_LOST;
    behavior terminated:
      assumes terminated: lifecycle >= NXMEM_LIFECYCLE_TERMINATED;
      ensures kept: \result == NXMEM_KEPT_TERMINATED;
    behavior given_up:
      assumes there: lifecycle <= NXMEM_LIFECYCLE_RETIRED;
      ensures kept: \result == why;
    complete behaviors;
    disjoint behaviors; */
nxmem_keeping nxmem_keep_owned(uint32_t lifecycle, nxmem_keeping why);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_LIFECYCLE_H */
