/*
 * side.c: one plugin, called directly and through a host.
 *
 * Attackers: none.
 * Promise: whatever is not OK ends the program with a message and exit code 3.
 */
#include "side.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void side_die(const char *what, const char *why) {
  fprintf(stderr, "bench: %s: %s\n", what, why);
  exit(3);
}

static void need_ok(nxmem_result r, const char *what, const nxmem_error *error) {
  if (r != NXMEM_OK) side_die(what, error->message);
}

/* ---- Direct --------------------------------------------------------------------------------------------------------- */

static void find_factory(side *s, const char *mechanism) {
  NxmemStatus (*create)(const NxmemAllocatorFactoryVtable **, uint64_t, uint64_t *);
  void *symbol = dlsym(s->dl, "NxmemCreateAllocatorFactories");
  if (symbol == NULL) side_die("direct", "no factories");
  memcpy(&create, &symbol, sizeof create);
  const NxmemAllocatorFactoryVtable *list[64] = {NULL};
  uint64_t count = 0;
  if (create(list, 64, &count).code != NXMEM_STATUS_OK) side_die("direct", "enumerate");
  for (uint64_t i = 0; i < count; i++)
    if (strcmp((const char *)list[i]->name, mechanism) == 0) s->factory = list[i];
  if (s->factory == NULL) side_die("direct", "no such mechanism");
}

void side_open_direct(side *s, const char *path, const char *mechanism) {
  memset(s, 0, sizeof *s);
  s->name = "direct";
  s->dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (s->dl == NULL) side_die(path, dlerror());
  find_factory(s, mechanism);
  static const NxmemHostCallbacks callbacks = {.struct_size = sizeof callbacks, .abi_minor = 1};
  const NxmemOpenRequest request = {.struct_size = sizeof request,
                                    .abi_minor = 1,
                                    .device = s->factory->device,
                                    .required_capability_flags = NXMEM_CAP_ALLOCATOR,
                                    .callbacks = &callbacks};
  if (s->factory->open_allocator(s->factory->ctx, &request, &s->table).code != NXMEM_STATUS_OK)
    side_die("direct", "open");
}

/*
 * Ids like a host's, for a plugin may find blocks by them: a place in the lower half, each use of it counted in the upper. Places differ from thread to thread, so
 * that threads share nothing.
 */
static uint64_t next_id(const side_block *block) {
  static _Atomic uint64_t threads;
  static _Thread_local uint64_t place;
  if (block->id != 0u) return block->id + (1ull << 32);
  if (place == 0u) place = atomic_fetch_add(&threads, 1u) << 24;
  return ++place;
}

void direct_allocate(side *s, side_block *out) {
  out->id = next_id(out);
  const NxmemAllocRequest request = {.struct_size = sizeof request,
                                     .mechanism_id = s->table->mechanism_id,
                                     .allocation_id = out->id,
                                     .device = s->table->device,
                                     .bytes = SIDE_BYTES,
                                     .align = SIDE_ALIGN};
  NxmemAllocResult result = {.struct_size = sizeof result};
  const NxmemStatus status = s->table->allocate(s->table->ctx, &request, &result);
  if (status.code != NXMEM_STATUS_OK) side_die("direct", "allocate");
  out->ptr = result.ptr;
}

void direct_release(side *s, const side_block *block) {
  const NxmemAllocation allocation = {.struct_size = sizeof allocation,
                                      .mechanism_id = s->table->mechanism_id,
                                      .allocation_id = block->id,
                                      .device = s->table->device,
                                      .ptr = block->ptr,
                                      .bytes = SIDE_BYTES,
                                      .align = SIDE_ALIGN};
  uint64_t unmapped = 0;
  const NxmemStatus status = s->table->deallocate(s->table->ctx, &allocation, &unmapped);
  if (status.code != NXMEM_STATUS_OK) side_die("direct", "deallocate");
}

/* ---- Through a host ------------------------------------------------------------------------------------------------- */

void side_open_host(side *s, const char *name, const char *path, const char *mechanism, nxmem_fetch_mode fetch,
                    nxmem_overlap_check overlap) {
  memset(s, 0, sizeof *s);
  s->name = name;
  nxmem_error error;
  nxmem_host_options options;
  nxmem_host_options_default(&options);
  options.fetch = fetch;
  options.overlap = overlap;
  need_ok(nxmem_host_create(&options, &s->host, &error), "create host", &error);
  need_ok(nxmem_plugin_open(s->host, path, &s->plugin, &error), "open plugin", &error);
  const nxmem_open_options open = {.mechanism = mechanism};
  need_ok(nxmem_allocator_open(s->plugin, &open, &s->allocator, &error), "open allocator", &error);
}

void host_allocate(side *s, side_block *out) {
  nxmem_allocation allocation;
  nxmem_error error;
  const nxmem_result r = nxmem_allocate(s->allocator, SIDE_BYTES, SIDE_ALIGN, NULL, &allocation, &error);
  if (r != NXMEM_OK) side_die(s->name, error.message);
  out->id = allocation.id;
  out->ptr = allocation.ptr;
}

void host_release(side *s, const side_block *block) {
  const nxmem_allocation allocation = {block->id, block->ptr};
  nxmem_error error;
  const nxmem_result r = nxmem_release(s->allocator, allocation, NULL, &error);
  if (r != NXMEM_OK) side_die(s->name, error.message);
}

static void close_allocator(side *s) {
  nxmem_error error;
  if (s->table != NULL)
    s->table->release(s->table->ctx);
  else
    need_ok(nxmem_allocator_close(s->allocator, 0, &error), "close", &error);
}

static void unload(side *s) {
  if (s->table != NULL) {
    s->factory->release(s->factory->ctx);
    (void)dlclose(s->dl);
    return;
  }
  nxmem_error error;
  need_ok(nxmem_plugin_try_unload(s->plugin, NULL, &error), "unload", &error);
  need_ok(nxmem_host_destroy(s->host, &error), "destroy", &error);
}

void side_close_all(side *sides, int count) {
  for (int i = 0; i < count; i++) close_allocator(&sides[i]);
  for (int i = 0; i < count; i++) unload(&sides[i]);
}
