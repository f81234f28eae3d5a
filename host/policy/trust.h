/* Files that nobody but their owner, or root, can have written. Private to the library. */
#ifndef NX_TRUST_H
#define NX_TRUST_H

#include "nxmem.h"

/* Absolute, and without empty, "." and ".." parts: one way to write it. */
int nx_path_is_plain(const char *path);

/*
 * Open a regular file for reading by the rule that nxmem_policy.h states. `what` is what messages call its purpose. Never blocks, and opens nothing that is no regular
 * file. NXMEM_ERR_CANNOT_OPEN, INVALID_ARGUMENT; *fd_out is written only on NXMEM_OK, and is the caller's. [any-thread]
 */
nxmem_result nx_trust_open(const char *what, const char *path, int *fd_out, nxmem_error *error);

/*
 * All of a small file that may be trusted, and a NUL behind it. Free it. NXMEM_ERR_CANNOT_OPEN also where it is larger than `room` bytes.
 */
nxmem_result nx_trust_read(const char *what, const char *path, size_t room, char **text_out, size_t *bytes_out,
                           nxmem_error *error);

#endif /* NX_TRUST_H */
