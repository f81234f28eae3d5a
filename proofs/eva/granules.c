/*
 * granules.c: Eva drivers of nxmem/granules.h: each entry point once for everything that its contract allows.
 *
 * Attackers: any granule among others.
 * Promise: arrays of up to three granules that end where the count says; any granules for what only looks, any valid
 * ones for a step, but that a poisoned one is private.
 */
#include "nxmem/granules.h"

#include "support.h"

enum { SOME = 3 };

/* Any valid ones, each on one of three paths: sound and nobody's prefix, of a prefix, poisoned. */
static void fill_valid(nxmem_granule *granules) {
  for (uint32_t i = 0u; i < SOME; i++) {
    const uint32_t path = eva_each(0u, 2u);
    granules[i].references = path == 1u ? any8 % 2u : any32;
    granules[i].mapping = path == 0u ? any8 % 2u : path == 1u ? 2u + any8 % 2u : 1u;
    granules[i].poisoned = path == 2u ? 1u : 0u;
    granules[i].quarantined = any8 % 2u;
    granules[i].reserved = 0u;
  }
}

void eva_nxmem_granule_is(void) {
  nxmem_granule granule;
  eva_fill(&granule, sizeof(granule));
  (void)nxmem_granule_is(&granule, eva_each(1u, 4u));
}

void eva_nxmem_granules_next_run(void) {
  nxmem_granule granules[SOME];
  nxmem_granule_run run;
  const uint32_t count = eva_each(0u, SOME);
  eva_fill(granules, sizeof(granules));
  (void)nxmem_granules_next_run(granules + (SOME - count), count, eva_each(0u, count), eva_each(1u, 4u), &run);
}

void eva_nxmem_granules_cost(void) {
  nxmem_granule granules[SOME];
  const uint32_t count = eva_each(0u, SOME);
  eva_fill(granules, sizeof(granules));
  (void)nxmem_granules_cost(granules + (SOME - count), count);
}

void eva_nxmem_check_granules_take(void) {
  nxmem_granule granules[SOME];
  const uint32_t count = eva_each(0u, SOME);
  eva_fill(granules, sizeof(granules));
  (void)nxmem_check_granules_take(granules + (SOME - count), count);
}

void eva_nxmem_granules_take(void) {
  nxmem_granule granules[SOME];
  const uint32_t count = eva_each(0u, SOME);
  fill_valid(granules);
  (void)nxmem_granules_take(granules + (SOME - count), count);
}

void eva_nxmem_granules_drop(void) {
  nxmem_granule granules[SOME];
  const uint32_t count = eva_each(0u, SOME);
  fill_valid(granules);
  (void)nxmem_granules_drop(granules + (SOME - count), count);
}

void eva_nxmem_granules_unmapped(void) {
  nxmem_granule granules[SOME];
  const uint32_t count = eva_each(0u, SOME);
  fill_valid(granules);
  (void)nxmem_granules_unmapped(granules + (SOME - count), count);
}

void eva_nxmem_granules_quarantine(void) {
  nxmem_granule granules[SOME];
  const uint32_t count = eva_each(0u, SOME);
  fill_valid(granules);
  nxmem_granules_quarantine(granules + (SOME - count), count);
}

void eva_nxmem_check_granules_decommit(void) {
  nxmem_granule granules[SOME];
  const uint32_t count = eva_each(0u, SOME);
  eva_fill(granules, sizeof(granules));
  (void)nxmem_check_granules_decommit(granules + (SOME - count), count);
}
