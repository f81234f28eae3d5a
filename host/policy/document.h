/* The JSON of a policy. Private to the library. */
#ifndef NX_DOCUMENT_H
#define NX_DOCUMENT_H

#include <jansson.h>

#include "policy.h"

/* A key that an object may have, and what takes its value. */
typedef struct nx_key {
  const char *name;
  int required;
  nxmem_result (*take)(const json_t *value, const char *where, void *into, nxmem_error *error);
} nx_key;

/*
 * Take an object apart: each key by its own row of the table, none that is unknown, none that is required missing. `where` names the object in messages.
 * NXMEM_ERR_INVALID_ARGUMENT, OUT_OF_MEMORY.
 */
nxmem_result nx_take_object(const json_t *object, const char *where, const nx_key *keys, size_t count, void *into,
                            nxmem_error *error);

/* NXMEM_ERR_INVALID_ARGUMENT: "policy: WHERE: found ..., needed ...". */
nxmem_result nx_policy_refuse(nxmem_error *error, const char *where, const char *needed);

/* One row; what it holds is its owner's to free (nx_row_free), also where it fails. */
nxmem_result nx_row_take(const json_t *object, const char *where, nx_policy_row *out, nxmem_error *error);
void nx_row_free(nx_policy_row *row);

#endif /* NX_DOCUMENT_H */
