/*
 * callbacks.c: the host's side of the callbacks: what came is copied, counted and kept.
 * Attackers: a plugin that calls with another host_ctx, from any thread, with records that are short, absent or rewritten
 * while they are read.
 * Promise: nothing is read by a plain load; a foreign host_ctx is never followed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conform/plugin.h"
#include "nxmem.h"

enum { CALLBACKS_BYTES = 32, RECLAIM_BYTES = 32, COMPLETION_BYTES = 328 };

/* Logs of this child; a host_ctx that is none of them is foreign. */
enum { LOGS = 64 };
static nx_callback_log *logs[LOGS];
static _Atomic uint32_t log_count;
static _Atomic uint64_t foreign;
static _Atomic int generous = 1;
static _Atomic int watching;
static nx_callback_log default_log;

uint64_t nx_foreign_calls(void) { return foreign; }

void nx_host_is_generous(int wanted) { generous = wanted; }
void nx_host_watches(void) { watching = 1; }

static NxmemStatus answer(uint32_t code) { return (NxmemStatus){code, 0, {0}}; }

static nx_callback_log *log_of(void *host_ctx) {
  for (uint32_t i = 0; i < log_count && i < LOGS; i++)
    if (logs[i] == host_ctx) return logs[i];
  atomic_fetch_add(&foreign, 1);
  return NULL;
}

/* ---- Records ----------------------------------------------------------------------------------------------------- */

/* A record that is rewritten would be seen within the first calls; later ones are not held up. */
enum { WATCHED_CALLS = 8 };

static void watch(nx_callback_log *log, const void *record, const void *copy, size_t bytes) {
  uint8_t again[COMPLETION_BYTES];
  int still = nx_stands_still(record, bytes);
  if (!still || nx_read_memory(again, record, bytes) != bytes || memcmp(again, copy, bytes))
    atomic_fetch_add(&log->unsteady, 1);
}

/* 1 when the whole record was there. */
static int take(nx_callback_log *log, const void *record, void *out, uint32_t bytes, const char *what) {
  uint32_t said = 0;
  size_t got = record ? nx_read_memory(out, record, bytes) : 0;
  memcpy(&said, out, sizeof said);
  if ((uintptr_t)record % 8 == 0 && got == bytes && said >= bytes) {
    if (watching && log->calls <= WATCHED_CALLS) watch(log, record, out, bytes);
    return 1;
  }
  snprintf(log->malformed, sizeof log->malformed,
           "%s at %p: struct_size %" PRIu32 ", %zu of %" PRIu32 " bytes readable", what, record, got ? said : 0, got,
           bytes);
  return 0;
}

/* ---- The callbacks ----------------------------------------------------------------------------------------------- */

static nx_callback_log *enter(void *host_ctx) {
  nx_callback_log *log = log_of(host_ctx);
  if (!log) return NULL;
  atomic_fetch_add(&log->calls, 1);
  if (log->inside) log->inside(log->with);
  return log;
}

static NxmemStatus request_reclaim(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  nx_callback_log *log = enter(host_ctx);
  NxmemReclaimRequest copy = {0};
  if (!log) return answer(NXMEM_STATUS_INVALID_ARGUMENT);
  if (!take(log, request, &copy, RECLAIM_BYTES, "a request for reclaim") || !reclaimed_out) {
    atomic_fetch_add(&log->malformed_reclaims, 1);
    if (!reclaimed_out) snprintf(log->malformed, sizeof log->malformed, "reclaimed_out is NULL");
    return answer(NXMEM_STATUS_INVALID_ARGUMENT);
  }
  uint64_t at = atomic_fetch_add(&log->reclaims, 1);
  if (at < NX_RECLAIMS_KEPT) log->asked[at] = copy;
  *reclaimed_out = generous ? copy.bytes : 0;
  return answer(NXMEM_STATUS_OK);
}

static NxmemStatus release_completed(void *host_ctx, const NxmemReleaseCompletion *completion) {
  nx_callback_log *log = enter(host_ctx);
  NxmemReleaseCompletion copy = {0};
  if (!log) return answer(NXMEM_STATUS_INVALID_ARGUMENT);
  if (!take(log, completion, &copy, COMPLETION_BYTES, "a completion")) {
    atomic_fetch_add(&log->malformed_completions, 1);
    return answer(NXMEM_STATUS_INVALID_ARGUMENT);
  }
  uint64_t at = atomic_fetch_add(&log->completions, 1);
  if (at < NX_COMPLETIONS_KEPT) log->kept[at] = copy;
  return answer(NXMEM_STATUS_OK);
}

void nx_callbacks_begin(nx_callback_log *log) {
  memset(log, 0, sizeof *log);
  log->table = (NxmemHostCallbacks){CALLBACKS_BYTES, NXMEM_ABI_VERSION_MINOR, log, request_reclaim, release_completed};
  uint32_t at = log_count;
  if (at < LOGS) logs[at] = log;
  if (at < LOGS) log_count = at + 1;
}

nx_callback_log *nx_default_log(void) {
  if (!default_log.table.host_ctx) nx_callbacks_begin(&default_log);
  return &default_log;
}
