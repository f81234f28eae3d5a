/*
 * puppet.h: a plugin played by the test: honest until a row changes what it says, and calling the test back from inside
 * every slot.
 *
 * Attackers: the rows.
 * Promise: every call is counted, with the order of releases and of the module's end.
 */
#ifndef TESTS_HOST_PUPPET_H
#define TESTS_HOST_PUPPET_H

#include <pthread.h>
#include <stdatomic.h>

#include "hosttest.h"
#include "puppet_module.h"

enum { NX_PUPPET_FACTORIES = 80, NX_PUPPET_QUEUE = 64 };

/* A release that was queued with the puppet. */
typedef struct nx_puppet_queued {
  NxmemAllocation allocation;
  uint64_t ticket;
} nx_puppet_queued;

/* Where the test is called back from. */
typedef enum nx_place_inside {
  NX_IN_CONSTRUCTOR,
  NX_IN_NEGOTIATE,
  NX_IN_CREATE,
  NX_IN_QUERY,
  NX_IN_OPEN,
  NX_IN_ALLOCATE,
  NX_IN_DEALLOCATE,
  NX_IN_RELEASE_ALLOCATION,
  NX_IN_RELEASE,
  NX_IN_FACTORY_RELEASE,
  NX_IN_DESTRUCTOR,
  NX_IN_ENQUEUE,
  NX_IN_DRAIN,
  NX_IN_PENDING,
  NX_PLACES_INSIDE
} nx_place_inside;

typedef struct nx_puppet {
  nx_puppet_hooks hooks;

  /* Called first thing in every place; NULL: nothing. */
  void (*inside)(nx_place_inside place);

  /* Several threads will be inside: what the host asked is counted, not recorded. */
  int concurrent;

  /* Negotiation. */
  uint32_t negotiate_code;
  NxmemNegotiateResponse response; /* copied whole into the host's */
  int leave_response;              /* nothing is written */
  NxmemNegotiateRequest request;   /* what the host asked */

  /* The list. */
  uint32_t create_code;
  NxmemAllocatorFactoryVtable factories[NX_PUPPET_FACTORIES];
  const NxmemAllocatorFactoryVtable *entries[NX_PUPPET_FACTORIES];
  uint32_t written; /* entries written */
  uint64_t count;   /* count reported */
  int leave_count;
  int room_was_zero; /* the host's array was zeroed before the call */
  uint64_t room;

  /* The report; by default what is really live. */
  uint32_t query_code;
  NxmemUnloadReport report;
  int own_report; /* `report` as it is */

  /* Opening. */
  NxmemStatus open_answer;
  NxmemAllocatorVtable table;
  NxmemVirtualBackingVtable backing;
  NxmemSharedMappingVtable sharing;
  const NxmemAllocatorVtable *published;
  NxmemOpenRequest open_request;
  const NxmemHostCallbacks *callbacks; /* of the last open */

  /* Answers of the slots; unless set, honest. */
  uint32_t allocate_code;
  uint8_t *address; /* instead of real memory */
  int own_numbers;
  uint64_t owned, mapped;
  NxmemStatus release_answer;
  int own_release;                 /* `release_answer` and `outcome` */
  NxmemReleaseOutcome outcome;     /* copied whole */
  int leave_out_records;           /* OK with nothing written */
  NxmemAllocRequest alloc_request; /* the last one */
  NxmemAllocation released;        /* what the last release named */

  /* The queue; unless set, honest: first in, first out, and a drain completes through `callbacks`. */
  uint32_t enqueue_code; /* answered behind `inside`, and nothing is queued */
  int leave_ticket;      /* queued, with OK and no ticket written */
  uint32_t drain_code;
  int own_retired; /* `retired` is reported, whatever was */
  uint64_t retired;
  int idle_drain;    /* nothing is retired */
  uint64_t drip;     /* not 0: at most so many are retired by one drain */
  int leave_retired; /* nothing is written */
  uint32_t pending_code;
  int own_pending;
  uint64_t pending;
  int leave_pending;
  uint64_t last_max; /* what the last drain was asked for */
  pthread_mutex_t queue_lock;
  nx_puppet_queued queue[NX_PUPPET_QUEUE];
  uint32_t queued;
  uint64_t last_ticket;

  /* Counts. */
  _Atomic uint64_t calls[NX_PLACES_INSIDE];
  _Atomic uint64_t factory_releases[NX_PUPPET_FACTORIES];
  _Atomic uint64_t foreign_contexts; /* a slot was given another ctx than its table's */
  _Atomic uint64_t after_the_end;    /* calls behind the module's destructor */
  _Atomic int64_t live_allocators;
  _Atomic int64_t live_allocations;
} nx_puppet;

extern nx_puppet puppet;

/* Honest again: one factory "puppet" on host device 0; all counts zero. No puppet module is mapped any more. */
void nx_puppet_reset(void);

/* A fresh module whose exports are the puppet's. */
const char *nx_puppet_copy(void);

uint64_t nx_puppet_calls(nx_place_inside place);
uint64_t nx_puppet_factory_releases(void); /* of all factories together */

NxmemStatus nx_puppet_status(uint32_t code);

/* An honest completion of a queued release. */
NxmemReleaseCompletion nx_puppet_completion(const nx_puppet_queued *queued);

uint32_t nx_puppet_queue_length(void);

/* The first of the queue; 0 where it is empty. */
int nx_puppet_pop(nx_puppet_queued *out);

/* Give the memory back and complete the first of the queue; what the host answered. */
uint32_t nx_puppet_retire(void);

/* Bring a completion through the last opened allocator's table; what the host answered. */
uint32_t nx_puppet_complete(const NxmemReleaseCompletion *completion);

/* A message that is longer than its buffer claims, not terminated, not UTF-8, and would steer a terminal. */
NxmemStatus nx_puppet_ugly_status(uint32_t code);

/* Open the puppet's file, its mechanism, and the way back; all must succeed. */
typedef struct nx_stage {
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
  const char *path;
} nx_stage;

nx_stage nx_stage_set(nxmem_fetch_mode mode);
void nx_stage_strike(nx_stage *stage);

#endif /* TESTS_HOST_PUPPET_H */
