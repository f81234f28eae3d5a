/*
 * host.c: what a program sets up first: version range, offer, fetch mode; and its counts.
 *
 * Attackers: none directly; the options decide what plugins may be agreed with.
 * Promise: options that this library could not honour are refused.
 */
#include <inttypes.h>

#include "books.h"
#include "callback_pages.h"
#include "callbacks.h"
#include "deferred.h"
#include "error.h"
#include "fork.h"
#include "gate.h"
#include "module.h"
#include "nxmem/capability.h"
#include "nxmem/count.h"
#include "objects.h"
#include "quarantine.h"
#include "sharing.h"
#include "violations.h"

void nxmem_host_options_default(nxmem_host_options *options) {
  if (options == NULL) return;
  const nxmem_host_options defaults = {
      .range = {NXMEM_ABI_VERSION_MAJOR, NXMEM_ABI_VERSION_MAJOR, NXMEM_ABI_VERSION_MINOR_BASELINE,
                NXMEM_ABI_VERSION_MINOR},
      .capability_flags = NXMEM_CAPS_KNOWN,
      .fetch = NXMEM_FETCH_GUARDED,
      .overlap = NXMEM_OVERLAP_CHECKED,
  };
  *options = defaults;
}

static nxmem_result check_options(const nxmem_host_options *o, nxmem_error *error) {
  const NxmemVersionRange *r = &o->range;
  if (!nxmem_range_is_valid(r))
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "create host: found an inverted version range");
  if (r->major_min != NXMEM_ABI_VERSION_MAJOR || r->major_max != NXMEM_ABI_VERSION_MAJOR ||
      r->minor_max > NXMEM_ABI_VERSION_MINOR)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT,
                   "create host: found versions %" PRIu32 ".%" PRIu32 " to %" PRIu32 ".%" PRIu32
                   ", this library speaks %u.%u to %u.%u",
                   r->major_min, r->minor_min, r->major_max, r->minor_max, NXMEM_ABI_VERSION_MAJOR,
                   NXMEM_ABI_VERSION_MINOR_BASELINE, NXMEM_ABI_VERSION_MAJOR, NXMEM_ABI_VERSION_MINOR);
  if ((o->capability_flags & ~(uint64_t)NXMEM_CAPS_KNOWN) != 0 || (o->capability_flags & NXMEM_CAP_ALLOCATOR) == 0)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT,
                   "create host: found capabilities 0x%" PRIx64 ", needed ALLOCATOR (0x1) and none outside 0x%llx",
                   o->capability_flags, NXMEM_CAPS_KNOWN);
  if (o->fetch != NXMEM_FETCH_GUARDED && o->fetch != NXMEM_FETCH_DIRECT)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "create host: found fetch mode %d, needed guarded or direct",
                   (int)o->fetch);
  if (o->overlap != NXMEM_OVERLAP_CHECKED && o->overlap != NXMEM_OVERLAP_TRUSTED)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "create host: found overlap check %d, needed checked or trusted",
                   (int)o->overlap);
  if (o->fetch == NXMEM_FETCH_GUARDED && !nx_fetch_guarded_works())
    return nx_fail(error, NXMEM_ERR_UNREADABLE_MEMORY,
                   "create host: neither process_vm_readv nor memfd_create works here, so the guarded fetch cannot; "
                   "allow one, or choose the direct mode");
  return NXMEM_OK;
}

nxmem_result nxmem_host_create(const nxmem_host_options *options, nxmem_host *out, nxmem_error *error) {
  if (nx_is_forked()) return nx_fail(error, NXMEM_ERR_FORKED, "create host: this process is a forked child");
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "create host: out is NULL");
  nxmem_host_options chosen;
  nxmem_host_options_default(&chosen);
  if (options != NULL) chosen = *options;
  const nxmem_result checked = check_options(&chosen, error);
  if (checked != NXMEM_OK) return checked;
  nx_fork_watch();
  nx_objects_prepare();
  if (!nx_callback_pages_make())
    return nx_fail(
        error, NXMEM_ERR_OUT_OF_MEMORY,
        "create host: neither memfd_create nor a second mapping of shared memory works here, so plugins could write to "
        "the host's callback tables");

  nx_host *host = (nx_host *)(void *)nx_table_take(&nx_hosts);
  if (host == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "create host: no room for another host");
  /* A capability that no level of this range defines is not offered. */
  host->offer.range = chosen.range;
  host->offer.capability_flags = chosen.capability_flags & nxmem_caps_at(chosen.range.minor_max);
  host->fetch = chosen.fetch;
  host->overlap = chosen.overlap;
  host->reclaim = chosen.reclaim;
  host->reclaim_ctx = chosen.reclaim_ctx;
  /* `open_plugins` is not reset: it is 0, but for a stale handle that is counting itself in and out at this very moment. */
  nx_violations_reset(host);
  atomic_store(&host->unpaid_debts, 0);
  atomic_store(&host->forced_leaks, 0);
  out->id = nx_slot_handle(&host->slot);
  nx_slot_set(&host->slot, NXMEM_SLOT_LIVE);
  return NXMEM_OK;
}

static void add(uint64_t *sum, nx_counter *n) { *sum = nxmem_count_add(*sum, atomic_load(n)); }

static void count_allocators(uint64_t host, nxmem_host_counts *out) {
  const uint32_t count = atomic_load(&nx_allocators.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_allocator *a = (nx_allocator *)(void *)nx_table_at(&nx_allocators, i);
    const int held = nx_is_held(a);
    if (!nxmem_is_open(atomic_load(&a->slot.word)) && !held) continue;
    if (atomic_load_explicit(&a->host, memory_order_relaxed) != host) continue;
    out->held_slots += held;
    out->open_allocators += !held;
    add(&out->queued_releases, &a->deferral.queued);
    out->live_prefixes = nxmem_count_add(out->live_prefixes, nx_prefix_count(a));
    out->live_allocations = nxmem_count_add(out->live_allocations, nx_books_live(a));
    add(&out->quarantined, &a->quarantined);
    add(&out->quarantined_bytes, &a->quarantined_bytes);
    out->owned_bytes = nxmem_count_add(out->owned_bytes, nx_books_owned(a));
    out->mapped_bytes = nxmem_count_add(out->mapped_bytes, nx_books_mapped(a));
  }
}

static void count_modules(uint64_t host, nxmem_host_counts *out) {
  const uint32_t count = atomic_load(&nx_modules.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_module *m = nx_module_at(i);
    if (!nxmem_is_open(atomic_load(&m->slot.word))) continue;
    if (m->host != host) continue;
    add(&out->quarantined, &m->retained);
    add(&out->quarantined_bytes, &m->retained_bytes);
    add(&out->owned_bytes, &m->retained_owned);
    add(&out->mapped_bytes, &m->retained_mapped);
  }
}

nxmem_result nxmem_host_count(nxmem_host handle, nxmem_host_counts *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "count host: out is NULL");
  nx_host *host = NULL;
  const nxmem_result found = nx_host_find(handle, &host, error);
  if (found != NXMEM_OK) return found;
  nxmem_host_counts counts = {
      .open_plugins = atomic_load(&host->open_plugins),
      .contract_violations = atomic_load(&host->violations),
      .refused_callbacks = nxmem_count_add(atomic_load(&host->refused_callbacks), nx_stray_callbacks()),
      .unpaid_debts = atomic_load(&host->unpaid_debts),
      .forced_leaks = atomic_load(&host->forced_leaks),
  };
  count_allocators(handle.id, &counts);
  count_modules(handle.id, &counts);
  *out = counts;
  return NXMEM_OK;
}

/* Calls in the plugins of a host: one of them may be about to open an allocator, though its plugin handle is gone. */
static uint64_t count_calls_inside(uint64_t host) {
  uint64_t sum = 0;
  const uint32_t count = atomic_load(&nx_modules.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_module *m = nx_module_at(i);
    if (atomic_load(&m->host) == host) add(&sum, &m->inside);
  }
  return sum;
}

static nxmem_result still_open(uint64_t n, const char *what, nxmem_error *error) {
  (void)nx_fail(error, NXMEM_ERR_BUSY, "destroy host: found %" PRIu64 " %s, needed none", n, what);
  if (error != NULL) error->found = n;
  return NXMEM_ERR_BUSY;
}

nxmem_result nxmem_host_destroy(nxmem_host handle, nxmem_error *error) {
  nx_host *host = NULL;
  const nxmem_result found = nx_host_find(handle, &host, error);
  if (found != NXMEM_OK) return found;
  if (!nx_slot_move(&host->slot, handle.id, NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING))
    return nx_fail(error, NXMEM_ERR_BUSY, "destroy host: another thread is destroying it");
  /*
   * In this order: without a plugin handle no call can begin, without a call inside no allocator can be opened. And again: as long as one was open, a callback
   * could count itself in; it sees its allocator open, or it is seen.
   */
  const uint64_t plugins = atomic_load(&host->open_plugins);
  uint64_t inside = count_calls_inside(handle.id);
  nxmem_host_counts counts = {0};
  count_allocators(handle.id, &counts);
  if (inside == 0) inside = count_calls_inside(handle.id);
  if (plugins != 0 || inside != 0 || counts.open_allocators != 0) {
    nx_slot_set(&host->slot, NXMEM_SLOT_LIVE);
    if (plugins != 0) return still_open(plugins, "open plugins", error);
    if (inside != 0) return still_open(inside, "calls inside plugins", error);
    return still_open(counts.open_allocators, "open allocators", error);
  }
  nx_table_give(&nx_hosts, &host->slot);
  nx_quarantine_free(handle.id);
  nx_modules_bury();
  return NXMEM_OK;
}
