/*
 * sharing.c: Eva drivers of nxmem/sharing.h: each entry point once for everything that its contract allows.
 *
 * Attackers: a plugin that writes anything into its records.
 * Promise: the preconditions of sharing.h; sizes at the bounds that the core knows.
 */
#include "nxmem/sharing.h"

#include "support.h"

void eva_nxmem_prefix_handle_take(void) {
  NxmemSharedPrefixHandle handle;
  NxmemSharedPrefixHandle out;
  eva_fill(&handle, sizeof(handle));
  nxmem_prefix_handle_take(&handle, &out);
}

void eva_nxmem_check_prefix_handle(void) {
  NxmemSharedPrefixHandle handle;
  NxmemDeviceId device;
  eva_fill(&handle, sizeof(handle));
  eva_fill(&device, sizeof(device));
  (void)nxmem_check_prefix_handle(&handle, any64, device, eva_bound());
}

void eva_nxmem_prefix_may_go_back(void) { (void)nxmem_prefix_may_go_back(any32); }

void eva_nxmem_commit_info_take(void) {
  NxmemSharedPrefixCommitInfo info;
  NxmemSharedPrefixCommitInfo out;
  eva_fill(&info, sizeof(info));
  nxmem_commit_info_take(&info, &out);
}

void eva_nxmem_check_commit_info(void) {
  NxmemSharedPrefixCommitInfo info;
  nxmem_prefix_place place;
  eva_fill(&info, sizeof(info));
  place.offset = eva_bound();
  place.bytes = eva_bound();
  place.owned_total = any64;
  place.mapped_total = any64;
  if (place.bytes > UINT64_MAX - place.offset) return;
  if (place.owned_total > NXMEM_TOTAL_MAX || place.mapped_total > NXMEM_TOTAL_MAX) return;
  (void)nxmem_check_commit_info(&info, &place);
}

void eva_nxmem_prefix_owned_once(void) { (void)nxmem_prefix_owned_once(any64, any64); }

void eva_nxmem_judge_prefix_commit(void) { (void)nxmem_judge_prefix_commit(any32, any32); }

void eva_nxmem_judge_group(void) { (void)nxmem_judge_group(any32, any32, any32); }
