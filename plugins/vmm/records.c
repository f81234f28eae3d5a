/*
 * records.c: what every slot does with the records it is given.
 *
 * Attackers: a host with short, NULL, misaligned, stale or foreign records, of any version.
 * Promise: no byte is read or written beyond what the host declared; every status has its text and nothing behind it.
 */
#include "records.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fork.h"
#include "nxmem/identity.h"
#include "nxmem/outcome.h"
#include "nxmem/prefix.h"
#include "nxmem/status.h"

NxmemStatus nx_ok(void) { return (NxmemStatus){.code = NXMEM_STATUS_OK}; }

NxmemStatus nx_status(uint32_t code, const char *text) {
  NxmemStatus status;
  nxmem_status_build(&status, code, (const uint8_t *)text, (uint32_t)strlen(text));
  return status;
}

NxmemStatus nx_refused(nx_said said) { return nx_status(said.code, said.text); }

static int comes_from_the_device(uint32_t code) {
  return code == NXMEM_STATUS_DEVICE_ERROR || code == NXMEM_STATUS_OUT_OF_MEMORY ||
         code == NXMEM_STATUS_RELEASE_QUARANTINED;
}

/* Another thread's may have come since: then the message tells that. */
static nx_vmm_answer refusal_of(nx_engine *engine) {
  pthread_mutex_lock(&engine->lock);
  const nx_vmm_answer refusal = engine->device.refusal;
  pthread_mutex_unlock(&engine->lock);
  return refusal;
}

/* What stands in the way of a call that is BUSY, as far as it still does. */
static void tell_busy(nx_engine *engine, char *out, size_t room) {
  pthread_mutex_lock(&engine->lock);
  const uint64_t queued = engine->queued, captures = nx_gate_captures(engine->device.gate);
  pthread_mutex_unlock(&engine->lock);
  snprintf(out, room, "; releases queued: %" PRIu64 ", captures of the device: %" PRIu64, queued, captures);
}

/* Not in one function with the good answer, which needs none of these lines. */
static __attribute__((noinline)) NxmemStatus tell_loss(nx_engine *engine, uint32_t code, const char *text,
                                                       const nx_loss *loss) {
  char line[NXMEM_STATUS_MESSAGE_BUF], device[96] = "", left[80] = "";
  const nx_vmm_answer refusal = comes_from_the_device(code) ? refusal_of(engine) : (nx_vmm_answer){0};
  if (refusal.call != NULL)
    snprintf(device, sizeof device, "; %s: %s (%" PRId32 ")", refusal.call, refusal.name == NULL ? "?" : refusal.name,
             refusal.code);
  if (loss != NULL && loss->bytes != 0u)
    snprintf(left, sizeof left, "; %" PRIu64 " bytes kept back, %" PRIu64 " granules still mapped", loss->bytes,
             loss->granules);
  else if (code == NXMEM_STATUS_BUSY)
    tell_busy(engine, left, sizeof left);
  snprintf(line, sizeof line, "%s%s%s", text, left, device);
  return nx_status(code, line);
}

NxmemStatus nx_told_loss(nx_engine *engine, uint32_t code, const char *text, const nx_loss *loss) {
  return code == NXMEM_STATUS_OK ? nx_ok() : tell_loss(engine, code, text, loss);
}

NxmemStatus nx_told_need(nx_engine *engine, uint32_t code, const char *text, uint64_t bytes, const nx_loss *loss) {
  char needed[96];
  if (code != NXMEM_STATUS_OUT_OF_MEMORY) return nx_told_loss(engine, code, text, loss);
  pthread_mutex_lock(&engine->lock);
  const uint64_t most = nx_spans_most(&engine->spans);
  pthread_mutex_unlock(&engine->lock);
  snprintf(needed, sizeof needed, "%s: %" PRIu64 " bytes needed, largest free piece %" PRIu64, text, bytes, most);
  return nx_told_loss(engine, code, needed, loss);
}

NxmemStatus nx_told(nx_engine *engine, uint32_t code, const char *text) {
  return nx_told_loss(engine, code, text, NULL);
}

int nx_unusable(const void *record) { return nxmem_check_table_address((uintptr_t)record).reason != NXMEM_REASON_NONE; }

nx_said nx_check_call(const void *ctx, const void *first, const void *second) {
  if (nx_is_forked()) return nx_say(NXMEM_STATUS_DEVICE_ERROR, "a forked child: the memory is its parent's");
  if (ctx == NULL || nx_unusable(first) || nx_unusable(second))
    return nx_say(NXMEM_STATUS_INVALID_ARGUMENT, "NULL ctx, or a NULL or misaligned argument");
  return nx_fine();
}

nx_said nx_check_owner(const nx_engine *engine, uint64_t mechanism_id, NxmemDeviceId device) {
  const NxmemDeviceId own = {engine->offer->tier, engine->offer->index};
  const nxmem_verdict same = nxmem_check_identity(mechanism_id, device, engine->offer->mechanism_id, own);
  if (same.reason == NXMEM_REASON_NONE) return nx_fine();
  return nx_say(nxmem_reason_status(same.reason), "an object of another mechanism or device");
}

nx_said nx_check_allocation(const nx_engine *engine, const NxmemAllocation *allocation) {
  if (allocation->struct_size < NX_ALLOCATION_BYTES)
    return nx_say(NXMEM_STATUS_SHORT_STRUCT, "allocation shorter than 56 bytes");
  return nx_check_owner(engine, allocation->mechanism_id, allocation->device);
}

uint32_t nx_find_block_locked(const nx_engine *engine, const NxmemAllocation *allocation, nx_block **out) {
  nx_block *block = nx_blocks_find(&engine->blocks, allocation->allocation_id);
  if (block == NULL) return NXMEM_STATUS_UNKNOWN_ALLOCATION;
  const nxmem_named named = {0u, (uintptr_t)allocation->ptr, allocation->bytes, allocation->align};
  const nxmem_named books = {0u, block->first, block->bytes, block->align};
  /* A 0 says nothing there; here it says 0, and no block has that. */
  if (named.bytes == 0u || named.align == 0u) return NXMEM_STATUS_INVALID_ARGUMENT;
  const nxmem_verdict same = nxmem_check_named(&named, &books);
  if (same.reason != NXMEM_REASON_NONE) return nxmem_reason_status(same.reason);
  *out = block;
  return NXMEM_STATUS_OK;
}

uint32_t nx_find_live_locked(const nx_engine *engine, const NxmemAllocation *allocation, nx_block **out) {
  const uint32_t status = nx_find_block_locked(engine, allocation, out);
  return status == NXMEM_STATUS_OK && (*out)->state == NX_BLOCK_QUEUED ? (uint32_t)NXMEM_STATUS_BUSY : status;
}

void nx_outcome_fill(NxmemReleaseOutcome *outcome, uint64_t allocation_bytes, const nx_undone *undone) {
  memset(outcome, 0, sizeof *outcome);
  outcome->struct_size = NX_OUTCOME_BYTES;
  outcome->state = undone->status == NXMEM_STATUS_OK     ? NXMEM_RELEASE_COMPLETE
                   : undone->status == NXMEM_STATUS_BUSY ? NXMEM_RELEASE_FAILED
                                                         : NXMEM_RELEASE_QUARANTINED;
  outcome->allocation_bytes = allocation_bytes;
  outcome->unmapped_bytes = undone->unmapped;
  outcome->residual_owned_bytes = undone->loss.bytes;
  if (undone->status != NXMEM_STATUS_OK)
    outcome->failure = nx_status(undone->status, undone->status == NXMEM_STATUS_BUSY ? "the device is being captured"
                                                                                     : "not all could be given back");
}

void nx_relieve(nx_engine *engine, uint64_t bytes) {
  const NxmemHostCallbacks *host = engine->callbacks;
  uint64_t reclaimed = 0u;
  nx_engines_trim(engine->offer->tier, engine->offer->index);
  if (host == NULL || host->request_reclaim == NULL || bytes == 0u) return;
  const NxmemReclaimRequest request = {.struct_size = sizeof request,
                                       .mechanism_id = engine->offer->mechanism_id,
                                       .device = {engine->offer->tier, engine->offer->index},
                                       .bytes = bytes};
  (void)host->request_reclaim(host->host_ctx, &request, &reclaimed);
}
