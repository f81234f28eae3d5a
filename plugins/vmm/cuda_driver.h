/*
 * cuda_driver.h: one device of the CUDA driver behind driver.h, shared between the files of cudavmm.
 *
 * Attackers: a driver that fails at any call; another context current on the calling thread.
 * Promise: each answer of the driver becomes exactly one outcome, by one function.
 */
#ifndef NX_CUDA_DRIVER_H
#define NX_CUDA_DRIVER_H

#include <pthread.h>

#include "cuda_load.h"
#include "driver.h"

enum { NX_CUDA_DEVICES = 32, NX_CUDA_STREAMS = 256 };

/* An event, and its place in a mark or among the spare ones. */
typedef struct nx_cuda_cell nx_cuda_cell;
struct nx_cuda_cell {
  nx_cuda_cell *next;
  nx_cuda_event event;
};

typedef struct nx_cuda_events nx_cuda_events; /* what a mark is */

typedef struct nx_cuda nx_cuda;
struct nx_cuda {
  nx_cuda *next; /* in the list of those that were not closed */
  nx_cuda_calls calls;
  nx_cuda_device device;
  uint32_t index;
  nx_cuda_context context;
  nx_cuda_prop prop; /* what a physical handle is made of; the optional flag as the probe left it */
  size_t minimum, recommended, memory;
  pthread_mutex_t lock; /* the two lists below; a leaf */
  nx_cuda_cell *spare;  /* events of marks that could not be made: used again, destroyed at the end */
  nx_cuda_events *marks;
};

/* ---- cuda_answer.c ----------------------------------------------------------------------------------------------- */

/* What a result of `call` (the literal name of an entry point) means. */
nx_vmm_answer nx_cuda_answer(const nx_cuda *cuda, const char *call, nx_cuda_result result);
nx_vmm_answer nx_cuda_done(void);
/* Of a call that is not made, because the driver has ended. */
nx_vmm_answer nx_cuda_end(const char *call);
/* The same of a call that is not the driver's. */
nx_vmm_answer nx_cuda_no_room(void);

/* ---- cuda_driver.c ----------------------------------------------------------------------------------------------- */

/* Every operation for this device, which stays the caller's. */
void nx_cuda_table(nx_cuda *cuda, nx_vmm_driver *out);

/* ---- cuda_probe.c ------------------------------------------------------------------------------------------------ */

/* DONE: minimum and recommended are set. Flagged, with the context current: the optional flag is dropped where a trial of one granule fails with it. */
nx_vmm_answer nx_cuda_settle_plain(nx_cuda *cuda);
nx_vmm_answer nx_cuda_settle_flagged(nx_cuda *cuda, const nx_vmm_driver *table);

/* ---- cuda_streams.c ---------------------------------------------------------------------------------------------- */

nx_vmm_answer nx_cuda_mark(void *self, uint64_t *mark_out);
nx_vmm_answer nx_cuda_mark_state(void *self, uint64_t mark);
nx_vmm_answer nx_cuda_drop_mark(void *self, uint64_t mark);
/* All events, in nobody's use any more: with the context current they are destroyed, without it only their memory goes. */
void nx_cuda_drop_events(nx_cuda *cuda, int current);

/* ---- cudavmm.c --------------------------------------------------------------------------------------------------- */

/* How many devices the driver has, as last asked; at most NX_CUDA_DEVICES. */
uint32_t nx_cuda_device_count(void);
/* The operation `close`. */
void nx_cuda_close(void *self);

#endif /* NX_CUDA_DRIVER_H */
