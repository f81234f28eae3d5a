/*
 * gpu.h: a device, the plugin on it, and what these programs do with both; the driver is whichever libcuda.so.1 the loader finds.
 *
 * Attackers: none.
 * Promise: what cannot be done ends the program with a line that says why: 3 where there is no device, 1 otherwise.
 */
#ifndef TESTS_GPU_GPU_H
#define TESTS_GPU_GPU_H

#include "cuda_load.h"
#include "nxmem.h"

#define NX_GRANULE (2ull << 20)

typedef struct nx_gpu {
  nx_cuda_calls cu;
  nx_cuda_result (*name)(char *name_out, int room, nx_cuda_device device);
  nx_cuda_result (*synchronize)(void);
  nx_cuda_result (*to_device)(nx_cuda_ptr to, const void *from, size_t bytes);
  nx_cuda_result (*from_device)(void *to, nx_cuda_ptr from, size_t bytes);
  nx_cuda_result (*load_module)(void **module_out, const void *image);
  nx_cuda_result (*find_function)(void **function_out, void *module, const char *name);
  nx_cuda_result (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                           unsigned shared, nx_cuda_stream stream, void **parameters, void **extra);
  nx_cuda_context context;
  void *store; /* the kernel: (address, value) stores the value's low byte */
} nx_gpu;

typedef struct nx_session {
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
} nx_session;

_Noreturn void nx_give_up(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first device, its primary context current on this thread. */
void nx_gpu_start(nx_gpu *gpu);
/* The kernel that stores; once. */
void nx_gpu_load_kernel(nx_gpu *gpu);
/* Run it and wait. */
nx_cuda_result nx_gpu_store(const nx_gpu *gpu, uint64_t address, uint32_t value);

void nx_session_open(nx_session *session, const char *plugin, const char *mechanism);
void nx_session_close(const nx_session *session);
/* Address space for that many granules, the first `committed` of them committed. */
nxmem_allocation nx_session_span(const nx_session *session, uint64_t granules, uint64_t committed);
void nx_must(nxmem_result result, const nxmem_error *error);

#endif /* TESTS_GPU_GPU_H */
