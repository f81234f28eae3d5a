/*
 * places.c: owner and permissions of a file and of every directory above it.
 * Attackers: links and folders on the way.
 * Promise: the path is followed one part at a time, as the kernel does it; what cannot be looked at ends the walk.
 */
#include "audit/places.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/document.h"
#include "report.h"
#include "text.h"

/* As many as the kernel follows. */
enum { LINKS_MAX = 40 };

static int is_ours(uid_t owner) { return owner == 0 || owner == geteuid(); }

/* A group that is its owner's own: by Debian's custom of the same number; root's is as good as root. */
static int is_private(const struct stat *status) { return status->st_gid == 0 || status->st_gid == status->st_uid; }

/* ---- Directories ------------------------------------------------------------------------------------------------- */

void nx_audit_set_rights(json_t *row, const struct stat *status) {
  char mode[8];
  snprintf(mode, sizeof mode, "%04o", (unsigned)status->st_mode & 07777);
  nx_set_number(row, "owner", status->st_uid);
  nx_set_number(row, "group", status->st_gid);
  nx_set_text(row, "mode", mode);
}

/* `why`: of a folder that the file itself does not lie below, why it is looked at. */
static void judge_folder(const char *path, const char *why, const struct stat *status, nx_audit_findings *findings) {
  mode_t mode = status->st_mode;
  char *shown = nx_show_text(path);
  unsigned bits = mode & 07777, owner = status->st_uid, group = status->st_gid;
  if (!is_ours(owner)) nx_audit_add(findings, NX_AUDIT_FOLDER_OWNER, "%s belongs to user %u%s", shown, owner, why);
  if ((mode & S_IWOTH) && (mode & S_ISVTX))
    nx_audit_add(findings, NX_AUDIT_FOLDER_STICKY, "%s has mode %04o%s", shown, bits, why);
  else if (mode & S_IWOTH)
    nx_audit_add(findings, NX_AUDIT_FOLDER_WRITABLE, "%s has mode %04o%s", shown, bits, why);
  else if ((mode & S_IWGRP) && !(mode & S_ISVTX) && !is_private(status))
    nx_audit_add(findings, NX_AUDIT_FOLDER_GROUP, "%s has mode %04o and group %u%s", shown, bits, group, why);
  free(shown);
}

/* ---- The way ----------------------------------------------------------------------------------------------------- */

typedef struct walk {
  char at[PATH_MAX];   /* where the walk stands: a directory without a final slash; "" is the root */
  char left[PATH_MAX]; /* what is still to be followed */
  int links;
  nx_audit_places *places;
  const char *why; /* "": it is the file's own way */
} walk;

static int is_own(const walk *w) { return !*w->why; }

static const char *standing(const walk *w) { return *w->at ? w->at : "/"; }

static void tell_folder(walk *w, const char *name, const struct stat *status) {
  json_t *row = nx_audit_object();
  nx_audit_set_raw(row, "path", name);
  nx_audit_set_rights(row, status);
  nx_audit_append(w->places->folders, row);
}

/* A directory is judged once, however often links lead through it. */
static void visit(walk *w) {
  nx_audit_places *places = w->places;
  struct stat status;
  for (size_t i = 0; i < places->seen_count; i++)
    if (!strcmp(places->seen[i], w->at)) return;
  places->seen = reallocarray(places->seen, places->seen_count + 1, sizeof *places->seen);
  if (!places->seen) nx_out_of_memory();
  places->seen[places->seen_count++] = nx_copy(w->at);
  if (lstat(standing(w), &status)) return;
  judge_folder(standing(w), w->why, &status, places->findings);
  if (is_own(w)) tell_folder(w, standing(w), &status);
}

/* What is not there can be made by whoever may write to the folder. */
static void judge_absence(const walk *w, const char *missing) {
  struct stat status;
  if (is_own(w) || lstat(standing(w), &status) || !(status.st_mode & S_IWOTH)) return;
  char *shown = nx_show_text(standing(w)), *shown_missing = nx_show_text(missing);
  nx_audit_add(w->places->findings, NX_AUDIT_FOLDER_WRITABLE, "%s has mode %04o, so %s can be made by anybody%s", shown,
               (unsigned)status.st_mode & 07777, shown_missing, w->why);
  free(shown);
  free(shown_missing);
}

static void go_up(walk *w) {
  char *slash = strrchr(w->at, '/');
  if (slash) *slash = '\0';
}

static void tell_link(walk *w, const char *link, const char *target) {
  char *shown = nx_show_text(link), *shown_target = nx_show_text(target);
  nx_audit_add(w->places->findings, NX_AUDIT_LINK, "%s is a link to %s", shown, shown_target);
  free(shown);
  free(shown_target);
}

/* What a link says, before what was left behind it. 0 or -1. */
static int follow(walk *w, const char *link) {
  char target[PATH_MAX], joined[2 * PATH_MAX + 2];
  ssize_t length = readlink(link, target, sizeof target - 1);
  if (length < 0 || ++w->links > LINKS_MAX) return -1;
  target[length] = '\0';
  if (is_own(w)) tell_link(w, link, target);
  if (snprintf(joined, sizeof joined, "%s/%s", target, w->left) >= PATH_MAX) return -1;
  strcpy(w->left, joined);
  if (*target == '/') w->at[0] = '\0';
  return 0;
}

/* The next part of what is left. 0: nothing is left. -1: it does not fit. */
static int next_part(walk *w, char part[NAME_MAX + 1]) {
  char *start = w->left + strspn(w->left, "/");
  size_t length = strcspn(start, "/");
  if (length == 0) return 0;
  if (length > NAME_MAX) return -1;
  memcpy(part, start, length);
  part[length] = '\0';
  memmove(w->left, start + length, strlen(start + length) + 1);
  return 1;
}

/* 1: go on. */
static int step(walk *w) {
  char part[NAME_MAX + 1], next[PATH_MAX];
  struct stat status;
  if (next_part(w, part) != 1) return 0;
  visit(w);
  if (!strcmp(part, ".")) return 1;
  if (!strcmp(part, "..")) {
    go_up(w);
    return 1;
  }
  if (snprintf(next, sizeof next, "%s/%s", w->at, part) >= PATH_MAX) return 0;
  if (lstat(next, &status)) {
    judge_absence(w, next);
    return 0;
  }
  if (S_ISLNK(status.st_mode)) return !follow(w, next);
  if (!S_ISDIR(status.st_mode)) return 0;
  strcpy(w->at, next);
  return 1;
}

static void judge_way(nx_audit_places *places, const char *path, const char *behind, const char *why) {
  walk *w = calloc(1, sizeof *w);
  char *here = *path == '/' ? NULL : getcwd(NULL, 0);
  if (!w) nx_out_of_memory();
  w->places = places;
  w->why = why;
  if (snprintf(w->left, sizeof w->left, "%s/%s%s", here ? here : "", path, behind) < PATH_MAX)
    while (step(w)) continue;
  free(here);
  free(w);
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */

enum { LARGE_BYTES = 64 << 20 };

/* `name`: what to call it. */
static void judge_file(const char *name, const struct stat *status, nx_audit_findings *findings) {
  mode_t mode = status->st_mode;
  unsigned bits = mode & 07777, group = status->st_gid;
  if ((mode & S_IWOTH) || ((mode & S_IWGRP) && !is_private(status)))
    nx_audit_add(findings, NX_AUDIT_FILE_WRITABLE, "%s has mode %04o and group %u", name, bits, group);
  if (!is_ours(status->st_uid))
    nx_audit_add(findings, NX_AUDIT_FILE_OWNER, "%s belongs to user %u", name, (unsigned)status->st_uid);
  if (mode & (S_ISUID | S_ISGID)) nx_audit_add(findings, NX_AUDIT_FILE_SETID, "%s has mode %04o", name, bits);
}

void nx_audit_judge_places(nx_audit_places *places, const char *path, const struct stat *status) {
  judge_file("it", status, places->findings);
  if (status->st_size > LARGE_BYTES)
    nx_audit_add(places->findings, NX_AUDIT_LARGE, "it has %lld bytes", (long long)status->st_size);
  places->folders = nx_audit_array();
  judge_way(places, path, "", "");
}

void nx_audit_judge_library(nx_audit_places *places, const char *path) {
  struct stat status;
  char *shown = nx_show_text(path), *name = NULL, *why = NULL;
  if (asprintf(&name, "the library %s", shown) < 0 || asprintf(&why, ", above the library %s", shown) < 0)
    nx_out_of_memory();
  if (!stat(path, &status)) judge_file(name, &status, places->findings);
  judge_way(places, path, "", why);
  free(name);
  free(why);
  free(shown);
}

void nx_audit_judge_search_folder(nx_audit_places *places, const char *what, const char *path) {
  char *why = NULL;
  if (asprintf(&why, ", where %s leads", what) < 0) nx_out_of_memory();
  judge_way(places, path, "/.", why);
  free(why);
}

void nx_audit_places_free(nx_audit_places *places) {
  for (size_t i = 0; i < places->seen_count; i++) free(places->seen[i]);
  free(places->seen);
  json_decref(places->folders);
}
