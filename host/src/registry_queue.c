/*
 * registry_queue.c: queues of prepared releases.
 *
 * Attackers: callers that push one release twice, into two queues, or into one that closes; owners that go away with a full queue.
 * Promise: a release is in one queue at most; one that is refused is untouched; what stands in a queue that is destroyed is kept, not lost.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "error.h"
#include "nxmem/handle.h"
#include "registry_members.h"
#include "registry_prepared.h"

enum { ROOM_MAX = 65536 };

typedef struct release_queue {
  nx_slot slot;
  nx_counter pins; /* calls at it */
  _Atomic uint64_t registry;
  pthread_mutex_t lock; /* a leaf: nothing is executed or kept under it */
  uint64_t *ring;       /* owned; ids. All below under the lock */
  uint32_t room, first, count;
  int closing;
} release_queue;

static nx_table queues = NX_TABLE(release_queue, 4);

nxmem_result nxmem_release_queue_create(nxmem_registry registry, uint32_t room, nxmem_release_queue *out,
                                        nxmem_error *error) {
  if (out == NULL || room == 0 || room > ROOM_MAX)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "create release queue: found room %" PRIu32 ", needed 1 to %d%s",
                   room, (int)ROOM_MAX, out == NULL ? "; out is NULL" : "");
  nx_registry *r = NULL;
  const nxmem_result entered = nx_registry_enter(registry, &r, error);
  if (entered != NXMEM_OK) return entered;
  uint64_t *ring = calloc(room, sizeof *ring);
  release_queue *q = ring == NULL ? NULL : (release_queue *)(void *)nx_table_take(&queues);
  if (q == NULL) {
    free(ring);
    nx_registry_leave(r);
    return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "create release queue: no memory for %" PRIu32 " releases", room);
  }
  (void)pthread_mutex_init(&q->lock, NULL);
  atomic_store_explicit(&q->registry, registry.id, memory_order_relaxed);
  q->ring = ring;
  q->room = room;
  q->first = q->count = 0;
  q->closing = 0;
  out->id = nx_slot_handle(&q->slot);
  nx_slot_show(&q->slot, out->id, NXMEM_SLOT_LIVE);
  return NXMEM_OK;
}

static nxmem_result enter(nxmem_release_queue handle, release_queue **out, nxmem_error *error) {
  release_queue *q = (release_queue *)(void *)nx_table_find(&queues, handle.id);
  if (q == NULL || nx_is_forked()) return nx_member_unknown("release queue", error);
  const nxmem_result r = nx_member_pin(&q->slot, &q->pins, handle.id, "release queue", error);
  if (r == NXMEM_OK) *out = q;
  return r;
}

static void leave(release_queue *q) { atomic_fetch_sub(&q->pins, 1u); }

/* Whose it is changes under the lock, so that one that is refused was never the queue's. */
static nxmem_result push_locked(release_queue *q, uint64_t id, uint64_t *found, uint64_t *needed) {
  *found = q->count;
  *needed = q->closing ? 0 : q->room;
  if (q->closing || q->count == q->room) return NXMEM_ERR_QUEUE_REFUSED;
  if (!nx_prepared_move(id, NXMEM_SLOT_QUEUED, NXMEM_SLOT_QUEUING)) return NXMEM_ERR_UNKNOWN_ALLOCATION;
  q->ring[(q->first + q->count) % q->room] = id;
  q->count++;
  return NXMEM_OK;
}

static nxmem_result refuse(uint64_t found, uint64_t needed, nxmem_error *error) {
  if (needed == 0)
    (void)nx_fail(error, NXMEM_ERR_QUEUE_REFUSED, "queue release: the queue is closing");
  else
    (void)nx_fail(error, NXMEM_ERR_QUEUE_REFUSED, "queue release: found %" PRIu64 " in a queue for %" PRIu64, found,
                  needed);
  if (error != NULL) {
    error->found = found;
    error->needed = needed;
  }
  return NXMEM_ERR_QUEUE_REFUSED;
}

nxmem_result nxmem_release_queue_push(nxmem_release_queue queue, nxmem_prepared prepared, nxmem_error *error) {
  release_queue *q = NULL;
  nxmem_result r = enter(queue, &q, error);
  if (r != NXMEM_OK) return r;
  uint64_t found = 0, needed = 0;
  pthread_mutex_lock(&q->lock);
  r = push_locked(q, prepared.id, &found, &needed);
  pthread_mutex_unlock(&q->lock);
  leave(q);
  /* Remembered, for the case that its holder gives it up; another queue that takes it, or an execution, makes it forgotten. */
  if (r == NXMEM_ERR_QUEUE_REFUSED && nx_prepared_refused(prepared.id)) return refuse(found, needed, error);
  if (r == NXMEM_OK) return r;
  return nx_fail(error, NXMEM_ERR_UNKNOWN_ALLOCATION, "queue release: no prepared release");
}

/* 0 where it is empty. */
static uint64_t pop(release_queue *q) {
  uint64_t id = 0;
  pthread_mutex_lock(&q->lock);
  if (q->count != 0) {
    id = q->ring[q->first];
    q->first = (q->first + 1u) % q->room;
    q->count--;
  }
  pthread_mutex_unlock(&q->lock);
  return id;
}

static uint64_t length(release_queue *q) {
  pthread_mutex_lock(&q->lock);
  const uint64_t count = q->count;
  pthread_mutex_unlock(&q->lock);
  return count;
}

nxmem_result nxmem_release_queue_drain(nxmem_release_queue queue, uint64_t max, nxmem_drained *out,
                                       nxmem_error *error) {
  release_queue *q = NULL;
  const nxmem_result entered = enter(queue, &q, error);
  if (entered != NXMEM_OK) return entered;
  nxmem_drained drained = {0, 0, 0};
  for (uint64_t n = 0; n < max; n++) {
    const uint64_t id = pop(q);
    if (id == 0) break;
    NX_STEP("drain: taken");
    const nxmem_result r = nx_prepared_execute(id, NXMEM_SLOT_QUEUING, NULL);
    drained.completed += r == NXMEM_OK;
    drained.quarantined += r != NXMEM_OK;
  }
  drained.left = length(q);
  leave(q);
  if (out != NULL) *out = drained;
  return NXMEM_OK;
}

nxmem_result nxmem_release_queue_close(nxmem_release_queue queue, nxmem_error *error) {
  release_queue *q = NULL;
  const nxmem_result r = enter(queue, &q, error);
  if (r != NXMEM_OK) return r;
  pthread_mutex_lock(&q->lock);
  q->closing = 1;
  pthread_mutex_unlock(&q->lock);
  leave(q);
  return NXMEM_OK;
}

/* Nobody is at it, and nobody comes. */
static uint64_t keep_all(release_queue *q) {
  uint64_t kept = 0;
  for (uint64_t id = pop(q); id != 0; id = pop(q)) {
    (void)nx_prepared_keep(id, NXMEM_SLOT_QUEUING, NXMEM_KEPT_OWNER_DROPPED, NULL);
    kept++;
  }
  return kept;
}

nxmem_result nxmem_release_queue_destroy(nxmem_release_queue queue, uint64_t *dropped_out, nxmem_error *error) {
  release_queue *q = (release_queue *)(void *)nx_table_find(&queues, queue.id);
  if (q == NULL || nx_is_forked()) return nx_member_unknown("release queue", error);
  if (!nx_slot_move(&q->slot, queue.id, NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING))
    return nx_member_refuse(nxmem_check_lost_claim(atomic_load(&q->slot.word), queue.id), "release queue", error);
  const uint64_t pins = atomic_load(&q->pins);
  if (pins != 0) {
    nx_slot_show(&q->slot, queue.id, NXMEM_SLOT_LIVE);
    return nx_fail(error, NXMEM_ERR_BUSY, "destroy release queue: found %" PRIu64 " calls at it, needed none", pins);
  }
  const uint64_t dropped = keep_all(q);
  free(q->ring);
  (void)pthread_mutex_destroy(&q->lock);
  const uint64_t registry = atomic_load_explicit(&q->registry, memory_order_relaxed);
  nx_table_give(&queues, &q->slot);
  nx_registry_leave((nx_registry *)(void *)nx_table_find(&nx_registries, registry));
  if (dropped_out != NULL) *dropped_out = dropped;
  return NXMEM_OK;
}

uint64_t nx_queues_of(uint64_t registry) {
  uint64_t n = 0;
  const uint32_t count = atomic_load(&queues.count);
  for (uint32_t i = 0; i < count; i++) {
    release_queue *q = (release_queue *)(void *)nx_table_at(&queues, i);
    n += nxmem_word_state(atomic_load(&q->slot.word)) == NXMEM_SLOT_LIVE &&
         atomic_load_explicit(&q->registry, memory_order_relaxed) == registry;
  }
  return n;
}
