/* Prepared releases, by the state that their holder left them in. Private to the registry. */
#ifndef NX_REGISTRY_PREPARED_H
#define NX_REGISTRY_PREPARED_H

#include "registry.h"

/*
 * QUEUED: its caller has it. QUEUING: a queue has it. RELEASING: it is being executed or kept. Not NX_NOT_MOVED for the one who moved it.
 * That a queue had refused it stands in the users' place of the same word: so it is true of this release and of no other, and goes with the move.
 */
typedef enum nx_prepared_moved { NX_NOT_MOVED, NX_MOVED, NX_MOVED_REFUSED } nx_prepared_moved;
nx_prepared_moved nx_prepared_move(uint64_t id, nxmem_slot_state from, nxmem_slot_state to);

/* A queue has refused it: 1 while its caller has it. */
int nx_prepared_refused(uint64_t id);

/* UNKNOWN_ALLOCATION where it is not in that state. Otherwise it is used up. [runs plugin code] */
nxmem_result nx_prepared_execute(uint64_t id, nxmem_slot_state from, nxmem_error *error);

/* The same without the plugin. */
nxmem_result nx_prepared_keep(uint64_t id, nxmem_slot_state from, nxmem_keeping why, nxmem_error *error);

#endif /* NX_REGISTRY_PREPARED_H */
