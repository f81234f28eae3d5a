/*
 * run_virtual.c: a walk through virtual memory: reserve a terabyte, commit in steps, decommit, share a prefix among three, queue a release, drain; with the
 * plugin's own figures before and after each step, where it exports them.
 * Attackers: the plugin behind the mechanism.
 * Promise: a step that is not offered, or that an earlier one left nothing for, is shown as such; memory is touched on tier host alone; what was made here is
 * given back as far as the plugin takes it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "crash.h"
#include "exit_codes.h"
#include "run.h"
#include "run_statistics.h"
#include "touch.h"
#include "words.h"

/* Offsets that are multiples of 32 MiB suit every granule up to that. */
#define NEAR (32ull << 20)
#define LEAST (64ull << 20)
#define PREFIX (2ull << 20)
#define ALIGN 4096ull

/* Capabilities that steps need. */
#define BACKING NXMEM_CAP_VIRTUAL_BACKING
#define SHARING (NXMEM_CAP_VIRTUAL_BACKING | NXMEM_CAP_SHARED_MAPPING)
#define QUEUES NXMEM_CAP_DEFERRED_RELEASE

enum { MEMBERS = 3, SPREAD = 8, TAKEN_BACK = 4, DRAINS = 16 };

/* What stands at a moment of the walk. */
typedef struct walk {
  nx_session *session;
  const nxmem_mechanism_info *mechanism;
  nxmem_allocator allocator;
  uint64_t effective;
  nx_figures figures;
  json_t *row; /* of the step that is being taken */
  nxmem_error error;
  nxmem_allocation block;
  int has_block;
  uint64_t size; /* of the block */
  uint64_t granule;
  nxmem_allocation members[MEMBERS];
  uint32_t member_count;
  nxmem_prefix prefix;
  int has_prefix;
  int is_queued;
} walk;

/* ---- Pieces ------------------------------------------------------------------------------------------------------ */

static uint64_t charged(const walk *w) {
  nxmem_allocator_info info;
  return nxmem_allocator_get_info(w->allocator, &info, NULL) == NXMEM_OK ? info.mapped_bytes : 0;
}

static nxmem_result reserve(walk *w, uint64_t bytes, nxmem_allocation *out) {
  const NxmemByteRange first = {0, 1};
  const nxmem_allocate_options options = {.committed_ranges = &first, .committed_range_count = 1};
  return nxmem_allocate(w->allocator, bytes, ALIGN, &options, out, &w->error);
}

/* The first and the last byte of what was committed are written and read back. */
static nxmem_result touch(walk *w, uint64_t offset, uint64_t bytes) {
  if (w->mechanism->device.tier != NXMEM_TIER_HOST) return NXMEM_OK;
  uint8_t *const ends[] = {(uint8_t *)w->block.ptr + offset, (uint8_t *)w->block.ptr + offset + bytes - 1};
  nx_touch touched = {NX_TOUCH_OK, 0};
  nx_touch_guard guard;
  nx_touch_begin(&guard);
  for (int i = 0; i < 2 && touched.result == NX_TOUCH_OK; i++) {
    touched = nx_touch_fill(ends[i], 1, offset);
    if (touched.result == NX_TOUCH_OK) touched = nx_touch_verify(ends[i], 1, offset);
  }
  nx_touch_end(&guard);
  if (touched.result == NX_TOUCH_OK) return NXMEM_OK;
  w->error = (nxmem_error){.result = NXMEM_ERR_UNREADABLE_MEMORY, .found = touched.address};
  snprintf(w->error.message, sizeof w->error.message,
           "found committed memory that does not keep what is written at address 0x%" PRIx64, touched.address);
  return NXMEM_ERR_UNREADABLE_MEMORY;
}

/* ---- Backing ----------------------------------------------------------------------------------------------------- */

static int is_short(const walk *w, nxmem_result result) {
  return result == NXMEM_ERR_PLUGIN && w->error.plugin_status == NXMEM_STATUS_OUT_OF_MEMORY;
}

/* What is shared later needs address space beside it. */
static nxmem_result reserve_beside_others(walk *w) {
  nxmem_allocation others;
  nxmem_result r = reserve(w, w->size, &w->block);
  if (r != NXMEM_OK || (SHARING & ~w->effective) != 0) return r;
  r = reserve(w, MEMBERS * LEAST, &others);
  if (r == NXMEM_OK) return nxmem_release(w->allocator, others, NULL, &w->error);
  if (!is_short(w, r)) return NXMEM_OK; /* which shows when it is shared */
  (void)!nxmem_release(w->allocator, w->block, NULL, NULL);
  return r;
}

/* Half of it where there is too little address space, and so on down. */
static nxmem_result take_reserve(walk *w) {
  const uint64_t asked = w->session->args->reserve;
  nxmem_error first = {.result = NXMEM_OK};
  nxmem_result r = NXMEM_ERR_PLUGIN;
  for (w->size = asked; r != NXMEM_OK; w->size /= 2) {
    r = reserve_beside_others(w);
    if (r == NXMEM_OK) break;
    if (first.result == NXMEM_OK) first = w->error;
    if (!is_short(w, r) || w->size / 2 < LEAST) return r;
  }
  w->has_block = 1;
  nx_set_number(w->row, "reserved", w->size);
  nx_set_number(w->row, "mapped", charged(w));
  if (w->size != asked) {
    nx_set_text(w->row, "verdict", "note");
    nx_set_number(w->row, "asked", asked);
    nx_set_text(w->row, "message", first.message);
  }
  return NXMEM_OK;
}

/* What one byte costs where nothing is mapped. A plugin that does not tell has made one granule of the first byte. */
static void find_granule(walk *w) {
  const NxmemByteRange one = {NEAR, 1};
  w->granule = 0;
  (void)!nxmem_cost_of_ranges(w->allocator, w->block, &one, 1, &w->granule, NULL);
  if (w->granule == 0) w->granule = charged(w);
  if (w->granule == 0 || w->granule > NEAR / SPREAD) w->granule = ALIGN;
}

static nxmem_result commit(walk *w, NxmemByteRange range) {
  const uint64_t before = charged(w);
  uint64_t committed = 0;
  nx_set_number(w->row, "offset", range.offset);
  nx_set_number(w->row, "bytes", range.bytes);
  nxmem_result r = nxmem_commit(w->allocator, w->block, range, &w->error);
  if (r != NXMEM_OK) return r;
  nx_set_number(w->row, "newly_mapped", charged(w) - before);
  if (nxmem_committed_bytes(w->allocator, w->block, &committed, NULL) == NXMEM_OK)
    nx_set_number(w->row, "committed", committed);
  return touch(w, range.offset, range.bytes);
}

static nxmem_result take_commit_byte(walk *w) {
  find_granule(w);
  return commit(w, (NxmemByteRange){NEAR, 1});
}
static nxmem_result take_commit_run(walk *w) { return commit(w, (NxmemByteRange){w->size / 2, SPREAD * w->granule}); }
static nxmem_result take_commit_end(walk *w) { return commit(w, (NxmemByteRange){w->size - w->granule, w->granule}); }

static nxmem_result decommit(walk *w, NxmemByteRange range) {
  uint64_t unmapped = 0;
  nx_set_number(w->row, "offset", range.offset);
  nx_set_number(w->row, "bytes", range.bytes);
  const nxmem_result r = nxmem_decommit(w->allocator, w->block, range, &unmapped, &w->error);
  if (r != NXMEM_OK) return r;
  nx_set_number(w->row, "unmapped", unmapped);
  nx_set_number(w->row, "still_mapped", charged(w));
  return NXMEM_OK;
}

static nxmem_result take_decommit_part(walk *w) {
  return decommit(w, (NxmemByteRange){w->size / 2 + 2 * w->granule, TAKEN_BACK * w->granule});
}
/* All but the last granule: what is queued for release has memory of its own until it is drained. */
static nxmem_result take_decommit_most(walk *w) { return decommit(w, (NxmemByteRange){0, w->size - w->granule}); }

/* ---- Sharing ----------------------------------------------------------------------------------------------------- */

static nxmem_result make_members(walk *w) {
  nxmem_result r = NXMEM_OK;
  while (r == NXMEM_OK && w->member_count < MEMBERS) {
    r = reserve(w, LEAST, &w->members[w->member_count]);
    w->member_count += r == NXMEM_OK;
  }
  return r;
}

/* Where the group came to nothing some are gone with it: what release then says is no news. */
static void drop_members(walk *w) {
  while (w->member_count) (void)!nxmem_release(w->allocator, w->members[--w->member_count], NULL, NULL);
}

static nxmem_result take_share(walk *w) {
  static const char *const outcome_words[] = {"shared", "private", "quarantined"}; /* by nxmem_group_outcome */
  nxmem_group_outcome outcome = NXMEM_GROUP_PRIVATE;
  nx_set_number(w->row, "prefix_bytes", PREFIX);
  nx_set_number(w->row, "allocations", MEMBERS);
  nxmem_result r = nxmem_prefix_create(w->allocator, PREFIX, &w->prefix, &w->error);
  if (r != NXMEM_OK) return r;
  w->has_prefix = 1;
  r = make_members(w);
  if (r != NXMEM_OK) return r;
  r = nxmem_prefix_commit(w->prefix, w->members, MEMBERS, NEAR, &outcome, &w->error);
  if (r != NXMEM_OK) drop_members(w);
  nx_set_text(w->row, "outcome", outcome_words[outcome]);
  nx_set_number(w->row, "mapped", charged(w));
  return r;
}

/* The prefix first: its bytes stay until the last mapping goes. */
static nxmem_result take_unshare(walk *w) {
  nxmem_error error;
  nxmem_result first = nxmem_prefix_release(w->prefix, &w->error);
  w->has_prefix = 0;
  while (w->member_count) {
    const nxmem_result r = nxmem_release(w->allocator, w->members[--w->member_count], NULL, &error);
    if (r != NXMEM_OK && first == NXMEM_OK) w->error = error;
    if (first == NXMEM_OK) first = r;
  }
  nx_set_number(w->row, "still_mapped", charged(w));
  return first;
}

/* ---- Queued release ---------------------------------------------------------------------------------------------- */

/* The terabyte; without virtual backing an ordinary block. */
static nxmem_result take_queue(walk *w) {
  const nx_run_args *args = w->session->args;
  uint64_t ticket = 0;
  nxmem_result r = NXMEM_OK;
  w->size = w->has_block ? w->size : args->bytes;
  if (!w->has_block) r = nxmem_allocate(w->allocator, args->bytes, args->align, NULL, &w->block, &w->error);
  if (r != NXMEM_OK) return r;
  w->has_block = 1;
  nx_set_number(w->row, "bytes", w->size);
  r = nxmem_enqueue_release(w->allocator, w->block, NULL, &ticket, &w->error);
  if (r != NXMEM_OK) return r;
  w->has_block = 0;
  w->is_queued = 1;
  nx_set_number(w->row, "ticket", ticket);
  return NXMEM_OK;
}

static nxmem_result take_drain(walk *w) {
  nxmem_pending left;
  uint64_t drains = 0;
  nxmem_result r = nxmem_pending_releases(w->allocator, &left, &w->error);
  if (r == NXMEM_OK) nx_set_number(w->row, "pending", left.host);
  for (; r == NXMEM_OK && left.host != 0 && drains < DRAINS; drains++) {
    r = nxmem_drain_releases(w->allocator, 1, NULL, &w->error);
    if (r == NXMEM_OK) r = nxmem_pending_releases(w->allocator, &left, &w->error);
  }
  if (r != NXMEM_OK) return r;
  nx_set_number(w->row, "drains", drains);
  nx_set_number(w->row, "still_queued", left.host);
  if (left.host == 0) return NXMEM_OK;
  nx_set_text(w->row, "verdict", "warning");
  nx_set_text(w->row, "message", "drain_releases completes nothing: the release stays queued");
  nx_session_raise(w->session, NX_EXIT_FINDINGS);
  return NXMEM_OK;
}

/* Where releases cannot be queued, or a step went wrong. */
static nxmem_result take_release(walk *w) {
  const nxmem_result r = nxmem_release(w->allocator, w->block, NULL, &w->error);
  w->has_block = 0;
  nx_set_number(w->row, "still_mapped", charged(w));
  return r;
}

/* ---- The walk ---------------------------------------------------------------------------------------------------- */

static int always(const walk *w) {
  (void)w;
  return 1;
}
static int is_reserved(const walk *w) { return w->has_block; }
static int is_shared(const walk *w) { return w->has_prefix; }
static int is_queued(const walk *w) { return w->is_queued; }

typedef struct walk_step {
  const char *name;
  uint64_t needs; /* capabilities */
  int (*is_due)(const walk *w);
  nxmem_result (*take)(walk *w);
} walk_step;

static const walk_step STEPS[] = {
    {"vm_reserve", BACKING, always, take_reserve},
    {"vm_commit", BACKING, is_reserved, take_commit_byte},
    {"vm_commit", BACKING, is_reserved, take_commit_run},
    {"vm_commit", BACKING, is_reserved, take_commit_end},
    {"vm_decommit", BACKING, is_reserved, take_decommit_part},
    {"vm_decommit", BACKING, is_reserved, take_decommit_most},
    {"vm_share", SHARING, always, take_share},
    {"vm_unshare", SHARING, is_shared, take_unshare},
    {"vm_queue", QUEUES, always, take_queue},
    {"vm_drain", QUEUES, is_queued, take_drain},
};
enum { STEP_COUNT = sizeof STEPS / sizeof STEPS[0] };
static const walk_step LAST = {"vm_release", 0, is_reserved, take_release};

static void show_not_reached(walk *w, const walk_step *step) {
  json_t *row = nx_step(step->name, NX_ROW_NOTE, w->mechanism);
  nx_set_text(row, "message", "not reached: an earlier step left nothing for it");
  nx_report_add(&w->session->report, row);
}

/* A slot that is not there is its author's choice. */
static void show_refused(walk *w, nxmem_result result) {
  const int is_missing = result == NXMEM_ERR_UNSUPPORTED_CAPABILITY;
  nx_set_text(w->row, "verdict", is_missing ? "note" : "refused");
  if (!is_missing) {
    nx_step_refused(w->session, w->row, &w->error);
    return;
  }
  char message[sizeof w->error.message + 16];
  snprintf(message, sizeof message, "not offered: %s", w->error.message);
  nx_set_text(w->row, "message", message);
  nx_report_add(&w->session->report, w->row);
}

static void take(walk *w, const walk_step *step) {
  if (!step->is_due(w)) {
    show_not_reached(w, step);
    return;
  }
  nx_crash_entering(step->name, w->mechanism->name);
  w->row = nx_step(step->name, NX_ROW_OK, w->mechanism);
  const nxmem_result result = step->take(w);
  nx_figures_set(&w->figures, w->row);
  if (result == NXMEM_OK)
    nx_report_add(&w->session->report, w->row);
  else
    show_refused(w, result);
  nx_figures_print(&w->figures, step->name);
}

static int is_offered(const walk *w, const walk_step *step) { return (step->needs & ~w->effective) == 0; }

/* "vm_share, vm_unshare" */
static void list_not_offered(const walk *w, char *out, size_t room) {
  size_t used = (size_t)snprintf(out, room, "not offered:");
  const char *before = "";
  for (int i = 0; i < STEP_COUNT && used < room; i++) {
    if (is_offered(w, &STEPS[i]) || strcmp(before, STEPS[i].name) == 0) continue;
    used += (size_t)snprintf(out + used, room - used, "%s %s", *before ? "," : "", STEPS[i].name);
    before = STEPS[i].name;
  }
}

static void show_offer(walk *w) {
  char message[160];
  const uint64_t missing = (SHARING | QUEUES) & ~w->effective;
  json_t *row = nx_step("virtual", missing ? NX_ROW_NOTE : NX_ROW_OK, w->mechanism);
  if (missing) nx_set_capabilities(row, "not_offered", missing);
  nx_figures_set_state(&w->figures, row);
  list_not_offered(w, message, sizeof message);
  if (missing) nx_set_text(row, "message", message);
  nx_report_add(&w->session->report, row);
  nx_figures_print(&w->figures, "at first");
}

static void show_trouble(walk *w) {
  const char *key = nx_figures_trouble(&w->figures);
  if (!key) return;
  char message[96];
  json_t *row = nx_step("statistics", NX_ROW_WARNING, w->mechanism);
  snprintf(message, sizeof message, "%s is not 0 after a walk in which nothing was to go wrong", key);
  nx_set_text(row, "message", message);
  nx_session_raise(w->session, NX_EXIT_FINDINGS);
  nx_report_add(&w->session->report, row);
}

void nx_run_virtual(nx_session *session, const nxmem_mechanism_info *mechanism, nxmem_allocator allocator) {
  nxmem_allocator_info info;
  if (nxmem_allocator_get_info(allocator, &info, NULL) != NXMEM_OK) return;
  walk w = {.session = session, .mechanism = mechanism, .allocator = allocator, .effective = info.effective_flags};
  nx_figures_begin(&w.figures, session, info.mechanism_id, info.device);
  show_offer(&w);
  for (int i = 0; i < STEP_COUNT; i++) {
    if (is_offered(&w, &STEPS[i])) take(&w, &STEPS[i]);
  }
  if (w.has_block) take(&w, &LAST);
  show_trouble(&w);
}
