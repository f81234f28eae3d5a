/* What the adapter has done so far. Private to the adapter. */
#ifndef NX_TORCH_COUNTS_H
#define NX_TORCH_COUNTS_H

#include <stdatomic.h>
#include <stdint.h>

/* As nxmem_torch_counts names them; pending is the host's to know. */
typedef struct nx_torch_counters {
  _Atomic uint64_t live_blocks, live_bytes, mallocs, failed_mallocs, retried_mallocs, frees, queued_frees, drained,
      kept_blocks, lost_blocks, foreign_frees, mismatched_frees, late_calls, streams;
} nx_torch_counters;

extern nx_torch_counters nx_torch_counted;

#endif /* NX_TORCH_COUNTS_H */
