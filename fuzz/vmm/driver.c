/*
 * driver.c: a driver on real pages that keeps books of its own, holds the engine to the driver's rules, and fails on the input's schedule.
 * Attackers: the schedule: any call fails, once or for good, in every way that driver.h has.
 * Promise: after any answer but DONE, LOST and SHUT_DOWN nothing has changed; a call that no driver may be given is a finding at once.
 */
#include <string.h>

#include "vmm.h"

static const char *const names[VM_CALLS] = {"open",       "describe", "bind",       "unbind",   "reserve",
                                            "unreserve",  "create",   "destroy",    "map",      "unmap",
                                            "set_access", "mark",     "mark_state", "drop_mark"};

static nx_vmm_answer answer(vm_call call, uint32_t outcome) {
  if (outcome == NX_VMM_DONE) return (nx_vmm_answer){NX_VMM_DONE, 0, NULL, NULL};
  return (nx_vmm_answer){outcome, 1000 + (int32_t)outcome, names[call], "SCHEDULED"};
}

/* ---- The schedule --------------------------------------------------------------------------------------------------- */

/* Of several rules that are due the first wins; each counts its calls. */
static uint32_t due(vm_call call, uint8_t *odd) {
  uint32_t outcome = NX_VMM_DONE;
  if (it.honest) return outcome;
  for (uint32_t i = 0; i < VM_RULES; i++) {
    vm_rule *r = &it.rules[i];
    if (r->left == 0 || r->call != call) continue;
    if (r->left > 1) {
      r->left--;
      continue;
    }
    if (--r->times == 0) r->left = 0;
    if (outcome != NX_VMM_DONE) continue;
    outcome = r->outcome;
    if (odd != NULL) *odd = r->odd;
  }
  return outcome;
}

/* ---- Sections ------------------------------------------------------------------------------------------------------- */

static vm_section *now(vm_driver *d) { return &d->sections[d->section_count - 1u]; }

static void begin_section(vm_driver *d, uint32_t outcome) {
  vm_expect(d->section_count < VM_SECTIONS, "harness: too many sections");
  d->section_count++;
  memset(now(d), 0, sizeof *now(d));
  now(d)->bind = outcome;
}

vm_section *vm_section_next(vm_engine *e) {
  vm_driver *d = e->driver;
  vm_settle();
  if (d->section_next == d->section_count) return NULL;
  const vm_section *s = &d->sections[d->section_next];
  it.pending = e;
  it.pending_lost = s->lost || s->end_lost;
  it.pending_shut = s->shut || s->end_shut;
  return &d->sections[d->section_next++];
}

void vm_sections_done(void) {
  for (uint32_t i = 0; i < it.driver_count; i++) {
    vm_driver *d = &it.drivers[i];
    vm_same("the driver was called for nothing: sections read", d->section_next, d->section_count);
    d->section_count = d->section_next = 0;
  }
}

/* ---- What every call must keep to ----------------------------------------------------------------------------------- */

void vm_driver_forget(vm_driver *d) {
  if (d->bytes != 0 && d->base == vm_pages_base(d->slot)) (void)vm_pages_unmap(d->base, VM_ARENA_BYTES);
  memset(d->handles, 0, sizeof d->handles);
  memset(d->marks, 0, sizeof d->marks);
  d->bytes = d->mapped = d->writable = d->readable = 0;
  d->handle_count = d->mapped_count = d->marks_open = 0;
}

static void lose(const vm_driver *d) {
  if (!it.lost[d->device]) vm_total[d->offer].lost = 1;
  it.lost[d->device] = 1;
}

static uint32_t noted(vm_driver *d, uint32_t outcome, int ends) {
  if (outcome == NX_VMM_LOST) {
    lose(d);
    *(ends ? &now(d)->end_lost : &now(d)->lost) = 1;
  }
  if (outcome != NX_VMM_SHUT_DOWN) return outcome;
  d->shut = 1;
  *(ends ? &now(d)->end_shut : &now(d)->shut) = 1;
  vm_driver_forget(d);
  return outcome;
}

static void may_be_called(const vm_driver *d, vm_call call) {
  if (!d->open) vm_fail(names[call], 0, 1);
  if (it.lost[d->device]) vm_fail("a call on a lost device", call, 0);
  if (d->shut) vm_fail("a call of a driver that has shut down", call, 0);
  if (it.captures[d->device] != 0) vm_fail("a call during a capture", call, 0);
  if (call != CALL_BIND && !d->bound) vm_fail("a call without the context", call, 0);
  /* The model has read all of it. */
  if (call != CALL_BIND && d->section_count == 0) vm_fail("a context left current by an earlier call", call, 0);
}

static uint32_t enter(vm_driver *d, vm_call call) {
  may_be_called(d, call);
  return due(call, NULL);
}

static nx_vmm_answer leave(vm_driver *d, vm_call call, uint32_t outcome) { return answer(call, noted(d, outcome, 0)); }

/* ---- Device and context --------------------------------------------------------------------------------------------- */

static nx_vmm_answer describe(void *self, nx_vmm_device *out) {
  static const uint8_t shifts[] = {12, 12, 13, 14, 16, 12, 15, 14};
  vm_driver *d = self;
  const uint32_t outcome = it.lose_now ? (uint32_t)NX_VMM_LOST : enter(d, CALL_DESCRIBE);
  d->describe_outcome = outcome;
  if (outcome != NX_VMM_DONE) return leave(d, CALL_DESCRIBE, outcome);
  const uint8_t shift = shifts[it.header.granule & 7u], way = it.header.granule >> 3 & 3u;
  const uint64_t granule = 1ull << shift;
  *out = (nx_vmm_device){granule, granule, 0};
  if (way == 1u && shift > 12u) out->granularity_minimum = granule / 2u;
  if (way == 2u) out->granularity_recommended = granule / 2u; /* no multiple: the minimum counts */
  if (way == 3u) out->granularity_recommended = 1ull << 41;   /* more than is taken */
  if (it.header.flags & VM_RAW_GRANULE) out->granularity_minimum = it.header.raw;
  if (it.header.flags & VM_RAW_RECOMMENDED) out->granularity_recommended = out->memory_bytes = it.header.raw;
  d->said = *out;
  return answer(CALL_DESCRIBE, NX_VMM_DONE);
}

static nx_vmm_answer bind_context(void *self) {
  vm_driver *d = self;
  const uint32_t outcome = enter(d, CALL_BIND);
  if (d->bound) vm_fail("bind twice", 1, 0);
  begin_section(d, outcome);
  if (outcome == NX_VMM_UNBOUND) vm_total[d->offer].binds_failed++;
  d->bound = outcome == NX_VMM_DONE;
  return leave(d, CALL_BIND, outcome);
}

static nx_vmm_answer unbind_context(void *self) {
  vm_driver *d = self;
  if (!d->bound) vm_fail("unbind without bind", 0, 1);
  if (d->section_count == 0) vm_fail("a context left current by an earlier call", CALL_UNBIND, 0);
  d->bound = 0;
  const uint32_t outcome = it.lost[d->device] || d->shut ? (uint32_t)NX_VMM_DONE : due(CALL_UNBIND, NULL);
  if (outcome == NX_VMM_UNBOUND) vm_total[d->offer].binds_failed++;
  return answer(CALL_UNBIND, noted(d, outcome, 1));
}

/* ---- Address space -------------------------------------------------------------------------------------------------- */

/* What the pages here can stand for. */
static int can_be_had(uint64_t bytes, uint64_t granule) {
  return granule >= 4096u && (granule & (granule - 1u)) == 0 && bytes != 0 && bytes <= VM_ARENA_BYTES &&
         bytes % granule == 0 && bytes / granule <= VM_GRANULES &&
         bytes <= (uint64_t)VM_ARENA_BYTES >> (it.header.refused & 7u);
}

/* The first rung is 64 times the device's memory, or more; each further one half of the one before. */
static uint64_t next_rung(const vm_driver *d, uint64_t granule) {
  const nx_vmm_offer *offer = &vm_offers[d->offer];
  const uint64_t least = offer->ladder_minimum_bytes / granule * granule;
  uint64_t most = d->rung / 2u;
  if (d->rung == 0) {
    most = d->said.memory_bytes > ~0ull / 64u ? ~0ull : d->said.memory_bytes * 64u;
    if (most < offer->ladder_floor_bytes) most = offer->ladder_floor_bytes;
  }
  return most / granule * granule > least ? most / granule * granule : least;
}

static nx_vmm_answer reserve(void *self, uint64_t bytes, uint64_t align, uint64_t *address_out) {
  vm_driver *d = self;
  uint8_t odd = 0;
  may_be_called(d, CALL_RESERVE);
  uint32_t outcome = due(CALL_RESERVE, &odd);
  now(d)->reserves++;
  vm_same("a rung of the ladder", bytes, next_rung(d, align));
  d->rung = bytes;
  if (d->bytes != 0) vm_fail("a second reservation", d->bytes, 0);
  if (outcome == NX_VMM_DONE && !can_be_had(bytes, align)) outcome = NX_VMM_NO_MEMORY;
  if (outcome != NX_VMM_DONE && outcome <= NX_VMM_SHUT_DOWN) return leave(d, CALL_RESERVE, outcome);
  const uint64_t base = vm_pages_base(d->slot);
  const uint64_t addresses[] = {base, 0, base + VM_UNIT, ~(align - 1u)};
  d->base = addresses[outcome == NX_VMM_DONE ? 0 : 1u + odd % 3u];
  d->bytes = d->reserved = bytes;
  d->granule = align;
  *address_out = d->base;
  return answer(CALL_RESERVE, NX_VMM_DONE);
}

static nx_vmm_answer unreserve(void *self, uint64_t address, uint64_t bytes) {
  vm_driver *d = self;
  const uint32_t outcome = enter(d, CALL_UNRESERVE);
  now(d)->unreserves++;
  if (d->bytes == 0 || address != d->base) vm_fail("unreserve of another address", address, d->base);
  vm_same("unreserve of another size", bytes, d->bytes);
  vm_same("unreserve with mappings", d->mapped, 0);
  now(d)->unreserve_fails += outcome != NX_VMM_DONE;
  if (outcome != NX_VMM_DONE) return leave(d, CALL_UNRESERVE, outcome);
  d->bytes = 0;
  return answer(CALL_UNRESERVE, NX_VMM_DONE);
}

/* ---- Handles: their numbers begin with 0 ----------------------------------------------------------------------------- */

static uint64_t number_of(const vm_driver *d, uint32_t index) { return (uint64_t)d->slot << 32 | index; }

static vm_handle *handle_of(vm_driver *d, uint64_t number, const char *what) {
  const uint64_t index = number - number_of(d, 0);
  if (index >= VM_HANDLES || !d->handles[index].exists) vm_fail(what, number, 0);
  return &d->handles[index];
}

uint32_t vm_idle_handles(const vm_driver *d) {
  uint32_t idle = 0;
  for (uint32_t i = 0; i < VM_HANDLES; i++) idle += d->handles[i].exists && d->handles[i].mapped == 0;
  return idle;
}

static void failed(vm_driver *d, uint32_t outcome) {
  if (outcome != NX_VMM_DONE && now(d)->failed == NX_VMM_DONE) now(d)->failed = outcome;
}

static nx_vmm_answer create(void *self, uint64_t bytes, uint64_t *handle_out) {
  vm_driver *d = self;
  uint32_t outcome = enter(d, CALL_CREATE), index = 0;
  vm_same("a handle that is no granule", bytes, d->granule);
  while (index < VM_HANDLES && d->handles[index].exists) index++;
  if (index == VM_HANDLES && outcome == NX_VMM_DONE) outcome = NX_VMM_NO_MEMORY;
  failed(d, outcome);
  now(d)->create_fails += outcome != NX_VMM_DONE;
  if (outcome != NX_VMM_DONE) return leave(d, CALL_CREATE, outcome);
  now(d)->creates++;
  d->handles[index] = (vm_handle){1, 0, 0};
  d->handle_count++;
  *handle_out = number_of(d, index);
  return answer(CALL_CREATE, NX_VMM_DONE);
}

static nx_vmm_answer destroy(void *self, uint64_t number) {
  vm_driver *d = self;
  const uint32_t outcome = enter(d, CALL_DESTROY);
  vm_handle *h = handle_of(d, number, "destroy of what is no handle");
  vm_same("destroy of a handle that is mapped", h->mapped, 0);
  now(d)->destroyed += outcome == NX_VMM_DONE;
  now(d)->refused += outcome != NX_VMM_DONE && outcome != NX_VMM_SHUT_DOWN;
  h->refused = 1;
  if (outcome != NX_VMM_DONE) return leave(d, CALL_DESTROY, outcome);
  h->exists = 0;
  d->handle_count--;
  return answer(CALL_DESTROY, NX_VMM_DONE);
}

/* ---- Mappings ------------------------------------------------------------------------------------------------------- */

static uint64_t granules_at(const vm_driver *d, uint64_t address, uint64_t bytes, const char *what) {
  const uint64_t offset = address - d->base;
  if (d->bytes == 0 || bytes == 0 || offset % d->granule != 0 || bytes % d->granule != 0 || offset >= d->bytes ||
      bytes > d->bytes - offset)
    vm_fail(what, address, bytes);
  return vm_granule_mask((uint32_t)(offset / d->granule), (uint32_t)(bytes / d->granule));
}

static nx_vmm_answer map(void *self, uint64_t address, uint64_t bytes, uint64_t number) {
  vm_driver *d = self;
  uint32_t outcome = enter(d, CALL_MAP);
  const uint64_t granule = granules_at(d, address, bytes, "map of no granule");
  vm_same("map of more than a handle", bytes, d->granule);
  vm_same("map over a mapping", d->mapped & granule, 0);
  vm_handle *h = handle_of(d, number, "map of what is no handle");
  vm_same("map of a handle that was given back", h->refused, 0);
  if (outcome == NX_VMM_DONE && !vm_pages_map(d->slot, address, bytes, number & 0xFFFFFFFFu))
    outcome = NX_VMM_NO_MEMORY;
  failed(d, outcome);
  now(d)->map_fails += outcome != NX_VMM_DONE;
  if (outcome != NX_VMM_DONE) return leave(d, CALL_MAP, outcome);
  now(d)->maps++;
  now(d)->mapped |= granule;
  if (!it.probing) vm_total[d->offer].maps++;
  d->mapped |= granule;
  d->at[(address - d->base) / d->granule] = (uint16_t)number;
  d->mapped_count++;
  h->mapped++;
  return answer(CALL_MAP, NX_VMM_DONE);
}

static nx_vmm_answer unmap(void *self, uint64_t address, uint64_t bytes) {
  vm_driver *d = self;
  const uint32_t outcome = enter(d, CALL_UNMAP);
  const uint64_t granules = granules_at(d, address, bytes, "unmap of no granules");
  vm_same("unmap of what is not mapped", granules & ~d->mapped, 0);
  if (outcome != NX_VMM_DONE && outcome != NX_VMM_SHUT_DOWN) now(d)->unmap_failed |= granules;
  if (outcome == NX_VMM_SHUT_DOWN) now(d)->unmapped |= granules;
  if (outcome != NX_VMM_DONE) return leave(d, CALL_UNMAP, outcome);
  vm_expect(vm_pages_unmap(address, bytes), "harness: pages cannot be unmapped");
  now(d)->unmapped |= granules;
  if (!it.probing) vm_total[d->offer].unmaps += vm_count(granules);
  for (uint32_t i = 0; i < VM_GRANULES; i++)
    if (granules >> i & 1u) d->handles[d->at[i]].mapped--;
  d->mapped &= ~granules;
  d->readable &= ~granules;
  d->writable &= ~granules;
  d->mapped_count -= (uint32_t)vm_count(granules);
  return answer(CALL_UNMAP, NX_VMM_DONE);
}

static nx_vmm_answer set_access(void *self, uint64_t address, uint64_t bytes, nx_vmm_access access) {
  vm_driver *d = self;
  const uint32_t outcome = enter(d, CALL_ACCESS);
  const uint64_t granules = granules_at(d, address, bytes, "access to no granules");
  vm_same("access to what is not mapped", granules & ~d->mapped, 0);
  vm_expect(access == NX_VMM_READ_ONLY || access == NX_VMM_READ_WRITE, "access of an unknown kind");
  for (uint32_t i = 0; access == NX_VMM_READ_WRITE && i < VM_GRANULES; i++)
    if (granules >> i & 1u) vm_same("two mappings, one of them to be written", d->handles[d->at[i]].mapped, 1);
  failed(d, outcome);
  if (outcome != NX_VMM_DONE) return leave(d, CALL_ACCESS, outcome);
  vm_expect(vm_pages_access(address, bytes, access == NX_VMM_READ_WRITE), "harness: no access to pages");
  *(access == NX_VMM_READ_WRITE ? &now(d)->writable : &now(d)->readable) += 1u;
  d->readable |= granules;
  d->writable = access == NX_VMM_READ_WRITE ? d->writable | granules : d->writable & ~granules;
  return answer(CALL_ACCESS, NX_VMM_DONE);
}

/* ---- Marks ---------------------------------------------------------------------------------------------------------- */

static nx_vmm_answer mark(void *self, uint64_t *mark_out) {
  vm_driver *d = self;
  uint32_t outcome = enter(d, CALL_MARK);
  if (outcome == NX_VMM_DONE && d->mark_count == VM_MARKS) outcome = NX_VMM_NO_MEMORY;
  now(d)->marks++;
  now(d)->mark_outcome = outcome;
  if (outcome != NX_VMM_DONE) return leave(d, CALL_MARK, outcome);
  d->marks[d->mark_count] = it.header.flags & VM_MARKS_PASS ? 2 : 1;
  *mark_out = d->mark_count++;
  d->marks_open++;
  return answer(CALL_MARK, NX_VMM_DONE);
}

static uint8_t *mark_of(vm_driver *d, uint64_t made, const char *what) {
  if (made >= d->mark_count || d->marks[made] == 0 || d->marks[made] == 3) vm_fail(what, made, d->mark_count);
  return &d->marks[made];
}

/*
 * A queued release's event that failed is the device's loss. One that was made in the section in which it is looked at stands behind no work: the probe's, or that
 * of an end that asks whether the device is lost.
 */
static nx_vmm_answer mark_state(void *self, uint64_t made) {
  vm_driver *d = self;
  uint32_t outcome = enter(d, CALL_STATE);
  const uint8_t *m = mark_of(d, made, "the state of what is no mark");
  if (outcome == NX_VMM_DONE && *m == 1 && !it.honest) outcome = NX_VMM_PENDING;
  now(d)->states++;
  now(d)->state_outcome = outcome;
  if (now(d)->marks == 0 && (outcome == NX_VMM_NO_MEMORY || outcome == NX_VMM_REFUSED)) {
    lose(d);
    now(d)->lost = 1;
  }
  return leave(d, CALL_STATE, outcome);
}

static nx_vmm_answer drop_mark(void *self, uint64_t made) {
  vm_driver *d = self;
  const uint32_t outcome = enter(d, CALL_DROP);
  uint8_t *m = mark_of(d, made, "dropping what is no mark");
  now(d)->drops++;
  now(d)->drop_fails += outcome != NX_VMM_DONE;
  now(d)->drop_lost += outcome == NX_VMM_LOST || outcome == NX_VMM_SHUT_DOWN;
  if (outcome != NX_VMM_DONE) return leave(d, CALL_DROP, outcome);
  *m = 3;
  d->marks_open--;
  return answer(CALL_DROP, NX_VMM_DONE);
}

/* ---- Opening -------------------------------------------------------------------------------------------------------- */

static void close_driver(void *self) {
  vm_driver *d = self;
  if (it.lost[d->device] || d->shut) vm_fail("close of what is gone", d->shut, 0);
  vm_expect(d->open && !d->bound, "close of a driver that is bound or closed");
  vm_same("close with a reservation", d->bytes, 0);
  vm_same("close with handles", d->handle_count, 0);
  vm_same("close with marks", d->marks_open, 0);
  d->open = 0;
  d->closed = 1;
}

uint32_t vm_device_of(uint32_t offer) { return offer == 2u; }

static nx_vmm_answer open_driver(const nx_vmm_offer *offer, nx_vmm_driver *out, int *unsupported_out, char why[200]) {
  const uint32_t which = (uint32_t)(offer - vm_offers);
  uint8_t odd = 0;
  const uint32_t outcome = it.open_outcome = due(CALL_OPEN, &odd);
  if (it.lost[vm_device_of(which)]) vm_fail("a lost device is opened", which, 0);
  memcpy(why, "scheduled", 10);
  it.open_unsupported = *unsupported_out = outcome != NX_VMM_DONE && (odd & 1);
  if (outcome != NX_VMM_DONE) return answer(CALL_OPEN, outcome);
  vm_expect(it.driver_count < VM_SLOTS, "harness: too many drivers");
  vm_driver *d = &it.drivers[it.driver_count];
  memset(d, 0, sizeof *d);
  d->open = 1;
  d->offer = which;
  d->device = vm_device_of(which);
  d->slot = it.driver_count++;
  *out = (nx_vmm_driver){d,   describe, bind_context, unbind_context, reserve,    unreserve, create,      destroy,
                         map, unmap,    set_access,   mark,           mark_state, drop_mark, close_driver};
  return answer(CALL_OPEN, NX_VMM_DONE);
}

/* Two mechanisms on one device, and one of them on another. */
nx_vmm_offer vm_offers[VM_OFFERS] = {
    {.name = "fuzz", .mechanism_id = 0xF022, .tier = NXMEM_TIER_DEVICE, .index = 0, .open = open_driver},
    {.name = "fuzz-too", .mechanism_id = 0xF023, .tier = NXMEM_TIER_DEVICE, .index = 0, .open = open_driver},
    {.name = "fuzz", .mechanism_id = 0xF022, .tier = NXMEM_TIER_DEVICE, .index = 1, .open = open_driver}};

uint32_t nx_vmm_offers(const nx_vmm_offer **out) {
  *out = vm_offers;
  return VM_OFFERS;
}
