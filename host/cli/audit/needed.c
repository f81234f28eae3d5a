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

#include "audit/image.h"
#include "path.h"
#include "report.h"
#include "text.h"

/* A plugin has a handful. */
enum { NEEDED_MAX = 64, PARTS_MAX = 64 };

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

static int try_path(const char *path, candidate *out) {
  nx_problem ignored;
  int read = nx_audit_image_read(path, &out->image, &ignored) == NX_AUDIT_READ;
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

static int try_folder(const char *folder, const char *name, candidate *out) {
  char path[PATH_MAX];
  int written = snprintf(path, sizeof path, "%s/%s", *folder ? folder : ".", name);
  return written > 0 && written < PATH_MAX && try_path(path, out);
}

static int try_list(const char *list, const char *origin, const char *name, candidate *out) {
  char folder[PATH_MAX];
  for (int i = 0; list && i < PARTS_MAX; i++) {
    size_t length = strcspn(list, ":");
    if (expand(list, length, origin, folder) && try_folder(folder, name, out)) return 1;
    list = list[length] ? list + length + 1 : NULL;
  }
  return 0;
}

static int try_cache(const char *name, candidate *out) {
  for (unsigned nth = 0;; nth++) {
    char *path = nx_audit_cached(name, nth);
    int found = path && try_path(path, out), last = path == NULL;
    free(path);
    if (found || last) return found;
  }
}

/* ld.so(8): RPATH where there is no RUNPATH, LD_LIBRARY_PATH, RUNPATH, the cache, the default folders. */
static int find(const char *origin, const nx_facts *base, const char *name, candidate *out) {
  char path[PATH_MAX];
  if (strchr(name, '/')) return expand(name, strlen(name), origin, path) && try_path(path, out);
  if (!base->runpath && try_list(base->rpath, origin, name, out)) return 1;
  if (try_list(getenv("LD_LIBRARY_PATH"), origin, name, out)) return 1;
  if (try_list(base->runpath, origin, name, out)) return 1;
  if (try_cache(name, out)) return 1;
  for (int i = 0; i < DEFAULT_FOLDER_COUNT; i++)
    if (try_folder(DEFAULT_FOLDERS[i], name, out)) return 1;
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

json_t *nx_audit_judge_needed(const char *path, const nx_audit_facts *facts, nx_audit_findings *findings) {
  json_t *rows = json_array();
  nx_audit_words missing = {0};
  char *origin = folder_of(path);
  if (!rows) nx_out_of_memory();
  for (size_t i = 0; i < facts->needed.count; i++) {
    const char *name = facts->needed.items[i];
    candidate found = {0};
    json_t *row = json_object();
    if (!row) nx_out_of_memory();
    set_raw(row, "name", name);
    if (i < NEEDED_MAX && find(origin, &facts->base, name, &found)) {
      set_raw(row, "found", found.path);
      judge_versions(facts, name, &found.facts, findings);
      candidate_free(&found);
    } else {
      nx_set(row, "found", json_null());
      nx_audit_word(&missing, name);
    }
    if (json_array_append_new(rows, row)) nx_out_of_memory();
  }
  nx_audit_add_words(findings, NX_AUDIT_MISSING_DEPENDENCY, "", &missing);
  free(origin);
  return rows;
}
