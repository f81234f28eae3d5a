/* A policy as it was read: rows of what may be loaded. Private to the library. */
#ifndef NX_POLICY_H
#define NX_POLICY_H

#include "isolation.h"
#include "nxmem_policy.h"
#include "signature.h"

enum { NX_SHA256_BYTES = 32, NX_BUILD_ID_MAX = 64 };

typedef struct nx_build_id {
  uint8_t bytes[NX_BUILD_ID_MAX];
  size_t count; /* 0: none */
} nx_build_id;

typedef struct nx_policy_row {
  char *path; /* NULL: any */
  nx_build_id build_id;
  uint8_t sha256[NX_SHA256_BYTES];
  char *signature_path; /* NULL: none asked for */
  nx_public_key key;
  uint64_t capability_flags;
  uint64_t max_owned_bytes;
  uint64_t max_mapped_bytes;
  nx_isolation isolation;
} nx_policy_row;

/* Never changed once it is read. */
struct nxmem_policy {
  uint64_t max_file_bytes;
  size_t count;
  nx_policy_row *rows; /* owned, with their texts */
};

/* The row that names a file: that of its path, or else one without a path that has its hash. NULL: none. */
const nx_policy_row *nx_policy_find(const nxmem_policy *policy, const char *path,
                                    const uint8_t sha256[NX_SHA256_BYTES]);

#endif /* NX_POLICY_H */
