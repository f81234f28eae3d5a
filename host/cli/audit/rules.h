/*
 * rules.h: what nxmem audit looks for, and how grave each is.
 * No input. Promise: ids are stable and append-only: a rule that goes leaves a gap.
 */
#ifndef NXMEM_AUDIT_RULES_H
#define NXMEM_AUDIT_RULES_H

/* The words of SARIF. A note is something to know; anything above is a finding. */
typedef enum nx_audit_level { NX_AUDIT_NOTE, NX_AUDIT_WARNING, NX_AUDIT_ERROR, NX_AUDIT_LEVELS } nx_audit_level;

extern const char *const NX_AUDIT_LEVEL_WORD[NX_AUDIT_LEVELS];

typedef enum nx_audit_rule_key {
  NX_AUDIT_MISSING_EXPORT,
  NX_AUDIT_INDIRECT_EXPORT,
  NX_AUDIT_OTHER_EXPORT,
  NX_AUDIT_INTERPOSER,
  NX_AUDIT_REACHES_OUT,
  NX_AUDIT_CONSTRUCTOR,
  NX_AUDIT_DESTRUCTOR,
  NX_AUDIT_PREINIT,
  NX_AUDIT_IFUNC,
  NX_AUDIT_TEXTREL,
  NX_AUDIT_STACK,
  NX_AUDIT_WRITABLE_CODE,
  NX_AUDIT_NO_RELRO,
  NX_AUDIT_PARTIAL_RELRO,
  NX_AUDIT_LAZY_BINDING,
  NX_AUDIT_RELATIVE_PATH,
  NX_AUDIT_SEARCH_PATH,
  NX_AUDIT_MISSING_DEPENDENCY,
  NX_AUDIT_MISSING_VERSION,
  NX_AUDIT_NODELETE,
  NX_AUDIT_UNIQUE,
  NX_AUDIT_NOOPEN,
  NX_AUDIT_GLOBAL,
  NX_AUDIT_FILTER,
  NX_AUDIT_STATIC_TLS,
  NX_AUDIT_THREAD_DESTRUCTOR,
  NX_AUDIT_NO_BUILD_ID,
  NX_AUDIT_LARGE,
  NX_AUDIT_FILE_WRITABLE,
  NX_AUDIT_FILE_OWNER,
  NX_AUDIT_FILE_SETID,
  NX_AUDIT_FOLDER_WRITABLE,
  NX_AUDIT_FOLDER_GROUP,
  NX_AUDIT_FOLDER_STICKY,
  NX_AUDIT_FOLDER_OWNER,
  NX_AUDIT_LINK,
  NX_AUDIT_BREAKS_RULE,
  NX_AUDIT_BREAKS_ADVICE,
  NX_AUDIT_UNJUDGED,
  NX_AUDIT_REFUSED,
  NX_AUDIT_WARNED,
  NX_AUDIT_NO_MECHANISM,
  NX_AUDIT_CHANGED,
  NX_AUDIT_UNCONFINED,
  NX_AUDIT_NOT_RUN,
  NX_AUDIT_MANY_DEPENDENCIES,
  NX_AUDIT_LEAVES_PROCESSES,
  NX_AUDIT_RULES
} nx_audit_rule_key;

typedef struct nx_audit_rule {
  const char *id;
  const char *name; /* in words that fit a command line */
  nx_audit_level level;
  const char *statement;   /* one line: what was found */
  const char *explanation; /* one paragraph: why it matters and what to do */
} nx_audit_rule;

extern const nx_audit_rule NX_AUDIT_RULE[NX_AUDIT_RULES];

/* By id or name; NULL: none. */
const nx_audit_rule *nx_audit_rule_find(const char *word);

#endif /* NXMEM_AUDIT_RULES_H */
