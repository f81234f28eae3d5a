/* What an ELF file says of itself: its build id, and the libraries it needs. Private to the library. */
#ifndef NX_CONTENTS_H
#define NX_CONTENTS_H

#include "policy.h"

enum { NX_DEPENDENCIES_MAX = 256 };

/* Texts lie in the bytes that were looked at, and end there. */
typedef struct nx_contents {
  nx_build_id build_id;
  uint32_t dependency_count;
  const char *dependencies[NX_DEPENDENCIES_MAX];
  const char *search_path; /* NULL: none */
} nx_contents;

/* 1, or 0 where the bytes are no ELF file that can be read, or name more libraries than there is room for. [any-thread] */
int nx_contents_read(const uint8_t *bytes, size_t count, nx_contents *out);

#endif /* NX_CONTENTS_H */
