/*
 * result.c: collecting verdicts, and printing them as lines.
 * Attackers: names from the plugin.
 * Promise: one line per verdict, printable.
 */
#include "conform/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "words.h"

const char *const NX_RULING_WORD[NX_RULINGS] = {"pass", "fail", "not applicable", "could not run"};

const char *nx_severity_word(nx_severity severity) { return severity == NX_SEVERITY_ERROR ? "error" : "warning"; }

void nx_result_add(nx_result *result, const nx_finding *finding) {
  if (result->count == result->room) {
    result->room = result->room ? result->room * 2 : 256;
    nx_finding *more = realloc(result->findings, result->room * sizeof *more);
    if (!more) nx_out_of_memory();
    result->findings = more;
  }
  result->findings[result->count++] = *finding;
  result->tally[finding->ruling]++;
}

void nx_result_free(nx_result *result) {
  for (size_t i = 0; i < result->count; i++) free(result->findings[i].evidence);
  free(result->findings);
}

const nx_finding *nx_result_find(const nx_result *result, const nx_rule *rule, const nx_target *target) {
  for (size_t i = 0; i < result->count; i++) {
    const nx_finding *finding = &result->findings[i];
    if (finding->rule == rule && (finding->target == target || !finding->target)) return finding;
  }
  return NULL;
}

void nx_where(const nx_target *target, char out[NX_WHERE_BYTES]) {
  char device[NX_DEVICE_WORD];
  if (!target) {
    strcpy(out, "module");
    return;
  }
  char *shown = nx_show_text(target->name);
  nx_device_word(target->device, device);
  snprintf(out, NX_WHERE_BYTES, "%s (%s)", shown, device);
  free(shown);
}

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

enum { RULING_WIDTH = 14 };

void nx_print_finding(const nx_finding *finding) {
  char where[NX_WHERE_BYTES];
  nx_where(finding->target, where);
  printf("  %-*s  %s  %s  %s: %s\n", RULING_WIDTH, NX_RULING_WORD[finding->ruling], finding->rule->id, where,
         finding->rule->statement, *finding->evidence ? finding->evidence : "as it says");
}

void nx_print_last_line(const nx_result *result) {
  const size_t *tally = result->tally;
  printf("conform: %zu rules, %zu passed, %zu failed, %zu not applicable",
         tally[NX_RULING_PASS] + tally[NX_RULING_FAIL], tally[NX_RULING_PASS], tally[NX_RULING_FAIL],
         tally[NX_RULING_NOT_APPLICABLE]);
  if (tally[NX_RULING_COULD_NOT_RUN]) printf(", %zu could not run", tally[NX_RULING_COULD_NOT_RUN]);
  printf("\n");
}

void nx_print_rules(void) {
  size_t count = 0;
  for (size_t i = 0; i < NX_FAMILY_COUNT; i++) {
    const nx_family *family = NX_FAMILIES[i];
    printf("%s: %s\n", family->name, family->about);
    for (size_t j = 0; j < family->count; j++)
      printf("  %s  %-7s  %s\n", family->rules[j].id, nx_severity_word(family->rules[j].severity),
             family->rules[j].statement);
    count += family->count;
  }
  printf("conform: %zu rules in %zu families\n", count, NX_FAMILY_COUNT);
}

void nx_print_rule(const nx_rule *rule) {
  printf("%s: %s\n", rule->id, rule->statement);
  printf("  severity  %s\n", nx_severity_word(rule->severity));
  printf("  section   CONVENTIONS.md, \"The contract\": %s\n", rule->section);
  printf("  tried on  %s\n", rule->scope == NX_SCOPE_MODULE ? "the module" : "each mechanism");
  printf("  rests on  %s\n", rule->needs ? rule->needs : "nothing");
}
