/*
 * outcome.c: Eva drivers of nxmem/outcome.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a plugin that answers anything.
 * Promise: the preconditions of outcome.h and nothing else; of nxmem_settle_refund see there.
 */
#include "nxmem/outcome.h"

#include "support.h"

void eva_nxmem_check_alloc_request(void) { (void)nxmem_check_alloc_request(any64, any64); }

void eva_nxmem_alloc_result_take(void) {
  NxmemAllocResult result;
  NxmemAllocResult out;
  eva_fill(&result, sizeof(result));
  nxmem_alloc_result_take(&result, &out);
}

void eva_nxmem_check_alloc_result(void) {
  const uint64_t align = any64;
  const uint64_t owned_total = any64;
  const uint64_t mapped_total = any64;
  if (align == 0u || owned_total > NXMEM_TOTAL_MAX || mapped_total > NXMEM_TOTAL_MAX) return;
  (void)nxmem_check_alloc_result(any64, any64, any64, any64, align, owned_total, mapped_total);
}

void eva_nxmem_judge_deallocate(void) { (void)nxmem_judge_deallocate(any32); }

void eva_nxmem_judge_release(void) { (void)nxmem_judge_release(any32, any32); }

void eva_nxmem_outcome_take(void) {
  NxmemReleaseOutcome outcome;
  nxmem_outcome out;
  eva_fill(&outcome, sizeof(outcome));
  nxmem_outcome_take(&outcome, &out);
}

/* The differences are between numbers in a record, which no domain of this Eva relates: bounds instead of any. */
void eva_nxmem_settle_refund(void) {
  const uint64_t reported = eva_bound();
  const uint64_t charged = eva_bound();
  nxmem_refund out;
  nxmem_settle_refund(reported, charged, eva_bound(), &out);
}

void eva_nxmem_check_refund(void) { (void)nxmem_check_refund(any64, any64, any64); }

void eva_nxmem_may_hand_back(void) { (void)nxmem_may_hand_back(any32); }

void eva_nxmem_check_named(void) {
  nxmem_named named;
  nxmem_named books;
  eva_fill(&named, sizeof(named));
  eva_fill(&books, sizeof(books));
  (void)nxmem_check_named(&named, &books);
}

void eva_nxmem_failure_says_why(void) { (void)nxmem_failure_says_why(any32, (nxmem_release_fate)any32); }

void eva_nxmem_final_fate(void) { (void)nxmem_final_fate((nxmem_release_fate)any32); }
