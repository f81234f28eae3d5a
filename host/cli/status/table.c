/*
 * table.c: rows of the books as a table: a line for each, or one for each axis where they differ.
 * Attackers: names of the scenario inside the rows; they arrive escaped.
 * Promise: the table shows what stands in the rows; a column is as wide as its widest figure, and no name moves another's line.
 */
#include <inttypes.h>
#include <string.h>

#include "scenario.h"

enum { AXES = 3, FIGURES = 6, CELL = 24, NAME_MOST = 24, AXIS = 8 };

static const char *const AXIS_KEY[AXES] = {"charged", "physical", "mapped"};

/* What a figure is called, and where in a row it stands: in a tier's and the total's, or in an authority's. */
typedef struct column {
  const char *title, *key, *other;
} column;

static const column COLUMN[FIGURES] = {{"used", "used", NULL},
                                       {"live", "live", NULL},
                                       {"quarantined", "quarantined", NULL},
                                       {"ahead", "drawn-ahead", NULL},
                                       {"set aside", "set-aside", "slice"},
                                       {"limit", "limit", "budget"}};

/* Exactly, in the largest unit that leaves no rest. */
static void exactly(uint64_t bytes, char out[CELL]) {
  static const char unit[] = {'\0', 'K', 'M', 'G', 'T', 'P', 'E', '\0'};
  int i = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit[i + 1] != '\0') {
    bytes /= 1024;
    i++;
  }
  (void)snprintf(out, CELL, "%" PRIu64 "%.1s", bytes, &unit[i]);
}

static void cell_of(const json_t *row, const column *c, int axis, char out[CELL]) {
  const json_t *axes = json_object_get(row, c->key);
  if (axes == NULL && c->other != NULL) axes = json_object_get(row, c->other);
  const json_t *value = json_object_get(axes, AXIS_KEY[axis]);
  const json_int_t bytes = json_integer_value(value);
  (void)snprintf(out, CELL, "-");
  if (json_is_string(value)) (void)snprintf(out, CELL, "%s", json_string_value(value));
  if (json_is_integer(value) && (uint64_t)bytes < NXMEM_TOTAL_MAX) exactly((uint64_t)bytes, out);
}

static const char *bar_of(const json_t *row, int axis) {
  return json_string_value(json_object_get(json_object_get(row, "bars"), AXIS_KEY[axis]));
}

static int is_same(const char *a, const char *b) { return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0); }

/* All axes have the same figures and the same bar. */
static int is_one_line(const json_t *row) {
  char first[CELL], other[CELL];
  for (int axis = 1; axis < AXES; axis++) {
    if (!is_same(bar_of(row, 0), bar_of(row, axis))) return 0;
    for (int i = 0; i < FIGURES; i++) {
      cell_of(row, &COLUMN[i], 0, first);
      cell_of(row, &COLUMN[i], axis, other);
      if (strcmp(first, other) != 0) return 0;
    }
  }
  return 1;
}

/* ---- Widths ------------------------------------------------------------------------------------------------------ */

typedef struct widths {
  int name;
  int figure[FIGURES];
} widths;

static int wider(int a, size_t b) { return (size_t)a > b ? a : (int)b; }

/* Characters, not bytes. */
static int columns_of(const char *text) {
  int columns = 0;
  for (; *text != '\0'; text++) columns += ((unsigned char)*text & 0xC0u) != 0x80u;
  return columns;
}

static const char *name_of(const json_t *row) { return json_string_value(json_object_get(row, "name")); }

static void widen(widths *w, const json_t *row) {
  char cell[CELL];
  const int columns = columns_of(name_of(row));
  w->name = wider(w->name, (size_t)(columns < NAME_MOST ? columns : NAME_MOST));
  for (int i = 0; i < FIGURES; i++) {
    for (int axis = 0; axis < AXES; axis++) {
      cell_of(row, &COLUMN[i], axis, cell);
      w->figure[i] = wider(w->figure[i], strlen(cell));
    }
  }
}

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

static void print_name(FILE *out, const char *name, int width) {
  const int rest = width - columns_of(name);
  fprintf(out, "  %s%*s", name, rest > 0 ? rest : 0, "");
}

static void print_header(FILE *out, const widths *w) {
  print_name(out, "bytes", w->name);
  fprintf(out, "  %-*s", AXIS, "axis");
  for (int i = 0; i < FIGURES; i++) fprintf(out, "  %*s", w->figure[i], COLUMN[i].title);
  fprintf(out, "  %6s  %4s  %s\n", "blocks", "kept", "# live x kept . free");
}

static void print_count(FILE *out, const json_t *row, const char *key, int width) {
  const json_t *count = json_object_get(row, key);
  if (json_is_integer(count))
    fprintf(out, "  %*" JSON_INTEGER_FORMAT, width, json_integer_value(count));
  else
    fprintf(out, "  %*s", width, "-");
}

/* A bar, or what a mechanism is in. */
static void print_end(FILE *out, const json_t *row, int axis) {
  const char *bar = bar_of(row, axis);
  const char *lifecycle = json_string_value(json_object_get(row, "lifecycle"));
  const char *device = json_string_value(json_object_get(row, "device"));
  if (bar != NULL) fprintf(out, "  %s", bar);
  if (bar == NULL && axis == 0 && lifecycle != NULL) fprintf(out, "  %s", lifecycle);
  if (bar == NULL && axis == 0 && device != NULL) fprintf(out, " %s", device);
  if (axis == 0 && json_is_true(json_object_get(row, "selected"))) fputs(" selected", out);
  fputc('\n', out);
}

static void print_line(FILE *out, const widths *w, const json_t *row, int axis, const char *axis_word) {
  char cell[CELL];
  print_name(out, axis == 0 ? name_of(row) : "", w->name);
  fprintf(out, "  %-*s", AXIS, axis_word);
  for (int i = 0; i < FIGURES; i++) {
    cell_of(row, &COLUMN[i], axis, cell);
    fprintf(out, "  %*s", w->figure[i], cell);
  }
  if (axis == 0) {
    print_count(out, row, "allocations", 6);
    print_count(out, row, "kept", 4);
  } else {
    fprintf(out, "  %6s  %4s", "", "");
  }
  print_end(out, row, axis);
}

static void print_row(FILE *out, const widths *w, const json_t *row) {
  if (is_one_line(row)) {
    print_line(out, w, row, 0, "each");
    return;
  }
  for (int axis = 0; axis < AXES; axis++) print_line(out, w, row, axis, AXIS_KEY[axis]);
}

void nx_books_print(FILE *out, const json_t *rows, size_t first, const json_t *total) {
  const size_t count = json_array_size(rows);
  widths w = {.name = 5};
  for (int i = 0; i < FIGURES; i++) w.figure[i] = (int)strlen(COLUMN[i].title);
  for (size_t i = first; i < count; i++) widen(&w, json_array_get(rows, i));
  widen(&w, total);
  print_header(out, &w);
  for (size_t i = first; i < count; i++) print_row(out, &w, json_array_get(rows, i));
  print_row(out, &w, total);
}
