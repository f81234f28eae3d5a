/*
 * sharing.h: shared prefixes: the handle a plugin gives for one, what a commit of it costs, and what becomes of a group
 * of allocations that are to map it.
 *
 * Attackers: a plugin that hands over a prefix of another mechanism, device or size, leaves its handle unwritten,
 * rewrites it while it is judged, charges bytes that no prefix has, or maps some allocations of a group and not others.
 * Promise: a handle that is kept is whole and the allocator's own; no charge is above what is possible; a group ends as
 * shared, as private or as quarantined, and nothing in between.
 */
#ifndef NXMEM_SHARING_H
#define NXMEM_SHARING_H

#include "nxmem/backing.h"
#include "nxmem/identity.h"
#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NXMEM_PREFIX_BYTES = 64 };

/* Copy a prefix's handle that the plugin may still be writing, each field once. */
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out);
    assigns *out;
    ensures reserved: out->reserved == 0;
    ensures struct_size: out->struct_size == src->struct_size;
    ensures mechanism_id: out->mechanism_id == src->mechanism_id;
    ensures handle: out->handle == src->handle;
    ensures tier: out->device.tier == src->device.tier;
    ensures index: out->device.index == src->device.index;
    ensures device_ptr: out->device_ptr == src->device_ptr;
    ensures committed_physical_bytes: out->committed_physical_bytes == src->committed_physical_bytes;
    ensures mapped_bytes: out->mapped_bytes == src->mapped_bytes;
    ensures requested_bytes: out->requested_bytes == src->requested_bytes; */
#else
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, NX_LEDGER;
    ensures reserved: out->reserved == 0;
    ensures loads: NX_LOADED(0) && NX_LOADED(8) && NX_LOADED(16) && NX_LOADED(24) && NX_LOADED(28) && NX_LOADED(32) &&
                   NX_LOADED(40) && NX_LOADED(48) && NX_LOADED(56);
    ensures no_more_loads: !NX_LOADED(4) && NX_NOTHING_LOADED_FROM(57); */
#endif
void nxmem_prefix_handle_take(NXMEM_UNTRUSTED NxmemSharedPrefixHandle *src, NxmemSharedPrefixHandle *out);

#ifdef __FRAMAC__
/* clang-format off */
/* A handle p against what was asked for: each word one step further than the one before. */
#define NX_PREFIX_1(p) ((p)->struct_size >= 64)
#define NX_PREFIX_2(p, id) (NX_PREFIX_1(p) && (p)->mechanism_id == (id))
#define NX_PREFIX_3(p, id, dev) (NX_PREFIX_2(p, id) && NX_SAME_DEVICE((p)->device, dev))
#define NX_PREFIX_4(p, id, dev) (NX_PREFIX_3(p, id, dev) && (p)->handle != 0xFFFFFFFFFFFFFFFF)
#define NX_PREFIX_5(p, id, dev, asked) (NX_PREFIX_4(p, id, dev) && (p)->requested_bytes == (asked))
#define NX_PREFIX_6(p, id, dev, asked) \
  (NX_PREFIX_5(p, id, dev, asked) && (p)->committed_physical_bytes <= NX_MOST(0, asked))
/* clang-format on */
#endif
/*
 * Judge a handle that came with OK. `bytes` is what was asked for.
 *
 * SHORT_PREFIX, OTHER_MECHANISM, OTHER_DEVICE, NO_PREFIX_HANDLE (left unwritten), OTHER_REQUEST (made for another
 * size), MORE_THAN_POSSIBLE (physical or mapped bytes).
 */
/*@ requires prefix_readable: \valid_read(prefix);
    assigns \nothing;
    behavior short_prefix:
      assumes size: !NX_PREFIX_1(prefix);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_SHORT_PREFIX, 0, prefix->struct_size, 64);
    behavior other_mechanism:
      assumes before: NX_PREFIX_1(prefix);
      assumes differs: prefix->mechanism_id != mechanism_id;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OTHER_MECHANISM, 8, prefix->mechanism_id, mechanism_id);
    behavior other_device:
      assumes before: NX_PREFIX_2(prefix, mechanism_id);
      assumes differs: !NX_SAME_DEVICE(prefix->device, device);
      ensures refused: NX_OTHER_DEVICE(\result, prefix->device, device);
    behavior no_handle:
      assumes before: NX_PREFIX_3(prefix, mechanism_id, device);
      assumes unwritten: prefix->handle == 0xFFFFFFFFFFFFFFFF;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NO_PREFIX_HANDLE, 16, prefix->handle, 0);
    behavior other_request:
      assumes before: NX_PREFIX_4(prefix, mechanism_id, device);
      assumes differs: prefix->requested_bytes != bytes;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OTHER_REQUEST, 56, prefix->requested_bytes, bytes);
    behavior physical_impossible:
      assumes before: NX_PREFIX_5(prefix, mechanism_id, device, bytes);
      assumes beyond: prefix->committed_physical_bytes > NX_MOST(0, bytes);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_MORE_THAN_POSSIBLE, 40, prefix->committed_physical_bytes,
                                     NX_MOST(0, bytes));
    behavior mapped_impossible:
      assumes before: NX_PREFIX_6(prefix, mechanism_id, device, bytes);
      assumes beyond: prefix->mapped_bytes > NX_MOST(0, bytes);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_MORE_THAN_POSSIBLE, 48, prefix->mapped_bytes,
                                     NX_MOST(0, bytes));
    behavior believable:
      assumes before: NX_PREFIX_6(prefix, mechanism_id, device, bytes);
      assumes within: prefix->mapped_bytes <= NX_MOST(0, bytes);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_prefix_handle(const NxmemSharedPrefixHandle *prefix, uint64_t mechanism_id,
                                        NxmemDeviceId device, uint64_t bytes);

/*
 * May a prefix whose handle was refused for `reason` be handed back, once? Where only its numbers are wrong: the
 * handle itself says what to give back. Never one that is not this allocator's, or no handle at all. 1 or 0.
 */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==>
                   reason == NXMEM_REASON_OTHER_REQUEST || reason == NXMEM_REASON_MORE_THAN_POSSIBLE; */
int nxmem_prefix_may_go_back(uint32_t reason);

/* Copy what a commit reports, each field once, while the plugin may still be writing it. */
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out);
    assigns *out;
    ensures reserved: out->reserved == 0;
    ensures struct_size: out->struct_size == src->struct_size;
    ensures additional_owned_bytes: out->additional_owned_bytes == src->additional_owned_bytes;
    ensures newly_mapped_bytes: out->newly_mapped_bytes == src->newly_mapped_bytes;
    ensures granules: out->granules == src->granules; */
#else
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, NX_LEDGER;
    ensures reserved: out->reserved == 0;
    ensures loads: NX_LOADED(0) && NX_LOADED(8) && NX_LOADED(16) && NX_LOADED(24);
    ensures no_more_loads: !NX_LOADED(4) && NX_NOTHING_LOADED_FROM(25); */
#endif
void nxmem_commit_info_take(NXMEM_UNTRUSTED NxmemSharedPrefixCommitInfo *src, NxmemSharedPrefixCommitInfo *out);

/* What a commit of a prefix is judged by. */
typedef struct nxmem_prefix_place {
  uint64_t offset; /* in the allocation */
  uint64_t bytes;  /* of the prefix; the span is whole */
  uint64_t owned_total;
  uint64_t mapped_total; /* what the books hold already; at most NXMEM_TOTAL_MAX each */
} nxmem_prefix_place;

#ifdef __FRAMAC__
/* clang-format off */
#define NX_INFO_MOST(place) NX_MOST((place)->offset, (place)->bytes)
#define NX_INFO_1(info, place) ((info)->additional_owned_bytes <= NX_INFO_MOST(place))
#define NX_INFO_2(info, place) (NX_INFO_1(info, place) && (info)->newly_mapped_bytes <= NX_INFO_MOST(place))
/* A granule has a byte at least. */
#define NX_INFO_3(info, place) (NX_INFO_2(info, place) && (info)->granules <= NX_INFO_MOST(place))
#define NX_INFO_4(info, place) \
  (NX_INFO_3(info, place) && NX_FITS((info)->additional_owned_bytes, (place)->owned_total))
/* clang-format on */
#endif
/*
 * Judge what a commit that answered OK reports: MORE_THAN_POSSIBLE, also for numbers left unwritten; TOTAL_TOO_LARGE.
 */
/*@ requires info_readable: \valid_read(info);
    requires place_readable: \valid_read(place);
    requires whole: NX_WHOLE_RANGE(place->offset, place->bytes);
    requires owned_within: place->owned_total <= 0x8000000000000000;
    requires mapped_within: place->mapped_total <= 0x8000000000000000;
    assigns \nothing;
    behavior owned_impossible:
      assumes beyond: !NX_INFO_1(info, place);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_MORE_THAN_POSSIBLE, 8, info->additional_owned_bytes,
                                     NX_INFO_MOST(place));
    behavior mapped_impossible:
      assumes before: NX_INFO_1(info, place);
      assumes beyond: info->newly_mapped_bytes > NX_INFO_MOST(place);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_MORE_THAN_POSSIBLE, 16, info->newly_mapped_bytes,
                                     NX_INFO_MOST(place));
    behavior granules_impossible:
      assumes before: NX_INFO_2(info, place);
      assumes beyond: info->granules > NX_INFO_MOST(place);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_MORE_THAN_POSSIBLE, 24, info->granules,
                                     NX_INFO_MOST(place));
    behavior owned_too_large:
      assumes before: NX_INFO_3(info, place);
      assumes no_room: !NX_FITS(info->additional_owned_bytes, place->owned_total);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TOTAL_TOO_LARGE, 8, info->additional_owned_bytes,
                                     0x8000000000000000 - place->owned_total);
    behavior mapped_too_large:
      assumes before: NX_INFO_4(info, place);
      assumes no_room: !NX_FITS(info->newly_mapped_bytes, place->mapped_total);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TOTAL_TOO_LARGE, 16, info->newly_mapped_bytes,
                                     0x8000000000000000 - place->mapped_total);
    behavior believable:
      assumes before: NX_INFO_4(info, place);
      assumes room: NX_FITS(info->newly_mapped_bytes, place->mapped_total);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_commit_info(const NxmemSharedPrefixCommitInfo *info, const nxmem_prefix_place *place);

/*
 * Of the owned bytes that a commit reports, those that are charged: all where none of that prefix were before, else
 * none. A prefix's physical bytes are charged once.
 */
/*@ assigns \nothing;
    ensures first: charged_before == 0 ==> \result == reported;
    ensures again: charged_before != 0 ==> \result == 0; */
uint64_t nxmem_prefix_owned_once(uint64_t reported, uint64_t charged_before);

/* What one commit of a group makes of its allocation. */
typedef enum nxmem_share_fate {
  NXMEM_SHARE_MAPPED = 0,  /* it maps the prefix, and the books know what that costs */
  NXMEM_SHARE_REFUSED = 1, /* it does not, and is as it was */
  NXMEM_SHARE_DOUBTFUL = 2 /* it maps it at an unbelievable cost, or who knows: it must be released */
} nxmem_share_fate;

/* status_code of the commit; info_reason as nxmem_check_commit_info judged what it reports (only looked at with OK). */
/*@ assigns \nothing;
    behavior mapped:
      assumes status: status_code == 0;
      assumes info: info_reason == NXMEM_REASON_NONE;
      ensures fate: \result == NXMEM_SHARE_MAPPED;
    behavior unbelievable:
      assumes status: status_code == 0;
      assumes info: info_reason != NXMEM_REASON_NONE;
      ensures fate: \result == NXMEM_SHARE_DOUBTFUL;
    behavior kept:
      assumes status: status_code == 12;
      ensures fate: \result == NXMEM_SHARE_DOUBTFUL;
    behavior refused:
      assumes status: status_code != 0 && status_code != 12;
      ensures fate: \result == NXMEM_SHARE_REFUSED;
    complete behaviors;
    disjoint behaviors; */
nxmem_share_fate nxmem_judge_prefix_commit(uint32_t status_code, uint32_t info_reason);

/* What becomes of a group. */
typedef enum nxmem_group_fate {
  NXMEM_GROUP_FATE_SHARED = 0,     /* all map the prefix */
  NXMEM_GROUP_FATE_PRIVATE = 1,    /* none does, and whoever did is gone */
  NXMEM_GROUP_FATE_QUARANTINED = 2 /* one that may map it could not be released */
} nxmem_group_fate;

/*
 * asked   Allocations of the group.
 * mapped  How many of them were committed and believed.
 * kept    How many of those that had to be released again were not.
 */
/*@ assigns \nothing;
    behavior shared:
      assumes all: mapped == asked && kept == 0;
      ensures fate: \result == NXMEM_GROUP_FATE_SHARED;
    behavior rolled_back:
      assumes some: mapped != asked && kept == 0;
      ensures fate: \result == NXMEM_GROUP_FATE_PRIVATE;
    behavior stuck:
      assumes one_kept: kept != 0;
      ensures fate: \result == NXMEM_GROUP_FATE_QUARANTINED;
    complete behaviors;
    disjoint behaviors; */
nxmem_group_fate nxmem_judge_group(uint32_t asked, uint32_t mapped, uint32_t kept);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_SHARING_H */
