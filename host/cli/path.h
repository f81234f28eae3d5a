/*
 * path.h: what the file that a command is about is called.
 * Attackers: the caller's path, and links on the way.
 * Promise: what comes out is absolute, also where nothing is there.
 */
#ifndef NXMEM_CLI_PATH_H
#define NXMEM_CLI_PATH_H

/*
 * The path from the root, free of symbolic links where the file exists and *cause is 0; else joined to the working
 * directory, and *cause (may be NULL) says why as errno does. The caller owns it and gives it to free().
 */
char *nx_absolute(const char *path, int *cause);

/*
 * The same without a look at what is there: links stay in it, for who refuses them. A "./" in front is left out. The caller owns it and gives it to free().
 */
char *nx_absolute_as_written(const char *path);

#endif /* NXMEM_CLI_PATH_H */
