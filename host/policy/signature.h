/* Signatures as minisign writes them. Private to the library. */
#ifndef NX_SIGNATURE_H
#define NX_SIGNATURE_H

#include "nxmem.h"

enum { NX_KEY_ID_BYTES = 8, NX_KEY_BYTES = 32, NX_COMMENT_ROOM = 256 };

typedef struct nx_public_key {
  uint8_t id[NX_KEY_ID_BYTES];
  uint8_t key[NX_KEY_BYTES];
} nx_public_key;

/* The line of base64 in a minisign.pub. 1, or 0 where it is none. */
int nx_public_key_read(const char *text, nx_public_key *out);

/* As minisign shows it: hexadecimal, the last byte first. */
void nx_key_id_text(const nx_public_key *key, char out[2 * NX_KEY_ID_BYTES + 1]);

/*
 * Is `text`, a whole signature file, a signature of these bytes by this key? NULL: it is, and `comment` holds the trusted comment, cut and made printable. Else why not:
 * a static phrase. [any-thread]
 */
const char *nx_signature_fault(const char *text, size_t text_bytes, const nx_public_key *key, const uint8_t *bytes,
                               size_t count, char comment[NX_COMMENT_ROOM]);

#endif /* NX_SIGNATURE_H */
