/*
 * books.c: the model's rules: totals, addresses, refunds, quarantine, claims.
 * Attackers: whatever numbers the input makes the plugin say.
 * Promise: written from the headers' prose; nothing of the host or the core is called.
 */
#include <inttypes.h>
#include <string.h>

#include "life.h"

/* The reasons that the model gives, by their numbers in nxmem/verdict.h. */
#include "nxmem/verdict.h"

life_range life_kept[LIFE_KEPT];

void life_fail(const char *what) { fuzz_fail("life", "%s", what); }

void life_expect(int holds, const char *what) {
  if (!holds) life_fail(what);
}

void life_violation(uint32_t reason) {
  it.violations++;
  it.last_reason = reason;
}

life_allocator *life_owner(const life_block *b) { return &it.allocators[b->owner]; }

life_allocator *life_allocator_of_ctx(void *ctx) {
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++)
    if (ctx == &it.allocators[i]) return &it.allocators[i];
  life_fail("a slot was given another table's ctx");
}

life_block *life_block_of(uint64_t id) {
  for (uint32_t i = 0; i < LIFE_BLOCKS; i++)
    if (it.blocks[i].id == id && it.blocks[i].state != BLOCK_NONE) return &it.blocks[i];
  return NULL;
}

uint64_t life_prefixes_of(const life_allocator *a) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < LIFE_PREFIXES; i++)
    n += it.prefixes[i].state == PREFIX_LIVE && &it.allocators[it.prefixes[i].owner] == a;
  return n;
}

/* ---- Addresses --------------------------------------------------------------------------------------------------- */

static int meet(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return a <= b + (b_bytes - 1u) && b <= a + (a_bytes - 1u);
}

int life_is_taken(const life_allocator *a, uint64_t first, uint64_t bytes) {
  for (uint32_t i = 0; i < LIFE_BLOCKS; i++) {
    const life_block *b = &it.blocks[i];
    if (b->indexed && life_owner(b)->factory == a->factory && meet(first, bytes, b->address, b->bytes)) return 1;
  }
  for (uint32_t i = 0; i < it.kept_count; i++)
    if (life_kept[i].factory == a->factory && meet(first, bytes, life_kept[i].first, life_kept[i].bytes)) return 1;
  return 0;
}

int life_index(life_block *b) {
  if ((it.header.mode & LIFE_TRUSTED) != 0 || b->indexed) return 1;
  if (life_is_taken(life_owner(b), b->address, b->bytes)) return 0;
  b->indexed = 1;
  return 1;
}

static void keep(const life_block *b) {
  life_expect(it.kept_count < LIFE_KEPT, "harness: too many kept addresses");
  life_kept[it.kept_count++] = (life_range){life_owner(b)->factory, b->address, b->bytes};
}

/* Of a record that goes though the plugin keeps its address. */
void life_keep(const life_block *b) {
  if ((it.header.mode & LIFE_TRUSTED) != 0) return;
  if (b->indexed) {
    keep(b);
    return;
  }
  const int whole = b->address != 0 && b->bytes <= UINT64_MAX - b->address;
  if (whole && !life_is_taken(life_owner(b), b->address, b->bytes)) keep(b);
}

/* ---- Totals ------------------------------------------------------------------------------------------------------ */

int life_move(life_block *b, uint64_t owned, uint64_t mapped) {
  life_allocator *a = life_owner(b);
  const uint64_t other_owned = a->owned - b->owned, other_mapped = a->mapped - b->mapped;
  if (owned > LIFE_TOTAL_MAX - other_owned || mapped > LIFE_TOTAL_MAX - other_mapped) return 0;
  a->owned = other_owned + owned;
  a->mapped = other_mapped + mapped;
  b->owned = owned;
  b->mapped = mapped;
  return 1;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Up to its own charge, then up to what earlier releases left mapped; what is then left of its own is left mapped. */
void life_refund(life_block *b, uint64_t reported) {
  life_allocator *a = life_owner(b);
  const uint64_t own = least(reported, b->mapped);
  const uint64_t others = least(reported - own, a->residual);
  if (reported - own - others != 0) life_violation(NXMEM_REASON_TOTAL_TOO_LARGE);
  a->mapped -= own + others;
  a->residual += b->mapped - own - others;
  a->owned -= b->owned;
}

/* Whole pages of 1 GiB. */
uint64_t life_most_mapped(uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return 0;
  const uint64_t pages = ((offset + (bytes - 1u)) >> 30) - (offset >> 30) + 1u;
  return pages >> 33 != 0 ? LIFE_TOTAL_MAX : pages << 30;
}

/* ---- Quarantine -------------------------------------------------------------------------------------------------- */

void life_list(uint64_t address, uint64_t bytes, uint64_t owned, uint64_t mapped, uint64_t residual, uint32_t status,
               uint32_t reason) {
  it.listed++;
  it.last_listed = (life_quarantined){address, bytes, owned, mapped, residual, status, reason};
}

void life_quarantine(life_block *b, uint64_t residual, uint32_t status, uint32_t reason) {
  life_allocator *a = life_owner(b);
  a->quarantined++;
  a->quarantined_bytes = b->bytes > UINT64_MAX - a->quarantined_bytes ? UINT64_MAX : a->quarantined_bytes + b->bytes;
  life_list(b->address, b->bytes, b->owned, b->mapped, residual, status, reason);
}

void life_leave_bytes(uint32_t which, int kept) {
  life_bytes *own = &it.bytes[which];
  own->kept |= kept;
  if (--own->users == 0 && !own->kept) it.allocators[own->owner].owned -= own->charged;
}

void life_drop_maps(life_block *b, int kept) {
  for (uint32_t i = 0; i < LIFE_BYTES; i++)
    for (; b->maps[i] != 0; b->maps[i]--) life_leave_bytes(i, kept);
}

void life_finish(life_block *b, int gone, uint64_t unmapped, uint64_t residual, uint32_t status) {
  b->pins = 0;
  b->met = 0;
  life_drop_maps(b, !gone);
  if (gone) {
    life_refund(b, unmapped);
    b->state = BLOCK_GONE;
    return;
  }
  const int apart = life_index(b);
  if (!apart) life_violation(NXMEM_REASON_OVERLAP);
  life_quarantine(b, residual, status, apart ? NXMEM_REASON_NONE : NXMEM_REASON_OVERLAP);
  b->state = BLOCK_QUARANTINED;
}

static uint64_t plus(uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; }

/* Closed, nothing queued, no callback inside: nobody can name the slot any more. */
void life_settle_share(life_allocator *a) {
  if (a->gate != GATE_HELD || a->queued != 0 || a->callbacks_running != 0) return;
  it.module.retained += a->quarantined;
  it.module.retained_bytes = plus(it.module.retained_bytes, a->quarantined_bytes);
  it.module.retained_owned = plus(it.module.retained_owned, a->owned);
  it.module.retained_mapped = plus(it.module.retained_mapped, a->mapped - a->residual);
  a->gate = GATE_GONE;
}

/* ---- Claims ------------------------------------------------------------------------------------------------------ */

nxmem_result life_enter(const life_allocator *a) {
  if (a->gate == GATE_OPEN) return NXMEM_OK;
  return a->gate == GATE_WAITING || a->gate == GATE_CLOSING ? NXMEM_ERR_BUSY : NXMEM_ERR_STALE_HANDLE;
}

static nxmem_result presence(const life_block *b) {
  switch (b->state) {
    case BLOCK_LIVE:
      return NXMEM_OK;
    case BLOCK_RELEASING:
    case BLOCK_QUEUING:
    case BLOCK_QUEUED:
      return NXMEM_ERR_BUSY;
    case BLOCK_QUARANTINED:
      return NXMEM_ERR_QUARANTINED;
    default:
      return NXMEM_ERR_STALE_HANDLE;
  }
}

static nxmem_result named(const life_allocator *a, const life_block *b, const void *ptr, uint64_t bytes,
                          uint64_t align) {
  if (life_owner(b) != a) return NXMEM_ERR_WRONG_OWNER;
  const int same =
      (uintptr_t)ptr == b->address && (bytes == 0 || bytes == b->bytes) && (align == 0 || align == b->align);
  return same ? NXMEM_OK : NXMEM_ERR_MISMATCH;
}

nxmem_result life_claim(const life_allocator *a, const life_block *b, const void *ptr, uint64_t bytes, uint64_t align) {
  const nxmem_result there = presence(b);
  if (there != NXMEM_OK) return there;
  return b->pins != 0 ? NXMEM_ERR_BUSY : named(a, b, ptr, bytes, align);
}

nxmem_result life_pin(const life_allocator *a, const life_block *b, const void *ptr) {
  const nxmem_result there = presence(b);
  return there != NXMEM_OK ? there : named(a, b, ptr, 0, 0);
}

/* The host has asked what is committed wherever it had to: here nothing may be left to ask, unless nobody can. */
void life_unpin(life_block *b) {
  const life_frame *f = life_top();
  const int can_ask = (life_owner(b)->backing & 1u << 5) != 0;
  life_expect(!(can_ask && b->pins == 1 && b->met && f->settles < 4), "a charge in doubt was not settled");
  b->pins--;
  if (b->pins == 0) b->met = 0;
}
