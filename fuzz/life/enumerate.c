/*
 * enumerate.c: the factories that the plugin publishes while it is loaded.
 * Attackers: counts beyond the room, entries that are NULL, twice there, nowhere, hollow, or named by hostile bytes.
 * Promise: which factories are the host's, and which it lists, is worked out here from the entries alone.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "life.h"
#include "reference_reader.h"
#include "reference_text.h"

enum { NAME_ROOM = 256, HOST_ROOM = 64, TIERS = 3 };

/* One entry of the list, as it was made and as it must be taken. */
typedef struct entry {
  NxmemAllocatorFactoryVtable table;
  uint32_t where, name_where; /* NONE: readable */
  uint32_t same_as;           /* another entry's number + 1: the same address */
  ref_table read;
  int owned, left_out;
} entry;

static const struct {
  const char *name;
  NxmemDeviceId device;
} defaults[LIFE_FACTORIES] = {{"one", {NXMEM_TIER_HOST, 0}},
                              {"two", {NXMEM_TIER_DEVICE, 1}},
                              {"one", {NXMEM_TIER_HOST, 2}},
                              {"4", {NXMEM_TIER_DISK, 0}}};

static void fill_honestly(entry *e, uint32_t i) {
  fuzz_clear(e, sizeof *e);
  e->table = life_own->factory;
  e->table.struct_size = sizeof e->table;
  e->table.abi_minor = 1;
  e->table.device = defaults[i].device;
  e->table.capability_flags = 31;
  e->table.ctx = &it.factories[i];
  it.factories[i].device = defaults[i].device;
  it.factories[i].name = calloc(1, NAME_ROOM);
  life_expect(it.factories[i].name != NULL, "harness: no memory");
  strcpy(it.factories[i].name, defaults[i].name);
}

static void spoil(entry *e, uint32_t i, const life_record *r) {
  char *name = it.factories[i].name;
  switch (r->d & 15u) {
    case 0:
      e->where = NXMEM_REASON_NULL_POINTER;
      break;
    case 1:
      e->same_as = i == 0 ? 0 : 1;
      break;
    case 2:
      e->where = NXMEM_REASON_MISALIGNED;
      break;
    case 3:
      e->where = life_is_direct() ? NXMEM_REASON_NONE : NXMEM_REASON_UNREADABLE;
      break;
    case 4:
      e->table.struct_size = r->x % 80u;
      break;
    case 5:
      e->table.open_allocator = NULL;
      break;
    case 6:
      e->table.release = NULL;
      break;
    case 7:
      e->name_where = NXMEM_REASON_NULL_POINTER;
      break;
    case 8:
      memset(name, 'x', NAME_ROOM);
      break;
    case 9:
      memcpy(name, &r->y, sizeof r->y);
      break;
    case 10:
      e->table.device.tier = r->x;
      break;
    case 11:
      e->table.device.tier = r->x;
      e->table.abi_minor = 2;
      break;
    case 12:
      e->table.device = defaults[0].device;
      strcpy(name, defaults[0].name);
      break;
    case 13:
      e->table.abi_minor = r->x;
      break;
    case 14:
      name[0] = '\0';
      break;
    default:
      e->name_where = life_is_direct() ? NXMEM_REASON_NONE : NXMEM_REASON_UNREADABLE;
      break;
  }
  it.factories[i].device = e->table.device;
}

static const void *placed(void *block, uint32_t where) {
  if (where == NXMEM_REASON_NULL_POINTER) return NULL;
  if (where == NXMEM_REASON_MISALIGNED) return (const uint8_t *)block + 4;
  return where == NXMEM_REASON_UNREADABLE ? (const void *)fuzz_unreadable() : block;
}

static const NxmemAllocatorFactoryVtable *publish(entry *e, uint32_t i) {
  e->table.name = placed(it.factories[i].name, e->name_where);
  const uint32_t there = e->table.struct_size < 8u ? 8u : e->table.struct_size;
  it.factories[i].table = fuzz_exact(&e->table, there < sizeof e->table ? there : sizeof e->table);
  return placed(it.factories[i].table, e->where);
}

/* ---- What must become of them ------------------------------------------------------------------------------------ */

typedef struct list {
  entry entries[LIFE_FACTORIES];
  const NxmemAllocatorFactoryVtable *published[LIFE_FACTORIES];
  uint32_t made;
  uint64_t count; /* as reported */
} list;

static uint32_t transferred(const list *l) { return l->count < l->made ? (uint32_t)l->count : l->made; }

static int stands_before(const list *l, uint32_t i) {
  for (uint32_t j = 0; j < i; j++)
    if (l->published[j] == l->published[i]) return 1;
  return 0;
}

static uint32_t own(list *l, uint32_t i) {
  entry *e = &l->entries[i];
  if (e->where != NXMEM_REASON_NONE) return e->where;
  ref_read(REF_FACTORY, it.factories[i].table, it.module.minor, &e->read);
  e->owned = e->read.verdict.reason == NXMEM_REASON_NONE;
  return e->read.verdict.reason;
}

static void count_unpaid(void) {
  it.unpaid++;
  it.module.unpaid++;
}

/* The reason of the first that cannot be read. */
static uint32_t own_all(list *l) {
  uint32_t first = NXMEM_REASON_NONE;
  for (uint32_t i = 0; i < transferred(l); i++) {
    if (l->published[i] == NULL || stands_before(l, i)) continue;
    const uint32_t reason = own(l, i);
    if (reason == NXMEM_REASON_NONE) continue;
    count_unpaid();
    if (first == NXMEM_REASON_NONE) first = reason;
  }
  return first;
}

static uint32_t judge_list(const list *l) {
  if (l->count > HOST_ROOM) return NXMEM_REASON_TOO_MANY;
  for (uint32_t i = 0; i < l->count; i++) {
    if (i >= l->made || l->published[i] == NULL) return NXMEM_REASON_NULL_POINTER;
    if (stands_before(l, i)) return NXMEM_REASON_LISTED_TWICE;
  }
  return NXMEM_REASON_NONE;
}

static uint32_t judge_name(const entry *e, uint32_t i) {
  uint32_t length;
  if (e->name_where != NXMEM_REASON_NONE) return e->name_where;
  return ref_name(it.factories[i].name, NAME_ROOM, &length).reason;
}

static uint64_t slot(const entry *e, size_t offset) {
  uint64_t word;
  memcpy(&word, e->read.bytes + offset, sizeof word);
  return word;
}

static int has_release(const entry *e) { return slot(e, offsetof(NxmemAllocatorFactoryVtable, release)) != 0; }

static uint32_t judge_entry(entry *e, uint32_t i) {
  const uint32_t slots = ref_validate(REF_FACTORY, e->read.bytes, 0).reason;
  const uint32_t name = slots != NXMEM_REASON_NONE ? slots : judge_name(e, i);
  if (name != NXMEM_REASON_NONE) return name;
  const int unknown = e->table.device.tier >= TIERS;
  e->left_out = unknown && e->read.declared_minor > it.module.minor;
  return unknown && !e->left_out ? NXMEM_REASON_UNKNOWN_TIER : NXMEM_REASON_NONE;
}

static uint32_t judge_entries(list *l) {
  for (uint32_t i = 0; i < transferred(l); i++) {
    if (!l->entries[i].owned) continue;
    const uint32_t reason = judge_entry(&l->entries[i], i);
    if (reason != NXMEM_REASON_NONE) return reason;
  }
  return NXMEM_REASON_NONE;
}

static int stays(const list *l, uint32_t i) { return l->entries[i].owned && !l->entries[i].left_out; }

static uint32_t judge_names(const list *l) {
  for (uint32_t i = 0; i < transferred(l); i++)
    for (uint32_t j = 0; j < i; j++)
      if (stays(l, i) && stays(l, j) && strcmp(it.factories[i].name, it.factories[j].name) == 0 &&
          memcmp(&it.factories[i].device, &it.factories[j].device, sizeof it.factories[i].device) == 0)
        return NXMEM_REASON_SAME_NAME;
  return NXMEM_REASON_NONE;
}

/* Whatever was owned is released; what has no release is a debt. */
static void owe_all(const list *l) {
  for (uint32_t i = 0; i < transferred(l); i++) {
    if (!l->entries[i].owned) continue;
    it.factories[i].owed = (uint32_t)has_release(&l->entries[i]);
  }
}

static void note_debts(const list *l) {
  for (uint32_t i = 0; i < transferred(l); i++)
    it.factories[i].debt = l->entries[i].owned && !l->entries[i].left_out && !has_release(&l->entries[i]);
}

/* They are come upon in the order of the list, between those that are released. */
void life_count_debts(uint32_t below) {
  for (uint32_t i = 0; i < below; i++) {
    if (it.factories[i].debt) count_unpaid();
    it.factories[i].debt = 0;
  }
}

void life_count_refusal(void) {
  if (it.module.refused_for == NXMEM_REASON_NONE) return;
  life_violation(it.module.refused_for);
  it.module.refused_for = NXMEM_REASON_NONE;
}

static void settle(life_frame *f, list *l) {
  const uint32_t unreadable = own_all(l);
  owe_all(l);
  uint32_t reason = judge_list(l);
  if (reason == NXMEM_REASON_NONE) reason = unreadable;
  if (reason == NXMEM_REASON_NONE) reason = judge_entries(l);
  if (reason == NXMEM_REASON_NONE) reason = judge_names(l);
  f->result = reason == NXMEM_REASON_UNREADABLE ? NXMEM_ERR_UNREADABLE_MEMORY : NXMEM_ERR_CONTRACT;
  for (uint32_t i = 0; i < LIFE_FACTORIES; i++) it.factories[i].left_out = l->entries[i].left_out;
  it.module.refused_for = reason;
  if (reason != NXMEM_REASON_NONE) {
    note_debts(l);
    return;
  }
  f->result = NXMEM_OK;
  for (uint32_t i = 0; i < transferred(l); i++)
    if (stays(l, i)) it.module.listed[it.module.factory_count++] = i;
}

/* ---- The export -------------------------------------------------------------------------------------------------- */

static int is_hostile(void) { return !it.honest && (it.header.mode & LIFE_HOSTILE_LOAD) != 0; }

static void make(list *l, const NxmemAllocatorFactoryVtable **out, const life_record *answer) {
  l->made = is_hostile() ? 1u + answer->x % (uint32_t)LIFE_FACTORIES : 3u;
  for (uint32_t i = 0; i < l->made; i++) {
    fill_honestly(&l->entries[i], i);
    const life_record r = is_hostile() ? life_take_answer() : (life_record){.c = 0};
    if (r.c >= 0x80u) spoil(&l->entries[i], i, &r);
    l->published[i] = l->entries[i].same_as != 0 ? l->published[0] : publish(&l->entries[i], i);
    out[i] = l->published[i];
  }
  l->count = is_hostile() ? life_number(answer->b, l->made, answer) : l->made;
}

NxmemStatus life_create_factories(const NxmemAllocatorFactoryVtable **out, uint64_t max, uint64_t *count_out) {
  life_frame *f = life_top();
  life_expect(f->kind == CALL_LOAD && f->drains == 1, "enumerate: not asked");
  fuzz_same_number("life, room for factories", max, HOST_ROOM);
  f->drains++;
  const life_record answer = is_hostile() ? life_take_answer() : (life_record){.a = 0};
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  list l;
  fuzz_clear(&l, sizeof l);
  it.module.factory_count = 0;
  make(&l, out, &answer);
  life_store(count_out, l.count);
  f->result = NXMEM_ERR_PLUGIN;
  if (status.code == NXMEM_STATUS_OK) settle(f, &l);
  return status;
}

void life_release_factory(void *ctx) {
  for (uint32_t i = 0; i < LIFE_FACTORIES; i++) {
    life_factory *f = &it.factories[i];
    if (ctx != f) continue;
    life_expect(f->owed == 1, "a factory is released that is not owed");
    f->owed = 0;
    if (!f->left_out) life_count_refusal();
    life_count_debts(i);
    const life_record answer = is_hostile() ? life_take_answer() : (life_record){.a = 0};
    life_nest(&answer);
    return;
  }
  life_fail("a factory is released through another's ctx");
}
