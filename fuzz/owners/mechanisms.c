/*
 * mechanisms.c: mechanisms registered, selected, ended and removed.
 * Attackers: plugins that refuse to open; orders of select, retire, loss, confirmation and removal, also from inside the plugin.
 * Promise: what has ended is selected nowhere; what stands in the way of a removal is named, and nothing else does.
 */
#include <string.h>

#include "kernel.h"
#include "owners.h"
#include "registry.h"

/* ---- Registering -------------------------------------------------------------------------------------------------- */

typedef struct registration {
  uint8_t mechanism, context, authority;
  nxmem_open_options options[NXMEM_COMPOSITE_MAX];
  nxmem_part parts[NXMEM_COMPOSITE_MAX];
} registration;

/* As many allocators of life's as are free. */
static uint32_t find_parts(own_call *c, uint32_t wanted) {
  for (uint8_t i = 0; i < LIFE_ALLOCATORS && c->part_count < wanted; i++) {
    life_allocator *a = &it.allocators[i];
    if (own.parts_taken[i] || (a->gate != GATE_NONE && a->gate != GATE_GONE)) continue;
    for (uint32_t b = 0; b < sizeof a->blocks / sizeof a->blocks[0]; b++) life_withdraw(a->blocks[b]);
    memset(a, 0, sizeof *a);
    own.parts_taken[i] = 1;
    c->parts[c->part_count++] = i;
  }
  return c->part_count;
}

static void leave_parts(const own_call *c) {
  for (uint32_t i = 0; i < c->part_count; i++) own.parts_taken[c->parts[i]] = 0;
}

static uint8_t free_mechanism(uint8_t from) {
  for (uint8_t i = 0; i < OWN_MECHANISMS; i++) {
    const uint8_t at = (uint8_t)((from + i) % OWN_MECHANISMS);
    if (own.mechanisms[at].there == OWN_NONE || own.mechanisms[at].there == OWN_GONE) return at;
  }
  return OWN_NOBODY;
}

static void fill(registration *r, const own_call *c) {
  for (uint32_t i = 0; i < c->part_count; i++) {
    const life_factory *f = &it.factories[it.module.listed[c->factories[i]]];
    r->options[i] = (nxmem_open_options){.mechanism = f->name, .device = &f->device};
    r->parts[i] = (nxmem_part){it.plugins[0], &r->options[i]};
  }
}

static nxmem_result before_opening(const registration *r) {
  const own_member *context = &own.contexts[r->context], *authority = &own.authorities[r->authority];
  if (context->there != OWN_LIVE || authority->there != OWN_LIVE) return NXMEM_ERR_STALE_HANDLE;
  if (context->registry != authority->registry) return NXMEM_ERR_WRONG_OWNER;
  return it.module.state == MODULE_LIVE ? NXMEM_OK : NXMEM_ERR_BUSY;
}

static void registered(const registration *r, const own_call *c, nxmem_mechanism handle) {
  own_mechanism *m = &own.mechanisms[r->mechanism];
  *m = (own_mechanism){.there = OWN_LIVE,
                       .handle = handle,
                       .registry = own.contexts[r->context].registry,
                       .context = r->context,
                       .authority = r->authority,
                       .device = c->factories[0],
                       .part_count = c->part_count};
  memset(m->parts, OWN_NOBODY, sizeof m->parts);
  const nx_mechanism *there = nx_mechanism_at(handle.id);
  for (uint32_t i = 0; i < c->part_count; i++) {
    m->parts[i] = c->parts[i];
    it.allocators[c->parts[i]].handle.id = atomic_load(&((nx_mechanism *)(uintptr_t)there)->allocators[i]);
  }
  uint8_t *selected = &own.registries[m->registry].selected[m->device];
  if (*selected == OWN_NOBODY) *selected = r->mechanism;
}

/* What the last part that was opened came to. */
static nxmem_result result_of(const life_frame *f, const own_call *c) {
  if (f->result != NXMEM_OK) return f->result;
  return c->factories[c->part] == c->factories[0] ? NXMEM_OK : NXMEM_ERR_INVALID_ARGUMENT;
}

static void settle_registration(const registration *r, const life_frame *f, const own_call *c, nxmem_result found,
                                nxmem_mechanism out) {
  const nxmem_result expected = result_of(f, c);
  own_result("register", found, expected);
  if (found == NXMEM_OK) {
    own_expect(c->part + 1u == c->part_count, "register: a part was not opened");
    registered(r, c, out);
    return;
  }
  for (uint32_t i = 0; i < c->part_count; i++) {
    life_allocator *a = &it.allocators[c->parts[i]];
    own_expect(a->releases_owed == 0 && a->gate != GATE_OPEN, "register: refused, and what was opened stays open");
    a->gate = GATE_GONE;
  }
  own.contexts[r->context].pins--;
  own.authorities[r->authority].pins--;
}

static nxmem_result call_register(const registration *r, uint32_t count, nxmem_mechanism *out) {
  const nxmem_context context = {own.contexts[r->context].handle};
  const nxmem_authority authority = {own.authorities[r->authority].handle};
  if (count == 1) return nxmem_mechanism_register(context, authority, it.plugins[0], &r->options[0], out, NULL);
  return nxmem_mechanism_register_composite_trusted(context, authority, r->parts, count, out, NULL);
}

static void do_register(const life_record *op, registration *r, life_frame *f, own_call *c) {
  const uint8_t device = op->d % OWN_DEVICES;
  for (uint32_t i = 0; i < c->part_count; i++)
    c->factories[i] = (op->d & 0x30u) == 0x30u ? (uint8_t)((device + i) % OWN_DEVICES) : device;
  fill(r, c);
  const nxmem_result before = before_opening(r);
  if (before == NXMEM_OK) {
    own.contexts[r->context].pins++;
    own.authorities[r->authority].pins++;
  }
  nxmem_mechanism out = {0};
  own.mechanisms[r->mechanism].there = OWN_COMING;
  const nxmem_result found = call_register(r, c->part_count, &out);
  own.mechanisms[r->mechanism].there = OWN_GONE;
  own_expect((f->calls != 0) == (before == NXMEM_OK), "register: the plugin was asked, or was not, wrongly");
  own_expect((out.id != 0) == (found == NXMEM_OK), "register: whether a handle is written");
  if (before == NXMEM_OK)
    settle_registration(r, f, c, found, out);
  else
    own_result("register", found, before);
}

void own_op_register(const life_record *op) {
  registration r = {
      .mechanism = free_mechanism(op->a), .context = op->b % OWN_MEMBERS, .authority = op->c % OWN_MEMBERS};
  const uint32_t wanted = (op->d & 0xC0u) == 0xC0u ? 2u + op->x % 2u : 1u;
  if (r.mechanism == OWN_NOBODY) return;
  life_frame *f = own_push(CALL_OPEN, r.mechanism);
  own_call *c = own_top();
  if (find_parts(c, wanted) == wanted) do_register(op, &r, f, c);
  leave_parts(c);
  own_pop();
}

/* ---- Selecting and ending ----------------------------------------------------------------------------------------- */

static int is_there(const own_mechanism *m) { return m->there == OWN_LIVE || m->there == OWN_LEAVING; }

void own_op_select(const life_record *op) {
  const uint8_t which = op->a % OWN_MECHANISMS;
  own_mechanism *m = &own.mechanisms[which];
  nxmem_result expected = is_there(m) ? own_work(m->life, OWN_ACTIVE) : NXMEM_ERR_STALE_HANDLE;
  own_result("select", nxmem_mechanism_select(m->handle, NULL), expected);
  if (expected == NXMEM_OK) own.registries[m->registry].selected[m->device] = which;
}

void own_op_retire(const life_record *op) {
  const uint8_t which = op->a % OWN_MECHANISMS;
  own_mechanism *m = &own.mechanisms[which];
  const nxmem_result expected = is_there(m) ? own_work(m->life, OWN_ACTIVE) : NXMEM_ERR_STALE_HANDLE;
  own_result("retire", nxmem_mechanism_retire(m->handle, NULL), expected);
  if (expected != NXMEM_OK) return;
  m->life = OWN_RETIRED;
  own_drop_selection(which);
}

/* Whoever is inside finds it lost when it comes back. */
static void lose(uint8_t which, nxmem_loss *loss) {
  own_mechanism *m = &own.mechanisms[which];
  m->life = OWN_LOST;
  own_drop_selection(which);
  loss->mechanisms++;
  loss->calls_inside += own_inside(m);
  loss->retained += own_keep_all(which, OWN_NOBODY, NXMEM_KEPT_DEVICE_LOST);
  for (uint32_t i = 0; i < m->part_count; i++)
    if (m->parts[i] != OWN_NOBODY && it.allocators[m->parts[i]].gate == GATE_OPEN)
      it.allocators[m->parts[i]].gate = GATE_WAITING;
  for (uint32_t i = 0; i < it.frame_count; i++)
    if (own.calls[i].mechanism == which) it.frames[i].lost = 1;
}

static void same_loss(const nxmem_loss *found, const nxmem_loss *expected) {
  own_same("lost mechanisms", found->mechanisms, expected->mechanisms);
  own_same("retained by a loss", found->retained, expected->retained);
  own_same("calls inside at a loss", found->calls_inside, expected->calls_inside);
}

static void lose_device(const life_record *op) {
  const uint8_t registry = op->a % OWN_REGISTRIES, device = op->b % OWN_DEVICES;
  nxmem_loss found = {0}, expected = {0};
  const int there = own.registries[registry].there == OWN_LIVE;
  own_result("lose device",
             nxmem_registry_lose_device(own.registries[registry].handle, own_devices[device], &found, NULL),
             there ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE);
  for (uint8_t i = 0; there && i < OWN_MECHANISMS; i++) {
    const own_mechanism *m = &own.mechanisms[i];
    if (is_there(m) && m->registry == registry && m->device == device && m->life <= OWN_RETIRED) lose(i, &expected);
  }
  same_loss(&found, &expected);
}

void own_op_lose(const life_record *op) {
  if ((op->c & 1u) != 0) {
    lose_device(op);
    return;
  }
  const uint8_t which = op->a % OWN_MECHANISMS;
  own_mechanism *m = &own.mechanisms[which];
  nxmem_loss found = {0}, expected = {0};
  const nxmem_result result = is_there(m) ? own_work(m->life, OWN_RETIRED) : NXMEM_ERR_STALE_HANDLE;
  own_result("lose", nxmem_mechanism_lose(m->handle, (op->d & 1u) != 0 ? NULL : &found, NULL), result);
  if (result == NXMEM_OK) lose(which, &expected);
  if ((op->d & 1u) == 0) same_loss(&found, &expected);
}

void own_op_confirm(const life_record *op) {
  const uint8_t which = op->a % OWN_MECHANISMS;
  own_mechanism *m = &own.mechanisms[which];
  nxmem_error error;
  nxmem_result expected = NXMEM_ERR_STALE_HANDLE;
  if (is_there(m)) {
    expected = m->life == OWN_TERMINATED ? NXMEM_ERR_TERMINATED : NXMEM_OK;
    if (m->life < OWN_LOST) expected = NXMEM_ERR_INVALID_ARGUMENT;
    if (m->life == OWN_LOST && own_inside(m) != 0) expected = NXMEM_ERR_BUSY;
  }
  const nxmem_result found = nxmem_mechanism_confirm_terminated(m->handle, &error);
  own_result("confirm", found, expected);
  if (found == NXMEM_ERR_BUSY) own_same("calls inside at a confirmation", error.found, own_inside(m));
  if (found == NXMEM_OK) m->life = OWN_TERMINATED;
}

/* ---- Removing ----------------------------------------------------------------------------------------------------- */

static void same_holdings(const nxmem_holdings *found, const nxmem_holdings *e) {
  own_same("calls inside a mechanism", found->calls_inside, e->calls_inside);
  own_same("live in a mechanism", found->live, e->live);
  own_same("prepared in a mechanism", found->prepared, e->prepared);
  own_same("quarantined in a mechanism", found->quarantined, e->quarantined);
  own_same("bindings of a mechanism", found->bindings, e->bindings);
}

static int is_held(const own_mechanism *m, const nxmem_holdings *h, uint32_t *field, uint64_t *count) {
  const uint64_t counts[] = {h->calls_inside, h->live, h->prepared, m->life == OWN_TERMINATED ? 0 : h->quarantined,
                             h->bindings};
  for (uint32_t i = 0; i < 5; i++) {
    *field = i + 1u;
    *count = counts[i];
    if (counts[i] != 0) return 1;
  }
  return 0;
}

static int has_parts(const own_mechanism *m) {
  for (uint32_t i = 0; i < m->part_count; i++)
    if (m->parts[i] != OWN_NOBODY) return 1;
  return 0;
}

static void remove_held(own_mechanism *m, const nxmem_holdings *e) {
  nxmem_holdings why;
  nxmem_error error;
  uint32_t field = 0;
  uint64_t count = 0;
  own_result("remove", nxmem_mechanism_remove(m->handle, &why, &error), NXMEM_ERR_BUSY);
  same_holdings(&why, e);
  const int ended = m->life == OWN_RETIRED || m->life == OWN_TERMINATED;
  own_same("why it is not removed", error.reason, ended ? NXMEM_REASON_STILL_HELD : NXMEM_REASON_NOT_ENDED);
  if (!ended || !is_held(m, e, &field, &count)) return;
  own_same("what stands in the way", error.field, field);
  own_same("how many stand in the way", error.found, count);
}

static void remove_free(own_mechanism *m, uint8_t which) {
  life_frame *f = own_push(CALL_CLOSE, which);
  m->there = OWN_LEAVING;
  const nxmem_result found = nxmem_mechanism_remove(m->handle, NULL, NULL);
  (void)f;
  if (has_parts(m)) {
    own_result("remove", found, NXMEM_ERR_BUSY);
    own_expect(m->life == OWN_LOST, "remove: a part was not closed");
    m->there = OWN_LIVE;
  } else {
    own_result("remove", found, NXMEM_OK);
    m->there = OWN_GONE;
    if (m->life == OWN_TERMINATED) own_forget_answers(m->handle.id);
    own.contexts[m->context].pins--;
    own.authorities[m->authority].pins--;
  }
  own_pop();
}

void own_op_remove(const life_record *op) {
  const uint8_t which = op->a % OWN_MECHANISMS;
  own_mechanism *m = &own.mechanisms[which];
  if (m->there != OWN_LIVE) {
    own_result("remove", nxmem_mechanism_remove(m->handle, NULL, NULL),
               m->there == OWN_LEAVING ? NXMEM_ERR_BUSY : NXMEM_ERR_STALE_HANDLE);
    return;
  }
  const nxmem_holdings h = own_holdings(m);
  uint32_t field;
  uint64_t count;
  const int ended = m->life == OWN_RETIRED || m->life == OWN_TERMINATED;
  if (!ended || is_held(m, &h, &field, &count))
    remove_held(m, &h);
  else
    remove_free(m, which);
}
