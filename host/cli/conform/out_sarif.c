/*
 * out_sarif.c: the findings as SARIF 2.1.0, for code scanning.
 * Attackers: texts of the plugin, escaped before.
 * Promise: every rule is described, every failed or passed one is a result with its kind.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/result.h"
#include "nxmem.h"
#include "report.h"
#include "text.h"

static const char SCHEMA[] = "https://json.schemastore.org/sarif-2.1.0.json";

static json_t *must(json_t *value) {
  if (!value) nx_out_of_memory();
  return value;
}

static json_t *text_object(const char *text) {
  json_t *made = must(json_object());
  nx_set_text(made, "text", text);
  return made;
}

static json_t *single(json_t *item) {
  json_t *array = must(json_array());
  if (json_array_append_new(array, item)) nx_out_of_memory();
  return array;
}

static json_t *rule_object(const nx_rule *rule) {
  json_t *made = must(json_object()), *configuration = must(json_object()), *properties = must(json_object());
  nx_set_text(made, "id", rule->id);
  nx_set(made, "shortDescription", text_object(rule->statement));
  nx_set_text(configuration, "level", nx_severity_word(rule->severity));
  nx_set(made, "defaultConfiguration", configuration);
  nx_set_text(properties, "section", rule->section);
  nx_set(made, "properties", properties);
  return made;
}

static json_t *driver_object(void) {
  json_t *driver = must(json_object()), *rules = must(json_array());
  const nx_rule *rule;
  nx_set_text(driver, "name", "nxmem conform");
  nx_set_text(driver, "version", NXMEM_VERSION);
  for (size_t i = 0; (rule = nx_rule_at(i)) != NULL; i++)
    if (json_array_append_new(rules, rule_object(rule))) nx_out_of_memory();
  nx_set(driver, "rules", rules);
  return driver;
}

static json_t *location_object(const nx_result *result, const nx_finding *finding) {
  char where[NX_WHERE_BYTES];
  char *uri = nx_file_uri(result->file);
  json_t *location = must(json_object()), *physical = must(json_object()), *artifact = must(json_object());
  json_t *logical = must(json_object());
  nx_set_text(artifact, "uri", uri);
  free(uri);
  nx_set(physical, "artifactLocation", artifact);
  nx_set(location, "physicalLocation", physical);
  nx_where(finding->target, where);
  nx_set_text(logical, "name", where);
  nx_set(location, "logicalLocations", single(logical));
  return location;
}

/* SARIF: what is not a failure has level none. */
static json_t *result_object(const nx_result *result, const nx_finding *finding) {
  static const char *const kind[NX_RULINGS] = {"pass", "fail", "notApplicable", "open"};
  json_t *made = must(json_object());
  int failed = finding->ruling == NX_RULING_FAIL;
  char *words = NULL;
  if (asprintf(&words, "%s: %s", finding->rule->statement, *finding->evidence ? finding->evidence : "as it says") < 0)
    nx_out_of_memory();
  nx_set_text(made, "ruleId", finding->rule->id);
  nx_set_text(made, "kind", kind[finding->ruling]);
  nx_set_text(made, "level", failed ? nx_severity_word(finding->rule->severity) : "none");
  nx_set(made, "message", text_object(words));
  nx_set(made, "locations", single(location_object(result, finding)));
  free(words);
  return made;
}

int nx_write_sarif(const nx_result *result, const char *path) {
  json_t *root = must(json_object()), *run = must(json_object()), *tool = must(json_object());
  json_t *results = must(json_array());
  nx_set_text(root, "$schema", SCHEMA);
  nx_set_text(root, "version", "2.1.0");
  nx_set(tool, "driver", driver_object());
  nx_set(run, "tool", tool);
  for (size_t i = 0; i < result->count; i++)
    if (json_array_append_new(results, result_object(result, &result->findings[i]))) nx_out_of_memory();
  nx_set(run, "results", results);
  nx_set(root, "runs", single(run));
  return nx_dump_document(root, path);
}
