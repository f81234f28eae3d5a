/*
 * puppet_backing.c: granules in masks, and one prefix.
 *
 * Attackers: the rows.
 * Promise: what a row leaves alone is honest, and is counted.
 */
#include "puppet_backing.h"

#include "nxmem/outcome.h"

nx_play play;

static void enter(nx_play_slot slot) {
  atomic_fetch_add(&play.calls[slot], 1);
  if (play.inside != NULL) play.inside(slot);
}

static void check_ctx(const void *ctx) {
  if (ctx != &play) atomic_fetch_add(&puppet.foreign_contexts, 1);
}

uint64_t nx_play_calls(nx_play_slot slot) { return atomic_load(&play.calls[slot]); }

/* ---- Granules ---------------------------------------------------------------------------------------------------- */

static uint64_t bytes_of(uint64_t mask) { return (uint64_t)__builtin_popcountll(mask) * NX_PLAY_GRANULE; }

static uint64_t bits(uint64_t first, uint64_t end) {
  return first >= end ? 0 : (end - first == 64 ? UINT64_MAX : (((uint64_t)1 << (end - first)) - 1) << first);
}

/* The granules that a range touches, and those that lie in it whole. */
static uint64_t touched(NxmemByteRange r) {
  return bits(r.offset / NX_PLAY_GRANULE, (r.offset + r.bytes + NX_PLAY_GRANULE - 1) / NX_PLAY_GRANULE);
}
static uint64_t whole(NxmemByteRange r, uint64_t size) {
  const uint64_t end = r.offset + r.bytes;
  return bits((r.offset + NX_PLAY_GRANULE - 1) / NX_PLAY_GRANULE,
              (end == size ? end + NX_PLAY_GRANULE - 1 : end) / NX_PLAY_GRANULE);
}

/* The block with that id; id 0: a free one. */
static nx_play_block *find_locked(uint64_t id) {
  for (int i = 0; i < NX_PLAY_BLOCKS; i++)
    if (play.blocks[i].id == id) return &play.blocks[i];
  return NULL;
}

uint64_t nx_play_mapped(void) {
  uint64_t sum = 0;
  for (int i = 0; i < NX_PLAY_BLOCKS; i++)
    if (play.blocks[i].id != 0) sum += bytes_of(play.blocks[i].mask);
  return sum;
}

static NxmemStatus say(const nx_play_number *number, uint64_t truth, uint64_t *out) {
  if (number->code == NXMEM_STATUS_OK && !number->leave) *out = number->own ? number->value : truth;
  return nx_puppet_status(number->code);
}

/* ---- Virtual backing --------------------------------------------------------------------------------------------- */

static NxmemStatus allocate_committed(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  check_ctx(ctx);
  if (!puppet.concurrent) play.request = *request;
  enter(NX_PLAY_ALLOCATE);
  if (puppet.allocate_code != NXMEM_STATUS_OK) return nx_puppet_status(puppet.allocate_code);
  if (puppet.leave_out_records) return nx_puppet_status(NXMEM_STATUS_OK);
  uint8_t *ptr = puppet.address != NULL ? puppet.address : aligned_alloc(NX_PLAY_GRANULE, NX_PLAY_MOST);
  uint64_t mask = 0;
  for (uint64_t i = 0; i < request->committed_range_count; i++) mask |= touched(request->committed_ranges[i]);
  pthread_mutex_lock(&play.lock);
  nx_play_block *block = find_locked(0);
  if (block != NULL) *block = (nx_play_block){request->allocation_id, mask};
  pthread_mutex_unlock(&play.lock);
  if (ptr == NULL || block == NULL) return nx_puppet_status(NXMEM_STATUS_OUT_OF_MEMORY);
  atomic_fetch_add(&puppet.live_allocations, 1);
  result_out->ptr = ptr;
  result_out->owned_bytes = puppet.own_numbers ? puppet.owned : bytes_of(mask);
  result_out->mapped_bytes = puppet.own_numbers ? puppet.mapped : bytes_of(mask);
  return nx_puppet_status(NXMEM_STATUS_OK);
}

static NxmemStatus commit(void *ctx, const NxmemRangeRequest *request) {
  check_ctx(ctx);
  if (!puppet.concurrent) play.range = *request;
  enter(NX_PLAY_COMMIT);
  pthread_mutex_lock(&play.lock);
  nx_play_block *block = find_locked(request->allocation.allocation_id);
  const uint64_t asked = touched(request->range);
  if (block != NULL && play.commit_code == NXMEM_STATUS_OK) block->mask |= asked;
  if (block != NULL && play.half_commit) block->mask |= asked & ~(asked - 1);
  pthread_mutex_unlock(&play.lock);
  return nx_puppet_status(block == NULL ? NXMEM_STATUS_UNKNOWN_ALLOCATION : play.commit_code);
}

static NxmemStatus decommit(void *ctx, const NxmemRangeRequest *request, uint64_t *unmapped_out) {
  check_ctx(ctx);
  if (!puppet.concurrent) play.range = *request;
  enter(NX_PLAY_DECOMMIT);
  pthread_mutex_lock(&play.lock);
  nx_play_block *block = find_locked(request->allocation.allocation_id);
  const uint64_t asked = whole(request->range, request->allocation.bytes);
  const uint64_t gone = block == NULL ? 0 : block->mask & asked;
  if (block != NULL) block->mask &= ~gone;
  pthread_mutex_unlock(&play.lock);
  return say(&play.unmapped, bytes_of(gone), unmapped_out);
}

static NxmemStatus cost(void *ctx, const NxmemRangeRequest *requests, uint64_t count, uint64_t *mapped_out) {
  check_ctx(ctx);
  if (!puppet.concurrent) {
    play.range = requests[count - 1];
    play.range_count = count;
  }
  enter(NX_PLAY_COST);
  uint64_t asked = 0;
  for (uint64_t i = 0; i < count; i++) asked |= touched(requests[i].range);
  pthread_mutex_lock(&play.lock);
  const nx_play_block *block = find_locked(requests[0].allocation.allocation_id);
  const uint64_t missing = block == NULL ? asked : asked & ~block->mask;
  pthread_mutex_unlock(&play.lock);
  return say(&play.cost, bytes_of(missing), mapped_out);
}

static NxmemStatus cost_of_allocation(void *ctx, const NxmemAllocRequest *request, uint64_t *mapped_out) {
  check_ctx(ctx);
  play.request = *request;
  enter(NX_PLAY_COST_OF_ALLOCATION);
  uint64_t mask = 0;
  for (uint64_t i = 0; i < request->committed_range_count; i++) mask |= touched(request->committed_ranges[i]);
  return say(&play.cost_of_allocation, bytes_of(mask), mapped_out);
}

static NxmemStatus committed(void *ctx, const NxmemAllocation *allocation, uint64_t *committed_out) {
  check_ctx(ctx);
  pthread_mutex_lock(&play.lock);
  const nx_play_block *block = find_locked(allocation->allocation_id);
  const uint64_t mask = block == NULL ? 0 : block->mask;
  pthread_mutex_unlock(&play.lock);
  enter(NX_PLAY_COMMITTED); /* behind the count: whoever comes now makes it old */
  return say(&play.committed, bytes_of(mask), committed_out);
}

static NxmemStatus release_allocation(void *ctx, const NxmemAllocation *allocation, NxmemReleaseOutcome *outcome_out) {
  if (ctx != &puppet) atomic_fetch_add(&puppet.foreign_contexts, 1);
  if (!puppet.concurrent) puppet.released = *allocation;
  enter(NX_PLAY_RELEASE);
  if (play.release_code != NXMEM_STATUS_OK) return nx_puppet_status(play.release_code);
  if (puppet.own_release) {
    *outcome_out = puppet.outcome;
    return puppet.release_answer;
  }
  pthread_mutex_lock(&play.lock);
  nx_play_block *block = find_locked(allocation->allocation_id);
  *outcome_out = (NxmemReleaseOutcome){.struct_size = sizeof *outcome_out,
                                       .state = NXMEM_RELEASE_COMPLETE,
                                       .allocation_bytes = allocation->bytes,
                                       .unmapped_bytes = block == NULL ? allocation->bytes : bytes_of(block->mask)};
  if (block != NULL) block->id = 0;
  pthread_mutex_unlock(&play.lock);
  atomic_fetch_sub(&puppet.live_allocations, 1);
  if (puppet.address == NULL) free(allocation->ptr);
  return nx_puppet_status(NXMEM_STATUS_OK);
}

/* ---- Shared mapping ---------------------------------------------------------------------------------------------- */

static NxmemStatus create(void *ctx, uint64_t mechanism_id, uint64_t bytes, NxmemSharedPrefixHandle *handle_out) {
  check_ctx(ctx);
  play.handle = *handle_out;
  enter(NX_PLAY_CREATE);
  if (play.create_code != NXMEM_STATUS_OK) return nx_puppet_status(play.create_code);
  play.prefix_references = 1;
  if (play.leave_handle) return nx_puppet_status(NXMEM_STATUS_OK);
  const uint64_t physical = (bytes + NX_PLAY_GRANULE - 1) / NX_PLAY_GRANULE * NX_PLAY_GRANULE;
  *handle_out = (NxmemSharedPrefixHandle){.struct_size = 64,
                                          .mechanism_id = mechanism_id,
                                          .handle = ++play.prefix_number,
                                          .device = puppet.table.device,
                                          .device_ptr = 0x1000,
                                          .committed_physical_bytes = physical,
                                          .mapped_bytes = physical,
                                          .requested_bytes = bytes};
  if (play.spoil_handle != NULL) play.spoil_handle(handle_out);
  return nx_puppet_status(NXMEM_STATUS_OK);
}

static NxmemStatus retain(void *ctx, const NxmemSharedPrefixHandle *handle) {
  check_ctx(ctx);
  if (!puppet.concurrent) play.handle = *handle;
  enter(NX_PLAY_RETAIN);
  if (play.retain_code != NXMEM_STATUS_OK) return nx_puppet_status(play.retain_code);
  pthread_mutex_lock(&play.lock);
  play.prefix_references++;
  pthread_mutex_unlock(&play.lock);
  return nx_puppet_status(NXMEM_STATUS_OK);
}

static NxmemStatus release_prefix(void *ctx, const NxmemSharedPrefixHandle *handle) {
  check_ctx(ctx);
  if (!puppet.concurrent) play.handle = *handle;
  enter(NX_PLAY_RELEASE_PREFIX);
  if (play.release_prefix_code != NXMEM_STATUS_OK) return nx_puppet_status(play.release_prefix_code);
  pthread_mutex_lock(&play.lock);
  play.prefix_references--;
  pthread_mutex_unlock(&play.lock);
  return nx_puppet_status(NXMEM_STATUS_OK);
}

static NxmemStatus incremental(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *bytes_out) {
  check_ctx(ctx);
  if (!puppet.concurrent) play.handle = *handle;
  enter(NX_PLAY_INCREMENTAL);
  return say(&play.incremental, nx_play_calls(NX_PLAY_SHARE) == 0 ? handle->committed_physical_bytes : 0, bytes_out);
}

/* The physical bytes are charged by the first commit alone. */
static NxmemStatus share(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                         NxmemSharedPrefixCommitInfo *info_out) {
  check_ctx(ctx);
  if (!puppet.concurrent) play.share = *request;
  enter(NX_PLAY_SHARE);
  const uint64_t number = nx_play_calls(NX_PLAY_SHARE);
  if (number == play.share_fails_at) return nx_puppet_status(play.share_code);
  const NxmemByteRange range = {request->byte_offset, request->prefix.requested_bytes};
  pthread_mutex_lock(&play.lock);
  nx_play_block *block = find_locked(request->allocation.allocation_id);
  const uint64_t fresh = block == NULL ? 0 : touched(range) & ~block->mask;
  if (block != NULL) block->mask |= fresh;
  pthread_mutex_unlock(&play.lock);
  *info_out = (NxmemSharedPrefixCommitInfo){32, 0, number == 1 ? request->prefix.committed_physical_bytes : 0,
                                            bytes_of(fresh), bytes_of(fresh) / NX_PLAY_GRANULE};
  if (play.spoil_info != NULL && number == play.info_spoilt_at) play.spoil_info(info_out);
  return nx_puppet_status(NXMEM_STATUS_OK);
}

/* ---- Setting up -------------------------------------------------------------------------------------------------- */

void nx_play_reset(void) {
  nx_puppet_reset();
  memset(&play, 0, sizeof play);
  pthread_mutex_init(&play.lock, NULL);
  puppet.table.capability_flags |= NXMEM_CAP_VIRTUAL_BACKING | NXMEM_CAP_SHARED_MAPPING;
  puppet.table.virtual_backing = &puppet.backing;
  puppet.table.shared_mapping = &puppet.sharing;
  puppet.table.release_allocation = release_allocation;
  puppet.backing.ctx = puppet.sharing.ctx = &play;
  puppet.backing.allocate_committed = allocate_committed;
  puppet.backing.commit_range = commit;
  puppet.backing.decommit_range = decommit;
  puppet.backing.mapped_bytes_for_ranges = cost;
  puppet.backing.mapped_bytes_for_allocation = cost_of_allocation;
  puppet.backing.committed_bytes = committed;
  puppet.sharing.create_shared_prefix = create;
  puppet.sharing.retain_shared_prefix = retain;
  puppet.sharing.release_shared_prefix = release_prefix;
  puppet.sharing.incremental_owned_bytes = incremental;
  puppet.sharing.commit_shared_prefix = share;
}

uint64_t nx_charged(nxmem_allocator allocator) {
  nxmem_allocator_info info;
  assert_int_equal(nxmem_allocator_get_info(allocator, &info, NULL), NXMEM_OK);
  return info.mapped_bytes;
}

nxmem_allocation nx_must_reserve(nxmem_allocator allocator, uint64_t bytes, uint64_t granules) {
  NxmemByteRange ranges[64];
  uint64_t count = 0;
  for (uint64_t i = 0; i < 64; i++)
    if ((granules >> i & 1u) != 0) ranges[count++] = (NxmemByteRange){i * NX_PLAY_GRANULE, NX_PLAY_GRANULE};
  assert_true(count != 0); /* an empty list would be a plain allocation */
  const nxmem_allocate_options options = {.committed_ranges = ranges, .committed_range_count = count};
  nxmem_allocation made = {0, NULL};
  nxmem_error error = nx_blank_error();
  if (nxmem_allocate(allocator, bytes, NX_PLAY_GRANULE, &options, &made, &error) != NXMEM_OK)
    fail_msg("%s", error.message);
  return made;
}
