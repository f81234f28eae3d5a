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
int nxmem_range_is_valid(const NxmemVersionRange *range);

/*
 * Copy a request, each field once. NULL_POINTER, MISALIGNED, SHORT_REQUEST; *out is written only on acceptance.
 */
nxmem_verdict nxmem_request_take(NXMEM_UNTRUSTED NxmemNegotiateRequest *src, NxmemNegotiateRequest *out);

/*
 * Plugin half: judge a request (already taken) against our own offer and fill a whole response.
 *
 * The major is the highest that both ranges hold, the minor the smaller of both maxima; capabilities are own, offered, known, and defined at the agreed minor.
 * INVERTED_RANGE, NO_COMMON_MAJOR, NO_COMMON_MINOR (VERSION_MISMATCH on the wire), NO_ALLOCATOR (UNSUPPORTED_CAPABILITY).
 * On refusal the response still reports our own range; agreed versions and capabilities are 0.
 */
nxmem_verdict nxmem_negotiate_decide(const NxmemNegotiateRequest *request, const nxmem_offer *own,
                                     NxmemNegotiateResponse *response);

/*
 * How many bytes of a response may be written into a caller's buffer of `room` bytes: whole fields only, at most our full size.
 */
uint32_t nxmem_response_extent(uint32_t room);

/* Copy a response that the plugin may still be writing, each field once. */
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
nxmem_verdict nxmem_negotiate_judge(uint32_t status_code, const NxmemNegotiateResponse *response,
                                    const nxmem_offer *own);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_NEGOTIATE_H */
