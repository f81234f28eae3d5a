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

#include "text.h"

/* As many as the kernel follows. */
enum { LINKS_MAX = 40 };

static int is_ours(uid_t owner) { return owner == 0 || owner == geteuid(); }

/* A group that is its owner's own: by Debian's custom of the same number; root's is as good as root. */
static int is_private(const struct stat *status) { return status->st_gid == 0 || status->st_gid == status->st_uid; }

/* ---- Directories ------------------------------------------------------------------------------------------------- */

static void judge_folder(const char *path, const struct stat *status, nx_audit_findings *findings) {
  mode_t mode = status->st_mode;
  char *shown = nx_show_text(path);
  unsigned bits = mode & 07777, owner = status->st_uid, group = status->st_gid;
  if (!is_ours(owner)) nx_audit_add(findings, NX_AUDIT_FOLDER_OWNER, "%s belongs to user %u", shown, owner);
  if ((mode & S_IWOTH) && (mode & S_ISVTX))
    nx_audit_add(findings, NX_AUDIT_FOLDER_STICKY, "%s has mode %04o", shown, bits);
  else if (mode & S_IWOTH)
    nx_audit_add(findings, NX_AUDIT_FOLDER_WRITABLE, "%s has mode %04o", shown, bits);
  else if ((mode & S_IWGRP) && !(mode & S_ISVTX) && !is_private(status))
    nx_audit_add(findings, NX_AUDIT_FOLDER_GROUP, "%s has mode %04o and group %u", shown, bits, group);
  free(shown);
}

/* ---- The way ----------------------------------------------------------------------------------------------------- */

typedef struct walk {
  char at[PATH_MAX];   /* where the walk stands: a directory without a final slash; "" is the root */
  char left[PATH_MAX]; /* what is still to be followed */
  char (*seen)[PATH_MAX];
  size_t seen_count;
  int links;
  nx_audit_findings *findings;
} walk;

/* A directory is judged once, however often links lead through it. */
static void visit(walk *w) {
  struct stat status;
  for (size_t i = 0; i < w->seen_count; i++)
    if (!strcmp(w->seen[i], w->at)) return;
  w->seen = reallocarray(w->seen, w->seen_count + 1, sizeof *w->seen);
  if (!w->seen) nx_out_of_memory();
  strcpy(w->seen[w->seen_count++], w->at);
  const char *name = *w->at ? w->at : "/";
  if (!lstat(name, &status)) judge_folder(name, &status, w->findings);
}

static void go_up(walk *w) {
  char *slash = strrchr(w->at, '/');
  if (slash) *slash = '\0';
}

/* What a link says, before what was left behind it. 0 or -1. */
static int follow(walk *w, const char *link) {
  char target[PATH_MAX], joined[2 * PATH_MAX + 2];
  ssize_t length = readlink(link, target, sizeof target - 1);
  if (length < 0 || ++w->links > LINKS_MAX) return -1;
  target[length] = '\0';
  char *shown = nx_show_text(link), *shown_target = nx_show_text(target);
  nx_audit_add(w->findings, NX_AUDIT_LINK, "%s is a link to %s", shown, shown_target);
  free(shown);
  free(shown_target);
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
  if (snprintf(next, sizeof next, "%s/%s", w->at, part) >= PATH_MAX || lstat(next, &status)) return 0;
  if (S_ISLNK(status.st_mode)) return !follow(w, next);
  if (!S_ISDIR(status.st_mode)) return 0;
  strcpy(w->at, next);
  return 1;
}

static void judge_way(const char *path, nx_audit_findings *findings) {
  walk *w = calloc(1, sizeof *w);
  char *here = *path == '/' ? NULL : getcwd(NULL, 0);
  if (!w) nx_out_of_memory();
  w->findings = findings;
  if (snprintf(w->left, sizeof w->left, "%s/%s", here ? here : "", path) < PATH_MAX)
    while (step(w)) continue;
  free(here);
  free(w->seen);
  free(w);
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */

enum { LARGE_BYTES = 64 << 20 };

static void judge_file(const struct stat *status, nx_audit_findings *findings) {
  mode_t mode = status->st_mode;
  unsigned bits = mode & 07777, group = status->st_gid;
  if ((mode & S_IWOTH) || ((mode & S_IWGRP) && !is_private(status)))
    nx_audit_add(findings, NX_AUDIT_FILE_WRITABLE, "it has mode %04o and group %u", bits, group);
  if (!is_ours(status->st_uid))
    nx_audit_add(findings, NX_AUDIT_FILE_OWNER, "it belongs to user %u", (unsigned)status->st_uid);
  if (mode & (S_ISUID | S_ISGID)) nx_audit_add(findings, NX_AUDIT_FILE_SETID, "it has mode %04o", bits);
  if (status->st_size > LARGE_BYTES)
    nx_audit_add(findings, NX_AUDIT_LARGE, "it has %lld bytes", (long long)status->st_size);
}

void nx_audit_judge_places(const char *path, const struct stat *status, nx_audit_findings *findings) {
  judge_file(status, findings);
  judge_way(path, findings);
}
