/*
 * out_junit.c: every verdict as a JUnit test case, for CI systems.
 * Attackers: texts of the plugin: printable UTF-8 by now, but with characters that XML reserves.
 * Promise: the document is well-formed whatever the texts hold.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conform/result.h"
#include "text.h"

/* Controls are escaped before; U+FFFE and U+FFFF are printable to a terminal, but no characters of XML. */
static size_t not_xml(const char *at) {
  static const char fffe[] = "\xEF\xBF\xBE", ffff[] = "\xEF\xBF\xBF";
  return !strncmp(at, fffe, 3) || !strncmp(at, ffff, 3) ? 3 : 0;
}

static void put_text(FILE *out, const char *text) {
  while (*text) {
    size_t skip = not_xml(text);
    const char *replaced = nx_entity(*text);
    if (skip) {
      fputs("\xEF\xBF\xBD", out);
      text += skip;
      continue;
    }
    if (replaced)
      fputs(replaced, out);
    else
      fputc(*text, out);
    text++;
  }
}

static void put_attribute(FILE *out, const char *name, const char *text) {
  fprintf(out, " %s=\"", name);
  put_text(out, text);
  fputc('"', out);
}

static double seconds(uint64_t us) { return (double)us / 1e6; }

/* What could not run is an error: JUnit's word for a case that did not get to its assertion. */
static void put_verdict(FILE *out, const nx_finding *finding) {
  static const char *const element[NX_RULINGS] = {NULL, "failure", "skipped", "error"};
  const char *name = element[finding->ruling];
  if (!name) return;
  fprintf(out, "\n      <%s", name);
  put_attribute(out, "message", finding->evidence);
  fputs("/>\n    ", out);
}

static void put_case(FILE *out, const nx_finding *finding) {
  char where[NX_WHERE_BYTES], name[256];
  nx_where(finding->target, where);
  snprintf(name, sizeof name, "%s %s", finding->rule->id, finding->rule->statement);
  fputs("    <testcase", out);
  put_attribute(out, "classname", where);
  put_attribute(out, "name", name);
  fprintf(out, " time=\"%.6f\">", seconds(finding->elapsed_us));
  put_verdict(out, finding);
  fputs("</testcase>\n", out);
}

static void put_counts(FILE *out, const nx_result *result) {
  fprintf(out, " tests=\"%zu\" failures=\"%zu\" skipped=\"%zu\" errors=\"%zu\" time=\"%.6f\">\n", result->count,
          result->tally[NX_RULING_FAIL], result->tally[NX_RULING_NOT_APPLICABLE],
          result->tally[NX_RULING_COULD_NOT_RUN], seconds(result->elapsed_us));
}

int nx_write_junit(const nx_result *result, const char *path) {
  FILE *out = fopen(path, "we");
  if (!out) return nx_cannot_write(path);
  fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite", out);
  put_attribute(out, "name", result->file);
  put_counts(out, result);
  for (size_t i = 0; i < result->count; i++) put_case(out, &result->findings[i]);
  fputs("  </testsuite>\n</testsuites>\n", out);
  int failed = ferror(out);
  return (fclose(out) || failed) ? nx_cannot_write(path) : 0;
}
