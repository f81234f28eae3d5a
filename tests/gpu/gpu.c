/*
 * gpu.c: finds the driver as the plugin does, with a few more entry points; opens the plugin behind the host.
 *
 * Attackers: none.
 * Promise: what cannot be done ends the program with a line that says why.
 */
#include "gpu.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One thread stores one byte. */
static const char kernel[] =
    ".version 6.3\n.target sm_75\n.address_size 64\n"
    ".visible .entry store(.param .u64 p0, .param .u32 p1)\n"
    "{\n"
    "  .reg .b64 %rd<3>;\n  .reg .b32 %r<2>;\n"
    "  ld.param.u64 %rd1, [p0];\n  ld.param.u32 %r1, [p1];\n"
    "  cvta.to.global.u64 %rd2, %rd1;\n  st.global.u8 [%rd2], %r1;\n"
    "  ret;\n"
    "}\n";

void nx_give_up(int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(code);
}

static void find(const char *name, void *function_out, size_t size) {
  nx_cuda_get_proc_v2 *get = NULL;
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *address = NULL;
  unsigned int status = NX_CUDA_PROC_NOT_FOUND;
  address = library == NULL ? NULL : dlsym(library, "cuGetProcAddress_v2");
  memcpy(&get, &address, sizeof get);
  address = NULL;
  int found =
      get != NULL && get(name, &address, NX_CUDA_VERSION, NX_CUDA_PROC_LEGACY_STREAM, &status) == NX_CUDA_SUCCESS;
  if (!found || address == NULL) nx_give_up(3, "no GPU: the driver has no %s (needed: CUDA 12.0 or later)", name);
  memcpy(function_out, &address, size);
}

static void must(const nx_gpu *gpu, const char *what, nx_cuda_result result) {
  const char *name = NULL;
  if (result == NX_CUDA_SUCCESS) return;
  gpu->cu.cuGetErrorName(result, &name);
  nx_give_up(1, "%s: %u %s", what, result, name == NULL ? "" : name);
}

void nx_gpu_start(nx_gpu *gpu) {
  char why[NX_CUDA_WHY];
  int count = 0;
  memset(gpu, 0, sizeof *gpu);
  if (!nx_cuda_load(&gpu->cu, why)) nx_give_up(3, "no GPU: %s", why);
  if (gpu->cu.cuInit(0) != NX_CUDA_SUCCESS || gpu->cu.cuDeviceGetCount(&count) != NX_CUDA_SUCCESS || count < 1) {
    nx_give_up(3, "no GPU: the driver finds no device");
  }
  find("cuDeviceGetName", &gpu->name, sizeof gpu->name);
  find("cuCtxSynchronize", &gpu->synchronize, sizeof gpu->synchronize);
  find("cuMemcpyHtoD", &gpu->to_device, sizeof gpu->to_device);
  find("cuMemcpyDtoH", &gpu->from_device, sizeof gpu->from_device);
  find("cuModuleLoadData", &gpu->load_module, sizeof gpu->load_module);
  find("cuModuleGetFunction", &gpu->find_function, sizeof gpu->find_function);
  find("cuLaunchKernel", &gpu->launch, sizeof gpu->launch);
  must(gpu, "cuDevicePrimaryCtxRetain", gpu->cu.cuDevicePrimaryCtxRetain(&gpu->context, 0));
  must(gpu, "cuCtxPushCurrent", gpu->cu.cuCtxPushCurrent(gpu->context));
}

void nx_gpu_load_kernel(nx_gpu *gpu) {
  void *module = NULL;
  must(gpu, "cuModuleLoadData", gpu->load_module(&module, kernel));
  must(gpu, "cuModuleGetFunction", gpu->find_function(&gpu->store, module, "store"));
}

nx_cuda_result nx_gpu_store(const nx_gpu *gpu, uint64_t address, uint32_t value) {
  void *parameters[] = {&address, &value};
  nx_cuda_result result = gpu->launch(gpu->store, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
  return result == NX_CUDA_SUCCESS ? gpu->synchronize() : result;
}

/* ---- The plugin -------------------------------------------------------------------------------------------------- */

void nx_must(nxmem_result result, const nxmem_error *error) {
  if (result != NXMEM_OK) nx_give_up(1, "%s", error->message);
}

void nx_session_open(nx_session *session, const char *plugin, const char *mechanism) {
  nxmem_error error;
  const NxmemDeviceId device = {NXMEM_TIER_DEVICE, 0};
  const nxmem_open_options options = {.mechanism = mechanism, .device = &device};
  nx_must(nxmem_host_create(NULL, &session->host, &error), &error);
  nx_must(nxmem_plugin_open(session->host, plugin, &session->plugin, &error), &error);
  nx_must(nxmem_allocator_open(session->plugin, &options, &session->allocator, &error), &error);
}

void nx_session_close(const nx_session *session) {
  nxmem_error error;
  nxmem_unload_info info;
  nx_must(nxmem_allocator_close(session->allocator, 0, &error), &error);
  nx_must(nxmem_plugin_try_unload(session->plugin, &info, &error), &error);
  if (!info.unmapped) nx_give_up(1, "the plugin is still mapped");
  nx_must(nxmem_host_destroy(session->host, &error), &error);
}

nxmem_allocation nx_session_span(const nx_session *session, uint64_t granules, uint64_t committed) {
  nxmem_error error;
  nxmem_allocation span;
  const NxmemByteRange range = {0, committed * NX_GRANULE};
  const nxmem_allocate_options options = {&range, 1};
  nx_must(nxmem_allocate(session->allocator, granules * NX_GRANULE, NX_GRANULE, &options, &span, &error), &error);
  return span;
}
