/*
 * cuda_check.c: compares cuda_api.h with NVIDIA's cuda.h; built where that is found, linked into nothing.
 *
 * Attackers: a typing error in cuda_api.h, a later cuda.h that moved something.
 * Promise: every number, size, offset and prototype of cuda_api.h equals the toolkit's, or this does not compile.
 */
#include <cuda.h>

#include "cuda_api.h"

#define SAME_NUMBER(ours, theirs) _Static_assert((unsigned)(ours) == (unsigned)(theirs), #ours " is " #theirs)
#define SAME_ERROR(name) SAME_NUMBER(NX_CUDA_##name, CUDA_ERROR_##name)

SAME_NUMBER(NX_CUDA_SUCCESS, CUDA_SUCCESS);
SAME_ERROR(INVALID_VALUE);
SAME_ERROR(OUT_OF_MEMORY);
SAME_ERROR(NOT_INITIALIZED);
SAME_ERROR(DEINITIALIZED);
SAME_ERROR(NO_DEVICE);
SAME_ERROR(INVALID_DEVICE);
SAME_ERROR(INVALID_CONTEXT);
SAME_ERROR(ECC_UNCORRECTABLE);
SAME_ERROR(NVLINK_UNCORRECTABLE);
SAME_ERROR(INVALID_HANDLE);
SAME_ERROR(NOT_FOUND);
SAME_ERROR(NOT_READY);
SAME_ERROR(ILLEGAL_ADDRESS);
SAME_ERROR(LAUNCH_TIMEOUT);
SAME_ERROR(CONTEXT_IS_DESTROYED);
SAME_ERROR(ASSERT);
SAME_ERROR(HARDWARE_STACK_ERROR);
SAME_ERROR(ILLEGAL_INSTRUCTION);
SAME_ERROR(MISALIGNED_ADDRESS);
SAME_ERROR(INVALID_ADDRESS_SPACE);
SAME_ERROR(INVALID_PC);
SAME_ERROR(LAUNCH_FAILED);
SAME_ERROR(NOT_PERMITTED);
SAME_ERROR(NOT_SUPPORTED);
SAME_ERROR(STREAM_CAPTURE_UNSUPPORTED);
SAME_ERROR(STREAM_CAPTURE_INVALIDATED);
SAME_ERROR(STREAM_CAPTURE_MERGE);
SAME_ERROR(STREAM_CAPTURE_UNMATCHED);
SAME_ERROR(STREAM_CAPTURE_UNJOINED);
SAME_ERROR(STREAM_CAPTURE_ISOLATION);
SAME_ERROR(STREAM_CAPTURE_IMPLICIT);
SAME_ERROR(CAPTURED_EVENT);
SAME_ERROR(STREAM_CAPTURE_WRONG_THREAD);
/* Codes that came after 11.3. */
#if CUDA_VERSION >= 11080
SAME_ERROR(MPS_CLIENT_TERMINATED);
SAME_ERROR(EXTERNAL_DEVICE);
#endif
#if CUDA_VERSION >= 12080
SAME_ERROR(CONTAINED);
SAME_ERROR(TENSOR_MEMORY_LEAK);
#endif

SAME_NUMBER(NX_CUDA_ATTRIBUTE_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_NUMBER(NX_CUDA_ATTRIBUTE_RDMA_WITH_VMM, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME_NUMBER(NX_CUDA_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_NUMBER(NX_CUDA_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_NUMBER(NX_CUDA_HANDLE_TYPE_NONE, CU_MEM_HANDLE_TYPE_NONE);
SAME_NUMBER(NX_CUDA_ACCESS_NONE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME_NUMBER(NX_CUDA_ACCESS_READ, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME_NUMBER(NX_CUDA_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_NUMBER(NX_CUDA_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_NUMBER(NX_CUDA_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME_NUMBER(NX_CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME_NUMBER(NX_CUDA_PROC_LEGACY_STREAM, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
#if CUDA_VERSION >= 12000
SAME_NUMBER(NX_CUDA_PROC_FOUND, CU_GET_PROC_ADDRESS_SUCCESS);
SAME_NUMBER(NX_CUDA_PROC_NOT_FOUND, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME_NUMBER(NX_CUDA_PROC_VERSION_NOT_SUFFICIENT, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
#endif

#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #ours)
#define SAME_PLACE(ours, member, theirs, their_member)                                   \
  _Static_assert(offsetof(ours, member) == offsetof(theirs, their_member) &&             \
                     sizeof(((ours *)0)->member) == sizeof(((theirs *)0)->their_member), \
                 #ours "." #member)

SAME_SIZE(nx_cuda_result, CUresult);
SAME_SIZE(nx_cuda_location, CUmemLocation);
SAME_PLACE(nx_cuda_location, type, CUmemLocation, type);
SAME_PLACE(nx_cuda_location, id, CUmemLocation, id);
SAME_SIZE(nx_cuda_prop, CUmemAllocationProp);
SAME_PLACE(nx_cuda_prop, type, CUmemAllocationProp, type);
SAME_PLACE(nx_cuda_prop, requested_handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_PLACE(nx_cuda_prop, location, CUmemAllocationProp, location);
SAME_PLACE(nx_cuda_prop, win32_handle_meta_data, CUmemAllocationProp, win32HandleMetaData);
SAME_PLACE(nx_cuda_prop, flags, CUmemAllocationProp, allocFlags);
SAME_PLACE(nx_cuda_prop, flags.compression_type, CUmemAllocationProp, allocFlags.compressionType);
SAME_PLACE(nx_cuda_prop, flags.gpu_direct_rdma_capable, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME_PLACE(nx_cuda_prop, flags.usage, CUmemAllocationProp, allocFlags.usage);
SAME_PLACE(nx_cuda_prop, flags.reserved, CUmemAllocationProp, allocFlags.reserved);
SAME_SIZE(nx_cuda_access, CUmemAccessDesc);
SAME_PLACE(nx_cuda_access, location, CUmemAccessDesc, location);
SAME_PLACE(nx_cuda_access, flags, CUmemAccessDesc, flags);

/*
 * Prototypes. The two records were compared above, and so may stand for one another; an argument of _Generic is a function type of the toolkit, under the
 * versioned name that its macros give.
 */
#define nx_cuda_prop CUmemAllocationProp
#define nx_cuda_access CUmemAccessDesc
#define SAME_CALL(name, parameters) \
  _Static_assert(_Generic(&name, nx_cuda_result(*) parameters : 1, default : 0), "another prototype");
NX_CUDA_CALLS(SAME_CALL)
#if CUDA_VERSION >= 12000
_Static_assert(_Generic(&cuGetProcAddress, nx_cuda_get_proc_v2 * : 1, default : 0), "cuGetProcAddress_v2");
#endif
