/*
 * workload.h: one run of everything that a program does with cudavmm, while the simulated driver fails as scheduled; and what must hold afterwards.
 *
 * Attackers played: a driver that fails once, at any call, with any result.
 * Promise: each broken promise is printed by name; a step that failed is taken again.
 */
#ifndef FAKECUDA_WORKLOAD_H
#define FAKECUDA_WORKLOAD_H

#include "fakecuda.h"
#include "nxmem.h"
#include "nxmem_vmm.h"

#define NX_GRANULE (2ull << 20)

typedef uint32_t nx_statistics_fn(uint64_t mechanism_id, uint32_t tier, uint32_t index, NxmemVmmStats *stats);

typedef struct nx_work {
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
  nx_statistics_fn *statistics;
  fakecuda_count_fn *count;
  fakecuda_mapped_fn *mapped;
  uint64_t refused;     /* steps that were */
  uint64_t quarantined; /* steps that answered so */
  uint64_t flags;       /* what the open allocator offers: a fault in its probe strikes a capability */
  int told_lost;        /* the plugin says that the device is */
  int broken;           /* promises */
} nx_work;

/* 1 where the step succeeded; a refusal is counted and told on standard error. */
int nx_step(nx_work *work, const char *what, nxmem_result result, const nxmem_error *error);
/* A promise that does not hold. */
void nx_broken(nx_work *work, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether the driver still serves: neither lost nor ended. */
int nx_serves(const nx_work *work);

/* workload_books.c: figures of the open mechanism, 0 where there are none; */
int nx_figures(const nx_work *work, NxmemVmmStats *stats);
/* the driver's figures against the plugin's and the host's; `shared`: a prefix is there. */
void nx_compare(nx_work *work, const char *where, int shared);
/* An allocation maps what it says, and nothing else is mapped in its place. */
void nx_compare_place(nx_work *work, nxmem_allocation allocation, uint64_t bytes);

/* workload_steps.c: each once; what it made it has given back, where that was not refused. */
void nx_run_commits(nx_work *work);
void nx_run_sharing(nx_work *work);
void nx_run_deferred(nx_work *work);
void nx_run_blocks(nx_work *work);

#endif /* FAKECUDA_WORKLOAD_H */
