/*
 * staging.h: holding a thread inside the plugin until the test lets it go.
 *
 * Attackers: none.
 * Promise: when hold_wait returns, the thread stands in that place and nowhere else.
 */
#ifndef TESTS_HOST_STAGING_H
#define TESTS_HOST_STAGING_H

#include <pthread.h>
#include <semaphore.h>

#include "puppet.h"

/* A call made on a thread of its own. */
typedef struct nx_call {
  pthread_t thread;
  void (*run)(struct nx_call *call);
  nx_stage *stage;
  nxmem_result result;
  nxmem_allocation allocation;
  nxmem_allocator allocator;
  nxmem_plugin plugin;
  const char *path;
} nx_call;

/* The next thread that comes to `place` stops there, once. */
void nx_hold_at(nx_place_inside place);
void nx_hold_wait(void);
void nx_hold_let_go(void);

void nx_call_start(nx_call *call);
nxmem_result nx_call_join(nx_call *call);

/* Ready-made calls on the stage's objects. */
void nx_call_allocate(nx_call *call);
void nx_call_release(nx_call *call); /* of call->allocation */
void nx_call_close(nx_call *call);
void nx_call_open_allocator(nx_call *call);
void nx_call_unload(nx_call *call);
void nx_call_open_plugin(nx_call *call); /* call->path */

#endif /* TESTS_HOST_STAGING_H */
