/*
 * negotiate.h: agreeing on a version and a set of capabilities, both halves.
 *
 * Attackers: a host whose request is short or inverted (plugin half); a plugin whose answer lies in any field (host half).
 * Promise: closed by default. The plugin half writes no further than the room its caller declared; the host half accepts only an
 * answer whose every field stands inside what both sides said.
 */
#ifndef NXMEM_NEGOTIATE_H
#define NXMEM_NEGOTIATE_H

#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"
#ifdef __FRAMAC__
#include "nxmem/negotiate_words.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { NXMEM_REQUEST_BYTES = 32, NXMEM_RESPONSE_BYTES = 40 };

/* What one side implements. */
typedef struct nxmem_offer {
  NxmemVersionRange range;
  uint64_t capability_flags;
} nxmem_offer;

/* 1 where min is not above max for major and for minor. */
/*@ requires range_readable: \valid_read(range);
    assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_RANGE_VALID(*range); */
int nxmem_range_is_valid(const NxmemVersionRange *range);

/*
 * Copy a request, each field once. NULL_POINTER, MISALIGNED, SHORT_REQUEST; *out is written only on acceptance.
 */
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: NX_USABLE(src) ==> NX_REQUEST_READABLE(src);
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
      ensures range: NX_RANGE_COPIED(out->host_range, src->host_range);
      ensures flags: out->host_capability_flags == src->host_capability_flags;
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
    ensures within: \result.reason == NXMEM_REASON_NONE ==> NX_NOTHING_LOADED_FROM(32); */
#endif
nxmem_verdict nxmem_request_take(NXMEM_UNTRUSTED NxmemNegotiateRequest *src, NxmemNegotiateRequest *out);

/*
 * Plugin half: judge a request (already taken) against our own offer and fill a whole response.
 *
 * The major is the highest that both ranges hold, the minor the smaller of both maxima; capabilities are own, offered, known, and defined at the agreed minor.
 * INVERTED_RANGE, NO_COMMON_MAJOR, NO_COMMON_MINOR (VERSION_MISMATCH on the wire), NO_ALLOCATOR (UNSUPPORTED_CAPABILITY).
 * On refusal the response still reports our own range; agreed versions and capabilities are 0.
 */
/*@ requires request_readable: \valid_read(request);
    requires own_readable: \valid_read(own);
    requires response_writable: \valid(response);
    requires apart: \separated(response, request) && \separated(response, own);
    assigns *response;
    ensures header: response->struct_size == 40 && response->reserved == 0;
    ensures own_range: NX_RANGE_COPIED(response->plugin_range, own->range);
    behavior no_version:
      assumes apart_versions: !NX_COMMON(request->host_range, own->range);
      ensures refused: NX_COMMON_REFUSED(\result, request->host_range, own->range);
      ensures nothing_agreed: NX_AGREED(response, 0, 0, 0);
    behavior no_allocator:
      assumes common: NX_COMMON(request->host_range, own->range);
      assumes no_bit: !NX_HAS(NX_SHARED_CAPS(request, own), 1);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NO_ALLOCATOR, 32, NX_SHARED_CAPS(request, own), 1);
      ensures nothing_agreed: NX_AGREED(response, 0, 0, 0);
    behavior agreed:
      assumes common: NX_COMMON(request->host_range, own->range);
      assumes bit: NX_HAS(NX_SHARED_CAPS(request, own), 1);
      ensures accepted: NX_ACCEPTED(\result);
      ensures agreed: NX_AGREED(response, NX_BEST_MAJOR(request->host_range, own->range),
                                NX_BEST_MINOR(request->host_range, own->range), NX_SHARED_CAPS(request, own));
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_negotiate_decide(const NxmemNegotiateRequest *request, const nxmem_offer *own,
                                     NxmemNegotiateResponse *response);

/*
 * How many bytes of a response may be written into a caller's buffer of `room` bytes: whole 32-bit words, the flags whole or not at all, at most our full size.
 */
/*@ assigns \nothing;
    ensures whole: room >= 40 ==> \result == 40;
    ensures without_flags: 32 <= room < 40 ==> \result == 32;
    ensures whole_words: room < 32 ==> \result == room - room % 4; */
uint32_t nxmem_response_extent(uint32_t room);

/* Copy a response that the plugin may still be writing, each field once. */
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out);
    assigns *out;
    ensures header: out->struct_size == src->struct_size && out->reserved == 0;
    ensures version: out->agreed_major == src->agreed_major && out->agreed_minor == src->agreed_minor;
    ensures range: NX_RANGE_COPIED(out->plugin_range, src->plugin_range);
    ensures flags: out->capability_flags == src->capability_flags; */
#else
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, NX_LEDGER;
    ensures reserved: out->reserved == 0;
    ensures loads: NX_LOADED(0) && NX_LOADED(4) && NX_LOADED(8) && NX_LOADED(16) && NX_LOADED(20) && NX_LOADED(24) &&
                   NX_LOADED(28) && NX_LOADED(32);
    ensures no_more_loads: !NX_LOADED(12) && NX_NOTHING_LOADED_FROM(33); */
#endif
void nxmem_response_take(NXMEM_UNTRUSTED NxmemNegotiateResponse *src, NxmemNegotiateResponse *out);

/*
 * Host half: judge a plugin's answer (already taken).
 *
 * status_code  What the call returned.
 * own          What the request offered.
 *
 * In this order: PLUGIN_REFUSED, SHORT_RESPONSE, INVERTED_RANGE (the plugin's), MAJOR_OUT_OF_RANGE and MINOR_OUT_OF_RANGE (our bounds, then
 * the plugin's reported ones), UNKNOWN_CAPABILITY, CAPS_BEYOND_OFFER, NO_ALLOCATOR, CAPS_BEYOND_LEVEL.
 */
/*@ requires response_readable: \valid_read(response);
    requires own_readable: \valid_read(own);
    assigns \nothing;
    behavior plugin_refused:
      assumes failing: status_code != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_PLUGIN_REFUSED, 0, status_code, 0);
    behavior short_response:
      assumes answered: status_code == 0;
      assumes short_size: response->struct_size < 40;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_SHORT_RESPONSE, 0, response->struct_size, 40);
    behavior inverted:
      assumes whole: NX_ANSWERED(status_code, response);
      assumes inverted_range: !NX_RANGE_VALID(response->plugin_range);
      ensures refused: NX_INVERTED(\result, response->plugin_range, 16);
    behavior outside_ours:
      assumes ordered: NX_ANSWERED(status_code, response) && NX_RANGE_VALID(response->plugin_range);
      assumes outside: !NX_VERSION_INSIDE(response, own->range);
      ensures refused: NX_VERSION_REFUSED(\result, response, own->range);
    behavior outside_theirs:
      assumes ordered: NX_ANSWERED(status_code, response) && NX_RANGE_VALID(response->plugin_range);
      assumes inside_ours: NX_VERSION_INSIDE(response, own->range);
      assumes outside: !NX_VERSION_INSIDE(response, response->plugin_range);
      ensures refused: NX_VERSION_REFUSED(\result, response, response->plugin_range);
    behavior wrong_flags:
      assumes version: NX_ANSWERED_VERSION(status_code, response, own->range);
      assumes flags: !NX_FLAGS_FIT(response->capability_flags, own->capability_flags, response->agreed_minor);
      ensures refused: NX_FLAGS_REFUSED(\result, response->capability_flags, own->capability_flags,
                                        response->agreed_minor);
    behavior usable:
      assumes version: NX_ANSWERED_VERSION(status_code, response, own->range);
      assumes flags: NX_FLAGS_FIT(response->capability_flags, own->capability_flags, response->agreed_minor);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_negotiate_judge(uint32_t status_code, const NxmemNegotiateResponse *response,
                                    const nxmem_offer *own);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_NEGOTIATE_H */
