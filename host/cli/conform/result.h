/*
 * result.h: all verdicts of a run, and the forms they are written in.
 * Attackers: names and evidence from the plugin: escaped when they arrive (child.c, nx_result_add).
 * Promise: every form shows the same verdicts; a file that could not be written is an error.
 */
#ifndef NXMEM_CONFORM_RESULT_H
#define NXMEM_CONFORM_RESULT_H

#include <jansson.h>

#include "conform/rule.h"

enum { NX_WHERE_BYTES = 1280 };

typedef struct nx_result {
  const char *file; /* escaped, absolute */
  nx_finding *findings;
  size_t count, room;
  size_t tally[NX_RULINGS];
  uint64_t elapsed_us;
  int exit_code;
} nx_result;

/* Takes the evidence over. */
void nx_result_add(nx_result *result, const nx_finding *finding);
void nx_result_free(nx_result *result);

/* The finding of a rule on a target, or on the module; NULL: not tried. */
const nx_finding *nx_result_find(const nx_result *result, const nx_rule *rule, const nx_target *target);

extern const char *const NX_RULING_WORD[NX_RULINGS];
const char *nx_severity_word(nx_severity severity);

/* "minimal (host:0)", escaped; "module" for NULL. */
void nx_where(const nx_target *target, char out[NX_WHERE_BYTES]);

void nx_print_finding(const nx_finding *finding);
void nx_print_last_line(const nx_result *result);
void nx_print_rules(void);
void nx_print_rule(const nx_rule *rule);

/* 0, or -1 with a line on stderr. */
int nx_write_json(const nx_result *result, const char *path);
int nx_write_junit(const nx_result *result, const char *path);
int nx_write_sarif(const nx_result *result, const char *path);

/* For the writers: says why a file could not be written. */
int nx_dump_document(json_t *document, const char *path);
int nx_cannot_write(const char *path);

#endif /* NXMEM_CONFORM_RESULT_H */
