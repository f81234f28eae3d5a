/*
 * open.c: allocators opened and closed: the table that is published, and who is owed a release.
 * Attackers: tables that are nowhere, short, hollow, foreign, contradict themselves, or come from a newer plugin.
 * Promise: what must become of a table is said by the reference reader, over the bytes that were published.
 */
#include <stddef.h>
#include <string.h>

#include "kernel.h"
#include "life.h"
#include "reference_reader.h"

enum { ALL_CAPS = 31, PUBLISHED_MAX = 160 };

/* ---- What the plugin publishes ----------------------------------------------------------------------------------- */

typedef struct tables {
  NxmemAllocatorVtable allocator;
  NxmemVirtualBackingVtable backing;
  NxmemSharedMappingVtable sharing;
  uint32_t where;         /* of the allocator's: 0 readable, else a reason */
  uint32_t backing_where; /* the same of the others */
} tables;

static uint64_t default_mechanism(uint32_t factory) { return 0x700u + factory / 2u; } /* the first two share one */

static void fill_honestly(tables *t, const life_allocator *a) {
  t->allocator = life_own->allocator;
  t->allocator.struct_size = sizeof t->allocator;
  t->allocator.abi_minor = 1;
  t->allocator.mechanism_id = default_mechanism(a->factory);
  t->allocator.device = a->device;
  t->allocator.capability_flags = ALL_CAPS;
  t->allocator.name = (const uint8_t *)"life";
  t->allocator.ctx = (void *)(uintptr_t)a;
  t->backing = life_own->backing;
  t->backing.struct_size = sizeof t->backing;
  t->backing.abi_minor = 1;
  t->backing.mechanism_id = t->allocator.mechanism_id;
  t->backing.ctx = (void *)(uintptr_t)a;
  t->sharing = life_own->sharing;
  t->sharing.struct_size = sizeof t->sharing;
  t->sharing.abi_minor = 1;
  t->sharing.mechanism_id = t->allocator.mechanism_id;
  t->sharing.ctx = (void *)(uintptr_t)a;
}

/* Slot n of a table that has `count` slots from offset `first` on. */
static void clear_slot(void *table, uint32_t first, uint32_t n) { memset((uint8_t *)table + first + 8u * n, 0, 8); }

static void clear_slots(void *table, uint32_t first, uint32_t count, uint32_t mask) {
  for (uint32_t i = 0; i < count; i++)
    if (mask >> i & 1u) clear_slot(table, first, i);
}

static void spoil_place(tables *t, const life_record *answer) {
  static const uint32_t reasons[] = {NXMEM_REASON_NULL_POINTER, NXMEM_REASON_MISALIGNED, NXMEM_REASON_UNREADABLE};
  uint32_t *where = answer->d & 1u ? &t->backing_where : &t->where;
  *where = reasons[answer->x % (life_is_direct() ? 2u : 3u)];
}

static void spoil_allocator(tables *t, const life_record *answer) {
  NxmemAllocatorVtable *a = &t->allocator;
  switch (answer->d % 12u) {
    case 0:
      a->struct_size = 120;
      a->abi_minor = 0;
      a->capability_flags = answer->x & ALL_CAPS;
      break;
    case 1:
      a->struct_size = answer->x % 200u;
      break;
    case 2:
      a->abi_minor = answer->x;
      a->struct_size = PUBLISHED_MAX;
      break;
    case 3:
      a->mechanism_id = answer->y;
      break;
    case 4:
      a->device.tier = answer->x;
      break;
    case 5:
      a->device.index ^= answer->x;
      break;
    case 6:
      clear_slot(a, offsetof(NxmemAllocatorVtable, allocate), answer->x % 10u);
      break;
    case 7:
      clear_slots(a, offsetof(NxmemAllocatorVtable, allocate), 10, answer->x);
      break;
    case 8:
      a->capability_flags = answer->y;
      break;
    case 9:
      a->capability_flags = answer->x % 32u;
      break;
    case 10:
      a->struct_size = UINT32_MAX;
      break;
    default:
      a->abi_minor = 2;
      a->capability_flags |= answer->y;
      break;
  }
}

static void spoil_capabilities(tables *t, const life_record *answer) {
  const uint32_t backing_slots = offsetof(NxmemVirtualBackingVtable, allocate_committed);
  const uint32_t sharing_slots = offsetof(NxmemSharedMappingVtable, create_shared_prefix);
  switch (answer->d % 8u) {
    case 0:
      t->backing.mechanism_id = answer->y;
      break;
    case 1:
      t->sharing.mechanism_id = answer->y;
      break;
    case 2:
      t->backing.struct_size = answer->x % 80u;
      break;
    case 3:
      t->sharing.struct_size = answer->x % 80u;
      break;
    case 4:
      clear_slots(&t->backing, backing_slots, 6, answer->x);
      break;
    case 5:
      clear_slots(&t->sharing, sharing_slots, 5, answer->x);
      break;
    case 6:
      t->backing.abi_minor = answer->x;
      break;
    default:
      t->sharing.abi_minor = answer->x;
      break;
  }
}

static void fill(tables *t, const life_allocator *a, const life_record *answer) {
  fuzz_clear(t, sizeof *t);
  fill_honestly(t, a);
  if (it.honest || it.rules->honest_tables) return;
  switch (answer->c >> 4) {
    case 11:
    case 12:
      spoil_allocator(t, answer);
      break;
    case 13:
    case 14:
      spoil_capabilities(t, answer);
      break;
    case 15:
      spoil_place(t, answer);
      break;
    default:
      break;
  }
}

/* As much of it as it says there is, so that one byte more is seen. */
static void *publish(const void *table, size_t bytes, uint32_t struct_size) {
  uint8_t whole[PUBLISHED_MAX] = {0};
  memcpy(whole, table, bytes);
  const uint32_t there = struct_size > PUBLISHED_MAX ? (uint32_t)PUBLISHED_MAX : struct_size;
  return life_publish(whole, there < 8u ? 8u : there);
}

static const void *at(void *block, uint32_t where) {
  if (where == NXMEM_REASON_NULL_POINTER) return NULL;
  if (where == NXMEM_REASON_MISALIGNED) return (const uint8_t *)block + 4;
  return where == NXMEM_REASON_UNREADABLE ? (const void *)fuzz_unreadable() : block;
}

static const NxmemAllocatorVtable *publish_all(life_allocator *a, tables *t) {
  a->blocks[1] = publish(&t->backing, sizeof t->backing, t->backing.struct_size);
  a->blocks[2] = publish(&t->sharing, sizeof t->sharing, t->sharing.struct_size);
  /* A slot that the spoiling emptied stays so. */
  if (t->allocator.virtual_backing == NULL && (t->allocator.capability_flags & NXMEM_CAP_VIRTUAL_BACKING) != 0)
    t->allocator.virtual_backing = at(a->blocks[1], t->backing_where);
  if (t->allocator.shared_mapping == NULL && (t->allocator.capability_flags & NXMEM_CAP_SHARED_MAPPING) != 0)
    t->allocator.shared_mapping = a->blocks[2];
  a->blocks[0] = publish(&t->allocator, sizeof t->allocator, t->allocator.struct_size);
  return at(a->blocks[0], t->where);
}

/* ---- What must become of it -------------------------------------------------------------------------------------- */

typedef struct outcome {
  nxmem_verdict v;
  int known; /* its release */
} outcome;

static uint64_t word_at(const uint8_t *bytes, uint32_t offset) {
  uint64_t word;
  memcpy(&word, bytes + offset, sizeof word);
  return word;
}

static uint32_t slots_of(const uint8_t *table, uint32_t first, uint32_t count) {
  uint32_t slots = 0;
  for (uint32_t i = 0; i < count; i++)
    if (word_at(table, first + 8u * i) != 0) slots |= 1u << i;
  return slots;
}

static nxmem_verdict simply(uint32_t reason) { return (nxmem_verdict){reason, 0, 0, 0}; }

/* A capability's table: where it is, what it says of itself, what it offers. */
static nxmem_verdict judge_table(ref_kind kind, const life_allocator *a, const void *block, uint64_t address,
                                 uint32_t *slots) {
  ref_table t;
  if (address == 0) return simply(NXMEM_REASON_NULL_POINTER);
  if (address % 8u != 0) return simply(NXMEM_REASON_MISALIGNED);
  if (address == fuzz_unreadable()) return simply(NXMEM_REASON_UNREADABLE);
  ref_read(kind, block, a->minor, &t);
  if (t.verdict.reason != NXMEM_REASON_NONE) return t.verdict;
  *slots = slots_of(t.bytes, 24, kind == REF_BACKING ? 6 : 5);
  return ref_validate(kind, t.bytes, a->mechanism);
}

static nxmem_verdict judge_capabilities(life_allocator *a, const ref_table *t) {
  nxmem_verdict v = simply(NXMEM_REASON_NONE);
  if ((a->effective & NXMEM_CAP_VIRTUAL_BACKING) != 0)
    v = judge_table(REF_BACKING, a, a->blocks[1], word_at(t->bytes, offsetof(NxmemAllocatorVtable, virtual_backing)),
                    &a->backing);
  if (v.reason == NXMEM_REASON_NONE && (a->effective & NXMEM_CAP_SHARED_MAPPING) != 0)
    v = judge_table(REF_SHARING, a, a->blocks[2], word_at(t->bytes, offsetof(NxmemAllocatorVtable, shared_mapping)),
                    &a->sharing);
  return v;
}

static outcome judge(life_allocator *a, const tables *t, uint64_t required) {
  ref_table read;
  outcome o = {simply(t->where), 0};
  if (o.v.reason != NXMEM_REASON_NONE) return o;
  ref_read(REF_ALLOCATOR, a->blocks[0], it.module.minor, &read);
  o.v = read.verdict;
  if (o.v.reason != NXMEM_REASON_NONE) return o;
  o.known = word_at(read.bytes, offsetof(NxmemAllocatorVtable, release)) != 0;
  a->mechanism = word_at(read.bytes, offsetof(NxmemAllocatorVtable, mechanism_id));
  memcpy(&a->minor, read.bytes + 4, sizeof a->minor);
  o.v = ref_validate(REF_ALLOCATOR, read.bytes, 0);
  if (o.v.reason != NXMEM_REASON_NONE) return o;
  o.v = simply(NXMEM_REASON_OTHER_DEVICE);
  if (memcmp(read.bytes + 16, &a->device, sizeof a->device) != 0) return o;
  o.v = ref_capabilities(read.bytes, read.declared_minor, it.module.minor, it.module.caps, &a->effective);
  if (o.v.reason != NXMEM_REASON_NONE) return o;
  o.v = simply(NXMEM_REASON_REQUIRED_MISSING);
  if ((required & ~a->effective) != 0) return o;
  o.v = judge_capabilities(a, &read);
  return o;
}

static nxmem_result result_of(uint32_t reason) {
  if (reason == NXMEM_REASON_NONE) return NXMEM_OK;
  if (reason == NXMEM_REASON_UNREADABLE) return NXMEM_ERR_UNREADABLE_MEMORY;
  return reason == NXMEM_REASON_REQUIRED_MISSING ? NXMEM_ERR_UNSUPPORTED_CAPABILITY : NXMEM_ERR_CONTRACT;
}

static void settle(life_frame *f, const tables *t) {
  life_allocator *a = f->a;
  const outcome o = judge(a, t, f->required);
  f->result = result_of(o.v.reason);
  a->releases_owed = o.known;
  if (o.v.reason == NXMEM_REASON_NONE) return;
  if (o.v.reason != NXMEM_REASON_REQUIRED_MISSING) life_violation(o.v.reason);
  if (o.known) return;
  it.unpaid++;
  it.module.unpaid++;
}

NxmemStatus life_open_allocator(void *ctx, const NxmemOpenRequest *request, const NxmemAllocatorVtable **out) {
  life_frame *f = life_top();
  life_allocator *a = f->a;
  life_expect(f->kind == CALL_OPEN && f->calls++ == 0, "open: not asked");
  life_expect(ctx == &it.factories[f->factory], "open: another factory");
  life_expect(request->struct_size == sizeof *request && request->abi_minor == it.module.minor, "open: header");
  life_expect(memcmp(&request->device, &a->device, sizeof a->device) == 0, "open: device");
  life_expect(request->required_capability_flags == (f->required | NXMEM_CAP_ALLOCATOR), "open: required");
  a->gate = GATE_OPENING;
  a->callbacks = request->callbacks;
  a->context = request->callbacks->host_ctx;
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  tables t;
  fill(&t, a, &answer);
  *out = publish_all(a, &t);
  f->result = NXMEM_ERR_PLUGIN;
  if (status.code == NXMEM_STATUS_OK) settle(f, &t);
  return status;
}

static void free_tables(life_allocator *a) {
  for (uint32_t i = 0; i < sizeof a->blocks / sizeof a->blocks[0]; i++) {
    life_withdraw(a->blocks[i]);
    a->blocks[i] = NULL;
  }
}

void life_retain_allocator(void *ctx) {
  (void)ctx;
  life_fail("retain: the host never takes a second reference");
}

/* ---- The caller -------------------------------------------------------------------------------------------------- */

static int names_factory(uint32_t listed, const char *name, const NxmemDeviceId *device) {
  const life_factory *f = &it.factories[listed];
  return strcmp(f->name, name) == 0 &&
         (device == NULL || (f->device.tier == device->tier && f->device.index == device->index));
}

/* How many mechanisms are meant; *which is the last of them, *place where it stands in the host's list. */
static uint32_t count_named(const char *name, const NxmemDeviceId *device, uint32_t *which, uint32_t *place) {
  uint32_t hits = 0;
  for (uint32_t i = 0; i < it.module.factory_count; i++) {
    if (!names_factory(it.module.listed[i], name, device)) continue;
    *which = it.module.listed[i];
    *place = i;
    hits++;
  }
  return hits;
}

/* A call through a plugin handle. */
static nxmem_result enter_plugin(uint32_t which) {
  if (!it.plugin_open[which]) return NXMEM_ERR_STALE_HANDLE;
  return it.module.state == MODULE_LIVE ? NXMEM_OK : NXMEM_ERR_BUSY;
}

static nxmem_result expect_open(uint32_t which, const nxmem_open_options *o, life_frame *f) {
  uint32_t place = 0;
  if ((o->required_capability_flags & ~31ull) != 0) return NXMEM_ERR_INVALID_ARGUMENT;
  const nxmem_result entered = enter_plugin(which);
  if (entered != NXMEM_OK) return entered;
  if (count_named(o->mechanism, o->device, &f->factory, &place) != 1) return NXMEM_ERR_UNKNOWN_MECHANISM;
  f->a->device = it.factories[f->factory].device;
  f->a->factory = place;
  return NXMEM_OK;
}

static nxmem_open_options options_for(const life_record *op, NxmemDeviceId *device) {
  nxmem_open_options o = {.mechanism = "none"};
  const life_module *m = &it.module;
  if (m->factory_count != 0 && (op->b & 0xF0u) != 0xF0u) {
    const life_factory *f = &it.factories[m->listed[op->b % m->factory_count]];
    o.mechanism = f->name;
    *device = f->device;
    if ((op->b & 0x70u) != 0x70u) o.device = device;
  }
  if ((op->c & 0xC0u) == 0xC0u) o.required_capability_flags = op->c & 0x20u ? op->y : op->x & 31u;
  if (op->d & 1u) o.pins = &life_pins;
  return o;
}

static void conclude(life_frame *f, nxmem_result found, const nxmem_open_options *o) {
  life_allocator *a = f->a;
  if (found == NXMEM_OK) {
    a->gate = GATE_OPEN;
    a->pinned = o->pins != NULL;
    return;
  }
  life_expect(a->releases_owed == 0, "open: refused, and what was opened is not released");
  a->gate = GATE_GONE;
  free_tables(a);
}

void life_op_open(const life_record *op) {
  life_allocator *a = &it.allocators[op->a % LIFE_ALLOCATORS];
  const uint32_t which = op->a >> 7;
  NxmemDeviceId device = {0, 0};
  if (a->gate != GATE_NONE && a->gate != GATE_GONE) return;
  const nxmem_allocator stale = a->handle;
  fuzz_clear(a, sizeof *a);
  const nxmem_open_options o = options_for(op, &device);
  life_frame *f = life_push(CALL_OPEN);
  f->a = a;
  f->required = o.required_capability_flags;
  f->result = expect_open(which, &o, f);
  const int asked = f->result == NXMEM_OK;
  a->gate = GATE_GONE;
  it.module.inside += (uint64_t)asked;
  const nxmem_result found = nxmem_allocator_open(it.plugins[which], &o, &a->handle, NULL);
  it.module.inside -= (uint64_t)asked;
  life_expect((f->calls == 1) == asked, "open: the plugin was asked, or was not, wrongly");
  life_same_result("open", found, f->result);
  conclude(f, found, &o);
  if (found != NXMEM_OK) a->handle = stale;
  life_pop();
}

/* ---- Closing ----------------------------------------------------------------------------------------------------- */

void life_release_allocator(void *ctx) {
  life_frame *f = life_top();
  life_allocator *a = life_allocator_of_ctx(ctx);
  life_expect((f->kind == CALL_CLOSE || f->kind == CALL_OPEN) && f->a == a && a->releases_owed == 1,
              "release of an allocator that is not owed");
  a->releases_owed = 0;
  if (f->kind == CALL_CLOSE) {
    life_expect(a->live == 0 && life_prefixes_of(a) == 0, "close: released with something live");
    life_expect(f->drains >= 16 || a->queued == 0 || (f->drains != 0 && a->queued >= f->before),
                "close: released before it was drained");
    a->closed = 1;
  }
  const life_record answer = life_take_answer();
  life_nest(&answer);
  free_tables(a);
}

/* Records that only the allocator kept. */
static void forget_quarantined(const life_allocator *a) {
  for (uint32_t i = 0; i < LIFE_BLOCKS; i++) {
    life_block *b = &it.blocks[i];
    if (b->state != BLOCK_QUARANTINED || life_owner(b) != a) continue;
    if (b->indexed) life_keep(b);
    b->indexed = 0;
    b->state = BLOCK_GONE;
  }
  for (uint32_t i = 0; i < LIFE_PREFIXES; i++) {
    life_prefix *p = &it.prefixes[i];
    if (p->state != PREFIX_QUARANTINED || &it.allocators[p->owner] != a) continue;
    p->state = PREFIX_GONE;
    life_leave_bytes(p->own, 0);
  }
}

static nxmem_result close_claimed(life_allocator *a, life_frame *f, uint32_t flags) {
  a->gate = GATE_CLOSING;
  f->handing_back = (flags & NXMEM_CLOSE_RELEASE_LIVE) != 0;
  const int holds = a->live != 0 || life_prefixes_of(a) != 0;
  const nxmem_result found = nxmem_allocator_close(a->handle, flags, NULL);
  if (found == NXMEM_OK) {
    life_expect(a->releases_owed == 0, "close: not released");
    forget_quarantined(a);
    a->gate = GATE_HELD;
    life_settle_share(a);
    return found;
  }
  life_same_result("close", found, NXMEM_ERR_BUSY);
  life_expect(a->releases_owed == 1, "close: released, and refused");
  life_expect(a->live != 0 || life_prefixes_of(a) != 0, "close: refused with nothing live");
  life_expect(f->handing_back || f->drains != 0 || holds, "close: refused for what came later");
  life_expect(!f->handing_back || f->nested != 0, "close: what is live was not handed back");
  a->gate = GATE_OPEN;
  a->closed = 0;
  return found;
}

nxmem_result life_close(life_allocator *a, uint32_t flags) {
  life_frame *f = life_push(CALL_CLOSE);
  f->a = a;
  nxmem_result expected = NXMEM_OK;
  if ((flags & ~1u) != 0) {
    expected = NXMEM_ERR_INVALID_ARGUMENT;
  } else if (a->gate == GATE_CLOSING) {
    expected = NXMEM_ERR_BUSY;
  } else if (a->gate != GATE_OPEN && a->gate != GATE_WAITING) {
    expected = NXMEM_ERR_STALE_HANDLE;
  } else if (a->inside != 0) {
    expected = NXMEM_ERR_BUSY;
    a->gate = GATE_WAITING;
  }
  nxmem_result found = expected;
  if (expected == NXMEM_OK) {
    found = close_claimed(a, f, flags);
  } else {
    life_same_result("close", nxmem_allocator_close(a->handle, flags, NULL), expected);
    life_expect(f->calls == 0 && f->drains == 0, "close: refused, and the plugin was asked");
  }
  life_pop();
  return found;
}

void life_op_close(const life_record *op) {
  const uint32_t flags = op->b < 0xF0u ? op->b & 1u : op->x;
  (void)life_close(&it.allocators[op->a % LIFE_ALLOCATORS], flags);
}
