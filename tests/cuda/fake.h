/*
 * fake.h: the simulated driver in a test's hands: its entry points, its helpers, and the plugin's exports beside the contract.
 *
 * Attackers: none.
 * Promise: what a test asks for is there, or the test ends with what is missing; LD_LIBRARY_PATH leads to the simulator.
 */
#ifndef TESTS_CUDA_FAKE_H
#define TESTS_CUDA_FAKE_H

#include "cuda_load.h"
#include "fakecuda.h"
#include "support.h"

typedef struct nx_fake {
  nx_cuda_calls cu;
  fakecuda_count_fn *count;
  fakecuda_schedule_fn *schedule;
  fakecuda_calls_fn *calls;
  fakecuda_log_fn *log;
  fakecuda_clear_log_fn *clear_log;
  fakecuda_complete_fn *complete;
  fakecuda_store_fn *store;
  fakecuda_name_fn *name;
} nx_fake;

/* Loaded once; the same for all. */
const nx_fake *nx_fake_driver(void);

/* An entry point that the plugin does not use: of cuGetProcAddress, into a pointer of the right type. */
void nx_fake_entry(const char *name, void *function_out, size_t size);

fakecuda_counts nx_fake_counts(void);
void nx_fake_schedule(const char *text);

/* Nothing but retained contexts (that many) is held, and no rule was broken since `before`. */
void nx_fake_assert_clean(const fakecuda_counts *before);

/* Device 0's primary context, retained and current; and back. */
void nx_fake_enter(int device);
void nx_fake_leave(int device);

/* The kind of memory that the plugin creates. */
nx_cuda_prop nx_fake_prop(int device);

#endif /* TESTS_CUDA_FAKE_H */
