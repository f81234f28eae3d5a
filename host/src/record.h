/* Records of allocations: what a caller or a plugin names, found, compared and claimed. Private to the host. */
#ifndef NX_RECORD_H
#define NX_RECORD_H

#include "nxmem/outcome.h"
#include "objects.h"

/* What a caller says of an allocation. */
typedef struct nx_naming {
  const char *verb; /* what is asked for, for messages: "release" */
  nxmem_allocator allocator;
  nxmem_allocation allocation;
  uint64_t bytes; /* 0: not said */
  uint64_t align; /* 0: not said */
} nx_naming;

/* The allocation as the plugin knows it. The caller owns the record or is a user of it. */
NxmemAllocation nx_record_describe(nx_allocator *allocator, nx_allocation *record);

/* The handle of the allocator that a record belongs to. [any-thread] */
uint64_t nx_record_owner(nx_allocation *record);

/* Numbers beside a record: few records ever have them. */
typedef enum nx_beside { NX_BESIDE_QUEUE, NX_BESIDE_MAPPINGS, NX_BESIDES } nx_beside;

/*
 * A number beside a record: 0 at first, and whatever was stored there last. NULL: no memory. Asked for before it can be needed.
 * [any-thread] [blocks: malloc]
 */
_Atomic uint32_t *nx_record_beside(nx_allocation *record, nx_beside which);

/* That number as it is; 0 where none was ever asked for. [any-thread] */
uint32_t nx_record_number_beside(nx_allocation *record, nx_beside which);

/* Is it in the index of addresses? Changed by the record's owner only. */
int nx_record_is_indexed(nx_allocation *record);
void nx_record_set_indexed(nx_allocation *record, int indexed);

/* Does it map a prefix? Changed by the record's owner only. */
int nx_record_maps(nx_allocation *record);
void nx_record_set_maps(nx_allocation *record, int maps);

uint64_t nx_record_align(nx_allocation *record);

/* Set a record that the caller has just taken, and show it: ALLOCATING. Returns its handle. */
uint64_t nx_record_begin(nx_allocation *record, nxmem_allocator owner, uint64_t bytes, uint64_t align);

/* A record as its allocation was found when it was claimed: none of it changes until the claim ends. */
typedef struct nx_claimed {
  nx_allocation *record;
  uint64_t id;
  uint8_t *ptr;
  uint64_t bytes;
  uint64_t align;
} nx_claimed;

/* The same of a record that the caller owns already. */
nx_claimed nx_record_look(nx_allocation *record);

/* As the plugin knows it. */
NxmemAllocation nx_claimed_describe(const nx_allocator *allocator, const nx_claimed *claimed);

/*
 * Claim the allocation that is named: LIVE, nobody using it, of that allocator, and as it is said to be; then it is in state `to` and the caller's alone.
 * *out is written on NXMEM_OK only. STALE_HANDLE, WRONG_OWNER, MISMATCH, BUSY, QUARANTINED: nothing changed.
 */
nxmem_result nx_record_claim(const nx_naming *naming, nxmem_slot_state to, nx_allocation **out, nxmem_error *error);
nxmem_result nx_record_claim_found(const nx_naming *naming, nxmem_slot_state to, nx_claimed *out, nxmem_error *error);

/* The same of a record that was looked up by the handle. */
nxmem_result nx_record_claim_at(nx_allocation *record, const nx_naming *naming, nxmem_slot_state to, nx_claimed *out,
                                nxmem_error *error);

/* Does a record say that it belongs to an allocator's slot? While it is live no other allocator has that slot. */
int nx_record_is_of(nx_allocation *record, uint64_t allocator);

/*
 * Pin it instead: one more user of a LIVE word, beside others; what is pinned is claimed by nobody. Given back through the word (nxmem/pin.h). *out is written on
 * NXMEM_OK only. What nx_record_claim() answers; BUSY where there are as many users as can be counted.
 */
nxmem_result nx_record_pin(const nx_naming *naming, nx_allocation **out, nxmem_error *error);

/* Claim a record for its owner, from `state` to RELEASING; 0 where it is in another state or another allocator's. */
int nx_record_claim_owned(nx_allocation *record, nxmem_allocator owner, nxmem_slot_state state);

#endif /* NX_RECORD_H */
