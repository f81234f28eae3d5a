/*
 * model.c: what must follow from a section of the driver's calls: granules, handles, spans.
 * Attackers: an engine that loses count.
 * Promise: nothing here asks the engine; what was kept back is so by a call that failed, or because none could be made.
 */
#include <string.h>

#include "vmm.h"

/* ---- Small words ---------------------------------------------------------------------------------------------------- */

int vm_is_gone(const vm_engine *e) { return it.known[e->device] || e->shut; }
int vm_is_dead(const vm_engine *e) { return it.lost[e->device] || e->driver->shut; }

void vm_settle(void) {
  if (it.pending == NULL) return;
  if (it.pending_lost) it.known[it.pending->device] = 1;
  if (it.pending_shut) it.pending->shut = 1;
  it.pending = NULL;
}

int vm_is_captured(const vm_engine *e) { return it.captures[e->device] != 0; }

/* By the gate, or by a driver that says it of the context: nothing may have changed. Otherwise only what is gone is not called. */
int vm_is_refused_for_capture(const vm_engine *e, const vm_section *s) {
  if (s != NULL) return s->bind == NX_VMM_CAPTURING;
  if (vm_is_gone(e)) return 0;
  vm_expect(vm_is_captured(e), "memory is given back without the driver");
  return 1;
}

uint32_t vm_status_of(uint32_t outcome) {
  static const uint32_t of[] = {[NX_VMM_DONE] = NXMEM_STATUS_OK,
                                [NX_VMM_PENDING] = NXMEM_STATUS_BUSY,
                                [NX_VMM_NO_MEMORY] = NXMEM_STATUS_OUT_OF_MEMORY,
                                [NX_VMM_REFUSED] = NXMEM_STATUS_DEVICE_ERROR,
                                [NX_VMM_CAPTURING] = NXMEM_STATUS_BUSY,
                                [NX_VMM_UNBOUND] = NXMEM_STATUS_DEVICE_ERROR,
                                [NX_VMM_LOST] = NXMEM_STATUS_DEVICE_ERROR,
                                [NX_VMM_SHUT_DOWN] = NXMEM_STATUS_DEVICE_ERROR};
  return of[outcome];
}

uint64_t vm_granule_mask(uint32_t first, uint32_t count) {
  uint64_t mask = 0;
  for (uint32_t i = first; i < first + count && i < VM_GRANULES; i++) mask |= 1ull << i;
  return mask;
}

uint64_t vm_count(uint64_t mask) {
  uint64_t count = 0;
  for (; mask != 0; mask &= mask - 1u) count++;
  return count;
}

uint64_t vm_touched(const vm_engine *e, uint64_t address, uint64_t bytes) {
  const uint64_t first = (address - e->base) / e->granule, last = (address - e->base + bytes - 1u) / e->granule;
  return vm_granule_mask((uint32_t)first, (uint32_t)(last - first + 1u));
}

static uint64_t refs_but(const vm_engine *e, const vm_block *but) {
  uint64_t mask = 0;
  for (uint32_t i = 0; i < it.block_top; i++)
    if (it.blocks[i].state != VM_BLOCK_NONE && it.blocks[i].engine == e && &it.blocks[i] != but)
      mask |= it.blocks[i].refs;
  return mask;
}

/* The owner of a prefix refers to what is mapped for it. */
uint64_t vm_in_use(const vm_engine *e) { return refs_but(e, NULL) | (e->owned & ~e->poisoned); }
uint64_t vm_alone(const vm_block *b) { return b->refs & ~refs_but(b->engine, b); }

/* ---- Spans: units of 256 bytes -------------------------------------------------------------------------------------- */

static uint32_t unit_of(const vm_engine *e, uint64_t address) { return (uint32_t)((address - e->base) / VM_UNIT); }

void vm_units_set(vm_engine *e, uint64_t first, uint64_t bytes, uint8_t value) {
  memset(e->units + unit_of(e, first), value, bytes / VM_UNIT);
}

static uint64_t up(uint64_t n, uint64_t multiple) { return (n + multiple - 1u) / multiple * multiple; }

/* Is a free span as large as a block of any place in it could need? What is more aligned than a granule is looked for by whole granules. */
static int holds(const vm_engine *e, uint64_t first, uint64_t end, uint64_t bytes, uint64_t align) {
  if (align <= VM_UNIT) return end - first >= bytes;
  if (align < e->granule || bytes % e->granule != 0) return end - first >= bytes + align - VM_UNIT;
  const uint64_t low = up(first, e->granule), high = end / e->granule * e->granule;
  return high > low && high - low >= bytes + align - e->granule;
}

/* The lowest free span that surely holds a block, and where in it. The base is aligned to more than any arena is long. */
int vm_place(const vm_engine *e, uint64_t bytes, uint64_t align, uint64_t *first_out) {
  const uint32_t count = (uint32_t)(e->bytes / VM_UNIT);
  if (bytes > e->bytes || align > e->bytes) return 0;
  if (align < VM_UNIT) align = VM_UNIT;
  for (uint32_t i = 0, end; i < count; i = end + 1u) {
    for (end = i; end < count && e->units[end] == 0;) end++;
    if (end == i || !holds(e, (uint64_t)i * VM_UNIT, (uint64_t)end * VM_UNIT, bytes, align)) continue;
    *first_out = e->base + up((uint64_t)i * VM_UNIT, align);
    return 1;
  }
  return 0;
}

static void withdraw(vm_engine *e, uint64_t granules) {
  const uint32_t each = (uint32_t)(e->granule / VM_UNIT);
  for (uint32_t i = 0; i < e->granules; i++)
    for (uint32_t j = 0; (granules >> i & 1u) != 0 && j < each; j++)
      if (e->units[i * each + j] == 0) e->units[i * each + j] = 2;
}

void vm_poison(vm_engine *e, uint64_t granules) {
  e->poisoned |= granules;
  withdraw(e, granules);
}

/* A span of which something stays: what of it is not mapped for good is free again. */
void vm_keep_back(vm_engine *e, uint64_t first, uint64_t bytes) {
  e->residues++;
  vm_units_set(e, first, bytes, 0);
  withdraw(e, e->poisoned & vm_touched(e, first, bytes));
}

/* ---- Handles -------------------------------------------------------------------------------------------------------- */

/* Handles that nothing maps any more: into the pool while there is room, the others to the driver. *orphans_out: those that it would not take. */
void vm_put_handles(vm_engine *e, uint64_t count, const vm_section *s, uint64_t *orphans_out) {
  uint64_t over = 0, orphans = 0;
  for (; count != 0; count--) {
    if ((e->pool + 1u) * e->granule <= e->pool_bound)
      e->pool++;
    else
      over++;
  }
  if (s == NULL) {
    vm_expect(over == 0 || e->shut, "handles go without the driver");
  } else if (s->shut) {
    orphans = s->refused < over ? s->refused : over;
  } else if (s->lost) {
    vm_expect(s->destroyed <= over, "more handles are destroyed than went");
    orphans = over - s->destroyed;
  } else {
    vm_same("handles given to the driver", s->destroyed + s->refused, over);
    orphans = s->refused;
  }
  e->orphans += orphans;
  *orphans_out = orphans;
}

/* Of granules that had to be unmapped: those that are mapped still. */
uint64_t vm_left_mapped(const vm_engine *e, uint64_t granules, const vm_section *s) {
  if (s == NULL) return e->shut ? 0 : granules;
  if (s->bind == NX_VMM_SHUT_DOWN) return 0;
  if (s->bind != NX_VMM_DONE) return granules;
  uint64_t left = granules & ~s->unmapped;
  if (s->shut) left &= s->unmap_failed;
  vm_expect(s->lost || (left & ~s->unmap_failed) == 0, "something stays mapped that nobody tried to unmap");
  return left;
}

/* ---- Mapping -------------------------------------------------------------------------------------------------------- */

/* Why a span may not be taken; the first granule that may not says it. */
static uint32_t may_take(const vm_engine *e, uint64_t span) {
  for (uint32_t i = 0; i < e->granules; i++) {
    if ((span >> i & 1u) == 0) continue;
    if (e->poisoned >> i & 1u) return NXMEM_STATUS_DEVICE_ERROR;
    if ((e->owned | e->shared) >> i & 1u) return NXMEM_STATUS_INVALID_ARGUMENT;
  }
  return NXMEM_STATUS_OK;
}

static void take_handles(vm_engine *e, const vm_section *s) {
  const uint64_t got = s->maps + s->map_fails, pooled = got - s->creates;
  vm_expect(s->creates <= got, "a handle was made and not mapped");
  vm_expect(pooled <= e->pool, "more handles come from the pool than it has");
  if (s->creates + s->create_fails != 0) vm_same("a handle was made while the pool had one: taken", pooled, e->pool);
  e->pool -= pooled;
}

static void check_handles(const vm_engine *e, const vm_prefix *of, uint64_t span) {
  uint32_t number = 0;
  for (uint32_t i = 0; i < e->granules; i++)
    if (span >> i & 1u) vm_same("a view maps another handle", e->driver->at[i], of->at[number++]);
}

static void note(vm_engine *e, uint64_t granules, vm_map_kind kind) {
  e->mapped |= granules;
  if (kind == VM_OWNER) e->owned |= granules;
  if (kind == VM_SHARER) e->shared |= granules;
}

static void note_peak(const vm_engine *e, uint64_t more) {
  vm_totals *t = &vm_total[e->offer];
  uint64_t committed = more * e->granule;
  for (uint32_t i = 0; i < it.driver_count; i++)
    if (it.engines[i].life != VM_NONE && it.engines[i].offer == e->offer) committed += vm_committed(&it.engines[i]);
  if (committed > t->peak) t->peak = committed;
}

static void succeed(vm_engine *e, uint64_t needed, vm_map_kind kind, const vm_prefix *of, const vm_section *s) {
  const vm_driver *d = e->driver;
  vm_same("granules mapped", s->mapped & needed, needed);
  note(e, needed, kind);
  note_peak(e, 0);
  if (vm_is_dead(e)) return;
  vm_same("granules that can be read", d->readable & needed, needed);
  vm_same("granules that can be written", d->writable & needed, kind == VM_SHARER ? 0 : needed);
  if (kind == VM_SHARER) check_handles(e, of, needed);
}

static void undo(vm_engine *e, uint64_t mapped, vm_map_kind kind, const vm_section *s, vm_try *t) {
  uint64_t orphans = 0;
  const uint64_t left = vm_left_mapped(e, mapped, s);
  /* It counted as committed for a while. */
  if (kind != VM_OWNER) note_peak(e, vm_count(mapped));
  if (kind == VM_OWNER) e->owned |= left;
  if (kind == VM_SHARER) e->shared |= left;
  e->mapped |= left;
  vm_poison(e, left);
  if (kind != VM_SHARER) vm_put_handles(e, vm_count(mapped & ~left) + s->map_fails, s, &orphans);
  t->left = left;
  t->lost_granules += vm_count(left);
  t->lost_bytes += (vm_count(left) + orphans) * e->granule;
}

/* A span is taken, and what nobody refers to of it is mapped, all or nothing. `of`: whose handles a view maps. */
vm_try vm_map(vm_engine *e, uint64_t span, vm_map_kind kind, const vm_prefix *of) {
  vm_try t = {may_take(e, span), 0, 0, 0, 0};
  const uint64_t needed = span & ~vm_in_use(e);
  if (t.status == NXMEM_STATUS_OK && kind != VM_PRIVATE && needed != span) t.status = NXMEM_STATUS_INVALID_ARGUMENT;
  if (t.status != NXMEM_STATUS_OK || needed == 0) return t;
  vm_section *s = vm_section_next(e);
  if (s == NULL) {
    t.status = vm_is_gone(e) ? NXMEM_STATUS_DEVICE_ERROR : NXMEM_STATUS_BUSY;
    vm_expect(vm_is_gone(e) || vm_is_captured(e), "memory is committed without the driver");
    return t;
  }
  t.status = vm_status_of(s->bind != NX_VMM_DONE ? s->bind : s->failed);
  if (s->bind != NX_VMM_DONE) return t;
  if (kind != VM_SHARER) take_handles(e, s);
  if (kind == VM_SHARER) vm_same("handles made for a view", s->creates + s->create_fails, 0);
  if (t.status == NXMEM_STATUS_OK) {
    succeed(e, needed, kind, of, s);
    t.mapped = vm_count(needed) * e->granule;
    vm_same("handles destroyed in a commit", s->destroyed + s->refused, 0);
    vm_same("granules mapped that nobody asked for", s->mapped & ~needed, 0);
  } else {
    undo(e, s->mapped, kind, s, &t);
  }
  return t;
}

/* ---- Memory pressure ------------------------------------------------------------------------------------------------- */

static void trim(vm_engine *e) {
  if (e->pool == 0) return;
  vm_section *s = vm_section_next(e);
  if (s == NULL) {
    vm_expect(vm_is_gone(e) || vm_is_captured(e), "a pool is not emptied under pressure");
    return;
  }
  if (s->bind != NX_VMM_DONE) return;
  vm_expect(s->lost || s->shut || s->destroyed + s->refused == e->pool, "a pool is not emptied whole");
  e->orphans += s->shut ? s->refused : e->pool - s->destroyed;
  e->pool = 0;
}

/* All pools on a device go back before the host is asked, the newest allocator's first. */
void vm_trims(uint32_t device) {
  for (uint32_t i = it.driver_count; i-- != 0;) {
    vm_engine *e = &it.engines[i];
    if (e->life != VM_NONE && e->device == device) trim(e);
  }
  vm_settle();
}
