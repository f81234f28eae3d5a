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
#include "nxmem/status.h"

const char *nx_status_words(const NxmemStatus *status) {
  static char words[NXMEM_STATUS_MESSAGE_BUF + 64];
  size_t room = nxmem_status_message_len(status->message_len);
  int length = (int)strnlen((const char *)status->message, room);
  const char *name = nxmem_status_name(status->code);
  if (length == 0) return name;
  snprintf(words, sizeof words, "%s (%.*s)", name, length, (const char *)status->message);
  return words;
}

void nx_given_ok(NxmemStatus status, const char *what) {
  NX_GIVEN(status.code == NXMEM_STATUS_OK, "%s answered %s", what, nx_status_words(&status));
}

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
  nx_expect_status((NxmemStatus){.code = code}, accepted, what);
}

void nx_expect_status(NxmemStatus status, nx_codes accepted, const char *what) {
  if (status.code < NX_KNOWN_CODES && (accepted >> status.code & 1)) return;
  if (status.code < NX_KNOWN_CODES)
    nx_fails("%s: found %s, needed %s", what, nx_status_words(&status), nx_codes_words(accepted));
  nx_fails("%s: found the unknown status code %" PRIu32 ", needed %s", what, status.code, nx_codes_words(accepted));
}
