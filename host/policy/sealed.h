/* A copy of a file in memory that can no longer change. Private to the library. */
#ifndef NX_SEALED_H
#define NX_SEALED_H

#include "nxmem.h"

typedef struct nx_sealed {
  int fd;
  const uint8_t *bytes; /* a private mapping of it, to look at */
  size_t count;
} nx_sealed;

/*
 * Copy an open file, at most `max_bytes`, and seal the copy. `shown` is what messages call it.
 * NXMEM_ERR_CANNOT_OPEN, OUT_OF_MEMORY; *out is written only on NXMEM_OK: nx_sealed_close() it. [any-thread]
 */
nxmem_result nx_sealed_copy(int fd, const char *shown, uint64_t max_bytes, nx_sealed *out, nxmem_error *error);
void nx_sealed_close(nx_sealed *sealed);

#endif /* NX_SEALED_H */
