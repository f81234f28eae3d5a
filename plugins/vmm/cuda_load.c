/*
 * cuda_load.c: opens libcuda.so.1 at run time and asks cuGetProcAddress for each entry point, in the version declared in cuda_api.h.
 *
 * Attackers: a machine without a driver, a driver that is too old or lacks an entry point.
 * Promise: either every entry point is there, or the reason says which thing is missing; no open of the library is left over.
 */
#include "cuda_load.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define NX_CUDA_ENTRY(name, parameters) {#name, offsetof(nx_cuda_calls, name)},
static const struct {
  const char *name;
  size_t offset;
} entries[] = {NX_CUDA_CALLS(NX_CUDA_ENTRY)};
#undef NX_CUDA_ENTRY

enum { ENTRIES = sizeof entries / sizeof entries[0] };

/* Once a driver has ended it has for the whole process. */
static atomic_int ended;

int nx_cuda_has_ended(void) { return atomic_load(&ended); }

int nx_cuda_note_end(nx_cuda_result result) {
  if (result == NX_CUDA_DEINITIALIZED) atomic_store(&ended, 1);
  return nx_cuda_has_ended();
}

/* One of the two: cuGetProcAddress of 12.0 and later, or its predecessor. */
typedef struct nx_cuda_finder {
  nx_cuda_get_proc_v2 *v2;
  nx_cuda_get_proc_v1 *v1;
} nx_cuda_finder;

/* A pointer to data becomes one to a function as POSIX says: by its bytes. */
static nx_cuda_finder find_finder(void *library) {
  nx_cuda_finder finder = {NULL, NULL};
  void *address = dlsym(library, "cuGetProcAddress_v2");
  if (address != NULL) memcpy(&finder.v2, &address, sizeof address);
  address = dlsym(library, "cuGetProcAddress");
  if (address != NULL) memcpy(&finder.v1, &address, sizeof address);
  return finder;
}

/* Entry points of the legacy default stream: the one that every blocking stream waits for. */
static void *find(const nx_cuda_finder *finder, const char *name, nx_cuda_result *result_out) {
  void *address = NULL;
  unsigned int status = NX_CUDA_PROC_FOUND;
  *result_out = finder->v2 != NULL ? finder->v2(name, &address, NX_CUDA_VERSION, NX_CUDA_PROC_LEGACY_STREAM, &status)
                                   : finder->v1(name, &address, NX_CUDA_VERSION, NX_CUDA_PROC_LEGACY_STREAM);
  nx_cuda_note_end(*result_out);
  return *result_out == NX_CUDA_SUCCESS && status == NX_CUDA_PROC_FOUND ? address : NULL;
}

static int resolve(void *library, nx_cuda_calls *out, char why[NX_CUDA_WHY]) {
  nx_cuda_finder finder = find_finder(library);
  if (finder.v2 == NULL && finder.v1 == NULL) {
    snprintf(why, NX_CUDA_WHY, "libcuda.so.1 has no cuGetProcAddress: needed a driver of CUDA 11.3 or later");
    return 0;
  }
  for (size_t i = 0; i < ENTRIES; i++) {
    nx_cuda_result result;
    void *address = find(&finder, entries[i].name, &result);
    if (address == NULL) {
      snprintf(why, NX_CUDA_WHY, "libcuda.so.1 has no %s of CUDA %d (cuGetProcAddress answered %u)", entries[i].name,
               NX_CUDA_VERSION, result);
      return 0;
    }
    memcpy((char *)out + entries[i].offset, &address, sizeof address);
  }
  return 1;
}

int nx_cuda_load(nx_cuda_calls *out, char why[NX_CUDA_WHY]) {
  if (nx_cuda_has_ended()) {
    snprintf(why, NX_CUDA_WHY, "the CUDA driver has shut down with the process");
    return 0;
  }
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == NULL) {
    const char *reason = dlerror();
    snprintf(why, NX_CUDA_WHY, "no CUDA driver: %s", reason == NULL ? "libcuda.so.1 cannot be opened" : reason);
    return 0;
  }
  int found = resolve(library, out, why);
  dlclose(library);
  return found;
}
