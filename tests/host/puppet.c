/*
 * puppet.c: the honest play that rows depart from.
 *
 * Attackers: the rows.
 * Promise: what a row leaves alone is honest, and is counted.
 */
#define _GNU_SOURCE
#include "puppet.h"

#include "nxmem/outcome.h"
#include "nxmem/prefix.h"
#include "nxmem/status.h"

nx_puppet puppet;

static void enter(nx_place_inside place) {
  if (place != NX_IN_CONSTRUCTOR && atomic_load(&puppet.calls[NX_IN_DESTRUCTOR]) != 0)
    atomic_fetch_add(&puppet.after_the_end, 1);
  atomic_fetch_add(&puppet.calls[place], 1);
  if (puppet.inside != NULL) puppet.inside(place);
}

NxmemStatus nx_puppet_status(uint32_t code) {
  NxmemStatus status;
  nxmem_status_build(&status, code, (const uint8_t *)"puppet", 6);
  return status;
}

NxmemStatus nx_puppet_ugly_status(uint32_t code) {
  NxmemStatus status = {code, 0xFFFFFFFFu, {0}};
  memset(status.message, 0xC3, sizeof status.message);
  memcpy(status.message, "\x1B[31m\n\xFF\xC0\x80\r\t\x7F", 13);
  return status;
}

static void check_ctx(const void *ctx) {
  if (ctx != &puppet) atomic_fetch_add(&puppet.foreign_contexts, 1);
}

/* ---- Exports ----------------------------------------------------------------------------------------------------- */

static NxmemStatus negotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  if (!puppet.concurrent) puppet.request = *request;
  enter(NX_IN_NEGOTIATE);
  if (!puppet.leave_response) *response = puppet.response;
  return nx_puppet_status(puppet.negotiate_code);
}

static void record_room(const NxmemAllocatorFactoryVtable **entries, uint64_t room) {
  puppet.room = room;
  puppet.room_was_zero = 1;
  for (uint64_t i = 0; i < room; i++) puppet.room_was_zero &= entries[i] == NULL;
}

static NxmemStatus create_factories(const NxmemAllocatorFactoryVtable **entries, uint64_t room, uint64_t *count_out) {
  if (!puppet.concurrent) record_room(entries, room);
  enter(NX_IN_CREATE);
  for (uint32_t i = 0; i < puppet.written; i++) entries[i] = puppet.entries[i];
  if (!puppet.leave_count) *count_out = puppet.count;
  return nx_puppet_status(puppet.create_code);
}

static NxmemStatus query_unload(NxmemUnloadReport *report_out) {
  enter(NX_IN_QUERY);
  if (puppet.own_report) {
    *report_out = puppet.report;
  } else {
    report_out->live_allocators = (uint64_t)atomic_load(&puppet.live_allocators);
    report_out->live_allocations = (uint64_t)atomic_load(&puppet.live_allocations);
    report_out->live_views = 0;
    report_out->live_capabilities = 0;
    report_out->queued_releases = nx_puppet_queue_length();
  }
  return nx_puppet_status(puppet.query_code);
}

static void constructed(void) { enter(NX_IN_CONSTRUCTOR); }
static void destructed(void) { enter(NX_IN_DESTRUCTOR); }

/* ---- Slots ------------------------------------------------------------------------------------------------------- */

static NxmemStatus open_allocator(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **out) {
  (void)ctx;
  if (!puppet.concurrent) {
    puppet.open_request = *request;
    puppet.callbacks = request->callbacks;
  }
  enter(NX_IN_OPEN);
  if (puppet.open_answer.code != NXMEM_STATUS_OK) return puppet.open_answer;
  atomic_fetch_add(&puppet.live_allocators, 1);
  *out = puppet.published;
  return nx_puppet_status(NXMEM_STATUS_OK);
}

static void release_factory(void *ctx) {
  enter(NX_IN_FACTORY_RELEASE);
  const NxmemAllocatorFactoryVtable *factory = ctx;
  const ptrdiff_t index = factory - puppet.factories;
  if (index < 0 || index >= NX_PUPPET_FACTORIES)
    atomic_fetch_add(&puppet.foreign_contexts, 1);
  else
    atomic_fetch_add(&puppet.factory_releases[index], 1);
}

static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  check_ctx(ctx);
  if (puppet.inside == NULL && !puppet.concurrent) puppet.alloc_request = *request;
  enter(NX_IN_ALLOCATE);
  if (puppet.allocate_code != NXMEM_STATUS_OK) return nx_puppet_ugly_status(puppet.allocate_code);
  if (puppet.leave_out_records) return nx_puppet_status(NXMEM_STATUS_OK);
  const size_t align = request->align < 16 ? 16 : (size_t)request->align;
  uint8_t *ptr = puppet.address;
  if (ptr == NULL) ptr = aligned_alloc(align, (size_t)((request->bytes + align - 1) / align * align));
  if (ptr == NULL) return nx_puppet_status(NXMEM_STATUS_OUT_OF_MEMORY);
  atomic_fetch_add(&puppet.live_allocations, 1);
  result_out->ptr = ptr;
  result_out->owned_bytes = puppet.own_numbers ? puppet.owned : request->bytes;
  result_out->mapped_bytes = puppet.own_numbers ? puppet.mapped : request->bytes;
  return nx_puppet_status(NXMEM_STATUS_OK);
}

static void give_back(const NxmemAllocation *allocation) {
  atomic_fetch_sub(&puppet.live_allocations, 1);
  if (puppet.address == NULL) free(allocation->ptr);
}

static NxmemStatus deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_out) {
  check_ctx(ctx);
  if (puppet.inside == NULL && !puppet.concurrent) puppet.released = *allocation;
  enter(NX_IN_DEALLOCATE);
  if (puppet.own_release && puppet.release_answer.code != NXMEM_STATUS_OK) return puppet.release_answer;
  give_back(allocation);
  if (puppet.own_release)
    *unmapped_out = puppet.outcome.unmapped_bytes;
  else if (!puppet.leave_out_records)
    *unmapped_out = allocation->bytes;
  return nx_puppet_status(NXMEM_STATUS_OK);
}

static NxmemStatus release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome_out) {
  check_ctx(ctx);
  if (puppet.inside == NULL && !puppet.concurrent) puppet.released = *allocation;
  enter(NX_IN_RELEASE_ALLOCATION);
  if (puppet.leave_out_records) return puppet.release_answer;
  if (puppet.own_release) {
    *outcome_out = puppet.outcome;
    return puppet.release_answer;
  }
  give_back(allocation);
  outcome_out->state = NXMEM_RELEASE_COMPLETE;
  outcome_out->allocation_bytes = allocation->bytes;
  outcome_out->unmapped_bytes = allocation->bytes;
  outcome_out->residual_owned_bytes = 0;
  return nx_puppet_status(NXMEM_STATUS_OK);
}

static void retain(void *ctx) { check_ctx(ctx); }

static void release(void *ctx) {
  check_ctx(ctx);
  enter(NX_IN_RELEASE);
  atomic_fetch_sub(&puppet.live_allocators, 1);
}

/* ---- The queue --------------------------------------------------------------------------------------------------- */

NxmemReleaseCompletion nx_puppet_completion(const nx_puppet_queued *queued) {
  NxmemReleaseCompletion completion;
  memset(&completion, 0, sizeof completion);
  completion.struct_size = sizeof completion;
  completion.ticket = queued->ticket;
  completion.mechanism_id = queued->allocation.mechanism_id;
  completion.allocation_id = queued->allocation.allocation_id;
  completion.outcome.struct_size = sizeof completion.outcome;
  completion.outcome.state = NXMEM_RELEASE_COMPLETE;
  completion.outcome.allocation_bytes = queued->allocation.bytes;
  completion.outcome.unmapped_bytes = queued->allocation.bytes;
  return completion;
}

int nx_puppet_pop(nx_puppet_queued *out) {
  pthread_mutex_lock(&puppet.queue_lock);
  const int found = puppet.queued != 0;
  if (found) {
    *out = puppet.queue[0];
    puppet.queued--;
    memmove(puppet.queue, puppet.queue + 1, puppet.queued * sizeof puppet.queue[0]);
  }
  pthread_mutex_unlock(&puppet.queue_lock);
  return found;
}

uint32_t nx_puppet_queue_length(void) {
  pthread_mutex_lock(&puppet.queue_lock);
  const uint32_t n = puppet.queued;
  pthread_mutex_unlock(&puppet.queue_lock);
  return n;
}

uint32_t nx_puppet_complete(const NxmemReleaseCompletion *completion) {
  return puppet.callbacks->release_completed(puppet.callbacks->host_ctx, completion).code;
}

uint32_t nx_puppet_retire(void) {
  nx_puppet_queued queued;
  if (!nx_puppet_pop(&queued)) return NXMEM_STATUS_UNKNOWN_ALLOCATION;
  const NxmemReleaseCompletion completion = nx_puppet_completion(&queued);
  give_back(&queued.allocation);
  return nx_puppet_complete(&completion);
}

static uint64_t push(const NxmemAllocation *allocation) {
  pthread_mutex_lock(&puppet.queue_lock);
  const uint64_t ticket = ++puppet.last_ticket;
  if (puppet.queued < NX_PUPPET_QUEUE) puppet.queue[puppet.queued++] = (nx_puppet_queued){*allocation, ticket};
  pthread_mutex_unlock(&puppet.queue_lock);
  return ticket;
}

static NxmemStatus enqueue_release(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out) {
  check_ctx(ctx);
  uint64_t ticket = 0;
  if (puppet.enqueue_code == NXMEM_STATUS_OK) ticket = push(allocation);
  if (puppet.inside == NULL && !puppet.concurrent) puppet.released = *allocation;
  enter(NX_IN_ENQUEUE);
  if (puppet.enqueue_code != NXMEM_STATUS_OK) return nx_puppet_ugly_status(puppet.enqueue_code);
  if (!puppet.leave_ticket) *ticket_out = ticket;
  return nx_puppet_status(NXMEM_STATUS_OK);
}

static NxmemStatus drain_releases(void *ctx, uint64_t max, uint64_t *retired_out) {
  check_ctx(ctx);
  if (!puppet.concurrent) puppet.last_max = max;
  enter(NX_IN_DRAIN);
  if (puppet.drain_code != NXMEM_STATUS_OK) return nx_puppet_ugly_status(puppet.drain_code);
  const uint64_t most = puppet.idle_drain ? 0 : puppet.drip != 0 && puppet.drip < max ? puppet.drip : max;
  uint64_t retired = 0;
  while (retired < most && nx_puppet_retire() == NXMEM_STATUS_OK) retired++;
  if (!puppet.leave_retired) *retired_out = puppet.own_retired ? puppet.retired : retired;
  return nx_puppet_status(NXMEM_STATUS_OK);
}

static NxmemStatus pending_release_count(void *ctx, uint64_t *count_out) {
  check_ctx(ctx);
  enter(NX_IN_PENDING);
  if (puppet.pending_code != NXMEM_STATUS_OK) return nx_puppet_ugly_status(puppet.pending_code);
  if (!puppet.leave_pending) *count_out = puppet.own_pending ? puppet.pending : nx_puppet_queue_length();
  return nx_puppet_status(NXMEM_STATUS_OK);
}

/* ---- The honest play --------------------------------------------------------------------------------------------- */

static const NxmemDeviceId host_0 = {NXMEM_TIER_HOST, 0};

/* "puppet", "puppet-1", "puppet-2"... */
static const uint8_t *factory_name(uint32_t i) {
  static char names[NX_PUPPET_FACTORIES][16];
  snprintf(names[i], sizeof names[i], "puppet-%u", (unsigned)i);
  if (i == 0) names[i][6] = '\0';
  return (const uint8_t *)names[i];
}

static void make_factory(uint32_t i) {
  puppet.factories[i] = (NxmemAllocatorFactoryVtable){.struct_size = NXMEM_FACTORY_BYTES,
                                                      .abi_minor = 1,
                                                      .name = factory_name(i),
                                                      .device = host_0,
                                                      .capability_flags = NXMEM_CAP_ALLOCATOR,
                                                      .ctx = &puppet.factories[i],
                                                      .open_allocator = open_allocator,
                                                      .release = release_factory};
  puppet.entries[i] = &puppet.factories[i];
}

static void make_tables(void) {
  puppet.table = (NxmemAllocatorVtable){
      .struct_size = NXMEM_ALLOCATOR_BYTES_1,
      .abi_minor = 1,
      .mechanism_id = 77,
      .device = host_0,
      .capability_flags = NXMEM_CAP_ALLOCATOR | NXMEM_CAP_DEFERRED_RELEASE | NXMEM_CAP_STRUCTURED_RELEASE,
      .name = (const uint8_t *)"puppet",
      .ctx = &puppet,
      .allocate = allocate,
      .deallocate = deallocate,
      .retain = retain,
      .release = release,
      .enqueue_release = enqueue_release,
      .drain_releases = drain_releases,
      .pending_release_count = pending_release_count,
      .release_allocation = release_allocation};
  puppet.backing = (NxmemVirtualBackingVtable){
      .struct_size = NXMEM_BACKING_BYTES, .abi_minor = 1, .mechanism_id = 77, .ctx = &puppet};
  puppet.sharing = (NxmemSharedMappingVtable){
      .struct_size = NXMEM_SHARING_BYTES, .abi_minor = 1, .mechanism_id = 77, .ctx = &puppet};
  puppet.published = &puppet.table;
}

void nx_puppet_reset(void) {
  memset(&puppet, 0, sizeof puppet);
  nx_overlap = NXMEM_OVERLAP_CHECKED;
  (void)pthread_mutex_init(&puppet.queue_lock, NULL);
  puppet.hooks = (nx_puppet_hooks){negotiate, create_factories, query_unload, constructed, destructed};
  puppet.response = (NxmemNegotiateResponse){40, 1, 1, 0, {1, 1, 0, 1}, 31};
  for (uint32_t i = 0; i < NX_PUPPET_FACTORIES; i++) make_factory(i);
  puppet.written = 1;
  puppet.count = 1;
  make_tables();
}

const char *nx_puppet_copy(void) {
  char address[32];
  snprintf(address, sizeof address, "%p", (void *)&puppet.hooks);
  if (setenv(NX_PUPPET_ENV, address, 1) != 0) fail_msg("no environment");
  return nx_plugin_copy("libnxmem_test_puppet.so");
}

uint64_t nx_puppet_calls(nx_place_inside place) { return atomic_load(&puppet.calls[place]); }

uint64_t nx_puppet_factory_releases(void) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < NX_PUPPET_FACTORIES; i++) n += atomic_load(&puppet.factory_releases[i]);
  return n;
}

nx_stage nx_stage_set(nxmem_fetch_mode mode) {
  nx_stage stage = {.path = nx_puppet_copy()};
  stage.host = nx_host_in(mode);
  stage.plugin = nx_must_open(stage.host, stage.path);
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  return stage;
}

void nx_stage_strike(nx_stage *stage) {
  nx_must_close(stage->allocator);
  nx_must_unload(stage->plugin, stage->path);
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE), nx_puppet_calls(NX_IN_OPEN));
  assert_int_equal(nx_puppet_factory_releases(), puppet.written);
  assert_int_equal(atomic_load(&puppet.foreign_contexts), 0);
  assert_int_equal(atomic_load(&puppet.after_the_end), 0);
  nx_host_gone(stage->host);
}
