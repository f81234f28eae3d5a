/*
 * run_mechanism.c: one mechanism of a plugin, exercised: open, allocate, write and read back, release, close.
 * Attackers: the plugin behind the mechanism.
 * Promise: memory is touched on tier host alone, and never what was this command's before; whatever fails,
 * everything allocated is given back as far as the plugin takes it.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "crash.h"
#include "exit_codes.h"
#include "progress.h"
#include "run.h"
#include "text.h"
#include "touch.h"
#include "words.h"

/* One open allocator and its blocks. */
typedef struct exercise {
  nx_session *session;
  const nxmem_mechanism_info *mechanism;
  nxmem_allocator allocator;
  nxmem_allocation *blocks;
  uint64_t count; /* allocated */
  uint64_t effective;
  int structured; /* the host releases through release_allocation */
} exercise;

static void entering(const exercise *work, const char *name) { nx_crash_entering(name, work->mechanism->name); }

static json_t *step(const exercise *work, const char *name, nx_row_verdict verdict) {
  return nx_step(name, verdict, work->mechanism);
}

/* ---- Open -------------------------------------------------------------------------------------------------------- */

static int open_allocator(exercise *work) {
  nxmem_error error;
  entering(work, "allocator");
  nxmem_open_options options = {.mechanism = work->mechanism->name, .device = &work->mechanism->device};
  if (nxmem_allocator_open(work->session->plugin, &options, &work->allocator, &error) == NXMEM_OK) return 0;
  nx_step_refused(work->session, step(work, "allocator", NX_ROW_REFUSED), &error);
  return -1;
}

static void show_allocator(exercise *work) {
  nxmem_allocator_info info;
  nxmem_error error;
  if (nxmem_allocator_get_info(work->allocator, &info, &error) != NXMEM_OK) {
    nx_step_refused(work->session, step(work, "allocator", NX_ROW_REFUSED), &error);
    return;
  }
  work->effective = info.effective_flags;
  work->structured = (info.effective_flags & NXMEM_CAP_STRUCTURED_RELEASE) != 0;
  json_t *row = step(work, "allocator", NX_ROW_OK);
  nx_set_number(row, "level", info.abi_minor);
  nx_set_number(row, "mechanism_id", info.mechanism_id);
  nx_set_capabilities(row, "declared", info.declared_flags);
  nx_set_capabilities(row, "effective", info.effective_flags);
  nx_report_add(&work->session->report, row);
}

/* ---- Allocate ---------------------------------------------------------------------------------------------------- */

static int allocate_blocks(exercise *work, nxmem_error *error) {
  const nx_run_args *args = work->session->args;
  nx_progress progress;
  nxmem_result result = NXMEM_OK;
  nx_progress_begin(&progress, "allocated", args->blocks);
  while (result == NXMEM_OK && work->count < args->blocks) {
    result = nxmem_allocate(work->allocator, args->bytes, args->align, NULL, &work->blocks[work->count], error);
    if (result == NXMEM_OK) nx_progress_tick(&progress, ++work->count);
  }
  nx_progress_end(&progress);
  return result == NXMEM_OK ? 0 : -1;
}

static void set_request(json_t *row, const exercise *work) {
  nx_set_number(row, "blocks", work->count);
  nx_set_number(row, "bytes", work->session->args->bytes);
  nx_set_number(row, "align", work->session->args->align);
}

static int allocate_step(exercise *work) {
  nxmem_error error;
  nxmem_allocator_info info;
  entering(work, "allocate");
  if (allocate_blocks(work, &error) || nxmem_allocator_get_info(work->allocator, &info, &error) != NXMEM_OK) {
    json_t *row = step(work, "allocate", NX_ROW_REFUSED);
    set_request(row, work);
    nx_step_refused(work->session, row, &error);
    return -1;
  }
  json_t *row = step(work, "allocate", NX_ROW_OK);
  set_request(row, work);
  nx_set_number(row, "live", info.live_allocations);
  nx_set_number(row, "owned_bytes", info.owned_bytes);
  nx_set_number(row, "mapped_bytes", info.mapped_bytes);
  nx_report_add(&work->session->report, row);
  return 0;
}

/* ---- Write and read back ----------------------------------------------------------------------------------------- */

typedef nx_touch (*touch_one)(void *start, uint64_t bytes, uint64_t block);

static nx_touch verify_one(void *start, uint64_t bytes, uint64_t block) { return nx_touch_verify(start, bytes, block); }

static nx_touch touch_all(const exercise *work, const char *what, touch_one one, uint64_t *block) {
  nx_touch touch = {NX_TOUCH_OK, 0};
  nx_progress progress;
  nx_progress_begin(&progress, what, work->count);
  for (*block = 0; touch.result == NX_TOUCH_OK && *block < work->count; nx_progress_tick(&progress, ++*block)) {
    touch = one(work->blocks[*block].ptr, work->session->args->bytes, *block);
  }
  nx_progress_end(&progress);
  return touch;
}

/* Every block is written before any is read back, so that two that share memory show. */
static nx_touch touch_blocks(const exercise *work, uint64_t *block) {
  nx_touch_guard guard;
  nx_touch_begin(&guard);
  nx_touch touch = touch_all(work, "written", nx_touch_fill, block);
  if (touch.result == NX_TOUCH_OK) touch = touch_all(work, "read back", verify_one, block);
  nx_touch_end(&guard);
  return touch;
}

static void refuse_touch(exercise *work, nx_touch touch, uint64_t block) {
  nxmem_error error = {.result = NXMEM_ERR_CONTRACT, .found = touch.address};
  const char *what = touch.result == NX_TOUCH_FAULT ? "memory that cannot be written and read"
                                                    : "memory that does not keep what is written";
  snprintf(error.message, sizeof error.message,
           "block %" PRIu64 ": found %s at address 0x%" PRIx64
           ", need memory that is the caller's alone; mend the plugin's allocate",
           block, what, touch.address);
  if (touch.result == NX_TOUCH_FAULT) error.result = NXMEM_ERR_UNREADABLE_MEMORY;
  nx_step_refused(work->session, step(work, "touch", NX_ROW_REFUSED), &error);
}

/* Before any is written: the pattern would overwrite what this command is made of. */
static int refuse_ours(exercise *work) {
  nx_ours *ours = &work->session->ours;
  nx_ours_look(ours);
  for (uint64_t i = 0; i < work->count; i++) {
    uint64_t address = (uint64_t)(uintptr_t)work->blocks[i].ptr;
    const char *what = nx_ours_overlap(ours, address, work->session->args->bytes);
    if (!what) continue;
    nxmem_error error = {.result = NXMEM_ERR_CONTRACT, .found = address};
    snprintf(error.message, sizeof error.message,
             "block %" PRIu64 ": found address 0x%" PRIx64
             ", which overlaps %s, mapped before the plugin was loaded; need memory that is the caller's alone; mend "
             "the plugin's allocate",
             i, address, what);
    nx_step_refused(work->session, step(work, "touch", NX_ROW_REFUSED), &error);
    return -1;
  }
  return 0;
}

/* Only memory of tier host is the processor's to write: the rest belongs to a device or a file. */
static void touch_step(exercise *work) {
  uint64_t after = 0;
  entering(work, "touch");
  int touched = work->mechanism->device.tier == NXMEM_TIER_HOST;
  if (touched && refuse_ours(work)) return;
  nx_touch touch = touched ? touch_blocks(work, &after) : (nx_touch){NX_TOUCH_OK, 0};
  if (touch.result != NX_TOUCH_OK) {
    refuse_touch(work, touch, after - 1);
    return;
  }
  json_t *row = step(work, "touch", NX_ROW_OK);
  nx_set_number(row, "bytes_written_and_read_back", touched ? work->count * work->session->args->bytes : 0);
  if (!touched) nx_set_text(row, "message", "memory that is not of tier host is never touched");
  nx_report_add(&work->session->report, row);
}

/* ---- Release and close ------------------------------------------------------------------------------------------- */

/* Goes on after a refusal, so that one block does not keep the others; the first refusal is the one shown. */
static uint64_t release_blocks(exercise *work, nxmem_error *first) {
  const nx_run_args *args = work->session->args;
  const nxmem_release_options options = {.bytes = args->bytes, .align = args->align};
  uint64_t refused = 0;
  nx_progress progress;
  nx_progress_begin(&progress, "released", work->count);
  for (uint64_t i = 0; i < work->count; i++) {
    nxmem_error error;
    nx_progress_tick(&progress, i);
    if (nxmem_release(work->allocator, work->blocks[i], &options, &error) == NXMEM_OK) continue;
    if (refused++ == 0) *first = error;
  }
  nx_progress_end(&progress);
  return refused;
}

static uint64_t mapped_bytes(const exercise *work) {
  nxmem_allocator_info info;
  nxmem_error ignored;
  return nxmem_allocator_get_info(work->allocator, &info, &ignored) == NXMEM_OK ? info.mapped_bytes : 0;
}

/* Structured release hides the plain one: only an older host comes by there. */
static void set_release(json_t *row, const exercise *work, uint64_t refused, uint64_t bytes) {
  nx_set_number(row, "released", work->count - refused);
  nx_set_number(row, "not_released", refused);
  nx_set_text(row, "through", work->structured ? "release_allocation" : "deallocate");
  nx_set_number(row, "bytes_given_back", bytes);
  if (work->structured && !refused) nx_set_text(row, "message", "--minor 0 exercises deallocate");
}

static void release_step(exercise *work) {
  nxmem_error first;
  entering(work, "release");
  uint64_t before = mapped_bytes(work);
  uint64_t refused = release_blocks(work, &first);
  json_t *row = step(work, "release", refused ? NX_ROW_REFUSED : NX_ROW_OK);
  set_release(row, work, refused, before - mapped_bytes(work));
  if (refused) {
    nx_step_refused(work->session, row, &first);
  } else {
    nx_report_add(&work->session->report, row);
  }
}

static void close_step(exercise *work) {
  nxmem_error error;
  entering(work, "close");
  nxmem_result result = nxmem_allocator_close(work->allocator, 0, &error);
  if (result == NXMEM_OK) {
    nx_report_add(&work->session->report, step(work, "close", NX_ROW_OK));
    return;
  }
  nx_step_refused(work->session, step(work, "close", NX_ROW_REFUSED), &error);
  if (result != NXMEM_ERR_BUSY) return;
  if (nxmem_allocator_close(work->allocator, NXMEM_CLOSE_RELEASE_LIVE, &error) == NXMEM_OK) {
    json_t *row = step(work, "force_close", NX_ROW_NOTE);
    nx_set_text(row, "value", "handed back once more; what was not taken is quarantined");
    nx_report_add(&work->session->report, row);
    return;
  }
  nx_step_refused(work->session, step(work, "force_close", NX_ROW_REFUSED), &error);
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

static int take_room(exercise *work) {
  uint64_t blocks = work->session->args->blocks;
  work->blocks = calloc(blocks, sizeof *work->blocks);
  if (work->blocks) return 0;
  nxmem_error error = {.result = NXMEM_ERR_OUT_OF_MEMORY, .needed = blocks};
  snprintf(error.message, sizeof error.message, "found no memory to keep %" PRIu64 " handles; ask for fewer --blocks",
           blocks);
  nx_step_refused(work->session, step(work, "allocate", NX_ROW_REFUSED), &error);
  return -1;
}

void nx_run_mechanism(nx_session *session, const nxmem_mechanism_info *mechanism) {
  exercise work = {.session = session, .mechanism = mechanism};
  if (open_allocator(&work)) return;
  show_allocator(&work);
  if (!take_room(&work)) {
    int failed = allocate_step(&work);
    if (work.count) nx_run_gate(session, mechanism, work.count);
    if (!failed) touch_step(&work);
    release_step(&work);
    nx_run_capabilities(session, mechanism, work.allocator, work.effective);
    nx_run_virtual(session, mechanism, work.allocator);
  }
  close_step(&work);
  free(work.blocks);
}
