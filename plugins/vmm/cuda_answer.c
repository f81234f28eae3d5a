/*
 * cuda_answer.c: what each result of the driver means to the engine.
 *
 * Attackers: results of drivers that are newer than this file.
 * Promise: a result that no list here names is REFUSED: neither retried nor taken for the end of the device.
 */
#include "cuda_driver.h"

#define END_NAME "CUDA_ERROR_DEINITIALIZED"

/* Behind these every further call on the context fails: the process must end before the device can be used again. */
static const nx_cuda_result sticky[] = {NX_CUDA_ECC_UNCORRECTABLE,
                                        NX_CUDA_NVLINK_UNCORRECTABLE,
                                        NX_CUDA_CONTAINED,
                                        NX_CUDA_ILLEGAL_ADDRESS,
                                        NX_CUDA_LAUNCH_TIMEOUT,
                                        NX_CUDA_CONTEXT_IS_DESTROYED,
                                        NX_CUDA_ASSERT,
                                        NX_CUDA_HARDWARE_STACK_ERROR,
                                        NX_CUDA_ILLEGAL_INSTRUCTION,
                                        NX_CUDA_MISALIGNED_ADDRESS,
                                        NX_CUDA_INVALID_ADDRESS_SPACE,
                                        NX_CUDA_INVALID_PC,
                                        NX_CUDA_LAUNCH_FAILED,
                                        NX_CUDA_TENSOR_MEMORY_LEAK,
                                        NX_CUDA_MPS_CLIENT_TERMINATED,
                                        NX_CUDA_EXTERNAL_DEVICE};

static int is_sticky(nx_cuda_result result) {
  for (size_t i = 0; i < sizeof sticky / sizeof sticky[0]; i++) {
    if (sticky[i] == result) return 1;
  }
  return 0;
}

nx_vmm_answer nx_cuda_end(const char *call) {
  return (nx_vmm_answer){NX_VMM_SHUT_DOWN, NX_CUDA_DEINITIALIZED, call, END_NAME};
}

static uint32_t outcome_of(nx_cuda_result result) {
  if (is_sticky(result)) return NX_VMM_LOST;
  if (result >= NX_CUDA_STREAM_CAPTURE_UNSUPPORTED && result <= NX_CUDA_STREAM_CAPTURE_WRONG_THREAD) {
    return NX_VMM_CAPTURING;
  }
  switch (result) {
    case NX_CUDA_SUCCESS:
      return NX_VMM_DONE;
    case NX_CUDA_OUT_OF_MEMORY:
      return NX_VMM_NO_MEMORY;
    case NX_CUDA_DEINITIALIZED:
      return NX_VMM_SHUT_DOWN;
    default:
      return NX_VMM_REFUSED;
  }
}

/* A driver that has ended is not called again, not even for a name. Asking for one may bring to light that the device is lost. */
static const char *name_of(const nx_cuda *cuda, nx_cuda_result *result) {
  const char *name = NULL;
  if (nx_cuda_note_end(*result)) return *result == NX_CUDA_DEINITIALIZED ? END_NAME : NULL;
  nx_cuda_result named = cuda->calls.cuGetErrorName(*result, &name);
  nx_cuda_note_end(named);
  if (is_sticky(named)) *result = named;
  return named == NX_CUDA_SUCCESS ? name : NULL;
}

nx_vmm_answer nx_cuda_done(void) { return (nx_vmm_answer){.outcome = NX_VMM_DONE}; }

nx_vmm_answer nx_cuda_no_room(void) {
  return (nx_vmm_answer){.outcome = NX_VMM_NO_MEMORY, .call = "malloc", .name = "no memory for the record of an event"};
}

nx_vmm_answer nx_cuda_answer(const nx_cuda *cuda, const char *call, nx_cuda_result result) {
  if (result == NX_CUDA_SUCCESS) return nx_cuda_done();
  const char *name = name_of(cuda, &result);
  return (nx_vmm_answer){outcome_of(result), (int32_t)result, call, name};
}
