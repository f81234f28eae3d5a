/*
 * rule.h: a rule of the contract that a host can observe, and what came of it.
 * Attackers: none; what a plugin says is judged in the check functions.
 * Promise: ids are stable and append-only: a rule that goes leaves a gap.
 */
#ifndef NXMEM_CONFORM_RULE_H
#define NXMEM_CONFORM_RULE_H

#include <stddef.h>
#include <stdint.h>

#include "nxmem_memory_abi.h"

typedef enum nx_ruling {
  NX_RULING_PASS,
  NX_RULING_FAIL,
  NX_RULING_NOT_APPLICABLE,
  NX_RULING_COULD_NOT_RUN,
  NX_RULINGS
} nx_ruling;

typedef enum nx_severity { NX_SEVERITY_ERROR, NX_SEVERITY_WARNING } nx_severity;

typedef enum nx_scope { NX_SCOPE_MODULE, NX_SCOPE_MECHANISM } nx_scope;

struct nx_trial;

typedef struct nx_rule {
  const char *id;
  const char *statement; /* one line */
  const char *section;   /* of CONVENTIONS.md, "The contract" */
  nx_severity severity;
  nx_scope scope;
  const char *needs;   /* id of the rule without which this one means nothing; NULL: none */
  uint64_t capability; /* a mechanism without it is not judged; 0: none beyond ALLOCATOR */
  void (*check)(struct nx_trial *trial, const void *with);
  const void *with; /* what this row is, for a check that serves several rows */
} nx_rule;

typedef struct nx_family {
  const char *name;  /* what its rules are about */
  const char *about; /* one line */
  const nx_rule *rules;
  size_t count;
} nx_family;

extern const nx_family *const NX_FAMILIES[];
extern const size_t NX_FAMILY_COUNT;

/* NULL where there is none. */
const nx_rule *nx_rule_find(const char *id);

/* The nth rule over all families; NULL behind the last. */
const nx_rule *nx_rule_at(size_t index);

#define NX_FAMILY(title, line, rows) \
  { .name = (title), .about = (line), .rules = (rows), .count = sizeof(rows) / sizeof((rows)[0]) }

/* Which mechanism a rule is tried on. */
enum { NX_LABEL_BYTES = 256 };

typedef struct nx_target {
  char name[NX_LABEL_BYTES]; /* as published; "#N" where that is no fit name */
  NxmemDeviceId device;
  uint32_t index; /* in the list of factories */
} nx_target;

enum { NX_EVIDENCE_BYTES = 512, NX_STEP_BYTES = 128 };

typedef struct nx_finding {
  const nx_rule *rule;
  const nx_target *target; /* NULL: the module */
  nx_ruling ruling;
  char *evidence; /* printable; owned */
  uint64_t elapsed_us;
} nx_finding;

#endif /* NXMEM_CONFORM_RULE_H */
