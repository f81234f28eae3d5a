/*
 * mapping.c: what file stands behind a mapping: the loader knows a library by the name it had when it was loaded, the kernel by what it is.
 *
 * Attackers: files replaced under their names while the program itself, or a dependency, keeps the earlier one loaded.
 * Promise: a file that was removed, renamed or replaced is not taken for the one that has its name now.
 */
#include "mapping.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* The path of a line of /proc/self/maps, or NULL where the line is not about this address or the mapping has no file. */
static char *path_at(char *line, uintptr_t address) {
  uintptr_t from = 0, to = 0;
  int at = -1;
  if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &from, &to, &at) < 2 || at < 0) return NULL;
  if (address < from || address >= to || line[at] != '/') return NULL;
  line[strcspn(line, "\n")] = '\0';
  return line + at;
}

/* The kernel writes a line feed in a path as \012, and such four characters as they are. */
static void restore_line_feeds(char *path) {
  char *out = path;
  for (const char *in = path; *in != '\0'; out++) {
    const int escaped = strncmp(in, "\\012", 4) == 0;
    *out = escaped ? '\n' : *in;
    in += escaped ? 4 : 1;
  }
  *out = '\0';
}

static int ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

static int leads_to(const char *path, const nx_file_identity *file) {
  struct stat found;
  return stat(path, &found) == 0 && (uint64_t)found.st_dev == file->device && (uint64_t)found.st_ino == file->inode;
}

static int is_file(char *path, const char *name, const nx_file_identity *file) {
  static const char removed[] = " (deleted)";
  if (ends_with(path, removed) && !ends_with(name, removed)) return 0;
  if (leads_to(path, file)) return 1;
  restore_line_feeds(path);
  return leads_to(path, file);
}

int nx_mapping_may_be(const void *address, const char *name, const nx_file_identity *file) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (maps == NULL) return 1;
  char *line = NULL, *path = NULL;
  size_t room = 0;
  while (path == NULL && getline(&line, &room, maps) > 0) path = path_at(line, (uintptr_t)address);
  const int may_be = path == NULL || is_file(path, name, file);
  free(line);
  (void)fclose(maps);
  return may_be;
}

/* 1: the line is about this address, and *is_file says whether the mapping is of that file. */
static int judge_line(const char *line, uintptr_t address, const nx_file_identity *file, int *is_file_out) {
  uintptr_t from = 0, to = 0;
  unsigned major_number = 0, minor_number = 0;
  uint64_t inode = 0;
  if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %x:%x %" SCNu64, &from, &to, &major_number, &minor_number,
             &inode) != 5)
    return 0;
  if (address < from || address >= to) return 0;
  *is_file_out = inode == file->inode && (uint64_t)makedev(major_number, minor_number) == file->device;
  return 1;
}

int nx_mapping_is(const void *address, const nx_file_identity *file) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (maps == NULL) return 0;
  char *line = NULL;
  size_t room = 0;
  int found = 0, is = 0;
  while (!found && getline(&line, &room, maps) > 0) found = judge_line(line, (uintptr_t)address, file, &is);
  free(line);
  (void)fclose(maps);
  return is;
}
