/*
 * module.c: load → negotiate → enumerate → own, and the way back.
 *
 * Attackers: a plugin that refuses late, lies in its answer, or leaves something behind that cannot be given back.
 * Promise: of a refused plugin nothing stays, unless it holds a debt; then it stays mapped, counted and named.
 */
#include "module.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "factory.h"
#include "gate.h"
#include "graves.h"
#include "image.h"
#include "nxmem/count.h"
#include "violations.h"

/* A leaf: protects which file is which module, and references. Never held across plugin code or the loader. */
static pthread_mutex_t module_lock = PTHREAD_MUTEX_INITIALIZER;

static int is_blank(const NxmemVersionRange *range) {
  return (range->major_min | range->major_max | range->minor_min | range->minor_max) == 0;
}

enum { RANGE_TEXT = 64 };

static void range_text(const NxmemVersionRange *range, char out[RANGE_TEXT]) {
  (void)snprintf(out, RANGE_TEXT, "%" PRIu32 ".%" PRIu32 " to %" PRIu32 ".%" PRIu32, range->major_min, range->minor_min,
                 range->major_max, range->minor_max);
}

/* Both ranges, since most refusals are about versions. */
static nxmem_result refused_by_plugin(nx_host *host, const NxmemVersionRange *theirs, const NxmemStatus *status,
                                      const char *path, nxmem_error *error) {
  char spoken[RANGE_TEXT], reported[RANGE_TEXT] = "no range";
  range_text(&host->offer.range, spoken);
  if (!is_blank(theirs)) range_text(theirs, reported);
  (void)nx_fail_status(error, NXMEM_ERR_NEGOTIATION, status,
                       "load %s: negotiate: this host speaks %s, the plugin reports %s", path, spoken, reported);
  if (error != NULL) error->reason = NXMEM_REASON_PLUGIN_REFUSED;
  return NXMEM_ERR_NEGOTIATION;
}

static nxmem_result refuse_answer(nx_host *host, const NxmemNegotiateResponse *answer, nxmem_verdict v,
                                  const char *path, nxmem_error *error) {
  static const nx_context context = {NX_RECORD_RESPONSE,
                                     "the plugin's answer breaks the contract: report it to its author"};
  nx_violation_of_host(host, 0, v);
  return nx_fail_in(error, NXMEM_ERR_NEGOTIATION, v, context, "load %s: negotiate%s", path,
                    is_blank(&answer->plugin_range) ? ", plugin_range was left unwritten" : "");
}

static nxmem_result negotiate(nx_host *host, nx_module *module, const char *path, nxmem_error *error) {
  nxmem_offer offer = host->offer;
  offer.capability_flags &= module->terms.capability_flags;
  const NxmemNegotiateRequest request = {
      .struct_size = sizeof request,
      .reserved = 0,
      .host_range = offer.range,
      .host_capability_flags = offer.capability_flags,
  };
  NxmemNegotiateResponse response = {.struct_size = sizeof response};
  const NxmemStatus answer = module->image.negotiate(&request, &response);
  NxmemStatus status;
  const uint32_t code = nx_take_answer(&answer, &status);
  NxmemNegotiateResponse taken;
  nxmem_response_take(&response, &taken);

  const nxmem_verdict v = nxmem_negotiate_judge(code, &taken, &offer);
  if (v.reason == NXMEM_REASON_PLUGIN_REFUSED)
    return refused_by_plugin(host, &taken.plugin_range, &status, path, error);
  if (v.reason != NXMEM_REASON_NONE) return refuse_answer(host, &taken, v, path, error);
  module->agreed = taken;
  return NXMEM_OK;
}

/* The pin that the module was a user of, to be given back without the lock. */
static nx_pin *forget_locked(nx_module *module) {
  nx_pin *pin = module->pin;
  module->pin = NULL;
  module->holds_name = 0;
  nx_image_forget(&module->image);
  nx_table_give(&nx_modules, &module->slot);
  return pin;
}

static void forget(nx_module *module) {
  pthread_mutex_lock(&module_lock);
  nx_pin *pin = forget_locked(module);
  pthread_mutex_unlock(&module_lock);
  nx_pin_give(pin);
}

/* What is left of a refused plugin that cannot go: no call can enter it, but the loader has it under its name. */
static int is_leftover(nx_module *m) {
  return m->holds_name && nxmem_word_state(atomic_load(&m->slot.word)) == NXMEM_SLOT_RETIRED;
}

static void leave_behind(nx_host *host, nx_module *module) {
  pthread_mutex_lock(&module_lock);
  nx_slot_set(&module->slot, NXMEM_SLOT_RETIRED);
  nx_count(&host->forced_leaks);
  pthread_mutex_unlock(&module_lock);
}

/* The code of a refused plugin has run: it goes through the gate like any other. Its slot is no longer the caller's afterwards. */
static void expel(nx_host *host, nx_module *module, nxmem_error *error) {
  nxmem_unload_info info;
  memset(&info, 0, sizeof info);
  const nxmem_verdict gate = nx_gate_ask(module, &info);
  if (gate.reason == NXMEM_REASON_NONE) {
    if (!nx_image_close(&module->image))
      nx_error_append(error, "; refused and released, but still in the address space");
    forget(module);
    return;
  }
  leave_behind(host, module);
  nx_error_append(error, "; it stays mapped: ");
  nx_error_append(error, nxmem_reason_text(gate.reason));
}

/* Numbers that no other space has: of a module that is buried its ranges stay, so its slot's next has others. */
enum { MODULES_MAX = NX_CHUNKS_MAX << NX_MODULES_SHIFT, BURIED_MAX = 511 };
_Static_assert(((uint64_t)BURIED_MAX + 1u) * MODULES_MAX * NXMEM_FACTORIES_MAX == 1ull << 32, "numbers of 32 bits");

static uint32_t space_number(const nx_module *module, uint32_t factory) {
  return (module->buried * (uint32_t)MODULES_MAX + module->slot.self) * (uint32_t)NXMEM_FACTORIES_MAX + factory;
}

static void reset(nx_module *module, uint64_t host, const nx_source *source) {
  module->host = host;
  module->device = source->file.device;
  module->inode = source->file.inode;
  module->pin = source->pin;
  if (source->pin != NULL) nx_pin_hold(source->pin);
  module->terms = source->terms;
  atomic_store(&module->owned_total, NXMEM_TOTAL_MAX - source->terms.owned_max);
  atomic_store(&module->mapped_total, NXMEM_TOTAL_MAX - source->terms.mapped_max);
  memset(&module->image, 0, sizeof module->image);
  module->factories = NULL;
  module->factory_count = 0;
  module->left_out = 0;
  for (uint32_t i = 0; i < NXMEM_FACTORIES_MAX; i++) {
    module->spaces[i].id = space_number(module, i);
    atomic_store(&module->spaces[i].tiers, 0);
    atomic_store(&module->spaces[i].kept, 0);
  }
  module->references = 1;
  /* `inside` is not reset: a stale handle may be counting itself in and out at this very moment. */
  atomic_store(&module->allocators, 0);
  atomic_store(&module->held, 0);
  atomic_store(&module->unpaid_debts, 0);
  atomic_store(&module->retained, 0);
  atomic_store(&module->retained_bytes, 0);
  atomic_store(&module->retained_owned, 0);
  atomic_store(&module->retained_mapped, 0);
}

/* Who else holds the name of a module's image. */
typedef struct holders {
  int stays;           /* another file: it was replaced under its name, and the loader still has the earlier one */
  int in_transit;      /* another file, that is being loaded or unloaded at this moment */
  nx_module *leftover; /* the same file of the same host, left behind before */
} holders;

static void note_holder(holders *h, nx_module *m, const nx_module *module) {
  const uint32_t state = nxmem_word_state(atomic_load(&m->slot.word));
  if (m->device == module->device && m->inode == module->inode) {
    if (is_leftover(m) && m->host == module->host) h->leftover = m;
  } else if (state == NXMEM_SLOT_LIVE || state == NXMEM_SLOT_RETIRED) {
    h->stays = 1;
  } else {
    h->in_transit = 1;
  }
}

static holders find_holders_locked(const nx_module *module) {
  const nx_file_identity file = {.device = module->device, .inode = module->inode};
  holders h = {nx_grave_holds_other_locked(module->image.path, &file), 0, NULL};
  const uint32_t count = atomic_load(&nx_modules.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_module *m = nx_module_at(i);
    if (m->holds_name && strcmp(m->image.path, module->image.path) == 0) note_holder(&h, m, module);
  }
  return h;
}

/* Take the name, unless the loader has another file under it. What was left behind under it is taken over: no leak any more. */
static holders claim_name(nx_host *host, nx_module *module) {
  nx_pin *pin = NULL;
  pthread_mutex_lock(&module_lock);
  holders h = find_holders_locked(module);
  if (h.stays || h.in_transit) h.leftover = NULL;
  module->holds_name = !h.stays && !h.in_transit;
  if (h.leftover != NULL) {
    atomic_store(&module->unpaid_debts, atomic_load(&h.leftover->unpaid_debts)); /* they are still owed */
    pin = forget_locked(h.leftover);
    atomic_fetch_sub(&host->forced_leaks, 1u);
  }
  pthread_mutex_unlock(&module_lock);
  if (h.leftover != NULL) (void)nx_image_close(&module->image); /* its reference; the new one stays */
  nx_pin_give(pin);
  return h;
}

static nxmem_result replaced(const char *path, nxmem_error *error) {
  static const nx_context context = {NX_RECORD_SAID, "unload that first, or give the new one another name"};
  return nx_fail_in(error, NXMEM_ERR_CANNOT_OPEN, (nxmem_verdict){NXMEM_REASON_NONE, 0, 0, 0}, context,
                    "load %s: the file was replaced while the earlier one of that name is loaded", path);
}

static nxmem_result open_image(nx_host *host, nx_module *module, const nx_source *source, nxmem_error *error) {
  const nxmem_result opened = nx_image_open(source, &module->image, error);
  if (opened != NXMEM_OK) return opened;
  const holders h = claim_name(host, module);
  if (!h.stays && !h.in_transit) return NXMEM_OK;
  (void)nx_image_close(&module->image); /* one reference less: nothing of the new file was loaded */
  if (h.stays) return replaced(source->shown, error);
  return nx_fail(error, NXMEM_ERR_BUSY, "load %s: an earlier file of that name is being loaded or unloaded",
                 source->shown);
}

/* Where it fails, the module's slot has been given back or left behind. */
static nxmem_result load(nx_host *host, nx_module *module, const nx_source *source, nxmem_error *error) {
  nxmem_result r = open_image(host, module, source, error);
  if (r != NXMEM_OK) {
    forget(module);
    return r;
  }
  r = negotiate(host, module, source->shown, error);
  if (r == NXMEM_OK) r = nx_factories_own(host, module, source->shown, error);
  if (r != NXMEM_OK) expel(host, module, error);
  return r;
}

static nx_module *find_locked(uint64_t host, const nx_file_identity *file) {
  const uint32_t count = atomic_load(&nx_modules.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_module *m = nx_module_at(i);
    const uint32_t state = nxmem_word_state(atomic_load(&m->slot.word));
    if (state == NXMEM_SLOT_FREE || state == NXMEM_SLOT_RETIRED) continue;
    if (m->host == host && m->device == file->device && m->inode == file->inode) return m;
  }
  return NULL;
}

/* What acquire found under the lock. */
typedef enum found { FOUND_LOADED, FOUND_IN_TRANSIT, FOUND_ON_OTHER_TERMS, MADE_FRESH, NO_ROOM } found;

static int same_terms(const nx_terms *a, const nx_terms *b) {
  return a->capability_flags == b->capability_flags && a->owned_max == b->owned_max && a->mapped_max == b->mapped_max;
}

static found find_or_make(uint64_t host, const nx_source *source, nx_module **out) {
  pthread_mutex_lock(&module_lock);
  found result = NO_ROOM;
  nx_module *m = find_locked(host, &source->file);
  if (m != NULL && nxmem_word_state(atomic_load(&m->slot.word)) != NXMEM_SLOT_LIVE) {
    result = FOUND_IN_TRANSIT;
  } else if (m != NULL && !same_terms(&m->terms, &source->terms)) {
    result = FOUND_ON_OTHER_TERMS;
  } else if (m != NULL) {
    if (m->references++ == 0) atomic_fetch_sub(&nx_host_of(host)->forced_leaks, 1u); /* taken over: no leak any more */
    result = FOUND_LOADED;
  } else {
    m = (nx_module *)(void *)nx_table_take(&nx_modules);
    if (m != NULL) {
      reset(m, host, source);
      nx_slot_set(&m->slot, NXMEM_SLOT_ALLOCATING);
      result = MADE_FRESH;
    }
  }
  pthread_mutex_unlock(&module_lock);
  *out = m;
  return result;
}

static nxmem_result on_other_terms(const char *path, nxmem_error *error) {
  static const nx_context context = {NX_RECORD_SAID, "open it under the same terms, or unload it first"};
  return nx_fail_in(error, NXMEM_ERR_MISMATCH, (nxmem_verdict){NXMEM_REASON_NONE, 0, 0, 0}, context,
                    "load %s: the same bytes are loaded already, with another ceiling or other limits", path);
}

nxmem_result nx_module_acquire(nx_host *host, const nx_source *source, nx_module **out, nxmem_error *error) {
  const char *path = source->shown;
  nx_module *module = NULL;
  switch (find_or_make(nx_slot_handle(&host->slot), source, &module)) {
    case NO_ROOM:
      return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "load %s: no room for another module", path);
    case FOUND_IN_TRANSIT:
      return nx_fail(error, NXMEM_ERR_BUSY, "load %s: the same file is being loaded or unloaded", path);
    case FOUND_ON_OTHER_TERMS:
      return on_other_terms(path, error);
    case FOUND_LOADED:
      *out = module;
      return NXMEM_OK;
    default:
      break;
  }
  const nxmem_result loaded = load(host, module, source, error);
  if (loaded != NXMEM_OK) return loaded;
  nx_slot_set(&module->slot, NXMEM_SLOT_LIVE);
  *out = module;
  return NXMEM_OK;
}

uint64_t nx_module_references(nx_module *module) {
  pthread_mutex_lock(&module_lock);
  const uint64_t n = module->references;
  pthread_mutex_unlock(&module_lock);
  return n;
}

static uint64_t drop_reference(nx_module *module) {
  pthread_mutex_lock(&module_lock);
  const uint64_t left = --module->references;
  pthread_mutex_unlock(&module_lock);
  return left;
}

nxmem_result nx_module_try_release(nx_module *module, nxmem_unload_info *info, nxmem_error *error) {
  if (!nx_slot_move(&module->slot, nx_slot_handle(&module->slot), NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING)) /* U1 */
    return nx_fail(error, NXMEM_ERR_BUSY, "unload: another thread is unloading the same module");
  const nxmem_verdict v = nx_gate_ask(module, info);
  info->references = nx_module_references(module);
  if (v.reason != NXMEM_REASON_NONE) {
    const nxmem_result refused = nx_gate_refuse(module, info, v, error);
    nx_slot_set(&module->slot, NXMEM_SLOT_LIVE);
    return refused;
  }
  info->references = drop_reference(module);
  if (info->references != 0) {
    nx_slot_set(&module->slot, NXMEM_SLOT_LIVE);
    return NXMEM_OK;
  }
  nx_factories_release(nx_host_of(module->host), module);
  info->unmapped = nx_image_close(&module->image);
  forget(module); /* U4 */
  return NXMEM_OK;
}

void nx_module_drop(nx_host *host, nx_module *module, nxmem_unload_info *info) {
  info->unmapped = 0;
  pthread_mutex_lock(&module_lock); /* who takes the file over finds the leak counted */
  info->references = --module->references;
  if (info->references == 0) nx_count(&host->forced_leaks);
  pthread_mutex_unlock(&module_lock);
}

/* Nobody has a handle on it, and nothing can be told that names it: what is left is what is mapped. */
static int is_orphan(nx_module *m) {
  const uint32_t state = nxmem_word_state(atomic_load(&m->slot.word));
  const int given_up = (state == NXMEM_SLOT_LIVE && m->references == 0) || is_leftover(m);
  return given_up && !nx_host_is_there(atomic_load(&m->host)) && atomic_load(&m->inside) == 0 &&
         atomic_load(&m->allocators) == 0 && atomic_load(&m->held) == 0;
}

/* A slot that was given back so often is not any more. */
static void bury_locked(nx_module *m) {
  const nx_file_identity file = {.device = m->device, .inode = m->inode};
  if (!nx_grave_add_locked(m->image.path, &file)) return;
  m->image.path = NULL;
  m->pin = NULL; /* it keeps this user: what is mapped has the descriptor's number for a name */
  m->holds_name = 0;
  free(m->factories);
  m->factories = NULL;
  m->factory_count = 0;
  if (m->buried == BURIED_MAX) {
    nx_slot_set(&m->slot, NXMEM_SLOT_RETIRED);
    return;
  }
  m->buried++;
  nx_table_give(&nx_modules, &m->slot);
}

void nx_modules_bury(void) {
  pthread_mutex_lock(&module_lock);
  const uint32_t count = atomic_load(&nx_modules.count);
  for (uint32_t i = 0; i < count; i++)
    if (is_orphan(nx_module_at(i))) bury_locked(nx_module_at(i));
  pthread_mutex_unlock(&module_lock);
}
