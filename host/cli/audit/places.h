/*
 * places.h: who may change a file, or put another in its place.
 * Attackers: links and folders on the way.
 * Promise: every directory from the root to the file, through every link, is looked at once; at most 40 links.
 */
#ifndef NXMEM_AUDIT_PLACES_H
#define NXMEM_AUDIT_PLACES_H

#include <jansson.h>
#include <sys/stat.h>

#include "audit/findings.h"

/* The places of one file and of what it needs: a directory that several lie below is told once. */
typedef struct nx_audit_places {
  nx_audit_findings *findings;
  json_t *folders; /* above the file itself: path, owner, group, mode; owned */
  char **seen;     /* owned, each of them */
  size_t seen_count;
} nx_audit_places;

/* Owner, group and mode, as JSON has them. */
void nx_audit_set_rights(json_t *row, const struct stat *status);

/* `path`: as the caller wrote it. `status`: of the file that was read. nx_audit_places_free() is owed. */
void nx_audit_judge_places(nx_audit_places *places, const char *path, const struct stat *status);

/* A library that the file needs, found at this path. */
void nx_audit_judge_library(nx_audit_places *places, const char *path);

/* A folder of the file's search path, be it there or not. `what`: "RPATH" or "RUNPATH". */
void nx_audit_judge_search_folder(nx_audit_places *places, const char *what, const char *path);

void nx_audit_places_free(nx_audit_places *places);

#endif /* NXMEM_AUDIT_PLACES_H */
