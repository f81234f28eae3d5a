/*
 * outcome.h: what an allocation's or a release's answer means for the books.
 *
 * Attackers: a plugin that answers OK with a NULL, misaligned or wrapping address, reports more bytes than exist,
 * leaves its out-record unwritten, or contradicts its own status.
 * Promise: totals never pass 2^63, a refund never exceeds what was charged, and every doubt is quarantine.
 */
#ifndef NXMEM_OUTCOME_H
#define NXMEM_OUTCOME_H

#include "nxmem/count.h"
#include "nxmem/range.h"
#include "nxmem/status.h"
#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pre-filled into out-records, so that "unwritten" judges closed. */
#define NXMEM_UNWRITTEN_STATE 0xFFFFFFFFu
#define NXMEM_UNWRITTEN_COUNT 0xFFFFFFFFFFFFFFFFull

/*
 * Judge a caller's request before the plugin is asked: ZERO_BYTES, BAD_ALIGNMENT (zero or not a power of two),
 * SIZE_WRAPS (bytes rounded up to the alignment passes 2^64).
 */
/*@ assigns \nothing;
    behavior zero_bytes:
      assumes nothing_asked: bytes == 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_ZERO_BYTES, 0, 0, 1);
    behavior bad_alignment:
      assumes asked: bytes != 0;
      assumes alignment: !NX_POWER_OF_TWO(align);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_BAD_ALIGNMENT, 0, align, 1);
    behavior size_wraps:
      assumes asked: bytes != 0;
      assumes alignment: NX_POWER_OF_TWO(align);
      assumes rounded_up_wraps: !NX_WHOLE_RANGE(bytes, align - 1);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_SIZE_WRAPS, 0, bytes, align);
    behavior possible:
      assumes asked: bytes != 0;
      assumes alignment: NX_POWER_OF_TWO(align);
      assumes rounded_up: NX_WHOLE_RANGE(bytes, align - 1);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_alloc_request(uint64_t bytes, uint64_t align);

/* Copy a result that the plugin may still be writing, each field once. */
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out);
    assigns *out;
    ensures reserved: out->reserved == 0;
    ensures struct_size: out->struct_size == src->struct_size;
    ensures ptr: out->ptr == src->ptr;
    ensures owned_bytes: out->owned_bytes == src->owned_bytes;
    ensures mapped_bytes: out->mapped_bytes == src->mapped_bytes; */
#else
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, NX_LEDGER;
    ensures reserved: out->reserved == 0;
    ensures loads: NX_LOADED(0) && NX_LOADED(8) && NX_LOADED(16) && NX_LOADED(24);
    ensures no_more_loads: !NX_LOADED(4) && NX_NOTHING_LOADED_FROM(25); */
#endif
void nxmem_alloc_result_take(NXMEM_UNTRUSTED NxmemAllocResult *src, NxmemAllocResult *out);

/*
 * Judge a successful answer. address is result->ptr as a number.
 *
 * owned_total, mapped_total  What the books hold already; at most NXMEM_TOTAL_MAX each.
 *
 * NULL_ADDRESS, MISALIGNED_ADDRESS, WRAPPING_ADDRESS (address + bytes is not below 2^64), TOTAL_TOO_LARGE. The first
 * is never handed back (it would free another owner's memory); the others are handed back once.
 */
/*@ requires alignment: align != 0;
    requires owned_within: owned_total <= 0x8000000000000000;
    requires mapped_within: mapped_total <= 0x8000000000000000;
    assigns \nothing;
    behavior null_address:
      assumes null: address == 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NULL_ADDRESS, 8, 0, 0);
    behavior misaligned_address:
      assumes misaligned: address != 0 && address % align != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_MISALIGNED_ADDRESS, 8, address, align);
    behavior wrapping_address:
      assumes aligned: address != 0 && address % align == 0;
      assumes wraps: !NX_WHOLE_RANGE(address, bytes);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_WRAPPING_ADDRESS, 8, address, bytes);
    behavior owned_too_large:
      assumes aligned: address != 0 && address % align == 0;
      assumes whole: NX_WHOLE_RANGE(address, bytes);
      assumes too_large: !NX_FITS(owned_bytes, owned_total);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TOTAL_TOO_LARGE, 16, owned_bytes,
                                     0x8000000000000000 - owned_total);
    behavior mapped_too_large:
      assumes aligned: address != 0 && address % align == 0;
      assumes whole: NX_WHOLE_RANGE(address, bytes);
      assumes too_large: NX_FITS(owned_bytes, owned_total) && !NX_FITS(mapped_bytes, mapped_total);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TOTAL_TOO_LARGE, 24, mapped_bytes,
                                     0x8000000000000000 - mapped_total);
    behavior believable:
      assumes aligned: address != 0 && address % align == 0;
      assumes whole: NX_WHOLE_RANGE(address, bytes);
      assumes fits: NX_FITS(owned_bytes, owned_total) && NX_FITS(mapped_bytes, mapped_total);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_alloc_result(uint64_t address, uint64_t owned_bytes, uint64_t mapped_bytes, uint64_t bytes,
                                       uint64_t align, uint64_t owned_total, uint64_t mapped_total);

/*
 * May an address that nxmem_check_alloc_result refused for `reason` be handed back, once? Misaligned, wrapping and
 * too large ones: the plugin did allocate them for this call. Never a NULL one, nor one refused for another reason:
 * it may be another owner's memory. 1 or 0.
 */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> reason == NXMEM_REASON_MISALIGNED_ADDRESS ||
                   reason == NXMEM_REASON_WRAPPING_ADDRESS || reason == NXMEM_REASON_TOTAL_TOO_LARGE; */
int nxmem_may_hand_back(uint32_t reason);

/* An allocation as a caller names it, or as the books have it. */
typedef struct nxmem_named {
  uint64_t owner; /* the host's own identity of its allocator */
  uint64_t address;
  uint64_t bytes; /* 0: the caller does not say */
  uint64_t align; /* 0: the caller does not say */
} nxmem_named;

#ifdef __FRAMAC__
/* clang-format off */
#define NX_NAMED_OWNER(n, b) ((n)->owner == (b)->owner)
#define NX_NAMED_ADDRESS(n, b) (NX_NAMED_OWNER(n, b) && (n)->address == (b)->address)
#define NX_NAMED_BYTES(n, b) (NX_NAMED_ADDRESS(n, b) && ((n)->bytes == 0 || (n)->bytes == (b)->bytes))
/* clang-format on */
#endif
/*
 * Does what the caller says about an allocation agree with the books? OTHER_OWNER, OTHER_ADDRESS, OTHER_BYTES,
 * OTHER_ALIGNMENT, in that order. Judged before a slot is claimed, so that a wrong word changes nothing.
 */
/*@ requires named_readable: \valid_read(named);
    requires books_readable: \valid_read(books);
    assigns \nothing;
    behavior other_owner:
      assumes differs: !NX_NAMED_OWNER(named, books);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OTHER_OWNER, 0, named->owner, books->owner);
    behavior other_address:
      assumes before: NX_NAMED_OWNER(named, books);
      assumes differs: named->address != books->address;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OTHER_ADDRESS, 32, named->address, books->address);
    behavior other_bytes:
      assumes before: NX_NAMED_ADDRESS(named, books);
      assumes differs: named->bytes != 0 && named->bytes != books->bytes;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OTHER_BYTES, 40, named->bytes, books->bytes);
    behavior other_alignment:
      assumes before: NX_NAMED_BYTES(named, books);
      assumes differs: named->align != 0 && named->align != books->align;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OTHER_ALIGNMENT, 48, named->align, books->align);
    behavior same:
      assumes before: NX_NAMED_BYTES(named, books);
      assumes alignment: named->align == 0 || named->align == books->align;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_named(const nxmem_named *named, const nxmem_named *books);

/* What a release's answer makes of the allocation. */
typedef enum nxmem_release_fate {
  NXMEM_FATE_GONE = 0,       /* settled: the charge may be refunded */
  NXMEM_FATE_LIVE = 1,       /* nothing changed: may be tried again */
  NXMEM_FATE_QUARANTINED = 2 /* never handed out, never refunded */
} nxmem_release_fate;

/* deallocate: OK is gone, RELEASE_QUARANTINED is quarantine, any other status is live. */
/*@ assigns \nothing;
    ensures gone: \result == NXMEM_FATE_GONE <==> status_code == 0;
    ensures quarantined: \result == NXMEM_FATE_QUARANTINED <==> status_code == 12;
    ensures live: \result == NXMEM_FATE_LIVE <==> status_code != 0 && status_code != 12; */
nxmem_release_fate nxmem_judge_deallocate(uint32_t status_code);

/*
 * release_allocation: the status and the state it wrote.
 *
 * RELEASE_QUARANTINED is quarantine, whatever the record says. OK with COMPLETE is gone, OK with FAILED is live. A
 * failing status is live only with a record left unwritten or FAILED. Everything else is quarantine.
 */
/*@ assigns \nothing;
    behavior said_quarantined:
      assumes status: status_code == 12;
      ensures fate: \result == NXMEM_FATE_QUARANTINED;
    behavior complete_release:
      assumes status: status_code == 0;
      assumes record: state == 0;
      ensures fate: \result == NXMEM_FATE_GONE;
    behavior ok_but_failed:
      assumes status: status_code == 0;
      assumes record: state == 2;
      ensures fate: \result == NXMEM_FATE_LIVE;
    behavior ok_but_doubtful:
      assumes status: status_code == 0;
      assumes record: state != 0 && state != 2;
      ensures fate: \result == NXMEM_FATE_QUARANTINED;
    behavior failed:
      assumes status: status_code != 0 && status_code != 12;
      assumes record: state == 2 || state == 0xFFFFFFFF;
      ensures fate: \result == NXMEM_FATE_LIVE;
    behavior failed_but_doubtful:
      assumes status: status_code != 0 && status_code != 12;
      assumes record: state != 2 && state != 0xFFFFFFFF;
      ensures fate: \result == NXMEM_FATE_QUARANTINED;
    complete behaviors;
    disjoint behaviors; */
nxmem_release_fate nxmem_judge_release(uint32_t status_code, uint32_t state);

/*
 * 1 where the outcome's own `failure`, not the status, says why an allocation is still live: the status was OK.
 */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> status_code == 0 && fate == NXMEM_FATE_LIVE; */
int nxmem_failure_says_why(uint32_t status_code, nxmem_release_fate fate);

/*
 * The fate of an allocation that cannot stay live, because its allocator closes or its address was refused: gone
 * where it is gone, else quarantined.
 */
/*@ assigns \nothing;
    ensures gone: fate == NXMEM_FATE_GONE ==> \result == NXMEM_FATE_GONE;
    ensures kept: fate != NXMEM_FATE_GONE ==> \result == NXMEM_FATE_QUARANTINED; */
nxmem_release_fate nxmem_final_fate(nxmem_release_fate fate);

/* What a release wrote beside its status. */
typedef struct nxmem_outcome {
  uint32_t state;
  uint64_t unmapped_bytes;
  uint64_t residual_owned_bytes;
} nxmem_outcome;

/*
 * Copy of an outcome that the plugin may still be writing what is judged, each field once. `failure` is taken with
 * nxmem_status_take, and only where nxmem_failure_says_why.
 */
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out);
    assigns *out;
    ensures state: out->state == src->state;
    ensures unmapped_bytes: out->unmapped_bytes == src->unmapped_bytes;
    ensures residual_owned_bytes: out->residual_owned_bytes == src->residual_owned_bytes; */
#else
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, NX_LEDGER;
    ensures loads: NX_LOADED(4) && NX_LOADED(16) && NX_LOADED(24);
    ensures no_more_loads: !NX_LOADED(0) && !NX_LOADED(8) && NX_NOTHING_LOADED_FROM(25); */
#endif
void nxmem_outcome_take(NXMEM_UNTRUSTED NxmemReleaseOutcome *src, nxmem_outcome *out);

/* How a reported number of unmapped bytes is credited. */
typedef struct nxmem_refund {
  uint64_t from_charge;   /* credited against this allocation's own charge */
  uint64_t from_residual; /* credited against bytes that earlier releases of this allocator left mapped */
  uint64_t left;          /* of this allocation's charge: stays, joins the residual */
  uint64_t excess;        /* reported beyond both: never credited, a violation when not 0 */
  uint64_t credited;      /* from_charge + from_residual: what the mapped total falls by */
  uint64_t residual;      /* what releases of this allocator leave mapped from now on; at most 2^64-1 */
} nxmem_refund;

/*
 * Split what a gone allocation's release reports. from_charge + left == charged; from_charge + from_residual + excess
 * == reported. So a plugin whose allocations share pages may report them with whichever release unmaps them, and none
 * can refund more than was charged.
 */
/*@ requires out_writable: \valid(out);
    assigns *out;
    ensures bounded: out->from_charge <= charged && out->from_residual <= residual;
    ensures from_charge: out->from_charge == (reported < charged ? reported : charged);
    ensures charge_is_split: out->from_charge + out->left == charged;
    ensures from_residual: out->from_residual == (reported - out->from_charge < residual ? reported - out->from_charge
                                                                                         : residual);
    ensures report_is_split: out->from_charge + out->from_residual + out->excess == reported;
    ensures credited: out->credited == out->from_charge + out->from_residual;
    ensures residual: residual - out->from_residual + out->left <= 0xFFFFFFFFFFFFFFFF ==>
                      out->residual == residual - out->from_residual + out->left;
    ensures residual_full: residual - out->from_residual + out->left > 0xFFFFFFFFFFFFFFFF ==>
                           out->residual == 0xFFFFFFFFFFFFFFFF; */
void nxmem_settle_refund(uint64_t reported, uint64_t charged, uint64_t residual, nxmem_refund *out);

/*
 * Is a report believed whole? TOTAL_TOO_LARGE where part of it was in excess: with what was reported and what the
 * allocation itself is charged with.
 */
/*@ assigns \nothing;
    behavior credited:
      assumes within: excess == 0;
      ensures accepted: NX_ACCEPTED(\result);
    behavior too_large:
      assumes beyond: excess != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TOTAL_TOO_LARGE, 0, reported, charged);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_refund(uint64_t reported, uint64_t charged, uint64_t excess);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_OUTCOME_H */
