/*
 * torch_calls_test.c: malloc and free as PyTorch calls them: size, device, stream; wrong pointers, sizes and devices; threads; memory that runs out.
 *
 * Attackers played: a caller that frees what it should not; a plugin that refuses, quarantines, and is short of memory.
 * Promise: as nxmem_torch.h says; each case looks at the counts as well.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>

#include "torchtest.h"

#define SERVED "libnxmem_test_served.so"

/* ---- The calling convention -------------------------------------------------------------------------------------- */

/* What PyTorch casts the two symbols to: a std::function of these. */
typedef void *(*torch_malloc)(size_t size, int device, struct CUstream_st *stream);
typedef void (*torch_free)(void *ptr, size_t size, int device, struct CUstream_st *stream);

static void found_by_name(void) {
  void *library = dlopen(nx_torch_library("libnxmem_torch.so"), RTLD_LAZY);
  CHECK(library != NULL);
  void *found_malloc = dlsym(library, "nxmem_torch_malloc"), *found_free = dlsym(library, "nxmem_torch_free");
  CHECK(found_malloc != NULL && found_free != NULL);
  torch_malloc call_malloc;
  torch_free call_free;
  memcpy(&call_malloc, &found_malloc, sizeof call_malloc);
  memcpy(&call_free, &found_free, sizeof call_free);
  CHECK(setenv("NXMEM_TORCH_PLUGIN", nx_torch_library(SERVED), 1) == 0);
  CHECK(setenv("NXMEM_TORCH_MECHANISM", "served", 1) == 0);
  uint8_t *ptr = call_malloc(100000, 1, nx_torch_stream(0x1000));
  CHECK(ptr != NULL && (uintptr_t)ptr % 512u == 0);
  memset(ptr, 7, 100000);
  CHECK(nx_told.streams[0] == 0x1000 && nx_told.opened_tier == NXMEM_TIER_DEVICE);
  call_free(ptr, 100000, 1, nx_torch_stream(0x1000));
  CHECK(call_malloc(SIZE_MAX, 1, NULL) == NULL && nx_torch_said("not negative"));
  CHECK(nx_torch_now().mallocs == 1 && nx_torch_now().frees == 1 && nx_torch_now().live_bytes == 0);
}

static void size_of_zero(void) {
  CHECK(nxmem_torch_malloc(0, 0, NULL) == NULL && nx_torch_now().failed_mallocs == 0);
  nxmem_torch_free(NULL, 0, 0, NULL);
  nx_torch_must_load(SERVED, "served");
  CHECK(nxmem_torch_malloc(0, 0, NULL) == NULL);
  nxmem_torch_free(NULL, 0, 0, NULL);
  CHECK(nx_torch_now().failed_mallocs == 0 && nx_torch_now().foreign_frees == 0 && nx_torch_said(""));
  CHECK(strlen(nxmem_torch_last_error()) == 0);
}

static void size_below_zero(void) {
  nx_torch_must_load(SERVED, "served");
  for (int i = 0; i < 3; i++) CHECK(nxmem_torch_malloc(-1 - i, 0, NULL) == NULL);
  CHECK(nx_torch_now().failed_mallocs == 3);
}

static void several_devices(void) {
  nx_torch_must_load(SERVED, "served");
  void *first = nx_torch_must_malloc(4096, 0, NULL), *second = nx_torch_must_malloc(4096, 1, NULL);
  CHECK(nx_told.opens == 2 && nx_told.opened_tier == NXMEM_TIER_DEVICE);
  CHECK(nx_torch_now().live_blocks == 2 && nx_torch_now().live_bytes == 8192);
  nxmem_torch_free(first, 4096, 1, NULL); /* another device's */
  CHECK(nx_torch_now().mismatched_frees == 1 && nx_torch_now().live_blocks == 2);
  nxmem_torch_free(first, 4096, 0, NULL);
  nxmem_torch_free(second, 4096, 1, NULL);
  CHECK(nx_torch_now().live_blocks == 0);
}

static void no_such_device(void) {
  static const int none[] = {2, 63, 64, 1000000, -1, -2147483647 - 1};
  nx_torch_must_load(SERVED, "served");
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) CHECK(nxmem_torch_malloc(64, none[i], NULL) == NULL);
  CHECK(nx_torch_now().failed_mallocs == 6 && nx_told.opens == 0);
  (void)nx_torch_must_malloc(64, 0, NULL);
}

/* ---- What is freed wrongly --------------------------------------------------------------------------------------- */

static void foreign_pointers(void) {
  int here = 0;
  nxmem_torch_free(&here, 4, 0, NULL); /* before anything is loaded */
  nx_torch_must_load(SERVED, "served");
  uint8_t *ptr = nx_torch_must_malloc(4096, 0, NULL);
  void *const wrong[] = {&here, (void *)1, (void *)UINTPTR_MAX, ptr + 1, ptr + 4096, ptr - 512};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) nxmem_torch_free(wrong[i], 4096, 0, NULL);
  CHECK(nx_torch_now().foreign_frees == 7 && nx_torch_now().live_blocks == 1 && nx_told.enqueues == 0);
  nxmem_torch_free(ptr, 4096, 0, NULL);
  nxmem_torch_free(ptr, 4096, 0, NULL);
  CHECK(nx_torch_now().foreign_frees == 8 && nx_told.enqueues == 1);
}

static void wrong_sizes(void) {
  static const ssize_t wrong[] = {0, 1, 4095, 4097, -4096};
  nx_torch_must_load(SERVED, "served");
  void *ptr = nx_torch_must_malloc(4096, 0, NULL);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) nxmem_torch_free(ptr, wrong[i], 0, NULL);
  CHECK(nx_torch_now().mismatched_frees == 5 && nx_torch_now().live_blocks == 1 && nx_told.enqueues == 0);
  CHECK(nx_torch_said("4096"));
  nxmem_torch_free(ptr, 4096, 0, NULL);
  CHECK(nx_torch_now().live_blocks == 0 && nx_told.enqueues == 1);
}

/* ---- What the plugin refuses ------------------------------------------------------------------------------------- */

static void out_of_memory(void) {
  nx_torch_must_load(SERVED, "served");
  nx_told.no_memory = 2; /* the first try and the one behind the drain */
  CHECK(nxmem_torch_malloc(4096, 0, NULL) == NULL && nx_torch_said("OUT_OF_MEMORY"));
  CHECK(nx_torch_now().failed_mallocs == 1 && nx_torch_now().live_blocks == 0);
  nx_told.no_memory = 1;
  (void)nx_torch_must_malloc(4096, 0, NULL);
  CHECK(nx_torch_now().retried_mallocs == 1);
}

/* Forty blocks whose work is done only now: an ordinary call drains some, one that is short of memory all. */
static void memory_pressure(void) {
  enum { BLOCKS = 40 };
  void *blocks[BLOCKS];
  nx_torch_must_load(SERVED, "served");
  for (int i = 0; i < BLOCKS; i++) blocks[i] = nx_torch_must_malloc(4096, 0, NULL);
  nx_told.hold = 1;
  for (int i = 0; i < BLOCKS; i++) nxmem_torch_free(blocks[i], 4096, 0, NULL);
  CHECK(nx_torch_now().pending == BLOCKS && nx_told.largest_drain == 16);
  nx_told.no_memory_while_queued = 1;
  CHECK(nxmem_torch_malloc(4096, 0, NULL) == NULL); /* the work is still not done */
  nx_told.hold = 0;
  (void)nx_torch_must_malloc(4096, 0, NULL);
  CHECK(nx_torch_now().retried_mallocs == 1 && nx_torch_now().pending == 0 && nx_torch_now().drained == BLOCKS);
  CHECK(nx_told.largest_drain >= BLOCKS);
}

static void drains_are_bounded(void) {
  enum { BLOCKS = 40 };
  void *blocks[BLOCKS];
  nx_torch_must_load(SERVED, "served");
  for (int i = 0; i < BLOCKS; i++) blocks[i] = nx_torch_must_malloc(4096, 0, NULL);
  nx_told.hold = 1;
  for (int i = 0; i < BLOCKS; i++) nxmem_torch_free(blocks[i], 4096, 0, NULL);
  nx_told.hold = 0;
  void *ptr = nx_torch_must_malloc(4096, 0, NULL);
  CHECK(nx_torch_now().pending == BLOCKS - 16);
  nxmem_torch_free(ptr, 4096, 0, NULL);
  CHECK(nx_torch_now().pending == BLOCKS + 1 - 32);
  nxmem_torch_reset();
  CHECK(nx_torch_now().pending == 0 && nx_torch_now().drained == BLOCKS + 1);
  const unsigned drains = nx_told.drains;
  (void)nx_torch_must_malloc(4096, 0, NULL); /* with nothing queued the plugin is not asked */
  CHECK(nx_told.drains == drains);
}

static void refused_release_is_tried_again(void) {
  nx_torch_must_load(SERVED, "served");
  void *ptr = nx_torch_must_malloc(4096, 0, NULL);
  nx_told.refuse = 3; /* the free, the drain behind it, one more */
  nxmem_torch_free(ptr, 4096, 0, NULL);
  CHECK(nx_torch_now().kept_blocks == 1 && nx_torch_now().live_blocks == 0 && nx_told.enqueues == 0);
  nxmem_torch_free(ptr, 4096, 0, NULL); /* not live any more */
  CHECK(nx_torch_now().foreign_frees == 1);
  nxmem_torch_reset();
  CHECK(nx_torch_now().kept_blocks == 1);
  nxmem_torch_reset();
  CHECK(nx_torch_now().kept_blocks == 0 && nx_told.enqueues == 1 && nx_torch_now().pending == 0);
}

/* All of ten come back, four at each call. */
static void refused_releases_take_turns(void) {
  enum { BLOCKS = 10 };
  void *blocks[BLOCKS];
  nx_torch_must_load(SERVED, "served");
  for (int i = 0; i < BLOCKS; i++) blocks[i] = nx_torch_must_malloc(4096, 0, NULL);
  nx_told.refuse = UINT32_MAX;
  for (int i = 0; i < BLOCKS; i++) nxmem_torch_free(blocks[i], 4096, 0, NULL);
  CHECK(nx_torch_now().kept_blocks == BLOCKS && nx_told.enqueues == 0);
  nx_told.refuse = 0;
  nxmem_torch_reset();
  CHECK(nx_torch_now().kept_blocks == BLOCKS - 4 && nx_told.enqueues == 4);
  nx_told.refuse = 4;
  nxmem_torch_reset(); /* four of the six are refused once more */
  CHECK(nx_torch_now().kept_blocks == BLOCKS - 4 && nx_told.refuse == 0);
  nxmem_torch_reset();
  nxmem_torch_reset();
  CHECK(nx_torch_now().kept_blocks == 0 && nx_told.enqueues == BLOCKS && nx_torch_now().pending == 0);
}

static void quarantined_release_is_lost(void) {
  nx_torch_must_load(SERVED, "served");
  void *ptr = nx_torch_must_malloc(4096, 0, NULL);
  nx_told.quarantine = 1;
  nxmem_torch_free(ptr, 4096, 0, NULL);
  CHECK(nx_torch_now().lost_blocks == 1 && nx_torch_now().kept_blocks == 0 && nx_torch_now().live_blocks == 0);
  CHECK(nx_torch_must_malloc(4096, 0, NULL) != ptr);
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

static void eight_threads(void) {
  nx_torch_must_load(SERVED, "served");
  nx_torch_threads(2, 3);
  CHECK(nx_torch_now().streams == 6);
}

/* Of eight frees of one block one is the block's. */
enum { THREADS = 8 };

static void *free_it(void *block) {
  nxmem_torch_free(block, 4096, 0, NULL);
  return NULL;
}

static void one_block_freed_by_eight(void) {
  pthread_t threads[THREADS];
  nx_torch_must_load(SERVED, "served");
  void *ptr = nx_torch_must_malloc(4096, 0, NULL);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, free_it, ptr) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(nx_torch_now().frees == 1 && nx_torch_now().foreign_frees == THREADS - 1 && nx_told.enqueues == 1);
}

static const nx_torch_case cases[] = {
    {"found by name, called as PyTorch does", found_by_name, 1},
    {"a size of 0", size_of_zero, 0},
    {"a size below 0", size_below_zero, 1},
    {"several devices", several_devices, 1},
    {"no such device", no_such_device, 1},
    {"pointers that are not live", foreign_pointers, 1},
    {"sizes that differ", wrong_sizes, 1},
    {"out of memory", out_of_memory, 1},
    {"memory pressure drains once more", memory_pressure, 1},
    {"drains of ordinary calls are bounded", drains_are_bounded, 0},
    {"a refused release is tried again", refused_release_is_tried_again, 2},
    {"refused releases take turns", refused_releases_take_turns, 1},
    {"a quarantined release is lost", quarantined_release_is_lost, 1},
    {"eight threads, freeing each other's", eight_threads, 0},
    {"one block freed by eight threads", one_block_freed_by_eight, 1},
};

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(cases), nx_torch_run);
  return nx_suite_run(&suite, "torch_calls");
}
