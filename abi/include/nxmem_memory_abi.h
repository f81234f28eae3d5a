/*
 * nxmem_memory_abi.h: the nxmem 1.1 wire contract between a host and a memory plugin.
 *
 * This header is all that a plugin author needs. It is binary compatible: names, sizes, offsets, constants and
 * signatures are facts that other plugins and hosts already rely on, and only ever grow at the end.
 * It compiles alone as C99, C11 and C++17, and needs only <stdint.h>.
 *
 * What each side promises (the rules behind the fields) is in CONVENTIONS.md, "The contract".
 *
 * Layout annotations, read by tests/layout and compared with every compiler:
 *   @record NAME SIZE ALIGN   before each struct
 *   @OFFSET                   behind each field
 */
#ifndef NXMEM_MEMORY_ABI_H
#define NXMEM_MEMORY_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Versions ------------------------------------------------------------------------------------------------- */

#define NXMEM_ABI_VERSION_MAJOR 1u
#define NXMEM_ABI_VERSION_MINOR 1u
#define NXMEM_ABI_VERSION_MINOR_BASELINE 0u

/* ---- Capabilities: bits of capability_flags ------------------------------------------------------------------- */

#define NXMEM_CAP_ALLOCATOR (1ull << 0)
#define NXMEM_CAP_VIRTUAL_BACKING (1ull << 1)
#define NXMEM_CAP_SHARED_MAPPING (1ull << 2)
#define NXMEM_CAP_DEFERRED_RELEASE (1ull << 3)
#define NXMEM_CAP_STRUCTURED_RELEASE (1ull << 4) /* exists from minor 1 */

/* ---- Status codes: append-only; a code this header does not know is a failure --------------------------------- */

#define NXMEM_STATUS_OK 0u
#define NXMEM_STATUS_VERSION_MISMATCH 1u
#define NXMEM_STATUS_SHORT_STRUCT 2u
#define NXMEM_STATUS_UNSUPPORTED_CAPABILITY 3u
#define NXMEM_STATUS_INVALID_ARGUMENT 4u
#define NXMEM_STATUS_INTERNAL_ERROR 5u
#define NXMEM_STATUS_NOT_IMPLEMENTED 6u
#define NXMEM_STATUS_DEVICE_ERROR 7u
#define NXMEM_STATUS_OUT_OF_MEMORY 8u
#define NXMEM_STATUS_WRONG_DEVICE 9u
#define NXMEM_STATUS_WRONG_MECHANISM 10u
#define NXMEM_STATUS_UNKNOWN_ALLOCATION 11u
#define NXMEM_STATUS_RELEASE_QUARANTINED 12u
#define NXMEM_STATUS_CALLBACK_FAILED 13u
#define NXMEM_STATUS_BUSY 14u

#define NXMEM_STATUS_MESSAGE_MAX 255u /* meaningful bytes */
#define NXMEM_STATUS_MESSAGE_BUF 256u /* with the NUL */

/* ---- Device tiers ---------------------------------------------------------------------------------------------- */

#define NXMEM_TIER_DEVICE 0u
#define NXMEM_TIER_HOST 1u
#define NXMEM_TIER_DISK 2u

/* ---- States of a release: a state this header does not know is quarantine ------------------------------------- */

#define NXMEM_RELEASE_COMPLETE 0u    /* gone; unmapped_bytes may be credited */
#define NXMEM_RELEASE_QUARANTINED 1u /* the plugin keeps residual_owned_bytes; the address never comes back */
#define NXMEM_RELEASE_FAILED 2u      /* nothing changed; as live as before */

/* ---- Records --------------------------------------------------------------------------------------------------- */

/*
 * The answer of every call, by value, so that neither side frees the other's heap. `message` is NUL-terminated
 * UTF-8 of message_len bytes, cut on a character boundary; the bytes behind it are zero.
 */
/* @record NxmemStatus 264 4 */
typedef struct NxmemStatus {
  uint32_t code;                             /* @0 */
  uint32_t message_len;                      /* @4 */
  uint8_t message[NXMEM_STATUS_MESSAGE_BUF]; /* @8 */
} NxmemStatus;

/* @record NxmemDeviceId 8 4 */
typedef struct NxmemDeviceId {
  uint32_t tier;  /* @0 */
  uint32_t index; /* @4 */
} NxmemDeviceId;

/* One allocation as both sides know it. allocation_id is the host's, never reused; a plugin may only compare it. */
/* @record NxmemAllocation 56 8 */
typedef struct NxmemAllocation {
  uint32_t struct_size;   /* @0 */
  uint32_t reserved;      /* @4 */
  uint64_t mechanism_id;  /* @8 */
  uint64_t allocation_id; /* @16 */
  NxmemDeviceId device;   /* @24 */
  uint8_t *ptr;           /* @32 */
  uint64_t bytes;         /* @40 */
  uint64_t align;         /* @48 */
} NxmemAllocation;

/* @record NxmemByteRange 16 8 */
typedef struct NxmemByteRange {
  uint64_t offset; /* @0 */
  uint64_t bytes;  /* @8 */
} NxmemByteRange;

/* @record NxmemAllocRequest 64 8 */
typedef struct NxmemAllocRequest {
  uint32_t struct_size;                   /* @0 */
  uint32_t reserved;                      /* @4 */
  uint64_t mechanism_id;                  /* @8 */
  uint64_t allocation_id;                 /* @16 */
  NxmemDeviceId device;                   /* @24 */
  uint64_t bytes;                         /* @32 */
  uint64_t align;                         /* @40 power of two */
  const NxmemByteRange *committed_ranges; /* @48 borrowed for the call; NULL when the count is 0 */
  uint64_t committed_range_count;         /* @56 */
} NxmemAllocRequest;

/*
 * An out-record: struct_size on entry is the room the caller offers; the callee writes no further. Both counts must be written on success; they
 * may be smaller than what was asked for.
 */
/* @record NxmemAllocResult 32 8 */
typedef struct NxmemAllocResult {
  uint32_t struct_size;  /* @0 */
  uint32_t reserved;     /* @4 */
  uint8_t *ptr;          /* @8 */
  uint64_t owned_bytes;  /* @16 physical bytes this allocation now owns */
  uint64_t mapped_bytes; /* @24 bytes mapped for it */
} NxmemAllocResult;

/* @record NxmemRangeRequest 80 8 */
typedef struct NxmemRangeRequest {
  uint32_t struct_size;       /* @0 */
  uint32_t reserved;          /* @4 */
  NxmemAllocation allocation; /* @8 */
  NxmemByteRange range;       /* @64 */
} NxmemRangeRequest;

/* @record NxmemReleaseOutcome 296 8 */
typedef struct NxmemReleaseOutcome {
  uint32_t struct_size;          /* @0 */
  uint32_t state;                /* @4 NXMEM_RELEASE_... */
  uint64_t allocation_bytes;     /* @8 */
  uint64_t unmapped_bytes;       /* @16 */
  uint64_t residual_owned_bytes; /* @24 */
  NxmemStatus failure;           /* @32 */
} NxmemReleaseOutcome;

/* @record NxmemReleaseCompletion 328 8 */
typedef struct NxmemReleaseCompletion {
  uint32_t struct_size;        /* @0 */
  uint32_t reserved;           /* @4 */
  uint64_t ticket;             /* @8 */
  uint64_t mechanism_id;       /* @16 */
  uint64_t allocation_id;      /* @24 */
  NxmemReleaseOutcome outcome; /* @32 */
} NxmemReleaseCompletion;

/* @record NxmemReclaimRequest 32 8 */
typedef struct NxmemReclaimRequest {
  uint32_t struct_size;  /* @0 */
  uint32_t reserved;     /* @4 */
  uint64_t mechanism_id; /* @8 */
  NxmemDeviceId device;  /* @16 */
  uint64_t bytes;        /* @24 */
} NxmemReclaimRequest;

/* @record NxmemUnloadReport 48 8 */
typedef struct NxmemUnloadReport {
  uint32_t struct_size;       /* @0 */
  uint32_t reserved;          /* @4 */
  uint64_t live_allocators;   /* @8 */
  uint64_t live_allocations;  /* @16 */
  uint64_t live_views;        /* @24 */
  uint64_t live_capabilities; /* @32 */
  uint64_t queued_releases;   /* @40 */
} NxmemUnloadReport;

/* @record NxmemSharedPrefixHandle 64 8 */
typedef struct NxmemSharedPrefixHandle {
  uint32_t struct_size;              /* @0 */
  uint32_t reserved;                 /* @4 */
  uint64_t mechanism_id;             /* @8 */
  uint64_t handle;                   /* @16 */
  NxmemDeviceId device;              /* @24 */
  uint64_t device_ptr;               /* @32 */
  uint64_t committed_physical_bytes; /* @40 */
  uint64_t mapped_bytes;             /* @48 */
  uint64_t requested_bytes;          /* @56 */
} NxmemSharedPrefixHandle;

/* @record NxmemSharedPrefixCommitRequest 136 8 */
typedef struct NxmemSharedPrefixCommitRequest {
  uint32_t struct_size;           /* @0 */
  uint32_t reserved;              /* @4 */
  NxmemSharedPrefixHandle prefix; /* @8 */
  NxmemAllocation allocation;     /* @72 */
  uint64_t byte_offset;           /* @128 */
} NxmemSharedPrefixCommitRequest;

/* @record NxmemSharedPrefixCommitInfo 32 8 */
typedef struct NxmemSharedPrefixCommitInfo {
  uint32_t struct_size;            /* @0 */
  uint32_t reserved;               /* @4 */
  uint64_t additional_owned_bytes; /* @8 */
  uint64_t newly_mapped_bytes;     /* @16 */
  uint64_t granules;               /* @24 */
} NxmemSharedPrefixCommitInfo;

struct NxmemHostCallbacks;

/* @record NxmemOpenRequest 32 8 */
typedef struct NxmemOpenRequest {
  uint32_t struct_size;                       /* @0 */
  uint32_t abi_minor;                         /* @4 the negotiated ceiling */
  NxmemDeviceId device;                       /* @8 */
  uint64_t required_capability_flags;         /* @16 ALLOCATOR is always among them */
  const struct NxmemHostCallbacks *callbacks; /* @24 valid for the allocator's life and every queued release's */
} NxmemOpenRequest;

/* @record NxmemVersionRange 16 4 */
typedef struct NxmemVersionRange {
  uint32_t major_min; /* @0 */
  uint32_t major_max; /* @4 */
  uint32_t minor_min; /* @8 */
  uint32_t minor_max; /* @12 */
} NxmemVersionRange;

/* @record NxmemNegotiateRequest 32 8 */
typedef struct NxmemNegotiateRequest {
  uint32_t struct_size;           /* @0 */
  uint32_t reserved;              /* @4 */
  NxmemVersionRange host_range;   /* @8 */
  uint64_t host_capability_flags; /* @24 */
} NxmemNegotiateRequest;

/* @record NxmemNegotiateResponse 40 8 */
typedef struct NxmemNegotiateResponse {
  uint32_t struct_size;           /* @0 */
  uint32_t agreed_major;          /* @4 */
  uint32_t agreed_minor;          /* @8 */
  uint32_t reserved;              /* @12 */
  NxmemVersionRange plugin_range; /* @16 reported even when the plugin refuses */
  uint64_t capability_flags;      /* @32 */
} NxmemNegotiateResponse;

/* ---- Tables of slots: a slot's first argument is the table's own ctx, unchanged -------------------------------- */

/* Given by the host with open_allocator. */
/* @record NxmemHostCallbacks 32 8 */
typedef struct NxmemHostCallbacks {
  uint32_t struct_size; /* @0 */
  uint32_t abi_minor;   /* @4 */
  void *host_ctx;       /* @8 */
  NxmemStatus (*request_reclaim)(void *host_ctx, const NxmemReclaimRequest *request,
                                 uint64_t *reclaimed_out);                                  /* @16 */
  NxmemStatus (*release_completed)(void *host_ctx, const NxmemReleaseCompletion *completion); /* @24 */
} NxmemHostCallbacks;

/* @record NxmemVirtualBackingVtable 72 8 */
typedef struct NxmemVirtualBackingVtable {
  uint32_t struct_size;  /* @0 */
  uint32_t abi_minor;    /* @4 */
  uint64_t mechanism_id; /* @8 */
  void *ctx;             /* @16 */
  NxmemStatus (*allocate_committed)(void *ctx, const NxmemAllocRequest *request,
                                    NxmemAllocResult *result_out);                               /* @24 */
  NxmemStatus (*commit_range)(void *ctx, const NxmemRangeRequest *request);                      /* @32 */
  NxmemStatus (*decommit_range)(void *ctx, const NxmemRangeRequest *request,
                                uint64_t *unmapped_out);                                         /* @40 */
  NxmemStatus (*mapped_bytes_for_ranges)(void *ctx, const NxmemRangeRequest *requests, uint64_t count,
                                         uint64_t *mapped_out);                                  /* @48 */
  NxmemStatus (*mapped_bytes_for_allocation)(void *ctx, const NxmemAllocRequest *request,
                                             uint64_t *mapped_out);                              /* @56 */
  NxmemStatus (*committed_bytes)(void *ctx, const NxmemAllocation *allocation,
                                 uint64_t *committed_out);                                       /* @64 */
} NxmemVirtualBackingVtable;

/* @record NxmemSharedMappingVtable 64 8 */
typedef struct NxmemSharedMappingVtable {
  uint32_t struct_size;  /* @0 */
  uint32_t abi_minor;    /* @4 */
  uint64_t mechanism_id; /* @8 */
  void *ctx;             /* @16 */
  NxmemStatus (*create_shared_prefix)(void *ctx, uint64_t mechanism_id, uint64_t bytes,
                                      NxmemSharedPrefixHandle *handle_out);            /* @24 */
  NxmemStatus (*retain_shared_prefix)(void *ctx, const NxmemSharedPrefixHandle *handle); /* @32 */
  NxmemStatus (*release_shared_prefix)(void *ctx, const NxmemSharedPrefixHandle *handle); /* @40 */
  NxmemStatus (*incremental_owned_bytes)(void *ctx, const NxmemSharedPrefixHandle *handle,
                                         uint64_t *bytes_out);                         /* @48 */
  NxmemStatus (*commit_shared_prefix)(void *ctx, const NxmemSharedPrefixCommitRequest *request,
                                      NxmemSharedPrefixCommitInfo *info_out);          /* @56 */
} NxmemSharedMappingVtable;

/* Published by open_allocator. The host owes one `release` per reference; `retain` adds one. */
/* @record NxmemAllocatorVtable 128 8 */
typedef struct NxmemAllocatorVtable {
  uint32_t struct_size;      /* @0 */
  uint32_t abi_minor;        /* @4 */
  uint64_t mechanism_id;     /* @8 */
  NxmemDeviceId device;      /* @16 */
  uint64_t capability_flags; /* @24 */
  const uint8_t *name;       /* @32 NUL-terminated UTF-8, valid until the final release */
  void *ctx;                 /* @40 */
  NxmemStatus (*allocate)(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out); /* @48 required */
  NxmemStatus (*deallocate)(void *ctx, const NxmemAllocation *allocation,
                            uint64_t *unmapped_bytes_out); /* @56 required */
  void (*retain)(void *ctx);                               /* @64 required */
  void (*release)(void *ctx);                              /* @72 required */
  const struct NxmemVirtualBackingVtable *virtual_backing; /* @80 NULL without the capability */
  const struct NxmemSharedMappingVtable *shared_mapping;   /* @88 NULL without the capability */
  NxmemStatus (*enqueue_release)(void *ctx, const NxmemAllocation *allocation, uint64_t *ticket_out); /* @96 */
  NxmemStatus (*drain_releases)(void *ctx, uint64_t max, uint64_t *retired_out);                      /* @104 */
  NxmemStatus (*pending_release_count)(void *ctx, uint64_t *count_out);                               /* @112 */
  NxmemStatus (*release_allocation)(void *ctx, const NxmemAllocation *allocation,
                                    NxmemReleaseOutcome *outcome_out); /* @120 minor 1 only */
} NxmemAllocatorVtable;

/* Published by NxmemCreateAllocatorFactories; released by the host exactly once. */
/* @record NxmemAllocatorFactoryVtable 56 8 */
typedef struct NxmemAllocatorFactoryVtable {
  uint32_t struct_size;      /* @0 */
  uint32_t abi_minor;        /* @4 */
  const uint8_t *name;       /* @8 NUL-terminated UTF-8, 1 to 255 bytes, valid until release */
  NxmemDeviceId device;      /* @16 */
  uint64_t capability_flags; /* @24 advertised; the allocator's own flags decide */
  void *ctx;                 /* @32 */
  NxmemStatus (*open_allocator)(void *ctx, const NxmemOpenRequest *request,
                                const NxmemAllocatorVtable **allocator_out); /* @40 required */
  void (*release)(void *ctx);                                                /* @48 required */
} NxmemAllocatorFactoryVtable;

/* ---- What a plugin exports: all three, by these names ---------------------------------------------------------- */

/*
 * Each must be visible in the library: with -fvisibility=hidden mark its definition __attribute__((visibility("default"))), on Windows
 * __declspec(dllexport); in C++ define it at global scope.
 */

NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response);
NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **out_factories, uint64_t max_factories,
                                          uint64_t *out_count);
NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report_out);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_MEMORY_ABI_H */
