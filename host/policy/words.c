/*
 * words.c: what the words of a policy stand for.
 *
 * Attackers: none but a policy with words that do not exist.
 * Promise: a word is known as it is written, or it is none.
 */
#include "words.h"

#include <sodium.h>
#include <string.h>

int nx_capability_of(const char *word, uint64_t *flag_out) {
  static const struct {
    const char *word;
    uint64_t flag;
  } known[] = {{"allocator", NXMEM_CAP_ALLOCATOR},
               {"virtual-backing", NXMEM_CAP_VIRTUAL_BACKING},
               {"shared-mapping", NXMEM_CAP_SHARED_MAPPING},
               {"deferred-release", NXMEM_CAP_DEFERRED_RELEASE},
               {"structured-release", NXMEM_CAP_STRUCTURED_RELEASE}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(known[i].word, word) != 0) continue;
    *flag_out = known[i].flag;
    return 1;
  }
  return 0;
}

int nx_isolation_of(const char *word, nx_isolation *out) {
  static const char *const known[] = {
      [NX_ISOLATION_NONE] = "none", [NX_ISOLATION_NO_NEW_PRIVS] = "no-new-privs", [NX_ISOLATION_SECCOMP] = "seccomp"};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(known[i], word) != 0) continue;
    *out = (nx_isolation)i;
    return 1;
  }
  return 0;
}

int nx_hex_of(const char *text, uint8_t *out, size_t room, size_t *count_out) {
  const size_t length = strlen(text);
  const char *end = NULL;
  return sodium_hex2bin(out, room, text, length, NULL, count_out, &end) == 0 && end == text + length && *count_out != 0;
}
