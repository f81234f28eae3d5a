/* Which addresses are taken: the ranges of live and quarantined allocations of one factory, to notice one that is handed out twice. Private to the host. */
#ifndef NX_INDEX_H
#define NX_INDEX_H

#include <stdatomic.h>
#include <stdint.h>

/* The addresses of one factory; different spaces never meet. */
typedef struct nx_space {
  uint32_t id;            /* no other space has it that holds a range */
  _Atomic uint32_t tiers; /* bit t: a range of tier t was put there once */
  _Atomic uint32_t kept;  /* ranges without a record (guard.c) */
} nx_space;

typedef enum nx_put { NX_PUT_DONE = 0, NX_PUT_TAKEN = 1, NX_PUT_NO_MEMORY = 2 } nx_put;

/*
 * Enter a range; bytes is not 0 and the range is whole. Where it is not done, nothing of it stays. *other_first and *other_bytes: of NX_PUT_TAKEN, what it
 * overlaps, as far as one cell shows it. Two that come at once and overlap may both be refused. [any-thread] [blocks: malloc]
 */
nx_put nx_index_put(nx_space *space, uint64_t first, uint64_t bytes, uint64_t *other_first, uint64_t *other_bytes);

/* Take out a range that was entered. [any-thread] */
void nx_index_drop(nx_space *space, uint64_t first, uint64_t bytes);

/* What the index has taken from the system so far; what is given back is used again. */
uint64_t nx_index_bytes(void);

/* Of it, without nodes that are free. */
uint64_t nx_index_used_bytes(void);

#endif /* NX_INDEX_H */
