/*
 * granule.h: the state of one granule: who refers to it, how it is mapped, and whether it may ever be handed out again.
 *
 * Attackers: releases that come twice, drivers that fail while memory is mapped or unmapped, a commit upon a mapping.
 * Promise: a count never wraps; nothing is mapped upon a mapping; what is poisoned stays mapped for good, and neither
 * that nor what is quarantined is ever taken again.
 *
 * A granule is the unit that a device maps: one physical handle, one mapping. `references` counts the allocations that
 * hold a committed byte in it. In use, step by step:
 *
 *   commit      take each granule; map those that nxmem_granule_must_map() names: mapped()
 *   undo it     drop each one taken; unmap those that nxmem_granule_must_unmap() names: unmapped(), else poison()
 *   release     drop each granule; unmap as above
 *
 * Between two such steps a granule is at rest: it is mapped exactly where somebody refers to it, or where it is poisoned.
 * Nothing here locks: calls on one granule come one after another.
 */
#ifndef NXMEM_GRANULE_H
#define NXMEM_GRANULE_H

#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a granule is mapped. */
typedef enum nxmem_mapping {
  NXMEM_MAPPING_NONE = 0,
  NXMEM_MAPPING_PRIVATE = 1, /* read-write; its bytes belong to those who refer to it */
  NXMEM_MAPPING_OWNER = 2,   /* read-write; the bytes of a shared prefix, where they were made */
  NXMEM_MAPPING_SHARER = 3   /* read-only; the bytes of a shared prefix, in an allocation */
} nxmem_mapping;

/* All zero: free. An array of them is what granules.h looks at. */
typedef struct nxmem_granule {
  uint32_t references; /* allocations with a committed byte in it */
  uint8_t mapping;     /* nxmem_mapping */
  uint8_t poisoned;    /* 1: an unmap of it failed; mapped for good */
  uint8_t quarantined; /* 1: no address in it is handed out again */
  uint8_t reserved;    /* 0 */
} nxmem_granule;

#define NXMEM_REFERENCES_MAX 0xFFFFFFFFu

#ifdef __FRAMAC__
/* clang-format off */
/* What holds of every granule at every time. The bytes of a prefix never share a granule with anybody else's. */
#define NX_GRANULE_VALID(g) \
  ((g)->mapping <= 3 && (g)->poisoned <= 1 && (g)->quarantined <= 1 && \
   ((g)->poisoned == 1 ==> (g)->mapping != 0) && ((g)->mapping >= 2 ==> (g)->references <= 1))
/* What holds between two steps. */
#define NX_GRANULE_RESTS(g) (((g)->mapping != 0) <==> ((g)->references != 0 || (g)->poisoned == 1))
#define NX_MUST_MAP(g) ((g)->references != 0 && (g)->mapping == 0)
#define NX_MUST_UNMAP(g) ((g)->references == 0 && (g)->mapping != 0 && (g)->poisoned == 0)
/* Why a granule may not be taken, in this order; 0 where it may. */
#define NX_TAKE_REASON(g) \
  ((g)->poisoned != 0 ? NXMEM_REASON_POISONED : (g)->quarantined != 0 ? NXMEM_REASON_QUARANTINED : \
   (g)->mapping >= 2 ? NXMEM_REASON_SHARED : \
   (g)->references == 0xFFFFFFFF ? NXMEM_REASON_TOO_MANY_REFERENCES : NXMEM_REASON_NONE)
/* What is found and what is needed, where it may not be taken. */
#define NX_TAKE_FOUND(g) \
  ((g)->poisoned != 0 ? (g)->poisoned : (g)->quarantined != 0 ? (g)->quarantined : \
   (g)->mapping >= 2 ? (g)->mapping : (g)->references)
#define NX_TAKE_NEEDED(g) \
  ((g)->poisoned != 0 || (g)->quarantined != 0 || (g)->mapping >= 2 ? 0 : 0xFFFFFFFF)
/* The same of a drop, of an unmap, of a decommit. */
#define NX_DROP_REASON(g) ((g)->references == 0 ? NXMEM_REASON_NO_REFERENCE : NXMEM_REASON_NONE)
#define NX_UNMAP_REASON(g) \
  ((g)->mapping == 0 ? NXMEM_REASON_NOT_MAPPED : (g)->poisoned != 0 ? NXMEM_REASON_POISONED : \
   (g)->references != 0 ? NXMEM_REASON_IN_USE : NXMEM_REASON_NONE)
#define NX_DECOMMIT_REASON(g) \
  ((g)->poisoned != 0 ? NXMEM_REASON_POISONED : (g)->quarantined != 0 ? NXMEM_REASON_QUARANTINED : \
   (g)->mapping >= 2 ? NXMEM_REASON_SHARED : (g)->references > 1 ? NXMEM_REASON_IN_USE : NXMEM_REASON_NONE)
/* clang-format on */
#endif

/* 1 where a granule is as every granule is at every time, else 0. */
/*@ requires readable: \valid_read(granule);
    assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_GRANULE_VALID(granule); */
int nxmem_granule_is_valid(const nxmem_granule *granule);

/* 1 where it is mapped exactly if referred to or poisoned: so it is whenever no step is under way. */
/*@ requires readable: \valid_read(granule);
    assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_GRANULE_RESTS(granule); */
int nxmem_granule_rests(const nxmem_granule *granule);

/* 1 where it was taken and is not mapped yet. */
/*@ requires readable: \valid_read(granule);
    assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_MUST_MAP(granule); */
int nxmem_granule_must_map(const nxmem_granule *granule);

/* 1 where nobody refers to it any more and it is still mapped, though not poisoned. */
/*@ requires readable: \valid_read(granule);
    assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_MUST_UNMAP(granule); */
int nxmem_granule_must_unmap(const nxmem_granule *granule);

/*
 * May one more allocation hold a byte in it? POISONED, QUARANTINED, SHARED (it holds the bytes of a prefix),
 * TOO_MANY_REFERENCES. Found: what it holds of each; needed: 0, or the highest number.
 */
/*@ requires readable: \valid_read(granule);
    assigns \nothing;
    ensures reason: \result.reason == NX_TAKE_REASON(granule);
    behavior poisoned:
      assumes for_good: granule->poisoned != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_POISONED, 0, granule->poisoned, 0);
    behavior quarantined:
      assumes not_poisoned: granule->poisoned == 0;
      assumes kept_back: granule->quarantined != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_QUARANTINED, 0, granule->quarantined, 0);
    behavior shared:
      assumes sound: granule->poisoned == 0 && granule->quarantined == 0;
      assumes of_a_prefix: granule->mapping >= 2;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_SHARED, 0, granule->mapping, 0);
    behavior full:
      assumes sound: granule->poisoned == 0 && granule->quarantined == 0 && granule->mapping < 2;
      assumes highest: granule->references == 0xFFFFFFFF;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TOO_MANY_REFERENCES, 0, 0xFFFFFFFF, 0xFFFFFFFF);
    behavior free:
      assumes sound: granule->poisoned == 0 && granule->quarantined == 0 && granule->mapping < 2;
      assumes room: granule->references < 0xFFFFFFFF;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_granule_take(const nxmem_granule *granule);

/* One reference more, where nxmem_check_granule_take() accepts; its verdict, and nothing changed, where not. */
/*@ requires writable: \valid(granule);
    requires granule_valid: NX_GRANULE_VALID(granule);
    assigns granule->references;
    ensures stays_valid: NX_GRANULE_VALID(granule);
    behavior taken:
      assumes free: NX_TAKE_REASON(granule) == NXMEM_REASON_NONE;
      ensures accepted: NX_ACCEPTED(\result);
      ensures one_more: granule->references == \old(granule->references) + 1;
    behavior refused:
      assumes not_free: NX_TAKE_REASON(granule) != NXMEM_REASON_NONE;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NX_TAKE_REASON(granule), 0,
                                     NX_TAKE_FOUND(granule), NX_TAKE_NEEDED(granule));
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_granule_take(nxmem_granule *granule);

/* One reference fewer. NO_REFERENCE, and nothing changed, where there is none: an underflow, which is to be counted. */
/*@ requires writable: \valid(granule);
    requires granule_valid: NX_GRANULE_VALID(granule);
    assigns granule->references;
    ensures stays_valid: NX_GRANULE_VALID(granule);
    behavior dropped:
      assumes some: granule->references != 0;
      ensures accepted: NX_ACCEPTED(\result);
      ensures one_fewer: granule->references == \old(granule->references) - 1;
    behavior underflow:
      assumes none: granule->references == 0;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NO_REFERENCE, 0, 0, 1);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_granule_drop(nxmem_granule *granule);

/*
 * May it be mapped this way now? NO_REFERENCE (it was not taken), MAPPED (a mapping is there), QUARANTINED, IN_USE (as
 * OWNER or SHARER with anybody else referring to it).
 *
 * mapping  PRIVATE, OWNER or SHARER.
 */
/*@ requires readable: \valid_read(granule);
    requires kind: 1 <= mapping <= 3;
    assigns \nothing;
    behavior not_taken:
      assumes none: granule->references == 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NO_REFERENCE, 0, 0, 1);
    behavior mapped:
      assumes some: granule->references != 0;
      assumes there: granule->mapping != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_MAPPED, 0, granule->mapping, 0);
    behavior quarantined:
      assumes some: granule->references != 0;
      assumes nothing_there: granule->mapping == 0;
      assumes kept_back: granule->quarantined != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_QUARANTINED, 0, granule->quarantined, 0);
    behavior in_use:
      assumes others: granule->references > 1;
      assumes nothing_there: granule->mapping == 0;
      assumes sound: granule->quarantined == 0;
      assumes of_a_prefix: mapping >= 2;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_IN_USE, 0, granule->references, 1);
    behavior free:
      assumes some: granule->references != 0;
      assumes nothing_there: granule->mapping == 0;
      assumes sound: granule->quarantined == 0;
      assumes alone: granule->references == 1 || mapping < 2;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_granule_map(const nxmem_granule *granule, uint32_t mapping);

#ifdef __FRAMAC__
/* clang-format off */
#define NX_MAY_MAP(g, how) \
  ((g)->references != 0 && (g)->mapping == 0 && (g)->quarantined == 0 && ((g)->references == 1 || (how) < 2))
/* Why a granule may not be mapped, in this order, with what is found and what is needed. */
#define NX_MAP_REASON(g) \
  ((g)->references == 0 ? NXMEM_REASON_NO_REFERENCE : (g)->mapping != 0 ? NXMEM_REASON_MAPPED : \
   (g)->quarantined != 0 ? NXMEM_REASON_QUARANTINED : NXMEM_REASON_IN_USE)
#define NX_MAP_FOUND(g) \
  ((g)->references == 0 ? 0 : (g)->mapping != 0 ? (g)->mapping : \
   (g)->quarantined != 0 ? (g)->quarantined : (g)->references)
#define NX_MAP_NEEDED(g) \
  ((g)->references != 0 && ((g)->mapping != 0 || (g)->quarantined != 0) ? 0 : 1)
/* clang-format on */
#endif
/* The driver mapped it, where nxmem_check_granule_map() accepts; its verdict, and nothing changed, where not. */
/*@ requires writable: \valid(granule);
    requires granule_valid: NX_GRANULE_VALID(granule);
    requires kind: 1 <= mapping <= 3;
    assigns granule->mapping;
    ensures stays_valid: NX_GRANULE_VALID(granule);
    behavior mapped:
      assumes may: NX_MAY_MAP(granule, mapping);
      ensures accepted: NX_ACCEPTED(\result);
      ensures so: granule->mapping == mapping;
    behavior refused:
      assumes may_not: !NX_MAY_MAP(granule, mapping);
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NX_MAP_REASON(granule), 0,
                                     NX_MAP_FOUND(granule), NX_MAP_NEEDED(granule));
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_granule_mapped(nxmem_granule *granule, uint32_t mapping);

/*
 * The driver unmapped it. NOT_MAPPED, POISONED, IN_USE (somebody refers to it): nothing changed, and the caller broke
 * the order.
 */
/*@ requires writable: \valid(granule);
    requires granule_valid: NX_GRANULE_VALID(granule);
    assigns granule->mapping;
    ensures stays_valid: NX_GRANULE_VALID(granule);
    behavior unmapped:
      assumes must: NX_MUST_UNMAP(granule);
      ensures accepted: NX_ACCEPTED(\result);
      ensures nothing_there: granule->mapping == 0;
    behavior not_mapped:
      assumes none: granule->mapping == 0;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NOT_MAPPED, 0, 0, 1);
    behavior poisoned:
      assumes some: granule->mapping != 0;
      assumes for_good: granule->poisoned != 0;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_POISONED, 0, granule->poisoned, 0);
    behavior in_use:
      assumes some: granule->mapping != 0;
      assumes sound: granule->poisoned == 0;
      assumes referred_to: granule->references != 0;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_IN_USE, 0, granule->references, 0);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_granule_unmapped(nxmem_granule *granule);

/* Its unmap failed: mapped for good, never taken again. NOT_MAPPED, and nothing changed, where nothing is there. */
/*@ requires writable: \valid(granule);
    requires granule_valid: NX_GRANULE_VALID(granule);
    assigns granule->poisoned;
    ensures stays_valid: NX_GRANULE_VALID(granule);
    behavior poisoned:
      assumes there: granule->mapping != 0;
      ensures accepted: NX_ACCEPTED(\result);
      ensures for_good: granule->poisoned == 1;
    behavior not_mapped:
      assumes none: granule->mapping == 0;
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NOT_MAPPED, 0, 0, 1);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_granule_poison(nxmem_granule *granule);

/* No address in it is handed out again. Who refers to it still drops it, and then it is unmapped like any other. */
/*@ requires writable: \valid(granule);
    requires granule_valid: NX_GRANULE_VALID(granule);
    assigns granule->quarantined;
    ensures stays_valid: NX_GRANULE_VALID(granule);
    ensures kept_back: granule->quarantined == 1; */
void nxmem_granule_quarantine(nxmem_granule *granule);

/*
 * May its bytes, if it has any, be given back while its allocation lives on? POISONED, QUARANTINED, SHARED, IN_USE
 * (others refer to it too). A granule that nobody refers to is accepted: there is nothing to give back.
 */
/*@ requires readable: \valid_read(granule);
    assigns \nothing;
    ensures reason: \result.reason == NX_DECOMMIT_REASON(granule);
    behavior poisoned:
      assumes for_good: granule->poisoned != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_POISONED, 0, granule->poisoned, 0);
    behavior quarantined:
      assumes not_poisoned: granule->poisoned == 0;
      assumes kept_back: granule->quarantined != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_QUARANTINED, 0, granule->quarantined, 0);
    behavior shared:
      assumes sound: granule->poisoned == 0 && granule->quarantined == 0;
      assumes of_a_prefix: granule->mapping >= 2;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_SHARED, 0, granule->mapping, 0);
    behavior in_use:
      assumes sound: granule->poisoned == 0 && granule->quarantined == 0 && granule->mapping < 2;
      assumes others: granule->references > 1;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_IN_USE, 0, granule->references, 1);
    behavior free:
      assumes sound: granule->poisoned == 0 && granule->quarantined == 0 && granule->mapping < 2;
      assumes alone: granule->references <= 1;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_granule_decommit(const nxmem_granule *granule);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_GRANULE_H */
