/*
 * books.c: what managers charge: sums over all charges, each time anew.
 * Attackers: numbers near every limit.
 * Promise: no figure is kept beside another: what is used is what is charged.
 */
#include "owners.h"

uint64_t *own_axis(nxmem_axes *axes, uint32_t which) {
  uint64_t *const all[] = {&axes->charged, &axes->physical, &axes->mapped};
  return all[which];
}

static uint64_t axis_of(const nxmem_axes *axes, uint32_t which) {
  const uint64_t all[] = {axes->charged, axes->physical, axes->mapped};
  return all[which];
}

static void add(nxmem_axes *total, const nxmem_axes *part) {
  for (uint32_t i = 0; i < 3; i++) {
    uint64_t *to = own_axis(total, i);
    const uint64_t by = axis_of(part, i);
    const int fits = *to <= LIFE_TOTAL_MAX && by <= LIFE_TOTAL_MAX - *to;
    if (!fits) own.overflown = 1;
    *to = fits ? *to + by : LIFE_TOTAL_MAX;
  }
}

static int is_held(const own_charge *c) { return c->stage >= OWN_RESERVED && c->stage <= OWN_CHARGE_KEPT; }

nxmem_axes own_used(uint8_t manager, uint8_t authority) {
  nxmem_axes used = {0, 0, 0};
  for (uint32_t i = 0; i < OWN_CHARGES; i++) {
    const own_charge *c = &own.charges[i];
    if (is_held(c) && c->manager == manager && c->authority == authority) add(&used, &c->held);
  }
  return used;
}

nxmem_axes own_tier_used(uint8_t manager, uint32_t tier, int shares) {
  nxmem_axes sum = {0, 0, 0};
  for (uint8_t i = 0; i < OWN_MEMBERS; i++) {
    const own_account *a = &own.managers[manager].accounts[i];
    if (!a->here || a->tier != tier) continue;
    nxmem_axes used = own_used(manager, i);
    for (uint32_t axis = 0; shares && a->delegated && axis < 3; axis++)
      if (axis_of(&a->slice, axis) > axis_of(&used, axis)) *own_axis(&used, axis) = axis_of(&a->slice, axis);
    add(&sum, &used);
  }
  return sum;
}

static uint64_t left(uint64_t taken, uint64_t limit) { return taken < limit ? limit - taken : 0; }

static int is_over(const nxmem_axes *ask, const nxmem_axes *taken, const nxmem_axes *limit, uint32_t reason,
                   nxmem_verdict *v) {
  for (uint32_t i = 0; i < 3; i++) {
    const uint64_t room = left(axis_of(taken, i), axis_of(limit, i));
    if (axis_of(ask, i) <= room) continue;
    *v = (nxmem_verdict){reason, i, axis_of(ask, i), room};
    return 1;
  }
  return 0;
}

nxmem_verdict own_judge(uint8_t manager, uint8_t authority, const nxmem_axes *ask) {
  const own_manager *m = &own.managers[manager];
  const own_account *a = &m->accounts[authority];
  const nxmem_axes used = own_used(manager, authority), tier = own_tier_used(manager, a->tier, !a->delegated);
  nxmem_verdict v = {NXMEM_REASON_NONE, 0, 0, 0};
  if (is_over(ask, &used, &a->budget, NXMEM_REASON_OVER_BUDGET, &v)) return v;
  if (a->delegated && is_over(ask, &used, &a->slice, NXMEM_REASON_OVER_SLICE, &v)) return v;
  (void)is_over(ask, &tier, &m->limits[a->tier], NXMEM_REASON_OVER_PROCESS_LIMIT, &v);
  return v;
}

/* What is taken and what is asked for, less the limit; where it fits, nothing. */
static void lack(const nxmem_axes *ask, const nxmem_axes *taken, const nxmem_axes *limit, nxmem_axes *most) {
  for (uint32_t i = 0; i < 3; i++) {
    const uint64_t room = left(axis_of(taken, i), axis_of(limit, i));
    if (axis_of(ask, i) <= room) continue;
    const uint64_t beyond = axis_of(ask, i) - room, over = left(axis_of(limit, i), axis_of(taken, i));
    const int is_huge = beyond > LIFE_TOTAL_MAX || over > LIFE_TOTAL_MAX - beyond;
    const uint64_t counted = is_huge ? LIFE_TOTAL_MAX : beyond + over;
    if (counted > axis_of(most, i)) *own_axis(most, i) = counted;
  }
}

nxmem_axes own_shortage(uint8_t manager, uint8_t authority, const nxmem_axes *ask) {
  const own_manager *m = &own.managers[manager];
  const own_account *a = &m->accounts[authority];
  const nxmem_axes used = own_used(manager, authority), tier = own_tier_used(manager, a->tier, !a->delegated);
  nxmem_axes most = {0, 0, 0};
  lack(ask, &used, &a->budget, &most);
  if (a->delegated) lack(ask, &used, &a->slice, &most);
  lack(ask, &tier, &m->limits[a->tier], &most);
  return most;
}

nxmem_axes own_more(const nxmem_axes *answered, const nxmem_axes *held) {
  nxmem_axes more = {0, 0, 0};
  for (uint32_t i = 0; i < 3; i++) *own_axis(&more, i) = left(axis_of(held, i), axis_of(answered, i));
  return more;
}

/* As much of it as its tier can still count. */
static void clamp_to_tier(const own_charge *c, nxmem_axes *there) {
  const uint32_t tier = own.managers[c->manager].accounts[c->authority].tier;
  for (int shares = 0; shares < 2; shares++) {
    const nxmem_axes sum = own_tier_used(c->manager, tier, shares);
    for (uint32_t i = 0; i < 3; i++)
      if (axis_of(there, i) > left(axis_of(&sum, i), LIFE_TOTAL_MAX))
        *own_axis(there, i) = left(axis_of(&sum, i), LIFE_TOTAL_MAX);
  }
}

/* What it takes is there, whatever the limits say. */
static void take_answered(own_charge *c) {
  nxmem_axes more = own_more(&c->answered, &c->held);
  for (uint32_t i = 0; i < 3; i++)
    if (axis_of(&c->held, i) > axis_of(&c->answered, i)) *own_axis(&c->held, i) = axis_of(&c->answered, i);
  clamp_to_tier(c, &more);
  for (uint32_t i = 0; i < 3; i++) *own_axis(&c->held, i) += axis_of(&more, i);
}

void own_charge_ended(uint8_t charge, int kept) {
  own_charge *c = &own.charges[charge];
  if (kept && c->stage != OWN_PUBLISHED) take_answered(c);
  c->stage = kept ? OWN_CHARGE_KEPT : OWN_SETTLED;
}

/* Whatever was said of it: what was reserved, and the bytes that were asked for. Nobody names it. */
void own_keep_answer(const life_frame *f, uint8_t charge, uint8_t to) {
  own_charge *c = &own.charges[charge], *kept = &own.charges[to];
  const own_life now = own.mechanisms[own.bindings[c->binding].mechanism].life;
  const int busy = c->busy && kept == c;
  nxmem_axes there = c->held;
  if (there.physical < c->bytes) there.physical = c->bytes;
  clamp_to_tier(c, &there);
  c->left++;
  c->keeping = f->handing_back && f->unchanged ? NXMEM_KEPT_ALLOCATOR_REFUSED : NXMEM_KEPT_PARTIAL_RELEASE;
  if (now == OWN_LOST) c->keeping = NXMEM_KEPT_DEVICE_LOST;
  if (now == OWN_TERMINATED) c->keeping = NXMEM_KEPT_TERMINATED;
  add(&c->behind, &there);
  if (kept != c) *kept = *c;
  kept->busy = busy;
  kept->stepwise = 0;
  kept->handle = 0; /* nobody can name it */
  kept->held = there;
  kept->block = OWN_NOBODY;
  kept->stage = OWN_CHARGE_KEPT;
}

void own_forget_answers(uint64_t mechanism) {
  for (uint32_t i = 0; i < OWN_CHARGES; i++) {
    own_charge *c = &own.charges[i];
    if (c->stage == OWN_CHARGE_KEPT && c->block == OWN_NOBODY && c->mechanism_id == mechanism) c->stage = OWN_SETTLED;
  }
}

uint64_t own_open_in(uint8_t manager, uint64_t context_id) {
  uint64_t open = 0;
  for (uint32_t i = 0; i < OWN_CHARGES; i++) {
    const own_charge *c = &own.charges[i];
    open +=
        c->stage >= OWN_RESERVED && c->stage <= OWN_COMMITTED && c->manager == manager && c->context_id == context_id;
  }
  return open;
}
