/*
 * allocator.c: opening and closing a mechanism.
 *
 * Attackers: a factory whose OK comes with a NULL, wild, short, hollow or foreign table.
 * Promise: the moment the plugin says OK one release is owed; every refusal pays it through what was read once, or counts and names what it cannot pay.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "books.h"
#include "callbacks.h"
#include "deferred.h"
#include "error.h"
#include "guard.h"
#include "grant.h"
#include "nxmem/capability.h"
#include "nxmem/identity.h"
#include "nxmem/prefix.h"
#include "objects.h"
#include "sharing.h"
#include "violations.h"

/* One opening in progress. */
typedef struct opening {
  nx_host *host;
  nx_module *module;
  const nx_factory *factory;
  const nxmem_open_options *options;
  nxmem_error *error;
  nx_allocator *allocator;
  const NxmemHostCallbacks *callbacks; /* as the plugin sees them */
  uint32_t declared_minor;
  int debt_known; /* allocator->table came from the plugin and says how to release */
} opening;

static int matches(const nx_factory *factory, const nxmem_open_options *options) {
  if (strcmp((const char *)factory->name, options->mechanism) != 0) return 0;
  return options->device == NULL || nxmem_same_device(factory->table.device, *options->device);
}

/* "a, b, c": as many as fit. */
static void list_mechanisms(const nx_module *module, char *out, size_t room) {
  size_t used = 0;
  (void)snprintf(out, room, "none");
  for (uint32_t i = 0; i < module->factory_count && used < room; i++) {
    const nx_factory *f = &module->factories[i];
    char device[NX_DEVICE_TEXT];
    nx_device_text(f->table.device, device);
    const int n = snprintf(out + used, room - used, "%s%s (%s)", i == 0 ? "" : ", ", (const char *)f->name, device);
    if (n < 0) return;
    used += (size_t)n;
  }
}

static nxmem_result find_factory(opening *o) {
  uint32_t hits = 0;
  for (uint32_t i = 0; i < o->module->factory_count; i++) {
    if (!matches(&o->module->factories[i], o->options)) continue;
    o->factory = &o->module->factories[i];
    hits++;
  }
  if (hits == 1) return NXMEM_OK;
  char list[512];
  list_mechanisms(o->module, list, sizeof list);
  if (hits == 0)
    return nx_fail(o->error, NXMEM_ERR_UNKNOWN_MECHANISM, "open %s: no such mechanism%s; there is: %s",
                   o->options->mechanism, o->options->device == NULL ? "" : " on that device", list);
  return nx_fail(o->error, NXMEM_ERR_UNKNOWN_MECHANISM,
                 "open %s: %" PRIu32 " devices carry that name, set options.device to one; there is: %s",
                 o->options->mechanism, hits, list);
}

static nxmem_result violation(opening *o, nxmem_verdict v, nx_record record, const char *what) {
  nx_violation_of_host(o->host, o->allocator->table.mechanism_id, v);
  return nx_fail_in(o->error, nx_result_of(v), v, (nx_context){.record = record}, "open %s: %s", o->options->mechanism,
                    what);
}

/* Enter the plugin. On NXMEM_OK one release is owed and *table_out is what it published. */
static nxmem_result ask(opening *o, const NxmemAllocatorVtable **table_out) {
  const NxmemOpenRequest request = {
      .struct_size = sizeof request,
      .abi_minor = o->module->agreed.agreed_minor,
      .device = o->factory->table.device,
      .required_capability_flags = o->options->required_capability_flags | NXMEM_CAP_ALLOCATOR,
      .callbacks = o->callbacks,
  };
  const NxmemAllocatorVtable *volatile published = NULL;
  const NxmemStatus answer =
      o->factory->table.open_allocator(o->factory->table.ctx, &request, (const NxmemAllocatorVtable **)&published);
  NxmemStatus status;
  if (nx_take_answer(&answer, &status) != NXMEM_STATUS_OK)
    return nx_fail_status(o->error, NXMEM_ERR_PLUGIN, &status, "open %s", o->options->mechanism);
  *table_out = published;
  return NXMEM_OK;
}

/* Read the table once, so that its release is known before anything else is judged. */
static nxmem_result take_table(opening *o, const NxmemAllocatorVtable *published) {
  nx_snapshot snapshot;
  const void *view = NULL;
  nxmem_verdict v = nx_fetch_table(o->host->fetch, published, NXMEM_ALLOCATOR_BYTES_1, &snapshot, &view);
  if (v.reason == NXMEM_REASON_NONE)
    v = nxmem_read_allocator_unvalidated(view, o->module->agreed.agreed_minor, &o->allocator->table,
                                         &o->declared_minor);
  if (v.reason == NXMEM_REASON_NONE) {
    o->debt_known = o->allocator->table.release != NULL;
    return NXMEM_OK;
  }
  char what[64];
  (void)snprintf(what, sizeof what, "allocator table at %p", (const void *)published);
  return violation(o, v, NX_RECORD_NONE, what);
}

static nxmem_verdict take_backing(opening *o) {
  const NxmemAllocatorVtable *table = &o->allocator->table;
  nx_snapshot snapshot;
  const void *view = NULL;
  nxmem_verdict v = nx_fetch_table(o->host->fetch, table->virtual_backing, NXMEM_BACKING_BYTES, &snapshot, &view);
  if (v.reason != NXMEM_REASON_NONE) return v;
  return nxmem_read_backing(view, table->abi_minor, table->mechanism_id, &o->allocator->backing);
}

static nxmem_verdict take_sharing(opening *o) {
  const NxmemAllocatorVtable *table = &o->allocator->table;
  nx_snapshot snapshot;
  const void *view = NULL;
  nxmem_verdict v = nx_fetch_table(o->host->fetch, table->shared_mapping, NXMEM_SHARING_BYTES, &snapshot, &view);
  if (v.reason != NXMEM_REASON_NONE) return v;
  return nxmem_read_sharing(view, table->abi_minor, table->mechanism_id, &o->allocator->sharing);
}

static nxmem_result judge_capability_tables(opening *o) {
  if ((o->allocator->effective & NXMEM_CAP_VIRTUAL_BACKING) != 0) {
    const nxmem_verdict v = take_backing(o);
    if (v.reason != NXMEM_REASON_NONE) return violation(o, v, NX_RECORD_NONE, "virtual backing table");
  }
  if ((o->allocator->effective & NXMEM_CAP_SHARED_MAPPING) != 0) {
    const nxmem_verdict v = take_sharing(o);
    if (v.reason != NXMEM_REASON_NONE) return violation(o, v, NX_RECORD_NONE, "shared mapping table");
  }
  return NXMEM_OK;
}

static nxmem_result judge_table(opening *o) {
  nx_allocator *a = o->allocator;
  nxmem_verdict v = nxmem_check_allocator(&a->table);
  if (v.reason != NXMEM_REASON_NONE) return violation(o, v, NX_RECORD_ALLOCATOR, "allocator table");
  v = nxmem_check_device(a->table.device, o->factory->table.device);
  v.field = (uint32_t)offsetof(NxmemAllocatorVtable, device); /* the core names an allocation's field */
  if (v.reason != NXMEM_REASON_NONE)
    return violation(o, v, NX_RECORD_ALLOCATOR, "allocator for a device nobody asked for");
  v = nxmem_check_capabilities(&a->table, o->declared_minor, o->module->agreed.agreed_minor,
                               o->module->agreed.capability_flags, &a->effective);
  if (v.reason != NXMEM_REASON_NONE)
    return violation(o, v, NX_RECORD_ALLOCATOR,
                     o->declared_minor == 0 ? "capabilities of a table whose abi_minor is 0" : "capabilities");
  v = nxmem_check_required(a->effective, o->options->required_capability_flags);
  if (v.reason != NXMEM_REASON_NONE)
    return nx_fail_verdict(o->error, nx_result_of(v), v, "open %s", o->options->mechanism);
  return judge_capability_tables(o);
}

static void pay_debt(opening *o) {
  if (o->debt_known) {
    o->allocator->table.release(o->allocator->table.ctx);
    return;
  }
  nx_count(&o->module->unpaid_debts);
  nx_count(&o->host->unpaid_debts);
  nx_error_append(o->error, "; the plugin opened something whose release cannot be found: its module stays mapped");
}

/* Its callback table; a callback may come at once. */
static const NxmemHostCallbacks *reset(nx_allocator *a, const nx_module *module, const nxmem_pin_source *pins) {
  atomic_store_explicit(&a->module, module->slot.self, memory_order_relaxed);
  atomic_store_explicit(&a->host, module->host, memory_order_relaxed);
  memset(&a->table, 0, sizeof a->table);
  a->effective = 0;
  nx_guard_set(a, NULL);
  atomic_store(&a->kept_records, 0);
  nx_prefixes_reset(a);
  a->limits = NULL; /* those of the slot's last allocator, whose charge stays where it stayed charged */
  nx_books_reset(a);
  a->limits = nx_grant_of(module);
  nx_deferral_reset(a, pins);
  return nx_callbacks_fill(a, module->agreed.agreed_minor);
}

static nxmem_result open_into_slot(opening *o) {
  const NxmemAllocatorVtable *published = NULL;
  nxmem_result r = ask(o, &published);
  if (r != NXMEM_OK) return r;
  r = take_table(o, published);
  if (r == NXMEM_OK) r = judge_table(o);
  if (r != NXMEM_OK) pay_debt(o);
  return r;
}

static nxmem_result open_pinned(nx_module *module, const nxmem_open_options *options, nxmem_allocator *out,
                                nxmem_error *error) {
  opening o = {.host = nx_host_of(module->host), .module = module, .options = options, .error = error};
  nxmem_result r = find_factory(&o);
  if (r != NXMEM_OK) return r;
  o.allocator = (nx_allocator *)(void *)nx_table_take(&nx_allocators);
  if (o.allocator == NULL)
    return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "open %s: no room for another allocator", options->mechanism);
  o.callbacks = reset(o.allocator, module, options->pins);
  if (o.host->overlap == NXMEM_OVERLAP_CHECKED)
    nx_guard_set(o.allocator, &module->spaces[o.factory - module->factories]);
  nx_slot_set(&o.allocator->slot, NXMEM_SLOT_ALLOCATING);
  r = open_into_slot(&o);
  if (r != NXMEM_OK) {
    nx_share_give(o.allocator);
    return r;
  }
  atomic_fetch_add(&module->allocators, 1u);
  out->id = nx_slot_handle(&o.allocator->slot); /* before anybody can close it by a guessed handle */
  nx_slot_set(&o.allocator->slot, NXMEM_SLOT_LIVE);
  return NXMEM_OK;
}

static nxmem_result check_options(const nxmem_open_options *options, const nxmem_allocator *out, nxmem_error *error) {
  if (options == NULL || options->mechanism == NULL || out == NULL)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "open allocator: options, options->mechanism or out is NULL");
  if (options->pins != NULL && (options->pins->pin == NULL || options->pins->unpin == NULL))
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "open %s: options->pins lacks pin or unpin", options->mechanism);
  const uint64_t unknown = options->required_capability_flags & ~(uint64_t)NXMEM_CAPS_KNOWN;
  if (unknown != 0)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "open %s: required capability bits 0x%" PRIx64 " do not exist",
                   options->mechanism, unknown);
  return NXMEM_OK;
}

nxmem_result nxmem_allocator_open(nxmem_plugin plugin, const nxmem_open_options *options, nxmem_allocator *out,
                                  nxmem_error *error) {
  nxmem_result r = check_options(options, out, error);
  if (r != NXMEM_OK) return r;
  nx_module *module = NULL;
  r = nx_plugin_enter(plugin, &module, error);
  if (r != NXMEM_OK) return r;
  r = open_pinned(module, options, out, error);
  nx_plugin_leave(module);
  return r;
}

nxmem_result nxmem_allocator_get_info(nxmem_allocator handle, nxmem_allocator_info *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "allocator info: out is NULL");
  nx_allocator *a = NULL;
  const nxmem_result r = nx_allocator_enter(handle, &a, error);
  if (r != NXMEM_OK) return r;
  const nxmem_allocator_info info = {
      .mechanism_id = a->table.mechanism_id,
      .device = a->table.device,
      .declared_flags = a->table.capability_flags,
      .effective_flags = a->effective,
      .abi_minor = a->table.abi_minor,
      .live_allocations = nx_books_live(a),
      .quarantined = atomic_load(&a->quarantined),
      .owned_bytes = nx_books_owned(a),
      .mapped_bytes = nx_books_mapped(a),
  };
  nx_allocator_leave(a);
  *out = info;
  return NXMEM_OK;
}
