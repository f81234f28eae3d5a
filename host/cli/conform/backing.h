/*
 * backing.h: reserved blocks and ranges of them, for the families about virtual backing and shared mapping.
 * Attackers: the plugin's answers.
 * Promise: a slot that is NULL makes a rule not applicable; what a rule does not judge ends it as "could not tell".
 */
#ifndef NXMEM_CONFORM_BACKING_H
#define NXMEM_CONFORM_BACKING_H

#include "conform/slots.h"

enum { NX_RANGE_REQUEST_BYTES = 80 };

typedef struct nx_reserve {
  nx_opened opened;
  nx_block block;
  uint64_t granule; /* what one byte at offset 0 costs */
} nx_reserve;

/* Ends the trial as not applicable. */
void nx_needs_slot(int present, const char *name);

NxmemStatus nx_allocate_committed(const nx_opened *opened, const NxmemAllocRequest *request, NxmemAllocResult *result);
NxmemStatus nx_commit(const nx_opened *opened, const NxmemRangeRequest *request);
NxmemStatus nx_decommit(const nx_opened *opened, const NxmemRangeRequest *request, uint64_t *unmapped);
NxmemStatus nx_mapped_for(const nx_opened *opened, const NxmemRangeRequest *requests, uint64_t count, uint64_t *mapped);
NxmemStatus nx_committed(const nx_opened *opened, const NxmemAllocation *allocation, uint64_t *committed);

NxmemRangeRequest nx_range_of(const nx_block *block, uint64_t offset, uint64_t bytes);

/* An open and a block of `granules` granules, nothing committed. */
nx_reserve nx_reserve_ready(nx_trial *trial, uint64_t granules);

/* A block reserved without memory where the mechanism can, else a plain one. */
nx_block nx_reserve_block(const nx_opened *opened, uint64_t bytes);

void nx_must_commit(const nx_reserve *reserve, uint64_t offset, uint64_t bytes);
uint64_t nx_must_decommit(const nx_reserve *reserve, uint64_t offset, uint64_t bytes);
uint64_t nx_committed_now(const nx_reserve *reserve);

#endif /* NXMEM_CONFORM_BACKING_H */
