/*
 * completion.c: Eva drivers of nxmem/completion.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a plugin that completes anything, at any address.
 * Promise: any completion against any record; tables of up to 8 records.
 */
#include "nxmem/completion.h"

#include "support.h"

static NXMEM_UNTRUSTED NxmemReleaseCompletion *any_completion(void) {
  switch (any32) {
    case 0u:
      return NULL;
    case 1u:
      return (NxmemReleaseCompletion *)eva_misaligned();
#ifdef NXMEM_QUIET_WORLD
    case 2u: {
      NxmemReleaseCompletion *head = (NxmemReleaseCompletion *)eva_block(8u);
      head->struct_size = any32 % NXMEM_COMPLETION_BYTES;
      return head;
    }
#endif
    default:
      return (NxmemReleaseCompletion *)eva_block(NXMEM_COMPLETION_BYTES);
  }
}

/* eva: -eva-min-loop-unroll 256 -eva-slevel-function nxmem_status_take:1 */
void eva_nxmem_completion_take(void) {
  NxmemReleaseCompletion out;
  (void)nxmem_completion_take(any_completion(), &out);
}

#ifdef NXMEM_QUIET_WORLD
void eva_nxmem_completion_take__size_only(void) {
  NxmemReleaseCompletion out;
  uint32_t *size = (uint32_t *)EVA_SIZE_ONLY;
  *size = any32 % NXMEM_COMPLETION_BYTES;
  (void)nxmem_completion_take((NxmemReleaseCompletion *)EVA_SIZE_ONLY, &out);
}
#endif

void eva_nxmem_judge_completion(void) {
  NxmemReleaseCompletion completion;
  nxmem_release_record record;
  eva_fill(&completion, sizeof(completion));
  eva_fill(&record, sizeof(record));
  (void)nxmem_judge_completion(&completion, &record, any64);
}

void eva_nxmem_completion_fate(void) { (void)nxmem_completion_fate(any32, any32); }

void eva_nxmem_word_won(void) { (void)nxmem_word_won(any64); }

void eva_nxmem_word_settled(void) {
  const uint32_t fate = any32;
  if (fate == NXMEM_FATE_GONE || fate == NXMEM_FATE_LIVE || fate == NXMEM_FATE_QUARANTINED) {
    (void)nxmem_word_settled(any64, (nxmem_release_fate)fate);
  }
}

/* eva: -eva-slevel-function nxmem_settle:0,nxmem_judge_completion:0,check_named:0 */
void eva_nxmem_settle(void) {
  enum { ROOM = 8 };
  nxmem_release_record records[ROOM];
  NxmemReleaseCompletion completion;
  static const uint32_t counts[] = {0u, 1u, 2u, 7u, ROOM};
  const uint32_t count = counts[eva_each(0u, 4u)];
  eva_fill(records, sizeof(records));
  eva_fill(&completion, sizeof(completion));
  (void)nxmem_settle(records + (ROOM - count), count, any64, &completion);
}

void eva_nxmem_judge_enqueue(void) { (void)nxmem_judge_enqueue(any32, any64, any64, any64); }

void eva_nxmem_retired(void) { (void)nxmem_retired(any64, any64, any64); }

void eva_nxmem_check_retired(void) { (void)nxmem_check_retired(any64, any64, any64); }

void eva_nxmem_check_ticket(void) { (void)nxmem_check_ticket(any32, any64); }

void eva_nxmem_check_pending(void) { (void)nxmem_check_pending(any64); }

void eva_nxmem_drain_goes_on(void) { (void)nxmem_drain_goes_on(any32, any64, any64); }
