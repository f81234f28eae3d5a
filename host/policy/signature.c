/*
 * signature.c: minisign's signature files: four lines, two signatures.
 *
 * Attackers: whoever writes the signature file: any bytes.
 * Promise: NULL only where the key signed these very bytes, and the comment that is shown.
 *
 * Line 2 is "Ed" (the bytes themselves are signed) or "ED" (their BLAKE2b hash of 64 bytes is), the key's id and the signature; line 4 is a signature of that signature
 * and the comment of line 3 behind it.
 */
#include "signature.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "nxmem/status.h"

enum { SIGNATURE_BYTES = 64, HASH_BYTES = 64 };

_Static_assert(SIGNATURE_BYTES == crypto_sign_ed25519_BYTES && NX_KEY_BYTES == crypto_sign_ed25519_PUBLICKEYBYTES,
               "as the library has them");

static const char untrusted[] = "untrusted comment: ";
static const char trusted[] = "trusted comment: ";

/* The decoder takes every byte above 127 for a '/'. */
static int is_ascii(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)text[i] > 127) return 0;
  return 1;
}

/* Exactly that many bytes of base64, and nothing else. */
static int decode(const char *text, size_t length, uint8_t *out, size_t bytes) {
  size_t got = 0;
  const char *end = NULL;
  return is_ascii(text, length) &&
         sodium_base642bin(out, bytes, text, length, NULL, &got, &end, sodium_base64_VARIANT_ORIGINAL) == 0 &&
         got == bytes && end == text + length;
}

int nx_public_key_read(const char *text, nx_public_key *out) {
  uint8_t raw[2 + NX_KEY_ID_BYTES + NX_KEY_BYTES];
  if (!decode(text, strlen(text), raw, sizeof raw) || memcmp(raw, "Ed", 2) != 0) return 0;
  memcpy(out->id, raw + 2, NX_KEY_ID_BYTES);
  memcpy(out->key, raw + 2 + NX_KEY_ID_BYTES, NX_KEY_BYTES);
  return 1;
}

void nx_key_id_text(const nx_public_key *key, char out[2 * NX_KEY_ID_BYTES + 1]) {
  uint8_t reversed[NX_KEY_ID_BYTES];
  for (size_t i = 0; i < NX_KEY_ID_BYTES; i++) reversed[i] = key->id[NX_KEY_ID_BYTES - 1 - i];
  (void)sodium_bin2hex(out, 2 * NX_KEY_ID_BYTES + 1, reversed, sizeof reversed);
}

typedef struct line {
  const char *text;
  size_t length;
} line;

/* Up to the next line feed; a carriage return in front of it is no part of the line. 0: no line is left. */
static int next_line(const char **at, const char *end, line *out) {
  if (*at == end) return 0;
  const char *feed = memchr(*at, '\n', (size_t)(end - *at));
  const char *stop = feed == NULL ? end : feed;
  *out = (line){*at, (size_t)(stop - *at)};
  if (out->length != 0 && out->text[out->length - 1] == '\r') out->length--;
  *at = feed == NULL ? end : feed + 1;
  return 1;
}

static int begins(line l, const char *with) {
  const size_t length = strlen(with);
  return l.length >= length && memcmp(l.text, with, length) == 0;
}

typedef struct parts {
  uint8_t head[2 + NX_KEY_ID_BYTES + SIGNATURE_BYTES];
  uint8_t over_comment[SIGNATURE_BYTES];
  line comment;
} parts;

static int take_apart(const char *text, size_t bytes, parts *out) {
  line lines[4];
  const char *at = text, *end = text + bytes;
  for (size_t i = 0; i < 4; i++)
    if (!next_line(&at, end, &lines[i])) return 0;
  if (at != end || !begins(lines[0], untrusted) || !begins(lines[2], trusted)) return 0;
  out->comment = (line){lines[2].text + strlen(trusted), lines[2].length - strlen(trusted)};
  return decode(lines[1].text, lines[1].length, out->head, sizeof out->head) &&
         decode(lines[3].text, lines[3].length, out->over_comment, sizeof out->over_comment);
}

static int signs_bytes(const parts *p, const nx_public_key *key, const uint8_t *bytes, size_t count) {
  const uint8_t *signature = p->head + 2 + NX_KEY_ID_BYTES;
  if (memcmp(p->head, "Ed", 2) == 0) return crypto_sign_ed25519_verify_detached(signature, bytes, count, key->key) == 0;
  uint8_t hash[HASH_BYTES];
  return crypto_generichash(hash, sizeof hash, bytes, count, NULL, 0) == 0 &&
         crypto_sign_ed25519_verify_detached(signature, hash, sizeof hash, key->key) == 0;
}

/* -1: no memory. */
static int signs_comment(const parts *p, const nx_public_key *key) {
  uint8_t *both = malloc(SIGNATURE_BYTES + p->comment.length);
  if (both == NULL) return -1;
  memcpy(both, p->head + 2 + NX_KEY_ID_BYTES, SIGNATURE_BYTES);
  memcpy(both + SIGNATURE_BYTES, p->comment.text, p->comment.length);
  const int good =
      crypto_sign_ed25519_verify_detached(p->over_comment, both, SIGNATURE_BYTES + p->comment.length, key->key) == 0;
  free(both);
  return good;
}

const char *nx_signature_fault(const char *text, size_t text_bytes, const nx_public_key *key, const uint8_t *bytes,
                               size_t count, char comment[NX_COMMENT_ROOM]) {
  parts p;
  if (!take_apart(text, text_bytes, &p)) return "is no signature file of minisign";
  if (memcmp(p.head, "Ed", 2) != 0 && memcmp(p.head, "ED", 2) != 0) return "is of an unknown kind";
  if (memcmp(p.head + 2, key->id, NX_KEY_ID_BYTES) != 0) return "is by another key";
  if (!signs_bytes(&p, key, bytes, count)) return "is not of these bytes";
  const int good = signs_comment(&p, key);
  if (good <= 0) return good == 0 ? "has a trusted comment that was not signed" : "could not be verified: no memory";
  (void)nxmem_text_show((const uint8_t *)p.comment.text, (uint32_t)p.comment.length, (uint8_t *)comment,
                        NX_COMMENT_ROOM);
  return NULL;
}
