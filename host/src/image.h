/* A library in the address space: mapping it, finding its exports, unmapping it, looking whether it is gone. Private to the host. */
#ifndef NX_IMAGE_H
#define NX_IMAGE_H

#include "objects.h"

/*
 * Map a checked file and resolve its three exports, which must be its own and not a dependency's. On failure nothing stays mapped.
 * NXMEM_ERR_CANNOT_OPEN, MISSING_SYMBOL, OUT_OF_MEMORY; *out is written only on NXMEM_OK. [runs plugin code: constructors]
 */
nxmem_result nx_image_open(const char *path, nx_image *out, nxmem_error *error);

/* Give the loader's reference back and look: 1 where the object is gone from the address space. Frees what *image owns. [runs plugin code: destructors] */
int nx_image_close(nx_image *image);

/* Forget an image without unmapping it: frees the host's record only. */
void nx_image_abandon(nx_image *image);

#endif /* NX_IMAGE_H */
