/*
 * loads.h: what the proofs of the racing world put in the place of abi/src/load.h: a ledger of loads.
 *
 * nx_loads[k] counts the loads of the field at offset k of the record being read. NX_LOAD requires that its offset was not loaded
 * before, so a body that loads a field twice has no proof. The gate includes this file ahead of the source.
 */
#ifndef NX_LOADS_H
#define NX_LOADS_H

#include <stddef.h>

/*@ ghost extern int nx_loads[512]; */

/*@ requires once: at < 512 && nx_loads[at] == 0;
    assigns nx_loads[at];
    ensures counted: nx_loads[at] == 1; */
static inline void nx_count_load(size_t at) { /*@ ghost nx_loads[at] = nx_loads[at] + 1; */
}

#define NX_LOAD(type, src, field) (nx_count_load(offsetof(type, field)), (src)->field)

/* A status also stands inside other records: its loads are counted apart, behind every offset that NX_LOAD counts. */
#define NX_STATUS_AT 240
#define NX_LOAD_STATUS(src, field) (nx_count_load(NX_STATUS_AT + offsetof(NxmemStatus, field)), (src)->field)
#define NX_LOAD_MESSAGE(src, index) \
  (nx_count_load(NX_STATUS_AT + offsetof(NxmemStatus, message) + (index)), (src)->message[index])

/* Words of the racing contracts. */
#define NX_LEDGER nx_loads[0 .. 511]
#define NX_STATUS_LEDGER nx_loads[NX_STATUS_AT .. 511]
#define NX_LOADED(at) (nx_loads[at] != 0)
#define NX_NOTHING_LOADED_FROM(at) (\forall integer k; (at) <= k < 512 ==> nx_loads[k] == 0)

#endif /* NX_LOADS_H */
