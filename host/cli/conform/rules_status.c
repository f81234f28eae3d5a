/*
 * rules_status.c: rules about the form of every status, wherever it comes from.
 * Attackers: messages that are not terminated, not UTF-8, longer than they say, or followed by stack bytes.
 * Promise: successes and refusals of every slot that a mechanism has are looked at; codes are not judged here.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/families.h"
#include "conform/slots.h"
#include "nxmem.h"
#include "nxmem/status.h"

typedef struct seen_status {
  NxmemStatus status;
  const char *from;
} seen_status;

enum { SEEN_MAX = 64 };

static seen_status seen[SEEN_MAX];
static uint32_t seen_count;

static void see(NxmemStatus status, const char *from) {
  if (seen_count < SEEN_MAX) seen[seen_count++] = (seen_status){status, from};
}

/* ---- Collecting -------------------------------------------------------------------------------------------------- */

static void see_exports(nx_trial *trial) {
  NxmemNegotiateRequest offer = nx_plugin_offer();
  NxmemNegotiateResponse room = nx_plugin_room();
  NxmemUnloadReport report = {.struct_size = sizeof report};
  uint64_t count = 0;
  nx_enter("the three exports");
  see(trial->negotiate(&offer, &room), "NxmemNegotiate, an honest offer");
  offer.host_range.major_min = offer.host_range.major_max = 77;
  see(trial->negotiate(&offer, &room), "NxmemNegotiate, a host of major 77");
  see(trial->negotiate(NULL, &room), "NxmemNegotiate, a NULL request");
  see(trial->factories(NULL, NX_FACTORIES, &count), "NxmemCreateAllocatorFactories, a NULL array");
  see(trial->unload(&report), "NxmemQueryUnloadReadiness");
  see(trial->unload(NULL), "NxmemQueryUnloadReadiness, a NULL report");
}

static void see_open(nx_trial *trial) {
  const NxmemAllocatorVtable *table = NULL;
  NxmemAllocatorFactoryVtable factory = nx_target_factory(trial);
  NxmemOpenRequest request = nx_open_request(trial, &factory);
  nx_enter("open_allocator");
  see(factory.open_allocator(factory.ctx, &request, &table), "open_allocator");
  request.device.index++;
  see(factory.open_allocator(factory.ctx, &request, &table), "open_allocator, another device");
  see(factory.open_allocator(factory.ctx, NULL, &table), "open_allocator, a NULL request");
}

static void see_allocate(const nx_opened *opened) {
  NxmemAllocRequest request = nx_request(opened, 64, 16);
  NxmemAllocResult result = nx_blank_result();
  uint64_t unmapped = 0;
  see(nx_allocate(opened, &request, &result), "allocate");
  NxmemAllocation block = nx_allocation_of(&request, &result), stranger = block;
  stranger.allocation_id ^= 1;
  stranger.mechanism_id ^= 1;
  see(nx_deallocate(opened, &stranger, &unmapped), "deallocate, another mechanism");
  stranger.mechanism_id = block.mechanism_id;
  see(nx_deallocate(opened, &stranger, &unmapped), "deallocate, an unknown id");
  see(nx_deallocate(opened, &block, &unmapped), "deallocate");
  see(nx_deallocate(opened, &block, &unmapped), "deallocate, once more");
  request.bytes = 0;
  see(nx_allocate(opened, &request, &result), "allocate, zero bytes");
  request.struct_size = 8;
  see(nx_allocate(opened, &request, &result), "allocate, a short request");
}

static void see_release(const nx_opened *opened) {
  if (!(opened->caps & NXMEM_CAP_STRUCTURED_RELEASE)) return;
  nx_block block = nx_take(opened, 64, 16);
  NxmemReleaseOutcome outcome = nx_blank_outcome();
  see(nx_release_allocation(opened, &block.allocation, &outcome), "release_allocation");
  if (outcome.state == NXMEM_RELEASE_COMPLETE) see(outcome.failure, "the failure of a complete release");
  see(nx_release_allocation(opened, &block.allocation, &outcome), "release_allocation, once more");
}

static void see_queue(const nx_opened *opened) {
  if (!(opened->caps & NXMEM_CAP_DEFERRED_RELEASE)) return;
  nx_block block = nx_take(opened, 64, 16);
  uint64_t number = 0;
  see(nx_enqueue(opened, &block.allocation, &number), "enqueue_release");
  see(nx_enqueue(opened, &block.allocation, &number), "enqueue_release, once more");
}

static void see_tables(const nx_opened *opened) {
  const NxmemVirtualBackingVtable *backing = &opened->backing;
  const NxmemSharedMappingVtable *sharing = &opened->sharing;
  nx_enter("the capability tables");
  if (backing->commit_range) see(backing->commit_range(backing->ctx, NULL), "commit_range, a NULL request");
  if (backing->decommit_range) see(backing->decommit_range(backing->ctx, NULL, NULL), "decommit_range, a NULL request");
  if (sharing->retain_shared_prefix)
    see(sharing->retain_shared_prefix(sharing->ctx, NULL), "retain_shared_prefix, a NULL handle");
  if (sharing->create_shared_prefix)
    see(sharing->create_shared_prefix(sharing->ctx, 0, 0, NULL), "create_shared_prefix, a NULL handle");
}

/* Bytes that are no zeros lie where the plugin's frames will be. */
static __attribute__((noinline)) void dirty_the_stack(void) {
  volatile uint8_t dirt[16384];
  for (size_t i = 0; i < sizeof dirt; i++) dirt[i] = 0xD7;
}

static void collect(nx_trial *trial) {
  nx_opened opened = nx_open_ready(trial);
  dirty_the_stack();
  see_exports(trial);
  see_open(trial);
  dirty_the_stack();
  see_allocate(&opened);
  see_release(&opened);
  see_queue(&opened);
  dirty_the_stack();
  see_tables(&opened);
}

/* ---- Judging ----------------------------------------------------------------------------------------------------- */

typedef void (*judge_status)(const NxmemStatus *status, const char *from);

static void judge_all(nx_trial *trial, judge_status judge) {
  collect(trial);
  for (uint32_t i = 0; i < seen_count; i++) judge(&seen[i].status, seen[i].from);
  nx_seen("%" PRIu32 " statuses", seen_count);
}

static void judge_code(const NxmemStatus *s, const char *from) {
  NX_EXPECT(s->code < NX_KNOWN_CODES, "%s: code %" PRIu32 " is none that is defined", from, s->code);
}

static void judge_length(const NxmemStatus *s, const char *from) {
  NX_EXPECT(s->message_len <= NXMEM_STATUS_MESSAGE_MAX, "%s: message_len is %" PRIu32, from, s->message_len);
  size_t real = strnlen((const char *)s->message, sizeof s->message);
  NX_EXPECT(real < sizeof s->message, "%s: the message has no NUL", from);
  NX_EXPECT(real == s->message_len, "%s: message_len is %" PRIu32 ", the text has %zu bytes", from, s->message_len,
            real);
}

static uint32_t clamped(const NxmemStatus *s) {
  return s->message_len < NXMEM_STATUS_MESSAGE_MAX ? s->message_len : NXMEM_STATUS_MESSAGE_MAX;
}

static void judge_utf8(const NxmemStatus *s, const char *from) {
  for (uint32_t at = 0; at < clamped(s) && s->message[at];) {
    uint32_t left = clamped(s) - at, length = nxmem_utf8_length(s->message + at, left < 4 ? left : 4);
    NX_EXPECT(length, "%s: byte %" PRIu32 " of the message is no UTF-8", from, at);
    at += length;
  }
}

static void judge_tail(const NxmemStatus *s, const char *from) {
  for (uint32_t i = clamped(s); i < sizeof s->message; i++)
    NX_EXPECT(s->message[i] == 0, "%s: byte %" PRIu32 " behind the message is 0x%02x", from, i, s->message[i]);
}

static void codes_are_known(nx_trial *trial, const void *with) {
  (void)with;
  judge_all(trial, judge_code);
}

static void lengths_are_true(nx_trial *trial, const void *with) {
  (void)with;
  judge_all(trial, judge_length);
}

static void messages_are_utf8(nx_trial *trial, const void *with) {
  (void)with;
  judge_all(trial, judge_utf8);
}

static void tails_are_zero(nx_trial *trial, const void *with) {
  (void)with;
  judge_all(trial, judge_tail);
}

#define STA(name, text, function)                                                                               \
  {                                                                                                             \
    .id = (name), .statement = (text), .section = "Status", .scope = NX_SCOPE_MECHANISM, .needs = "NX-DEA-001", \
    .check = (function)                                                                                         \
  }

static const nx_rule RULES[] = {
    STA("NX-STA-001", "Every status carries a code that is defined", codes_are_known),
    STA("NX-STA-002", "Every message is NUL-terminated, and message_len is its length", lengths_are_true),
    STA("NX-STA-003", "Every message is UTF-8, also where it was cut", messages_are_utf8),
    STA("NX-STA-004", "Behind every message there are zeros alone: no stack bytes reach the host", tails_are_zero),
};

const nx_family nx_status_rules = NX_FAMILY("status", "The form of every status", RULES);
