/*
 * run_capabilities.c: what a mechanism can do beyond allocating: virtual backing, shared mapping, queued releases, each
 * exercised once.
 * Attackers: the plugin behind the mechanism.
 * Promise: memory is touched on tier host alone, where the host said that it is committed; whatever fails, everything
 * made here is given back as far as the plugin takes it.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "crash.h"
#include "exit_codes.h"
#include "run.h"
#include "touch.h"

/* Large pages are 2 MiB, and an offset that is a multiple of 32 MiB suits every granule up to that. */
#define RESERVED (64ull << 20)
#define OFFSET (32ull << 20)
#define PREFIX (2ull << 20)
#define ALIGN 4096ull

typedef struct trial {
  nx_session *session;
  const nxmem_mechanism_info *mechanism;
  nxmem_allocator allocator;
  const char *name; /* of the row */
  json_t *row;
  nxmem_error error;
} trial;

static trial begin(nx_session *session, const nxmem_mechanism_info *mechanism, nxmem_allocator allocator,
                   const char *name) {
  nx_crash_entering(name, mechanism->name);
  return (trial){session, mechanism, allocator, name, nx_step(name, NX_ROW_OK, mechanism), {0}};
}

/* A slot that is not there is a choice of its author's: a note. Everything else that is not OK is refused. */
static void end(trial *t, nxmem_result result) {
  if (result == NXMEM_OK) {
    nx_report_add(&t->session->report, t->row);
    return;
  }
  json_decref(t->row);
  if (result != NXMEM_ERR_UNSUPPORTED_CAPABILITY) {
    nx_step_refused(t->session, nx_step(t->name, NX_ROW_REFUSED, t->mechanism), &t->error);
    return;
  }
  json_t *note = nx_step(t->name, NX_ROW_NOTE, t->mechanism);
  nx_set_text(note, "message", t->error.message);
  nx_report_add(&t->session->report, note);
}

/* What is wrong with the memory itself, in the words of a refusal. */
static nxmem_result refuse(trial *t, nxmem_result result, const char *found, uint64_t address) {
  t->error = (nxmem_error){.result = result, .found = address};
  snprintf(t->error.message, sizeof t->error.message, "%s: found %s at address 0x%" PRIx64, t->name, found, address);
  return result;
}

/* One byte of each committed end is written and read back. */
static nxmem_result touch(trial *t, void *ptr, uint64_t offset) {
  if (t->mechanism->device.tier != NXMEM_TIER_HOST) return NXMEM_OK;
  uint8_t *at = (uint8_t *)ptr + offset;
  nx_touch_guard guard;
  nx_touch_begin(&guard);
  nx_touch touched = nx_touch_fill(at, 1, offset + 1);
  if (touched.result == NX_TOUCH_OK) touched = nx_touch_verify(at, 1, offset + 1);
  nx_touch_end(&guard);
  if (touched.result == NX_TOUCH_OK) return NXMEM_OK;
  return refuse(t, NXMEM_ERR_UNREADABLE_MEMORY, "committed memory that cannot be written and read", touched.address);
}

static nxmem_result reserve(trial *t, nxmem_allocation *out) {
  const NxmemByteRange first = {0, 1};
  const nxmem_allocate_options options = {.committed_ranges = &first, .committed_range_count = 1};
  return nxmem_allocate(t->allocator, RESERVED, ALIGN, &options, out, &t->error);
}

/* A release that fails is told where nothing else was. */
static nxmem_result release(trial *t, nxmem_allocation block, nxmem_result before) {
  nxmem_error error;
  const nxmem_result r = nxmem_release(t->allocator, block, NULL, &error);
  if (r == NXMEM_OK || before != NXMEM_OK) return before;
  t->error = error;
  return r;
}

/* ---- Virtual backing --------------------------------------------------------------------------------------------- */

static uint64_t charged(const trial *t) {
  nxmem_allocator_info info;
  return nxmem_allocator_get_info(t->allocator, &info, NULL) == NXMEM_OK ? info.mapped_bytes : 0;
}

static nxmem_result commit_and_decommit(trial *t, nxmem_allocation block) {
  const NxmemByteRange far = {OFFSET, 1}, all = {0, RESERVED};
  uint64_t cost = 0, unmapped = 0;
  nxmem_result r = touch(t, block.ptr, 0);
  nx_set_number(t->row, "mapped_at_first", charged(t));
  if (r == NXMEM_OK) r = nxmem_cost_of_ranges(t->allocator, block, &far, 1, &cost, &t->error);
  if (r == NXMEM_OK) r = nxmem_commit(t->allocator, block, far, &t->error);
  if (r != NXMEM_OK) return r;
  nx_set_number(t->row, "granule", cost);
  nx_set_number(t->row, "mapped_behind_commit", charged(t));
  r = touch(t, block.ptr, OFFSET);
  if (r == NXMEM_OK) r = nxmem_decommit(t->allocator, block, all, &unmapped, &t->error);
  if (r != NXMEM_OK) return r;
  nx_set_number(t->row, "unmapped", unmapped);
  nx_set_number(t->row, "mapped_behind_decommit", charged(t));
  return NXMEM_OK;
}

static void try_backing(nx_session *session, const nxmem_mechanism_info *mechanism, nxmem_allocator allocator) {
  trial t = begin(session, mechanism, allocator, "backing");
  nxmem_allocation block;
  nxmem_result r = reserve(&t, &block);
  nx_set_number(t.row, "reserved", RESERVED);
  if (r == NXMEM_OK) r = release(&t, block, commit_and_decommit(&t, block));
  end(&t, r);
}

/* ---- Shared mapping ---------------------------------------------------------------------------------------------- */

static const char *outcome_word(nxmem_group_outcome outcome) {
  if (outcome == NXMEM_GROUP_SHARED) return "shared";
  return outcome == NXMEM_GROUP_PRIVATE ? "private" : "quarantined";
}

/* Where the group came to nothing some are gone with it: what release then says is no news. */
static nxmem_result release_members(trial *t, const nxmem_allocation *members, uint32_t count, nxmem_result before) {
  for (uint32_t i = 0; i < count; i++) before = release(t, members[i], before);
  return before;
}

static nxmem_result map_into_two(trial *t, nxmem_prefix prefix) {
  enum { MEMBERS = 2 };
  nxmem_allocation members[MEMBERS];
  nxmem_prefix_info info;
  nxmem_result r = nxmem_prefix_get_info(prefix, &info, &t->error);
  if (r != NXMEM_OK) return r;
  nx_set_number(t->row, "physical_bytes", info.committed_physical_bytes);
  uint32_t made = 0;
  while (r == NXMEM_OK && made < MEMBERS) {
    r = reserve(t, &members[made]);
    if (r == NXMEM_OK) made++;
  }
  if (r == NXMEM_OK) {
    nxmem_group_outcome outcome = NXMEM_GROUP_PRIVATE;
    r = nxmem_prefix_commit(prefix, members, MEMBERS, OFFSET, &outcome, &t->error);
    nx_set_text(t->row, "outcome", outcome_word(outcome));
    nx_set_number(t->row, "mapped_bytes", charged(t));
  }
  return release_members(t, members, made, r);
}

static void try_sharing(nx_session *session, const nxmem_mechanism_info *mechanism, nxmem_allocator allocator) {
  trial t = begin(session, mechanism, allocator, "sharing");
  nxmem_prefix prefix;
  nx_set_number(t.row, "prefix_bytes", PREFIX);
  nxmem_result r = nxmem_prefix_create(allocator, PREFIX, &prefix, &t.error);
  if (r == NXMEM_OK) {
    r = map_into_two(&t, prefix);
    nxmem_error error;
    const nxmem_result released = nxmem_prefix_release(prefix, &error);
    if (r == NXMEM_OK && released != NXMEM_OK) t.error = error;
    if (r == NXMEM_OK) r = released;
  }
  end(&t, r);
}

/* ---- Deferred release -------------------------------------------------------------------------------------------- */

enum { DRAINS = 16 };

static nxmem_result drain(trial *t, nxmem_pending *left, uint64_t *drains) {
  nxmem_result r = nxmem_pending_releases(t->allocator, left, &t->error);
  for (*drains = 0; r == NXMEM_OK && left->host != 0 && *drains < DRAINS; ++*drains) {
    r = nxmem_drain_releases(t->allocator, 1, NULL, &t->error);
    if (r == NXMEM_OK) r = nxmem_pending_releases(t->allocator, left, &t->error);
  }
  return r;
}

/* One that does not settle is a finding of this trial, and close shows what becomes of it. */
static void try_deferred(nx_session *session, const nxmem_mechanism_info *mechanism, nxmem_allocator allocator) {
  trial t = begin(session, mechanism, allocator, "deferred");
  nxmem_allocation block;
  nxmem_pending left = {0, 0};
  uint64_t ticket = 0, drains = 0;
  nxmem_result r = nxmem_allocate(allocator, session->args->bytes, session->args->align, NULL, &block, &t.error);
  if (r == NXMEM_OK) {
    r = nxmem_enqueue_release(allocator, block, NULL, &ticket, &t.error);
    r = r == NXMEM_OK ? drain(&t, &left, &drains) : release(&t, block, r);
  }
  nx_set_number(t.row, "ticket", ticket);
  nx_set_number(t.row, "drains", drains);
  nx_set_number(t.row, "still_queued", left.host);
  if (r == NXMEM_OK && left.host != 0) {
    json_decref(t.row);
    t.row = nx_step(t.name, NX_ROW_WARNING, mechanism);
    nx_set_number(t.row, "still_queued", left.host);
    nx_set_text(t.row, "message", "drain_releases completes nothing: the release stays queued");
    nx_session_raise(session, NX_EXIT_FINDINGS);
  }
  end(&t, r);
}

void nx_run_capabilities(nx_session *session, const nxmem_mechanism_info *mechanism, nxmem_allocator allocator,
                         uint64_t effective_flags) {
  if ((effective_flags & NXMEM_CAP_VIRTUAL_BACKING) != 0) try_backing(session, mechanism, allocator);
  if ((effective_flags & NXMEM_CAP_SHARED_MAPPING) != 0) try_sharing(session, mechanism, allocator);
  if ((effective_flags & NXMEM_CAP_DEFERRED_RELEASE) != 0) try_deferred(session, mechanism, allocator);
}
