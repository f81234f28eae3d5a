/*
 * confine.h: a process takes rights from itself before it runs a plugin's code.
 * Attackers: that code, afterwards.
 * Promise: what is taken away stays away, for every child of the process too; what could not be taken away is named.
 */
#ifndef NXMEM_AUDIT_CONFINE_H
#define NXMEM_AUDIT_CONFINE_H

#include <stdint.h>

typedef enum nx_audit_fence {
  NX_FENCE_PRIVILEGES,
  NX_FENCE_CAPABILITIES,
  NX_FENCE_SECCOMP,
  NX_FENCE_FILES,
  NX_FENCE_TRUNCATE,
  NX_FENCE_DEVICES,
  NX_FENCE_TCP,
  NX_FENCE_SIGNALS,
  NX_FENCE_TIME,
  NX_FENCE_MEMORY,
  NX_FENCE_DESCRIPTORS,
  NX_FENCE_PROCESSES,
  NX_FENCE_LAST_MEMORY,
  NX_FENCES
} nx_audit_fence;

typedef struct nx_audit_fence_words {
  const char *name;
  const char *about; /* what it keeps away */
} nx_audit_fence_words;

extern const nx_audit_fence_words NX_AUDIT_FENCE[NX_FENCES];

/* errno of each fence that could not be put up; 0: it stands. */
typedef struct nx_audit_fences {
  int32_t failed[NX_FENCES];
} nx_audit_fences;

/* `seconds`: of processor time for each process. */
void nx_audit_confine(uint64_t seconds, nx_audit_fences *out);

#endif /* NXMEM_AUDIT_CONFINE_H */
