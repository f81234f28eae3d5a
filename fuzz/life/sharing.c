/*
 * sharing.c: prefixes: made, referenced, mapped into groups, given back.
 * Attackers: handles that are short, foreign, unwritten or impossible; commits that fail half way, or may have.
 * Promise: each reference is given back once, a group is mapped whole or not at all, and its bytes are charged once.
 */
#include <stddef.h>
#include <string.h>

#include "life.h"
#include "nxmem/verdict.h"

enum { SLOT_CREATE = 0, SLOT_RETAIN = 1, SLOT_RELEASE = 2, SLOT_NEXT = 3, SLOT_COMMIT = 4 };

static life_allocator *owner_of(const life_prefix *p) { return &it.allocators[p->owner]; }

static int has(const life_allocator *a, uint32_t slot) { return (int)(a->sharing >> slot & 1u); }

static uint64_t greatest(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* ---- References -------------------------------------------------------------------------------------------------- */

static void quarantine(life_prefix *p, uint64_t bytes, uint32_t status, uint32_t reason) {
  life_allocator *a = owner_of(p);
  a->quarantined++;
  a->quarantined_bytes = bytes > UINT64_MAX - a->quarantined_bytes ? UINT64_MAX : a->quarantined_bytes + bytes;
  life_list(p->address, bytes, 0, 0, LIFE_UNWRITTEN, status, reason);
}

static void keep(life_prefix *p, uint32_t status) {
  if (p->state != PREFIX_LIVE) return;
  p->state = PREFIX_QUARANTINED;
  it.bytes[p->own].kept = 1;
  quarantine(p, p->bytes, status, NXMEM_REASON_NONE);
}

static void end_prefix(life_prefix *p) {
  p->state = PREFIX_GONE;
  life_leave_bytes(p->own, 0);
}

static void leave(life_prefix *p) {
  if (p->state == PREFIX_LIVE && p->pins == 1 && p->held + p->leaving == 0) end_prefix(p);
  p->pins--;
}

static life_prefix *prefix_of(const life_allocator *a, const NxmemSharedPrefixHandle *h) {
  for (uint32_t i = 0; i < LIFE_PREFIXES; i++) {
    life_prefix *p = &it.prefixes[i];
    if (p->state == PREFIX_NONE || p->state == PREFIX_GONE || owner_of(p) != a || p->number != h->handle) continue;
    const int same = h->struct_size == sizeof *h && h->mechanism_id == a->mechanism && h->device_ptr == p->address &&
                     h->committed_physical_bytes == p->physical && h->mapped_bytes == p->mapped &&
                     h->device.tier == a->device.tier && h->device.index == a->device.index;
    life_expect(same || p->state == PREFIX_MAKING, "prefix: another handle than was made");
    return p;
  }
  life_fail("prefix: a handle that was never made");
}

static uint32_t begin_release(life_frame *f, life_prefix *p) {
  switch (f->kind) {
    case CALL_CLOSE: /* one reference after the other */
      life_expect(f->handing_back && p->state == PREFIX_LIVE && p->held != 0, "close: a prefix not to be given back");
      break;
    case CALL_OTHER:
      life_expect(f->prefix == p && f->calls == 0 && p->held != 0, "prefix: not to be given back");
      break;
    default:
      life_expect(f->prefix == p && f->handing_back && f->calls == 1, "prefix: not to be handed back");
      return 0;
  }
  p->held--;
  p->leaving++;
  return 1;
}

static void end_release(life_frame *f, life_prefix *p, uint32_t code) {
  const int gone = code == NXMEM_STATUS_OK, kept = code == NXMEM_STATUS_RELEASE_QUARANTINED;
  p->leaving--;
  if (f->kind == CALL_CLOSE) {
    if (!gone) keep(p, code);
    if (gone && p->held + p->leaving == 0) end_prefix(p);
    return;
  }
  f->result = gone ? NXMEM_OK : kept ? NXMEM_ERR_QUARANTINED : NXMEM_ERR_PLUGIN;
  if (kept) keep(p, code);
  if (!gone && !kept) p->held++;
}

NxmemStatus life_release_shared_prefix(void *ctx, const NxmemSharedPrefixHandle *handle) {
  life_frame *f = life_top();
  life_allocator *a = life_allocator_of_ctx(ctx);
  life_expect(f->a == a, "release prefix: another allocator");
  life_prefix *p = prefix_of(a, handle);
  const uint32_t referenced = begin_release(f, p);
  f->calls++;
  f->released = 1;
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  if (referenced)
    end_release(f, p, status.code);
  else if (status.code != NXMEM_STATUS_OK)
    quarantine(p, f->size, status.code, f->reason);
  return status;
}

NxmemStatus life_retain_shared_prefix(void *ctx, const NxmemSharedPrefixHandle *handle) {
  life_frame *f = life_top();
  life_expect(f->a == life_allocator_of_ctx(ctx) && f->prefix == prefix_of(f->a, handle) && f->calls++ == 0,
              "retain prefix: not asked");
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  f->result = status.code == NXMEM_STATUS_OK ? NXMEM_OK : NXMEM_ERR_PLUGIN;
  if (f->result == NXMEM_OK) f->prefix->held++;
  return status;
}

NxmemStatus life_incremental_owned_bytes(void *ctx, const NxmemSharedPrefixHandle *handle, uint64_t *bytes_out) {
  life_frame *f = life_top();
  life_expect(f->a == life_allocator_of_ctx(ctx) && f->prefix == prefix_of(f->a, handle) && f->calls++ == 0,
              "prefix info: not asked");
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  f->out = life_number(answer.b, f->prefix->bytes, &answer);
  life_store(bytes_out, f->out);
  f->result = status.code == NXMEM_STATUS_OK ? NXMEM_OK : NXMEM_ERR_PLUGIN;
  f->before = f->prefix->held;
  if (f->result != NXMEM_OK || f->out <= life_most_mapped(0, f->prefix->bytes)) return status;
  life_violation(NXMEM_REASON_MORE_THAN_POSSIBLE);
  f->result = NXMEM_ERR_CONTRACT;
  return status;
}

/* ---- Making ------------------------------------------------------------------------------------------------------ */

static void spoil(NxmemSharedPrefixHandle *h, const life_record *answer) {
  switch (answer->d & 15u) {
    case 9:
      h->struct_size = answer->x % 70u;
      break;
    case 10:
      h->mechanism_id = answer->y;
      break;
    case 11:
      h->device.index ^= answer->x;
      break;
    case 12:
      h->handle = LIFE_UNWRITTEN;
      break;
    case 13:
      h->requested_bytes = answer->y;
      break;
    case 14:
      h->committed_physical_bytes = answer->y;
      break;
    case 15:
      h->mapped_bytes = answer->y;
      break;
    default:
      break;
  }
}

static uint32_t judge_handle(const life_allocator *a, const NxmemSharedPrefixHandle *h, uint64_t bytes) {
  const uint64_t most = life_most_mapped(0, bytes);
  if (h->struct_size < sizeof *h) return NXMEM_REASON_SHORT_PREFIX;
  if (h->mechanism_id != a->mechanism) return NXMEM_REASON_OTHER_MECHANISM;
  if (h->device.tier != a->device.tier || h->device.index != a->device.index) return NXMEM_REASON_OTHER_DEVICE;
  if (h->handle == LIFE_UNWRITTEN) return NXMEM_REASON_NO_PREFIX_HANDLE;
  if (h->requested_bytes != bytes) return NXMEM_REASON_OTHER_REQUEST;
  if (h->committed_physical_bytes > most || h->mapped_bytes > most) return NXMEM_REASON_MORE_THAN_POSSIBLE;
  return NXMEM_REASON_NONE;
}

static void settle_handle(life_frame *f, life_prefix *p, const NxmemSharedPrefixHandle *h) {
  const uint32_t reason = judge_handle(f->a, h, f->size);
  p->number = h->handle;
  p->address = h->device_ptr;
  p->physical = h->committed_physical_bytes;
  p->mapped = h->mapped_bytes;
  p->bytes = h->requested_bytes;
  f->result = NXMEM_OK;
  if (reason == NXMEM_REASON_NONE) return;
  f->result = NXMEM_ERR_CONTRACT;
  f->reason = reason;
  life_violation(reason);
  f->handing_back = reason == NXMEM_REASON_OTHER_REQUEST || reason == NXMEM_REASON_MORE_THAN_POSSIBLE;
  if (!f->handing_back) quarantine(p, f->size, NXMEM_STATUS_OK, reason);
}

NxmemStatus life_create_shared_prefix(void *ctx, uint64_t mechanism_id, uint64_t bytes,
                                      NxmemSharedPrefixHandle *handle_out) {
  life_frame *f = life_top();
  life_expect(f->kind == CALL_MAKE && f->a == life_allocator_of_ctx(ctx) && f->calls++ == 0,
              "create prefix: not asked");
  life_expect(mechanism_id == f->a->mechanism && bytes == f->size, "create prefix: mechanism or size");
  life_prefix *p = f->prefix;
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  NxmemSharedPrefixHandle h = {.struct_size = sizeof h,
                               .mechanism_id = mechanism_id,
                               .handle = it.next_number++,
                               .device = f->a->device,
                               .device_ptr = answer.y,
                               .committed_physical_bytes = life_number(answer.b, bytes, &answer),
                               .mapped_bytes = life_number(answer.c, bytes, &answer),
                               .requested_bytes = bytes};
  spoil(&h, &answer);
  *handle_out = h;
  f->result = NXMEM_ERR_PLUGIN;
  if (status.code == NXMEM_STATUS_OK) settle_handle(f, p, &h);
  return status;
}

static nxmem_result expect_create(const life_allocator *a, uint64_t bytes) {
  if (bytes == 0) return NXMEM_ERR_INVALID_ARGUMENT;
  const nxmem_result entered = life_enter(a);
  if (entered != NXMEM_OK) return entered;
  return has(a, SLOT_CREATE) && has(a, SLOT_RELEASE) ? NXMEM_OK : NXMEM_ERR_UNSUPPORTED_CAPABILITY;
}

static int place_for_bytes(uint32_t *which) {
  for (*which = 0; *which < LIFE_BYTES; (*which)++)
    if (it.bytes[*which].users == 0) return 1;
  return 0;
}

static life_prefix *place(void) {
  for (uint32_t i = 0; i < LIFE_PREFIXES; i++)
    if (it.prefixes[i].state == PREFIX_NONE || it.prefixes[i].state == PREFIX_GONE) return &it.prefixes[i];
  return NULL;
}

void life_op_prefix_create(const life_record *op) {
  life_allocator *a = &it.allocators[op->a % LIFE_ALLOCATORS];
  life_prefix *p = place();
  uint32_t own;
  if (p == NULL || !place_for_bytes(&own)) return;
  const uint64_t bytes = life_size(op);
  const nxmem_prefix stale = p->handle;
  life_frame *f = life_push(CALL_MAKE);
  f->a = a;
  f->prefix = p;
  f->size = bytes;
  f->result = expect_create(a, bytes);
  const int asked = f->result == NXMEM_OK;
  fuzz_clear(p, sizeof *p);
  p->state = asked ? PREFIX_MAKING : PREFIX_GONE;
  p->owner = (uint32_t)(a - it.allocators);
  p->own = own;
  it.bytes[own] = (life_bytes){.users = 1, .owner = p->owner};
  a->inside += (uint64_t)asked;
  nxmem_prefix made = {0};
  const nxmem_result found = nxmem_prefix_create(a->handle, bytes, &made, NULL);
  a->inside -= (uint64_t)asked;
  life_same_result("create prefix", found, f->result);
  life_expect(f->handing_back == f->released, "create prefix: what was refused was not handed back, or was");
  p->state = found == NXMEM_OK ? PREFIX_LIVE : PREFIX_GONE;
  p->held = found == NXMEM_OK;
  if (found != NXMEM_OK) life_leave_bytes(own, 0);
  p->handle = found == NXMEM_OK ? made : stale;
  life_pop();
}

/* ---- Referring --------------------------------------------------------------------------------------------------- */

static nxmem_result enter(const life_prefix *p) {
  if (p->state == PREFIX_QUARANTINED) return NXMEM_ERR_QUARANTINED;
  if (p->state != PREFIX_LIVE) return NXMEM_ERR_STALE_HANDLE;
  const nxmem_result entered = life_enter(owner_of(p));
  if (entered != NXMEM_OK) return entered;
  return p->held == 0 ? NXMEM_ERR_BUSY : NXMEM_OK;
}

/* `slot`: without it the call is refused, once the prefix is entered. */
static life_frame *begin(life_kind kind, life_prefix *p, uint32_t slot, int *entered) {
  life_frame *f = life_push(kind);
  f->a = owner_of(p);
  f->prefix = p;
  f->out = 77;
  f->before = 77;
  f->result = enter(p);
  *entered = f->result == NXMEM_OK;
  if (!*entered) return f;
  p->pins++;
  f->a->inside++;
  if (!has(f->a, slot)) f->result = NXMEM_ERR_UNSUPPORTED_CAPABILITY;
  return f;
}

static void end(life_frame *f, const char *what, nxmem_result found, int entered) {
  life_same_result(what, found, f->result);
  if (entered) {
    leave(f->prefix);
    f->a->inside--;
  }
  life_pop();
}

void life_op_prefix_retain(const life_record *op) {
  int entered;
  life_frame *f = begin(CALL_OTHER, &it.prefixes[op->b % LIFE_PREFIXES], SLOT_RETAIN, &entered);
  end(f, "retain prefix", nxmem_prefix_retain(f->prefix->handle, NULL), entered);
}

void life_op_prefix_release(const life_record *op) {
  int entered;
  life_frame *f = begin(CALL_OTHER, &it.prefixes[op->b % LIFE_PREFIXES], SLOT_RELEASE, &entered);
  const int asked = f->result == NXMEM_OK;
  const nxmem_result found = nxmem_prefix_release(f->prefix->handle, NULL);
  life_expect((f->calls == 1) == asked, "release prefix: the plugin was asked, or was not, wrongly");
  end(f, "release prefix", found, entered);
}

void life_op_prefix_info(const life_record *op) {
  int entered;
  life_frame *f = begin(CALL_OTHER, &it.prefixes[op->b % LIFE_PREFIXES], SLOT_NEXT, &entered);
  const life_prefix *p = f->prefix;
  nxmem_prefix_info info = {77, 77, 77, 77, 77};
  const nxmem_result found = nxmem_prefix_get_info(p->handle, &info, NULL);
  const int ok = found == NXMEM_OK;
  life_expect(info.bytes == (ok ? p->bytes : 77) && info.references == (ok ? p->held : 77) &&
                  info.committed_physical_bytes == (ok ? p->physical : 77) &&
                  info.mapped_bytes == (ok ? p->mapped : 77) && info.next_commit_owned_bytes == (ok ? f->out : 77),
              "prefix info: other numbers");
  end(f, "prefix info", found, entered);
}

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

static life_block *member(const life_frame *f, uint32_t i) { return &it.blocks[f->group[i]]; }

static uint32_t judge_info(const life_frame *f, const NxmemSharedPrefixCommitInfo *i) {
  const uint64_t most = life_most_mapped(f->offset, f->prefix->bytes);
  if (i->additional_owned_bytes > most || i->newly_mapped_bytes > most || i->granules > most)
    return NXMEM_REASON_MORE_THAN_POSSIBLE;
  const int fits = i->additional_owned_bytes <= LIFE_TOTAL_MAX - f->a->owned &&
                   i->newly_mapped_bytes <= LIFE_TOTAL_MAX - f->a->mapped;
  return fits ? NXMEM_REASON_NONE : NXMEM_REASON_TOTAL_TOO_LARGE;
}

/* Once; where nothing else maps it, an earlier commit may have come to nothing, and then it is as if for the first time. */
static uint32_t charge(life_frame *f, life_block *b, const NxmemSharedPrefixCommitInfo *i) {
  life_bytes *own = &it.bytes[f->prefix->own];
  const uint32_t reason = judge_info(f, i);
  if (reason != NXMEM_REASON_NONE) return reason;
  const int first = own->charged == 0 || own->users == 2;
  if (!first && i->additional_owned_bytes != 0) life_violation(NXMEM_REASON_MORE_THAN_POSSIBLE);
  if (first && i->additional_owned_bytes > own->charged) {
    f->a->owned += i->additional_owned_bytes - own->charged;
    own->charged = i->additional_owned_bytes;
  }
  life_expect(life_move(b, b->owned, b->mapped + i->newly_mapped_bytes), "harness: judged and not charged");
  return NXMEM_REASON_NONE;
}

/* Nobody knows what it mapped. */
static void charge_unknown(const life_frame *f, life_block *b) {
  const uint64_t most = greatest(f->prefix->mapped, f->prefix->physical);
  if (most <= LIFE_TOTAL_MAX - b->mapped) (void)life_move(b, b->owned, b->mapped + most);
}

static void settle_commit(life_frame *f, life_block *b, uint32_t code, const NxmemSharedPrefixCommitInfo *info) {
  uint32_t reason = NXMEM_REASON_NONE;
  if (code == NXMEM_STATUS_OK) reason = charge(f, b, info);
  if (reason != NXMEM_REASON_NONE) life_violation(reason);
  if (code == NXMEM_STATUS_OK && reason == NXMEM_REASON_NONE) {
    f->mapped++;
    return;
  }
  const int doubtful = code == NXMEM_STATUS_OK || code == NXMEM_STATUS_RELEASE_QUARANTINED;
  if (doubtful) {
    charge_unknown(f, b);
  } else {
    b->maps[f->prefix->own]--;
    life_leave_bytes(f->prefix->own, 0);
  }
  f->touched = f->mapped + (uint32_t)doubtful;
  f->result = code == NXMEM_STATUS_OK ? NXMEM_ERR_CONTRACT : NXMEM_ERR_PLUGIN;
}

NxmemStatus life_commit_shared_prefix(void *ctx, const NxmemSharedPrefixCommitRequest *r,
                                      NxmemSharedPrefixCommitInfo *out) {
  life_frame *f = life_top();
  life_expect(f->kind == CALL_GROUP && f->a == life_allocator_of_ctx(ctx), "commit prefix: not asked");
  life_expect(f->mapped < f->count && f->result == NXMEM_OK, "commit prefix: asked on after a refusal");
  life_block *b = member(f, f->mapped);
  life_expect(r->struct_size == sizeof *r && r->byte_offset == f->offset && prefix_of(f->a, &r->prefix) == f->prefix,
              "commit prefix: request");
  life_check_allocation(f->a, b, &r->allocation);
  for (uint32_t i = 0; f->mapped == 0 && i < f->count; i++) member(f, i)->state = BLOCK_RELEASING;
  f->calls++;
  life_bytes *own = &it.bytes[f->prefix->own];
  own->users++; /* before the plugin is asked */
  b->maps[f->prefix->own]++;
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  out->additional_owned_bytes = life_number(answer.b, own->charged == 0 ? f->prefix->bytes : 0, &answer);
  out->newly_mapped_bytes = life_number(answer.c, f->prefix->bytes, &answer);
  out->granules = life_number(answer.d, 1, &answer);
  const NxmemSharedPrefixCommitInfo info = *out;
  settle_commit(f, b, status.code, &info);
  return status;
}

static nxmem_result claim(const life_frame *f, uint32_t i) {
  const life_block *b = member(f, i);
  for (uint32_t j = 0; j < i; j++)
    if (f->group[j] == f->group[i]) return NXMEM_ERR_INVALID_ARGUMENT;
  const nxmem_result claimed = life_claim(f->a, b, (const void *)(uintptr_t)b->address, 0, 0);
  if (claimed != NXMEM_OK) return claimed;
  const uint64_t bytes = f->prefix->bytes;
  return f->offset <= b->bytes && bytes <= b->bytes - f->offset ? NXMEM_OK : NXMEM_ERR_INVALID_ARGUMENT;
}

static nxmem_result claim_all(const life_frame *f) {
  for (uint32_t i = 0; i < f->count; i++) {
    const nxmem_result r = claim(f, i);
    if (r != NXMEM_OK) return r;
  }
  return NXMEM_OK;
}

static nxmem_group_outcome conclude(life_frame *f) {
  const int all = f->mapped == f->count;
  for (uint32_t i = all ? 0 : f->touched; i < f->count; i++) member(f, i)->state = BLOCK_LIVE;
  if (all) return NXMEM_GROUP_SHARED;
  life_expect(f->rolled == f->touched, "commit prefix: not all that map it were released");
  return f->kept != 0 ? NXMEM_GROUP_QUARANTINED : NXMEM_GROUP_PRIVATE;
}

void life_op_prefix_commit(const life_record *op) {
  int entered;
  life_frame *f = begin(CALL_GROUP, &it.prefixes[op->b % LIFE_PREFIXES], SLOT_COMMIT, &entered);
  nxmem_allocation list[LIFE_GROUP];
  f->count = 1u + op->c % (uint32_t)LIFE_GROUP;
  f->offset = op->d & 0x80u ? op->y : 0;
  for (uint32_t i = 0; i < f->count; i++) {
    f->group[i] = (op->x >> 8u * i & 0xFFu) % LIFE_BLOCKS;
    list[i] = (nxmem_allocation){member(f, i)->id, (void *)(uintptr_t)member(f, i)->address};
  }
  if (f->result == NXMEM_OK) f->result = claim_all(f);
  const int asked = f->result == NXMEM_OK;
  nxmem_group_outcome outcome = NXMEM_GROUP_SHARED, expected = NXMEM_GROUP_PRIVATE;
  const nxmem_result found = nxmem_prefix_commit(f->prefix->handle, list, f->count, f->offset, &outcome, NULL);
  life_expect((f->calls != 0) == asked, "commit prefix: the plugin was asked, or was not, wrongly");
  if (asked) expected = conclude(f);
  fuzz_same_number("life, outcome of a group", (uint64_t)outcome, (uint64_t)expected);
  end(f, "commit prefix", found, entered);
}
