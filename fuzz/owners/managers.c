/*
 * managers.c: managers, the authorities in their books, limits, delegation.
 * Attackers: limits below what is taken, slices that do not fit, removals while something is held.
 * Promise: a limit adopts what is there and grants no more; what is refused changes nothing.
 */
#include <string.h>

#include "owners.h"

static const nxmem_axes unlimited = NXMEM_AXES_UNLIMITED;

static uint64_t countable(uint64_t bytes) { return bytes > LIFE_TOTAL_MAX ? LIFE_TOTAL_MAX : bytes; }

/* Small ones mostly, so that they bind. */
static nxmem_axes axes_for(const life_record *op) {
  const uint64_t base = (op->d & 1u) != 0 ? op->y : op->x;
  nxmem_axes axes = {base, base, base};
  if ((op->d & 2u) != 0) axes.charged = LIFE_TOTAL_MAX;
  if ((op->d & 4u) != 0) axes.physical = UINT64_MAX;
  if ((op->d & 8u) != 0) axes.mapped = op->y;
  if ((op->d & 16u) != 0) axes.physical = op->y % 0x10000u;
  return axes;
}

static nxmem_axes clamped(const nxmem_axes *axes) {
  return (nxmem_axes){countable(axes->charged), countable(axes->physical), countable(axes->mapped)};
}

static int is_live(const own_manager *m) { return m->there == OWN_LIVE; }

/* ---- Managers ----------------------------------------------------------------------------------------------------- */

static void make_manager(own_manager *m) {
  nxmem_manager out = {0};
  if (is_live(m)) return;
  own_result("create manager", nxmem_manager_create(&out, NULL), NXMEM_OK);
  memset(m, 0, sizeof *m);
  m->there = OWN_LIVE;
  m->handle = out;
  for (uint32_t i = 0; i < OWN_TIERS; i++) m->limits[i] = unlimited;
}

static uint64_t left_in(const own_manager *m) {
  uint64_t authorities = 0, running = 0;
  for (uint32_t i = 0; i < OWN_MEMBERS; i++) authorities += (uint64_t)m->accounts[i].here;
  for (uint32_t i = 0; i < OWN_HOLDERS; i++) running += m->holders[i].here ? m->holders[i].running : 0u;
  return authorities != 0 ? authorities : running;
}

void own_op_manager(const life_record *op) {
  own_manager *m = &own.managers[op->a % OWN_MANAGERS];
  if ((op->c & 1u) == 0) {
    make_manager(m);
    return;
  }
  nxmem_error error;
  nxmem_result expected = is_live(m) ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
  if (expected == NXMEM_OK && left_in(m) != 0) expected = NXMEM_ERR_BUSY;
  own_result("destroy manager", nxmem_manager_destroy(m->handle, &error), expected);
  if (expected == NXMEM_ERR_BUSY) own_same("left in a manager", error.found, left_in(m));
  if (expected != NXMEM_OK) return;
  m->there = OWN_GONE;
  memset(m->holders, 0, sizeof m->holders);
}

/* ---- Authorities -------------------------------------------------------------------------------------------------- */

static uint32_t free_place(const own_manager *m) {
  uint32_t place = 0;
  for (uint32_t i = 0; i < OWN_MEMBERS; i++) {
    if (!m->accounts[i].here || m->accounts[i].place != place) continue;
    place++;
    i = UINT32_MAX; /* from the first again */
  }
  return place;
}

static void add_authority(const life_record *op, own_manager *m, uint8_t which) {
  own_member *authority = &own.authorities[which];
  const uint32_t tier = (op->d & 0xE0u) == 0xE0u ? op->x : (op->d >> 5) % OWN_TIERS;
  const nxmem_axes budget = axes_for(op);
  const int capped = (op->b & 0x10u) != 0;
  nxmem_result expected = authority->there == OWN_LIVE ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
  if (expected == NXMEM_OK && !is_live(m)) expected = NXMEM_ERR_STALE_HANDLE;
  if (expected == NXMEM_OK && m->accounts[which].here) expected = NXMEM_ERR_INVALID_ARGUMENT;
  if (tier >= OWN_TIERS) expected = NXMEM_ERR_INVALID_ARGUMENT;
  own_result(
      "add authority",
      nxmem_manager_add_authority(m->handle, (nxmem_authority){authority->handle}, tier, capped ? &budget : NULL, NULL),
      expected);
  if (expected != NXMEM_OK) return;
  const uint32_t place = free_place(m);
  m->accounts[which] =
      (own_account){.here = 1, .tier = tier, .place = place, .budget = capped ? clamped(&budget) : unlimited};
  authority->pins++;
}

static uint64_t held_under(uint8_t manager, uint8_t authority) {
  uint64_t held = 0;
  for (uint32_t i = 0; i < OWN_CHARGES; i++) {
    const own_charge *c = &own.charges[i];
    held +=
        c->stage >= OWN_RESERVED && c->stage <= OWN_CHARGE_KEPT && c->manager == manager && c->authority == authority;
  }
  return held;
}

static void forget_accounts(own_manager *m, uint8_t authority) {
  for (uint32_t i = 0; i < OWN_MECHANISMS; i++)
    if (own.mechanisms[i].authority == authority) m->opened[i] = 0;
}

static void remove_authority(uint8_t manager, uint8_t which) {
  own_manager *m = &own.managers[manager];
  const int here = is_live(m) && m->accounts[which].here;
  const uint64_t held = here ? held_under(manager, which) : 0;
  nxmem_error error;
  const nxmem_result expected = !here ? NXMEM_ERR_STALE_HANDLE : held != 0 ? NXMEM_ERR_BUSY : NXMEM_OK;
  own_result("remove authority",
             nxmem_manager_remove_authority(m->handle, (nxmem_authority){own.authorities[which].handle}, &error),
             expected);
  if (expected == NXMEM_ERR_BUSY) own_same("held under an authority", error.found, held);
  if (expected != NXMEM_OK) return;
  m->accounts[which].here = 0;
  own.authorities[which].pins--;
  forget_accounts(m, which);
}

void own_op_authority(const life_record *op) {
  const uint8_t manager = op->a % OWN_MANAGERS, authority = op->b % OWN_MEMBERS;
  if ((op->c & 1u) == 0)
    add_authority(op, &own.managers[manager], authority);
  else
    remove_authority(manager, authority);
}

/* ---- Limits ------------------------------------------------------------------------------------------------------- */

static void same_beyond(const nxmem_axes *found, const nxmem_axes *taken, const nxmem_axes *limit) {
  const nxmem_axes beyond = own_more(taken, limit);
  if (!own.overflown) own_axes("beyond a limit", found, &beyond);
}

static void limit_tier(const life_record *op, uint8_t manager) {
  own_manager *m = &own.managers[manager];
  const uint32_t tier = (op->b & 0xF0u) == 0xF0u ? op->x : op->b % OWN_TIERS;
  const nxmem_axes limit = axes_for(op), counted = clamped(&limit);
  nxmem_axes beyond = {77, 77, 77};
  nxmem_result expected = is_live(m) ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
  if (tier >= OWN_TIERS) expected = NXMEM_ERR_INVALID_ARGUMENT;
  own_result("set limit", nxmem_manager_set_limit(m->handle, tier, &limit, &beyond, NULL), expected);
  if (expected != NXMEM_OK) return;
  m->limits[tier] = counted;
  const nxmem_axes taken = own_tier_used(manager, tier, 0);
  same_beyond(&beyond, &taken, &counted);
}

static void limit_authority(const life_record *op, uint8_t manager) {
  own_manager *m = &own.managers[manager];
  const uint8_t which = op->b % OWN_MEMBERS;
  const nxmem_axes limit = axes_for(op), counted = clamped(&limit);
  nxmem_axes beyond = {77, 77, 77};
  const int here = is_live(m) && m->accounts[which].here;
  own_result(
      "set budget",
      nxmem_manager_set_budget(m->handle, (nxmem_authority){own.authorities[which].handle}, &limit, &beyond, NULL),
      here ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE);
  if (!here) return;
  m->accounts[which].budget = counted;
  const nxmem_axes taken = own_used(manager, which);
  same_beyond(&beyond, &taken, &counted);
}

void own_op_limit(const life_record *op) {
  if ((op->c & 1u) == 0)
    limit_tier(op, op->a % OWN_MANAGERS);
  else
    limit_authority(op, op->a % OWN_MANAGERS);
}

static nxmem_verdict judge_slice(uint8_t manager, uint8_t which, nxmem_axes slice) {
  own_account *a = &own.managers[manager].accounts[which];
  nxmem_axes used = own_used(manager, which), shares = own_tier_used(manager, a->tier, 1);
  nxmem_verdict v = {NXMEM_REASON_ALREADY_DELEGATED, 0, 0, 0};
  if (a->delegated) return v;
  for (uint32_t i = 0; i < 3; i++)
    if (*own_axis(&slice, i) < *own_axis(&used, i))
      return (nxmem_verdict){NXMEM_REASON_SLICE_TOO_SMALL, i, *own_axis(&slice, i), *own_axis(&used, i)};
  for (uint32_t i = 0; i < 3; i++) {
    const uint64_t others = *own_axis(&shares, i) - *own_axis(&used, i),
                   limit = *own_axis(&own.managers[manager].limits[a->tier], i);
    const uint64_t room = others < limit ? limit - others : 0;
    if (*own_axis(&slice, i) > room)
      return (nxmem_verdict){NXMEM_REASON_OVER_PROCESS_LIMIT, i, *own_axis(&slice, i), room};
  }
  v.reason = NXMEM_REASON_NONE;
  return v;
}

void own_op_delegate(const life_record *op) {
  const uint8_t manager = op->a % OWN_MANAGERS, which = op->b % OWN_MEMBERS;
  own_manager *m = &own.managers[manager];
  own_account *a = &m->accounts[which];
  const nxmem_axes slice = axes_for(op);
  nxmem_error error;
  const int here = is_live(m) && a->here;
  if (own.overflown) return;
  const nxmem_verdict v = here ? judge_slice(manager, which, slice) : (nxmem_verdict){0, 0, 0, 0};
  nxmem_result expected = v.reason == NXMEM_REASON_NONE ? NXMEM_OK : NXMEM_ERR_OVER_LIMIT;
  if (!here) expected = NXMEM_ERR_STALE_HANDLE;
  own_result("delegate",
             nxmem_manager_delegate(m->handle, (nxmem_authority){own.authorities[which].handle}, &slice, &error),
             expected);
  if (expected == NXMEM_ERR_OVER_LIMIT) {
    own_same("why it is not delegated", error.reason, v.reason);
    if (v.reason == NXMEM_REASON_ALREADY_DELEGATED) return;
    own_same("axis that is not delegated", error.field, v.field);
    own_same("slice that is not delegated", error.found, v.found);
    own_same("what could be delegated", error.needed, v.needed);
  }
  if (expected != NXMEM_OK) return;
  a->delegated = 1;
  a->slice = slice;
}

/* ---- Contexts ----------------------------------------------------------------------------------------------------- */

void own_op_context(const life_record *op) {
  const uint8_t manager = op->a % OWN_MANAGERS;
  own_manager *m = &own.managers[manager];
  own_member *c = &own.contexts[op->b % OWN_MEMBERS];
  const uint64_t open = is_live(m) ? own_open_in(manager, c->handle) : 0;
  nxmem_context_holds out = {77, 77};
  nxmem_result expected = is_live(m) && c->there == OWN_LIVE ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
  if (expected == NXMEM_OK && open + c->pins != 0) expected = NXMEM_ERR_BUSY;
  own_result("remove context", nxmem_manager_remove_context(m->handle, (nxmem_context){c->handle}, &out, NULL),
             expected);
  if (expected == NXMEM_ERR_STALE_HANDLE) return;
  own_same("transactions in a context", out.transactions, open);
  own_same("pins of a context", out.pins, c->pins);
  if (expected == NXMEM_OK) c->there = OWN_GONE;
}
