/*
 * sharing.c: whose prefix it is, what it costs, and what a group comes to.
 *
 * Attackers: foreign, short, unwritten and racing handles; costs that no prefix has; commits that answer in doubt.
 * Promise: what is kept is the allocator's own; what is charged is possible; in doubt an allocation is released.
 */
#include "nxmem/sharing.h"

#include <stddef.h>

#include "load.h"
#include "nxmem/outcome.h"
#include "verdict_make.h"

enum { AT_MECHANISM_ID = 8, AT_HANDLE = 16, AT_PHYSICAL = 40, AT_MAPPED = 48, AT_REQUESTED = 56 };
enum { AT_OWNED = 8, AT_NEWLY_MAPPED = 16, AT_GRANULES = 24 };
#ifndef __FRAMAC__
_Static_assert(AT_MECHANISM_ID == offsetof(NxmemSharedPrefixHandle, mechanism_id), "mechanism_id");
_Static_assert(AT_HANDLE == offsetof(NxmemSharedPrefixHandle, handle), "handle");
_Static_assert(24 == offsetof(NxmemSharedPrefixHandle, device), "device: as in an allocation");
_Static_assert(AT_PHYSICAL == offsetof(NxmemSharedPrefixHandle, committed_physical_bytes), "committed_physical_bytes");
_Static_assert(AT_MAPPED == offsetof(NxmemSharedPrefixHandle, mapped_bytes), "mapped_bytes");
_Static_assert(AT_REQUESTED == offsetof(NxmemSharedPrefixHandle, requested_bytes), "requested_bytes");
_Static_assert(NXMEM_PREFIX_BYTES == offsetof(NxmemSharedPrefixHandle, requested_bytes) + sizeof(uint64_t), "prefix");
_Static_assert(AT_OWNED == offsetof(NxmemSharedPrefixCommitInfo, additional_owned_bytes), "additional_owned_bytes");
_Static_assert(AT_NEWLY_MAPPED == offsetof(NxmemSharedPrefixCommitInfo, newly_mapped_bytes), "newly_mapped_bytes");
_Static_assert(AT_GRANULES == offsetof(NxmemSharedPrefixCommitInfo, granules), "granules");
#endif

void nxmem_prefix_handle_take(NXMEM_UNTRUSTED NxmemSharedPrefixHandle *src, NxmemSharedPrefixHandle *out) {
  out->struct_size = NX_LOAD(NxmemSharedPrefixHandle, src, struct_size);
  out->reserved = 0u;
  out->mechanism_id = NX_LOAD(NxmemSharedPrefixHandle, src, mechanism_id);
  out->handle = NX_LOAD(NxmemSharedPrefixHandle, src, handle);
  out->device.tier = NX_LOAD(NxmemSharedPrefixHandle, src, device.tier);
  out->device.index = NX_LOAD(NxmemSharedPrefixHandle, src, device.index);
  out->device_ptr = NX_LOAD(NxmemSharedPrefixHandle, src, device_ptr);
  out->committed_physical_bytes = NX_LOAD(NxmemSharedPrefixHandle, src, committed_physical_bytes);
  out->mapped_bytes = NX_LOAD(NxmemSharedPrefixHandle, src, mapped_bytes);
  out->requested_bytes = NX_LOAD(NxmemSharedPrefixHandle, src, requested_bytes);
}

nxmem_verdict nxmem_check_prefix_handle(const NxmemSharedPrefixHandle *prefix, uint64_t mechanism_id,
                                        NxmemDeviceId device, uint64_t bytes) {
  if (prefix->struct_size < NXMEM_PREFIX_BYTES)
    return nx_verdict(NXMEM_REASON_SHORT_PREFIX, 0u, prefix->struct_size, NXMEM_PREFIX_BYTES);
  const nxmem_verdict identity = nxmem_check_identity(prefix->mechanism_id, prefix->device, mechanism_id, device);
  if (identity.reason != NXMEM_REASON_NONE) return identity;
  if (prefix->handle == NXMEM_UNWRITTEN_COUNT)
    return nx_verdict(NXMEM_REASON_NO_PREFIX_HANDLE, AT_HANDLE, prefix->handle, 0u);
  if (prefix->requested_bytes != bytes)
    return nx_verdict(NXMEM_REASON_OTHER_REQUEST, AT_REQUESTED, prefix->requested_bytes, bytes);
  const uint64_t most = nxmem_most_mapped(0u, bytes);
  if (prefix->committed_physical_bytes > most)
    return nx_verdict(NXMEM_REASON_MORE_THAN_POSSIBLE, AT_PHYSICAL, prefix->committed_physical_bytes, most);
  if (prefix->mapped_bytes > most)
    return nx_verdict(NXMEM_REASON_MORE_THAN_POSSIBLE, AT_MAPPED, prefix->mapped_bytes, most);
  return nx_accept();
}

int nxmem_prefix_may_go_back(uint32_t reason) {
  return reason == NXMEM_REASON_OTHER_REQUEST || reason == NXMEM_REASON_MORE_THAN_POSSIBLE;
}

void nxmem_commit_info_take(NXMEM_UNTRUSTED NxmemSharedPrefixCommitInfo *src, NxmemSharedPrefixCommitInfo *out) {
  out->struct_size = NX_LOAD(NxmemSharedPrefixCommitInfo, src, struct_size);
  out->reserved = 0u;
  out->additional_owned_bytes = NX_LOAD(NxmemSharedPrefixCommitInfo, src, additional_owned_bytes);
  out->newly_mapped_bytes = NX_LOAD(NxmemSharedPrefixCommitInfo, src, newly_mapped_bytes);
  out->granules = NX_LOAD(NxmemSharedPrefixCommitInfo, src, granules);
}

nxmem_verdict nxmem_check_commit_info(const NxmemSharedPrefixCommitInfo *info, const nxmem_prefix_place *place) {
  const uint64_t most = nxmem_most_mapped(place->offset, place->bytes);
  if (info->additional_owned_bytes > most)
    return nx_verdict(NXMEM_REASON_MORE_THAN_POSSIBLE, AT_OWNED, info->additional_owned_bytes, most);
  if (info->newly_mapped_bytes > most)
    return nx_verdict(NXMEM_REASON_MORE_THAN_POSSIBLE, AT_NEWLY_MAPPED, info->newly_mapped_bytes, most);
  if (info->granules > most) return nx_verdict(NXMEM_REASON_MORE_THAN_POSSIBLE, AT_GRANULES, info->granules, most);
  const uint64_t owned_room = NXMEM_TOTAL_MAX - place->owned_total;
  if (info->additional_owned_bytes > owned_room)
    return nx_verdict(NXMEM_REASON_TOTAL_TOO_LARGE, AT_OWNED, info->additional_owned_bytes, owned_room);
  const uint64_t mapped_room = NXMEM_TOTAL_MAX - place->mapped_total;
  if (info->newly_mapped_bytes > mapped_room)
    return nx_verdict(NXMEM_REASON_TOTAL_TOO_LARGE, AT_NEWLY_MAPPED, info->newly_mapped_bytes, mapped_room);
  return nx_accept();
}

uint64_t nxmem_prefix_owned_once(uint64_t reported, uint64_t charged_before) {
  return charged_before == 0u ? reported : 0u;
}

nxmem_share_fate nxmem_judge_prefix_commit(uint32_t status_code, uint32_t info_reason) {
  if (status_code == NXMEM_STATUS_RELEASE_QUARANTINED) return NXMEM_SHARE_DOUBTFUL;
  if (status_code != NXMEM_STATUS_OK) return NXMEM_SHARE_REFUSED;
  return info_reason == NXMEM_REASON_NONE ? NXMEM_SHARE_MAPPED : NXMEM_SHARE_DOUBTFUL;
}

nxmem_group_fate nxmem_judge_group(uint32_t asked, uint32_t mapped, uint32_t kept) {
  if (kept != 0u) return NXMEM_GROUP_FATE_QUARANTINED;
  return mapped == asked ? NXMEM_GROUP_FATE_SHARED : NXMEM_GROUP_FATE_PRIVATE;
}
