/*
 * rules_sharing_misuse.c: rules about handles and commits that the shared mapping slots must refuse.
 * Attackers: a plugin that trusts its caller, or its own numbers alone.
 * Promise: after each refusal every count of the unload report is as before.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "conform/families.h"
#include "conform/memory.h"
#include "conform/sharing.h"
#include "nxmem.h"

/* ---- Handles ----------------------------------------------------------------------------------------------------- */

typedef struct misuse {
  const char *what;
  void (*spoil)(NxmemSharedPrefixHandle *handle);
  nx_codes accepted;
} misuse;

static void other_handle(NxmemSharedPrefixHandle *h) { h->handle += 1000; }
static void other_mechanism(NxmemSharedPrefixHandle *h) { h->mechanism_id ^= 1ull << 40; }
static void other_device(NxmemSharedPrefixHandle *h) { h->device.index++; }

static const misuse HANDLE = {"a handle that was never made", other_handle, NX_CODE(UNKNOWN_ALLOCATION)},
                    MECHANISM = {"another mechanism", other_mechanism, NX_CODE(WRONG_MECHANISM)},
                    DEVICE = {"another device", other_device, NX_CODE(WRONG_DEVICE)};

/* Every slot that takes a handle. */
static void all_refuse(const nx_shared *s, const NxmemSharedPrefixHandle *handle, nx_codes accepted) {
  NxmemSharedPrefixCommitRequest request = nx_commit_request(handle, &s->blocks[2], 0);
  NxmemSharedPrefixCommitInfo info = nx_blank_info();
  uint64_t bytes = 0;
  const NxmemSharedMappingVtable *t = &s->opened.sharing;
  if (t->retain_shared_prefix) nx_expect_status(nx_retain(&s->opened, handle), accepted, "retain_shared_prefix");
  if (t->incremental_owned_bytes)
    nx_expect_status(nx_incremental(&s->opened, handle, &bytes), accepted, "incremental_owned_bytes");
  nx_expect_status(nx_commit_prefix(&s->opened, &request, &info), accepted, "commit_shared_prefix");
  nx_expect_status(nx_release_prefix(&s->opened, handle), accepted, "release_shared_prefix");
}

static void wrong_handle(nx_trial *trial, const void *with) {
  const misuse *wrong = with;
  nx_shared s = nx_share_ready(trial, 1);
  NxmemSharedPrefixHandle handle = s.prefix;
  NxmemUnloadReport before = nx_plugin_report(trial);
  wrong->spoil(&handle);
  all_refuse(&s, &handle, wrong->accepted);
  nx_same_counts(trial, &before, wrong->what);
  nx_seen("%s from every slot", nx_codes_words(wrong->accepted));
}

static void released_handle(nx_trial *trial, const void *with) {
  (void)with;
  nx_shared s = nx_share_ready(trial, 0);
  nx_must_release(&s.opened, &s.prefix);
  NxmemUnloadReport before = nx_plugin_report(trial);
  all_refuse(&s, &s.prefix, NX_CODE(UNKNOWN_ALLOCATION));
  nx_same_counts(trial, &before, "a handle that was released");
  nx_seen("UNKNOWN_ALLOCATION from every slot");
}

/* Same mechanism, same device, another open. */
static void anothers_handle(nx_trial *trial, const void *with) {
  (void)with;
  nx_shared owner = nx_share_ready(trial, 1), other = nx_share_again(trial, 0);
  NxmemUnloadReport before = nx_plugin_report(trial);
  other.prefix = owner.prefix;
  all_refuse(&other, &owner.prefix, NX_CODE(UNKNOWN_ALLOCATION));
  nx_same_counts(trial, &before, "another open's prefix");
  nx_seen("UNKNOWN_ALLOCATION from every slot");
}

static void short_handle(nx_trial *trial, const void *with) {
  (void)with;
  nx_shared s = nx_share_ready(trial, 0);
  NxmemUnloadReport before = nx_plugin_report(trial);
  uint32_t sizes[NX_SHORT_SIZES], count = nx_short_sizes(NX_HANDLE_BYTES, sizes);
  for (uint32_t i = 0; i < count; i++) {
    const NxmemSharedPrefixHandle *handle = nx_short_copy(&s.prefix, sizes[i], NX_HANDLE_BYTES);
    nx_expect_status(nx_release_prefix(&s.opened, handle), NX_CODE(SHORT_STRUCT), "release_shared_prefix");
    if (s.opened.sharing.retain_shared_prefix)
      nx_expect_status(nx_retain(&s.opened, handle), NX_CODE(SHORT_STRUCT), "retain_shared_prefix");
  }
  nx_same_counts(trial, &before, "short handles");
  nx_seen("SHORT_STRUCT at 0, 8, 56 and 63 bytes");
}

static void null_arguments(nx_trial *trial, const void *with) {
  (void)with;
  nx_shared s = nx_share_ready(trial, 0);
  NxmemUnloadReport before = nx_plugin_report(trial);
  NxmemSharedPrefixCommitRequest request = nx_commit_request(&s.prefix, &s.blocks[0], 0);
  NxmemSharedPrefixCommitInfo info = nx_blank_info();
  const nx_codes invalid = NX_CODE(INVALID_ARGUMENT);
  nx_expect_status(nx_create(&s.opened, NX_PREFIX_BYTES, NULL), invalid, "create_shared_prefix");
  nx_expect_status(nx_release_prefix(&s.opened, NULL), invalid, "release_shared_prefix");
  nx_expect_status(nx_commit_prefix(&s.opened, NULL, &info), invalid, "commit_shared_prefix without a request");
  nx_expect_status(nx_commit_prefix(&s.opened, &request, NULL), invalid, "commit_shared_prefix without info");
  if (s.opened.sharing.retain_shared_prefix)
    nx_expect_status(nx_retain(&s.opened, NULL), invalid, "retain_shared_prefix");
  if (s.opened.sharing.incremental_owned_bytes)
    nx_expect_status(nx_incremental(&s.opened, &s.prefix, NULL), invalid, "incremental_owned_bytes");
  nx_same_counts(trial, &before, "NULL arguments");
  nx_seen("INVALID_ARGUMENT");
}

/* ---- create_shared_prefix ---------------------------------------------------------------------------------------- */

static void refuses_sizes(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemUnloadReport before = nx_plugin_report(trial);
  NxmemSharedPrefixHandle handle = nx_blank_handle();
  const nx_codes too_much = NX_CODE(INVALID_ARGUMENT) | NX_CODE(OUT_OF_MEMORY);
  nx_expect_status(nx_create(&opened, 0, &handle), NX_CODE(INVALID_ARGUMENT), "zero bytes");
  nx_expect_status(nx_create(&opened, UINT64_MAX, &handle), too_much, "2^64 - 1 bytes");
  nx_expect_status(nx_create(&opened, 1ull << 63, &handle), too_much, "2^63 bytes");
  nx_same_counts(trial, &before, "refused sizes");
  nx_seen("refused");
}

static void refuses_mechanism(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemUnloadReport before = nx_plugin_report(trial);
  NxmemSharedPrefixHandle handle = nx_blank_handle();
  const NxmemSharedMappingVtable *t = &opened.sharing;
  nx_needs_slot(t->create_shared_prefix != NULL, "create_shared_prefix");
  nx_enter("create_shared_prefix for another mechanism");
  nx_expect_status(t->create_shared_prefix(t->ctx, opened.table.mechanism_id ^ 1ull << 40, 4096, &handle),
                   NX_CODE(WRONG_MECHANISM), "another mechanism");
  nx_same_counts(trial, &before, "another mechanism");
  nx_seen("WRONG_MECHANISM");
}

static void create_room(nx_trial *trial, const void *with) {
  (void)with;
  static const uint32_t rooms[] = {0, 8, 16, 56, 63};
  nx_opened opened = nx_open_ready(trial);
  NxmemUnloadReport before = nx_plugin_report(trial);
  uint8_t blank[NX_ROOM_BYTES] = {0};
  for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
    nx_room room;
    nx_room_begin(&room, blank, rooms[i]);
    uint32_t code = nx_create(&opened, 4096, (NxmemSharedPrefixHandle *)(void *)room.bytes).code;
    long at = nx_room_overrun(&room);
    NX_EXPECT(at < 0, "wrote byte %ld of a handle whose room is %" PRIu32, at, rooms[i]);
    nx_expect_code(code, NX_CODE(SHORT_STRUCT), "room for less than 64 bytes");
  }
  nx_same_counts(trial, &before, "short rooms");
  nx_seen("SHORT_STRUCT, nothing written beyond the room");
}

/* ---- commit_shared_prefix ---------------------------------------------------------------------------------------- */

static void refuses_offsets(nx_trial *trial, const void *with) {
  (void)with;
  nx_shared s = nx_share_ready(trial, 0);
  NxmemUnloadReport before = nx_plugin_report(trial);
  uint64_t size = s.blocks[0].allocation.bytes;
  const uint64_t offsets[] = {size, size - 1, size - NX_PREFIX_BYTES + 1, 1ull << 63, UINT64_MAX - 4095};
  for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
    NxmemSharedPrefixCommitRequest request = nx_commit_request(&s.prefix, &s.blocks[0], offsets[i]);
    NxmemSharedPrefixCommitInfo info = nx_blank_info();
    nx_expect_status(nx_commit_prefix(&s.opened, &request, &info), NX_CODE(INVALID_ARGUMENT),
                     "an offset from which the prefix leaves the block");
  }
  nx_same_counts(trial, &before, "offsets outside");
  nx_seen("INVALID_ARGUMENT for 5 offsets");
}

static void refuses_blocks(nx_trial *trial, const void *with) {
  (void)with;
  nx_shared s = nx_share_ready(trial, 0);
  NxmemUnloadReport before = nx_plugin_report(trial);
  NxmemSharedPrefixCommitInfo info = nx_blank_info();
  NxmemSharedPrefixCommitRequest request = nx_commit_request(&s.prefix, &s.blocks[0], 0);
  request.allocation.allocation_id ^= 1ull << 35;
  nx_expect_status(nx_commit_prefix(&s.opened, &request, &info), NX_CODE(UNKNOWN_ALLOCATION), "an unknown block");
  request = nx_commit_request(&s.prefix, &s.blocks[0], 0);
  request.allocation.mechanism_id ^= 1ull << 40;
  nx_expect_status(nx_commit_prefix(&s.opened, &request, &info), NX_CODE(WRONG_MECHANISM),
                   "a block of another mechanism");
  request = nx_commit_request(&s.prefix, &s.blocks[0], 0);
  request.allocation.device.index++;
  nx_expect_status(nx_commit_prefix(&s.opened, &request, &info), NX_CODE(WRONG_DEVICE), "a block of another device");
  nx_same_counts(trial, &before, "wrong blocks");
  nx_seen("UNKNOWN_ALLOCATION, WRONG_MECHANISM, WRONG_DEVICE");
}

static void commit_records(nx_trial *trial, const void *with) {
  (void)with;
  static const uint32_t rooms[] = {0, 8, 16, 24, 31};
  nx_shared s = nx_share_ready(trial, 0);
  NxmemUnloadReport before = nx_plugin_report(trial);
  NxmemSharedPrefixCommitRequest request = nx_commit_request(&s.prefix, &s.blocks[0], 0);
  NxmemSharedPrefixCommitInfo info = nx_blank_info();
  uint8_t blank[NX_ROOM_BYTES] = {0};
  uint32_t sizes[NX_SHORT_SIZES], count = nx_short_sizes(NX_COMMIT_REQUEST_BYTES, sizes);
  for (uint32_t i = 0; i < count; i++)
    nx_expect_status(nx_commit_prefix(&s.opened, nx_short_copy(&request, sizes[i], NX_COMMIT_REQUEST_BYTES), &info),
                     NX_CODE(SHORT_STRUCT), "a request below 136 bytes");
  for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
    nx_room room;
    nx_room_begin(&room, blank, rooms[i]);
    uint32_t code = nx_commit_prefix(&s.opened, &request, (NxmemSharedPrefixCommitInfo *)(void *)room.bytes).code;
    long at = nx_room_overrun(&room);
    NX_EXPECT(at < 0, "wrote byte %ld of an info whose room is %" PRIu32, at, rooms[i]);
    nx_expect_code(code, NX_CODE(SHORT_STRUCT), "room for less than 32 bytes");
  }
  nx_same_counts(trial, &before, "short records");
  nx_seen("SHORT_STRUCT, nothing written beyond the room");
}

#define SHM(name, text, place, need, function, argument)                                                 \
  {                                                                                                      \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = (need), \
    .capability = NXMEM_CAP_SHARED_MAPPING, .check = (function), .with = (argument)                      \
  }

static const nx_rule RULES[] = {
    SHM("NX-SHM-021", "A handle that was never made is UNKNOWN_ALLOCATION", "Identity", "NX-SHM-009", wrong_handle,
        &HANDLE),
    SHM("NX-SHM-022", "Another mechanism is WRONG_MECHANISM", "Identity", "NX-SHM-009", wrong_handle, &MECHANISM),
    SHM("NX-SHM-023", "Another device is WRONG_DEVICE", "Identity", "NX-SHM-009", wrong_handle, &DEVICE),
    SHM("NX-SHM-024", "A handle that was released is UNKNOWN_ALLOCATION", "Identity", "NX-SHM-009", released_handle,
        NULL),
    SHM("NX-SHM-025", "Another open's prefix is UNKNOWN_ALLOCATION", "Identity", "NX-SHM-009", anothers_handle, NULL),
    SHM("NX-SHM-026", "A handle below 64 bytes is SHORT_STRUCT, and nothing beyond it is read", "Sizes", "NX-SHM-009",
        short_handle, NULL),
    SHM("NX-SHM-027", "NULL arguments are INVALID_ARGUMENT", "Sizes", "NX-SHM-009", null_arguments, NULL),
    SHM("NX-SHM-028", "A prefix of zero bytes, or of more than there can be, is refused", "Identity", "NX-SHM-009",
        refuses_sizes, NULL),
    SHM("NX-SHM-029", "A prefix for another mechanism is WRONG_MECHANISM", "Identity", "NX-SHM-009", refuses_mechanism,
        NULL),
    SHM("NX-SHM-030", "Room for less than 64 bytes of a handle is SHORT_STRUCT, nothing is written beyond it", "Sizes",
        "NX-SHM-009", create_room, NULL),
    SHM("NX-SHM-031", "An offset from which the prefix leaves the block is INVALID_ARGUMENT", "Identity", "NX-SHM-009",
        refuses_offsets, NULL),
    SHM("NX-SHM-032", "A block that is unknown, or of another mechanism or device, is refused", "Identity",
        "NX-SHM-009", refuses_blocks, NULL),
    SHM("NX-SHM-033", "Short commit requests and rooms are SHORT_STRUCT, nothing is written beyond them", "Sizes",
        "NX-SHM-009", commit_records, NULL),
};

const nx_family nx_sharing_misuse_rules =
    NX_FAMILY("shared mapping requests", "Handles and commits that must be refused", RULES);
