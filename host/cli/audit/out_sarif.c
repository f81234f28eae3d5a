/*
 * out_sarif.c: the findings as SARIF 2.1.0, for code scanning.
 * Attackers: texts of the document: escaped by now.
 * Promise: every rule is described; every finding is a result that names its rule and its file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/document.h"
#include "nxmem.h"
#include "report.h"
#include "text.h"

static const char SCHEMA[] = "https://json.schemastore.org/sarif-2.1.0.json";

static json_t *text_object(const char *text) {
  json_t *out = nx_audit_object();
  nx_set_text(out, "text", text);
  return out;
}

static json_t *single(json_t *item) {
  json_t *array = nx_audit_array();
  nx_audit_append(array, item);
  return array;
}

static json_t *rule_object(const nx_audit_rule *rule) {
  json_t *out = nx_audit_object(), *configuration = nx_audit_object();
  nx_set_text(out, "id", rule->id);
  nx_set_text(out, "name", rule->name);
  nx_set(out, "shortDescription", text_object(rule->statement));
  nx_set(out, "fullDescription", text_object(rule->explanation));
  nx_set(out, "help", text_object(rule->explanation));
  nx_set_text(configuration, "level", NX_AUDIT_LEVEL_WORD[rule->level]);
  nx_set(out, "defaultConfiguration", configuration);
  return out;
}

static json_t *driver_object(void) {
  json_t *driver = nx_audit_object(), *rules = nx_audit_array();
  nx_set_text(driver, "name", "nxmem audit");
  nx_set_text(driver, "version", NXMEM_VERSION);
  for (int i = 0; i < NX_AUDIT_RULES; i++) nx_audit_append(rules, rule_object(&NX_AUDIT_RULE[i]));
  nx_set(driver, "rules", rules);
  return driver;
}

static json_t *location_object(const char *path) {
  char *uri = nx_file_uri(path);
  json_t *location = nx_audit_object(), *physical = nx_audit_object(), *artifact = nx_audit_object();
  nx_set_text(artifact, "uri", uri);
  free(uri);
  nx_set(physical, "artifactLocation", artifact);
  nx_set(location, "physicalLocation", physical);
  return location;
}

static int rule_index(const char *id) {
  const nx_audit_rule *rule = nx_audit_rule_find(id);
  return rule ? (int)(rule - NX_AUDIT_RULE) : -1;
}

static json_t *result_object(const char *path, const json_t *finding) {
  json_t *out = nx_audit_object();
  char *words = NULL;
  if (asprintf(&words, "%s: %s", nx_audit_text(finding, "statement"), nx_audit_text(finding, "evidence")) < 0)
    nx_out_of_memory();
  nx_set_text(out, "ruleId", nx_audit_text(finding, "rule"));
  nx_set(out, "ruleIndex", json_integer(rule_index(nx_audit_text(finding, "rule"))));
  nx_set_text(out, "kind", "fail");
  nx_set_text(out, "level", nx_audit_text(finding, "level"));
  nx_set(out, "message", text_object(words));
  nx_set(out, "locations", single(location_object(path)));
  free(words);
  return out;
}

/* A file that was not judged is a notification of the tool: a page without results would look like praise. */
static json_t *notification_object(const json_t *file) {
  json_t *out = nx_audit_object();
  nx_set_text(out, "level", strcmp(nx_audit_text(file, "result"), "no-plugin") ? "error" : "note");
  nx_set(out, "message", text_object(nx_audit_text(file, "message")));
  nx_set(out, "locations", single(location_object(nx_audit_text(file, "file"))));
  return out;
}

static json_t *invocation_object(const json_t *document, json_t *notifications) {
  json_t *out = nx_audit_object();
  json_int_t code = json_integer_value(json_object_get(document, "exit_code"));
  nx_set_flag(out, "executionSuccessful", code != 3);
  nx_set(out, "exitCode", json_integer(code));
  nx_set(out, "toolExecutionNotifications", notifications);
  return out;
}

static json_t *run_object(const json_t *document) {
  json_t *run = nx_audit_object(), *tool = nx_audit_object(), *results = nx_audit_array();
  json_t *notifications = nx_audit_array(), *file, *finding;
  size_t i, j;
  json_array_foreach(json_object_get(document, "files"), i, file) {
    if (json_object_get(file, "message")) nx_audit_append(notifications, notification_object(file));
    json_array_foreach(json_object_get(file, "findings"), j, finding)
        nx_audit_append(results, result_object(nx_audit_text(file, "file"), finding));
  }
  nx_set(tool, "driver", driver_object());
  nx_set(run, "tool", tool);
  nx_set(run, "invocations", single(invocation_object(document, notifications)));
  nx_set(run, "results", results);
  return run;
}

int nx_audit_write_sarif(const json_t *document, const char *path) {
  json_t *root = nx_audit_object();
  nx_set_text(root, "$schema", SCHEMA);
  nx_set_text(root, "version", "2.1.0");
  nx_set(root, "runs", single(run_object(document)));
  int failed = nx_audit_write_json(root, path);
  json_decref(root);
  return failed;
}
