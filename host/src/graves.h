/* Files that stay mapped although their host is gone: their names, and nothing else of them. Private to the host. */
#ifndef NX_GRAVES_H
#define NX_GRAVES_H

#include "file.h"

/*
 * Remember that the loader has this file under this name, for good. Takes *path over: it is the graves', or freed. 0: no memory, and the path is the caller's
 * still. The caller holds the module lock.
 */
int nx_grave_add_locked(char *path, const nx_file_identity *file);

/* Does the loader have another file under this name? The caller holds the module lock. */
int nx_grave_holds_other_locked(const char *path, const nx_file_identity *file);

#endif /* NX_GRAVES_H */
