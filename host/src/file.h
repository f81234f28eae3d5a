/* Looking at a plugin's file before the loader does. Private to the host. */
#ifndef NX_FILE_H
#define NX_FILE_H

#include "nxmem.h"

/* Which file this is, however it is named. */
typedef struct nx_file_identity {
  uint64_t device;
  uint64_t inode;
} nx_file_identity;

/*
 * An absolute path, without a dollar sign, to a regular file that is a 64-bit ELF shared object of this machine whose loaded segments lie inside the file: a truncated
 * file would end the process in the loader with SIGBUS.
 *
 * NXMEM_ERR_INVALID_ARGUMENT, NXMEM_ERR_CANNOT_OPEN; *out is written only on NXMEM_OK. [any-thread] [blocks: file I/O, never on a FIFO]
 */
nxmem_result nx_file_check(const char *path, nx_file_identity *out, nxmem_error *error);

/* The same for a file that is open already; `shown` is what messages call it. [any-thread] [blocks: file I/O] */
nxmem_result nx_file_check_open(int fd, const char *shown, nx_file_identity *out, nxmem_error *error);

#endif /* NX_FILE_H */
