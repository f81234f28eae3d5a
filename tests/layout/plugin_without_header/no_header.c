/*
 * no_header.c: a memory plugin that has never seen nxmem_memory_abi.h. Every record is bytes at offsets, typed from
 * the contract's
 * tables, so that a layout error in the header cannot hide behind itself. One mechanism, "no-header", on the HOST tier.
 *
 * Attackers: a host that asks for too much, for another device, or for what was already given back.
 * Promise: no record of the contract is declared here; nothing is written beyond the room a caller offers.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, VERSION_MISMATCH = 1, SHORT_STRUCT = 2, UNSUPPORTED = 3, INVALID_ARGUMENT = 4, OUT_OF_MEMORY = 8 };
enum { WRONG_DEVICE = 9, WRONG_MECHANISM = 10, UNKNOWN_ALLOCATION = 11 };
enum { MECHANISM = 4242, TIER_HOST = 1, ALLOCATOR_FLAG = 1, LIVE_MAX = 64 };

/* A status: code, message_len, 256 bytes of message; 264 bytes, aligned to 4. */
typedef struct answer {
  uint32_t words[66];
} answer;

answer NxmemNegotiate(const void *request, void *response);
answer NxmemCreateAllocatorFactories(const void **out_factories, uint64_t max_factories, uint64_t *out_count);
answer NxmemQueryUnloadReadiness(void *report_out);

static answer say(uint32_t code) {
  answer status = {{0}};
  status.words[0] = code;
  return status;
}

static uint32_t get32(const void *record, size_t offset) {
  uint32_t value;
  memcpy(&value, (const uint8_t *)record + offset, sizeof value);
  return value;
}

static uint64_t get64(const void *record, size_t offset) {
  uint64_t value;
  memcpy(&value, (const uint8_t *)record + offset, sizeof value);
  return value;
}

static void put32(void *record, size_t offset, uint32_t value) {
  memcpy((uint8_t *)record + offset, &value, sizeof value);
}

static void put64(void *record, size_t offset, uint64_t value) {
  memcpy((uint8_t *)record + offset, &value, sizeof value);
}

/* Pointers to objects and functions, from a variable that holds one. */
static void put_pointer(void *record, size_t offset, const void *variable) {
  memcpy((uint8_t *)record + offset, variable, 8);
}

/* ---- Books ---- */

typedef struct block {
  uint64_t allocation_id;
  uint8_t *ptr;
  uint64_t mapped;
} block;

static struct {
  pthread_mutex_t lock;
  uint64_t allocators;
  uint64_t live;
  block blocks[LIVE_MAX];
} books = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int keep(uint64_t allocation_id, uint8_t *ptr, uint64_t mapped) {
  int kept = 0;
  pthread_mutex_lock(&books.lock);
  for (size_t i = 0; i < LIVE_MAX && !kept; i++) {
    if (books.blocks[i].ptr != NULL) continue;
    books.blocks[i] = (block){allocation_id, ptr, mapped};
    books.live++;
    kept = 1;
  }
  pthread_mutex_unlock(&books.lock);
  return kept;
}

/* The block of an id and address, out of the books; ptr NULL where there is none. */
static block take(uint64_t allocation_id, const uint8_t *ptr) {
  block taken = {0, NULL, 0};
  pthread_mutex_lock(&books.lock);
  for (size_t i = 0; i < LIVE_MAX && taken.ptr == NULL; i++) {
    if (books.blocks[i].ptr == NULL || books.blocks[i].ptr != ptr) continue;
    if (books.blocks[i].allocation_id != allocation_id) continue;
    taken = books.blocks[i];
    books.blocks[i].ptr = NULL;
    books.live--;
  }
  pthread_mutex_unlock(&books.lock);
  return taken;
}

/* ---- Allocator: mechanism_id 8, tier 16, index 20, flags 24, name 32, ctx 40, slots from 48 ---- */

typedef struct allocator {
  _Alignas(8) uint8_t table[128];
  uint64_t references;
} allocator;

static uint64_t round_up(uint64_t bytes, uint64_t to) { return (bytes + (to - 1)) & ~(to - 1); }

/* Allocation requests and allocations share their first places: mechanism 8, id 16, tier 24, index 28. */
static uint32_t check_identity(const void *record) {
  if (get64(record, 8) != MECHANISM) return WRONG_MECHANISM;
  if (get32(record, 24) != TIER_HOST || get32(record, 28) != 0) return WRONG_DEVICE;
  return OK;
}

/* Request: bytes 32, align 40. Result: ptr 8, owned 16, mapped 24. */
static answer allocate(void *ctx, const void *request, void *result) {
  (void)ctx;
  if (get32(request, 0) < 64 || get32(result, 0) < 32) return say(SHORT_STRUCT);
  const uint32_t identity = check_identity(request);
  if (identity != OK) return say(identity);
  const uint64_t bytes = get64(request, 32);
  const uint64_t align = get64(request, 40) < 64 ? 64 : get64(request, 40);
  if (bytes == 0 || (align & (align - 1)) != 0) return say(INVALID_ARGUMENT);
  if (bytes > UINT64_MAX / 4 || align > UINT64_MAX / 4) return say(OUT_OF_MEMORY);
  const uint64_t owned = round_up(bytes, align);
  const uint64_t mapped = round_up(owned, 4096);
  uint8_t *ptr = aligned_alloc((size_t)align, (size_t)owned);
  if (ptr == NULL) return say(OUT_OF_MEMORY);
  if (!keep(get64(request, 16), ptr, mapped)) {
    free(ptr);
    return say(OUT_OF_MEMORY);
  }
  put32(result, 0, 32);
  put_pointer(result, 8, &ptr);
  put64(result, 16, owned);
  put64(result, 24, mapped);
  return say(OK);
}

/* Allocation: ptr 32, bytes 40, align 48. */
static answer deallocate(void *ctx, const void *allocation, uint64_t *unmapped_bytes_out) {
  (void)ctx;
  if (get32(allocation, 0) < 56) return say(SHORT_STRUCT);
  const uint32_t identity = check_identity(allocation);
  if (identity != OK) return say(identity);
  const block gone = take(get64(allocation, 16), (const uint8_t *)(uintptr_t)get64(allocation, 32));
  if (gone.ptr == NULL) return say(UNKNOWN_ALLOCATION);
  free(gone.ptr);
  *unmapped_bytes_out = gone.mapped;
  return say(OK);
}

static void retain(void *ctx) {
  allocator *self = ctx;
  pthread_mutex_lock(&books.lock);
  self->references++;
  pthread_mutex_unlock(&books.lock);
}

static void release(void *ctx) {
  allocator *self = ctx;
  pthread_mutex_lock(&books.lock);
  const uint64_t left = --self->references;
  if (left == 0) books.allocators--;
  pthread_mutex_unlock(&books.lock);
  if (left == 0) free(self);
}

static const char mechanism_name[] = "no-header";

static void fill_allocator(allocator *self) {
  const char *name = mechanism_name;
  answer (*const allocate_slot)(void *, const void *, void *) = allocate;
  answer (*const deallocate_slot)(void *, const void *, uint64_t *) = deallocate;
  void (*const retain_slot)(void *) = retain;
  void (*const release_slot)(void *) = release;
  put32(self->table, 0, 128);
  put32(self->table, 4, 1);
  put64(self->table, 8, MECHANISM);
  put32(self->table, 16, TIER_HOST);
  put64(self->table, 24, ALLOCATOR_FLAG);
  put_pointer(self->table, 32, &name);
  put_pointer(self->table, 40, &self);
  put_pointer(self->table, 48, &allocate_slot);
  put_pointer(self->table, 56, &deallocate_slot);
  put_pointer(self->table, 64, &retain_slot);
  put_pointer(self->table, 72, &release_slot);
  self->references = 1;
}

/* Open request: tier 8, index 12, required flags 16. */
static answer open_allocator(void *ctx, const void *request, const void **allocator_out) {
  (void)ctx;
  if (get32(request, 0) < 32) return say(SHORT_STRUCT);
  if (get32(request, 8) != TIER_HOST || get32(request, 12) != 0) return say(WRONG_DEVICE);
  if ((get64(request, 16) & ~(uint64_t)ALLOCATOR_FLAG) != 0) return say(UNSUPPORTED);
  allocator *self = calloc(1, sizeof *self);
  if (self == NULL) return say(OUT_OF_MEMORY);
  fill_allocator(self);
  pthread_mutex_lock(&books.lock);
  books.allocators++;
  pthread_mutex_unlock(&books.lock);
  *allocator_out = self->table;
  return say(OK);
}

/* ---- Factory: name 8, tier 16, index 20, flags 24, ctx 32, open_allocator 40, release 48 ---- */

static _Alignas(8) uint8_t factory[56];
static pthread_once_t factory_once = PTHREAD_ONCE_INIT;

static void release_factory(void *ctx) { (void)ctx; }

static void fill_factory(void) {
  const char *name = mechanism_name;
  answer (*const open_slot)(void *, const void *, const void **) = open_allocator;
  void (*const release_slot)(void *) = release_factory;
  put32(factory, 0, 56);
  put32(factory, 4, 1);
  put_pointer(factory, 8, &name);
  put32(factory, 16, TIER_HOST);
  put64(factory, 24, ALLOCATOR_FLAG);
  put_pointer(factory, 40, &open_slot);
  put_pointer(factory, 48, &release_slot);
}

answer NxmemCreateAllocatorFactories(const void **out_factories, uint64_t max_factories, uint64_t *out_count) {
  if (out_factories == NULL || out_count == NULL || max_factories == 0) return say(INVALID_ARGUMENT);
  pthread_once(&factory_once, fill_factory);
  out_factories[0] = factory;
  *out_count = 1;
  return say(OK);
}

/* ---- Negotiation. Request: host range 8 (majors), 16 (minors), flags 24. Response: major 4, minor 8, own range 16,
   flags 32 ---- */

static uint32_t decide(const void *request, void *response) {
  const uint32_t minor_min = get32(request, 16);
  const uint32_t minor_max = get32(request, 20);
  if (get32(request, 8) > 1 || get32(request, 12) < 1 || minor_min > minor_max || minor_min > 1)
    return VERSION_MISMATCH;
  if ((get64(request, 24) & ALLOCATOR_FLAG) == 0) return UNSUPPORTED;
  put32(response, 4, 1);
  put32(response, 8, minor_max < 1 ? minor_max : 1);
  put64(response, 32, ALLOCATOR_FLAG);
  return OK;
}

answer NxmemNegotiate(const void *request, void *response) {
  if (request == NULL || response == NULL) return say(INVALID_ARGUMENT);
  if (get32(request, 0) < 32 || get32(response, 0) < 40) return say(SHORT_STRUCT);
  uint8_t filled[40] = {0};
  put32(filled, 0, 40);
  put32(filled, 16, 1);
  put32(filled, 20, 1);
  put32(filled, 28, 1);
  const uint32_t code = decide(request, filled);
  memcpy(response, filled, sizeof filled);
  return say(code);
}

/* ---- Unload report: allocators 8, allocations 16, views 24, capabilities 32, queued 40 ---- */

answer NxmemQueryUnloadReadiness(void *report_out) {
  if (report_out == NULL) return say(INVALID_ARGUMENT);
  if (get32(report_out, 0) < 48) return say(SHORT_STRUCT);
  uint8_t filled[48] = {0};
  put32(filled, 0, 48);
  pthread_mutex_lock(&books.lock);
  put64(filled, 8, books.allocators);
  put64(filled, 16, books.live);
  pthread_mutex_unlock(&books.lock);
  memcpy(report_out, filled, sizeof filled);
  return say(OK);
}
