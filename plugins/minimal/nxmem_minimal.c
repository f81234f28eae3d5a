/*
 * nxmem_minimal.c: the smallest correct memory plugin. Copy this file and replace what takes and returns memory.
 *
 * Attackers: none by intent, but a host may be older, newer or wrong: short records, NULLs, stale ids, any thread.
 * Promise: no byte is read or written beyond what the host declared, nothing is freed twice, the unload report is true.
 *
 * Needs the wire header and a C11 library, nothing else (sched_yield where there is one). Tried with gcc and clang on Linux; compiled, not run, with
 * mingw-w64 for Windows. MSVC (with its C11 atomics switched on) has never been tried.
 *
 * To make it yours: a name, a mechanism id and a device of your own, then take_memory() and return_memory().
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nxmem_memory_abi.h"

#if defined(_WIN32)
#include <malloc.h> /* the Windows C runtime has no aligned_alloc */
#define EXPORT __declspec(dllexport)
#else
#include <sched.h>
#define EXPORT __attribute__((visibility("default")))
#endif

#define NAME ((const uint8_t *)"minimal")
#define MECHANISM_ID 0x6D696E696D616Cull /* any non-zero number; this one spells the name */
#define CAPABILITIES NXMEM_CAP_ALLOCATOR

#define LEVEL 1u /* the minor this file implements, whatever the header has come to since */

static const NxmemDeviceId device = {NXMEM_TIER_HOST, 0u};
static const NxmemVersionRange versions = {1u, 1u, 0u, LEVEL};

/* What NxmemQueryUnloadReadiness reports. Over all allocators, so that it stays true after one of them is released. */
static atomic_uint_fast64_t live_allocators;
static atomic_uint_fast64_t live_allocations;

/*
 * How many bytes of a record we rely on. Never sizeof: a newer header appends fields, and then sizeof would refuse
 * every older host.
 */
#define THROUGH(record, last_field) ((uint32_t)(offsetof(record, last_field) + sizeof((record *)0)->last_field))

enum {
  ALLOC_REQUEST_BYTES = THROUGH(NxmemAllocRequest, committed_range_count),
  ALLOC_RESULT_BYTES = THROUGH(NxmemAllocResult, mapped_bytes),
  ALLOCATION_BYTES = THROUGH(NxmemAllocation, align),
  OPEN_REQUEST_BYTES = THROUGH(NxmemOpenRequest, callbacks),
  NEGOTIATE_REQUEST_BYTES = THROUGH(NxmemNegotiateRequest, host_capability_flags),
  NEGOTIATE_RESPONSE_BYTES = THROUGH(NxmemNegotiateResponse, capability_flags),
  UNLOAD_REPORT_BYTES = THROUGH(NxmemUnloadReport, queued_releases),
  ALLOCATOR_TABLE_BYTES = THROUGH(NxmemAllocatorVtable, release_allocation),
  FACTORY_TABLE_BYTES = THROUGH(NxmemAllocatorFactoryVtable, release)
};

/* ---- Answers ----------------------------------------------------------------------------------------------------- */

/* Every byte behind the message is zero: no stack bytes reach the host. `text` is ASCII, so any cut is clean. */
static NxmemStatus answer(uint32_t code, const char *text) {
  NxmemStatus status = {code, 0u, {0}};
  const size_t length = strlen(text);
  status.message_len = length < NXMEM_STATUS_MESSAGE_MAX ? (uint32_t)length : NXMEM_STATUS_MESSAGE_MAX;
  memcpy(status.message, text, status.message_len);
  return status;
}

static NxmemStatus ok(void) { return answer(NXMEM_STATUS_OK, ""); }
static NxmemStatus invalid(const char *text) { return answer(NXMEM_STATUS_INVALID_ARGUMENT, text); }
static NxmemStatus too_short(const char *text) { return answer(NXMEM_STATUS_SHORT_STRUCT, text); }

/* Every record of the contract and every count is 8-aligned (a status alone is not). */
static int unusable(const void *pointer) { return pointer == NULL || (uintptr_t)pointer % 8u != 0u; }

/* ---- Memory: the two functions to replace ------------------------------------------------------------------------ */

#define LEAST_ALIGN 16u

/* Bytes really taken for a request, or 0 where no address space could hold them. `align` is a power of two. */
static size_t rounded(uint64_t bytes, uint64_t align) {
  const uint64_t most = (uint64_t)PTRDIFF_MAX;
  return bytes > most - (align - 1u) ? 0u : (size_t)((bytes + (align - 1u)) & ~(align - 1u));
}

static void *take_memory(size_t bytes, size_t align) {
#if defined(_WIN32)
  return _aligned_malloc(bytes, align);
#else
  return aligned_alloc(align, bytes);
#endif
}

static void return_memory(void *pointer) {
#if defined(_WIN32)
  _aligned_free(pointer);
#else
  free(pointer);
#endif
}

/* ---- Records of live allocations: found by id, never by looking in front of an address --------------------------- */

/*
 * An id that is unknown or already released is answered without touching any memory but our own. Blocks are spread by
 * their id over parts with a lock each, so that threads seldom meet; a lock is held for a few instructions.
 */
typedef struct block {
  struct block *next;
  uint64_t id;
  void *ptr;
  uint64_t bytes; /* as requested */
  uint64_t align; /* as requested */
  uint64_t owned; /* bytes taken */
} block;

enum { PARTS = 64, FIRST_CHAINS = 16 };

typedef struct part {
  atomic_flag busy;
  uint64_t blocks;
  uint64_t chain_count; /* 0 or a power of two */
  block **chains;
} part;

typedef struct allocator {
  NxmemAllocatorVtable table; /* what the host sees; its ctx is this object */
  atomic_uint_fast64_t references;
  atomic_uint_fast64_t blocks;
  part parts[PARTS];
} allocator;

/* Ids are the host's and may be consecutive; multiplying spreads them over the upper bits. */
static uint64_t spread(uint64_t id) { return id * 0x9E3779B97F4A7C15ull; }
static part *part_of(allocator *a, uint64_t id) { return &a->parts[spread(id) >> 58]; }
static block **chain_of(part *p, uint64_t id) { return &p->chains[(spread(id) >> 26) & (p->chain_count - 1u)]; }

/* The holder may have lost its processor: with more threads than processors, spinning alone would burn whole time slices. */
static void give_way(void) {
#if !defined(_WIN32)
  (void)sched_yield();
#endif
}

static void lock(part *p) {
  while (atomic_flag_test_and_set_explicit(&p->busy, memory_order_acquire)) give_way();
}
static void unlock(part *p) { atomic_flag_clear_explicit(&p->busy, memory_order_release); }

/* More chains, so that finding a block costs the same however many are live. Where memory is short, long ones serve. */
static void grow(part *p) {
  const uint64_t old_count = p->chain_count;
  block **old = p->chains;
  block **wider = calloc(old_count == 0u ? FIRST_CHAINS : old_count * 2u, sizeof *wider);
  if (wider == NULL) return;
  p->chains = wider;
  p->chain_count = old_count == 0u ? FIRST_CHAINS : old_count * 2u;
  for (uint64_t i = 0u; i < old_count; i++) {
    for (block *b = old[i], *next; b != NULL; b = next) {
      block **chain = chain_of(p, b->id);
      next = b->next;
      b->next = *chain;
      *chain = b;
    }
  }
  free(old);
}

/* The link that holds `id`, or NULL. Call with the part locked. */
static block **find(part *p, uint64_t id) {
  if (p->chain_count == 0u) return NULL;
  for (block **link = chain_of(p, id); *link != NULL; link = &(*link)->next)
    if ((*link)->id == id) return link;
  return NULL;
}

/* NXMEM_STATUS_OK, or why the block is not kept. */
static uint32_t keep(allocator *a, block *b) {
  part *p = part_of(a, b->id);
  uint32_t code = NXMEM_STATUS_INVALID_ARGUMENT;
  lock(p);
  if (find(p, b->id) == NULL) {
    if (p->blocks >= p->chain_count) grow(p);
    code = p->chain_count == 0u ? NXMEM_STATUS_OUT_OF_MEMORY : NXMEM_STATUS_OK;
  }
  if (code == NXMEM_STATUS_OK) {
    block **chain = chain_of(p, b->id);
    b->next = *chain;
    *chain = b;
    p->blocks++;
    atomic_fetch_add(&a->blocks, 1u);
    atomic_fetch_add(&live_allocations, 1u);
  }
  unlock(p);
  return code;
}

/* Take the block out of the records if every number agrees: of two threads that release it, one succeeds. */
static uint32_t take_out(allocator *a, const NxmemAllocation *wanted, block **out) {
  part *p = part_of(a, wanted->allocation_id);
  uint32_t code = NXMEM_STATUS_UNKNOWN_ALLOCATION;
  lock(p);
  block **link = find(p, wanted->allocation_id);
  if (link != NULL) {
    block *b = *link;
    const int same = b->ptr == (void *)wanted->ptr && b->bytes == wanted->bytes && b->align == wanted->align;
    code = same ? NXMEM_STATUS_OK : NXMEM_STATUS_INVALID_ARGUMENT;
    if (same) {
      *link = b->next;
      p->blocks--;
      *out = b;
    }
  }
  unlock(p);
  return code;
}

/* ---- The allocator's slots --------------------------------------------------------------------------------------- */

/* Mechanism before device, both before anything is touched. */
static NxmemStatus check_identity(uint64_t mechanism_id, NxmemDeviceId wanted) {
  if (mechanism_id != MECHANISM_ID) return answer(NXMEM_STATUS_WRONG_MECHANISM, "not a minimal allocation");
  if (wanted.tier != device.tier || wanted.index != device.index)
    return answer(NXMEM_STATUS_WRONG_DEVICE, "minimal serves host memory, index 0");
  return ok();
}

static NxmemStatus check_request(const NxmemAllocRequest *request, const NxmemAllocResult *result) {
  if (unusable(request) || unusable(result)) return invalid("allocate: NULL or misaligned record");
  if (request->struct_size < ALLOC_REQUEST_BYTES) return too_short("allocate: request shorter than 64 bytes");
  if (result->struct_size < ALLOC_RESULT_BYTES) return too_short("allocate: room for the result below 32 bytes");
  const NxmemStatus identity = check_identity(request->mechanism_id, request->device);
  if (identity.code != NXMEM_STATUS_OK) return identity;
  const uint64_t align = request->align;
  if (request->bytes == 0u) return invalid("allocate: zero bytes");
  if (align == 0u || (align & (align - 1u)) != 0u) return invalid("allocate: alignment is not a power of two");
  if (request->bytes > UINT64_MAX - (align - 1u)) return invalid("allocate: size wraps when rounded up");
  return ok();
}

/* The block and its memory, or NULL with nothing left behind. */
static block *make_block(const NxmemAllocRequest *request) {
  const uint64_t align = request->align < LEAST_ALIGN ? LEAST_ALIGN : request->align;
  const size_t owned = rounded(request->bytes, align);
  block *b = owned == 0u ? NULL : malloc(sizeof *b);
  if (b == NULL) return NULL;
  *b = (block){NULL, request->allocation_id, take_memory(owned, (size_t)align), request->bytes, request->align, owned};
  if (b->ptr != NULL) return b;
  free(b);
  return NULL;
}

static void unmake_block(block *b) {
  return_memory(b->ptr);
  free(b);
}

static NxmemStatus allocate(void *ctx, const NxmemAllocRequest *request, NxmemAllocResult *result_out) {
  allocator *a = ctx;
  if (a == NULL) return invalid("allocate: NULL ctx");
  const NxmemStatus checked = check_request(request, result_out);
  if (checked.code != NXMEM_STATUS_OK) return checked;
  block *b = make_block(request);
  if (b == NULL) return answer(NXMEM_STATUS_OUT_OF_MEMORY, "allocate: out of memory");
  /* Once it is kept, another thread may release it: what the host is told is copied first. */
  const NxmemAllocResult result = {ALLOC_RESULT_BYTES, 0u, b->ptr, b->owned, b->owned};
  const uint32_t code = keep(a, b);
  if (code != NXMEM_STATUS_OK) {
    unmake_block(b);
    return answer(code, "allocate: the id is live already, or out of memory");
  }
  memcpy(result_out, &result, ALLOC_RESULT_BYTES);
  return ok();
}

static NxmemStatus deallocate(void *ctx, const NxmemAllocation *allocation, uint64_t *unmapped_bytes_out) {
  allocator *a = ctx;
  if (a == NULL || unusable(allocation) || unusable(unmapped_bytes_out))
    return invalid("deallocate: NULL or misaligned argument");
  if (allocation->struct_size < ALLOCATION_BYTES) return too_short("deallocate: allocation shorter than 56 bytes");
  const NxmemStatus identity = check_identity(allocation->mechanism_id, allocation->device);
  if (identity.code != NXMEM_STATUS_OK) return identity;
  block *b = NULL;
  const uint32_t code = take_out(a, allocation, &b);
  if (code == NXMEM_STATUS_UNKNOWN_ALLOCATION) return answer(code, "deallocate: id unknown or already released");
  if (code != NXMEM_STATUS_OK) return invalid("deallocate: address, size or alignment is not what was allocated");
  *unmapped_bytes_out = b->owned;
  unmake_block(b);
  atomic_fetch_sub(&a->blocks, 1u);
  atomic_fetch_sub(&live_allocations, 1u);
  return ok();
}

static void retain(void *ctx) {
  allocator *a = ctx;
  if (a != NULL) atomic_fetch_add(&a->references, 1u);
}

/* The last release. Blocks that are still live may be in use: they, their records and their count stay. */
static void release(void *ctx) {
  allocator *a = ctx;
  if (a == NULL || atomic_fetch_sub(&a->references, 1u) != 1u) return;
  if (atomic_load(&a->blocks) == 0u) {
    for (int i = 0; i < PARTS; i++) free(a->parts[i].chains);
    free(a);
  }
  atomic_fetch_sub(&live_allocators, 1u);
}

/* ---- The factory: one per device a plugin serves ----------------------------------------------------------------- */

static NxmemStatus open_allocator(void *ctx, const NxmemOpenRequest *request,
                                  const NxmemAllocatorVtable **allocator_out) {
  if (ctx != &live_allocators || unusable(request) || unusable(allocator_out))
    return invalid("open: foreign ctx, or a NULL or misaligned argument");
  if (request->struct_size < OPEN_REQUEST_BYTES) return too_short("open: request shorter than 32 bytes");
  if (request->device.tier != device.tier || request->device.index != device.index)
    return answer(NXMEM_STATUS_WRONG_DEVICE, "open: minimal serves host memory, index 0");
  if ((request->required_capability_flags & ~CAPABILITIES) != 0u)
    return answer(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "open: minimal has the ALLOCATOR capability only");
  allocator *a = calloc(1u, sizeof *a);
  if (a == NULL) return answer(NXMEM_STATUS_OUT_OF_MEMORY, "open: out of memory");
  a->table = (NxmemAllocatorVtable){.struct_size = ALLOCATOR_TABLE_BYTES,
                                    .abi_minor = LEVEL,
                                    .mechanism_id = MECHANISM_ID,
                                    .device = device,
                                    .capability_flags = CAPABILITIES,
                                    .name = NAME,
                                    .ctx = a,
                                    .allocate = allocate,
                                    .deallocate = deallocate,
                                    .retain = retain,
                                    .release = release};
  atomic_init(&a->references, 1u);
  for (int i = 0; i < PARTS; i++) unlock(&a->parts[i]);
  atomic_fetch_add(&live_allocators, 1u);
  *allocator_out = &a->table;
  return ok();
}

/* The one factory is static: nothing to give back. A plugin that makes factories on demand frees one here. */
static void release_factory(void *ctx) { (void)ctx; }

static const NxmemAllocatorFactoryVtable factory = {.struct_size = FACTORY_TABLE_BYTES,
                                                    .abi_minor = LEVEL,
                                                    .name = NAME,
                                                    .device = {NXMEM_TIER_HOST, 0u},
                                                    .capability_flags = CAPABILITIES,
                                                    .ctx = &live_allocators,
                                                    .open_allocator = open_allocator,
                                                    .release = release_factory};

/* ---- The three exports ------------------------------------------------------------------------------------------- */

/* Whole fields that fit into the room the caller declared, and no byte more. */
static void respond(NxmemNegotiateResponse *response, NxmemNegotiateResponse full) {
  const uint32_t room = response->struct_size;
  const uint32_t before_flags = (uint32_t)offsetof(NxmemNegotiateResponse, capability_flags);
  const uint32_t fits = room >= NEGOTIATE_RESPONSE_BYTES ? NEGOTIATE_RESPONSE_BYTES
                        : room >= before_flags           ? before_flags
                                                         : room & ~3u;
  full.struct_size = fits;
  memcpy(response, &full, fits);
}

/* The highest minor both sides speak at major 1; 0 where there is none. */
static int agree_minor(const NxmemVersionRange *host, uint32_t *minor_out) {
  if (host->major_min > host->major_max || host->minor_min > host->minor_max) return 0;
  if (host->major_min > versions.major_max || host->major_max < versions.major_min) return 0;
  const uint32_t best = host->minor_max < versions.minor_max ? host->minor_max : versions.minor_max;
  if (best < host->minor_min || best < versions.minor_min) return 0;
  *minor_out = best;
  return 1;
}

/* Fills `full` only as far as the answer goes: our own range is in it already. */
static NxmemStatus decide(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *full) {
  uint32_t minor = 0u;
  if (unusable(request)) return invalid("negotiate: NULL or misaligned request");
  if (request->struct_size < NEGOTIATE_REQUEST_BYTES) return too_short("negotiate: request shorter than 32 bytes");
  if (!agree_minor(&request->host_range, &minor))
    return answer(NXMEM_STATUS_VERSION_MISMATCH, "negotiate: minimal speaks 1.0 to 1.1");
  const uint64_t flags = CAPABILITIES & request->host_capability_flags;
  if ((flags & NXMEM_CAP_ALLOCATOR) == 0u)
    return answer(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "negotiate: the host does not offer ALLOCATOR");
  full->agreed_major = versions.major_max;
  full->agreed_minor = minor;
  full->capability_flags = flags;
  return ok();
}

EXPORT NxmemStatus NxmemNegotiate(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response) {
  if (unusable(response)) return invalid("negotiate: NULL or misaligned response");
  NxmemNegotiateResponse full = {NEGOTIATE_RESPONSE_BYTES, 0u, 0u, 0u, versions, 0u};
  const int whole = response->struct_size >= NEGOTIATE_RESPONSE_BYTES;
  const NxmemStatus status = decide(request, &full);
  respond(response, full);
  if (status.code == NXMEM_STATUS_OK && !whole) return too_short("negotiate: room for the response below 40 bytes");
  return status;
}

EXPORT NxmemStatus NxmemCreateAllocatorFactories(const NxmemAllocatorFactoryVtable **out_factories,
                                                 uint64_t max_factories, uint64_t *out_count) {
  if (unusable(out_factories) || unusable(out_count)) return invalid("factories: NULL or misaligned argument");
  if (max_factories < 1u) return invalid("factories: no room for the one factory");
  out_factories[0] = &factory;
  *out_count = 1u;
  return ok();
}

/* Views, capability tables and queued releases: a plugin of the ALLOCATOR capability alone has none. */
EXPORT NxmemStatus NxmemQueryUnloadReadiness(NxmemUnloadReport *report_out) {
  if (unusable(report_out)) return invalid("unload: NULL or misaligned report");
  if (report_out->struct_size < UNLOAD_REPORT_BYTES) return too_short("unload: room for the report below 48 bytes");
  const NxmemUnloadReport report = {
      UNLOAD_REPORT_BYTES, 0u, atomic_load(&live_allocators), atomic_load(&live_allocations), 0u, 0u, 0u};
  memcpy(report_out, &report, UNLOAD_REPORT_BYTES);
  return ok();
}
