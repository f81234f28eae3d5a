/*
 * What each thread that allocates has for itself: a stripe of the counters, and a few free records. Private to the host.
 *
 * The first 15 threads have a stripe each, which only they write; all later ones share the last. A thread's stripe and records go back when it ends; of one that
 * first came in its very last destructor, when threads that begin later find it gone.
 */
#ifndef NX_THREAD_H
#define NX_THREAD_H

#include "slots.h"

enum {
  NX_STRIPES = 16,
  NX_SHARED_STRIPE = NX_STRIPES - 1,
  NX_BATCH = 32, /* records fetched or given back at once */
  NX_CACHE = 2 * NX_BATCH
};

typedef struct nx_thread {
  uint32_t stripe;
  uint32_t room;                     /* NX_CACHE; 0 for threads without a cache */
  _Atomic uint32_t cached;           /* written last: who finds the thread gone reads it first */
  int32_t number, process;           /* the kernel's, of the thread */
  nx_table *table;                   /* the one that is cached */
  nx_slot *cache[NX_CACHE];          /* free slots of it */
  struct nx_thread *before, *behind; /* all there are, in a ring */
} nx_thread;

#if defined(__GNUC__)
#define NX_INITIAL_EXEC __attribute__((tls_model("initial-exec")))
#else
#define NX_INITIAL_EXEC
#endif

/* NULL until a thread first needs it. */
extern _Thread_local nx_thread *nx_thread_current NX_INITIAL_EXEC;

/* Set this thread up; without memory, or while it ends, it shares the last stripe and has no cache: from then on, so that what it counts in it counts out. */
NX_APART nx_thread *nx_thread_begin(void);

static inline nx_thread *nx_thread_self(void) {
  nx_thread *thread = nx_thread_current;
  return thread != NULL ? thread : nx_thread_begin();
}

/* As nx_table_take and the second half of nx_table_give. */
nx_slot *nx_thread_take(nx_thread *thread, nx_table *table);
void nx_thread_give(nx_thread *thread, nx_table *table, nx_slot *slot);

#endif /* NX_THREAD_H */
