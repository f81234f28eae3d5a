/*
 * scripted_fatal.c: mechanisms against which no host in the same process is safe: they end it, stop it, write where they
 * may not, or are not fit for threads. Drive them in a process of their own.
 *
 * Attackers: these are.
 * Promise: each does it in the one slot that its name says, and nothing before.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scripted_calls.h"
#include "scripted_mechanisms.h"
#include "scripted_queue.h"

enum { EXIT_CODE = 0, SCRIBBLED = 8, GROWTH = 4096, A_MILLISECOND = 1000000 };

/* ---- The end of the process -------------------------------------------------------------------------------------- */

static void crash(void) { raise(SIGSEGV); }

static void hang(void) {
  for (;;) pause();
}

static NxmemStatus open_crashing(const NxmemAllocatorVtable **out) {
  (void)out;
  crash();
  return nx_ok();
}
static NxmemStatus open_exiting(const NxmemAllocatorVtable **out) {
  (void)out;
  exit(EXIT_CODE);
}
static NxmemStatus open_hanging(const NxmemAllocatorVtable **out) {
  (void)out;
  hang();
  return nx_ok();
}
static NxmemStatus allocate_crashing(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  crash();
  return nx_allocate(ctx, request, result_out);
}
static NxmemStatus allocate_aborting(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  (void)ctx, (void)request, (void)result_out;
  abort();
}
static NxmemStatus allocate_exiting(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  (void)ctx, (void)request, (void)result_out;
  exit(EXIT_CODE);
}
static NxmemStatus allocate_hanging(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  hang();
  return nx_allocate(ctx, request, result_out);
}
static NxmemStatus deallocate_crashing(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  crash();
  return nx_deallocate(ctx, allocation, unmapped_out);
}
static NxmemStatus drain_hanging(void *ctx, uint64_t max, uint64_t *retired_out) {
  hang();
  return nx_drain_releases(ctx, max, retired_out);
}
static void release_crashing(nx_allocator *allocator) {
  (void)allocator;
  crash();
}

/* ---- What is not seen at once ------------------------------------------------------------------------------------ */

/* A record longer than its caller's: the bytes behind it are the caller's own. */
static NxmemStatus allocate_scribbling(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus done = nx_allocate(ctx, request, result_out);
  if (done.code == NXMEM_STATUS_OK) memset((uint8_t *)result_out + sizeof *result_out, 0, SCRIBBLED);
  return done;
}

/* Memory that each allocation takes and no release gives back, until the module goes. */
typedef struct growth {
  struct growth *next;
  uint8_t bytes[GROWTH];
} growth;
static pthread_mutex_t grown_lock = PTHREAD_MUTEX_INITIALIZER;
static growth *grown;

static NxmemStatus allocate_growing(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  const NxmemStatus done = nx_allocate(ctx, request, result_out);
  growth *more = done.code == NXMEM_STATUS_OK ? malloc(sizeof *more) : NULL;
  if (more == NULL) return done;
  memset(more->bytes, 1, sizeof more->bytes); /* touched, so that it shows */
  pthread_mutex_lock(&grown_lock);
  more->next = grown;
  grown = more;
  pthread_mutex_unlock(&grown_lock);
  return done;
}

__attribute__((destructor)) static void shrink(void) {
  while (grown != NULL) {
    growth *less = grown;
    grown = less->next;
    free(less);
  }
}

/* What is given back still counts as live. */
static NxmemStatus deallocate_losing_count(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  const NxmemStatus done = nx_deallocate(ctx, allocation, unmapped_out);
  if (done.code == NXMEM_STATUS_OK) nx_count(NX_PROBE_LIVE_ALLOCATIONS);
  return done;
}

/* ---- Not fit for threads ----------------------------------------------------------------------------------------- */

/* A second thread inside is turned away. */
static NxmemStatus allocate_alone(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  static atomic_int inside;
  const struct timespec a_moment = {0, A_MILLISECOND};
  if (atomic_exchange(&inside, 1) != 0) return nx_status(NXMEM_STATUS_BUSY, "one at a time");
  nanosleep(&a_moment, NULL);
  const NxmemStatus done = nx_allocate(ctx, request, result_out);
  atomic_store(&inside, 0);
  return done;
}

/* Asks the host with a lock held: where the host comes back on the same thread, both wait for ever. */
static NxmemStatus allocate_locking(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&held);
  if (ctx != NULL) (void)nx_ask_for_memory(ctx, GROWTH, NULL);
  const NxmemStatus done = nx_allocate(ctx, request, result_out);
  pthread_mutex_unlock(&held);
  return done;
}

/* ---- The rows --------------------------------------------------------------------------------------------------- */

#define SPOIL(by, slot) \
  static void spoil_##by(NxmemAllocatorVtable *table) { table->slot = (by); }
SPOIL(allocate_crashing, allocate)
SPOIL(allocate_aborting, allocate)
SPOIL(allocate_exiting, allocate)
SPOIL(allocate_hanging, allocate)
SPOIL(deallocate_crashing, deallocate)
SPOIL(drain_hanging, drain_releases)
SPOIL(allocate_scribbling, allocate)
SPOIL(allocate_growing, allocate)
SPOIL(deallocate_losing_count, deallocate)
SPOIL(allocate_alone, allocate)
SPOIL(allocate_locking, allocate)

#define PLAIN(row_name, by) \
  { NX_HONEST(row_name, NXMEM_CAP_ALLOCATOR), .spoil = spoil_##by }
static const nx_mechanism rows[] = {
    {NX_HONEST("crashes-in-open", NX_CAPS), .open = open_crashing},
    {NX_HONEST("exits-in-open", NX_CAPS), .open = open_exiting},
    {NX_HONEST("hangs-in-open", NX_CAPS), .open = open_hanging},
    PLAIN("crashes-in-allocate", allocate_crashing),
    PLAIN("aborts-in-allocate", allocate_aborting),
    PLAIN("exits-in-allocate", allocate_exiting),
    PLAIN("hangs-in-allocate", allocate_hanging),
    PLAIN("crashes-in-deallocate", deallocate_crashing),
    {NX_HONEST("hangs-in-drain", NX_DEFERRED_CAPS), .spoil = spoil_drain_hanging},
    {NX_HONEST("crashes-in-release", NX_CAPS), .last_release = release_crashing},
    PLAIN("scribbles-past-result", allocate_scribbling),
    PLAIN("grows", allocate_growing),
    PLAIN("loses-count", deallocate_losing_count),
    PLAIN("one-at-a-time", allocate_alone),
    PLAIN("locks-across-callback", allocate_locking),
};
const nx_row_group nx_fatal_rows = NX_ROWS(rows);
