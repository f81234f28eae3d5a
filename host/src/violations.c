/*
 * violations.c: how often, and the latest ones with their numbers.
 *
 * Attackers: a plugin that commits one violation after another, on many threads, also after its host is gone.
 * Promise: the count never wraps; the log is bounded, holds the latest ones whole, and is never written for another
 * host.
 */
#include "violations.h"

#include <pthread.h>
#include <string.h>

#include "deferred.h"
#include "error.h"
#include "nxmem/count.h"
#include "nxmem/handle.h"

/* A leaf: protects the logs of all hosts. Only refusals take it. */
static pthread_mutex_t violations_lock = PTHREAD_MUTEX_INITIALIZER;

static void note_locked(nx_host *host, nxmem_allocator allocator, uint64_t mechanism_id, nxmem_verdict v) {
  const uint64_t number = nxmem_count_up(atomic_load(&host->violations));
  host->latest[(number - 1u) % NXMEM_VIOLATIONS_KEPT] = (nxmem_violation){.number = number,
                                                                          .allocator = allocator,
                                                                          .mechanism_id = mechanism_id,
                                                                          .reason = v.reason,
                                                                          .field = v.field,
                                                                          .found = v.found,
                                                                          .needed = v.needed};
  atomic_store(&host->violations, number);
}

/*
 * The host is looked up under the lock: a host that gets a slot anew is reset under it, so nothing of its
 * predecessor's arrives later.
 */
static void note(nx_allocator *a, nxmem_verdict v, int callback) {
  const uint64_t handle = atomic_load_explicit(&a->host, memory_order_relaxed);
  const nxmem_allocator allocator = {nx_slot_handle(&a->slot)};
  const uint64_t mechanism_id = nx_mechanism_of(a);
  pthread_mutex_lock(&violations_lock);
  nx_host *host = nx_host_of(handle);
  note_locked(host, allocator, mechanism_id, v);
  if (callback) nx_count(&host->refused_callbacks);
  pthread_mutex_unlock(&violations_lock);
}

void nx_violation(nx_allocator *allocator, nxmem_verdict verdict) { note(allocator, verdict, 0); }

void nx_violation_by_callback(nx_allocator *allocator, nxmem_verdict verdict) { note(allocator, verdict, 1); }

void nx_violation_of_host(nx_host *host, uint64_t mechanism_id, nxmem_verdict verdict) {
  pthread_mutex_lock(&violations_lock);
  note_locked(host, (nxmem_allocator){0}, mechanism_id, verdict);
  pthread_mutex_unlock(&violations_lock);
}

void nx_violations_reset(nx_host *host) {
  pthread_mutex_lock(&violations_lock);
  atomic_store(&host->violations, 0);
  atomic_store(&host->refused_callbacks, 0);
  memset(host->latest, 0, sizeof host->latest);
  pthread_mutex_unlock(&violations_lock);
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint32_t copy_latest(nx_host *host, nxmem_violation *out, uint32_t room) {
  pthread_mutex_lock(&violations_lock);
  const uint64_t last = atomic_load(&host->violations);
  const uint32_t n = (uint32_t)smaller(smaller(last, NXMEM_VIOLATIONS_KEPT), room);
  for (uint32_t i = 0; i < n; i++) out[i] = host->latest[(last - n + i) % NXMEM_VIOLATIONS_KEPT];
  pthread_mutex_unlock(&violations_lock);
  return n;
}

nxmem_result nxmem_host_violations(nxmem_host handle, nxmem_violation *out, uint32_t room, uint32_t *count_out,
                                   nxmem_error *error) {
  if (count_out == NULL || (out == NULL && room != 0))
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "host violations: out or count_out is NULL");
  nx_host *host = NULL;
  const nxmem_result found = nx_host_find(handle, &host, error);
  if (found != NXMEM_OK) return found;
  *count_out = copy_latest(host, out, room);
  return NXMEM_OK;
}
