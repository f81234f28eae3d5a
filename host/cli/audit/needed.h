/*
 * needed.h: whether the libraries that a file needs are there, and new enough.
 * Attackers: names and paths of the file; the libraries found, which are only read.
 * Promise: looks where the loader looks, runs nothing; at most NEEDED_MAX libraries are looked for.
 */
#ifndef NXMEM_AUDIT_NEEDED_H
#define NXMEM_AUDIT_NEEDED_H

#include <jansson.h>

#include "audit/facts.h"

/* One object per dependency: its name, and the path it was found under (null: not found). `path`: of the file. */
json_t *nx_audit_judge_needed(const char *path, const nx_audit_facts *facts, nx_audit_findings *findings);

/* ---- The loader's cache (cache.c) -------------------------------------------------------------------------------- */

/* What /etc/ld.so.cache holds under this name, nth entry from 0; NULL: no more. The caller frees it. */
char *nx_audit_cached(const char *name, unsigned nth);

#endif /* NXMEM_AUDIT_NEEDED_H */
