/*
 * negotiate.c: both halves of the agreement.
 * Attackers: short or inverted requests; answers that lie in any field.
 * Promise: one call, its arguments in the order of the prototype; a request's block ends where it says it does.
 */
#include "nxmem/negotiate.h"

#include "call.h"

static void run_nxmem_range_is_valid(core_call *call) {
  nxmem_range_is_valid(core_given_next(call, sizeof(NxmemVersionRange)));
}

static void run_nxmem_request_take(core_call *call) {
  NxmemNegotiateRequest *out = core_room(call, sizeof *out);
  core_kept_unless_accepted(call, nxmem_request_take(core_declared(call, sizeof *out), out));
}

static void run_nxmem_negotiate_decide(core_call *call) {
  const NxmemNegotiateRequest *request = core_given_next(call, sizeof *request);
  const nxmem_offer *own = core_given_next(call, sizeof *own);
  nxmem_negotiate_decide(request, own, core_room(call, sizeof(NxmemNegotiateResponse)));
}

static void run_nxmem_response_extent(core_call *call) { nxmem_response_extent(fuzz_take_u32(&call->in)); }

static void run_nxmem_response_take(core_call *call) {
  const NxmemNegotiateResponse *given = core_given_next(call, sizeof *given);
  nxmem_response_take(given, core_room(call, sizeof(NxmemNegotiateResponse)));
}

static void run_nxmem_negotiate_judge(core_call *call) {
  const uint32_t status_code = fuzz_take_u32(&call->in);
  const NxmemNegotiateResponse *response = core_given_next(call, sizeof *response);
  nxmem_negotiate_judge(status_code, response, core_given_next(call, sizeof(nxmem_offer)));
}

static const core_row rows[] = {
    CORE_ROW(nxmem_range_is_valid),  CORE_ROW(nxmem_request_take),  CORE_ROW(nxmem_negotiate_decide),
    CORE_ROW(nxmem_response_extent), CORE_ROW(nxmem_response_take), CORE_ROW(nxmem_negotiate_judge),
};
CORE_TOPIC(negotiate);
