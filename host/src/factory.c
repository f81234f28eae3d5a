/*
 * factory.c: from an array a plugin filled to factories the host owns.
 *
 * Attackers: counts above the room, NULL, wild, short and repeated entries, hostile names, entries written with an error.
 * Promise: ownership passes before judgement, so a refusal releases each distinct entry exactly once, and names what it could not release.
 */
#include "factory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "nxmem/identity.h"
#include "nxmem/name.h"
#include "nxmem/outcome.h"
#include "nxmem/prefix.h"
#include "violations.h"

/* Room behind the 64 entries offered, so that a plugin that writes a little too far hits nothing of the host's. */
enum { SPARE_ENTRIES = 64 };

/* One enumeration in progress. */
typedef struct listing {
  nx_host *host;
  nx_module *module;
  const char *path;
  nxmem_error *error;
  uint64_t reported;
  uintptr_t entries[NXMEM_FACTORIES_MAX]; /* read once */
  nx_factory *owned;                      /* room for NXMEM_FACTORIES_MAX */
  uint32_t owned_count;
  nxmem_verdict unreadable; /* of the first entry whose table could not be read */
  uint32_t unreadable_index;
} listing;

static uint32_t ceiling_of(const nx_module *module) { return module->agreed.agreed_minor; }

static void count_unpaid(nx_host *host, nx_module *module) {
  nx_count(&module->unpaid_debts);
  nx_count(&host->unpaid_debts);
}

static void release_factory(nx_host *host, nx_module *module, const nx_factory *factory) {
  if (factory->table.release == NULL) {
    count_unpaid(host, module);
    return;
  }
  factory->table.release(factory->table.ctx);
}

void nx_factories_release(nx_host *host, nx_module *module) {
  for (uint32_t i = 0; i < module->factory_count; i++) release_factory(host, module, &module->factories[i]);
  free(module->factories);
  module->factories = NULL;
  module->factory_count = 0;
}

/* Ask; what is written is read once, whatever a thread of the plugin does to it later. */
static nxmem_result ask(listing *l) {
  const NxmemAllocatorFactoryVtable **room = calloc(NXMEM_FACTORIES_MAX + SPARE_ENTRIES, sizeof *room);
  if (room == NULL) return nx_fail(l->error, NXMEM_ERR_OUT_OF_MEMORY, "load %s: enumerate: no memory", l->path);
  uint64_t count = NXMEM_UNWRITTEN_COUNT;
  const NxmemStatus answer = l->module->image.create_factories(room, NXMEM_FACTORIES_MAX, &count);
  NxmemStatus status;
  const uint32_t code = nx_take_answer(&answer, &status);
  l->reported = *(volatile uint64_t *)&count;
  for (uint32_t i = 0; i < NXMEM_FACTORIES_MAX; i++)
    l->entries[i] = (uintptr_t)((const NxmemAllocatorFactoryVtable *volatile *)room)[i];
  free(room);
  if (code != NXMEM_STATUS_OK)
    return nx_fail_status(l->error, NXMEM_ERR_PLUGIN, &status, "load %s: enumerate", l->path);
  return NXMEM_OK;
}

/* Own one entry: read its table so that its release is known, or count the debt. */
static void own_entry(listing *l, uint32_t index) {
  nx_snapshot snapshot;
  const void *view = NULL;
  nx_factory *factory = &l->owned[l->owned_count];
  nxmem_verdict v =
      nx_fetch_table(l->host->fetch, (const void *)l->entries[index], NXMEM_FACTORY_BYTES, &snapshot, &view);
  if (v.reason == NXMEM_REASON_NONE)
    v = nxmem_read_factory_unvalidated(view, ceiling_of(l->module), &factory->table, &factory->declared_minor);
  if (v.reason == NXMEM_REASON_NONE) {
    l->owned_count++;
    return;
  }
  count_unpaid(l->host, l->module);
  if (l->unreadable.reason != NXMEM_REASON_NONE) return;
  l->unreadable = v;
  l->unreadable_index = index;
}

static void own_all(listing *l) {
  const uint32_t transferred = nxmem_factories_transferred(l->reported);
  for (uint32_t i = 0; i < transferred; i++)
    if (nxmem_factory_is_owed(l->entries, i)) own_entry(l, i);
}

static nxmem_verdict take_name(listing *l, nx_factory *factory) {
  uint32_t length = 0;
  const uint32_t available = nx_fetch_name(l->host->fetch, factory->table.name, factory->name);
  return nxmem_check_fetched_name((uintptr_t)factory->table.name, factory->name, available, &length);
}

/* Judge one factory. *leave_out is set for one of a newer level on a tier this host does not know; *record says what a refusal is about. */
static nxmem_verdict judge_factory(listing *l, nx_factory *factory, int *leave_out, nx_record *record) {
  *record = NX_RECORD_FACTORY;
  nxmem_verdict v = nxmem_check_factory(&factory->table);
  if (v.reason != NXMEM_REASON_NONE) return v;
  v = take_name(l, factory);
  if (v.reason != NXMEM_REASON_NONE) {
    *record = NX_RECORD_NAME;
    return v;
  }
  *leave_out = nxmem_tier_is_left_out(factory->table.device.tier, factory->declared_minor, ceiling_of(l->module));
  return *leave_out ? v : nxmem_check_tier(factory->table.device.tier);
}

/* The core says of a name only which byte of it offends; of a table, which field. */
static nxmem_result refuse_factory(listing *l, uint32_t index, nxmem_verdict v, nx_record record) {
  nx_violation_of_host(l->host, 0, v);
  return nx_fail_in(l->error, nx_result_of(v), v, (nx_context){.record = record},
                    "load %s: enumerate: factory %" PRIu32 "%s", l->path, index,
                    record == NX_RECORD_NAME ? ", name" : "");
}

/* Judge all; those to be left out are released and close the gap they leave. */
static nxmem_result judge_all(listing *l) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < l->owned_count; i++) {
    int leave_out = 0;
    nx_record record = NX_RECORD_NONE;
    const nxmem_verdict v = judge_factory(l, &l->owned[i], &leave_out, &record);
    if (v.reason != NXMEM_REASON_NONE) {
      /* Close the gap first, so that the caller's clean-up sees each owed factory once. */
      memmove(&l->owned[kept], &l->owned[i], (l->owned_count - i) * sizeof l->owned[0]);
      l->owned_count = kept + (l->owned_count - i);
      return refuse_factory(l, i, v, record);
    }
    if (leave_out) {
      release_factory(l->host, l->module, &l->owned[i]);
      l->module->left_out++;
    } else {
      if (kept != i) l->owned[kept] = l->owned[i];
      kept++;
    }
  }
  l->owned_count = kept;
  return NXMEM_OK;
}

static nxmem_result refuse_same_name(listing *l, uint32_t index, uint32_t first) {
  const nxmem_verdict v = {.reason = NXMEM_REASON_SAME_NAME, .field = 0, .found = index, .needed = first};
  char device[NX_DEVICE_TEXT];
  nx_device_text(l->owned[first].table.device, device);
  nx_violation_of_host(l->host, 0, v);
  return nx_fail_in(l->error, nx_result_of(v), v, (nx_context){.record = NX_RECORD_SAID},
                    "load %s: enumerate: factories %" PRIu32 " and %" PRIu32 " are both named \"%s\" on %s", l->path,
                    first, index, (const char *)l->owned[first].name, device);
}

static nxmem_result judge_names(listing *l) {
  for (uint32_t i = 0; i < l->owned_count; i++) {
    for (uint32_t j = 0; j < i; j++) {
      const nx_factory *a = &l->owned[i], *b = &l->owned[j];
      if (nxmem_same_mechanism(a->table.device, a->name, b->table.device, b->name)) return refuse_same_name(l, i, j);
    }
  }
  return NXMEM_OK;
}

/* Of the list as a whole: the verdict's field is an index here. */
static nxmem_result refuse_list(listing *l, nxmem_verdict v) {
  const nx_context said = {.record = NX_RECORD_SAID};
  nx_violation_of_host(l->host, 0, v);
  if (v.reason == NXMEM_REASON_NULL_POINTER)
    return nx_fail_in(l->error, NXMEM_ERR_CONTRACT, v, said, "load %s: enumerate: entry %" PRIu32 " is NULL", l->path,
                      v.field);
  if (v.reason == NXMEM_REASON_LISTED_TWICE)
    return nx_fail_in(l->error, NXMEM_ERR_CONTRACT, v, said,
                      "load %s: enumerate: entries %" PRIu64 " and %" PRIu64 " are the same table", l->path, v.needed,
                      v.found);
  return nx_fail_verdict(l->error, NXMEM_ERR_CONTRACT, v, "load %s: enumerate, out_count", l->path);
}

static nxmem_result judge_list(listing *l) {
  const nxmem_verdict v = nxmem_check_factories(l->entries, l->reported);
  if (v.reason != NXMEM_REASON_NONE) return refuse_list(l, v);
  if (l->unreadable.reason != NXMEM_REASON_NONE)
    return refuse_factory(l, l->unreadable_index, l->unreadable, NX_RECORD_FACTORY);
  const nxmem_result judged = judge_all(l);
  return judged == NXMEM_OK ? judge_names(l) : judged;
}

nxmem_result nx_factories_own(nx_host *host, nx_module *module, const char *path, nxmem_error *error) {
  listing l = {.host = host, .module = module, .path = path, .error = error};
  /* Before the plugin is asked: afterwards there would be factories and no place to note them. */
  l.owned = calloc(NXMEM_FACTORIES_MAX, sizeof *l.owned);
  if (l.owned == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "load %s: enumerate: no memory", path);
  const nxmem_result asked = ask(&l);
  if (asked != NXMEM_OK) {
    free(l.owned);
    return asked;
  }
  own_all(&l);
  const nxmem_result judged = judge_list(&l);
  module->factories = l.owned;
  module->factory_count = l.owned_count;
  if (judged != NXMEM_OK) nx_factories_release(host, module);
  return judged;
}
