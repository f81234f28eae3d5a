/*
 * rules_sharing.c: rules about shared prefixes.
 * Attackers: pages that go too early, are charged twice, or can be written by those who only share them.
 * Promise: memory is touched on tier host alone, through addresses that the plugin named.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "conform/families.h"
#include "conform/sharing.h"
#include "nxmem.h"
#include "touch.h"

enum { SHARERS = 3 };

static const char MARK[] = "nxmem shared prefix";

/* ---- A prefix ---------------------------------------------------------------------------------------------------- */

static void creates(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemSharedPrefixHandle handle = nx_blank_handle();
  nx_expect_status(nx_create(&opened, NX_PREFIX_BYTES, &handle), NX_CODE(OK), "a prefix of 100,000 bytes");
  nx_seen("OK");
}

static void handle_is_whole(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemSharedPrefixHandle h = nx_must_create(&opened);
  NX_EXPECT(h.struct_size >= NX_HANDLE_BYTES, "struct_size is %" PRIu32 ", needed 64", h.struct_size);
  NX_EXPECT(h.mechanism_id == opened.table.mechanism_id, "mechanism_id is %" PRIu64, h.mechanism_id);
  NX_EXPECT(!memcmp(&h.device, &opened.table.device, sizeof h.device), "the device is not the allocator's");
  NX_EXPECT(h.requested_bytes == NX_PREFIX_BYTES, "requested_bytes is %" PRIu64, h.requested_bytes);
  NX_EXPECT(h.committed_physical_bytes >= NX_PREFIX_BYTES && h.committed_physical_bytes <= INT64_MAX,
            "committed_physical_bytes is %" PRIu64 " for %d bytes", h.committed_physical_bytes, NX_PREFIX_BYTES);
  NX_EXPECT(h.mapped_bytes <= INT64_MAX, "mapped_bytes is %" PRIu64, h.mapped_bytes);
  NX_EXPECT(h.handle != UINT64_MAX, "handle was left unwritten");
  nx_seen("%" PRIu64 " physical bytes", h.committed_physical_bytes);
}

static void capabilities_are(nx_trial *trial, uint64_t wanted, const char *when) {
  uint64_t found = nx_plugin_report(trial).live_capabilities;
  NX_EXPECT(found == wanted, "live_capabilities is %" PRIu64 ", needed %" PRIu64 " %s", found, wanted, when);
}

static void counts_prefixes(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  capabilities_are(trial, 0, "before any prefix");
  NxmemSharedPrefixHandle first = nx_must_create(&opened), second = nx_must_create(&opened);
  capabilities_are(trial, 2, "with two prefixes");
  nx_expect_status(nx_release_prefix(&opened, &first), NX_CODE(OK), "release_shared_prefix");
  capabilities_are(trial, 1, "after one of two was released");
  nx_expect_status(nx_release_prefix(&opened, &second), NX_CODE(OK), "release_shared_prefix");
  capabilities_are(trial, 0, "after both were released");
  nx_seen("0, 2, 1, 0");
}

static void counts_references(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemSharedPrefixHandle h = nx_must_create(&opened);
  if (!opened.sharing.retain_shared_prefix) {
    nx_seen("there is no retain_shared_prefix slot");
    return;
  }
  nx_expect_status(nx_retain(&opened, &h), NX_CODE(OK), "a live prefix");
  capabilities_are(trial, 1, "with two references to one prefix");
  nx_must_release(&opened, &h);
  capabilities_are(trial, 1, "with one of two references left");
  nx_expect_status(nx_retain(&opened, &h), NX_CODE(OK), "a prefix with one reference");
  nx_must_release(&opened, &h);
  nx_must_release(&opened, &h);
  capabilities_are(trial, 0, "after the last reference");
  nx_expect_status(nx_release_prefix(&opened, &h), NX_CODE(UNKNOWN_ALLOCATION), "a release too many");
  nx_seen("lives as long as a reference is held");
}

/* ---- Sharing it -------------------------------------------------------------------------------------------------- */

static void commits(nx_trial *trial, const void *with) {
  (void)with;
  nx_shared s = nx_share_ready(trial, 0);
  NxmemSharedPrefixCommitInfo info = nx_blank_info();
  NxmemSharedPrefixCommitRequest request = nx_commit_request(&s.prefix, &s.blocks[0], 0);
  nx_expect_status(nx_commit_prefix(&s.opened, &request, &info), NX_CODE(OK), "offset 0 of a reserve");
  nx_seen("OK");
}

static void commits_thrice(nx_trial *trial, const void *with) {
  (void)with;
  nx_shared s = nx_share_ready(trial, 0);
  for (int i = 0; i < SHARERS; i++) {
    NxmemSharedPrefixCommitInfo info = nx_blank_info();
    NxmemSharedPrefixCommitRequest request = nx_commit_request(&s.prefix, &s.blocks[i], 0);
    nx_expect_status(nx_commit_prefix(&s.opened, &request, &info), NX_CODE(OK), "one more block");
  }
  nx_seen("%d blocks", SHARERS);
}

static void info_is_written(nx_trial *trial, const void *with) {
  (void)with;
  nx_shared s = nx_share_ready(trial, 1);
  const NxmemSharedPrefixCommitInfo *info = &s.infos[0];
  NX_EXPECT(info->struct_size >= NX_INFO_BYTES, "struct_size is %" PRIu32, info->struct_size);
  NX_EXPECT(info->additional_owned_bytes <= INT64_MAX, "additional_owned_bytes is %" PRIu64,
            info->additional_owned_bytes);
  NX_EXPECT(info->newly_mapped_bytes >= NX_PREFIX_BYTES && info->newly_mapped_bytes <= INT64_MAX,
            "newly_mapped_bytes is %" PRIu64 " for %d bytes", info->newly_mapped_bytes, NX_PREFIX_BYTES);
  NX_EXPECT(info->granules > 0 && info->granules <= NX_PREFIX_BYTES, "granules is %" PRIu64, info->granules);
  nx_seen("%" PRIu64 " bytes in %" PRIu64 " granules", info->newly_mapped_bytes, info->granules);
}

static void charged_once(nx_trial *trial, const void *with) {
  (void)with;
  nx_shared s = nx_share_ready(trial, SHARERS);
  uint64_t first = s.infos[0].additional_owned_bytes;
  NX_EXPECT(first <= s.prefix.committed_physical_bytes,
            "the first commit is charged %" PRIu64 ", physical are %" PRIu64, first, s.prefix.committed_physical_bytes);
  for (int i = 1; i < SHARERS; i++)
    NX_EXPECT(s.infos[i].additional_owned_bytes == 0, "commit %d is charged %" PRIu64 " once more", i + 1,
              s.infos[i].additional_owned_bytes);
  nx_seen("%" PRIu64 ", 0, 0", first);
}

static void foretells_charge(nx_trial *trial, const void *with) {
  (void)with;
  nx_shared s = nx_share_ready(trial, 0);
  nx_needs_slot(s.opened.sharing.incremental_owned_bytes != NULL, "incremental_owned_bytes");
  for (int i = 0; i < SHARERS; i++) {
    uint64_t foretold = NX_UNWRITTEN;
    nx_expect_status(nx_incremental(&s.opened, &s.prefix, &foretold), NX_CODE(OK), "a live prefix");
    nx_share_one(&s, i);
    NX_EXPECT(foretold == s.infos[i].additional_owned_bytes, "foretold %" PRIu64 ", charged %" PRIu64, foretold,
              s.infos[i].additional_owned_bytes);
  }
  nx_seen("as charged, %d times", SHARERS);
}

static void counts_views(nx_trial *trial, const void *with) {
  (void)with;
  nx_shared s = nx_share_ready(trial, 0);
  for (uint64_t i = 0; i < SHARERS; i++) {
    uint64_t views = nx_plugin_report(trial).live_views;
    NX_EXPECT(views == i, "live_views is %" PRIu64 " after %" PRIu64 " commits", views, i);
    nx_share_one(&s, (int)i);
  }
  for (uint64_t i = 0; i < SHARERS; i++) {
    uint64_t views = nx_plugin_report(trial).live_views;
    NX_EXPECT(views == SHARERS - i, "live_views is %" PRIu64 " with %" PRIu64 " sharers left", views, SHARERS - i);
    nx_give(&s.opened, &s.blocks[i]);
  }
  nx_must_release(&s.opened, &s.prefix);
  NxmemUnloadReport end = nx_plugin_report(trial);
  NX_EXPECT(end.live_views == 0, "live_views is %" PRIu64 " at the end", end.live_views);
  nx_seen("0, 1, 2, 3, 2, 1, 0");
}

static void fill(const nx_shared *s) {
  if (!nx_may_touch(&s->opened) || !s->prefix.device_ptr) nx_does_not_apply("the CPU cannot fill the prefix");
  nx_enter("filling the prefix");
  memcpy((void *)(uintptr_t)s->prefix.device_ptr, MARK, sizeof MARK);
}

static void must_show(const nx_shared *s, int sharer, const char *when) {
  nx_enter("reading a shared prefix through block %d", sharer);
  NX_EXPECT(!memcmp(s->blocks[sharer].allocation.ptr, MARK, sizeof MARK), "block %d does not show the prefix %s",
            sharer, when);
}

static void shows_content(nx_trial *trial, const void *with) {
  (void)with;
  nx_shared s = nx_share_ready(trial, SHARERS);
  fill(&s);
  for (int i = 0; i < SHARERS; i++) must_show(&s, i, "after its owner wrote");
  nx_seen("what the owner wrote shows in %d blocks", SHARERS);
}

static void read_only(nx_trial *trial, const void *with) {
  (void)with;
  nx_touch_guard guard;
  nx_shared s = nx_share_ready(trial, SHARERS);
  if (!nx_may_touch(&s.opened)) nx_does_not_apply("the memory is not the CPU's to touch");
  for (int i = 0; i < SHARERS; i++) {
    nx_enter("writing to a shared prefix through block %d", i);
    nx_touch_begin(&guard);
    nx_touch wrote = nx_touch_fill(s.blocks[i].allocation.ptr, 1, 1);
    nx_touch_end(&guard);
    NX_EXPECT(wrote.result == NX_TOUCH_FAULT, "block %d could write to the prefix", i);
  }
  nx_seen("a write through any of %d blocks faults", SHARERS);
}

/* ---- The end ----------------------------------------------------------------------------------------------------- */

/* The handle (2) and two sharers (0, 1), in each order. */
static const int ORDERS[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

static void give_in_order(nx_trial *trial, const nx_shared *s, const int order[3]) {
  int live[3] = {1, 1, 1};
  for (int i = 0; i < 3; i++) {
    if (order[i] == 2)
      nx_must_release(&s->opened, &s->prefix);
    else
      nx_give(&s->opened, &s->blocks[order[i]]);
    live[order[i]] = 0;
    for (int j = 0; j < 2; j++)
      if (live[j] && nx_may_touch(&s->opened) && s->prefix.device_ptr) must_show(s, j, "while it still maps it");
  }
  NxmemUnloadReport end = nx_plugin_report(trial);
  NX_EXPECT(end.live_views == 0 && end.live_capabilities == 0 && end.live_allocations == 0,
            "views %" PRIu64 ", capabilities %" PRIu64 ", allocations %" PRIu64 " after all were given back",
            end.live_views, end.live_capabilities, end.live_allocations);
}

static void any_order(nx_trial *trial, const void *with) {
  (void)with;
  for (int i = 0; i < 6; i++) {
    nx_shared s = i ? nx_share_again(trial, 2) : nx_share_ready(trial, 2);
    nx_give(&s.opened, &s.blocks[2]);
    if (nx_may_touch(&s.opened) && s.prefix.device_ptr) fill(&s);
    give_in_order(trial, &s, ORDERS[i]);
    nx_close(&s.opened);
  }
  NxmemUnloadReport end = nx_plugin_report(trial);
  NX_EXPECT(end.live_allocators <= 1, "live_allocators is %" PRIu64, end.live_allocators);
  nx_seen("all six orders of the handle and two blocks");
}

#define SHM(name, text, place, need, function)                                                           \
  {                                                                                                      \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = (need), \
    .capability = NXMEM_CAP_SHARED_MAPPING, .check = (function)                                          \
  }

static const nx_rule RULES[] = {
    SHM("NX-SHM-001", "create_shared_prefix answers OK to 100,000 bytes", "Capabilities", "NX-TAB-012", creates),
    SHM("NX-SHM-002", "The handle is written whole and names mechanism, device and size", "Sizes", "NX-SHM-001",
        handle_is_whole),
    SHM("NX-SHM-003", "live_capabilities counts prefixes that were not given back", "Unload report", "NX-SHM-002",
        counts_prefixes),
    SHM("NX-SHM-004", "A prefix lives until its last reference is released", "Ownership", "NX-SHM-003",
        counts_references),
    SHM("NX-SHM-005", "commit_shared_prefix maps a prefix at the start of a block", "Capabilities", "NX-SHM-004",
        commits),
    SHM("NX-SHM-006", "The commit info is written, and agrees with the prefix's size", "Sizes", "NX-SHM-013",
        info_is_written),
    SHM("NX-SHM-007", "Physical bytes are charged at the first commit and not again", "Ownership", "NX-SHM-006",
        charged_once),
    SHM("NX-SHM-008", "incremental_owned_bytes is what the next commit is charged", "Ownership", "NX-SHM-006",
        foretells_charge),
    SHM("NX-SHM-009", "live_views counts mappings of prefixes into blocks", "Unload report", "NX-SHM-013",
        counts_views),
    SHM("NX-SHM-010", "What the owner writes shows in every block that maps it", "Ownership", "NX-SHM-009",
        shows_content),
    SHM("NX-SHM-011", "Those who share a prefix cannot write to it", "Ownership", "NX-SHM-009", read_only),
    SHM("NX-SHM-012", "Handle and blocks may go in any order, and the pages stay until the last", "Ownership",
        "NX-SHM-009", any_order),
    SHM("NX-SHM-013", "One prefix can be mapped into three blocks", "Capabilities", "NX-SHM-005", commits_thrice),
};

const nx_family nx_sharing_rules = NX_FAMILY("shared mapping", "Prefixes shared between blocks", RULES);
