/* A library in the address space: mapping it, finding its exports, unmapping it, looking whether it is gone. Private to the host. */
#ifndef NX_IMAGE_H
#define NX_IMAGE_H

#include "file.h"
#include "objects.h"
#include "source.h"

/*
 * Map a checked file and resolve its three exports, which must be its own and not a dependency's. On failure nothing stays mapped.
 * The loader knows files by name and by SONAME as well: what it answers with must be the file that was checked.
 *
 * NXMEM_ERR_CANNOT_OPEN, MISSING_SYMBOL, OUT_OF_MEMORY; *out is written only on NXMEM_OK. [runs plugin code: constructors]
 */
nxmem_result nx_image_open(const nx_source *source, nx_image *out, nxmem_error *error);

/* Has the loader that very file under this name? [any-thread] */
int nx_image_is_mapped(const char *path, const nx_file_identity *file);

/*
 * Where something lies that this very image exports beside the contract's three. NXMEM_ERR_MISSING_SYMBOL, or NXMEM_ERR_INVALID_ARGUMENT for one of the three.
 * [runs plugin code: the resolver of an indirect function]
 */
nxmem_result nx_image_symbol(const nx_image *image, const char *name, void **out, nxmem_error *error);

/* Give the loader's reference back and look: 1 where the object is gone from the address space. [runs plugin code: destructors] */
int nx_image_close(const nx_image *image);

/* Free what *image owns. What is mapped stays mapped. */
void nx_image_forget(nx_image *image);

#endif /* NX_IMAGE_H */
