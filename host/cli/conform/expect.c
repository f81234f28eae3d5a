/*
 * expect.c: judging a status code.
 * Attackers: codes that a plugin makes up.
 * Promise: an unknown code is accepted by no set.
 */
#include "conform/expect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "nxmem.h"

const char *nx_codes_words(nx_codes codes) {
  static char words[256];
  if (codes == NX_ANY_REFUSAL) return "a refusal";
  words[0] = '\0';
  for (uint32_t code = 0; code < NX_KNOWN_CODES; code++) {
    if (!(codes >> code & 1)) continue;
    size_t used = strlen(words);
    snprintf(words + used, sizeof words - used, "%s%s", used ? " or " : "", nxmem_status_name(code));
  }
  return words;
}

void nx_expect_code(uint32_t code, nx_codes accepted, const char *what) {
  if (code < NX_KNOWN_CODES && (accepted >> code & 1)) return;
  if (code < NX_KNOWN_CODES)
    nx_fails("%s: found %s, needed %s", what, nxmem_status_name(code), nx_codes_words(accepted));
  nx_fails("%s: found the unknown status code %" PRIu32 ", needed %s", what, code, nx_codes_words(accepted));
}
