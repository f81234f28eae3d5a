/*
 * path.c: absolute paths, and a look into this process's own mappings.
 * Attackers: the caller's path, and links on the way.
 * Promise: "not mapped" is said only after a look.
 */
#include "path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

char *nx_absolute(const char *path, int *cause) {
  char *real = realpath(path, NULL);
  if (cause) *cause = real ? 0 : errno;
  return real ? real : joined(path);
}

/*
 * A line of maps ends in the path of the mapped file, which is absolute and free of symbolic links, as realpath()
 * gives it.
 */
static int names_path(const char *line, const char *path) {
  const char *found = strchr(line, '/');
  return found && !strncmp(found, path, strlen(path)) && strchr("\n", found[strlen(path)]);
}

int nx_is_mapped(const char *path) {
  char *line = NULL;
  size_t room = 0;
  int found = 0;
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) return -1;
  while (!found && getline(&line, &room, maps) > 0) found = names_path(line, path);
  free(line);
  fclose(maps);
  return found;
}
