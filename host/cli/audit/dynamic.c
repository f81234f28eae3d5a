/*
 * dynamic.c: the conformance test and one life behind the host library, each in a confined child.
 * Attackers: the plugin in the child, and the JSON that comes back.
 * Promise: as in the header.
 */
#include "audit/dynamic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/child.h"
#include "commands.h"
#include "exit_codes.h"
#include "report.h"
#include "text.h"

/* ---- JSON that may be anything ----------------------------------------------------------------------------------- */

static const char *text_of(const json_t *row, const char *key) {
  const char *text = json_string_value(json_object_get(row, key));
  return text ? text : "";
}

static int is_text(const json_t *row, const char *key, const char *text) { return !strcmp(text_of(row, key), text); }

/* Bytes of a text that evidence shows: at most `most`, whole characters. For "%.*s". */
static int cut(const char *text, size_t most) {
  size_t length = strnlen(text, most + 1);
  if (length <= most) return (int)length;
  while (most > 0 && ((unsigned char)text[most] & 0xC0) == 0x80) most--;
  return (int)most;
}

enum { SHORT_WORDS = 256, LONG_WORDS = 512 };

static json_t *made(json_t *value) {
  if (!value) nx_out_of_memory();
  return value;
}

/* A list of words has no more: nobody's capabilities do. */
enum { WORDS_MAX = 64 };

static json_t *fit_words(const json_t *array) {
  json_t *out = made(json_array()), *item;
  size_t i;
  json_array_foreach(array, i, item) {
    if (i < WORDS_MAX && json_is_string(item)) nx_append_text(out, json_string_value(item));
  }
  return out;
}

/* Copies one fact where it is a text, a number or a list of texts. */
static void take(json_t *out, const json_t *row, const char *key) {
  json_t *value = json_object_get(row, key);
  if (json_is_string(value)) nx_set_text(out, key, json_string_value(value));
  if (json_is_integer(value)) nx_set(out, key, json_integer(json_integer_value(value)));
  if (json_is_array(value)) nx_set(out, key, fit_words(value));
}

/* ---- Conformance ------------------------------------------------------------------------------------------------- */

/* Of one file; the rest is counted. */
enum { BROKEN_MAX = 100 };

static void add_broken(const json_t *row, nx_audit_findings *findings) {
  nx_audit_rule_key rule = is_text(row, "severity", "warning") ? NX_AUDIT_BREAKS_ADVICE : NX_AUDIT_BREAKS_RULE;
  const char *id = text_of(row, "rule"), *mechanism = text_of(row, "mechanism");
  const char *statement = text_of(row, "statement"), *evidence = text_of(row, "evidence");
  if (!*mechanism) mechanism = "module";
  nx_audit_add(findings, rule, "%.*s %.*s: %.*s: %.*s", cut(id, SHORT_WORDS), id, cut(mechanism, SHORT_WORDS),
               mechanism, cut(statement, SHORT_WORDS), statement, cut(evidence, LONG_WORDS), evidence);
}

static int is_listed(const json_t *words, const char *word) {
  json_t *item;
  size_t i;
  json_array_foreach(words, i, item) {
    if (json_is_string(item) && !strcmp(json_string_value(item), word)) return 1;
  }
  return 0;
}

/* That its device is not here was told already, and all that cannot be tried follows from it. */
static int follows_from_absence(const json_t *row, const json_t *absent) {
  if (!is_listed(absent, text_of(row, "mechanism"))) return 0;
  return is_text(row, "rule", "NX-TAB-001") || is_text(row, "verdict", "could not run");
}

static size_t add_all_broken(const json_t *verdicts, const json_t *absent, size_t *untried,
                             nx_audit_findings *findings) {
  size_t broken = 0, i;
  json_t *row;
  json_array_foreach(verdicts, i, row) {
    if (follows_from_absence(row, absent)) continue;
    *untried += is_text(row, "verdict", "could not run");
    if (is_text(row, "verdict", "fail") && broken++ < BROKEN_MAX) add_broken(row, findings);
  }
  if (broken > BROKEN_MAX)
    nx_audit_add(findings, NX_AUDIT_BREAKS_RULE, "%zu more rules, which 'nxmem conform' lists", broken - BROKEN_MAX);
  return broken;
}

static void judge_conformance(const nx_audit_return *from, json_t *out, nx_audit_findings *findings) {
  const json_t *verdicts = json_object_get(from->result, "verdicts");
  size_t untried = 0, broken = add_all_broken(verdicts, json_object_get(out, "absent"), &untried, findings);
  json_t *tally = made(json_object());
  static const char *const keys[] = {"passed", "failed", "not_applicable", "could_not_run"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) take(tally, from->result, keys[i]);
  nx_set(out, "conformance", tally);
  if (*from->ending) {
    nx_audit_add(findings, NX_AUDIT_UNJUDGED, "the conformance test: %s", from->ending);
  } else if (!json_array_size(verdicts)) {
    nx_audit_add(findings, NX_AUDIT_UNJUDGED, "the conformance test ended with code %d and without a verdict",
                 from->exit_code);
  } else if (untried && !broken) {
    nx_audit_add(findings, NX_AUDIT_UNJUDGED, "%zu rules could not be tried", untried);
  }
}

/* ---- Behind the host library ------------------------------------------------------------------------------------- */

static const char *message_of(const json_t *row) {
  const json_t *error = json_object_get(row, "error");
  const char *message = text_of(error ? error : row, "message");
  return *message ? message : "see 'nxmem run'";
}

/* A step that says no more than its figures: those that are not zero. */
static void add_figures(json_t *row, nx_audit_rule_key rule, nx_audit_findings *findings) {
  char line[LONG_WORDS] = "";
  const char *key;
  json_t *value;
  json_object_foreach(row, key, value) {
    const size_t used = strlen(line);
    if (json_is_integer(value) && json_integer_value(value) != 0)
      snprintf(line + used, sizeof line - used, "%s%.64s %" JSON_INTEGER_FORMAT, used ? ", " : "", key,
               json_integer_value(value));
  }
  const char *step = text_of(row, "name");
  nx_audit_add(findings, rule, "%.*s: %s", cut(step, SHORT_WORDS), step, *line ? line : "see 'nxmem run'");
}

/* A mechanism of a device that refuses to be opened for want of it, as the contract has it. */
static int is_absent(const json_t *row) {
  return is_text(row, "name", "allocator") && is_text(row, "verdict", "refused") &&
         !strncmp(text_of(row, "device"), "device:", 7) &&
         is_text(json_object_get(row, "error"), "plugin_status", "UNSUPPORTED_CAPABILITY");
}

static int has_message(const json_t *row) {
  const json_t *error = json_object_get(row, "error");
  return *text_of(error ? error : row, "message") != '\0';
}

static void judge_step(json_t *row, nx_audit_findings *findings) {
  int refused = is_text(row, "verdict", "refused"), warned = is_text(row, "verdict", "warning");
  if (is_text(row, "name", "negotiated") && json_integer_value(json_object_get(row, "mechanisms")) == 0) {
    nx_audit_add(findings, NX_AUDIT_NO_MECHANISM, "it published none");
    return;
  }
  if (!refused && !warned) return;
  const char *mechanism = text_of(row, "mechanism");
  const char *step = text_of(row, "name"), *message = message_of(row);
  nx_audit_rule_key rule = refused ? NX_AUDIT_REFUSED : NX_AUDIT_WARNED;
  if (!has_message(row)) {
    add_figures(row, rule, findings);
    return;
  }
  if (is_absent(row)) rule = NX_AUDIT_NO_MECHANISM;
  nx_audit_add(findings, rule, "%.*s%s%.*s: %.*s", cut(step, SHORT_WORDS), step, *mechanism ? " of " : "",
               cut(mechanism, SHORT_WORDS), mechanism, cut(message, LONG_WORDS), message);
}

static void take_mechanism(const json_t *row, json_t *mechanisms) {
  json_t *out = made(json_object());
  static const char *const keys[] = {"mechanism", "device", "level", "advertises", "declared", "effective"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) take(out, row, keys[i]);
  if (json_array_append_new(mechanisms, out)) nx_out_of_memory();
}

/* An opened allocator says more of a mechanism than the list does: it comes behind it. */
static void take_step(const json_t *row, json_t *out, json_t *mechanisms, json_t *allocators) {
  if (is_text(row, "name", "mechanism")) take_mechanism(row, mechanisms);
  if (is_text(row, "name", "allocator")) take_mechanism(row, allocators);
  if (!is_text(row, "name", "negotiated")) return;
  json_t *negotiated = made(json_object());
  take(negotiated, row, "version");
  take(negotiated, row, "plugin_speaks");
  take(negotiated, row, "capabilities");
  nx_set(out, "negotiated", negotiated);
}

/* The most that one plugin may publish, several steps each. */
enum { STEPS_MAX = 64 * 64 };

static void judge_run(const nx_audit_return *from, json_t *out, nx_audit_findings *findings) {
  json_t *row, *mechanisms = made(json_array()), *allocators = made(json_array()), *absent = made(json_array());
  const json_t *steps = json_object_get(from->result, "steps");
  size_t i, before = findings->count;
  json_array_foreach(steps, i, row) {
    if (i >= STEPS_MAX) break;
    judge_step(row, findings);
    take_step(row, out, mechanisms, allocators);
    if (is_absent(row)) nx_append_text(absent, text_of(row, "mechanism"));
  }
  nx_set(out, "absent", absent);
  nx_set(out, "mechanisms", mechanisms);
  nx_set(out, "allocators", allocators);
  if (*from->ending || !steps)
    nx_audit_add(findings, NX_AUDIT_REFUSED, "run: %s",
                 *from->ending ? from->ending : "the process ended without a result");
  else if (from->exit_code != NX_EXIT_FINE && findings->count == before)
    nx_audit_add(findings, NX_AUDIT_REFUSED, "run: ended with code %d: %.*s", from->exit_code,
                 cut(message_of(from->result), LONG_WORDS), message_of(from->result));
}

/* ---- Both -------------------------------------------------------------------------------------------------------- */

static void judge_fences(const nx_audit_fences *fences, json_t *out, nx_audit_findings *findings) {
  json_t *rows = made(json_array());
  for (int i = 0; i < NX_FENCES; i++) {
    json_t *row = made(json_object());
    nx_set_text(row, "name", NX_AUDIT_FENCE[i].name);
    nx_set_text(row, "keeps_away", NX_AUDIT_FENCE[i].about);
    nx_set_flag(row, "available", !fences->failed[i]);
    if (fences->failed[i]) nx_set_text(row, "message", strerror(fences->failed[i]));
    if (json_array_append_new(rows, row)) nx_out_of_memory();
    if (fences->failed[i])
      nx_audit_add(findings, NX_AUDIT_UNCONFINED, "%s (%s): %s", NX_AUDIT_FENCE[i].name, NX_AUDIT_FENCE[i].about,
                   strerror(fences->failed[i]));
  }
  nx_set(out, "confinement", rows);
}

/* The conformance test ends those of its own trials itself. */
static void judge_left(const char *what, const nx_audit_return *from, nx_audit_findings *findings) {
  if (from->left) nx_audit_add(findings, NX_AUDIT_LEAVES_PROCESSES, "%s: %zu had to be ended", what, from->left);
}

/* One life takes a second; one that takes longer than this is a hang, and the test behind it says where. */
enum { LIFE_S = 60 };

json_t *nx_audit_judge_running(const nx_audit_trial *trial, nx_audit_findings *findings) {
  char conform[] = "nxmem conform", run[] = "nxmem run", json[] = "--json=" NX_AUDIT_RESULT_PATH, end[] = "--";
  char cycles[] = "--cycles", blocks[] = "--blocks=4";
  char *conform_words[] = {conform, json, cycles, trial->cycles, end, trial->path, NULL};
  char *run_words[] = {run, json, blocks, end, trial->path, NULL};
  const nx_audit_child children[] = {
      {nx_run, run_words, 5, trial->limit_s < LIFE_S ? trial->limit_s : LIFE_S, "behind the host library: seconds"},
      {nx_conform, conform_words, 6, trial->limit_s, "conformance test: seconds"}};
  static const char *const names[] = {"behind the host library", "the conformance test"};
  void (*const judges[])(const nx_audit_return *, json_t *, nx_audit_findings *) = {judge_run, judge_conformance};
  json_t *out = made(json_object());
  for (size_t i = 0; i < sizeof children / sizeof children[0]; i++) {
    nx_audit_return back;
    if (nx_audit_child_run(&children[i], &back)) {
      json_decref(out);
      return NULL;
    }
    if (i == 0) judge_fences(&back.fences, out, findings);
    judge_left(names[i], &back, findings);
    judges[i](&back, out, findings);
    json_decref(back.result);
  }
  return out;
}
