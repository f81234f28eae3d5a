/*
 * needed.h: the libraries that a file needs, and those that they need: there, new enough, well kept, left alone?
 * Attackers: names and paths of the file; the libraries found, which are only read.
 * Promise: looks where the loader looks, runs nothing; at most NEEDED_MAX libraries of the file are looked for, and as
 * many of its libraries.
 */
#ifndef NXMEM_AUDIT_NEEDED_H
#define NXMEM_AUDIT_NEEDED_H

#include <jansson.h>

#include "audit/facts.h"
#include "audit/places.h"

/*
 * Sets in `learnt` "needed", one object per dependency: its name, and the path it was found under (null: not found); and
 * "needed_by_libraries", the same of their dependencies. Marks the exports of the file that a library defines as well.
 * `path`: of the file, absolute.
 */
void nx_audit_judge_needed(const char *path, nx_audit_facts *facts, nx_audit_places *places, json_t *learnt);

/* ---- The loader's cache (cache.c) -------------------------------------------------------------------------------- */

/* What /etc/ld.so.cache holds under this name, nth entry from 0; NULL: no more. The caller frees it. */
char *nx_audit_cached(const char *name, unsigned nth);

#endif /* NXMEM_AUDIT_NEEDED_H */
