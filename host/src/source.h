/* Where a module comes from, and on what terms. Private to the host. */
#ifndef NX_SOURCE_H
#define NX_SOURCE_H

#include "file.h"
#include "objects.h"
#include "pinned.h"

/* Borrowed for one opening. */
typedef struct nx_source {
  const char *path;  /* what the loader is given */
  const char *shown; /* what messages call it */
  nx_file_identity file;
  nx_pin *pin; /* NULL: a file by its name */
  nx_terms terms;
} nx_source;

#endif /* NX_SOURCE_H */
