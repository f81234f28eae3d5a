/*
 * handle.c: Eva drivers of nxmem/handle.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a caller's made-up handle.
 * Promise: the preconditions of handle.h and nothing else.
 */
#include "nxmem/handle.h"

#include "support.h"

void eva_nxmem_handle_make(void) {
  const uint32_t slot = any32;
  if (slot < UINT32_MAX) (void)nxmem_handle_make(slot, any32);
}

void eva_nxmem_handle_generation(void) { (void)nxmem_handle_generation(any64); }

void eva_nxmem_handle_slot(void) { (void)nxmem_handle_slot(any64); }

void eva_nxmem_word_make(void) {
  const uint32_t users = any32;
  const uint32_t state = any32;
  if (users <= NXMEM_USERS_MAX && state <= 255u) (void)nxmem_word_make(any32, users, state);
}

void eva_nxmem_word_generation(void) { (void)nxmem_word_generation(any64); }

void eva_nxmem_word_users(void) { (void)nxmem_word_users(any64); }

void eva_nxmem_word_state(void) { (void)nxmem_word_state(any64); }

void eva_nxmem_check_claim(void) { (void)nxmem_check_claim(any64, any64); }

void eva_nxmem_word_freed(void) { (void)nxmem_word_freed(any64); }

void eva_nxmem_word_in_state(void) {
  const uint32_t state = any32;
  if (state <= 255u) (void)nxmem_word_in_state(any64, state);
}

void eva_nxmem_same_generation(void) { (void)nxmem_same_generation(any64, any64); }

void eva_nxmem_is_open(void) { (void)nxmem_is_open(any64); }

void eva_nxmem_is_owned(void) { (void)nxmem_is_owned(any64, any32, any64, any64); }

void eva_nxmem_check_live(void) { (void)nxmem_check_live(any64); }

void eva_nxmem_is_claimable(void) { (void)nxmem_is_claimable(any64, any64); }

void eva_nxmem_check_lost_claim(void) { (void)nxmem_check_lost_claim(any64, any64); }

void eva_nxmem_presence_of(void) {
  nxmem_verdict claim;
  eva_fill(&claim, sizeof(claim));
  (void)nxmem_presence_of(claim);
}
