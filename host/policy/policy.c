/*
 * policy.c: reading a policy: from text, from a file, from where a deployer put it.
 *
 * Attackers: whoever writes the text; whoever sets the environment of a process that gained privileges.
 * Promise: a policy is read whole or not at all; without one nothing is allowed.
 */
#include "policy.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "document.h"
#include "error.h"
#include "trust.h"

#define DEFAULT_PATH "/etc/nxmem/policy.json"
#define DEFAULT_FILE_BYTES (64ull << 20)
#define MOST_FILE_BYTES (1ull << 30)

enum { TEXT_MAX = 1 << 20 };

static nxmem_result take_version(const json_t *value, const char *where, void *into, nxmem_error *error) {
  (void)into;
  return json_is_integer(value) && json_integer_value(value) == 1
             ? NXMEM_OK
             : nx_policy_refuse(error, where, "needed the number 1");
}

static nxmem_result take_file_bytes(const json_t *value, const char *where, void *into, nxmem_error *error) {
  nxmem_policy *policy = into;
  const json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
  if (number < 1 || (uint64_t)number > MOST_FILE_BYTES)
    return nx_policy_refuse(error, where, "needed a whole number of bytes from 1 to 1073741824");
  policy->max_file_bytes = (uint64_t)number;
  return NXMEM_OK;
}

static int name_one_file(const nx_policy_row *a, const nx_policy_row *b) {
  if (a->path != NULL && b->path != NULL) return strcmp(a->path, b->path) == 0;
  return a->path == NULL && b->path == NULL && memcmp(a->sha256, b->sha256, sizeof a->sha256) == 0;
}

static int is_named_before(const nxmem_policy *policy, size_t row) {
  for (size_t i = 0; i < row; i++)
    if (name_one_file(&policy->rows[i], &policy->rows[row])) return 1;
  return 0;
}

enum { ROWS_MAX = 4096 };

static nxmem_result take_plugins(const json_t *value, const char *where, void *into, nxmem_error *error) {
  nxmem_policy *policy = into;
  const size_t count = json_array_size(value);
  if (!json_is_array(value) || count > ROWS_MAX)
    return nx_policy_refuse(error, where, "needed a list of at most 4096 rows");
  policy->rows = calloc(count + 1u, sizeof *policy->rows);
  if (policy->rows == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "policy: no memory for its rows");
  for (size_t i = 0; i < count; i++) {
    char at[32];
    (void)snprintf(at, sizeof at, "%s[%zu]", where, i);
    policy->count = i + 1;
    const nxmem_result r = nx_row_take(json_array_get(value, i), at, &policy->rows[i], error);
    if (r != NXMEM_OK) return r;
    if (is_named_before(policy, i)) return nx_policy_refuse(error, at, "found a file that an earlier row names");
  }
  return NXMEM_OK;
}

static nxmem_result take_document(const json_t *root, nxmem_policy *policy, nxmem_error *error) {
  static const nx_key keys[] = {
      {"version", 1, take_version}, {"max_file_bytes", 0, take_file_bytes}, {"plugins", 1, take_plugins}};
  policy->max_file_bytes = DEFAULT_FILE_BYTES;
  return nx_take_object(root, "", keys, sizeof keys / sizeof keys[0], policy, error);
}

static nxmem_result refuse_syntax(const json_error_t *found, nxmem_error *error) {
  char where[64];
  (void)snprintf(where, sizeof where, "line %d, column %d", found->line, found->column);
  return nx_policy_refuse(error, where, found->text);
}

nxmem_result nxmem_policy_parse(const char *text, size_t bytes, nxmem_policy **out, nxmem_error *error) {
  if (text == NULL || out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "policy: text or out is NULL");
  if (bytes > TEXT_MAX) return nx_policy_refuse(error, "the document", "found more than 1048576 bytes");
  if (sodium_init() < 0) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "policy: libsodium cannot begin");
  json_error_t syntax;
  json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &syntax);
  if (root == NULL) return refuse_syntax(&syntax, error);
  nxmem_policy *policy = calloc(1, sizeof *policy);
  nxmem_result r = policy == NULL ? nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "policy: no memory")
                                  : take_document(root, policy, error);
  json_decref(root);
  if (r == NXMEM_OK)
    *out = policy;
  else
    nxmem_policy_free(policy);
  return r;
}

/* Empty is as if it were not set. */
static const char *path_of_policy(const char *path) {
  if (path != NULL) return path;
  const char *named = secure_getenv("NXMEM_POLICY");
  return named != NULL && named[0] != '\0' ? named : DEFAULT_PATH;
}

nxmem_result nxmem_policy_load(const char *path, nxmem_policy **out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "policy: out is NULL");
  char *text = NULL;
  size_t bytes = 0;
  nxmem_result r = nx_trust_read("policy", path_of_policy(path), TEXT_MAX, &text, &bytes, error);
  if (r != NXMEM_OK) return r;
  r = nxmem_policy_parse(text, bytes, out, error);
  free(text);
  return r;
}

void nxmem_policy_free(nxmem_policy *policy) {
  if (policy == NULL) return;
  for (size_t i = 0; i < policy->count; i++) nx_row_free(&policy->rows[i]);
  free(policy->rows);
  free(policy);
}

const nx_policy_row *nx_policy_find(const nxmem_policy *policy, const char *path,
                                    const uint8_t sha256[NX_SHA256_BYTES]) {
  const nx_policy_row *by_hash = NULL;
  for (size_t i = 0; i < policy->count; i++) {
    const nx_policy_row *row = &policy->rows[i];
    if (row->path != NULL && strcmp(row->path, path) == 0) return row;
    if (row->path == NULL && memcmp(row->sha256, sha256, NX_SHA256_BYTES) == 0) by_hash = row;
  }
  return by_hash;
}
