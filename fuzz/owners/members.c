/*
 * members.c: registries, contexts and authorities made and removed.
 * Attackers: handles that are stale, of another registry, or still pinned.
 * Promise: what is pinned stays, and how often it is pinned is said.
 */
#include <string.h>

#include "owners.h"

/* A handle that says BUSY says how much is left. */
static void removed(const char *what, nxmem_result found, const nxmem_error *error, own_there there, uint64_t left) {
  const nxmem_result expected = there != OWN_LIVE ? NXMEM_ERR_STALE_HANDLE : left != 0 ? NXMEM_ERR_BUSY : NXMEM_OK;
  own_result(what, found, expected);
  if (found == NXMEM_ERR_BUSY) own_same(what, error->found, left);
}

static uint64_t members_of(uint8_t registry) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < OWN_MEMBERS; i++) {
    n += own.contexts[i].there == OWN_LIVE && own.contexts[i].registry == registry;
    n += own.authorities[i].there == OWN_LIVE && own.authorities[i].registry == registry;
  }
  for (uint32_t i = 0; i < OWN_QUEUES; i++) n += own.queues[i].there == OWN_LIVE && own.queues[i].registry == registry;
  return n;
}

static void make_registry(own_registry *r) {
  if (r->there == OWN_LIVE) return;
  own_result("create registry", nxmem_registry_create(&r->handle, NULL), NXMEM_OK);
  r->there = OWN_LIVE;
  memset(r->selected, OWN_NOBODY, sizeof r->selected);
}

void own_op_registry(const life_record *op) {
  const uint8_t which = op->a % OWN_REGISTRIES;
  own_registry *r = &own.registries[which];
  if ((op->c & 1u) == 0) {
    make_registry(r);
    return;
  }
  nxmem_error error;
  const nxmem_result found = nxmem_registry_destroy(r->handle, &error);
  removed("destroy registry", found, &error, r->there, members_of(which));
  if (found == NXMEM_OK) r->there = OWN_GONE;
}

/* ---- Contexts and authorities ------------------------------------------------------------------------------------- */

static void make_member(own_member *m, uint8_t registry, int authority) {
  const own_registry *r = &own.registries[registry];
  nxmem_context context = {0};
  nxmem_authority made = {0};
  if (m->there == OWN_LIVE) return;
  const nxmem_result found =
      authority ? nxmem_authority_create(r->handle, &made, NULL) : nxmem_context_create(r->handle, &context, NULL);
  own_result("create a member", found, r->there == OWN_LIVE ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE);
  if (found != NXMEM_OK) return;
  *m = (own_member){.there = OWN_LIVE, .handle = authority ? made.id : context.id, .registry = registry};
  own_expect(m->handle != 0, "create a member: no identity");
}

static void remove_member(own_member *m, int authority) {
  nxmem_error error;
  const nxmem_result found = authority ? nxmem_authority_remove((nxmem_authority){m->handle}, &error)
                                       : nxmem_context_remove((nxmem_context){m->handle}, &error);
  removed("remove a member", found, &error, m->there, m->pins);
  if (found == NXMEM_OK) m->there = OWN_GONE;
}

void own_op_member(const life_record *op) {
  const int authority = (op->b & 1u) != 0;
  own_member *m = authority ? &own.authorities[op->a % OWN_MEMBERS] : &own.contexts[op->a % OWN_MEMBERS];
  if ((op->c & 1u) == 0)
    make_member(m, (op->b & 0xF0u) == 0xF0u ? 1u : 0u, authority);
  else
    remove_member(m, authority);
}
