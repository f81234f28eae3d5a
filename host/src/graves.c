/*
 * graves.c: what must be known of a module that nobody has any more and that stays mapped: which file the loader has under its name.
 *
 * Attackers: plugins that are given up again and again, host after host.
 * Promise: one record for each file and name, however often it is given up.
 */
#include "graves.h"

#include <stdlib.h>
#include <string.h>

typedef struct grave {
  struct grave *next;
  nx_file_identity file;
  char *path;
} grave;

static grave *graves; /* under the module lock */

static int same_file(const nx_file_identity *a, const nx_file_identity *b) {
  return a->device == b->device && a->inode == b->inode;
}

int nx_grave_add_locked(char *path, const nx_file_identity *file) {
  for (const grave *g = graves; g != NULL; g = g->next) {
    if (!same_file(&g->file, file) || strcmp(g->path, path) != 0) continue;
    free(path);
    return 1;
  }
  grave *fresh = malloc(sizeof *fresh);
  if (fresh == NULL) return 0;
  *fresh = (grave){.next = graves, .file = *file, .path = path};
  graves = fresh;
  return 1;
}

int nx_grave_holds_other_locked(const char *path, const nx_file_identity *file) {
  for (const grave *g = graves; g != NULL; g = g->next)
    if (!same_file(&g->file, file) && strcmp(g->path, path) == 0) return 1;
  return 0;
}
