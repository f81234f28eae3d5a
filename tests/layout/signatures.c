/*
 * signatures.c: the type of every slot, export and pointer of the wire contract, typed by hand from its text.
 * Compiled only.
 *
 * Attackers: none.
 * Promise: a parameter added, dropped or changed in the header does not compile here.
 */
#include "nxmem_memory_abi.h"

#define HAS_TYPE(expression, type) _Generic(&(expression), type * : 1, default : 0)
#define FIELD(record, field, type) \
  _Static_assert(HAS_TYPE(((record *)8)->field, type), #record "." #field " is not what the contract says")

typedef NxmemStatus S;
typedef uint8_t Message[256];

FIELD(NxmemStatus, code, uint32_t);
FIELD(NxmemStatus, message, Message);
FIELD(NxmemAllocation, device, NxmemDeviceId);
FIELD(NxmemAllocation, ptr, uint8_t *);
FIELD(NxmemAllocRequest, committed_ranges, const NxmemByteRange *);
FIELD(NxmemAllocResult, ptr, uint8_t *);
FIELD(NxmemRangeRequest, allocation, NxmemAllocation);
FIELD(NxmemRangeRequest, range, NxmemByteRange);
FIELD(NxmemReleaseOutcome, failure, NxmemStatus);
FIELD(NxmemReleaseCompletion, outcome, NxmemReleaseOutcome);
FIELD(NxmemSharedPrefixHandle, device_ptr, uint64_t);
FIELD(NxmemSharedPrefixCommitRequest, prefix, NxmemSharedPrefixHandle);
FIELD(NxmemSharedPrefixCommitRequest, allocation, NxmemAllocation);
FIELD(NxmemOpenRequest, callbacks, const NxmemHostCallbacks *);
FIELD(NxmemNegotiateRequest, host_range, NxmemVersionRange);
FIELD(NxmemNegotiateResponse, plugin_range, NxmemVersionRange);

typedef S (*RequestReclaim)(void *, const NxmemReclaimRequest *, uint64_t *);
typedef S (*ReleaseCompleted)(void *, const NxmemReleaseCompletion *);
FIELD(NxmemHostCallbacks, host_ctx, void *);
FIELD(NxmemHostCallbacks, request_reclaim, RequestReclaim);
FIELD(NxmemHostCallbacks, release_completed, ReleaseCompleted);

typedef S (*Allocate)(void *, const NxmemAllocRequest *, NxmemAllocResult *);
typedef S (*CommitRange)(void *, const NxmemRangeRequest *);
typedef S (*DecommitRange)(void *, const NxmemRangeRequest *, uint64_t *);
typedef S (*MappedForRanges)(void *, const NxmemRangeRequest *, uint64_t, uint64_t *);
typedef S (*MappedForAllocation)(void *, const NxmemAllocRequest *, uint64_t *);
typedef S (*AllocationToBytes)(void *, const NxmemAllocation *, uint64_t *);
FIELD(NxmemVirtualBackingVtable, ctx, void *);
FIELD(NxmemVirtualBackingVtable, allocate_committed, Allocate);
FIELD(NxmemVirtualBackingVtable, commit_range, CommitRange);
FIELD(NxmemVirtualBackingVtable, decommit_range, DecommitRange);
FIELD(NxmemVirtualBackingVtable, mapped_bytes_for_ranges, MappedForRanges);
FIELD(NxmemVirtualBackingVtable, mapped_bytes_for_allocation, MappedForAllocation);
FIELD(NxmemVirtualBackingVtable, committed_bytes, AllocationToBytes);

typedef S (*CreatePrefix)(void *, uint64_t, uint64_t, NxmemSharedPrefixHandle *);
typedef S (*TakePrefix)(void *, const NxmemSharedPrefixHandle *);
typedef S (*PrefixToBytes)(void *, const NxmemSharedPrefixHandle *, uint64_t *);
typedef S (*CommitPrefix)(void *, const NxmemSharedPrefixCommitRequest *, NxmemSharedPrefixCommitInfo *);
FIELD(NxmemSharedMappingVtable, ctx, void *);
FIELD(NxmemSharedMappingVtable, create_shared_prefix, CreatePrefix);
FIELD(NxmemSharedMappingVtable, retain_shared_prefix, TakePrefix);
FIELD(NxmemSharedMappingVtable, release_shared_prefix, TakePrefix);
FIELD(NxmemSharedMappingVtable, incremental_owned_bytes, PrefixToBytes);
FIELD(NxmemSharedMappingVtable, commit_shared_prefix, CommitPrefix);

typedef void (*ContextOnly)(void *);
typedef S (*DrainReleases)(void *, uint64_t, uint64_t *);
typedef S (*PendingCount)(void *, uint64_t *);
typedef S (*ReleaseAllocation)(void *, const NxmemAllocation *, NxmemReleaseOutcome *);
FIELD(NxmemAllocatorVtable, name, const uint8_t *);
FIELD(NxmemAllocatorVtable, ctx, void *);
FIELD(NxmemAllocatorVtable, allocate, Allocate);
FIELD(NxmemAllocatorVtable, deallocate, AllocationToBytes);
FIELD(NxmemAllocatorVtable, retain, ContextOnly);
FIELD(NxmemAllocatorVtable, release, ContextOnly);
FIELD(NxmemAllocatorVtable, virtual_backing, const NxmemVirtualBackingVtable *);
FIELD(NxmemAllocatorVtable, shared_mapping, const NxmemSharedMappingVtable *);
FIELD(NxmemAllocatorVtable, enqueue_release, AllocationToBytes);
FIELD(NxmemAllocatorVtable, drain_releases, DrainReleases);
FIELD(NxmemAllocatorVtable, pending_release_count, PendingCount);
FIELD(NxmemAllocatorVtable, release_allocation, ReleaseAllocation);

typedef S (*OpenAllocator)(void *, const NxmemOpenRequest *, const NxmemAllocatorVtable **);
FIELD(NxmemAllocatorFactoryVtable, name, const uint8_t *);
FIELD(NxmemAllocatorFactoryVtable, ctx, void *);
FIELD(NxmemAllocatorFactoryVtable, open_allocator, OpenAllocator);
FIELD(NxmemAllocatorFactoryVtable, release, ContextOnly);

typedef S Negotiate(const NxmemNegotiateRequest *, NxmemNegotiateResponse *);
typedef S CreateFactories(const NxmemAllocatorFactoryVtable **, uint64_t, uint64_t *);
typedef S QueryUnload(NxmemUnloadReport *);
_Static_assert(HAS_TYPE(NxmemNegotiate, Negotiate), "NxmemNegotiate");
_Static_assert(HAS_TYPE(NxmemCreateAllocatorFactories, CreateFactories), "NxmemCreateAllocatorFactories");
_Static_assert(HAS_TYPE(NxmemQueryUnloadReadiness, QueryUnload), "NxmemQueryUnloadReadiness");
