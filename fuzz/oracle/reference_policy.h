/*
 * reference_policy.h: a policy, minisign's signature files and keys, read a second time.
 * Attackers: none; it only ever sees bytes the harness owns.
 * Promise: no JSON library and no decoder of another: it knows the one document that a policy may be, and refuses all else.
 */
#ifndef NXMEM_FUZZ_REFERENCE_POLICY_H
#define NXMEM_FUZZ_REFERENCE_POLICY_H

#include <stddef.h>
#include <stdint.h>

enum { REF_POLICY_ROWS = 16, REF_POLICY_TEXT = 2048, REF_KEY_BYTES = 42, REF_SIGNATURE_BYTES = 64, REF_COMMENT = 512 };

typedef struct ref_policy_row {
  int has_path, has_build_id, has_signature;
  char path[REF_POLICY_TEXT];
  char signature_path[REF_POLICY_TEXT];
  uint8_t key[REF_KEY_BYTES]; /* "Ed", the key's id, the key */
  uint8_t build_id[64];
  size_t build_id_bytes;
  uint8_t sha256[32];
  uint64_t capabilities, max_owned, max_mapped;
  int isolation;
} ref_policy_row;

typedef struct ref_policy {
  uint64_t max_file_bytes;
  size_t count;
  ref_policy_row rows[REF_POLICY_ROWS]; /* inputs are too short for more */
} ref_policy;

/* 1 where the text is a policy. Texts longer than REF_POLICY_TEXT are none of its business. */
int ref_policy_read(const uint8_t *text, size_t bytes, ref_policy *out);

/* Base64 with its padding, exactly that many bytes of it. */
int ref_base64(const uint8_t *text, size_t length, uint8_t *out, size_t bytes);

/* The four lines of a signature file, decoded. */
typedef struct ref_signature {
  uint8_t kind[2], id[8], of_bytes[REF_SIGNATURE_BYTES], of_comment[REF_SIGNATURE_BYTES];
  const uint8_t *comment;
  size_t comment_bytes;
} ref_signature;
int ref_signature_read(const uint8_t *text, size_t bytes, ref_signature *out);

#endif /* NXMEM_FUZZ_REFERENCE_POLICY_H */
