/*
 * lookup.c: where a library lies.
 * Attackers: names and paths of the file; the libraries found, which are only read.
 * Promise: as in the header; a library of another machine is passed over, as the loader does.
 */
#include "audit/lookup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/needed.h"

/* A chain of libraries that each brought in the next is seldom longer than three. */
enum { LOADERS_MAX = 16 };

static const char *const DEFAULT_FOLDERS[] = {
    "/lib/" NX_AUDIT_MULTIARCH, "/usr/lib/" NX_AUDIT_MULTIARCH, "/lib64", "/usr/lib64", "/lib", "/usr/lib"};

enum { DEFAULT_FOLDER_COUNT = sizeof DEFAULT_FOLDERS / sizeof DEFAULT_FOLDERS[0] };

/* ---- One candidate ----------------------------------------------------------------------------------------------- */

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

static int try_path(nx_audit_search *in, const char *path, nx_audit_candidate *out) {
  nx_problem ignored;
  int read = in->left > 0 && nx_audit_image_read(path, &out->image, &ignored) == NX_AUDIT_READ;
  if (read) in->left -= (int64_t)out->image.size;
  out->known = read && !nx_audit_facts_read(out->image.bytes, out->image.size, &out->facts, &ignored);
  if (!out->known) nx_audit_image_free(&out->image);
  if (!out->known && !is_library(path)) return 0;
  out->path = nx_copy(path);
  return 1;
}

void nx_audit_candidate_free(nx_audit_candidate *found) {
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
int nx_audit_expand(const char *part, size_t length, const char *origin, char out[PATH_MAX]) {
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

static int try_folder(nx_audit_search *in, const char *folder, const char *name, nx_audit_candidate *out) {
  char path[PATH_MAX];
  int written = snprintf(path, sizeof path, "%s/%s", *folder ? folder : ".", name);
  return written > 0 && written < PATH_MAX && try_path(in, path, out);
}

static int try_list(nx_audit_search *in, const char *list, const char *origin, const char *name,
                    nx_audit_candidate *out) {
  char folder[PATH_MAX];
  for (int i = 0; list && i < NX_AUDIT_PARTS_MAX; i++) {
    size_t length = strcspn(list, ":");
    if (nx_audit_expand(list, length, origin, folder) && try_folder(in, folder, name, out)) return 1;
    list = list[length] ? list + length + 1 : NULL;
  }
  return 0;
}

static int try_cache(nx_audit_search *in, const char *name, nx_audit_candidate *out) {
  for (unsigned nth = 0;; nth++) {
    char *path = nx_audit_cached(name, nth);
    int found = path && try_path(in, path, out), last = path == NULL;
    free(path);
    if (found || last) return found;
  }
}

/* Of whoever asks and of those that brought it in, each without a RUNPATH of its own. */
static int try_rpaths(nx_audit_search *in, const nx_audit_loader *by, const char *name, nx_audit_candidate *out) {
  for (int i = 0; by && i < LOADERS_MAX; i++, by = by->parent)
    if (!by->runpath && try_list(in, by->rpath, by->origin, name, out)) return 1;
  return 0;
}

/* ld.so(8): RPATH where there is no RUNPATH, LD_LIBRARY_PATH, RUNPATH, the cache, the default folders. */
int nx_audit_find(nx_audit_search *in, const nx_audit_loader *by, const char *name, nx_audit_candidate *out) {
  char path[PATH_MAX];
  *out = (nx_audit_candidate){0};
  if (strchr(name, '/')) return nx_audit_expand(name, strlen(name), by->origin, path) && try_path(in, path, out);
  if (!by->runpath && try_rpaths(in, by, name, out)) return 1;
  if (try_list(in, getenv("LD_LIBRARY_PATH"), by->origin, name, out)) return 1;
  if (try_list(in, by->runpath, by->origin, name, out)) return 1;
  if (try_cache(in, name, out)) return 1;
  for (int i = 0; i < DEFAULT_FOLDER_COUNT; i++)
    if (try_folder(in, DEFAULT_FOLDERS[i], name, out)) return 1;
  return 0;
}
