/*
 * out_table.c: an audit as aligned lines, and as a JSON file.
 * Attackers: texts of the document: escaped by now.
 * Promise: one line per finding.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/document.h"
#include "text.h"

/* Columns: the longest level; the longest name of a rule that is mostly seen. */
enum { LEVEL_WIDTH = 7, NAME_WIDTH = 22 };

static void print_finding(const json_t *row) {
  printf("  %-*s  %s  %-*s  %s: %s\n", LEVEL_WIDTH, nx_audit_text(row, "level"), nx_audit_text(row, "rule"), NAME_WIDTH,
         nx_audit_text(row, "name"), nx_audit_text(row, "statement"), nx_audit_text(row, "evidence"));
}

static void print_plurals(const json_t *file) {
  static const char *const keys[] = {"errors", "warnings", "notes"};
  const char *separator = "";
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    json_int_t count = json_integer_value(json_object_get(file, keys[i]));
    int letters = (int)strlen(keys[i]) - (count == 1);
    printf("%s%" JSON_INTEGER_FORMAT " %.*s", separator, count, letters, keys[i]);
    separator = ", ";
  }
  printf("\n");
}

/* Every directory above the file in one line: owner, group and mode of each. */
static void print_folders(const json_t *folders) {
  json_t *row;
  size_t i;
  json_array_foreach(folders, i, row) {
    printf("%s%s %" JSON_INTEGER_FORMAT ":%" JSON_INTEGER_FORMAT " %s", i ? ", " : "  below ",
           nx_audit_text(row, "path"), json_integer_value(json_object_get(row, "owner")),
           json_integer_value(json_object_get(row, "group")), nx_audit_text(row, "mode"));
  }
  if (json_array_size(folders)) printf("\n");
}

void nx_audit_print_file(const json_t *file) {
  json_t *row;
  size_t i;
  if (json_object_get(file, "message")) {
    int no_plugin = !strcmp(nx_audit_text(file, "result"), "no-plugin");
    fprintf(no_plugin ? stdout : stderr, "%s: %s%s\n", nx_audit_text(file, "file"), no_plugin ? "no plugin: " : "",
            nx_audit_text(file, "message"));
    return;
  }
  printf("%s\n", nx_audit_text(file, "file"));
  json_array_foreach(json_object_get(file, "findings"), i, row) print_finding(row);
  print_folders(json_object_get(json_object_get(json_object_get(file, "facts"), "place"), "folders"));
  printf("  %s: ", nx_audit_text(file, "result"));
  print_plurals(file);
}

void nx_audit_print_changes(const json_t *changes) {
  json_t *row;
  size_t i;
  json_array_foreach(changes, i, row) {
    printf("  %-8s %-*s  %s\n", nx_audit_text(row, "change"), NAME_WIDTH, nx_audit_text(row, "kind"),
           nx_audit_text(row, "what"));
  }
}

int nx_audit_cannot_write(const char *path) {
  char *shown = nx_show_text(path);
  fprintf(stderr, "nxmem audit: could not write %s: %s; name a file that can be written\n", shown, strerror(errno));
  free(shown);
  return -1;
}

int nx_audit_write_json(const json_t *document, const char *path) {
  errno = 0;
  if (!json_dump_file(document, path, JSON_INDENT(2))) return 0;
  if (!errno) errno = EIO;
  return nx_audit_cannot_write(path);
}
