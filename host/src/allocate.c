/*
 * allocate.c: the one funnel through which an allocation is made.
 *
 * Attackers: a plugin that answers OK with an address or numbers that cannot be.
 * Promise: what the core refuses is never given to the caller; a record is its maker's alone from ALLOCATING to LIVE.
 *
 * A1 to A3 are steps of proofs/models/release_race.pml.
 */
#include <inttypes.h>

#include "backing.h"
#include "books.h"
#include "error.h"
#include "guard.h"
#include "quarantine.h"
#include "record.h"
#include "release.h"
#include "violations.h"

/* What the caller asks for. */
typedef struct asking {
  uint64_t bytes;
  uint64_t align;
  nxmem_allocate_options more;
} asking;

/*
 * An OK that is not accepted, and nothing of it charged: what the plugin keeps is counted as quarantined. Its record goes: no caller ever had its handle, and a
 * plugin must not be able to fill the host's tables with lies.
 */
static NX_APART void undo(nx_allocator *a, nx_allocation *record, int hand_back, uint32_t reason) {
  nx_release_answer answer = {.fate = NXMEM_FATE_QUARANTINED, .residual = NXMEM_UNWRITTEN_COUNT};
  nx_guard_leave(a, record); /* before the plugin may hand it out again */
  if (hand_back) nx_release_ask(a, record, &answer);
  if (nxmem_final_fate(answer.fate) == NXMEM_FATE_QUARANTINED) {
    nx_guard_keep(a, record);
    nx_books_quarantine(a, record);
    nx_quarantine_list_record(a, record, answer.residual, answer.status.code, reason);
  }
  nx_table_give(&nx_allocations, &record->slot);
}

/* NULL and what overlaps is never handed back: that would free another owner's memory. The others are, once. */
static NX_APART nxmem_result refuse(nx_allocator *a, nx_allocation *record, nxmem_verdict v, uint64_t bytes,
                                    nxmem_error *error) {
  nx_violation(a, v);
  undo(a, record, nxmem_may_hand_back(v.reason), v.reason);
  return nx_fail_in(error, NXMEM_ERR_CONTRACT, v, (nx_context){.record = NX_RECORD_RESULT},
                    "allocate %" PRIu64 " bytes", bytes);
}

/* The address alone; nothing is owned by it yet. */
static nxmem_verdict check_address(const NxmemAllocResult *result, const asking *asked) {
  return nxmem_check_alloc_result((uint64_t)(uintptr_t)result->ptr, 0, 0, asked->bytes, asked->align, 0, 0);
}

/*
 * Entered where addresses are looked at, then charged; both or neither. In this order: an address that is somebody's must not be handed back, whatever else
 * is wrong with the answer.
 */
static nx_put accept(nx_allocator *a, nx_allocation *record, const asking *asked, const NxmemAllocResult *result,
                     nxmem_verdict *v) {
  *v = check_address(result, asked);
  if (v->reason != NXMEM_REASON_NONE) return NX_PUT_TAKEN;
  const nx_put put = nx_guard_enter(a, record, v);
  if (put != NX_PUT_DONE) return put;
  *v = nx_books_charge(a, record, result);
  return v->reason == NXMEM_REASON_NONE ? NX_PUT_DONE : NX_PUT_TAKEN;
}

static nxmem_result ask(nx_allocator *a, nx_allocation *record, const asking *asked, NxmemAllocResult *taken,
                        nxmem_error *error) {
  const NxmemAllocRequest request = {
      .struct_size = sizeof request,
      .reserved = 0,
      .mechanism_id = a->table.mechanism_id,
      .allocation_id = nx_slot_handle(&record->slot),
      .device = a->table.device,
      .bytes = asked->bytes,
      .align = asked->align,
      .committed_ranges = asked->more.committed_ranges,
      .committed_range_count = asked->more.committed_range_count,
  };
  NxmemAllocResult result = {.struct_size = sizeof result,
                             .reserved = 0,
                             .ptr = NULL,
                             .owned_bytes = NXMEM_UNWRITTEN_COUNT,
                             .mapped_bytes = NXMEM_UNWRITTEN_COUNT};
  const NxmemVirtualBackingVtable *backing = nx_backing_of(a);
  const NxmemStatus answer = asked->more.committed_range_count == 0
                                 ? a->table.allocate(a->table.ctx, &request, &result)
                                 : backing->allocate_committed(backing->ctx, &request, &result);
  NxmemStatus status;
  if (nx_take_answer(&answer, &status) == NXMEM_STATUS_OK) {
    nxmem_alloc_result_take(&result, taken);
    return NXMEM_OK;
  }
  return nx_fail_status(error, NXMEM_ERR_PLUGIN, &status, "allocate %" PRIu64 " bytes", asked->bytes);
}

static nxmem_result allocate_into(nx_allocator *a, nx_allocation *record, const asking *asked, nxmem_allocation *out,
                                  nxmem_error *error) {
  NxmemAllocResult result;
  const nxmem_result answered = ask(a, record, asked, &result, error); /* A2 */
  if (answered != NXMEM_OK) {
    nx_table_give(&nx_allocations, &record->slot);
    return answered;
  }
  atomic_store_explicit(&record->ptr, result.ptr, memory_order_relaxed);
  nxmem_verdict v;
  const nx_put put = accept(a, record, asked, &result, &v);
  if (put == NX_PUT_NO_MEMORY) {
    undo(a, record, 1, NXMEM_REASON_NONE);
    return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "allocate: no memory to note the address");
  }
  if (put != NX_PUT_DONE) return refuse(a, record, v, asked->bytes, error);
  nx_books_add_live(a);
  const uint64_t id = nx_slot_handle(&record->slot);
  nx_slot_set(&record->slot, NXMEM_SLOT_LIVE); /* A3 */
  out->id = id;
  out->ptr = result.ptr;
  return NXMEM_OK;
}

static nxmem_result allocate_entered(nx_allocator *a, nxmem_allocator owner, const asking *asked, nxmem_allocation *out,
                                     nxmem_error *error) {
  nx_allocation *record = (nx_allocation *)(void *)nx_table_take(&nx_allocations); /* A1 */
  if (record == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "allocate: no room for another allocation");
  nx_record_note(record, owner, asked->bytes, asked->align);
  nx_slot_set(&record->slot, NXMEM_SLOT_ALLOCATING);
  return allocate_into(a, record, asked, out, error);
}

static NX_APART nxmem_result check_committed(const nx_allocator *a, const asking *asked, nxmem_error *error) {
  const int there = nx_backing_of(a)->allocate_committed != NULL;
  const nxmem_result r = nx_need_slot(there, "allocate", "virtual_backing.allocate_committed", error);
  if (r != NXMEM_OK) return r;
  return nx_check_ranges("allocate", asked->more.committed_ranges, asked->more.committed_range_count, asked->bytes,
                         error);
}

NX_HOT nxmem_result nxmem_allocate(nxmem_allocator allocator, uint64_t bytes, uint64_t align,
                                   const nxmem_allocate_options *options, nxmem_allocation *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "allocate: out is NULL");
  const nxmem_verdict v = nxmem_check_alloc_request(bytes, align);
  if (v.reason != NXMEM_REASON_NONE) return nx_fail_verdict(error, nx_result_of(v), v, "allocate");
  asking asked = {.bytes = bytes, .align = align};
  if (options != NULL && options->committed_range_count != 0) asked.more = *options;
  nx_allocator *a = NULL;
  nxmem_result r = nx_allocator_enter(allocator, &a, error);
  if (r != NXMEM_OK) return r;
  r = asked.more.committed_range_count == 0 ? NXMEM_OK : check_committed(a, &asked, error);
  if (r == NXMEM_OK) r = allocate_entered(a, allocator, &asked, out, error);
  nx_allocator_leave(a);
  return r;
}
