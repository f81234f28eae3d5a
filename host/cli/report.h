/*
 * report.h: what a subcommand found, row by row, once: the same rows become aligned lines or one JSON document.
 * Attackers: texts of a plugin inside the rows. They arrive escaped (text.h); this writes them and nothing else.
 * Promise: a line appears as soon as its row is added, so that a plugin that crashes leaves what came before; output
 * that cannot be written is an error.
 */
#ifndef NXMEM_CLI_REPORT_H
#define NXMEM_CLI_REPORT_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "file_args.h"

typedef enum nx_row_verdict { NX_ROW_OK, NX_ROW_NOTE, NX_ROW_WARNING, NX_ROW_REFUSED, NX_ROW_VERDICTS } nx_row_verdict;

typedef struct nx_report {
  FILE *out;
  const char *command;
  int as_json;
  const char *json_file; /* NULL: none; borrowed */
  int name_width;        /* columns for a row's name */
  json_t *root;
  json_t *rows;
  unsigned count[NX_ROW_VERDICTS];
} nx_report;

/* What differs from one subcommand to the next. */
typedef struct nx_report_style {
  const char *command;
  const char *rows_key; /* what the rows are called in JSON */
  int name_width;
} nx_report_style;

/* file: escaped. */
void nx_report_begin(nx_report *report, const nx_report_style *style, const char *file, const nx_json_args *json);

/* A row to be filled; nx_report_add() takes it over. */
json_t *nx_row(const char *name, nx_row_verdict verdict);

/* The same for a row that is printed otherwise: it stands in the document, and counts. */
void nx_report_keep(nx_report *report, json_t *row);

/*
 * One fact of a row (or of the report's root). Texts must be UTF-8 without control characters; anything else is
 * escaped first.
 */
void nx_set_text(json_t *row, const char *key, const char *text);
void nx_set_flag(json_t *row, const char *key, int on);

/* JSON integers end at 2^63-1: larger numbers become decimal text. */
void nx_set_number(json_t *row, const char *key, uint64_t number);

/* Takes `value` over. */
void nx_set(json_t *row, const char *key, json_t *value);
void nx_append_text(json_t *array, const char *text);

void nx_report_add(nx_report *report, json_t *row);

/*
 * Why the command could not do its work: one line on stderr that names the file once, and "message" in JSON. `row`
 * (may be NULL, taken over) carries the codes; it stands in JSON alone, so that a terminal shows the line once.
 */
void nx_report_problem(nx_report *report, json_t *row, const char *message);

/*
 * For a command that runs plugin code: what the plugin prints to standard output goes to stderr from here on, and
 * the report alone to the real one. Returns -1 when descriptors are exhausted.
 */
int nx_report_own_output(nx_report *report);

/*
 * Facts about the whole stand in report->root. Writes the last line or the document, and the document to its file.
 * Returns exit_code, or NX_EXIT_COULD_NOT_RUN when the output could not be written.
 */
int nx_report_end(nx_report *report, int exit_code);

/* 0, or -1 when something written to `out` did not arrive, with a line on stderr unless its reader went away. */
int nx_check_output(FILE *out);

#endif /* NXMEM_CLI_REPORT_H */
