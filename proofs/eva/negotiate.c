/*
 * negotiate.c: Eva drivers of nxmem/negotiate.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a request or an answer that holds anything.
 * Promise: any request, answer and offer; requests that end where they say.
 */
#include "nxmem/negotiate.h"

#include "support.h"

void eva_nxmem_range_is_valid(void) {
  NxmemVersionRange range;
  eva_fill(&range, sizeof(range));
  (void)nxmem_range_is_valid(&range);
}

static NXMEM_UNTRUSTED NxmemNegotiateRequest *any_request(void) {
  switch (any32) {
    case 0u:
      return NULL;
    case 1u:
      return (NxmemNegotiateRequest *)eva_misaligned();
#ifdef NXMEM_QUIET_WORLD
    case 2u: {
      NxmemNegotiateRequest *head = (NxmemNegotiateRequest *)eva_block(8u);
      head->struct_size = any32 % NXMEM_REQUEST_BYTES;
      return head;
    }
#endif
    default:
      return (NxmemNegotiateRequest *)eva_block(NXMEM_REQUEST_BYTES);
  }
}

void eva_nxmem_request_take(void) {
  NxmemNegotiateRequest out;
  (void)nxmem_request_take(any_request(), &out);
}

#ifdef NXMEM_QUIET_WORLD
void eva_nxmem_request_take__size_only(void) {
  NxmemNegotiateRequest out;
  uint32_t *size = (uint32_t *)EVA_SIZE_ONLY;
  *size = any32 % NXMEM_REQUEST_BYTES;
  (void)nxmem_request_take((NxmemNegotiateRequest *)EVA_SIZE_ONLY, &out);
}
#endif

void eva_nxmem_negotiate_decide(void) {
  NxmemNegotiateRequest request;
  NxmemNegotiateResponse response;
  nxmem_offer own;
  eva_fill(&request, sizeof(request));
  eva_fill(&own, sizeof(own));
  (void)nxmem_negotiate_decide(&request, &own, &response);
}

/* Any room: those below 40 one by one, because no domain of this Eva relates a number to its remainder. */
void eva_nxmem_response_extent(void) {
  const uint32_t room = any32;
  (void)nxmem_response_extent(room < NXMEM_RESPONSE_BYTES ? eva_each(0u, NXMEM_RESPONSE_BYTES - 1u) : room);
}

void eva_nxmem_response_take(void) {
  NxmemNegotiateResponse response;
  NxmemNegotiateResponse out;
  eva_fill(&response, sizeof(response));
  nxmem_response_take(&response, &out);
}

void eva_nxmem_negotiate_judge(void) {
  NxmemNegotiateResponse response;
  nxmem_offer own;
  eva_fill(&response, sizeof(response));
  eva_fill(&own, sizeof(own));
  (void)nxmem_negotiate_judge(any32, &response, &own);
}
