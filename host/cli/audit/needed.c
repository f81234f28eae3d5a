/*
 * needed.c: dependencies, found or missing, without the loader.
 * Attackers: names and paths of the file; the libraries found, which are only read.
 * Promise: as in the header; a library of another machine is passed over, as the loader does.
 */
#include "audit/needed.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/document.h"
#include "audit/image.h"
#include "path.h"
#include "report.h"
#include "text.h"

/* A plugin has a handful. Of libraries that are found, this much is read; of those behind that the headers alone. */
enum { NEEDED_MAX = 1024, PARTS_MAX = 256, READ_BYTES_MAX = 512 << 20 };

static const char *const DEFAULT_FOLDERS[] = {
    "/lib/" NX_AUDIT_MULTIARCH, "/usr/lib/" NX_AUDIT_MULTIARCH, "/lib64", "/usr/lib64", "/lib", "/usr/lib"};

enum { DEFAULT_FOLDER_COUNT = sizeof DEFAULT_FOLDERS / sizeof DEFAULT_FOLDERS[0] };

/* ---- One candidate ----------------------------------------------------------------------------------------------- */

/* A library that is there and for this machine; facts and image are the caller's then. */
typedef struct candidate {
  nx_audit_image image;
  nx_audit_facts facts;
  char *path;
} candidate;

/* A library that is too large to be read whole, or of which more is odd than its header, is there all the same. */
static int is_library(const char *path) {
  nx_problem ignored;
  nx_elf file;
  int fd = nx_elf_open_file(path, &ignored);
  if (fd < 0) return 0;
  int fits = !nx_elf_begin(fd, &file, &ignored);
  if (fits) nx_elf_end(&file);
  close(fd);
  return fits;
}

/* What one file's look-ups share. */
typedef struct search {
  const char *origin;
  const nx_facts *base;
  int64_t left; /* bytes of libraries that may still be read */
} search;

static int try_path(search *in, const char *path, candidate *out) {
  nx_problem ignored;
  int read = in->left > 0 && nx_audit_image_read(path, &out->image, &ignored) == NX_AUDIT_READ;
  if (read) in->left -= (int64_t)out->image.size;
  int known = read && !nx_audit_facts_read(out->image.bytes, out->image.size, &out->facts, &ignored);
  if (!known) nx_audit_image_free(&out->image);
  if (!known && !is_library(path)) return 0;
  out->path = nx_copy(path);
  return 1;
}

static void candidate_free(candidate *found) {
  nx_audit_facts_free(&found->facts);
  nx_audit_image_free(&found->image);
  free(found->path);
}

/* ---- Where to look ----------------------------------------------------------------------------------------------- */

/* "$NAME" or "${NAME}" at the start of `at`: its length, else 0. */
static size_t token_at(const char *at, const char *name) {
  size_t length = strlen(name);
  if (at[0] != '$') return 0;
  if (!strncmp(at + 1, name, length)) return length + 1;
  return at[1] == '{' && !strncmp(at + 2, name, length) && at[length + 2] == '}' ? length + 3 : 0;
}

/* One part of a list with the loader's tokens replaced. 0 where it does not fit. */
static int expand(const char *part, size_t length, const char *origin, char out[PATH_MAX]) {
  size_t used = 0;
  for (size_t i = 0; i < length;) {
    size_t skip = 0;
    const char *with = NULL;
    if ((skip = token_at(part + i, "ORIGIN")) != 0) with = origin;
    if (!with && (skip = token_at(part + i, "LIB")) != 0) with = "lib/" NX_AUDIT_MULTIARCH;
    if (!with && (skip = token_at(part + i, "PLATFORM")) != 0) with = NX_AUDIT_PLATFORM;
    size_t some = with ? strlen(with) : 1;
    if (used + some >= PATH_MAX) return 0;
    memcpy(out + used, with ? with : part + i, some);
    used += some;
    i += with ? skip : 1;
  }
  out[used] = '\0';
  return 1;
}

static int try_folder(search *in, const char *folder, const char *name, candidate *out) {
  char path[PATH_MAX];
  int written = snprintf(path, sizeof path, "%s/%s", *folder ? folder : ".", name);
  return written > 0 && written < PATH_MAX && try_path(in, path, out);
}

static int try_list(search *in, const char *list, const char *name, candidate *out) {
  char folder[PATH_MAX];
  for (int i = 0; list && i < PARTS_MAX; i++) {
    size_t length = strcspn(list, ":");
    if (expand(list, length, in->origin, folder) && try_folder(in, folder, name, out)) return 1;
    list = list[length] ? list + length + 1 : NULL;
  }
  return 0;
}

static int try_cache(search *in, const char *name, candidate *out) {
  for (unsigned nth = 0;; nth++) {
    char *path = nx_audit_cached(name, nth);
    int found = path && try_path(in, path, out), last = path == NULL;
    free(path);
    if (found || last) return found;
  }
}

/* ld.so(8): RPATH where there is no RUNPATH, LD_LIBRARY_PATH, RUNPATH, the cache, the default folders. */
static int find(search *in, const char *name, candidate *out) {
  char path[PATH_MAX];
  const nx_facts *base = in->base;
  if (strchr(name, '/')) return expand(name, strlen(name), in->origin, path) && try_path(in, path, out);
  if (!base->runpath && try_list(in, base->rpath, name, out)) return 1;
  if (try_list(in, getenv("LD_LIBRARY_PATH"), name, out)) return 1;
  if (try_list(in, base->runpath, name, out)) return 1;
  if (try_cache(in, name, out)) return 1;
  for (int i = 0; i < DEFAULT_FOLDER_COUNT; i++)
    if (try_folder(in, DEFAULT_FOLDERS[i], name, out)) return 1;
  return 0;
}

/* ---- Versions ---------------------------------------------------------------------------------------------------- */

static int defines(const nx_audit_facts *library, const char *version) {
  for (size_t i = 0; i < library->defines.count; i++)
    if (!strcmp(library->defines.items[i].name, version)) return 1;
  return 0;
}

/* A library without any versions is taken as it is, as the loader does. */
static void judge_versions(const nx_audit_facts *facts, const char *name, const nx_audit_facts *library,
                           nx_audit_findings *findings) {
  nx_audit_words missing = {0};
  for (size_t i = 0; library->defines.count && i < facts->needs.count; i++) {
    const nx_audit_version *need = &facts->needs.items[i];
    if (!need->weak && !strcmp(need->library, name) && !defines(library, need->name))
      nx_audit_word(&missing, need->name);
  }
  if (!missing.count) return;
  char *shown = nx_show_text(name), *lead = NULL;
  if (asprintf(&lead, "%s lacks ", shown) < 0) nx_out_of_memory();
  nx_audit_add_words(findings, NX_AUDIT_MISSING_VERSION, lead, &missing);
  free(lead);
  free(shown);
}

/* ---- All of them ------------------------------------------------------------------------------------------------- */

static void set_raw(json_t *row, const char *key, const char *raw) {
  char *shown = nx_show_text(raw);
  nx_set_text(row, key, shown);
  free(shown);
}

static char *folder_of(const char *path) {
  char *folder = nx_absolute(path, NULL);
  char *slash = strrchr(folder, '/');
  if (slash) *slash = '\0';
  return folder;
}

/* Named before? Then it was looked for, as the loader loads it once. */
static int is_repeated(const nx_audit_strings *needed, size_t at) {
  for (size_t i = 0; i < at; i++)
    if (!strcmp(needed->items[i], needed->items[at])) return 1;
  return 0;
}

static json_t *judge_one(search *in, const nx_audit_facts *facts, const char *name, nx_audit_words *missing,
                         nx_audit_findings *findings) {
  candidate found = {0};
  json_t *row = nx_audit_object();
  set_raw(row, "name", name);
  if (find(in, name, &found)) {
    set_raw(row, "found", found.path);
    judge_versions(facts, name, &found.facts, findings);
    candidate_free(&found);
  } else {
    nx_set(row, "found", json_null());
    nx_audit_word(missing, name);
  }
  return row;
}

static void judge_parts(const char *what, const char *list, nx_audit_findings *findings) {
  size_t parts = 1;
  for (; list && *list; list++) parts += *list == ':';
  if (parts > PARTS_MAX)
    nx_audit_add(findings, NX_AUDIT_MANY_DEPENDENCIES, "%s has %zu parts, of which %d were looked into", what, parts,
                 PARTS_MAX);
}

json_t *nx_audit_judge_needed(const char *path, const nx_audit_facts *facts, nx_audit_findings *findings) {
  json_t *rows = nx_audit_array();
  nx_audit_words missing = {0};
  char *origin = folder_of(path);
  search in = {origin, &facts->base, READ_BYTES_MAX};
  const nx_audit_strings *needed = &facts->needed;
  for (size_t i = 0; i < needed->count && i < NEEDED_MAX; i++)
    if (!is_repeated(needed, i)) nx_audit_append(rows, judge_one(&in, facts, needed->items[i], &missing, findings));
  if (needed->count > NEEDED_MAX)
    nx_audit_add(findings, NX_AUDIT_MANY_DEPENDENCIES, "it names %zu, of which %d were looked for", needed->count,
                 NEEDED_MAX);
  judge_parts("RPATH", facts->base.rpath, findings);
  judge_parts("RUNPATH", facts->base.runpath, findings);
  nx_audit_add_words(findings, NX_AUDIT_MISSING_DEPENDENCY, "", &missing);
  free(origin);
  return rows;
}
