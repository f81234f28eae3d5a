/*
 * path.c: absolute paths.
 * Attackers: the caller's path, and links on the way.
 * Promise: what comes out is absolute, also where nothing is there.
 */
#include "path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "text.h"

/* As it stands where it is absolute or empty, or where there is no working directory. */
static char *joined(const char *path) {
  char *joint = NULL;
  char *folder = path[0] == '/' || path[0] == '\0' ? NULL : getcwd(NULL, 0);
  int written = folder ? asprintf(&joint, "%s/%s", folder, path) : asprintf(&joint, "%s", path);
  free(folder);
  if (written < 0) nx_out_of_memory();
  return joint;
}

char *nx_absolute_as_written(const char *path) {
  while (path[0] == '.' && path[1] == '/' && path[2] != '/') path += 2;
  return joined(path);
}

char *nx_absolute(const char *path, int *cause) {
  char *real = realpath(path, NULL);
  if (cause) *cause = real ? 0 : errno;
  return real ? real : joined(path);
}
