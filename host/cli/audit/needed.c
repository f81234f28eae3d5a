/*
 * needed.c: dependencies, found or missing, without the loader.
 * Attackers: names and paths of the file; the libraries found, which are only read.
 * Promise: as in the header; each file is read once, breadth first, as the loader loads them.
 */
#include "audit/needed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/document.h"
#include "audit/lookup.h"
#include "path.h"
#include "report.h"
#include "text.h"

/* A plugin has a handful. */
enum { NEEDED_MAX = 1024, READ_BYTES_MAX = 512 << 20 };

/* ---- What was loaded --------------------------------------------------------------------------------------------- */

/* A library, or the file itself. What it says outlives its image. */
typedef struct loaded {
  nx_audit_loader as;
  char *name, *path, *origin, *rpath, *runpath, *soname; /* owned */
  char **needed;                                         /* owned, each of them */
  size_t count;
  dev_t device;
  ino_t inode;
} loaded;

typedef struct tree {
  loaded **items; /* the first is the file */
  size_t count, room;
  nx_audit_strings asked; /* names that were looked for; borrowed of the items, or of the file */
  nx_audit_search search;
  nx_audit_facts *facts; /* of the file */
  nx_audit_places *places;
  nx_audit_findings *findings;
  nx_audit_words missing;
} tree;

static char *copy(const char *text) { return text ? nx_copy(text) : NULL; }

static char *folder_of(const char *path) {
  char *folder = nx_absolute(path, NULL);
  char *slash = strrchr(folder, '/');
  if (slash) *slash = '\0';
  return folder;
}

static loaded *add_library(tree *all, const loaded *parent, const char *name, const char *path,
                           const nx_audit_facts *facts) {
  loaded *one = calloc(1, sizeof *one);
  char **needed = calloc(facts->needed.count + 1, sizeof *needed);
  if (!one || !needed) nx_out_of_memory();
  *one = (loaded){.name = nx_copy(name), .path = nx_copy(path), .origin = folder_of(path), .needed = needed};
  one->rpath = copy(facts->base.rpath);
  one->runpath = copy(facts->base.runpath);
  one->soname = copy(facts->base.soname);
  one->as = (nx_audit_loader){parent ? &parent->as : NULL, one->origin, one->rpath, one->runpath};
  for (; one->count < facts->needed.count && one->count <= NEEDED_MAX; one->count++)
    needed[one->count] = nx_copy(facts->needed.items[one->count]);
  all->items = nx_audit_grow(all->items, &all->room, all->count, sizeof(loaded *));
  all->items[all->count++] = one;
  return one;
}

static void free_library(loaded *one) {
  for (size_t i = 0; i < one->count; i++) free(one->needed[i]);
  free(one->needed);
  free(one->name);
  free(one->path);
  free(one->origin);
  free(one->rpath);
  free(one->runpath);
  free(one->soname);
  free(one);
}

static int was_asked(const tree *all, const char *name) {
  for (size_t i = 0; i < all->asked.count; i++)
    if (!strcmp(all->asked.items[i], name)) return 1;
  return 0;
}

/* Looked for before, or the name that a loaded library gives itself: the loader loads it once. */
static int is_asked(const tree *all, const char *name) {
  if (was_asked(all, name)) return 1;
  for (size_t i = 0; i < all->count; i++)
    if (all->items[i]->soname && !strcmp(all->items[i]->soname, name)) return 1;
  return 0;
}

static void ask(tree *all, const char *name) {
  all->asked.items = nx_audit_grow(all->asked.items, &all->asked.room, all->asked.count, sizeof *all->asked.items);
  all->asked.items[all->asked.count++] = name;
}

static int is_loaded(const tree *all, const struct stat *status) {
  for (size_t i = 1; i < all->count; i++)
    if (all->items[i]->device == status->st_dev && all->items[i]->inode == status->st_ino) return 1;
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

/* ---- Names that are taken ---------------------------------------------------------------------------------------- */

/* What linkers define in every file. */
static const char *const EVERYBODYS[] = {"_init", "_fini", "_edata", "_end", "__bss_start", "_start"};

/* Of C++, what every file that needs it defines weakly is the same everywhere. */
static int is_shared(const nx_audit_symbol *symbol) {
  for (size_t i = 0; i < sizeof EVERYBODYS / sizeof EVERYBODYS[0]; i++)
    if (!strcmp(symbol->name, EVERYBODYS[i])) return 1;
  return symbol->binding != STB_GLOBAL && !strncmp(symbol->name, "_Z", 2);
}

/* Both lists are sorted. */
static void judge_taken(tree *all, const char *name, const nx_audit_facts *library) {
  nx_audit_symbols *own = &all->facts->exports;
  nx_audit_words taken = {0};
  for (size_t i = 0, j = 0; i < own->count && j < library->exports.count;) {
    nx_audit_symbol *symbol = &own->items[i];
    const int order = strcmp(symbol->name, library->exports.items[j].name);
    i += order <= 0;
    j += order > 0;
    if (order || symbol->taken || nx_audit_is_entry_point(symbol->name) || is_shared(symbol)) continue;
    symbol->taken = 1;
    if (!nx_audit_is_system_name(symbol->name)) nx_audit_word(&taken, symbol->name);
  }
  char *shown = nx_show_text(name), *lead = NULL;
  if (asprintf(&lead, "exports, as %s does, ", shown) < 0) nx_out_of_memory();
  nx_audit_add_words(all->findings, NX_AUDIT_INTERPOSER, lead, &taken);
  free(lead);
  free(shown);
}

/* ---- One dependency ---------------------------------------------------------------------------------------------- */

static void judge_found(tree *all, const loaded *by, const char *name, const nx_audit_candidate *found) {
  if (by == all->items[0]) judge_versions(all->facts, name, &found->facts, all->findings);
  nx_audit_judge_library(all->places, found->path);
  if (!found->known || is_loaded(all, &found->image.status)) return;
  judge_taken(all, name, &found->facts);
  loaded *one = add_library(all, by, name, found->path, &found->facts);
  one->device = found->image.status.st_dev;
  one->inode = found->image.status.st_ino;
}

static void judge_missing(tree *all, const loaded *by, const char *name) {
  char *line = NULL;
  if (by == all->items[0]) {
    nx_audit_word(&all->missing, name);
    return;
  }
  if (asprintf(&line, "%s of %s", name, by->name) < 0) nx_out_of_memory();
  nx_audit_word(&all->missing, line);
  free(line);
}

static json_t *judge_one(tree *all, const loaded *by, const char *name) {
  nx_audit_candidate found;
  json_t *row = nx_audit_object();
  ask(all, name);
  nx_audit_set_raw(row, "name", name);
  if (by != all->items[0]) nx_audit_set_raw(row, "needed_by", by->name);
  if (nx_audit_find(&all->search, &by->as, name, &found)) {
    nx_audit_set_raw(row, "found", found.path);
    judge_found(all, by, name, &found);
    nx_audit_candidate_free(&found);
  } else {
    nx_set(row, "found", json_null());
    judge_missing(all, by, name);
  }
  return row;
}

/* ---- All of them ------------------------------------------------------------------------------------------------- */

/* Each part of the file's own search path is a place where its libraries come from, be they there or not. */
static void judge_parts(tree *all, const char *what, const char *list) {
  char folder[PATH_MAX];
  size_t parts = 0;
  for (; list; parts++) {
    const size_t length = strcspn(list, ":");
    const int fits = parts < NX_AUDIT_PARTS_MAX && nx_audit_expand(list, length, all->items[0]->origin, folder);
    if (fits && *folder == '/') nx_audit_judge_search_folder(all->places, what, folder);
    list = list[length] ? list + length + 1 : NULL;
  }
  if (parts > NX_AUDIT_PARTS_MAX)
    nx_audit_add(all->findings, NX_AUDIT_MANY_DEPENDENCIES, "%s has %zu parts, of which %d were looked into", what,
                 parts, NX_AUDIT_PARTS_MAX);
}

/* Of the file: each name once, the first NEEDED_MAX of all. */
static json_t *judge_own(tree *all) {
  const nx_audit_strings *needed = &all->facts->needed;
  json_t *rows = nx_audit_array();
  for (size_t i = 0; i < needed->count && i < NEEDED_MAX; i++)
    if (!was_asked(all, needed->items[i])) nx_audit_append(rows, judge_one(all, all->items[0], needed->items[i]));
  if (needed->count > NEEDED_MAX)
    nx_audit_add(all->findings, NX_AUDIT_MANY_DEPENDENCIES, "it names %zu, of which %d were looked for", needed->count,
                 NEEDED_MAX);
  return rows;
}

static json_t *judge_further(tree *all) {
  json_t *rows = nx_audit_array();
  for (size_t i = 1; i < all->count; i++) {
    const loaded *by = all->items[i];
    for (size_t j = 0; j < by->count; j++) {
      if (is_asked(all, by->needed[j])) continue;
      if (json_array_size(rows) == NEEDED_MAX) {
        nx_audit_add(all->findings, NX_AUDIT_MANY_DEPENDENCIES,
                     "its libraries name more than the %d that were looked for", NEEDED_MAX);
        return rows;
      }
      nx_audit_append(rows, judge_one(all, by, by->needed[j]));
    }
  }
  return rows;
}

/* Whoever loads the file has it, named or not. */
static void judge_c_library(tree *all) {
  static const char name[] = "libc.so.6";
  nx_audit_candidate found;
  if (is_asked(all, name) || !nx_audit_find(&all->search, &all->items[0]->as, name, &found)) return;
  judge_taken(all, name, &found.facts);
  nx_audit_candidate_free(&found);
}

void nx_audit_judge_needed(const char *path, nx_audit_facts *facts, nx_audit_places *places, json_t *learnt) {
  tree all = {.search = {READ_BYTES_MAX}, .facts = facts, .places = places, .findings = places->findings};
  add_library(&all, NULL, "", path, facts);
  nx_set(learnt, "needed", judge_own(&all));
  nx_set(learnt, "needed_by_libraries", judge_further(&all));
  judge_c_library(&all);
  judge_parts(&all, "RPATH", facts->base.rpath);
  judge_parts(&all, "RUNPATH", facts->base.runpath);
  nx_audit_add_words(all.findings, NX_AUDIT_MISSING_DEPENDENCY, "", &all.missing);
  for (size_t i = 0; i < all.count; i++) free_library(all.items[i]);
  free(all.items);
  free(all.asked.items);
}
