/*
 * lifecycle.c: Eva drivers of nxmem/lifecycle.h: each entry point once for everything that its contract allows.
 *
 * Attackers: callers that race every step against every other.
 * Promise: any numbers where Eva can relate them; where it cannot, see there.
 */
#include "nxmem/lifecycle.h"

#include "support.h"

void eva_nxmem_lifecycle_of(void) { (void)nxmem_lifecycle_of(any64); }

/* No domain of this Eva relates a word to its parts: words whose parts are bounds, each on a path of its own. */
static uint64_t some_word(void) {
  static const uint32_t generations[] = {0u, 1u, 0x7FFFFFFFu, 0xFFFFFFFFu};
  static const uint32_t users[] = {0u, 1u, 3u, NXMEM_USERS_MAX};
  static const uint32_t states[] = {0u, NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING, 255u};
  const uint64_t generation = generations[eva_each(0u, 3u)];
  const uint32_t user = users[eva_each(0u, 3u)];
  const uint32_t state = states[eva_each(0u, 3u)];
  return generation * 4294967296u + user * 256u + state;
}

void eva_nxmem_word_in_lifecycle(void) { (void)nxmem_word_in_lifecycle(some_word(), eva_each(0u, 3u)); }

void eva_nxmem_lifecycle_leads(void) { (void)nxmem_lifecycle_leads(any32, any32); }

void eva_nxmem_check_work(void) { (void)nxmem_check_work(any32, any32); }

void eva_nxmem_check_removal(void) {
  nxmem_holdings holdings;
  eva_fill(&holdings, sizeof(holdings));
  (void)nxmem_check_removal(any32, &holdings);
}

void eva_nxmem_settle_owned(void) { (void)nxmem_settle_owned(any32, any32); }

void eva_nxmem_keep_owned(void) { (void)nxmem_keep_owned(any32, (nxmem_keeping)eva_each(0u, 7u)); }
