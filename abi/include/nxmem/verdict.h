/*
 * verdict.h: how every judgement of the core answers: one reason and three numbers, no text.
 *
 * A refusal therefore costs no more than an acceptance, and the core formats nothing; text is made by the host only when
 * somebody asks (nxmem_reason_text in the host library). Freestanding; nothing here reads plugin memory.
 */
#ifndef NXMEM_VERDICT_H
#define NXMEM_VERDICT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * How the core sees memory that the other side may rewrite at any moment. Compiled code always reads through volatile, so that
 * a compiler loads each field once; the proofs look at both worlds (CONVENTIONS.md, "Two worlds").
 */
#if defined(NXMEM_QUIET_WORLD)
#define NXMEM_UNTRUSTED const
#else
#define NXMEM_UNTRUSTED const volatile
#endif

/*
 * Words of the contracts: macros, because the run-time checker ignores predicates that read memory. Only the proofs see them.
 *
 * Two worlds: with NXMEM_QUIET_WORLD a contract says exactly what comes out of memory that stands still; without it, what holds
 * whatever each load yields. There the ledger nx_loads (proofs/loads.h) counts the loads of each offset of the record being read.
 */
#ifdef __FRAMAC__
#define NX_VERDICT_IS(v, why, at, what, want) \
  ((v).reason == (why) && (v).field == (at) && (v).found == (what) && (v).needed == (want))
#define NX_ACCEPTED(v) NX_VERDICT_IS(v, 0, 0, 0, 0)
#define NX_ADDRESS(p) ((uintptr_t)(p))
#define NX_USABLE(p) (NX_ADDRESS(p) != 0 && NX_ADDRESS(p) % 8 == 0)
/* clang-format off */
/* The numbers of a verdict on an address, and of an acceptance. */
#define NX_ADDRESS_NUMBERS(v, p) \
  (((v).reason == NXMEM_REASON_NULL_POINTER ==> NX_VERDICT_IS(v, NXMEM_REASON_NULL_POINTER, 0, 0, 0)) && \
   ((v).reason == NXMEM_REASON_MISALIGNED ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_MISALIGNED, 0, NX_ADDRESS(p) % 8, 8)) && \
   ((v).reason == NXMEM_REASON_NONE ==> NX_ACCEPTED(v)))
/* clang-format on */
#define NX_LEAST(a, b) ((a) < (b) ? (a) : (b))
#endif

/* Why something was refused. Append-only: tests and reports rely on the numbers. */
typedef enum nxmem_reason {
  NXMEM_REASON_NONE = 0, /* accepted */

  /* prefix.h: tables */
  NXMEM_REASON_NULL_POINTER = 1,
  NXMEM_REASON_MISALIGNED = 2,   /* found: address modulo 8 */
  NXMEM_REASON_SHORT_HEADER = 3, /* found: struct_size; needed: 8 */
  NXMEM_REASON_SHORT_TABLE = 4,  /* found: struct_size; needed: what the claimed minor takes */
  NXMEM_REASON_MISSING_SLOT = 5, /* field: the slot's offset */
  NXMEM_REASON_ZERO_MECHANISM = 6,
  NXMEM_REASON_OTHER_MECHANISM = 7, /* found, needed: mechanism ids */

  /* capability.h */
  NXMEM_REASON_UNKNOWN_CAPABILITY = 10, /* found: the flags; needed: the bits known at that level */
  NXMEM_REASON_TABLE_WITHOUT_FLAG = 11, /* field: the table pointer's offset */
  NXMEM_REASON_FLAG_WITHOUT_SLOT = 12,  /* field: the missing table's or slot's offset */
  NXMEM_REASON_NO_ALLOCATOR = 13,       /* the ALLOCATOR capability is not among the flags */
  NXMEM_REASON_REQUIRED_MISSING = 14,   /* found: effective flags; needed: required flags */

  /* negotiate.h */
  NXMEM_REASON_PLUGIN_REFUSED = 20,     /* found: the status code it answered */
  NXMEM_REASON_SHORT_RESPONSE = 21,     /* found, needed: struct_size */
  NXMEM_REASON_SHORT_REQUEST = 22,      /* found, needed: struct_size */
  NXMEM_REASON_INVERTED_RANGE = 23,     /* field: offset of the range; found: min; needed: max */
  NXMEM_REASON_NO_COMMON_MAJOR = 24,    /* found: the smaller of both maxima; needed: the larger of both minima */
  NXMEM_REASON_NO_COMMON_MINOR = 25,    /* found: the best common minor; needed: the higher of both lower bounds */
  NXMEM_REASON_MAJOR_OUT_OF_RANGE = 26, /* found: agreed major; needed: the bound it breaks */
  NXMEM_REASON_MINOR_OUT_OF_RANGE = 27, /* found: agreed minor; needed: the bound it breaks */
  NXMEM_REASON_CAPS_BEYOND_OFFER = 28,  /* found: the answer's flags; needed: what was offered */
  NXMEM_REASON_CAPS_BEYOND_LEVEL = 29,  /* found: the answer's flags; needed: what the agreed minor defines */

  /* identity.h */
  NXMEM_REASON_UNKNOWN_TIER = 40, /* found: tier; needed: the highest known */
  NXMEM_REASON_OTHER_DEVICE = 41, /* found, needed: tier * 2^32 + index */

  /* name.h */
  NXMEM_REASON_EMPTY_NAME = 50,
  NXMEM_REASON_UNTERMINATED_NAME = 51, /* found: bytes looked at without a NUL; needed: at most 256 with it */
  NXMEM_REASON_BAD_UTF8 = 52,          /* field: offset of the offending byte; found: its value */
  NXMEM_REASON_CONTROL_CHARACTER = 53, /* field: offset; found: the code point */

  /* outcome.h */
  NXMEM_REASON_NULL_ADDRESS = 60,
  NXMEM_REASON_MISALIGNED_ADDRESS = 61, /* found: address; needed: alignment */
  NXMEM_REASON_WRAPPING_ADDRESS = 62,   /* the end is not below 2^64. found: address; needed: bytes */
  NXMEM_REASON_TOTAL_TOO_LARGE = 63, /* field: offset of the count; found: count; needed: what still fits under 2^63 */
  NXMEM_REASON_ZERO_BYTES = 64,
  NXMEM_REASON_BAD_ALIGNMENT = 65,   /* found: alignment */
  NXMEM_REASON_SIZE_WRAPS = 66,      /* found: bytes; needed: alignment */
  NXMEM_REASON_OTHER_ADDRESS = 67,   /* found, needed: addresses */
  NXMEM_REASON_OTHER_BYTES = 68,     /* found, needed: sizes */
  NXMEM_REASON_OTHER_ALIGNMENT = 69, /* found, needed: alignments */

  /* unload.h */
  NXMEM_REASON_REPORT_FAILED = 70,    /* found: the status code */
  NXMEM_REASON_REPORT_SHORT = 71,     /* found: struct_size; needed: 48 */
  NXMEM_REASON_REPORT_UNWRITTEN = 72, /* field: offset of the count that was never written */
  NXMEM_REASON_PLUGIN_HOLDS = 73,     /* field: offset of the count; found: count */
  NXMEM_REASON_HOST_HOLDS = 74,       /* field: an nxmem_host_axis; found: count */

  /* handle.h */
  NXMEM_REASON_STALE_HANDLE = 80, /* found: generation; needed: the slot's */
  NXMEM_REASON_WRONG_STATE = 81,  /* found: state; needed: LIVE */
  NXMEM_REASON_IN_USE = 82,       /* found: users */

  /* completion.h */
  NXMEM_REASON_SHORT_COMPLETION = 83,   /* found: struct_size; needed: 328 */
  NXMEM_REASON_UNKNOWN_ALLOCATION = 84, /* found: allocation id; needed: the record's, 0 where there is no record */
  NXMEM_REASON_OTHER_OWNER = 85,        /* found, needed: the host's own identities of allocators */
  NXMEM_REASON_NOT_QUEUED = 86,         /* found: state; needed: QUEUED. A duplicate, or never queued */
  NXMEM_REASON_OTHER_TICKET = 87,       /* found, needed: tickets */
  NXMEM_REASON_TICKET_UNWRITTEN = 88,   /* an enqueue said OK without one */
  NXMEM_REASON_TOO_MANY_RETIRED = 89,   /* found: releases said to be retired; needed: at most */

  /* enumerate.h */
  NXMEM_REASON_TOO_MANY = 90,     /* found: count; needed: at most */
  NXMEM_REASON_LISTED_TWICE = 91, /* found, needed: the two indices */
  NXMEM_REASON_SAME_NAME = 92,    /* found, needed: the two indices */

  /* Of a number that a plugin had to write, and did not. */
  NXMEM_REASON_COUNT_UNWRITTEN = 93,

  /* range.h */
  NXMEM_REASON_OFFSET_OUTSIDE = 95, /* found: offset; needed: at most, the size */
  NXMEM_REASON_BYTES_OUTSIDE = 96,  /* found: bytes; needed: at most, what is left behind the offset */

  /* Memory that could not be read: the host observes how far it got, range.h and name.h judge. */
  NXMEM_REASON_UNREADABLE = 100, /* found: readable bytes; needed: bytes */

  /* pin.h */
  NXMEM_REASON_TOO_MANY_USERS = 110, /* found: users; needed: at most */

  /* backing.h */
  NXMEM_REASON_TOO_MANY_RANGES = 111,    /* found: ranges; needed: at most */
  NXMEM_REASON_MORE_THAN_POSSIBLE = 112, /* found: bytes or granules; needed: at most, what such a range can take */

  /* sharing.h */
  NXMEM_REASON_SHORT_PREFIX = 113,     /* found: struct_size; needed: 64 */
  NXMEM_REASON_NO_PREFIX_HANDLE = 114, /* OK with a handle left unwritten */
  NXMEM_REASON_OTHER_REQUEST = 115,    /* found: requested_bytes of the handle; needed: what was asked for */

  /* overlap.h */
  NXMEM_REASON_OVERLAP = 120, /* found: address; needed: where the allocation, or a part of it, begins that is there */

  /* arena.h */
  NXMEM_REASON_BAD_GRANULARITY = 130, /* found: what is 0, no power of two or too large */
  NXMEM_REASON_NO_RUNG = 131,         /* found: bytes; needed: the least to reserve */

  /* granule.h, granules.h. Of an array, found: the index of the first granule that refuses. */
  NXMEM_REASON_POISONED = 132,
  NXMEM_REASON_QUARANTINED = 133,
  NXMEM_REASON_SHARED = 134, /* found: how it is mapped */
  NXMEM_REASON_MAPPED = 135, /* found: how it is mapped */
  NXMEM_REASON_NOT_MAPPED = 136,
  NXMEM_REASON_TOO_MANY_REFERENCES = 137, /* found: references; needed: at most */
  NXMEM_REASON_NO_REFERENCE = 138,        /* there is none to drop, or it was never taken */

  /* quota.h. field: an nxmem_quota_axis; found: bytes asked for; needed: at most, what is left */
  NXMEM_REASON_OVER_BUDGET = 140,        /* of the authority */
  NXMEM_REASON_OVER_SLICE = 141,         /* of the process limit, as it was delegated */
  NXMEM_REASON_OVER_PROCESS_LIMIT = 142, /* of the tier */
  NXMEM_REASON_SLICE_TOO_SMALL = 143,    /* found: the slice; needed: at least, what is taken already */
  NXMEM_REASON_ALREADY_DELEGATED = 144,

  /* lifecycle.h. found and needed: lifecycles, but of STILL_HELD */
  NXMEM_REASON_ENDED = 150,     /* needed: the last lifecycle in which such work begins */
  NXMEM_REASON_NOT_ENDED = 151, /* needed: the lifecycle from which it may be removed */
  NXMEM_REASON_STILL_HELD = 152 /* field: an nxmem_holding; found: count */
} nxmem_reason;

typedef struct nxmem_verdict {
  uint32_t reason; /* an nxmem_reason */
  uint32_t field;  /* byte offset of the field or slot it is about; 0 where the reason names none */
  uint64_t found;
  uint64_t needed;
} nxmem_verdict;

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_VERDICT_H */
