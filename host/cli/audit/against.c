/*
 * against.c: what changed between two builds of a plugin.
 * Attackers: texts of both documents: escaped by now.
 * Promise: lists are compared as sets, so order is no change; what is in both is not told.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/document.h"
#include "report.h"
#include "text.h"

static void add(json_t *changes, const char *kind, const char *change, const char *what) {
  json_t *row = nx_audit_object();
  nx_set_text(row, "kind", kind);
  nx_set_text(row, "change", change);
  nx_set_text(row, "what", what);
  nx_audit_append(changes, row);
}

/* ---- Sets of lines ----------------------------------------------------------------------------------------------- */

/* Keys of an object stand for the set, values for how often each is there. */
static json_t *set_of(const json_t *lines) {
  json_t *set = nx_audit_object(), *line;
  size_t i;
  json_array_foreach(lines, i, line) {
    const char *text = json_string_value(line);
    if (!text) continue;
    json_int_t before = json_integer_value(json_object_get(set, text));
    nx_set(set, text, json_integer(before + 1));
  }
  return set;
}

static void tell_only(json_t *changes, const char *kind, const char *change, json_t *here, json_t *there) {
  const char *line;
  json_t *count;
  json_object_foreach(here, line, count) {
    if (json_integer_value(count) > json_integer_value(json_object_get(there, line))) add(changes, kind, change, line);
  }
}

/* Takes both lists over. */
static void compare_lists(json_t *changes, const char *kind, json_t *old, json_t *now) {
  json_t *before = set_of(old), *after = set_of(now);
  tell_only(changes, kind, "gone", before, after);
  tell_only(changes, kind, "new", after, before);
  json_decref(before);
  json_decref(after);
  json_decref(old);
  json_decref(now);
}

/* ---- Lines of a file's document ---------------------------------------------------------------------------------- */

static json_t *list(const json_t *file, const char *part, const char *key) {
  json_t *found = json_object_get(json_object_get(file, part), key);
  return json_is_array(found) ? json_incref(found) : nx_audit_array();
}

static char *value_text(const json_t *value) {
  if (json_is_string(value)) return strdup(json_string_value(value));
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  if (!text) nx_out_of_memory();
  return text;
}

static void append_line(json_t *lines, const char *format, const char *first, const char *second, const char *third) {
  char *line = NULL;
  if (asprintf(&line, format, first, second, third) < 0) nx_out_of_memory();
  nx_append_text(lines, line);
  free(line);
}

/* Name and evidence: a rule that still fires, for another reason, is a change. */
static json_t *rule_lines(const json_t *file) {
  json_t *lines = nx_audit_array(), *row;
  size_t i;
  json_array_foreach(json_object_get(file, "findings"), i, row) {
    if (!strcmp(nx_audit_text(row, "name"), NX_AUDIT_RULE[NX_AUDIT_LINK].name)) continue;
    append_line(lines, "%s %s: %s", nx_audit_text(row, "rule"), nx_audit_text(row, "name"),
                nx_audit_text(row, "evidence"));
  }
  return lines;
}

static json_t *dependency_lines(const json_t *file) {
  json_t *lines = nx_audit_array(), *found = list(file, "facts", "needed"), *row;
  size_t i;
  json_array_foreach(found, i, row) nx_append_text(lines, nx_audit_text(row, "name"));
  json_decref(found);
  return lines;
}

static json_t *mechanism_lines(const json_t *file) {
  json_t *lines = nx_audit_array(), *found = list(file, "running", "mechanisms"), *row;
  size_t i;
  json_array_foreach(found, i, row) {
    char *level = value_text(json_object_get(row, "level"));
    append_line(lines, "%s (%s), level %s", nx_audit_text(row, "mechanism"), nx_audit_text(row, "device"), level);
    free(level);
  }
  json_decref(found);
  return lines;
}

/* One line for each capability of each mechanism, as listed and as opened. */
static void append_capabilities(json_t *lines, const json_t *row, const char *key) {
  json_t *word;
  size_t i;
  json_array_foreach(json_object_get(row, key), i, word) {
    append_line(lines, "%s %s %s", nx_audit_text(row, "mechanism"), key, json_string_value(word));
  }
}

static json_t *capability_lines(const json_t *file) {
  static const char *const lists[] = {"mechanisms", "allocators"};
  static const char *const keys[] = {"advertises", "declared", "effective"};
  json_t *lines = nx_audit_array(), *row, *word, *agreed;
  size_t i;
  agreed = json_object_get(json_object_get(json_object_get(file, "running"), "negotiated"), "capabilities");
  json_array_foreach(agreed, i, word) append_line(lines, "%s%s%s", "module negotiates ", json_string_value(word), "");
  for (size_t l = 0; l < 2; l++) {
    json_t *found = list(file, "running", lists[l]);
    json_array_foreach(found, i, row) for (size_t k = 0; k < 3; k++) append_capabilities(lines, row, keys[k]);
    json_decref(found);
  }
  return lines;
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static void compare_values(json_t *changes, const char *kind, json_t *old, json_t *now) {
  const char *key;
  json_t *after;
  json_object_foreach(now, key, after) {
    const json_t *before = json_object_get(old, key);
    if (!before || json_is_array(after) || json_is_object(after) || json_equal(before, after)) continue;
    char *was = value_text(before), *is = value_text(after);
    json_t *line = nx_audit_array();
    append_line(line, "%s: %s, now %s", key, was, is);
    add(changes, kind, "changed", json_string_value(json_array_get(line, 0)));
    json_decref(line);
    free(was);
    free(is);
  }
}

/* ---- Directories ------------------------------------------------------------------------------------------------- */

static int is_kept_alike(const json_t *row, const json_t *folders) {
  static const char *const keys[] = {"owner", "group", "mode"};
  json_t *other;
  size_t i;
  json_array_foreach(folders, i, other) {
    size_t same = 0;
    for (size_t k = 0; k < 3; k++) same += json_equal(json_object_get(row, keys[k]), json_object_get(other, keys[k]));
    if (same == 3) return 1;
  }
  return 0;
}

/* Paths differ by nature: told is a directory of an owner, group and mode that none above the other file has. */
static void tell_folders(json_t *changes, const char *change, const json_t *here, const json_t *there) {
  json_t *row, *line = nx_audit_array();
  size_t i;
  json_array_foreach(here, i, row) {
    if (is_kept_alike(row, there)) continue;
    char *rights = NULL;
    if (asprintf(&rights, "owner %" JSON_INTEGER_FORMAT ", group %" JSON_INTEGER_FORMAT,
                 json_integer_value(json_object_get(row, "owner")),
                 json_integer_value(json_object_get(row, "group"))) < 0)
      nx_out_of_memory();
    json_array_clear(line);
    append_line(line, "folder %s: %s, mode %s", nx_audit_text(row, "path"), rights, nx_audit_text(row, "mode"));
    add(changes, "place", change, json_string_value(json_array_get(line, 0)));
    free(rights);
  }
  json_decref(line);
}

static void compare_folders(json_t *changes, const json_t *old, const json_t *now) {
  const json_t *before = json_object_get(old, "folders"), *after = json_object_get(now, "folders");
  tell_folders(changes, "gone", before, after);
  tell_folders(changes, "new", after, before);
}

static json_t *inside(const json_t *file, const char *part, const char *key) {
  json_t *outer = json_object_get(file, part);
  return key ? json_object_get(outer, key) : outer;
}

/* Paths differ by nature, and so do a build's own numbers; all else is told. */
json_t *nx_audit_changes(const json_t *old, const json_t *now) {
  static const char *const lists[][2] = {{"export", "exports"},           {"import", "imports"},
                                         {"filter", "filters"},           {"version", "versions_needed"},
                                         {"version", "versions_defined"}, {"layout", "segments"}};
  json_t *changes = nx_audit_array();
  compare_lists(changes, "rule", rule_lines(old), rule_lines(now));
  for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
    compare_lists(changes, lists[i][0], list(old, "facts", lists[i][1]), list(now, "facts", lists[i][1]));
  compare_lists(changes, "dependency", dependency_lines(old), dependency_lines(now));
  compare_lists(changes, "mechanism", mechanism_lines(old), mechanism_lines(now));
  compare_lists(changes, "capability", capability_lines(old), capability_lines(now));
  compare_values(changes, "fact", inside(old, "facts", NULL), inside(now, "facts", NULL));
  compare_values(changes, "mark", inside(old, "facts", "marks"), inside(now, "facts", "marks"));
  compare_values(changes, "place", inside(old, "facts", "place"), inside(now, "facts", "place"));
  compare_folders(changes, inside(old, "facts", "place"), inside(now, "facts", "place"));
  compare_values(changes, "negotiation", inside(old, "running", "negotiated"), inside(now, "running", "negotiated"));
  return changes;
}
