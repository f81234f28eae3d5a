/*
 * device.c: start, devices, names of errors, and the table of entry points.
 *
 * Attackers: the plugin under test, before cuInit and with ordinals, attributes and names that are none.
 * Promise: as many devices as the schedule says; entry points only by the names that the driver would know.
 */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "state.h"

nx_cuda_result cuInit(unsigned int flags) {
  fc_call call = fc_enter(FC_cuInit, 0, flags, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (flags != 0) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  if (fc.set.devices == 0) return fc_leave(&call, NX_CUDA_NO_DEVICE);
  fc.initialised = 1;
  fc.pid = (int)getpid();
  for (int i = 0; i < FC_DEVICES; i++) fc.contexts[i].device = i;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuDriverGetVersion(int *version_out) {
  fc_call call = fc_enter(FC_cuDriverGetVersion, 0, 0, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (version_out == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  *version_out = fc.set.version;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuDeviceGetCount(int *count_out) {
  fc_call call = fc_enter(FC_cuDeviceGetCount, FC_NEEDS_INIT, 0, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (count_out == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  *count_out = fc.set.devices;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

static int is_device(int device) { return device >= 0 && device < fc.set.devices; }

nx_cuda_result cuDeviceGet(nx_cuda_device *device_out, int ordinal) {
  fc_call call = fc_enter(FC_cuDeviceGet, FC_NEEDS_INIT, (uint64_t)ordinal, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (device_out == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  if (!is_device(ordinal)) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_DEVICE));
  *device_out = ordinal;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuDeviceTotalMem(size_t *bytes_out, nx_cuda_device device) {
  fc_call call = fc_enter(FC_cuDeviceTotalMem, FC_NEEDS_INIT, (uint64_t)device, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (bytes_out == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  if (!is_device(device)) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_DEVICE));
  *bytes_out = fc.set.memory;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuDeviceGetName(char *name_out, int room, nx_cuda_device device) {
  fc_call call = fc_enter(FC_cuDeviceGetName, FC_NEEDS_INIT, (uint64_t)device, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (name_out == NULL || room <= 0) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  if (!is_device(device)) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_DEVICE));
  strncpy(name_out, "simulated on the processor", (size_t)room - 1);
  name_out[room - 1] = '\0';
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuDeviceGetAttribute(int *value_out, unsigned int attribute, nx_cuda_device device) {
  fc_call call = fc_enter(FC_cuDeviceGetAttribute, FC_NEEDS_INIT, attribute, (uint64_t)device);
  if (call.code != 0) return fc_leave(&call, 0);
  if (value_out == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  if (!is_device(device)) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_DEVICE));
  if (attribute != NX_CUDA_ATTRIBUTE_VMM && attribute != NX_CUDA_ATTRIBUTE_RDMA_WITH_VMM) {
    return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  }
  *value_out = attribute == NX_CUDA_ATTRIBUTE_VMM ? !fc.set.no_vmm : fc.set.rdma;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

static const struct {
  uint32_t code;
  const char *name;
} error_names[] = {{NX_CUDA_SUCCESS, "CUDA_SUCCESS"},
                   {NX_CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
                   {NX_CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                   {NX_CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
                   {NX_CUDA_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED"},
                   {NX_CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
                   {NX_CUDA_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
                   {NX_CUDA_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
                   {NX_CUDA_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE"},
                   {NX_CUDA_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
                   {NX_CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
                   {NX_CUDA_NOT_READY, "CUDA_ERROR_NOT_READY"},
                   {NX_CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                   {NX_CUDA_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
                   {NX_CUDA_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED"},
                   {NX_CUDA_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
                   {NX_CUDA_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                   {NX_CUDA_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"}};

/* Names are there before cuInit. */
nx_cuda_result cuGetErrorName(nx_cuda_result result, const char **name_out) {
  fc_call call = fc_enter(FC_cuGetErrorName, 0, result, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (name_out == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  *name_out = NULL;
  for (size_t i = 0; i < sizeof error_names / sizeof error_names[0]; i++) {
    if (error_names[i].code == result) *name_out = error_names[i].name;
  }
  return fc_leave(&call, *name_out == NULL ? NX_CUDA_INVALID_VALUE : NX_CUDA_SUCCESS);
}

/* ---- Entry points ------------------------------------------------------------------------------------------------ */

typedef void fc_function(void);

#define FC_ADDRESS(name, parameters) (fc_function *)name,
static fc_function *const functions[] = {FC_CALLS(FC_ADDRESS)};
#undef FC_ADDRESS

static nx_cuda_result find(const char *symbol, void **address_out, int version, unsigned int *status_out) {
  int id = fc_id_of(symbol, strlen(symbol));
  unsigned int status = NX_CUDA_PROC_FOUND;
  *address_out = NULL;
  if (version > fc.set.version) return NX_CUDA_INVALID_VALUE;
  if (id < 0 || id == FC_cuGetProcAddress || fc.set.missing[id])
    status = NX_CUDA_PROC_NOT_FOUND;
  else if (version < NX_CUDA_VERSION)
    status = NX_CUDA_PROC_VERSION_NOT_SUFFICIENT;
  if (status_out != NULL) *status_out = status;
  if (status == NX_CUDA_PROC_FOUND) memcpy(address_out, &functions[id], sizeof *address_out);
  return NX_CUDA_SUCCESS;
}

static nx_cuda_result get_proc(const char *symbol, void **address_out, int version, unsigned int *status_out) {
  fc_call call = fc_enter(FC_cuGetProcAddress, 0, (uint64_t)version, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (symbol == NULL || address_out == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  return fc_leave(&call, find(symbol, address_out, version, status_out));
}

FC_PUBLIC nx_cuda_get_proc_v2 cuGetProcAddress_v2;
FC_PUBLIC nx_cuda_get_proc_v1 cuGetProcAddress;

nx_cuda_result cuGetProcAddress_v2(const char *symbol, void **address_out, int version, uint64_t flags,
                                   unsigned int *status_out) {
  (void)flags;
  return get_proc(symbol, address_out, version, status_out);
}

nx_cuda_result cuGetProcAddress(const char *symbol, void **address_out, int version, uint64_t flags) {
  (void)flags;
  return get_proc(symbol, address_out, version, NULL);
}
