/*
 * findings.h: what an audit found in one file: rules, each with its evidence.
 * Attackers: names of the file inside the evidence; they are escaped before they are added.
 * Promise: evidence is one printable line.
 */
#ifndef NXMEM_AUDIT_FINDINGS_H
#define NXMEM_AUDIT_FINDINGS_H

#include <stddef.h>

#include "audit/rules.h"

typedef struct nx_audit_finding {
  nx_audit_rule_key rule;
  char *evidence; /* owned */
} nx_audit_finding;

typedef struct nx_audit_findings {
  nx_audit_finding *items;
  size_t count, room;
  size_t tally[NX_AUDIT_LEVELS];
} nx_audit_findings;

/* Ends the process when memory is out. What is not printable in the result is escaped. */
void nx_audit_add(nx_audit_findings *findings, nx_audit_rule_key rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void nx_audit_findings_free(nx_audit_findings *findings);

/* ---- Lists of names, as evidence --------------------------------------------------------------------------------- */

/* Escaped names, a comma between them, the first few; then how many more there are. */
typedef struct nx_audit_words {
  char *text; /* NULL: none yet; owned */
  size_t shown, count;
} nx_audit_words;

void nx_audit_word(nx_audit_words *words, const char *raw);

/* Adds a finding where there is any name, and frees the list. */
void nx_audit_add_words(nx_audit_findings *findings, nx_audit_rule_key rule, const char *lead, nx_audit_words *words);

#endif /* NXMEM_AUDIT_FINDINGS_H */
