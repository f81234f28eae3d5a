/* Private to the core: verdicts by name, so that a refusal reads as one line. */
#ifndef NX_VERDICT_MAKE_H
#define NX_VERDICT_MAKE_H

#include "nxmem/verdict.h"

/*@ assigns \nothing;
    ensures exactly: NX_VERDICT_IS(\result, reason, field, found, needed); */
static inline nxmem_verdict nx_verdict(nxmem_reason reason, uint32_t field, uint64_t found, uint64_t needed) {
  nxmem_verdict v;
  v.reason = (uint32_t)reason;
  v.field = field;
  v.found = found;
  v.needed = needed;
  return v;
}

/*@ assigns \nothing;
    ensures accepted: NX_ACCEPTED(\result); */
static inline nxmem_verdict nx_accept(void) { return nx_verdict(NXMEM_REASON_NONE, 0u, 0u, 0u); }

#endif /* NX_VERDICT_MAKE_H */
