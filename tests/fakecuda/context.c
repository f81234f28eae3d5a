/*
 * context.c: primary contexts, the stack of current contexts that each thread has, streams.
 *
 * Attackers: the plugin under test: unbalanced pushes and releases, contexts of other devices, streams that are none.
 * Promise: a context lives from its first retain to its last release; what was made in it and is no memory goes with it.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "state.h"

static _Thread_local struct CUctx_st *stack[FC_DEPTH];
static _Thread_local uint64_t depth;

struct CUctx_st *fc_current(void) {
  return depth == 0 ? NULL : stack[depth - 1];
}
uint64_t fc_depth(void) { return depth; }

static int is_context(const struct CUctx_st *context) {
  return context >= fc.contexts && context < fc.contexts + FC_DEVICES;
}

nx_cuda_result cuDevicePrimaryCtxRetain(nx_cuda_context *context_out, nx_cuda_device device) {
  fc_call call = fc_enter(FC_cuDevicePrimaryCtxRetain, FC_NEEDS_INIT, (uint64_t)device, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (context_out == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  if (device < 0 || device >= fc.set.devices) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_DEVICE));
  struct CUctx_st *context = &fc.contexts[device];
  if (context->lost) return fc_leave(&call, context->lost);
  context->retained++;
  fc.counts.retained++;
  *context_out = context;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuDevicePrimaryCtxRelease(nx_cuda_device device) {
  fc_call call = fc_enter(FC_cuDevicePrimaryCtxRelease, FC_NEEDS_INIT, (uint64_t)device, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (device < 0 || device >= FC_DEVICES) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_DEVICE));
  struct CUctx_st *context = &fc.contexts[device];
  if (context->retained == 0) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_CONTEXT));
  context->retained--;
  fc.counts.retained--;
  if (context->retained == 0) fc_drop_of_context(device);
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuCtxPushCurrent(nx_cuda_context context) {
  fc_call call = fc_enter(FC_cuCtxPushCurrent, FC_NEEDS_INIT, (uint64_t)(uintptr_t)context, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (!is_context(context) || context->retained == 0) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_CONTEXT));
  if (depth == FC_DEPTH) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  stack[depth++] = context;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuCtxPopCurrent(nx_cuda_context *context_out) {
  fc_call call = fc_enter(FC_cuCtxPopCurrent, FC_NEEDS_INIT, 0, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (depth == 0) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_CONTEXT));
  depth--;
  if (context_out != NULL) *context_out = stack[depth];
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuCtxGetCurrent(nx_cuda_context *context_out) {
  fc_call call = fc_enter(FC_cuCtxGetCurrent, FC_NEEDS_INIT, 0, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (context_out == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  *context_out = call.context;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuCtxSynchronize(void) {
  fc_call call = fc_enter(FC_cuCtxSynchronize, FC_NEEDS_INIT | FC_NEEDS_CONTEXT | FC_SYNCHRONISES, 0, 0);
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

/* ---- Streams ----------------------------------------------------------------------------------------------------- */

static struct CUstream_st **place_of(nx_cuda_stream stream) {
  struct CUstream_st **at = &fc.streams;
  while (*at != NULL && *at != stream) at = &(*at)->next;
  return at;
}

nx_cuda_result cuStreamCreate(nx_cuda_stream *stream_out, unsigned int flags) {
  fc_call call = fc_enter(FC_cuStreamCreate, FC_NEEDS_INIT | FC_NEEDS_CONTEXT, flags, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (stream_out == NULL || flags > 1) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  struct CUstream_st *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return fc_leave(&call, NX_CUDA_OUT_OF_MEMORY);
  stream->device = call.context->device;
  stream->next = fc.streams;
  fc.streams = stream;
  fc.counts.streams++;
  *stream_out = stream;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuStreamDestroy(nx_cuda_stream stream) {
  fc_call call = fc_enter(FC_cuStreamDestroy, FC_NEEDS_INIT | FC_NEEDS_CONTEXT, (uint64_t)(uintptr_t)stream, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  struct CUstream_st **at = place_of(stream);
  if (*at == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_HANDLE));
  *at = stream->next;
  free(stream);
  fc.counts.streams--;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

/* A capture of the strictest mode: from whatever thread, nothing may synchronise. */
static nx_cuda_result capture(fc_id id, nx_cuda_stream stream, int on) {
  fc_call call = fc_enter(id, FC_NEEDS_INIT | FC_NEEDS_CONTEXT, (uint64_t)(uintptr_t)stream, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  struct CUstream_st *found = *place_of(stream);
  if (found == NULL || found->capturing == on) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_HANDLE));
  found->capturing = on;
  fc.set.capture = on;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuStreamBeginCapture(nx_cuda_stream stream, unsigned int mode) {
  (void)mode;
  return capture(FC_cuStreamBeginCapture, stream, 1);
}

nx_cuda_result cuStreamEndCapture(nx_cuda_stream stream, void **graph_out) {
  nx_cuda_result result = capture(FC_cuStreamEndCapture, stream, 0);
  if (result == NX_CUDA_SUCCESS && graph_out != NULL) *graph_out = &fc;
  return result;
}

nx_cuda_result cuGraphDestroy(void *graph) {
  fc_call call = fc_enter(FC_cuGraphDestroy, FC_NEEDS_INIT, 0, 0);
  if (call.code == 0 && graph != &fc) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  return fc_leave(&call, NX_CUDA_SUCCESS);
}
