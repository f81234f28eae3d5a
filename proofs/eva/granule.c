/*
 * granule.c: Eva drivers of nxmem/granule.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a granule in any state.
 * Promise: any granule for what only looks; any valid one for a step, each mapping on a path of its own.
 */
#include "nxmem/granule.h"

#include "support.h"

static nxmem_granule any_granule(void) {
  nxmem_granule granule;
  eva_fill(&granule, sizeof(granule));
  return granule;
}

/* Any that the invariants allow. */
static nxmem_granule valid_granule(void) {
  nxmem_granule granule;
  granule.mapping = (uint8_t)eva_each(0u, 3u);
  granule.poisoned = granule.mapping == 0u ? 0u : (uint8_t)eva_each(0u, 1u);
  granule.quarantined = (uint8_t)eva_each(0u, 1u);
  granule.reserved = any8;
  granule.references = granule.mapping >= 2u ? eva_each(0u, 1u) : any32;
  return granule;
}

void eva_nxmem_granule_is_valid(void) {
  const nxmem_granule granule = any_granule();
  (void)nxmem_granule_is_valid(&granule);
}

void eva_nxmem_granule_rests(void) {
  const nxmem_granule granule = any_granule();
  (void)nxmem_granule_rests(&granule);
}

void eva_nxmem_granule_must_map(void) {
  const nxmem_granule granule = any_granule();
  (void)nxmem_granule_must_map(&granule);
}

void eva_nxmem_granule_must_unmap(void) {
  const nxmem_granule granule = any_granule();
  (void)nxmem_granule_must_unmap(&granule);
}

void eva_nxmem_check_granule_take(void) {
  const nxmem_granule granule = any_granule();
  (void)nxmem_check_granule_take(&granule);
}

void eva_nxmem_granule_take(void) {
  nxmem_granule granule = valid_granule();
  (void)nxmem_granule_take(&granule);
}

void eva_nxmem_granule_drop(void) {
  nxmem_granule granule = valid_granule();
  (void)nxmem_granule_drop(&granule);
}

void eva_nxmem_check_granule_map(void) {
  const nxmem_granule granule = any_granule();
  (void)nxmem_check_granule_map(&granule, eva_each(1u, 3u));
}

void eva_nxmem_granule_mapped(void) {
  nxmem_granule granule = valid_granule();
  (void)nxmem_granule_mapped(&granule, eva_each(1u, 3u));
}

void eva_nxmem_granule_unmapped(void) {
  nxmem_granule granule = valid_granule();
  (void)nxmem_granule_unmapped(&granule);
}

void eva_nxmem_granule_poison(void) {
  nxmem_granule granule = valid_granule();
  (void)nxmem_granule_poison(&granule);
}

void eva_nxmem_granule_quarantine(void) {
  nxmem_granule granule = valid_granule();
  nxmem_granule_quarantine(&granule);
}

void eva_nxmem_check_granule_decommit(void) {
  const nxmem_granule granule = any_granule();
  (void)nxmem_check_granule_decommit(&granule);
}
