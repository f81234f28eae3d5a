/*
 * event.c: events: made, recorded on a stream, asked, dropped.
 *
 * Attackers: the plugin under test: events and streams that are none, or another context's.
 * Promise: an event is complete unless the schedule delays it; a delayed one stays pending until it is completed by fakecuda_complete().
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "state.h"

static struct CUevent_st **place_of(nx_cuda_event event) {
  struct CUevent_st **at = &fc.events;
  while (*at != NULL && *at != event) at = &(*at)->next;
  return at;
}

static void drop_event(struct CUevent_st **at) {
  struct CUevent_st *gone = *at;
  *at = gone->next;
  free(gone);
  fc.counts.events--;
}

void fc_drop_of_context(int device) {
  for (struct CUevent_st **at = &fc.events; *at != NULL;) {
    if ((*at)->device == device)
      drop_event(at);
    else
      at = &(*at)->next;
  }
  for (struct CUstream_st **at = &fc.streams; *at != NULL;) {
    struct CUstream_st *stream = *at;
    if (stream->device != device) {
      at = &stream->next;
      continue;
    }
    *at = stream->next;
    free(stream);
    fc.counts.streams--;
  }
}

nx_cuda_result cuEventCreate(nx_cuda_event *event_out, unsigned int flags) {
  fc_call call = fc_enter(FC_cuEventCreate, FC_NEEDS_INIT | FC_NEEDS_CONTEXT, flags, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  if (event_out == NULL || flags > 7) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_VALUE));
  struct CUevent_st *event = calloc(1, sizeof *event);
  if (event == NULL) return fc_leave(&call, NX_CUDA_OUT_OF_MEMORY);
  event->device = call.context->device;
  event->next = fc.events;
  fc.events = event;
  fc.counts.events++;
  *event_out = event;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

/* NULL is the legacy default stream, which no capture tolerates. */
static nx_cuda_result judge_stream(nx_cuda_stream stream, int device) {
  if (stream == NULL && !fc.set.capture) return NX_CUDA_SUCCESS;
  if (stream == NULL) {
    fc.counts.capture_breaks++;
    return NX_CUDA_STREAM_CAPTURE_IMPLICIT;
  }
  for (struct CUstream_st *at = fc.streams; at != NULL; at = at->next) {
    if (at == stream && at->device == device) return NX_CUDA_SUCCESS;
  }
  return fc_refuse(NX_CUDA_INVALID_HANDLE);
}

nx_cuda_result cuEventRecord(nx_cuda_event event, nx_cuda_stream stream) {
  fc_call call = fc_enter(FC_cuEventRecord, FC_NEEDS_INIT | FC_NEEDS_CONTEXT, (uint64_t)(uintptr_t)event,
                          (uint64_t)(uintptr_t)stream);
  if (call.code != 0) return fc_leave(&call, 0);
  struct CUevent_st *found = *place_of(event);
  if (found == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_HANDLE));
  if (found->device != call.context->device) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_CONTEXT));
  nx_cuda_result code = judge_stream(stream, found->device);
  if (code != NX_CUDA_SUCCESS) return fc_leave(&call, code);
  found->recorded = 1;
  found->pending = fc.set.delay_events ? ++fc.next_record : 0;
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

nx_cuda_result cuEventQuery(nx_cuda_event event) {
  fc_call call =
      fc_enter(FC_cuEventQuery, FC_NEEDS_INIT | FC_NEEDS_CONTEXT | FC_SYNCHRONISES, (uint64_t)(uintptr_t)event, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  struct CUevent_st *found = *place_of(event);
  if (found == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_HANDLE));
  return fc_leave(&call, found->pending ? NX_CUDA_NOT_READY : NX_CUDA_SUCCESS);
}

nx_cuda_result cuEventDestroy(nx_cuda_event event) {
  fc_call call =
      fc_enter(FC_cuEventDestroy, FC_NEEDS_INIT | FC_NEEDS_CONTEXT | FC_DESTROYS, (uint64_t)(uintptr_t)event, 0);
  if (call.code != 0) return fc_leave(&call, 0);
  struct CUevent_st **at = place_of(event);
  if (*at == NULL) return fc_leave(&call, fc_refuse(NX_CUDA_INVALID_HANDLE));
  drop_event(at);
  return fc_leave(&call, NX_CUDA_SUCCESS);
}

FC_PUBLIC fakecuda_complete_fn fakecuda_complete;

static struct CUevent_st *oldest_pending(void) {
  struct CUevent_st *oldest = NULL;
  for (struct CUevent_st *at = fc.events; at != NULL; at = at->next) {
    if (at->pending && (oldest == NULL || at->pending < oldest->pending)) oldest = at;
  }
  return oldest;
}

uint64_t fakecuda_complete(uint64_t count) {
  uint64_t done = 0;
  pthread_mutex_lock(&fc.lock);
  for (struct CUevent_st *event; done < count && (event = oldest_pending()) != NULL; done++) event->pending = 0;
  pthread_mutex_unlock(&fc.lock);
  return done;
}
