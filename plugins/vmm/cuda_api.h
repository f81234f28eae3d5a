/*
 * cuda_api.h: the part of the CUDA Driver API that cudavmm calls, declared here so that it builds without a toolkit.
 *
 * Attackers: a driver whose entry points are not what their names say; cuda_check.c compares every line of this with cuda.h where there is one.
 * Promise: the ABI of CUDA 11.3, which later drivers keep: names without a suffix stand for the version that cuGetProcAddress answers for 11030.
 */
#ifndef NX_CUDA_API_H
#define NX_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

/* Enumerations of the API have no negative member: compilers give them the type unsigned int. */
typedef unsigned int nx_cuda_result;
typedef int nx_cuda_device;
typedef unsigned long long nx_cuda_ptr;
typedef unsigned long long nx_cuda_handle;
typedef struct CUctx_st *nx_cuda_context;
typedef struct CUstream_st *nx_cuda_stream;
typedef struct CUevent_st *nx_cuda_event;

/* The version whose ABI is declared here: 1000 * major + 10 * minor. The first with cuGetProcAddress. */
#define NX_CUDA_VERSION 11030

enum {
  NX_CUDA_SUCCESS = 0,
  NX_CUDA_INVALID_VALUE = 1,
  NX_CUDA_OUT_OF_MEMORY = 2,
  NX_CUDA_NOT_INITIALIZED = 3,
  NX_CUDA_DEINITIALIZED = 4,
  NX_CUDA_NO_DEVICE = 100,
  NX_CUDA_INVALID_DEVICE = 101,
  NX_CUDA_INVALID_CONTEXT = 201,
  NX_CUDA_ECC_UNCORRECTABLE = 214,
  NX_CUDA_NVLINK_UNCORRECTABLE = 220,
  NX_CUDA_CONTAINED = 226,
  NX_CUDA_INVALID_HANDLE = 400,
  NX_CUDA_NOT_FOUND = 500,
  NX_CUDA_NOT_READY = 600,
  NX_CUDA_ILLEGAL_ADDRESS = 700,
  NX_CUDA_LAUNCH_TIMEOUT = 702,
  NX_CUDA_CONTEXT_IS_DESTROYED = 709,
  NX_CUDA_ASSERT = 710,
  NX_CUDA_HARDWARE_STACK_ERROR = 714,
  NX_CUDA_ILLEGAL_INSTRUCTION = 715,
  NX_CUDA_MISALIGNED_ADDRESS = 716,
  NX_CUDA_INVALID_ADDRESS_SPACE = 717,
  NX_CUDA_INVALID_PC = 718,
  NX_CUDA_LAUNCH_FAILED = 719,
  NX_CUDA_TENSOR_MEMORY_LEAK = 721,
  NX_CUDA_NOT_PERMITTED = 800,
  NX_CUDA_NOT_SUPPORTED = 801,
  NX_CUDA_MPS_CLIENT_TERMINATED = 810,
  NX_CUDA_STREAM_CAPTURE_UNSUPPORTED = 900,
  NX_CUDA_STREAM_CAPTURE_INVALIDATED = 901,
  NX_CUDA_STREAM_CAPTURE_MERGE = 902,
  NX_CUDA_STREAM_CAPTURE_UNMATCHED = 903,
  NX_CUDA_STREAM_CAPTURE_UNJOINED = 904,
  NX_CUDA_STREAM_CAPTURE_ISOLATION = 905,
  NX_CUDA_STREAM_CAPTURE_IMPLICIT = 906,
  NX_CUDA_CAPTURED_EVENT = 907,
  NX_CUDA_STREAM_CAPTURE_WRONG_THREAD = 908,
  NX_CUDA_EXTERNAL_DEVICE = 911
};

enum {
  NX_CUDA_ATTRIBUTE_VMM = 102,
  NX_CUDA_ATTRIBUTE_RDMA_WITH_VMM = 110,
  NX_CUDA_ALLOCATION_PINNED = 1,
  NX_CUDA_LOCATION_DEVICE = 1,
  NX_CUDA_HANDLE_TYPE_NONE = 0,
  NX_CUDA_ACCESS_NONE = 0,
  NX_CUDA_ACCESS_READ = 1,
  NX_CUDA_ACCESS_READ_WRITE = 3,
  NX_CUDA_GRANULARITY_MINIMUM = 0,
  NX_CUDA_GRANULARITY_RECOMMENDED = 1,
  NX_CUDA_EVENT_DISABLE_TIMING = 2,
  NX_CUDA_PROC_LEGACY_STREAM = 1,
  NX_CUDA_PROC_FOUND = 0,
  NX_CUDA_PROC_NOT_FOUND = 1,
  NX_CUDA_PROC_VERSION_NOT_SUFFICIENT = 2
};

typedef struct nx_cuda_location {
  unsigned int type;
  int id;
} nx_cuda_location;

/* What a physical handle is made of. */
typedef struct nx_cuda_prop {
  unsigned int type;
  unsigned int requested_handle_types;
  nx_cuda_location location;
  void *win32_handle_meta_data;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
} nx_cuda_prop;

typedef struct nx_cuda_access {
  nx_cuda_location location;
  unsigned int flags;
} nx_cuda_access;

/* X(name, parameters): every entry point of the plugin, by the name that cuGetProcAddress knows. */
#define NX_CUDA_CALLS(X)                                                                                           \
  X(cuInit, (unsigned int flags))                                                                                  \
  X(cuDriverGetVersion, (int *version_out))                                                                        \
  X(cuDeviceGetCount, (int *count_out))                                                                            \
  X(cuDeviceGet, (nx_cuda_device * device_out, int ordinal))                                                       \
  X(cuDeviceTotalMem, (size_t * bytes_out, nx_cuda_device device))                                                 \
  X(cuDeviceGetAttribute, (int *value_out, unsigned int attribute, nx_cuda_device device))                         \
  X(cuDevicePrimaryCtxRetain, (nx_cuda_context * context_out, nx_cuda_device device))                              \
  X(cuDevicePrimaryCtxRelease, (nx_cuda_device device))                                                            \
  X(cuCtxPushCurrent, (nx_cuda_context context))                                                                   \
  X(cuCtxPopCurrent, (nx_cuda_context * context_out))                                                              \
  X(cuMemGetAllocationGranularity, (size_t * bytes_out, const nx_cuda_prop *prop, unsigned int option))            \
  X(cuMemAddressReserve,                                                                                           \
    (nx_cuda_ptr * address_out, size_t bytes, size_t align, nx_cuda_ptr hint, unsigned long long flags))           \
  X(cuMemAddressFree, (nx_cuda_ptr address, size_t bytes))                                                         \
  X(cuMemCreate, (nx_cuda_handle * handle_out, size_t bytes, const nx_cuda_prop *prop, unsigned long long flags))  \
  X(cuMemRelease, (nx_cuda_handle handle))                                                                         \
  X(cuMemMap, (nx_cuda_ptr address, size_t bytes, size_t offset, nx_cuda_handle handle, unsigned long long flags)) \
  X(cuMemUnmap, (nx_cuda_ptr address, size_t bytes))                                                               \
  X(cuMemSetAccess, (nx_cuda_ptr address, size_t bytes, const nx_cuda_access *access, size_t count))               \
  X(cuEventCreate, (nx_cuda_event * event_out, unsigned int flags))                                                \
  X(cuEventRecord, (nx_cuda_event event, nx_cuda_stream stream))                                                   \
  X(cuEventQuery, (nx_cuda_event event))                                                                           \
  X(cuEventDestroy, (nx_cuda_event event))                                                                         \
  X(cuGetErrorName, (nx_cuda_result result, const char **name_out))

/* Found in the library by their own names: the first asks with a status, the second is its predecessor. */
typedef nx_cuda_result nx_cuda_get_proc_v2(const char *symbol, void **address_out, int version, uint64_t flags,
                                           unsigned int *status_out);
typedef nx_cuda_result nx_cuda_get_proc_v1(const char *symbol, void **address_out, int version, uint64_t flags);

#endif /* NX_CUDA_API_H */
