/*
 * again.h: what the host's own files keep, as an input shall find it.
 * Attackers: none.
 * Promise: again.c's.
 */
#ifndef NXMEM_FUZZ_AGAIN_H
#define NXMEM_FUZZ_AGAIN_H

#include "objects.h"

/* After everything is closed: no allocation, no allocator, no queued release was ever made. */
void again_restore_slots(void);

/* Nothing may be left in it but what again_restore_index() takes. */
void again_restore_space(nx_space *space);

/* After every range is dropped. */
void again_restore_index(void);

/* Once: buckets for all shards, which an input would else make or find. */
void again_prepare_index(void);

/* Which tiers a space ever used: all, or none. The first use of one passes through all locks of the index, which costs as much as an input. */
void again_note_tiers(nx_space *space, int used);

#endif /* NXMEM_FUZZ_AGAIN_H */
