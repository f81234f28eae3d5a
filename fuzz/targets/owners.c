/*
 * owners.c: registry and managers over the real host, against a plugin and holders whose every answer is the input's.
 * Attackers: the plugin, as in lifecycle.c; callers that end, lose, remove and drop what others use; holders under pressure that lie and call back.
 * Promise: after each step who is selected, what is owned, kept and charged are those of a reference model; no plugin is entered behind a loss; at the end nothing is left.
 *
 * Input: owners/owners.h.
 */
#include "owners.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  own_run(data, size);
  return 0;
}
