/*
 * slots.h: an allocator's slots as an honest host calls them, and blocks taken and given back.
 * Attackers: the plugin's answers.
 * Promise: each call names its step; a refusal that the rule does not judge ends the trial as "could not tell".
 */
#ifndef NXMEM_CONFORM_SLOTS_H
#define NXMEM_CONFORM_SLOTS_H

#include "conform/expect.h"
#include "conform/plugin.h"

enum { NX_REQUEST_BYTES = 64, NX_RESULT_BYTES = 32, NX_ALLOCATION_BYTES = 56, NX_OUTCOME_BYTES = 296 };

/* What an out-number holds before the call. */
#define NX_UNWRITTEN UINT64_MAX

typedef struct nx_block {
  NxmemAllocation allocation; /* as the host would name it to a release */
  NxmemAllocResult result;
} nx_block;

/* Never twice in a child, never derived from an address. */
uint64_t nx_fresh_id(void);

NxmemAllocRequest nx_request(const nx_opened *opened, uint64_t bytes, uint64_t align);
NxmemAllocResult nx_blank_result(void);
NxmemReleaseOutcome nx_blank_outcome(void);
NxmemAllocation nx_allocation_of(const NxmemAllocRequest *request, const NxmemAllocResult *result);

NxmemStatus nx_allocate(const nx_opened *opened, const NxmemAllocRequest *request, NxmemAllocResult *result);
NxmemStatus nx_deallocate(const nx_opened *opened, const NxmemAllocation *allocation, uint64_t *unmapped);
NxmemStatus nx_release_allocation(const nx_opened *opened, const NxmemAllocation *allocation,
                                  NxmemReleaseOutcome *outcome);
NxmemStatus nx_enqueue(const nx_opened *opened, const NxmemAllocation *allocation, uint64_t *ticket);
NxmemStatus nx_drain(const nx_opened *opened, uint64_t max, uint64_t *retired);
uint64_t nx_pending(const nx_opened *opened);

/* A live block; nothing but the status and the address is looked at. */
nx_block nx_take(const nx_opened *opened, uint64_t bytes, uint64_t align);

/* Through deallocate. Returns what was reported as unmapped. */
uint64_t nx_give(const nx_opened *opened, const nx_block *block);

/* Fails the rule where the block cannot be given back any more. */
void nx_still_live(const nx_opened *opened, const nx_block *block, const char *after);

/* Whether the CPU may touch what the mechanism hands out. */
int nx_may_touch(const nx_opened *opened);

#endif /* NXMEM_CONFORM_SLOTS_H */
