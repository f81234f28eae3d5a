/*
 * dynamic.h: what a plugin does when it runs, as the conformance test and the host library see it.
 * Attackers: the plugin in the child, and the JSON that comes back.
 * Promise: texts are escaped again, shapes are checked; a plugin that ends its judge is a finding.
 */
#ifndef NXMEM_AUDIT_DYNAMIC_H
#define NXMEM_AUDIT_DYNAMIC_H

#include <jansson.h>
#include <stdint.h>

#include "audit/findings.h"

typedef struct nx_audit_trial {
  char *path; /* absolute */
  uint64_t limit_s;
  char *cycles; /* as nxmem conform takes it */
} nx_audit_trial;

/* The findings, and an object with what was learnt: the fences, negotiated, mechanisms. NULL where no child could start. */
json_t *nx_audit_judge_running(const nx_audit_trial *trial, nx_audit_findings *findings);

#endif /* NXMEM_AUDIT_DYNAMIC_H */
