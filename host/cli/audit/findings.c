/*
 * findings.c: collecting findings.
 * Attackers: names of the file inside the evidence.
 * Promise: evidence is one printable line of bounded length.
 */
#include "audit/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static char *fit(char *text) {
  if (nx_is_printable(text)) return text;
  char *shown = nx_show_text(text);
  free(text);
  return shown;
}

void nx_audit_add(nx_audit_findings *findings, nx_audit_rule_key rule, const char *format, ...) {
  char *evidence = NULL;
  va_list arguments;
  va_start(arguments, format);
  int written = vasprintf(&evidence, format, arguments);
  va_end(arguments);
  if (written < 0) nx_out_of_memory();
  if (findings->count == findings->room) {
    findings->room = findings->room ? findings->room * 2 : 16;
    findings->items = realloc(findings->items, findings->room * sizeof *findings->items);
    if (!findings->items) nx_out_of_memory();
  }
  findings->items[findings->count++] = (nx_audit_finding){rule, fit(evidence)};
  findings->tally[NX_AUDIT_RULE[rule].level]++;
}

void nx_audit_findings_free(nx_audit_findings *findings) {
  for (size_t i = 0; i < findings->count; i++) free(findings->items[i].evidence);
  free(findings->items);
  *findings = (nx_audit_findings){0};
}

/* ---- Lists of names ---------------------------------------------------------------------------------------------- */

/* A line holds this many names, each of them cut; JSON holds all exports. */
enum { WORDS_SHOWN = 8, WORD_BYTES = 96 };

void nx_audit_word(nx_audit_words *words, const char *raw) {
  words->count++;
  if (words->shown == WORDS_SHOWN) return;
  if (!*raw) raw = "(empty)";
  size_t length = strnlen(raw, WORD_BYTES + 1);
  char *shown = nx_show(raw, length > WORD_BYTES ? WORD_BYTES : length), *joined = NULL;
  const char *before = words->text ? words->text : "";
  if (asprintf(&joined, "%s%s%s%s", before, *before ? ", " : "", shown, length > WORD_BYTES ? "..." : "") < 0)
    nx_out_of_memory();
  free(shown);
  free(words->text);
  words->text = joined;
  words->shown++;
}

void nx_audit_add_words(nx_audit_findings *findings, nx_audit_rule_key rule, const char *lead, nx_audit_words *words) {
  if (words->count > words->shown)
    nx_audit_add(findings, rule, "%s%s and %zu more", lead, words->text, words->count - words->shown);
  else if (words->count)
    nx_audit_add(findings, rule, "%s%s", lead, words->text);
  free(words->text);
  *words = (nx_audit_words){0};
}
