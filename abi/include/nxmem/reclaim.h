/*
 * reclaim.h: a plugin asks its host for memory back.
 *
 * Attackers: a plugin that asks in another's name or for another device, hands over a short record, or rewrites it
 * while it is judged; a hook that claims more than it was asked for.
 * Promise: what is asked belongs to who asks, and no more is reported back than was asked for.
 */
#ifndef NXMEM_RECLAIM_H
#define NXMEM_RECLAIM_H

#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NXMEM_RECLAIM_BYTES = 32 };

#ifdef __FRAMAC__
/* clang-format off */
#define NX_RECLAIM_READABLE(p) \
  (\valid_read(&(p)->struct_size) && ((p)->struct_size >= 32 ==> \valid_read(p)))
#define NX_RECLAIM_DEVICE(r) ((r)->device.tier * 4294967296 + (r)->device.index)
/* clang-format on */
#endif
/*
 * Copy a request that the plugin may still be writing, each field once. NULL_POINTER, MISALIGNED, SHORT_REQUEST: of a
 * record that says less than its full size nothing more is looked at. *out is written only on acceptance.
 */
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: NX_USABLE(src) ==> NX_RECLAIM_READABLE(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out);
    assigns *out;
    behavior unreadable:
      assumes refusable: !(NX_USABLE(src) && src->struct_size >= 32);
      assigns \nothing;
      ensures null_pointer: \old(NX_ADDRESS(src)) == 0 ==> NX_VERDICT_IS(\result, NXMEM_REASON_NULL_POINTER, 0, 0, 0);
      ensures misaligned: \old(NX_ADDRESS(src)) % 8 != 0 ==>
                          NX_VERDICT_IS(\result, NXMEM_REASON_MISALIGNED, 0, \old(NX_ADDRESS(src)) % 8, 8);
      ensures short_request: \old(NX_USABLE(src)) ==>
                             NX_VERDICT_IS(\result, NXMEM_REASON_SHORT_REQUEST, 0, src->struct_size, 32);
    behavior whole:
      assumes readable: NX_USABLE(src) && src->struct_size >= 32;
      ensures accepted: NX_ACCEPTED(\result);
      ensures header: out->struct_size == src->struct_size && out->reserved == 0;
      ensures mechanism_id: out->mechanism_id == src->mechanism_id;
      ensures tier: out->device.tier == src->device.tier;
      ensures index: out->device.index == src->device.index;
      ensures bytes: out->bytes == src->bytes;
    complete behaviors;
    disjoint behaviors; */
#else
/*@ requires src_readable: NX_USABLE(src) ==> \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, NX_LEDGER;
    ensures reason: \result.reason == NXMEM_REASON_NONE || \result.reason == NXMEM_REASON_NULL_POINTER ||
                    \result.reason == NXMEM_REASON_MISALIGNED || \result.reason == NXMEM_REASON_SHORT_REQUEST;
    ensures null_pointer: \result.reason == NXMEM_REASON_NULL_POINTER <==> NX_ADDRESS(src) == 0;
    ensures misaligned: \result.reason == NXMEM_REASON_MISALIGNED <==> NX_ADDRESS(src) % 8 != 0;
    ensures numbers: NX_ADDRESS_NUMBERS(\result, src);
    ensures unread: \result.reason == NXMEM_REASON_NULL_POINTER || \result.reason == NXMEM_REASON_MISALIGNED ==>
                    NX_NOTHING_LOADED_FROM(0);
    ensures short_request: \result.reason == NXMEM_REASON_SHORT_REQUEST ==>
                           \result.field == 0 && \result.found < 32 && \result.needed == 32 &&
                           NX_NOTHING_LOADED_FROM(4);
    ensures kept: \result.reason != NXMEM_REASON_NONE ==> *out == \old(*out);
    ensures size: \result.reason == NXMEM_REASON_NONE ==> out->struct_size >= 32 && out->reserved == 0;
    ensures loads: \result.reason == NXMEM_REASON_NONE ==>
                   NX_LOADED(0) && NX_LOADED(8) && NX_LOADED(16) && NX_LOADED(20) && NX_LOADED(24) && !NX_LOADED(4);
    ensures no_more_loads: NX_NOTHING_LOADED_FROM(25); */
#endif
nxmem_verdict nxmem_reclaim_take(NXMEM_UNTRUSTED NxmemReclaimRequest *src, NxmemReclaimRequest *out);

/*
 * May an allocator of this mechanism and device ask for that? OTHER_MECHANISM, OTHER_DEVICE (the numbers pack
 * tier * 2^32 + index), ZERO_BYTES.
 */
/*@ requires request_readable: \valid_read(request);
    assigns \nothing;
    behavior other_mechanism:
      assumes stranger: request->mechanism_id != mechanism_id;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OTHER_MECHANISM, 8, request->mechanism_id, mechanism_id);
    behavior other_device:
      assumes own: request->mechanism_id == mechanism_id;
      assumes elsewhere: request->device.tier != device.tier || request->device.index != device.index;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OTHER_DEVICE, 16, NX_RECLAIM_DEVICE(request),
                                     device.tier * 4294967296 + device.index);
    behavior zero_bytes:
      assumes own: request->mechanism_id == mechanism_id;
      assumes here: request->device.tier == device.tier && request->device.index == device.index;
      assumes nothing_asked: request->bytes == 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_ZERO_BYTES, 24, 0, 1);
    behavior possible:
      assumes own: request->mechanism_id == mechanism_id;
      assumes here: request->device.tier == device.tier && request->device.index == device.index;
      assumes asked: request->bytes != 0;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_reclaim(const NxmemReclaimRequest *request, uint64_t mechanism_id, NxmemDeviceId device);

/* What the plugin is told of what a hook says it gave back: no more than was asked for. */
/*@ assigns \nothing;
    ensures bounded: \result <= asked;
    ensures exact: \result == NX_LEAST(said, asked); */
uint64_t nxmem_reclaimed(uint64_t said, uint64_t asked);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_RECLAIM_H */
