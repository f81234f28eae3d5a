/*
 * driver.h: the operations that the engine needs of whatever really owns pages. The engine never knows which driver it has.
 *
 * Attackers: a driver that fails at any call, at any time, in any way that nx_vmm_outcome has; a context that another thread made current.
 * Promise: a driver says what happened, never what should be done about it; after every outcome but DONE and LOST nothing of its own has changed.
 */
#ifndef NX_VMM_DRIVER_H
#define NX_VMM_DRIVER_H

#include <stdint.h>

typedef enum nx_vmm_outcome {
  NX_VMM_DONE = 0,
  NX_VMM_PENDING = 1,   /* of mark_state only: work that was there before the mark still runs */
  NX_VMM_NO_MEMORY = 2, /* may work once memory was given back */
  NX_VMM_REFUSED = 3,   /* for any other reason */
  NX_VMM_CAPTURING = 4, /* a graph capture forbids the call now */
  NX_VMM_UNBOUND = 5,   /* the context could not be made current: nothing was called */
  NX_VMM_LOST = 6,      /* sticky: no call works any more, and none of the device's memory may be touched again */
  NX_VMM_SHUT_DOWN = 7  /* the driver ends with the process: what it held is gone */
} nx_vmm_outcome;

/* What a call answered. The strings are the driver's and never freed. */
typedef struct nx_vmm_answer {
  uint32_t outcome; /* nx_vmm_outcome */
  int32_t code;     /* the driver's own: an errno, a CUresult; 0 with DONE */
  const char *call; /* which call of the driver it was; NULL with DONE */
  const char *name; /* what the driver calls that code; NULL where it has no name */
} nx_vmm_answer;

typedef enum nx_vmm_access { NX_VMM_READ_ONLY = 1, NX_VMM_READ_WRITE = 3 } nx_vmm_access;

/* Asked once, when an engine is opened. Nothing in it is judged by the driver: the engine refuses what it cannot use. */
typedef struct nx_vmm_device {
  uint64_t granularity_minimum;     /* bytes, as the device says */
  uint64_t granularity_recommended; /* bytes, as the device says */
  uint64_t memory_bytes; /* physical memory of the device; the first rung of the reservation is a multiple of it */
} nx_vmm_device;

/*
 * One device of one driver. `self` is given to every operation, unchanged. Addresses and byte counts are multiples of the granularity the engine chose.
 * Operations may come from any thread; those between bind and unbind come from the thread that bound.
 */
typedef struct nx_vmm_driver {
  void *self;

  nx_vmm_answer (*describe)(void *self, nx_vmm_device *out);

  /* Make the device's context current for this thread, and the one that was current before. Not nested. */
  nx_vmm_answer (*bind)(void *self);
  nx_vmm_answer (*unbind)(void *self);

  /* Address space, no memory. */
  nx_vmm_answer (*reserve)(void *self, uint64_t bytes, uint64_t align, uint64_t *address_out);
  nx_vmm_answer (*unreserve)(void *self, uint64_t address, uint64_t bytes);

  /* One physical handle. It may be destroyed while it is mapped: its bytes go with the last mapping. */
  nx_vmm_answer (*create)(void *self, uint64_t bytes, uint64_t *handle_out);
  nx_vmm_answer (*destroy)(void *self, uint64_t handle);

  /* A whole handle at an address that nothing is mapped at; accessible only after set_access. */
  nx_vmm_answer (*map)(void *self, uint64_t address, uint64_t bytes, uint64_t handle);
  /* A run of whole mappings, side by side. */
  nx_vmm_answer (*unmap)(void *self, uint64_t address, uint64_t bytes);
  nx_vmm_answer (*set_access)(void *self, uint64_t address, uint64_t bytes, nx_vmm_access access);

  /*
   * A mark stands behind all work that was given to the device's streams before it. mark_state never waits: DONE, PENDING, or what went wrong.
   * A mark is dropped exactly once, whatever its state; a drop that did not answer DONE may be tried again.
   */
  nx_vmm_answer (*mark)(void *self, uint64_t *mark_out);
  nx_vmm_answer (*mark_state)(void *self, uint64_t mark);
  nx_vmm_answer (*drop_mark)(void *self, uint64_t mark);

  /* The last call: gives back what opening took. Not called after LOST. */
  void (*close)(void *self);
} nx_vmm_driver;

/*
 * What a plugin offers, one for each factory. Both plugins define nx_vmm_offers(); everything else of a module (its three exports, factories, allocators, capability
 * tables) is the engine's and is the same in both.
 */
typedef struct nx_vmm_offer nx_vmm_offer;
struct nx_vmm_offer {
  const char *name;              /* the mechanism's, NUL-terminated */
  uint64_t mechanism_id;         /* not 0 */
  uint32_t tier, index;          /* NxmemDeviceId */
  uint64_t capabilities;         /* NXMEM_CAP_..., at most these */
  uint64_t ladder_floor_bytes;   /* the first rung is at least this */
  uint64_t ladder_minimum_bytes; /* the last rung */
  uint64_t pool_bytes;           /* bound of the pool of physical handles; 0: none */
  /*
   * Find the device and fill `out`; anything but DONE: `why` (room for 200 bytes, NUL-terminated) says what was found and what was needed, and nothing is owed.
   * REFUSED with UNSUPPORTED in `unsupported_out` set to 1: the machine lacks it (no driver, no device, no support); 0: it is there and failed.
   */
  nx_vmm_answer (*open)(const nx_vmm_offer *offer, nx_vmm_driver *out, int *unsupported_out, char why[200]);
};

/* The offers of this module, at most 64; they live as long as it is mapped. Called when factories are made, which may be more than once. */
uint32_t nx_vmm_offers(const nx_vmm_offer **out);

#endif /* NX_VMM_DRIVER_H */
