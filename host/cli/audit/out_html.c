/*
 * out_html.c: an audit as one page: no script, no font, nothing fetched.
 * Attackers: texts of the document: printable by now, but with characters that HTML reserves.
 * Promise: whatever a text holds, it is text on the page; the page's own policy forbids everything but its style.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "audit/document.h"
#include "nxmem.h"
#include "text.h"

static const char STYLE[] =
    ":root{color-scheme:light dark;--line:#8884;--error:#c62828;--warning:#b26a00;--note:#5f6b7a;--ok:#2e7d32}"
    "@media(prefers-color-scheme:dark){:root{--error:#ff8a80;--warning:#ffb74d;--note:#a9b4c0;--ok:#81c784}}"
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;padding:0 1rem;max-width:75rem}"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem;overflow-wrap:anywhere}p{overflow-wrap:anywhere}"
    "table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;vertical-align:baseline;padding:.35rem .6rem;border-bottom:1px solid var(--line)}"
    "td{overflow-wrap:anywhere}tbody th{width:7rem}code{font:13px ui-monospace,monospace}"
    ".level,.rule{white-space:nowrap}.level{font-weight:600;width:5rem}.rule{width:5rem}.found{width:38%}"
    ".error{color:var(--error)}.warning,.findings{color:var(--warning)}"
    ".note,.no-plugin{color:var(--note)}.ok{color:var(--ok)}.could-not-run{color:var(--error)}"
    "section>details{margin:.6rem 0}summary{cursor:pointer}details p{margin:.3rem 0;color:var(--note)}"
    "@media(max-width:40rem){thead{display:none}tr{display:block;border-bottom:1px solid var(--line);padding:.3rem 0}"
    "th,td,.level,.rule,.found,tbody th{display:block;width:auto;border:0;padding:.1rem 0}}";

/* ---- Text -------------------------------------------------------------------------------------------------------- */

static void put(FILE *out, const char *text) {
  for (; *text; text++) {
    const char *replaced = nx_entity(*text);
    if (replaced)
      fputs(replaced, out);
    else
      fputc(*text, out);
  }
}

static void put_cell(FILE *out, const char *class_name, const char *text) {
  fputs(*class_name ? "<td class=\"" : "<td>", out);
  if (*class_name) {
    put(out, class_name);
    fputs("\">", out);
  }
  put(out, text);
  fputs("</td>", out);
}

static void put_count(FILE *out, const json_t *value, const char *what) {
  json_int_t count = json_integer_value(value);
  fprintf(out, "%" JSON_INTEGER_FORMAT " %s%s", count, what, count == 1 ? "" : "s");
}

static void put_number(FILE *out, const json_t *value) {
  fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
}

/* ---- Findings ---------------------------------------------------------------------------------------------------- */

static void put_finding(FILE *out, const json_t *row) {
  const nx_audit_rule *rule = nx_audit_rule_find(nx_audit_text(row, "rule"));
  char level[32];
  snprintf(level, sizeof level, "level %s", nx_audit_text(row, "level"));
  fputs("<tr>", out);
  put_cell(out, level, nx_audit_text(row, "level"));
  fputs("<td class=\"rule\"><code>", out);
  put(out, nx_audit_text(row, "rule"));
  fputs("</code></td><td class=\"found\"><details><summary>", out);
  put(out, nx_audit_text(row, "statement"));
  fputs("</summary><p>", out);
  put(out, rule ? rule->explanation : "");
  fputs("</p></details></td><td><code>", out);
  put(out, nx_audit_text(row, "evidence"));
  fputs("</code></td></tr>\n", out);
}

static void put_findings(FILE *out, const json_t *findings) {
  json_t *row;
  size_t i;
  if (!json_array_size(findings)) return;
  fputs("<table><thead><tr><th>Level<th>Rule<th>What was found<th>Evidence</tr></thead><tbody>\n", out);
  json_array_foreach(findings, i, row) put_finding(out, row);
  fputs("</tbody></table>\n", out);
}

/* ---- Facts ------------------------------------------------------------------------------------------------------- */

static void put_value(FILE *out, const json_t *value);

/* Below one another; inside a line, behind one another. */
static void put_items(FILE *out, const json_t *array, const char *separator) {
  json_t *item;
  size_t i;
  if (!json_array_size(array)) fputs("none", out);
  json_array_foreach(array, i, item) {
    if (i) fputs(separator, out);
    put_value(out, item);
  }
}

/* Keys are our own words; "keeps_away" reads "keeps away". */
static void put_key(FILE *out, const char *key) {
  for (; *key; key++) fputc(*key == '_' ? ' ' : *key, out);
}

/* A name needs no key. */
static void put_members(FILE *out, json_t *object) {
  const char *key, *separator = "";
  json_t *value;
  json_object_foreach(object, key, value) {
    fputs(separator, out);
    if (strcmp(key, "name") != 0) {
      put_key(out, key);
      fputs(" ", out);
    }
    if (json_is_array(value))
      put_items(out, value, " ");
    else
      put_value(out, value);
    separator = ", ";
  }
}

static void put_value(FILE *out, const json_t *value) {
  if (json_is_string(value)) put(out, json_string_value(value));
  if (json_is_integer(value)) put_number(out, value);
  if (json_is_boolean(value)) fputs(json_is_true(value) ? "yes" : "no", out);
  if (json_is_null(value)) fputs("none", out);
  if (json_is_array(value)) put_items(out, value, "<br>");
  if (json_is_object(value)) put_members(out, (json_t *)value);
}

static void put_facts(FILE *out, const char *title, json_t *facts) {
  const char *key;
  json_t *value;
  if (!json_object_size(facts)) return;
  fprintf(out, "<details><summary>%s</summary><table><tbody>\n", title);
  json_object_foreach(facts, key, value) {
    fputs("<tr><th>", out);
    put_key(out, key);
    fputs("</th><td><code>", out);
    put_value(out, value);
    fputs("</code></td></tr>\n", out);
  }
  fputs("</tbody></table></details>\n", out);
}

/* ---- The page ---------------------------------------------------------------------------------------------------- */

static void put_file(FILE *out, const json_t *file) {
  fputs("<section><h2>", out);
  put(out, nx_audit_text(file, "file"));
  fputs("</h2>\n<p class=\"level ", out);
  put(out, nx_audit_text(file, "result"));
  fputs("\">", out);
  put(out, nx_audit_text(file, "result"));
  fputs(": ", out);
  if (json_object_get(file, "message")) {
    put(out, nx_audit_text(file, "message"));
  } else {
    put_count(out, json_object_get(file, "errors"), "error");
    fputs(", ", out);
    put_count(out, json_object_get(file, "warnings"), "warning");
    fputs(", ", out);
    put_count(out, json_object_get(file, "notes"), "note");
  }
  fputs("</p>\n", out);
  put_findings(out, json_object_get(file, "findings"));
  put_facts(out, "What the file says", json_object_get(file, "facts"));
  put_facts(out, "What it did when it ran", json_object_get(file, "running"));
  fputs("</section>\n", out);
}

static void put_changes(FILE *out, const json_t *document) {
  json_t *row, *changes = json_object_get(document, "changes");
  size_t i;
  if (!changes) return;
  fputs("<section><h2>Against ", out);
  put(out, nx_audit_text(json_object_get(document, "against"), "file"));
  fprintf(out, "</h2><p>%zu changes</p>", json_array_size(changes));
  fputs("<table><thead><tr><th>Change<th>Kind<th>What</tr></thead><tbody>\n", out);
  json_array_foreach(changes, i, row) {
    fputs("<tr>", out);
    put_cell(out, "level", nx_audit_text(row, "change"));
    put_cell(out, "rule", nx_audit_text(row, "kind"));
    put_cell(out, "", nx_audit_text(row, "what"));
    fputs("</tr>\n", out);
  }
  fputs("</tbody></table></section>\n", out);
}

static void put_page(FILE *out, const json_t *document) {
  json_t *file;
  size_t i;
  fprintf(out,
          "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\"><title>nxmem audit</title>\n<style>%s</style>"
          "</head>\n<body>\n<h1>nxmem audit</h1>\n",
          STYLE);
  json_array_foreach(json_object_get(document, "files"), i, file) put_file(out, file);
  put_changes(out, document);
  fprintf(out, "<footer><p>nxmem %s</p></footer>\n</body></html>\n", NXMEM_VERSION);
}

int nx_audit_write_html(const json_t *document, const char *path) {
  FILE *out = fopen(path, "we");
  if (!out) return nx_audit_cannot_write(path);
  put_page(out, document);
  int failed = ferror(out);
  errno = 0;
  failed |= fclose(out);
  if (failed && !errno) errno = EIO;
  return failed ? nx_audit_cannot_write(path) : 0;
}
