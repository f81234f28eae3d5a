/* What a policy opened, for its caller. Private to the library. */
#ifndef NX_POLICY_REPORT_H
#define NX_POLICY_REPORT_H

#include "contents.h"

/* What was found out about a file that is allowed. */
typedef struct nx_findings {
  const nx_policy_row *row;
  uint64_t file_bytes;
  uint8_t sha256[NX_SHA256_BYTES];
  char comment[NX_COMMENT_ROOM]; /* "" where no signature was asked for */
  nx_contents contents;
} nx_findings;

/* NULL: no memory. The caller's until nxmem_policy_report_free(). */
nxmem_policy_report *nx_report_make(const nx_findings *found);

#endif /* NX_POLICY_REPORT_H */
