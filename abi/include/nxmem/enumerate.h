/*
 * enumerate.h: is the list of factories that a plugin handed over one that may be owned?
 *
 * Attackers: a plugin that reports more entries than there is room for, a NULL among them, or one object twice.
 * Promise: within an accepted list every entry is a distinct non-NULL address, so each is owed exactly one release.
 */
#ifndef NXMEM_ENUMERATE_H
#define NXMEM_ENUMERATE_H

#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NXMEM_FACTORIES_MAX = 64 };

#ifdef __FRAMAC__
/* clang-format off */
/* No NULL and no address twice among the first n entries. */
#define NX_ALL_OWED(e, n) \
  ((\forall integer k; 0 <= k < (n) ==> (e)[k] != 0) && \
   (\forall integer j, k; 0 <= j < k && k < (n) ==> (e)[j] != (e)[k]))
#define NX_NOT_BELOW(e, i, n) (\forall integer k; 0 <= k < (n) ==> (e)[k] != (e)[i])
/* clang-format on */
#endif
/* Entries that passed to the host by an OK answer: those within the reported count and within the array. */
/*@ assigns \nothing;
    ensures exact: \result == (reported < 64 ? reported : 64); */
uint32_t nxmem_factories_transferred(uint64_t reported);

/* 1 where entries[index] is not NULL and stands at no lower index: the one place from which its release is paid. */
/*@ requires readable: \valid_read(entries + (0 .. index));
    assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> entries[index] != 0 && NX_NOT_BELOW(entries, index, index); */
int nxmem_factory_is_owed(const uintptr_t *entries, uint32_t index);

/*
 * TOO_MANY (reported above NXMEM_FACTORIES_MAX), NULL_POINTER (field: its index), LISTED_TWICE (the two indices).
 * An empty list is a list: a plugin may find no device.
 * entries: the host's zeroed array of NXMEM_FACTORIES_MAX addresses, filled by the plugin.
 */
/*@ requires readable: \valid_read(entries + (0 .. 63));
    assigns \nothing;
    behavior too_many:
      assumes beyond_room: reported > 64;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TOO_MANY, 0, reported, 64);
    behavior distinct:
      assumes within_room: reported <= 64;
      assumes all_owed: NX_ALL_OWED(entries, reported);
      ensures accepted: NX_ACCEPTED(\result);
    behavior offending:
      assumes within_room: reported <= 64;
      assumes not_all_owed: !NX_ALL_OWED(entries, reported);
      ensures within: \result.field < reported;
      ensures first: NX_ALL_OWED(entries, \result.field);
      ensures null: entries[\result.field] == 0 ==>
                    NX_VERDICT_IS(\result, NXMEM_REASON_NULL_POINTER, \result.field, 0, 0);
      ensures twice: entries[\result.field] != 0 ==>
                     NX_VERDICT_IS(\result, NXMEM_REASON_LISTED_TWICE, \result.field, \result.field, \result.needed) &&
                     \result.needed < \result.field && entries[\result.needed] == entries[\result.field];
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_factories(const uintptr_t *entries, uint64_t reported);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_ENUMERATE_H */
