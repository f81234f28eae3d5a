/* What file stands behind a mapping of this process. Private to the host. */
#ifndef NX_MAPPING_H
#define NX_MAPPING_H

#include "file.h"

/*
 * 0 where the mapping at an address is known to be of another file than `file`, or of one that has been removed. 1 where it is that file, or where nothing
 * can be told: an anonymous mapping, no /proc. `name` is what the loader calls it. [any-thread] [blocks: file I/O]
 */
int nx_mapping_may_be(const void *address, const char *name, const nx_file_identity *file);

/*
 * 1 where the mapping at an address is known to be of `file`, whatever it is called; 0 also where nothing can be told. For files without a name of their own.
 * [any-thread] [blocks: file I/O]
 */
int nx_mapping_is(const void *address, const nx_file_identity *file);

#endif /* NX_MAPPING_H */
