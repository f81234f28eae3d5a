/*
 * engine.c: an engine's life: opened and probed, released, finished when nothing of it is left.
 *
 * Attackers: a device without use, at open or later; a release while pieces are still in use, or while the context cannot be reached.
 * Promise: open leaves nothing behind when it fails; a reservation goes only when nothing is mapped in it; what stays is counted in the unload report and tried again.
 */
#include "engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nxmem/backing.h"

/* The reservation's first rung is that many times the device's memory. */
enum { MEMORY_MULTIPLE = 64 };

/* Protects the list, and of each engine `in_hand` and `round`. Taken before an engine's lock, never inside it. */
static pthread_mutex_t engines_lock = PTHREAD_MUTEX_INITIALIZER;
static nx_engine *engines;
static uint64_t rounds;

/* ---- Opening ------------------------------------------------------------------------------------------------------- */

static uint32_t fail(uint32_t code, char why[200], const char *text, const nx_engine *engine) {
  const nx_vmm_answer *refusal = &engine->device.refusal;
  if (refusal->call == NULL)
    snprintf(why, 200, "%s", text);
  else
    snprintf(why, 200, "%s; %s: %s (%" PRId32 ")", text, refusal->call, refusal->name == NULL ? "?" : refusal->name,
             refusal->code);
  return code;
}

static uint32_t choose_granule(nx_engine *engine, const nx_vmm_device *found, char why[200]) {
  const nxmem_verdict chosen =
      nxmem_granule_choose(found->granularity_minimum, found->granularity_recommended, &engine->device.granule);
  if (chosen.reason == NXMEM_REASON_NONE) return NXMEM_STATUS_OK;
  snprintf(why, 200,
           "granularity of the device: minimum %" PRIu64 ", recommended %" PRIu64
           ", needed: powers of two, the minimum from %" PRIu64 " to %" PRIu64,
           found->granularity_minimum, found->granularity_recommended, (uint64_t)NXMEM_GRANULE_MIN,
           (uint64_t)NXMEM_GRANULE_MAX);
  return NXMEM_STATUS_DEVICE_ERROR;
}

static int is_usable(uint64_t address, uint64_t bytes, uint64_t granule) {
  return nxmem_range_is_whole(address, bytes) && address != 0u && nxmem_round_down(address, granule) == address;
}

static uint32_t reserve(nx_engine *engine, const nx_vmm_device *found, char why[200]) {
  nxmem_ladder ladder;
  nx_device *device = &engine->device;
  const nxmem_verdict started =
      nxmem_ladder_start(found->memory_bytes, MEMORY_MULTIPLE, engine->offer->ladder_floor_bytes,
                         engine->offer->ladder_minimum_bytes, device->granule, &ladder);
  if (started.reason != NXMEM_REASON_NONE)
    return fail(NXMEM_STATUS_DEVICE_ERROR, why, "the least reservation holds no granule", engine);
  do {
    const uint32_t outcome = nx_device_reserve(device, ladder.rung, device->granule, &engine->base);
    engine->bytes = outcome == NX_VMM_DONE ? ladder.rung : 0u;
    if (outcome == NX_VMM_DONE && is_usable(engine->base, engine->bytes, device->granule)) return NXMEM_STATUS_OK;
    if (outcome == NX_VMM_DONE || outcome == NX_VMM_LOST || outcome == NX_VMM_SHUT_DOWN) break;
  } while (nxmem_ladder_next(&ladder, device->granule).reason == NXMEM_REASON_NONE);
  return fail(NXMEM_STATUS_DEVICE_ERROR, why, "no address space, down to the last rung", engine);
}

static uint32_t prepare(nx_engine *engine, char why[200]) {
  nx_vmm_device found = {0};
  nx_device *device = &engine->device;
  uint32_t outcome = nx_device_describe(device, &found);
  if (outcome != NX_VMM_DONE)
    return fail(nx_outcome_status(outcome), why, "the device does not say what it is", engine);
  const uint32_t chosen = choose_granule(engine, &found, why);
  if (chosen != NXMEM_STATUS_OK) return chosen;
  const uint32_t reserved = reserve(engine, &found, why);
  if (reserved != NXMEM_STATUS_OK) return reserved;
  if (!nx_spans_open(&engine->spans, engine->base, engine->bytes, device->granule) ||
      !nx_table_open(&engine->table, nxmem_granule_of(engine->bytes, device->granule)) || !nx_pool_open(engine))
    return fail(NXMEM_STATUS_OUT_OF_MEMORY, why, "no memory for the books", engine);
  return nx_probe(engine, why);
}

static nx_engine *new_engine(const nx_vmm_offer *offer, nx_books *books) {
  nx_engine *engine = calloc(1u, sizeof *engine);
  if (engine == NULL) return NULL;
  engine->offer = offer;
  engine->books = books;
  engine->capabilities = offer->capabilities;
  atomic_init(&engine->references, 1u);
  pthread_mutex_init(&engine->lock, NULL);
  return engine;
}

static void list(nx_engine *engine) {
  pthread_mutex_lock(&engines_lock);
  engine->next = engines;
  engines = engine;
  pthread_mutex_unlock(&engines_lock);
}

static uint32_t open_found(nx_engine *engine, int *owed, char why[200]) {
  nx_vmm_driver driver = {0};
  int unsupported = 0;
  const nx_vmm_offer *offer = engine->offer;
  const nx_vmm_answer opened = offer->open(offer, &driver, &unsupported, why);
  if (opened.outcome != NX_VMM_DONE)
    return unsupported ? (uint32_t)NXMEM_STATUS_UNSUPPORTED_CAPABILITY : nx_outcome_status(opened.outcome);
  *owed = nx_device_open(&engine->device, &driver, offer->tier, offer->index, engine->books);
  if (*owed) return NXMEM_STATUS_OK;
  driver.close(driver.self);
  return fail(NXMEM_STATUS_OUT_OF_MEMORY, why, "no memory for the gate", engine);
}

/* A lost device is not called for another allocator either: what that took could not be given back. */
static uint32_t open_driver(nx_engine *engine, int *owed, char why[200]) {
  nx_gate *gate = nx_gate_take(engine->offer->tier, engine->offer->index);
  if (gate == NULL) return fail(NXMEM_STATUS_OUT_OF_MEMORY, why, "no memory for the gate", engine);
  const uint32_t status = nx_gate_is_lost(gate) ? fail(NXMEM_STATUS_DEVICE_ERROR, why, "the device was lost", engine)
                                                : open_found(engine, owed, why);
  nx_gate_drop(gate);
  return status;
}

static void publish(nx_engine *engine) {
  nx_books *books = engine->books;
  nx_add(&books->reserved_bytes, engine->bytes);
  nx_add(&nx_the_report.allocators, 1u);
}

/* Prepared, and able to do what the host cannot do without. */
static uint32_t prepare_for(nx_engine *engine, uint64_t required, char why[200]) {
  const uint32_t status = prepare(engine, why);
  if (status != NXMEM_STATUS_OK || (required & ~engine->capabilities) == 0u) return status;
  snprintf(why, 200, "open: the device refused what the capability needs");
  return NXMEM_STATUS_UNSUPPORTED_CAPABILITY;
}

uint32_t nx_engine_open(const nx_vmm_offer *offer, uint64_t required, nx_books *books, nx_engine **out, char why[200]) {
  int owed = 0;
  nx_engine *engine = new_engine(offer, books);
  if (engine == NULL) {
    snprintf(why, 200, "no memory for the allocator");
    return NXMEM_STATUS_OUT_OF_MEMORY;
  }
  uint32_t status = open_driver(engine, &owed, why);
  if (!owed) {
    free(engine);
    return status;
  }
  const uint32_t begun = nx_device_begin(&engine->device);
  status = nx_outcome_status(begun);
  if (begun == NX_VMM_DONE) {
    status = prepare_for(engine, required, why);
    nx_device_end(&engine->device);
  } else {
    (void)fail(status, why, "the device cannot be used now", engine);
  }
  list(engine);
  publish(engine);
  *out = engine;
  if (status != NXMEM_STATUS_OK) {
    nx_engine_release(engine);
    return status;
  }
  /* A device that was lost and forgotten may have come back. */
  atomic_store(&books->device_lost, (uint64_t)nx_device_is_lost(&engine->device));
  atomic_store(&books->granule_bytes, engine->device.granule);
  nx_add(&books->opened, 1u);
  return status;
}

/* ---- Finishing ----------------------------------------------------------------------------------------------------- */

static int is_used(const nx_engine *engine) {
  return engine->blocks.count != 0u || engine->residues != 0u || engine->prefixes != NULL || engine->queued != 0u;
}

static int is_gone(const nx_engine *engine) { return nx_device_is_lost(&engine->device) || engine->device.shut_down; }

/* What the device held went with it, or is not to be touched any more: the books are closed without the driver. */
static nx_balance balance_of(const nx_engine *engine) {
  nx_balance left = {.quarantined_spans = engine->residues};
  const uint64_t granule = engine->device.granule;
  for (uint64_t i = 0u; i < engine->table.count; i++) {
    const nxmem_granule *g = &engine->table.granules[i];
    if (g->mapping == NXMEM_MAPPING_NONE) continue;
    left.granules_mapped++;
    left.poisoned_granules += g->poisoned;
    if (g->poisoned)
      left.quarantined_bytes += granule;
    else if (g->mapping != NXMEM_MAPPING_OWNER)
      left.committed_bytes += granule;
  }
  left.quarantined_bytes += nx_granule_bytes(engine, engine->handles.count + engine->handles.untold);
  return left;
}

static void drop_books(nx_engine *engine) {
  const nx_balance left = balance_of(engine);
  for (uint64_t i = 0u; i < engine->blocks.chain_count; i++)
    for (nx_block *block = engine->blocks.chains[i]; block != NULL; block = block->next)
      nx_take(&nx_the_report.views, block->view_count);
  nx_take(&nx_the_report.queued, engine->queued);
  if (nx_device_is_lost(&engine->device)) atomic_store(&engine->books->device_lost, 1u);
  nx_books_close(engine->books, &left);
}

static int holds_nothing(const nx_engine *engine) {
  return engine->bytes == 0u && engine->pool.count == 0u && engine->handles.count == 0u &&
         engine->handles.untold == 0u && engine->marks.count == 0u && engine->marks.untold == 0u;
}

/* Also of an engine that is used still: nobody commits in it any more, so what nothing maps is of no use to it. */
static int has_to_give(const nx_engine *engine) {
  return !is_used(engine) || engine->pool.count != 0u || engine->handles.count != 0u || engine->marks.count != 0u;
}

/* Pieces that were kept back for their handles alone are kept no more once the driver has taken those. */
static void forget_residues(nx_engine *engine) {
  if (engine->poisoned != 0u) return;
  nx_take(&engine->books->quarantined_spans, engine->residues);
  engine->residues = 0u;
}

/*
 * The host lets go of an allocator with blocks in it for two reasons: it saw the end of the device, which no call here may have met yet, or it gave the blocks up.
 * Only the device can say which; while it is healthy somebody may still use them.
 */
static int is_gone_or_says_so(nx_engine *engine) {
  if (is_gone(engine)) return 1;
  return is_used(engine) && (nx_ask_if_lost_locked(engine) || is_gone(engine));
}

/* 1: the reservation and every handle are given back. */
static int give_back_locked(nx_engine *engine) {
  if (is_gone_or_says_so(engine)) {
    drop_books(engine);
    return 1;
  }
  if (!is_used(engine) && holds_nothing(engine)) return 1;
  if (!has_to_give(engine) || nx_device_begin(&engine->device) != NX_VMM_DONE)
    return is_gone(engine) && give_back_locked(engine);
  const int emptied = nx_pool_empty_locked(engine);
  if (emptied) forget_residues(engine);
  if (emptied && !is_used(engine) && engine->bytes != 0u &&
      nx_device_unreserve(&engine->device, engine->base, engine->bytes) == NX_VMM_DONE) {
    nx_take(&engine->books->reserved_bytes, engine->bytes);
    engine->bytes = 0u;
  }
  const int all = !is_used(engine) && holds_nothing(engine);
  nx_device_end(&engine->device);
  return all || (is_gone(engine) && give_back_locked(engine));
}

static void destroy(nx_engine *engine) {
  nx_take(&engine->books->reserved_bytes, engine->bytes);
  nx_prefixes_close(engine);
  nx_blocks_close(&engine->blocks);
  nx_pool_close(engine);
  nx_table_close(&engine->table);
  nx_spans_close(&engine->spans);
  free(engine->runs.items);
  nx_device_close(&engine->device);
  pthread_mutex_destroy(&engine->lock);
  free(engine);
}

static void unlist(const nx_engine *engine) {
  pthread_mutex_lock(&engines_lock);
  nx_engine **link = &engines;
  while (*link != engine) link = &(*link)->next;
  *link = engine->next;
  pthread_mutex_unlock(&engines_lock);
}

/* In hand, so nobody else looks at it. 1: the engine is gone. */
static int finish(nx_engine *engine) {
  pthread_mutex_lock(&engine->lock);
  const int all = give_back_locked(engine);
  /* Counted as one live allocation, where nothing else of it is counted. */
  engine->retained = !all && !is_used(engine);
  pthread_mutex_unlock(&engine->lock);
  if (!all) return 0;
  unlist(engine);
  destroy(engine);
  return 1;
}

static void let_go(nx_engine *engine) {
  pthread_mutex_lock(&engines_lock);
  engine->in_hand = 0;
  pthread_mutex_unlock(&engines_lock);
}

void nx_engine_release(nx_engine *engine) {
  pthread_mutex_lock(&engines_lock);
  engine->released = 1;
  engine->in_hand = 1;
  pthread_mutex_unlock(&engines_lock);
  if (!finish(engine)) let_go(engine);
  nx_take(&nx_the_report.allocators, 1u);
}

static nx_engine *next_released(uint64_t round) {
  pthread_mutex_lock(&engines_lock);
  nx_engine *engine = engines;
  while (engine != NULL && (!engine->released || engine->in_hand || engine->round == round)) engine = engine->next;
  if (engine != NULL) {
    engine->in_hand = 1;
    engine->round = round;
  }
  pthread_mutex_unlock(&engines_lock);
  return engine;
}

void nx_engines_finish(void) {
  pthread_mutex_lock(&engines_lock);
  const uint64_t round = ++rounds;
  pthread_mutex_unlock(&engines_lock);
  for (nx_engine *engine = next_released(round); engine != NULL; engine = next_released(round)) {
    uint64_t retired = 0u;
    (void)nx_drain(engine, UINT64_MAX, &retired);
    if (!finish(engine)) let_go(engine);
  }
}

uint64_t nx_engines_allocations(void) {
  uint64_t sum = 0u;
  pthread_mutex_lock(&engines_lock);
  for (nx_engine *engine = engines; engine != NULL; engine = engine->next) {
    pthread_mutex_lock(&engine->lock);
    sum += engine->blocks.count + engine->residues + (uint64_t)engine->retained;
    pthread_mutex_unlock(&engine->lock);
  }
  pthread_mutex_unlock(&engines_lock);
  return sum;
}

void nx_engines_trim(uint32_t tier, uint32_t index) {
  pthread_mutex_lock(&engines_lock);
  for (nx_engine *engine = engines; engine != NULL; engine = engine->next) {
    if (engine->offer->tier != tier || engine->offer->index != index || engine->in_hand) continue;
    pthread_mutex_lock(&engine->lock);
    (void)nx_pool_trim_locked(engine);
    pthread_mutex_unlock(&engine->lock);
  }
  pthread_mutex_unlock(&engines_lock);
}
