/*
 * sharing.c: honest calls into the shared mapping table.
 * Attackers: the plugin's answers.
 * Promise: a slot that is NULL is absent, and nothing is called then.
 */
#include "conform/sharing.h"

#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "nxmem.h"

/* Address space alone where the mechanism can reserve: room for a prefix in granules of any size. */
enum { RESERVED_BYTES = 1 << 26, PLAIN_BYTES = 1 << 20 };

NxmemSharedPrefixHandle nx_blank_handle(void) {
  NxmemSharedPrefixHandle handle;
  memset(&handle, 0xFF, sizeof handle);
  handle.struct_size = NX_HANDLE_BYTES;
  handle.device_ptr = 0;
  return handle;
}

NxmemSharedPrefixCommitInfo nx_blank_info(void) {
  return (NxmemSharedPrefixCommitInfo){NX_INFO_BYTES, 0, NX_UNWRITTEN, NX_UNWRITTEN, NX_UNWRITTEN};
}

NxmemSharedPrefixCommitRequest nx_commit_request(const NxmemSharedPrefixHandle *prefix, const nx_block *block,
                                                 uint64_t offset) {
  return (NxmemSharedPrefixCommitRequest){NX_COMMIT_REQUEST_BYTES, 0, *prefix, block->allocation, offset};
}

NxmemStatus nx_create(const nx_opened *opened, uint64_t bytes, NxmemSharedPrefixHandle *handle) {
  nx_needs_slot(opened->sharing.create_shared_prefix != NULL, "create_shared_prefix");
  nx_enter("create_shared_prefix");
  return opened->sharing.create_shared_prefix(opened->sharing.ctx, opened->table.mechanism_id, bytes, handle);
}

NxmemStatus nx_retain(const nx_opened *opened, const NxmemSharedPrefixHandle *handle) {
  nx_needs_slot(opened->sharing.retain_shared_prefix != NULL, "retain_shared_prefix");
  nx_enter("retain_shared_prefix");
  return opened->sharing.retain_shared_prefix(opened->sharing.ctx, handle);
}

NxmemStatus nx_release_prefix(const nx_opened *opened, const NxmemSharedPrefixHandle *handle) {
  nx_needs_slot(opened->sharing.release_shared_prefix != NULL, "release_shared_prefix");
  nx_enter("release_shared_prefix");
  return opened->sharing.release_shared_prefix(opened->sharing.ctx, handle);
}

NxmemStatus nx_incremental(const nx_opened *opened, const NxmemSharedPrefixHandle *handle, uint64_t *bytes) {
  nx_needs_slot(opened->sharing.incremental_owned_bytes != NULL, "incremental_owned_bytes");
  nx_enter("incremental_owned_bytes");
  return opened->sharing.incremental_owned_bytes(opened->sharing.ctx, handle, bytes);
}

NxmemStatus nx_commit_prefix(const nx_opened *opened, const NxmemSharedPrefixCommitRequest *request,
                             NxmemSharedPrefixCommitInfo *info) {
  nx_needs_slot(opened->sharing.commit_shared_prefix != NULL, "commit_shared_prefix");
  nx_enter("commit_shared_prefix");
  return opened->sharing.commit_shared_prefix(opened->sharing.ctx, request, info);
}

NxmemSharedPrefixHandle nx_must_create(const nx_opened *opened) {
  NxmemSharedPrefixHandle handle = nx_blank_handle();
  nx_given_ok(nx_create(opened, NX_PREFIX_BYTES, &handle), "create_shared_prefix");
  return handle;
}

void nx_must_release(const nx_opened *opened, const NxmemSharedPrefixHandle *handle) {
  nx_given_ok(nx_release_prefix(opened, handle), "release_shared_prefix");
}

void nx_share_one(nx_shared *s, int sharer) {
  NxmemSharedPrefixCommitRequest request = nx_commit_request(&s->prefix, &s->blocks[sharer], 0);
  s->infos[sharer] = nx_blank_info();
  nx_given_ok(nx_commit_prefix(&s->opened, &request, &s->infos[sharer]), "commit_shared_prefix");
}

static nx_shared share(nx_opened opened, int sharers) {
  nx_shared out = {.opened = opened, .prefix = nx_must_create(&opened)};
  uint64_t bytes = opened.backing.allocate_committed ? RESERVED_BYTES : PLAIN_BYTES;
  for (int i = 0; i < NX_SHARERS_MAX; i++) out.blocks[i] = nx_reserve_block(&opened, bytes);
  for (int i = 0; i < sharers; i++) nx_share_one(&out, i);
  return out;
}

nx_shared nx_share_ready(nx_trial *trial, int sharers) { return share(nx_open_ready(trial), sharers); }

nx_shared nx_share_again(nx_trial *trial, int sharers) { return share(nx_open_once(trial, NULL), sharers); }
