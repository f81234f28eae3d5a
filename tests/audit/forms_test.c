/*
 * forms_test.c: one document as a page, as SARIF and as JSON: a hostile text stays text in each.
 * Attackers played: names inside a file. Promise: what is written is what was found.
 */
#include <jansson.h>
#include <unistd.h>

#include "audit/document.h"
#include "report.h"
#include "support.h"

static const char HOSTILE[] = "</code><script>x</script><img src=x onerror='y'>&\"";

static char path[] = "/tmp/nxmem-forms-XXXXXX";

static json_t *finding(const nx_audit_rule *rule) {
  json_t *row = nx_audit_object();
  nx_set_text(row, "rule", rule->id);
  nx_set_text(row, "name", rule->name);
  nx_set_text(row, "level", NX_AUDIT_LEVEL_WORD[rule->level]);
  nx_set_text(row, "statement", rule->statement);
  nx_set_text(row, "evidence", HOSTILE);
  return row;
}

/* One file with a finding of each rule, one that is no plugin, and a change; each text is the hostile one. */
static json_t *document(void) {
  json_t *root = nx_audit_object(), *files = nx_audit_array(), *file = nx_audit_object(), *none = nx_audit_object();
  json_t *findings = nx_audit_array(), *changes = nx_audit_array(), *change = nx_audit_object();
  json_t *facts = nx_audit_object(), *old = nx_audit_object();
  for (int i = 0; i < NX_AUDIT_RULES; i++) nx_audit_append(findings, finding(&NX_AUDIT_RULE[i]));
  nx_set_text(facts, "soname", HOSTILE);
  nx_set_text(file, "file", HOSTILE);
  nx_set_text(file, "result", "findings");
  nx_set(file, "findings", findings);
  nx_set(file, "facts", facts);
  nx_set_text(none, "file", "/none");
  nx_set_text(none, "result", "no-plugin");
  nx_set_text(none, "message", HOSTILE);
  nx_set(none, "findings", nx_audit_array());
  nx_set_text(change, "change", "new");
  nx_set_text(change, "kind", "export");
  nx_set_text(change, "what", HOSTILE);
  nx_audit_append(changes, change);
  nx_set_text(old, "file", HOSTILE);
  nx_audit_append(files, file);
  nx_audit_append(files, none);
  nx_set(root, "files", files);
  nx_set(root, "against", old);
  nx_set(root, "changes", changes);
  nx_set_number(root, "exit_code", 1);
  return root;
}

static char *written(int (*write)(const json_t *document, const char *path)) {
  json_t *whole = document();
  static char text[1 << 20];
  assert_int_equal(write(whole, path), 0);
  json_decref(whole);
  FILE *file = fopen(path, "re");
  assert_non_null(file);
  size_t length = fread(text, 1, sizeof text - 1, file);
  assert_true(length > 1000 && length < sizeof text - 1);
  text[length] = '\0';
  fclose(file);
  return text;
}

static int times(const char *text, const char *word) {
  int count = 0;
  for (; (text = strstr(text, word)) != NULL; text += strlen(word)) count++;
  return count;
}

static void page_is_text(void **state) {
  (void)state;
  const char *page = written(nx_audit_write_html);
  assert_null(strstr(page, "<script"));
  assert_null(strstr(page, "<img"));
  assert_null(strstr(page, "='"));
  /* The file's name, its finding for each rule, a fact, a message, a change and what it is against. */
  assert_int_equal(times(page, "&lt;script&gt;x&lt;/script&gt;"), NX_AUDIT_RULES + 5);
  assert_int_equal(times(page, "&#39;y&#39;") + times(page, "&apos;y&apos;"), NX_AUDIT_RULES + 5);
}

static void page_explains(void **state) {
  (void)state;
  const char *page = written(nx_audit_write_html);
  assert_non_null(strstr(page, "default-src 'none'"));
  for (int i = 0; i < NX_AUDIT_RULES; i++) assert_non_null(strstr(page, NX_AUDIT_RULE[i].id));
  assert_int_equal(times(page, "<details><summary>"), NX_AUDIT_RULES + 1);
  assert_int_equal(times(page, "http"), 1); /* http-equiv: it leads nowhere */
}

static const json_t *first(const json_t *array) { return json_array_get(array, 0); }

static void sarif_names_its_rules(void **state) {
  (void)state;
  json_t *log = json_loads(written(nx_audit_write_sarif), 0, NULL), *row;
  assert_non_null(log);
  const json_t *run = first(json_object_get(log, "runs"));
  const json_t *rules = json_object_get(json_object_get(json_object_get(run, "tool"), "driver"), "rules");
  const json_t *invocation = first(json_object_get(run, "invocations"));
  size_t i;
  assert_int_equal(json_array_size(json_object_get(run, "results")), NX_AUDIT_RULES);
  json_array_foreach(json_object_get(run, "results"), i, row) {
    assert_int_equal(json_integer_value(json_object_get(row, "ruleIndex")), (json_int_t)i);
    assert_string_equal(nx_audit_text(json_array_get(rules, i), "id"), nx_audit_text(row, "ruleId"));
    assert_string_equal(nx_audit_text(row, "level"), NX_AUDIT_LEVEL_WORD[NX_AUDIT_RULE[i].level]);
    assert_non_null(strstr(nx_audit_text(json_object_get(row, "message"), "text"), HOSTILE));
    const json_t *place = json_object_get(first(json_object_get(row, "locations")), "physicalLocation");
    const char *uri = nx_audit_text(json_object_get(place, "artifactLocation"), "uri");
    assert_int_equal(strcspn(uri, "<>'\" "), strlen(uri));
  }
  /* What was not judged is told, or silence would look like praise. */
  assert_int_equal(json_array_size(json_object_get(invocation, "toolExecutionNotifications")), 1);
  json_decref(log);
}

static void json_is_the_document(void **state) {
  (void)state;
  json_t *back = json_loads(written(nx_audit_write_json), 0, NULL), *whole = document();
  assert_true(json_equal(back, whole));
  json_decref(back);
  json_decref(whole);
}

static void unwritten_is_told(void **state) {
  (void)state;
  json_t *whole = document();
  assert_int_not_equal(nx_audit_write_html(whole, "/dev/full"), 0);
  assert_int_not_equal(nx_audit_write_sarif(whole, "/dev/full"), 0);
  assert_int_not_equal(nx_audit_write_json(whole, "/dev/full"), 0);
  assert_int_not_equal(nx_audit_write_html(whole, "/nowhere/at/all"), 0);
  json_decref(whole);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(page_is_text), cmocka_unit_test(page_explains),
                                     cmocka_unit_test(sarif_names_its_rules), cmocka_unit_test(json_is_the_document),
                                     cmocka_unit_test(unwritten_is_told)};
  int fd = mkstemp(path);
  if (fd < 0) return 1;
  close(fd);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(path);
  return failed;
}
