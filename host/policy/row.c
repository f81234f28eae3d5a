/*
 * row.c: one row of a policy.
 *
 * Attackers: whoever writes the policy.
 * Promise: a row that is taken says all that it must, in the form that it must.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "document.h"
#include "error.h"
#include "trust.h"
#include "words.h"

/* NULL: the value is no text. */
static const char *text_of(const json_t *value) { return json_is_string(value) ? json_string_value(value) : NULL; }

static nxmem_result copy_text(const char *text, char **out, nxmem_error *error) {
  *out = strdup(text);
  return *out != NULL ? NXMEM_OK : nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "policy: no memory for a text");
}

static nxmem_result take_path_into(const json_t *value, const char *where, char **out, nxmem_error *error) {
  const char *path = text_of(value);
  if (path == NULL || !nx_path_is_plain(path))
    return nx_policy_refuse(error, where, "needed an absolute path without empty, '.' and '..' parts");
  return copy_text(path, out, error);
}

static nxmem_result take_path(const json_t *value, const char *where, void *into, nxmem_error *error) {
  return take_path_into(value, where, &((nx_policy_row *)into)->path, error);
}

static nxmem_result take_build_id(const json_t *value, const char *where, void *into, nxmem_error *error) {
  nx_build_id *id = &((nx_policy_row *)into)->build_id;
  const char *text = text_of(value);
  if (text != NULL && nx_hex_of(text, id->bytes, sizeof id->bytes, &id->count)) return NXMEM_OK;
  return nx_policy_refuse(error, where, "needed 2 to 128 hexadecimal digits, two to a byte");
}

static nxmem_result take_sha256(const json_t *value, const char *where, void *into, nxmem_error *error) {
  size_t count = 0;
  const char *text = text_of(value);
  if (text != NULL && nx_hex_of(text, ((nx_policy_row *)into)->sha256, NX_SHA256_BYTES, &count) &&
      count == NX_SHA256_BYTES)
    return NXMEM_OK;
  return nx_policy_refuse(error, where, "needed 64 hexadecimal digits");
}

static nxmem_result take_signature_file(const json_t *value, const char *where, void *into, nxmem_error *error) {
  return take_path_into(value, where, &((nx_policy_row *)into)->signature_path, error);
}

static nxmem_result take_public_key(const json_t *value, const char *where, void *into, nxmem_error *error) {
  const char *text = text_of(value);
  if (text != NULL && nx_public_key_read(text, &((nx_policy_row *)into)->key)) return NXMEM_OK;
  return nx_policy_refuse(error, where, "needed the second line of a minisign.pub: RW and 54 characters more");
}

static nxmem_result take_signature(const json_t *value, const char *where, void *into, nxmem_error *error) {
  static const nx_key keys[] = {{"file", 1, take_signature_file}, {"public_key", 1, take_public_key}};
  return nx_take_object(value, where, keys, sizeof keys / sizeof keys[0], into, error);
}

static nxmem_result take_capability(const json_t *word, const char *where, uint64_t *flags, nxmem_error *error) {
  uint64_t flag = 0;
  const char *text = text_of(word);
  if (text == NULL || !nx_capability_of(text, &flag))
    return nx_policy_refuse(
        error, where,
        "needed words out of allocator, virtual-backing, shared-mapping, deferred-release, structured-release");
  if ((*flags & flag) != 0) return nx_policy_refuse(error, where, "found a word twice");
  *flags |= flag;
  return NXMEM_OK;
}

static nxmem_result take_capabilities(const json_t *value, const char *where, void *into, nxmem_error *error) {
  uint64_t *flags = &((nx_policy_row *)into)->capability_flags;
  if (!json_is_array(value)) return nx_policy_refuse(error, where, "needed a list of words");
  for (size_t i = 0; i < json_array_size(value); i++) {
    const nxmem_result r = take_capability(json_array_get(value, i), where, flags, error);
    if (r != NXMEM_OK) return r;
  }
  if ((*flags & NXMEM_CAP_ALLOCATOR) != 0) return NXMEM_OK;
  return nx_policy_refuse(error, where, "needed \"allocator\" among them");
}

static nxmem_result take_bytes(const json_t *value, const char *where, uint64_t *out, nxmem_error *error) {
  const char *text = text_of(value);
  if (text != NULL && strcmp(text, "unlimited") == 0) {
    *out = NXMEM_UNLIMITED;
    return NXMEM_OK;
  }
  if (!json_is_integer(value) || json_integer_value(value) < 1)
    return nx_policy_refuse(error, where, "needed a whole number of bytes from 1 to 2^63-1, or \"unlimited\"");
  *out = (uint64_t)json_integer_value(value);
  return NXMEM_OK;
}

static nxmem_result take_owned(const json_t *value, const char *where, void *into, nxmem_error *error) {
  return take_bytes(value, where, &((nx_policy_row *)into)->max_owned_bytes, error);
}
static nxmem_result take_mapped(const json_t *value, const char *where, void *into, nxmem_error *error) {
  return take_bytes(value, where, &((nx_policy_row *)into)->max_mapped_bytes, error);
}

static nxmem_result take_isolation(const json_t *value, const char *where, void *into, nxmem_error *error) {
  const char *text = text_of(value);
  if (text != NULL && nx_isolation_of(text, &((nx_policy_row *)into)->isolation)) return NXMEM_OK;
  return nx_policy_refuse(error, where, "needed \"none\", \"no-new-privs\" or \"seccomp\"");
}

nxmem_result nx_row_take(const json_t *object, const char *where, nx_policy_row *out, nxmem_error *error) {
  static const nx_key keys[] = {{"path", 0, take_path},
                                {"build_id", 0, take_build_id},
                                {"sha256", 1, take_sha256},
                                {"signature", 0, take_signature},
                                {"capabilities", 1, take_capabilities},
                                {"max_owned_bytes", 1, take_owned},
                                {"max_mapped_bytes", 1, take_mapped},
                                {"isolation", 1, take_isolation}};
  const nxmem_result r = nx_take_object(object, where, keys, sizeof keys / sizeof keys[0], out, error);
  if (r != NXMEM_OK || out->path != NULL || out->build_id.count != 0) return r;
  return nx_policy_refuse(error, where, "needed a path or a build_id");
}

void nx_row_free(nx_policy_row *row) {
  free(row->path);
  free(row->signature_path);
}
