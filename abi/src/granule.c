/*
 * granule.c: one granule, step by step.
 *
 * Attackers: steps that come twice or out of order.
 * Promise: a step that is refused changes nothing.
 */
#include "nxmem/granule.h"

#include "verdict_make.h"

int nxmem_granule_is_valid(const nxmem_granule *granule) {
  if (granule->mapping > NXMEM_MAPPING_SHARER || granule->poisoned > 1u || granule->quarantined > 1u) return 0;
  if (granule->poisoned != 0u && granule->mapping == NXMEM_MAPPING_NONE) return 0;
  return granule->mapping < NXMEM_MAPPING_OWNER || granule->references <= 1u;
}

int nxmem_granule_rests(const nxmem_granule *granule) {
  const int expected = granule->references != 0u || granule->poisoned == 1u;
  return (granule->mapping != NXMEM_MAPPING_NONE) == expected;
}

int nxmem_granule_must_map(const nxmem_granule *granule) {
  return granule->references != 0u && granule->mapping == NXMEM_MAPPING_NONE;
}

int nxmem_granule_must_unmap(const nxmem_granule *granule) {
  return granule->references == 0u && granule->mapping != NXMEM_MAPPING_NONE && granule->poisoned == 0u;
}

/* What keeps a granule from everybody: it is poisoned, kept back, or holds the bytes of a prefix. */
/*@ requires readable: \valid_read(granule);
    assigns \nothing;
    behavior poisoned:
      assumes for_good: granule->poisoned != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_POISONED, 0, granule->poisoned, 0);
    behavior quarantined:
      assumes not_poisoned: granule->poisoned == 0;
      assumes kept_back: granule->quarantined != 0;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_QUARANTINED, 0, granule->quarantined, 0);
    behavior shared:
      assumes sound: granule->poisoned == 0 && granule->quarantined == 0;
      assumes of_a_prefix: granule->mapping >= 2;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_SHARED, 0, granule->mapping, 0);
    behavior private:
      assumes sound: granule->poisoned == 0 && granule->quarantined == 0 && granule->mapping < 2;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
static nxmem_verdict check_private(const nxmem_granule *granule) {
  if (granule->poisoned != 0u) return nx_verdict(NXMEM_REASON_POISONED, 0u, granule->poisoned, 0u);
  if (granule->quarantined != 0u) return nx_verdict(NXMEM_REASON_QUARANTINED, 0u, granule->quarantined, 0u);
  if (granule->mapping >= NXMEM_MAPPING_OWNER) return nx_verdict(NXMEM_REASON_SHARED, 0u, granule->mapping, 0u);
  return nx_accept();
}

nxmem_verdict nxmem_check_granule_take(const nxmem_granule *granule) {
  const nxmem_verdict v = check_private(granule);
  if (v.reason != NXMEM_REASON_NONE) return v;
  if (granule->references == NXMEM_REFERENCES_MAX)
    return nx_verdict(NXMEM_REASON_TOO_MANY_REFERENCES, 0u, granule->references, NXMEM_REFERENCES_MAX);
  return nx_accept();
}

nxmem_verdict nxmem_granule_take(nxmem_granule *granule) {
  const nxmem_verdict v = nxmem_check_granule_take(granule);
  if (v.reason != NXMEM_REASON_NONE) return v;
  granule->references++;
  return nx_accept();
}

nxmem_verdict nxmem_granule_drop(nxmem_granule *granule) {
  if (granule->references == 0u) return nx_verdict(NXMEM_REASON_NO_REFERENCE, 0u, 0u, 1u);
  granule->references--;
  return nx_accept();
}

nxmem_verdict nxmem_check_granule_map(const nxmem_granule *granule, uint32_t mapping) {
  if (granule->references == 0u) return nx_verdict(NXMEM_REASON_NO_REFERENCE, 0u, 0u, 1u);
  if (granule->mapping != NXMEM_MAPPING_NONE) return nx_verdict(NXMEM_REASON_MAPPED, 0u, granule->mapping, 0u);
  if (granule->quarantined != 0u) return nx_verdict(NXMEM_REASON_QUARANTINED, 0u, granule->quarantined, 0u);
  if (mapping >= NXMEM_MAPPING_OWNER && granule->references > 1u)
    return nx_verdict(NXMEM_REASON_IN_USE, 0u, granule->references, 1u);
  return nx_accept();
}

nxmem_verdict nxmem_granule_mapped(nxmem_granule *granule, uint32_t mapping) {
  const nxmem_verdict v = nxmem_check_granule_map(granule, mapping);
  if (v.reason != NXMEM_REASON_NONE) return v;
  granule->mapping = (uint8_t)mapping;
  return nx_accept();
}

nxmem_verdict nxmem_granule_unmapped(nxmem_granule *granule) {
  if (granule->mapping == NXMEM_MAPPING_NONE) return nx_verdict(NXMEM_REASON_NOT_MAPPED, 0u, 0u, 1u);
  if (granule->poisoned != 0u) return nx_verdict(NXMEM_REASON_POISONED, 0u, granule->poisoned, 0u);
  if (granule->references != 0u) return nx_verdict(NXMEM_REASON_IN_USE, 0u, granule->references, 0u);
  granule->mapping = NXMEM_MAPPING_NONE;
  return nx_accept();
}

nxmem_verdict nxmem_granule_poison(nxmem_granule *granule) {
  if (granule->mapping == NXMEM_MAPPING_NONE) return nx_verdict(NXMEM_REASON_NOT_MAPPED, 0u, 0u, 1u);
  granule->poisoned = 1u;
  return nx_accept();
}

void nxmem_granule_quarantine(nxmem_granule *granule) { granule->quarantined = 1u; }

nxmem_verdict nxmem_check_granule_decommit(const nxmem_granule *granule) {
  const nxmem_verdict v = check_private(granule);
  if (v.reason != NXMEM_REASON_NONE) return v;
  if (granule->references > 1u) return nx_verdict(NXMEM_REASON_IN_USE, 0u, granule->references, 1u);
  return nx_accept();
}
