/*
 * lookup.h: finding a library where the loader would.
 * Attackers: names and paths of the file; the libraries found, which are only read.
 * Promise: runs nothing; reads no more than it is given to read.
 */
#ifndef NXMEM_AUDIT_LOOKUP_H
#define NXMEM_AUDIT_LOOKUP_H

#include <limits.h>

#include "audit/facts.h"
#include "audit/image.h"

/* Parts of one list of folders that are looked into. */
enum { NX_AUDIT_PARTS_MAX = 256 };

/* What look-ups share. */
typedef struct nx_audit_search {
  int64_t left; /* bytes of libraries that may still be read; of those behind that the headers alone */
} nx_audit_search;

/* Who asks for a library. All of it is borrowed. */
typedef struct nx_audit_loader {
  const struct nx_audit_loader *parent; /* who brought this one in; NULL: the file itself */
  const char *origin;                   /* its folder */
  const char *rpath, *runpath;          /* NULL: none */
} nx_audit_loader;

/* A library that is there and for this machine. */
typedef struct nx_audit_candidate {
  nx_audit_image image;
  nx_audit_facts facts; /* empty where it is not known: too large, or more of it is odd than its header */
  int known;
  char *path;
} nx_audit_candidate;

/* 1 and nx_audit_candidate_free() is owed, or 0. */
int nx_audit_find(nx_audit_search *in, const nx_audit_loader *by, const char *name, nx_audit_candidate *out);
void nx_audit_candidate_free(nx_audit_candidate *found);

/* One part of a list with the loader's tokens replaced. 0 where it does not fit. */
int nx_audit_expand(const char *part, size_t length, const char *origin, char out[PATH_MAX]);

#endif /* NXMEM_AUDIT_LOOKUP_H */
