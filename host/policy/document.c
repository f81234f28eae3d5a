/*
 * document.c: objects of a policy, key by key.
 *
 * Attackers: whoever writes the policy: any JSON.
 * Promise: nothing is passed over: what is not understood, twice there or missing refuses the whole.
 */
#include "document.h"

#include <stdio.h>
#include <string.h>

#include "error.h"

nxmem_result nx_policy_refuse(nxmem_error *error, const char *where, const char *needed) {
  static const nx_context context = {NX_RECORD_SAID, "correct the policy: until then it allows nothing"};
  return nx_fail_in(error, NXMEM_ERR_INVALID_ARGUMENT, (nxmem_verdict){NXMEM_REASON_NONE, 0, 0, 0}, context,
                    "policy: %s: %s", where, needed);
}

static const nx_key *find_key(const nx_key *keys, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(keys[i].name, name) == 0) return &keys[i];
  return NULL;
}

enum { WHERE_ROOM = 192 };

static nxmem_result take_known(const json_t *object, const char *where, const nx_key *keys, size_t count, void *into,
                               nxmem_error *error) {
  const char *name = NULL;
  json_t *value = NULL;
  json_object_foreach((json_t *)(uintptr_t)object, name, value) {
    char at[WHERE_ROOM];
    (void)snprintf(at, sizeof at, "%s%s%.100s", where, where[0] == '\0' ? "" : ".", name);
    const nx_key *key = find_key(keys, count, name);
    const nxmem_result r =
        key == NULL ? nx_policy_refuse(error, at, "found a key that is unknown") : key->take(value, at, into, error);
    if (r != NXMEM_OK) return r;
  }
  return NXMEM_OK;
}

static nxmem_result need_required(const json_t *object, const char *where, const nx_key *keys, size_t count,
                                  nxmem_error *error) {
  for (size_t i = 0; i < count; i++) {
    if (!keys[i].required || json_object_get(object, keys[i].name) != NULL) continue;
    char at[WHERE_ROOM];
    (void)snprintf(at, sizeof at, "%s%s%s", where, where[0] == '\0' ? "" : ".", keys[i].name);
    return nx_policy_refuse(error, at, "found none, needed this key");
  }
  return NXMEM_OK;
}

nxmem_result nx_take_object(const json_t *object, const char *where, const nx_key *keys, size_t count, void *into,
                            nxmem_error *error) {
  if (!json_is_object(object))
    return nx_policy_refuse(error, where[0] == '\0' ? "the document" : where, "needed an object");
  const nxmem_result r = take_known(object, where, keys, count, into, error);
  return r == NXMEM_OK ? need_required(object, where, keys, count, error) : r;
}
