/*
 * allocate.c: the one funnel through which an allocation is made.
 *
 * Attackers: a plugin that answers OK with an address or numbers that cannot be.
 * Promise: what the core refuses is never given to the caller; a record is its maker's alone from ALLOCATING to LIVE.
 *
 * A1 to A3 are steps of proofs/models/release_race.pml.
 */
#include "allocate.h"

#include <inttypes.h>

#include "backing.h"
#include "books.h"
#include "error.h"
#include "grant.h"
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
  nxmem_release_fate *left; /* NULL: nobody asks what a refused answer left behind */
} asking;

/*
 * An OK that is not accepted, and nothing of it charged: what the plugin keeps is counted as quarantined. Its record goes: no caller ever had its handle, and a
 * plugin must not be able to fill the host's tables with lies.
 */
static NX_APART void undo(nx_allocator *a, nx_allocation *record, int hand_back, uint32_t reason,
                          nxmem_release_fate *left) {
  nx_release_answer answer = {.fate = NXMEM_FATE_QUARANTINED, .residual = NXMEM_UNWRITTEN_COUNT};
  nx_guard_leave(a, record); /* before the plugin may hand it out again */
  if (hand_back) nx_release_ask(a, record, &answer);
  if (left != NULL) *left = answer.fate;
  if (nxmem_final_fate(answer.fate) == NXMEM_FATE_QUARANTINED) {
    nx_guard_keep(a, record);
    nx_books_quarantine(a, record);
    nx_quarantine_list_record(a, record, answer.residual, answer.status.code, reason);
  }
  nx_table_give(&nx_allocations, &record->slot);
}

/* An answer, as if nothing were charged yet: would it be refused all the same? */
static nxmem_verdict check_alone(nx_allocation *record, const NxmemAllocResult *result) {
  const uint64_t bytes = atomic_load_explicit(&record->bytes, memory_order_relaxed);
  return nxmem_check_alloc_result((uint64_t)(uintptr_t)result->ptr, result->owned_bytes, result->mapped_bytes, bytes,
                                  nx_record_align(record), 0, 0);
}

/* NULL and what overlaps is never handed back: that would free another owner's memory. The others are, once. */
static NX_APART nxmem_result refuse(nx_allocator *a, nx_allocation *record, const NxmemAllocResult *result,
                                    nxmem_verdict v, nxmem_release_fate *left, nxmem_error *error) {
  const uint64_t bytes = atomic_load_explicit(&record->bytes, memory_order_relaxed);
  if (nx_grant_refuse(a, v, check_alone(record, result))) {
    undo(a, record, 1, NXMEM_REASON_NONE, left);
    return nx_grant_fail(error, v, "allocate %" PRIu64 " bytes", bytes);
  }
  nx_violation(a, v);
  undo(a, record, nxmem_may_hand_back(v.reason), v.reason, left);
  return nx_fail_in(error, NXMEM_ERR_CONTRACT, v, (nx_context){.record = NX_RECORD_RESULT},
                    "allocate %" PRIu64 " bytes", bytes);
}

/* The address alone; nothing is owned by it yet. */
static nxmem_verdict check_address(nx_allocation *record, const NxmemAllocResult *result) {
  const uint64_t bytes = atomic_load_explicit(&record->bytes, memory_order_relaxed);
  return nxmem_check_alloc_result((uint64_t)(uintptr_t)result->ptr, 0, 0, bytes, nx_record_align(record), 0, 0);
}

/* An address that is somebody's must not be handed back, whatever else is wrong with the answer. */
static nx_put enter_address(nx_allocator *a, nx_allocation *record, const NxmemAllocResult *result, nxmem_verdict *v) {
  *v = check_address(record, result);
  return v->reason == NXMEM_REASON_NONE ? nx_guard_enter(a, record, v) : NX_PUT_TAKEN;
}

/* Entered where addresses are looked at, then charged; both or neither. */
static nx_put accept(nx_visit visit, nx_allocation *record, const NxmemAllocResult *result, nxmem_verdict *v) {
  if (nx_guard_looks(visit.allocator)) {
    const nx_put put = enter_address(visit.allocator, record, result, v);
    if (put != NX_PUT_DONE) return put;
  }
  *v = nx_books_charge(visit, record, result);
  return v->reason == NXMEM_REASON_NONE ? NX_PUT_DONE : NX_PUT_TAKEN;
}

static nxmem_result ask(nx_allocator *a, uint64_t id, const asking *asked, NxmemAllocResult *taken,
                        nxmem_error *error) {
  const NxmemAllocRequest request = {
      .struct_size = sizeof request,
      .reserved = 0,
      .mechanism_id = a->table.mechanism_id,
      .allocation_id = id,
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

static NX_APART nxmem_result without_memory(nx_allocator *a, nx_allocation *record, nxmem_release_fate *left,
                                            nxmem_error *error) {
  undo(a, record, 1, NXMEM_REASON_NONE, left);
  return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "allocate: no memory to note the address");
}

static nxmem_result allocate_into(nx_visit visit, nx_allocation *record, uint64_t id, const asking *asked,
                                  nxmem_allocation *out, nxmem_error *error) {
  NxmemAllocResult result;
  const nxmem_result answered = ask(visit.allocator, id, asked, &result, error); /* A2 */
  if (answered != NXMEM_OK) {
    nx_table_give(&nx_allocations, &record->slot);
    return answered;
  }
  atomic_store_explicit(&record->ptr, result.ptr, memory_order_relaxed);
  nxmem_verdict v;
  const nx_put put = accept(visit, record, &result, &v);
  if (put == NX_PUT_NO_MEMORY) return without_memory(visit.allocator, record, asked->left, error);
  if (put != NX_PUT_DONE) return refuse(visit.allocator, record, &result, v, asked->left, error);
  nx_books_add_live(visit);
  nx_slot_show(&record->slot, id, NXMEM_SLOT_LIVE); /* A3 */
  out->id = id;
  out->ptr = result.ptr;
  return NXMEM_OK;
}

static nxmem_result allocate_inside(nx_visit visit, nxmem_allocator owner, const asking *asked, nxmem_allocation *out,
                                    nxmem_error *error) {
  nx_allocation *record = (nx_allocation *)(void *)nx_thread_take(visit.thread, &nx_allocations); /* A1 */
  if (record == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "allocate: no room for another allocation");
  const uint64_t id = nx_record_begin(record, owner, asked->bytes, asked->align);
  return allocate_into(visit, record, id, asked, out, error);
}

/* Not all of it committed. */
static NX_ALONE nxmem_result allocate_partly(nx_visit visit, nxmem_allocator owner, asking asked, nxmem_allocation *out,
                                             nxmem_error *error) {
  const int there = nx_backing_of(visit.allocator)->allocate_committed != NULL;
  nxmem_result r = nx_need_slot(there, "allocate", "virtual_backing.allocate_committed", error);
  if (r != NXMEM_OK) return r;
  r = nx_check_ranges("allocate", asked.more.committed_ranges, asked.more.committed_range_count, asked.bytes, error);
  return r == NXMEM_OK ? allocate_inside(visit, owner, &asked, out, error) : r;
}

nxmem_result nx_allocate_check(uint64_t bytes, uint64_t align, nxmem_error *error) {
  const nxmem_verdict v = nxmem_check_alloc_request(bytes, align);
  return v.reason == NXMEM_REASON_NONE ? NXMEM_OK : nx_fail_verdict(error, nx_result_of(v), v, "allocate");
}

nxmem_result nx_allocate_inside(nx_visit visit, nxmem_allocator owner, uint64_t bytes, uint64_t align,
                                const nxmem_allocate_options *options, nxmem_release_fate *left, nxmem_allocation *out,
                                nxmem_error *error) {
  if (options != NULL && options->committed_range_count != 0)
    return allocate_partly(visit, owner, (asking){bytes, align, *options, left}, out, error);
  return allocate_inside(visit, owner, &(asking){.bytes = bytes, .align = align, .left = left}, out, error);
}

NX_HOT nxmem_result nxmem_allocate(nxmem_allocator allocator, uint64_t bytes, uint64_t align,
                                   const nxmem_allocate_options *options, nxmem_allocation *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "allocate: out is NULL");
  nxmem_result r = nx_allocate_check(bytes, align, error);
  if (r != NXMEM_OK) return r;
  nx_visit visit;
  r = nx_visit_begin(allocator, &visit, error);
  if (r != NXMEM_OK) return r;
  r = nx_allocate_inside(visit, allocator, bytes, align, options, NULL, out, error);
  nx_visit_end(visit);
  return r;
}
