/*
 * places.h: who may change a file, or put another in its place.
 * Attackers: links and folders on the way.
 * Promise: every directory from the root to the file, through every link, is looked at once; at most 40 links.
 */
#ifndef NXMEM_AUDIT_PLACES_H
#define NXMEM_AUDIT_PLACES_H

#include <sys/stat.h>

#include "audit/findings.h"

/* `path`: as the caller wrote it. `status`: of the file that was read. */
void nx_audit_judge_places(const char *path, const struct stat *status, nx_audit_findings *findings);

#endif /* NXMEM_AUDIT_PLACES_H */
