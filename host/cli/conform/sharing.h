/*
 * sharing.h: shared prefixes and blocks that map them.
 * Attackers: the plugin's answers.
 * Promise: a slot that is NULL makes a rule not applicable.
 */
#ifndef NXMEM_CONFORM_SHARING_H
#define NXMEM_CONFORM_SHARING_H

#include "conform/backing.h"

enum { NX_HANDLE_BYTES = 64, NX_COMMIT_REQUEST_BYTES = 136, NX_INFO_BYTES = 32 };
enum { NX_PREFIX_BYTES = 100000, NX_SHARERS_MAX = 3 };

typedef struct nx_shared {
  nx_opened opened;
  NxmemSharedPrefixHandle prefix;
  nx_block blocks[NX_SHARERS_MAX];
  NxmemSharedPrefixCommitInfo infos[NX_SHARERS_MAX];
} nx_shared;

NxmemSharedPrefixHandle nx_blank_handle(void);
NxmemSharedPrefixCommitInfo nx_blank_info(void);
NxmemSharedPrefixCommitRequest nx_commit_request(const NxmemSharedPrefixHandle *prefix, const nx_block *block,
                                                 uint64_t offset);

NxmemStatus nx_create(const nx_opened *opened, uint64_t bytes, NxmemSharedPrefixHandle *handle);
NxmemStatus nx_retain(const nx_opened *opened, const NxmemSharedPrefixHandle *handle);
NxmemStatus nx_release_prefix(const nx_opened *opened, const NxmemSharedPrefixHandle *handle);
NxmemStatus nx_incremental(const nx_opened *opened, const NxmemSharedPrefixHandle *handle, uint64_t *bytes);
NxmemStatus nx_commit_prefix(const nx_opened *opened, const NxmemSharedPrefixCommitRequest *request,
                             NxmemSharedPrefixCommitInfo *info);

NxmemSharedPrefixHandle nx_must_create(const nx_opened *opened);
void nx_must_release(const nx_opened *opened, const NxmemSharedPrefixHandle *handle);

/* A prefix and blocks to map it into; committed into the first `sharers` of them. */
nx_shared nx_share_ready(nx_trial *trial, int sharers);
nx_shared nx_share_again(nx_trial *trial, int sharers); /* on a module that is ready: one more open */
void nx_share_one(nx_shared *shared, int sharer);

#endif /* NXMEM_CONFORM_SHARING_H */
