/*
 * vmm.h: drive the engine through its tables, as a host would, over the scripted driver.
 *
 * Attackers played: by the tests that include this.
 * Promise: every helper that says "must" asserts it; at the end of a case the driver must hold nothing and have seen no breach.
 */
#ifndef TESTS_VMM_VMM_H
#define TESTS_VMM_VMM_H

/* cmocka.h needs the four before it. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "nxmem/statistics.h"
#include "nxmem_memory_abi.h"
#include "scripted_driver.h"

#define NX_G 65536ull /* the scripted driver's granule, unless a test says otherwise */

enum { NX_TOLD_MAX = 64 };

typedef struct nx_vmm {
  const NxmemAllocatorVtable *table;
  NxmemHostCallbacks callbacks;
  uint64_t reclaims;
  NxmemReclaimRequest reclaim; /* the last */
  void (*on_reclaim)(struct nx_vmm *vmm);
  uint64_t told;
  NxmemReleaseCompletion completions[NX_TOLD_MAX];
} nx_vmm;

/* Set-up and tear-down of a case: *state is an nx_vmm that is open. Tear-down releases it, and nothing may be left. */
int nx_vmm_set_up(void **state);
int nx_vmm_tear_down(void **state);
#define NX_VMM_TEST(function) cmocka_unit_test_setup_teardown(function, nx_vmm_set_up, nx_vmm_tear_down)

NxmemStatus nx_vmm_open(nx_vmm *vmm, uint64_t required);
void nx_vmm_must_open(nx_vmm *vmm);
void nx_vmm_release(nx_vmm *vmm);
/* The device is lost, the allocator released: what could not be given back, or was not, is gone with the device. */
void nx_vmm_end_by_loss(nx_vmm *vmm);
uint32_t nx_vmm_report_code(NxmemUnloadReport *report);
/* No object of the driver is left, no breach was seen, the unload report and the figures are at zero. */
void nx_vmm_nothing_left(void);
void nx_vmm_no_breach(void);

NxmemUnloadReport nx_vmm_report(void);
NxmemVmmStats nx_vmm_stats(void);

NxmemAllocRequest nx_vmm_request(uint64_t id, uint64_t bytes, uint64_t align);
NxmemStatus nx_vmm_try(nx_vmm *vmm, int reserve, const NxmemAllocRequest *request, NxmemAllocation *out,
                       uint64_t *mapped_out);
NxmemAllocation nx_vmm_take(nx_vmm *vmm, uint64_t id, uint64_t bytes, uint64_t align);
NxmemAllocation nx_vmm_reserve(nx_vmm *vmm, uint64_t id, uint64_t bytes);
uint32_t nx_vmm_commit(nx_vmm *vmm, const NxmemAllocation *block, uint64_t offset, uint64_t bytes);
uint32_t nx_vmm_decommit(nx_vmm *vmm, const NxmemAllocation *block, uint64_t offset, uint64_t bytes,
                         uint64_t *unmapped_out);
uint64_t nx_vmm_committed(nx_vmm *vmm, const NxmemAllocation *block);
NxmemReleaseOutcome nx_vmm_give(nx_vmm *vmm, const NxmemAllocation *block, uint32_t *code_out);
void nx_vmm_must_give(nx_vmm *vmm, const NxmemAllocation *block);

NxmemSharedPrefixHandle nx_vmm_prefix(nx_vmm *vmm, uint64_t bytes);
uint32_t nx_vmm_share(nx_vmm *vmm, const NxmemSharedPrefixHandle *prefix, const NxmemAllocation *block, uint64_t offset,
                      NxmemSharedPrefixCommitInfo *info_out);
uint32_t nx_vmm_drop_prefix(nx_vmm *vmm, const NxmemSharedPrefixHandle *prefix);

uint32_t nx_vmm_enqueue(nx_vmm *vmm, const NxmemAllocation *block, uint64_t *ticket_out);
uint32_t nx_vmm_drain(nx_vmm *vmm, uint64_t *retired_out);

/* In a child process: does a store, or a load, at this address fault? */
int nx_store_faults(const void *address);
int nx_load_faults(const void *address);

/* The code, and that the message is whole and something. */
uint32_t nx_whole(NxmemStatus status);

#endif /* TESTS_VMM_VMM_H */
