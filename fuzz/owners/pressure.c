/*
 * pressure.c: holders that are asked to give bytes back.
 * Attackers: holders that lie, call back, add and remove each other, and make room or take it.
 * Promise: each that was there is asked once, in order, with what is still wanted, and where the process limit refuses once more for each other authority that fills it; nobody
 * is asked from inside one.
 */
#include <string.h>

#include "owners.h"

static int is_met(const nxmem_axes *left) { return left->charged == 0 && left->physical == 0 && left->mapped == 0; }

/* Behind the last one: of lower priority, or of the same and later. */
static uint8_t next_holder(void) {
  const own_asking *a = &own.asking;
  const own_manager *m = &own.managers[a->manager];
  uint8_t best = OWN_NOBODY;
  for (uint8_t i = 0; i < OWN_HOLDERS; i++) {
    const own_holder *h = &m->holders[i];
    if (!h->here || h->order > a->newest) continue;
    if (a->asked && (h->priority > a->last_priority || (h->priority == a->last_priority && h->order <= a->last_order)))
      continue;
    const own_holder *b = best == OWN_NOBODY ? NULL : &m->holders[best];
    if (b == NULL || h->priority > b->priority || (h->priority == b->priority && h->order < b->order)) best = i;
  }
  return best;
}

/* Another of the same tier, behind those before. Slices count as a whole for one that has none. */
static int may_be_next(uint8_t which) {
  const own_asking *a = &own.asking;
  const own_account *asker = &own.managers[a->manager].accounts[a->authority],
                    *other = &own.managers[a->manager].accounts[which];
  if (!asker->here || own.authorities[a->authority].handle != a->under) return 0;
  if (which == a->authority || !other->here || other->tier != asker->tier || other->place < a->place) return 0;
  return !other->delegated || asker->delegated;
}

static uint8_t next_authority(void) {
  const own_manager *m = &own.managers[own.asking.manager];
  uint8_t next = OWN_NOBODY;
  for (uint8_t i = 0; own.asking.others && i < OWN_MEMBERS; i++)
    if (may_be_next(i) && (next == OWN_NOBODY || m->accounts[i].place < m->accounts[next].place)) next = i;
  return next;
}

static void turn_to(uint8_t authority) {
  own_asking *a = &own.asking;
  a->now = authority;
  a->asked = 0;
  if (authority != OWN_NOBODY) a->place = own.managers[a->manager].accounts[authority].place + 1u;
}

/* Whoever is asked next; for the next authority, where all were asked for the last one. */
static uint8_t next_asked(void) {
  own_asking *a = &own.asking;
  if (is_met(&a->left) || own.managers[a->manager].there != OWN_LIVE) return OWN_NOBODY;
  while (a->now != OWN_NOBODY && next_holder() == OWN_NOBODY) turn_to(next_authority());
  return a->now == OWN_NOBODY ? OWN_NOBODY : next_holder();
}

void own_begin_asking(uint8_t manager, uint8_t authority, const nxmem_axes *wanted, uint32_t refusal) {
  own.asking = (own_asking){.on = 1,
                            .frame = it.frame_count,
                            .manager = manager,
                            .authority = authority,
                            .now = authority,
                            .under = own.authorities[authority].handle,
                            .others = refusal == NXMEM_REASON_OVER_PROCESS_LIMIT,
                            .newest = own.holder_order,
                            .left = *wanted};
}

static int is_mine(void) { return own.asking.on && own.asking.frame == it.frame_count; }

nxmem_axes own_end_asking(void) {
  own_expect(is_mine(), "harness: nobody asks");
  own_expect(next_asked() == OWN_NOBODY || own.overflown, "pressure: a holder was not asked");
  own.asking.on = 0;
  return own.asking.given;
}

/* A refusal asks, unless somebody asks already; what holds behind it is judged anew. */
nxmem_verdict own_after_asking(uint8_t manager, uint8_t authority, const nxmem_axes *ask) {
  const nxmem_verdict v = own_judge(manager, authority, ask);
  if (is_mine()) {
    (void)own_end_asking();
    return v;
  }
  if (v.reason == NXMEM_REASON_NONE || own.asking.on) return v;
  const nxmem_axes wanted = own_shortage(manager, authority, ask);
  own_begin_asking(manager, authority, &wanted, v.reason);
  (void)own_end_asking();
  return v;
}

/* The first that is asked: of a call that a limit refused. */
static void begin_of_call(void) {
  uint8_t manager = OWN_NOBODY, authority = OWN_NOBODY;
  nxmem_axes ask = {0, 0, 0};
  own_asked_by(own_top(), &manager, &authority, &ask);
  const nxmem_verdict v = own_judge(manager, authority, &ask);
  own_expect(v.reason != NXMEM_REASON_NONE || own.overflown, "pressure: holders are asked though there is room");
  const nxmem_axes wanted = own_shortage(manager, authority, &ask);
  own_begin_asking(manager, authority, &wanted, v.reason);
}

static nxmem_axes answer_to(const life_record *answer, const nxmem_axes *wanted) {
  nxmem_axes given = {0, 0, 0};
  switch (answer->d & 7u) {
    case 4:
      return *wanted;
    case 5:
      return (nxmem_axes){wanted->charged / 2u, wanted->physical / 2u, wanted->mapped / 2u};
    case 6:
      return (nxmem_axes){answer->y, answer->x, UINT64_MAX};
    case 7:
      given.physical = answer->y;
      return given;
    default:
      return given;
  }
}

static void believe(const nxmem_axes *given) {
  for (uint32_t i = 0; i < 3; i++) {
    nxmem_axes said = *given;
    uint64_t *left = own_axis(&own.asking.left, i);
    const uint64_t most = *own_axis(&said, i) < *left ? *own_axis(&said, i) : *left;
    *left -= most;
    *own_axis(&own.asking.given, i) += most;
    /* as every sum of the books */
    if (*own_axis(&own.asking.given, i) > NXMEM_TOTAL_MAX) *own_axis(&own.asking.given, i) = NXMEM_TOTAL_MAX;
  }
}

/* Where sums are not compared any more: as it is asked. */
static void follow(uint64_t authority, const nxmem_axes *wanted) {
  own_asking *a = &own.asking;
  a->left = *wanted;
  for (uint8_t i = 0; i < OWN_MEMBERS; i++)
    if (own.authorities[i].handle == authority && a->now != i) turn_to(i);
}

void own_pressure(void *ctx, nxmem_authority authority, const nxmem_axes *wanted, nxmem_axes *given_out) {
  const uintptr_t number = (uintptr_t)ctx - 1u;
  own_manager *m = &own.managers[number / OWN_HOLDERS];
  own_holder *h = &m->holders[number % OWN_HOLDERS];
  if (!own.asking.on) begin_of_call();
  own_expect(is_mine(), "pressure: holders are asked from inside one");
  if (own.overflown) follow(authority.id, wanted);
  own_expect(own.asking.manager == number / OWN_HOLDERS && next_asked() == number % OWN_HOLDERS,
             "pressure: another holder is asked");
  own_same("authority under pressure", authority.id, own.authorities[own.asking.now].handle);
  if (!own.overflown) own_axes("wanted of a holder", wanted, &own.asking.left);
  own_check();
  own.asking.asked = 1;
  own.asking.last_priority = h->priority;
  own.asking.last_order = h->order;
  h->running++;
  const life_record answer = life_take_answer();
  life_nest(&answer);
  h->running--;
  *given_out = answer_to(&answer, wanted);
  believe(given_out);
}

/* ---- Operations --------------------------------------------------------------------------------------------------- */

static void add_pressure(const life_record *op, uint8_t manager) {
  own_manager *m = &own.managers[manager];
  uint8_t at = 0;
  while (at < OWN_HOLDERS && m->holders[at].here) at++;
  if (at == OWN_HOLDERS) return;
  const int32_t priority = (int32_t)(op->d & 3u) - 1;
  void *ctx = (void *)((uintptr_t)manager * OWN_HOLDERS + at + 1u);
  nxmem_pressure out = {0};
  const nxmem_result expected = m->there == OWN_LIVE ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
  own_result("add pressure", nxmem_manager_add_pressure(m->handle, own_pressure, ctx, priority, &out, NULL), expected);
  if (expected == NXMEM_OK)
    m->holders[at] = (own_holder){.here = 1, .handle = out.id, .order = ++own.holder_order, .priority = priority};
}

void own_op_pressure(const life_record *op) {
  const uint8_t manager = op->a % OWN_MANAGERS;
  if ((op->c & 1u) == 0) {
    add_pressure(op, manager);
    return;
  }
  own_manager *m = &own.managers[manager];
  own_holder *h = &m->holders[op->b % OWN_HOLDERS];
  nxmem_result expected = m->there == OWN_LIVE && h->here ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
  if (expected == NXMEM_OK && h->running != 0) expected = NXMEM_ERR_BUSY;
  own_result("remove pressure", nxmem_manager_remove_pressure(m->handle, (nxmem_pressure){h->handle}, NULL), expected);
  if (expected == NXMEM_OK) h->here = 0;
}

void own_op_ask(const life_record *op) {
  const uint8_t manager = op->a % OWN_MANAGERS, authority = op->b % OWN_MEMBERS;
  own_manager *m = &own.managers[manager];
  const nxmem_axes wanted = {op->x, op->y % 4096u, (op->d & 1u) != 0 ? op->y : 0};
  nxmem_axes given = {77, 77, 77}, expected = {0, 0, 0};
  const int here = m->there == OWN_LIVE && m->accounts[authority].here;
  (void)own_push(CALL_OTHER, OWN_NOBODY);
  const int asks = here && !own.asking.on;
  if (asks) own_begin_asking(manager, authority, &wanted, NXMEM_REASON_NONE);
  own_result("ask",
             nxmem_manager_ask(m->handle, (nxmem_authority){own.authorities[authority].handle}, &wanted, &given, NULL),
             here ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE);
  if (asks) expected = own_end_asking();
  if (here) own_axes("given to who asked", &given, &expected);
  own_pop();
}

/* ---- A plugin that asks ------------------------------------------------------------------------------------------- */

/* Whose the allocator is, where the first manager has an account of its mechanism. */
static uint8_t authority_of(uint32_t allocator) {
  const own_manager *m = &own.managers[0];
  for (uint32_t i = 0; m->there == OWN_LIVE && i < OWN_MECHANISMS; i++) {
    const own_mechanism *mechanism = &own.mechanisms[i];
    const int there = mechanism->there == OWN_LIVE || mechanism->there == OWN_LEAVING;
    if (there && own_is_part(mechanism, allocator) && m->opened[i] == mechanism->handle.id) return mechanism->authority;
  }
  return OWN_NOBODY;
}

void own_op_reclaim(const life_record *op) {
  const uint32_t which = op->a % LIFE_ALLOCATORS;
  life_allocator *a = &it.allocators[which];
  if (a->callbacks == NULL || a->gate != GATE_OPEN || a->handle.id == 0) return;
  if ((it.header.mode & LIFE_NO_HOOK) != 0) return;
  const int refused = it.module.state != MODULE_LIVE;
  const uint8_t authority = refused ? OWN_NOBODY : authority_of(which);
  const uint32_t without = refused ? NXMEM_STATUS_BUSY : NXMEM_STATUS_CALLBACK_FAILED;
  const nxmem_axes wanted = {0, 1u + op->x, 0};
  const NxmemReclaimRequest request = {
      .struct_size = sizeof request, .mechanism_id = a->mechanism, .device = a->device, .bytes = wanted.physical};
  uint64_t reclaimed = 77;
  nxmem_axes expected = {0, 0, 0};
  (void)own_push(CALL_OTHER, OWN_NOBODY);
  const int asks = authority != OWN_NOBODY && !own.asking.on;
  if (asks) own_begin_asking(0, authority, &wanted, NXMEM_REASON_NONE);
  a->callbacks_running++;
  it.module.inside += (uint64_t)!refused; /* its caller, while holders are asked */
  const NxmemStatus status = a->callbacks->request_reclaim(a->context, &request, &reclaimed);
  it.module.inside -= (uint64_t)!refused;
  a->callbacks_running--;
  life_settle_share(a);
  if (asks) expected = own_end_asking();
  own_same("status of a reclaim", status.code, authority == OWN_NOBODY ? without : NXMEM_STATUS_OK);
  if (status.code == NXMEM_STATUS_OK) own_same("reclaimed", reclaimed, expected.physical);
  own_pop();
}
