/*
 * recorder.h: a host's callbacks that record what a scripted plugin brings, and helpers to drive queued releases.
 *
 * Attackers played: none.
 * Promise: what arrives is copied whole, in order; what it answers is the test's to say.
 */
#ifndef NXMEM_TESTS_RECORDER_H
#define NXMEM_TESTS_RECORDER_H

#include "plugin.h"

enum { RECORDED_MAX = 64 };

/* Its address is the host_ctx. Not for several threads at once. */
typedef struct recorder {
  NxmemHostCallbacks callbacks;
  uint32_t completion_answer; /* a status code */
  uint32_t reclaim_answer;
  uint64_t reclaimed; /* written by request_reclaim where the answer is OK */
  uint64_t completions;
  uint64_t reclaims;
  NxmemReleaseCompletion completion[RECORDED_MAX];
  NxmemReclaimRequest reclaim[RECORDED_MAX];
  void *host_ctx[RECORDED_MAX];       /* that came with each completion */
  void (*inside)(struct recorder *r); /* called from inside release_completed */
  const NxmemAllocatorVtable *table;  /* for `inside` */
} recorder;

/* Answers OK to completions, BUSY to reclaims. */
void recorder_start(recorder *r);

/* Open the found mechanism with these callbacks, which must succeed. */
const NxmemAllocatorVtable *recorder_open(recorder *r, const plugin *p);

/* Enqueue, which must succeed; the ticket. */
uint64_t enqueue(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation);

/* Drain, which must succeed; the number it says. */
uint64_t drain(const NxmemAllocatorVtable *table, uint64_t max);

uint64_t pending(const NxmemAllocatorVtable *table);

/* The five numbers of the report. */
void assert_report(const plugin *p, uint64_t allocators, uint64_t allocations, uint64_t views, uint64_t prefixes,
                   uint64_t queued);

/* A completion that is true: whole, OK, of this allocation under this ticket. */
void assert_true_completion(const NxmemReleaseCompletion *completion, const NxmemAllocation *allocation,
                            uint64_t ticket);

#endif /* NXMEM_TESTS_RECORDER_H */
