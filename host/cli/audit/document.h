/*
 * document.h: one audit as one JSON document, from which every form is written.
 * Attackers: names of files and of their contents: escaped when they enter.
 * Promise: all forms show the same findings.
 */
#ifndef NXMEM_AUDIT_DOCUMENT_H
#define NXMEM_AUDIT_DOCUMENT_H

#include <jansson.h>

#include "audit/facts.h"
#include "audit/image.h"

/*
 * The document: command, version, exit_code, files. A file: file, result ("ok", "findings", "no-plugin",
 * "could-not-run"), message (of the last two), errors, warnings, notes, findings, facts, running (of the dynamic part).
 * A finding: rule, name, level, statement, evidence.
 */

json_t *nx_audit_object(void);
json_t *nx_audit_array(void);
void nx_audit_append(json_t *array, json_t *item);

/* Text that came from outside; NULL becomes null. */
void nx_audit_set_raw(json_t *row, const char *key, const char *raw);

/* The facts as JSON: exports, imports, versions, marks, segments. */
json_t *nx_audit_facts_json(const nx_audit_facts *facts);
json_t *nx_audit_findings_json(const nx_audit_findings *findings);

/* A text of a row; "" where there is none. */
const char *nx_audit_text(const json_t *row, const char *key);

/* ---- Forms ------------------------------------------------------------------------------------------------------- */

void nx_audit_print_file(const json_t *file);
void nx_audit_print_changes(const json_t *changes);

/* 0, or -1 with a line on stderr. */
int nx_audit_write_json(const json_t *document, const char *path);
int nx_audit_write_sarif(const json_t *document, const char *path);
int nx_audit_write_html(const json_t *document, const char *path);
int nx_audit_cannot_write(const char *path);

/* What changed from one file of a document to another: kind ("rule", "export", ...), change, what. */
json_t *nx_audit_changes(const json_t *old, const json_t *now);

#endif /* NXMEM_AUDIT_DOCUMENT_H */
