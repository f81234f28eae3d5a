/*
 * check.c: what registry and managers show against the model.
 * Attackers: none.
 * Promise: every figure that they show is compared, of every thing that is there, after each step; each total is the sum of its parts.
 */
#include <string.h>

#include "owners.h"

/* ---- Registries --------------------------------------------------------------------------------------------------- */

static void add_mechanism(const own_mechanism *m, nxmem_registry_counts *e) {
  const nxmem_holdings h = own_holdings(m);
  e->mechanisms[m->life]++;
  e->bindings += h.bindings;
  e->live += h.live;
  e->prepared += h.prepared;
  e->quarantined += h.quarantined;
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++) {
    const uint64_t bytes = own_is_part(m, i) ? it.allocators[i].quarantined_bytes : 0;
    e->quarantined_bytes = bytes > UINT64_MAX - e->quarantined_bytes ? UINT64_MAX : e->quarantined_bytes + bytes;
  }
}

static void check_counts(uint8_t registry) {
  nxmem_registry_counts found, e = {0};
  for (uint32_t i = 0; i < OWN_MEMBERS; i++) {
    e.contexts += own.contexts[i].there == OWN_LIVE && own.contexts[i].registry == registry;
    e.authorities += own.authorities[i].there == OWN_LIVE && own.authorities[i].registry == registry;
  }
  for (uint32_t i = 0; i < OWN_QUEUES; i++)
    e.queues += own.queues[i].there == OWN_LIVE && own.queues[i].registry == registry;
  for (uint32_t i = 0; i < OWN_MECHANISMS; i++)
    if (own.mechanisms[i].there == OWN_LIVE && own.mechanisms[i].registry == registry)
      add_mechanism(&own.mechanisms[i], &e);
  own_result("count registry", nxmem_registry_count(own.registries[registry].handle, &found, NULL), NXMEM_OK);
  own_same("contexts", found.contexts, e.contexts);
  own_same("authorities", found.authorities, e.authorities);
  for (uint32_t i = 0; i < NXMEM_LIFECYCLES; i++)
    own_same("mechanisms of a lifecycle", found.mechanisms[i], e.mechanisms[i]);
  own_same("bindings", found.bindings, e.bindings);
  own_same("live allocations", found.live, e.live);
  own_same("prepared releases", found.prepared, e.prepared);
  own_same("quarantined allocations", found.quarantined, e.quarantined);
  own_same("quarantined bytes", found.quarantined_bytes, e.quarantined_bytes);
  own_same("queues", found.queues, e.queues);
}

static void check_selection(uint8_t registry) {
  const own_registry *r = &own.registries[registry];
  for (uint32_t i = 0; i < OWN_DEVICES; i++) {
    nxmem_mechanism out = {0};
    const int there = r->selected[i] != OWN_NOBODY;
    own_result("selected", nxmem_registry_selected(r->handle, own_devices[i], &out, NULL),
               there ? NXMEM_OK : NXMEM_ERR_UNKNOWN_MECHANISM);
    own_same("who is selected", out.id, there ? own.mechanisms[r->selected[i]].handle.id : 0);
  }
}

static void check_list(uint8_t registry) {
  nxmem_mechanism list[OWN_MECHANISMS];
  uint32_t count = 0, there = 0;
  uint64_t total = 0;
  own_result("mechanisms",
             nxmem_registry_mechanisms(own.registries[registry].handle, 0, list, OWN_MECHANISMS, &count, &total, NULL),
             NXMEM_OK);
  for (uint32_t i = 0; i < OWN_MECHANISMS; i++) {
    const own_mechanism *m = &own.mechanisms[i];
    if (m->there != OWN_LIVE || m->registry != registry) continue;
    there++;
    int listed = 0;
    for (uint32_t j = 0; j < count; j++) listed |= list[j].id == m->handle.id;
    own_expect(listed, "mechanisms: one is not listed");
  }
  own_same("mechanisms listed", count, there);
  own_same("mechanisms in all", total, there);
}

/* ---- Mechanisms --------------------------------------------------------------------------------------------------- */

static void check_state(const own_mechanism *m, uint8_t which) {
  nxmem_mechanism_state s;
  const nxmem_holdings h = own_holdings(m);
  own_result("mechanism", nxmem_mechanism_get_state(m->handle, &s, NULL), NXMEM_OK);
  own_same("lifecycle", s.lifecycle, m->life);
  own_same("whether it is selected", (uint64_t)s.selected, own.registries[m->registry].selected[m->device] == which);
  own_same("tier of a mechanism", s.device.tier, own_devices[m->device].tier);
  own_same("device of a mechanism", s.device.index, own_devices[m->device].index);
  own_same("registry of a mechanism", s.registry.id, own.registries[m->registry].handle.id);
  own_same("context of a mechanism", s.context.id, own.contexts[m->context].handle);
  own_same("authority of a mechanism", s.authority.id, own.authorities[m->authority].handle);
  own_same("parts of a mechanism", s.parts, m->part_count);
  own_same("calls inside", s.holdings.calls_inside, h.calls_inside);
  own_same("live", s.holdings.live, h.live);
  own_same("prepared", s.holdings.prepared, h.prepared);
  own_same("quarantined", s.holdings.quarantined, h.quarantined);
  own_same("bindings of one", s.holdings.bindings, h.bindings);
  uint64_t owned = 0, mapped = 0;
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++) {
    if (!own_is_part(m, i)) continue;
    const life_allocator *a = &it.allocators[i];
    owned = a->owned > UINT64_MAX - owned ? UINT64_MAX : owned + a->owned;
    mapped = a->mapped > UINT64_MAX - mapped ? UINT64_MAX : mapped + a->mapped;
  }
  own_same("owned bytes", s.owned_bytes, owned);
  own_same("mapped bytes", s.mapped_bytes, mapped);
}

static void same_kept(const nxmem_kept *k, uint8_t block, const own_mechanism *m) {
  const own_block *b = &own.blocks[block];
  own_same("mechanism of what is kept", k->mechanism.id, m->handle.id);
  own_same("binding of what is kept", k->binding.id, b->bound.binding.id);
  own_same("address of what is kept", k->address, (uintptr_t)b->bound.ptr);
  own_same("bytes of what is kept", k->bytes, b->bound.bytes);
  own_same("reason of what is kept", k->reason, b->keeping);
  own_same("status of what is kept", k->plugin_status, b->status);
}

static void check_kept(const own_mechanism *m, uint8_t which) {
  nxmem_kept kept[LIFE_BLOCKS];
  uint32_t count = 0, there = 0;
  uint64_t total = 0;
  own_result("quarantine", nxmem_mechanism_quarantine(m->handle, 0, kept, LIFE_BLOCKS, &count, &total, NULL), NXMEM_OK);
  for (uint8_t i = 0; i < LIFE_BLOCKS; i++) {
    if (own.blocks[i].state != OWN_KEPT || own.blocks[i].mechanism != which) continue;
    there++;
    uint32_t at = 0;
    while (at < count && kept[at].id != own.blocks[i].bound.id) at++;
    own_expect(at < count, "quarantine: one is not listed");
    same_kept(&kept[at], i, m);
  }
  own_same("listed in quarantine", count, there);
  own_same("all in quarantine", total, there);
}

static void check_mechanisms(void) {
  for (uint8_t i = 0; i < OWN_MECHANISMS; i++) {
    const own_mechanism *m = &own.mechanisms[i];
    if (m->there != OWN_LIVE) continue;
    check_state(m, i);
    check_kept(m, i);
  }
}

/* ---- Pins and uses ------------------------------------------------------------------------------------------------ */

static void check_members(void) {
  uint64_t pins = 0;
  for (uint32_t i = 0; i < OWN_MEMBERS; i++) {
    const own_member *c = &own.contexts[i], *a = &own.authorities[i];
    if (c->there == OWN_LIVE) {
      own_result("pins of a context", nxmem_context_pins((nxmem_context){c->handle}, &pins, NULL), NXMEM_OK);
      own_same("context is pinned", pins, c->pins);
    }
    if (a->there == OWN_LIVE) {
      own_result("pins of an authority", nxmem_authority_pins((nxmem_authority){a->handle}, &pins, NULL), NXMEM_OK);
      own_same("authority is pinned", pins, a->pins);
    }
  }
}

static void check_bindings(void) {
  for (uint32_t i = 0; i < OWN_BINDINGS; i++) {
    const own_binding *b = &own.bindings[i];
    nxmem_binding_info info;
    if (b->there == OWN_NONE) continue;
    own_result("binding", nxmem_binding_get_info(b->handle, &info, NULL),
               b->there == OWN_LIVE ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE);
    if (b->there != OWN_LIVE) continue;
    const own_mechanism *m = &own.mechanisms[b->mechanism];
    own_same("uses of one", info.uses, b->uses);
    own_same("mechanism of a binding", info.mechanism.id, m->handle.id);
    own_same("context of a binding", info.context.id, own.contexts[m->context].handle);
    own_same("authority of a binding", info.authority.id, own.authorities[m->authority].handle);
  }
}

/* ---- Managers ----------------------------------------------------------------------------------------------------- */

static void add_axes(nxmem_axes *total, const nxmem_axes *part) {
  total->charged += part->charged;
  total->physical += part->physical;
  total->mapped += part->mapped;
}

static void add_charge(const own_charge *c, nxmem_figures *f) {
  if (c->stage < OWN_RESERVED || c->stage > OWN_CHARGE_KEPT) return;
  add_axes(&f->used, &c->held);
  if (c->stage <= OWN_COMMITTED) {
    add_axes(&f->reserved, &c->held);
    f->transactions++;
  } else if (c->stage <= OWN_WITHDRAWN) {
    add_axes(&f->live, &c->held);
    f->live_count++;
  } else {
    add_axes(&f->quarantined, &c->held);
    f->quarantined_count++;
  }
}

static void same_figures(const char *what, const nxmem_figures *found, const nxmem_figures *e) {
  own_axes(what, &found->used, &e->used);
  own_axes(what, &found->reserved, &e->reserved);
  own_axes(what, &found->live, &e->live);
  own_axes(what, &found->quarantined, &e->quarantined);
  own_same(what, found->transactions, e->transactions);
  own_same(what, found->live_count, e->live_count);
  own_same(what, found->quarantined_count, e->quarantined_count);
}

static nxmem_figures figures_of(uint8_t manager, uint8_t authority, uint64_t mechanism) {
  nxmem_figures f = {.transactions = 0};
  for (uint32_t i = 0; i < OWN_CHARGES; i++) {
    const own_charge *c = &own.charges[i];
    if (c->manager != manager || (authority != OWN_NOBODY && c->authority != authority)) continue;
    if (mechanism == 0 || c->mechanism_id == mechanism) add_charge(c, &f);
  }
  return f;
}

static void sum_figures(nxmem_figures *total, const nxmem_figures *part) {
  add_axes(&total->used, &part->used);
  add_axes(&total->reserved, &part->reserved);
  add_axes(&total->live, &part->live);
  add_axes(&total->quarantined, &part->quarantined);
  total->transactions += part->transactions;
  total->live_count += part->live_count;
  total->quarantined_count += part->quarantined_count;
}

static uint8_t authority_of(uint64_t handle) {
  uint8_t i = 0;
  while (i < OWN_MEMBERS && own.authorities[i].handle != handle) i++;
  own_expect(i < OWN_MEMBERS, "snapshot: an authority that nobody made");
  return i;
}

static void check_authorities(uint8_t manager, const nxmem_snapshot *s) {
  const own_manager *m = &own.managers[manager];
  uint32_t there = 0;
  for (uint32_t i = 0; i < OWN_MEMBERS; i++) there += (uint32_t)m->accounts[i].here;
  own_same("authorities in the books", s->authority_count, there);
  for (uint32_t i = 0; i < s->authority_count; i++) {
    const nxmem_authority_figures *f = &s->authorities[i];
    const uint8_t which = authority_of(f->authority.id);
    const own_account *a = &m->accounts[which];
    const nxmem_axes none = {0, 0, 0};
    const nxmem_figures e = figures_of(manager, which, 0);
    own_expect(a->here, "snapshot: an authority that is not in the books");
    own_same("tier of an authority", f->tier, a->tier);
    own_same("delegated", (uint64_t)f->delegated, (uint64_t)a->delegated);
    own_axes("budget", &f->budget, &a->budget);
    own_axes("slice", &f->slice, a->delegated ? &a->slice : &none);
    same_figures("figures of an authority", &f->figures, &e);
  }
}

/* Those that nothing is charged to may be listed or not. */
static void check_accounts(uint8_t manager, const nxmem_snapshot *s) {
  nxmem_figures all = {.transactions = 0};
  own_expect(s->mechanism_count <= s->mechanism_room, "snapshot: more mechanisms than there can be");
  for (uint32_t i = 0; i < s->mechanism_count; i++) {
    const nxmem_mechanism_figures *f = &s->mechanisms[i];
    const nxmem_figures e = figures_of(manager, OWN_NOBODY, f->mechanism.id);
    same_figures("figures of a mechanism", &f->figures, &e);
    sum_figures(&all, &f->figures);
  }
  const nxmem_figures e = figures_of(manager, OWN_NOBODY, 0);
  same_figures("sum over mechanisms", &all, &e);
}

static void check_tiers(uint8_t manager, const nxmem_snapshot *s) {
  nxmem_figures all = {.transactions = 0};
  for (uint32_t t = 0; t < OWN_TIERS; t++) {
    nxmem_figures tier = {.transactions = 0};
    for (uint8_t i = 0; i < OWN_MEMBERS; i++) {
      const own_account *a = &own.managers[manager].accounts[i];
      const nxmem_figures f = figures_of(manager, i, 0);
      if (a->here && a->tier == t) sum_figures(&tier, &f);
    }
    own_axes("limit of a tier", &s->tiers[t].limit, &own.managers[manager].limits[t]);
    same_figures("figures of a tier", &s->tiers[t].figures, &tier);
    sum_figures(&all, &tier);
  }
  if (all.used.charged <= LIFE_TOTAL_MAX && all.used.physical <= LIFE_TOTAL_MAX && all.used.mapped <= LIFE_TOTAL_MAX)
    same_figures("figures in all", &s->total, &all);
}

/* What is drawn ahead is under the same limits. */
static void check_ahead(uint8_t manager, const nxmem_snapshot *s) {
  nxmem_axes ahead[OWN_TIERS];
  memset(ahead, 0, sizeof ahead);
  for (uint32_t i = 0; i < s->authority_count; i++) add_axes(&ahead[s->authorities[i].tier], &s->authorities[i].ahead);
  for (uint32_t t = 0; t < OWN_TIERS; t++) {
    const nxmem_axes taken = own_tier_used(manager, t, 0), *limit = &s->tiers[t].limit;
    const int over = (ahead[t].charged != 0 && taken.charged + ahead[t].charged > limit->charged) ||
                     (ahead[t].physical != 0 && taken.physical + ahead[t].physical > limit->physical) ||
                     (ahead[t].mapped != 0 && taken.mapped + ahead[t].mapped > limit->mapped);
    own_expect(!over, "snapshot: drawn ahead beyond a limit");
  }
}

static void check_manager(uint8_t manager) {
  enum { LISTED = OWN_MECHANISMS * 8 };
  static nxmem_mechanism_figures list[LISTED];
  static nxmem_snapshot s;
  s.mechanisms = list;
  s.mechanism_room = LISTED;
  own_result("snapshot", nxmem_manager_snapshot(own.managers[manager].handle, &s, NULL), NXMEM_OK);
  (void)own_tier_used(manager, 0, 1);
  for (uint8_t i = 0; i < OWN_MEMBERS; i++) (void)own_used(manager, i);
  for (uint32_t t = 1; t < OWN_TIERS; t++) (void)own_tier_used(manager, t, 1);
  if (own.overflown) return;
  own_same("bugs of the books", s.bugs, 0);
  check_authorities(manager, &s);
  check_accounts(manager, &s);
  check_tiers(manager, &s);
  check_ahead(manager, &s);
  own_same("refusals", s.refusals, own.managers[manager].refusals);
}

void own_check(void) {
  for (uint8_t i = 0; i < OWN_REGISTRIES; i++) {
    if (own.registries[i].there != OWN_LIVE) continue;
    check_counts(i);
    check_selection(i);
    check_list(i);
  }
  check_mechanisms();
  check_members();
  check_bindings();
  for (uint8_t i = 0; i < OWN_MANAGERS; i++)
    if (own.managers[i].there == OWN_LIVE) check_manager(i);
}
