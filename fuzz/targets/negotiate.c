/*
 * negotiate.c: both halves of the agreement against a reference of rules.
 * Attackers: a host whose request is short, inverted or misplaced; a plugin that lies in any field of its answer or its
 * status.
 * Promise: same verdicts and bytes, nothing written beyond the caller's room, and an honest answer is always accepted.
 *
 * Input: u8 room (modulo 65) | u8 skew (modulo 8) | u32 status code | 24 bytes: the plugin's range and capabilities |
 * 40 bytes: the
 * answer it gives instead | the request.
 */
#include "nxmem/negotiate.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "reference_negotiate.h"

enum { OFFER_BYTES = 24 };
_Static_assert(sizeof(NxmemNegotiateResponse) == REF_ANSWER_BYTES, "no padding: compared byte by byte");

static nxmem_offer offer_of(const ref_side *side) {
  const nxmem_offer offer = {{side->major_min, side->major_max, side->minor_min, side->minor_max}, side->flags};
  return offer;
}

static nxmem_verdict expected_of_request(uintptr_t address, uint32_t struct_size) {
  const nxmem_verdict null = {NXMEM_REASON_NULL_POINTER, 0, 0, 0};
  const nxmem_verdict misaligned = {NXMEM_REASON_MISALIGNED, 0, address % 8, 8};
  const nxmem_verdict too_short = {NXMEM_REASON_SHORT_REQUEST, 0, struct_size, REF_REQUEST_BYTES};
  const nxmem_verdict none = {NXMEM_REASON_NONE, 0, 0, 0};
  if (address == 0) return null;
  if (address % 8 != 0) return misaligned;
  return struct_size < REF_REQUEST_BYTES ? too_short : none;
}

/* 1 where it was accepted, and then *taken is what the plugin half goes on with. */
static int take_request(const void *src, const uint8_t *bytes, uint32_t struct_size, NxmemNegotiateRequest *taken) {
  NxmemNegotiateRequest out;
  memset(&out, FUZZ_CANARY, sizeof out);
  const nxmem_verdict expected = expected_of_request((uintptr_t)src, struct_size);
  fuzz_same_verdict("request", nxmem_request_take(src, &out), expected);
  if (expected.reason != NXMEM_REASON_NONE) {
    if (!fuzz_untouched(&out, sizeof out)) fuzz_fail("request", "an output was written on refusal");
    return 0;
  }
  uint8_t wanted[REF_REQUEST_BYTES];
  memcpy(wanted, bytes, sizeof wanted);
  memset(wanted + 4, 0, 4); /* reserved */
  fuzz_same_bytes("request", &out, wanted, sizeof wanted);
  *taken = out;
  return 1;
}

/* A request at each place: exactly sized, before the guard page, and at addresses that must not be followed. */
static int run_request(const fuzz_input *request, uint32_t skew, NxmemNegotiateRequest *taken) {
  NxmemNegotiateRequest unused;
  take_request(NULL, NULL, 0, &unused);
  if (skew != 0) take_request((const void *)(fuzz_unreadable() + skew), NULL, 0, &unused);
  uint32_t struct_size = 0;
  if (request->left < sizeof struct_size) return 0;
  memcpy(&struct_size, request->at, sizeof struct_size);
  const uint32_t extent = struct_size < REF_REQUEST_BYTES ? (uint32_t)sizeof struct_size : (uint32_t)REF_REQUEST_BYTES;
  if (extent > request->left) return 0; /* the fetch refuses it */

  void *exact = fuzz_exact(request->at, extent);
  const int accepted = take_request(exact, request->at, struct_size, taken);
  take_request(fuzz_at_guard(request->at, extent), request->at, struct_size, &unused);
  free(exact);
  return accepted;
}

/* What reaches a caller that offers `room` bytes: whole fields, no further. */
static void run_room(uint32_t room, const NxmemNegotiateResponse *response, const uint8_t *expected) {
  const uint32_t extent = nxmem_response_extent(room);
  fuzz_same_number("response extent", extent, ref_answer_extent(room));
  uint8_t *buffer = fuzz_exact_canary(room);
  if (extent != 0) memcpy(buffer, response, extent);
  fuzz_same_bytes("response in its room", buffer, expected, extent);
  free(buffer);
}

static void run_plugin_half(const NxmemNegotiateRequest *request, const ref_side *plugin, uint32_t room,
                            const ref_side *host) {
  NxmemNegotiateResponse response;
  ref_answer answer;
  uint8_t bytes[REF_ANSWER_BYTES];
  memset(&response, FUZZ_CANARY, sizeof response);
  const nxmem_offer own = offer_of(plugin);
  const nxmem_verdict expected = ref_decide(host, plugin, &answer);
  ref_answer_bytes(&answer, bytes);
  fuzz_same_verdict("plugin half", nxmem_negotiate_decide(request, &own, &response), expected);
  fuzz_same_bytes("plugin half, response", &response, bytes, sizeof bytes);
  run_room(room, &response, bytes);

  const nxmem_offer offered = offer_of(host);
  if (expected.reason == NXMEM_REASON_NONE)
    fuzz_same_verdict("honest answer", nxmem_negotiate_judge(0, &response, &offered), expected);
}

/* The plugin's lie, taken from an exactly sized block and from before the guard page. */
static void run_host_half(uint32_t status_code, const uint8_t lie[REF_ANSWER_BYTES], const ref_side *host) {
  ref_answer answer;
  uint8_t bytes[REF_ANSWER_BYTES];
  NxmemNegotiateResponse taken;
  ref_answer_from(lie, &answer);
  ref_answer_bytes(&answer, bytes);

  void *exact = fuzz_exact(lie, REF_ANSWER_BYTES);
  nxmem_response_take(exact, &taken);
  free(exact);
  fuzz_same_bytes("answer", &taken, bytes, sizeof bytes);
  nxmem_response_take(fuzz_at_guard(lie, REF_ANSWER_BYTES), &taken);
  fuzz_same_bytes("answer before the guard page", &taken, bytes, sizeof bytes);

  const nxmem_offer own = offer_of(host);
  fuzz_same_verdict("host half", nxmem_negotiate_judge(status_code, &taken, &own),
                    ref_judge(status_code, &answer, host));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = fuzz_begin(data, size);
  const uint32_t room = fuzz_take_u8(&in) % 65u;
  const uint32_t skew = fuzz_take_u8(&in) % 8u;
  const uint32_t status_code = fuzz_take_u32(&in);
  uint8_t offer[OFFER_BYTES];
  uint8_t lie[REF_ANSWER_BYTES];
  ref_side plugin;
  ref_side host;
  fuzz_take(&in, offer, sizeof offer);
  fuzz_take(&in, lie, sizeof lie);
  ref_side_from(offer, &plugin);

  NxmemNegotiateRequest request;
  const int accepted = run_request(&in, skew, &request);
  ref_side_from(accepted ? in.at + 8 : offer, &host);
  fuzz_same_number("range",
                   (uint64_t)nxmem_range_is_valid(
                       &(NxmemVersionRange){host.major_min, host.major_max, host.minor_min, host.minor_max}),
                   host.major_max >= host.major_min && host.minor_max >= host.minor_min);
  if (accepted) run_plugin_half(&request, &plugin, room, &host);
  run_host_half(status_code, lie, &host);
  return 0;
}
