/*
 * fuzz_plugin.h: a plugin whose every answer is somebody else's: its exports and slots ask a table in the program.
 * Attackers: none by itself; the program's table is as hostile as the input says.
 * Promise: the slots lie in the library, so that a call after it was unmapped is a crash.
 */
#ifndef NXMEM_FUZZ_PLUGIN_H
#define NXMEM_FUZZ_PLUGIN_H

#include "nxmem_memory_abi.h"

/* The slots of each table; all other fields are unused. */
typedef struct fuzz_slots {
  NxmemAllocatorFactoryVtable factory;
  NxmemAllocatorVtable allocator;
  NxmemVirtualBackingVtable backing;
  NxmemSharedMappingVtable sharing;
} fuzz_slots;

typedef struct fuzz_hooks {
  /* What the library offers to be put into tables; told at each negotiation, valid until the library goes. */
  NxmemStatus (*negotiate)(const fuzz_slots *own, const NxmemNegotiateRequest *request,
                           NxmemNegotiateResponse *response);
  NxmemStatus (*create_factories)(const NxmemAllocatorFactoryVtable **out, uint64_t max, uint64_t *count_out);
  NxmemStatus (*query_unload)(NxmemUnloadReport *report_out);
  fuzz_slots slots; /* what the library's slots call */
} fuzz_hooks;

/* The program exports it under this name; the library leaves it undefined. */
extern __attribute__((visibility("default"))) const fuzz_hooks nxmem_fuzz_hooks;

#endif /* NXMEM_FUZZ_PLUGIN_H */
