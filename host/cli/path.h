/*
 * path.h: the file a command is about: what it is called, and whether any of it is mapped.
 * Attackers: the caller's path, and links on the way.
 * Promise: "not mapped" is said only after a look.
 */
#ifndef NXMEM_CLI_PATH_H
#define NXMEM_CLI_PATH_H

/*
 * The path from the root, free of symbolic links where the file exists and *cause is 0; else joined to the working
 * directory, and *cause (may be NULL) says why as errno does. The caller owns it and gives it to free().
 */
char *nx_absolute(const char *path, int *cause);

/* Whether any mapping of this process is of that file: 1 or 0, -1 when the kernel does not say. */
int nx_is_mapped(const char *path);

#endif /* NXMEM_CLI_PATH_H */
