/*
 * rules_callbacks.c: rules about what a plugin calls the host with.
 * Attackers: a plugin that calls with another host_ctx, with records that are none, or when it must not.
 * Promise: what comes is copied and kept by callbacks.c; nothing of it is followed.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/families.h"
#include "conform/pressure.h"
#include "conform/slots.h"
#include "nxmem.h"

enum { BLOCKS = 16 };

/* Static: callbacks live as long as the child. */
static nx_callback_log the_log;

static nx_opened open_logged(nx_trial *trial) {
  nx_plugin_ready(trial);
  nx_callbacks_begin(&the_log);
  nx_opened opened = nx_open_once(trial, &the_log);
  return opened;
}

static void drive(const nx_opened *opened) {
  for (int i = 0; i < BLOCKS; i++) {
    nx_block block = nx_take(opened, 64, 16);
    nx_give(opened, &block);
  }
}

/* Some ask at any time, most under pressure alone. */
static void drive_until_asked(nx_trial *trial) {
  nx_opened opened = open_logged(trial);
  drive(&opened);
  if (the_log.reclaims + the_log.malformed_reclaims == 0) nx_press(&opened);
  if (the_log.reclaims + the_log.malformed_reclaims == 0)
    nx_does_not_apply("it did not ask for memory to be reclaimed");
}

static void reclaim_is_whole(nx_trial *trial, const void *with) {
  (void)with;
  drive_until_asked(trial);
  NX_EXPECT(the_log.malformed_reclaims == 0, "%s", the_log.malformed);
  nx_seen("%" PRIu64 " requests of 32 bytes", the_log.reclaims);
}

static void reclaim_is_true(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = open_logged(trial);
  drive(&opened);
  if (the_log.reclaims == 0) nx_press(&opened);
  if (the_log.reclaims == 0) nx_does_not_apply("it did not ask for memory to be reclaimed");
  for (uint64_t i = 0; i < the_log.reclaims && i < NX_RECLAIMS_KEPT; i++) {
    const NxmemReclaimRequest *r = &the_log.asked[i];
    NX_EXPECT(r->mechanism_id == opened.table.mechanism_id, "mechanism_id is %" PRIu64, r->mechanism_id);
    NX_EXPECT(!memcmp(&r->device, &opened.table.device, sizeof r->device), "the device is not the allocator's");
    NX_EXPECT(r->bytes > 0 && r->bytes <= INT64_MAX, "asks for %" PRIu64 " bytes", r->bytes);
  }
  nx_seen("%" PRIu64 " requests", the_log.reclaims);
}

static void records_stand_still(nx_trial *trial, const void *with) {
  (void)with;
  nx_host_watches();
  drive_until_asked(trial);
  NX_EXPECT(the_log.unsteady == 0, "a request for reclaim changed while the host read it");
  nx_seen("the first 8 were watched");
}

static void no_stray_completion(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = open_logged(trial);
  drive(&opened);
  nx_close(&opened);
  NX_EXPECT(the_log.completions + the_log.malformed_completions == 0, "a completion came, and nothing was queued");
  nx_seen("none");
}

/* A first allocator with callbacks of its own comes and goes, so that there is a stale host_ctx to be had. */
static void context_is_given(nx_trial *trial, const void *with) {
  (void)with;
  static nx_callback_log gone;
  nx_plugin_ready(trial);
  nx_callbacks_begin(&gone);
  nx_opened first = nx_open_once(trial, &gone);
  drive(&first);
  nx_close(&first);
  uint64_t before = gone.calls;
  nx_callbacks_begin(&the_log);
  nx_opened opened = nx_open_once(trial, &the_log);
  drive(&opened);
  NX_EXPECT(gone.calls == before, "a callback came with the host_ctx of an allocator that was released");
  NX_EXPECT(nx_foreign_calls() == 0, "%" PRIu64 " callbacks came with a host_ctx that was never given",
            nx_foreign_calls());
  nx_seen("%" PRIu64 " callbacks", the_log.calls);
}

static void quiet_after_release(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = open_logged(trial);
  drive(&opened);
  nx_close(&opened);
  uint64_t before = the_log.calls;
  for (int i = 0; i < 3; i++) nx_plugin_report(trial);
  nx_opened other = nx_open_once(trial, NULL);
  drive(&other);
  nx_close(&other);
  NX_EXPECT(the_log.calls == before, "a callback came after the allocator's last release, nothing being queued");
  nx_seen("none after the last release");
}

#define CBK(name, text, place, function)                                                                       \
  {                                                                                                            \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = "NX-DEA-001", \
    .check = (function)                                                                                        \
  }

static const nx_rule RULES[] = {
    CBK("NX-CBK-001", "A request for reclaim is a record of its full 32 bytes, with a place for the answer", "Sizes",
        reclaim_is_whole),
    CBK("NX-CBK-002", "A request for reclaim names its mechanism, its device and an amount", "Identity",
        reclaim_is_true),
    CBK("NX-CBK-003", "A request for reclaim does not change while the host reads it", "Threads", records_stand_still),
    CBK("NX-CBK-004", "No completion comes where nothing was queued", "Queued releases", no_stray_completion),
    CBK("NX-CBK-005", "Callbacks come with the host_ctx that was given with the open", "Ownership", context_is_given),
    CBK("NX-CBK-006", "With nothing queued no callback comes after the allocator's last release", "Ownership",
        quiet_after_release),
};

const nx_family nx_callback_rules = NX_FAMILY("callbacks", "What a plugin calls the host with", RULES);
