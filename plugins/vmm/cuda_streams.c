/*
 * cuda_streams.c: the streams that programs register, and marks behind the work of all of them.
 *
 * Attackers: a program that registers a stream twice, too many, or one that is gone; a driver that will not record, tell or destroy an event.
 * Promise: a mark is complete only when every stream that was registered has done what it had been given; a mark that cannot be dropped can be dropped again, and events of one that could not be made are used again.
 */
#include <stdlib.h>

#include "cuda_driver.h"
#include "fork.h"
#include "nxmem_cudavmm.h"
#include "nxmem_memory_abi.h"

#define NX_PUBLIC __attribute__((visibility("default")))

/* Fixed room: what a program leaves registered costs nothing when the module goes. */
static struct {
  pthread_mutex_t lock; /* held while events are recorded, so that a stream is not used once its removal has returned */
  uint32_t count[NX_CUDA_DEVICES];
  nx_cuda_stream streams[NX_CUDA_DEVICES][NX_CUDA_STREAMS];
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Where it stands; the count where it does not. */
static uint32_t place_of(uint32_t device, nx_cuda_stream stream) {
  uint32_t at = 0;
  while (at < registry.count[device] && registry.streams[device][at] != stream) at++;
  return at;
}

static uint32_t add(uint32_t device, nx_cuda_stream stream) {
  if (place_of(device, stream) < registry.count[device]) return NXMEM_STATUS_INVALID_ARGUMENT;
  if (registry.count[device] == NX_CUDA_STREAMS) return NXMEM_STATUS_OUT_OF_MEMORY;
  registry.streams[device][registry.count[device]++] = stream;
  return NXMEM_STATUS_OK;
}

static uint32_t drop(uint32_t device, nx_cuda_stream stream) {
  uint32_t at = place_of(device, stream);
  if (at == registry.count[device]) return NXMEM_STATUS_INVALID_ARGUMENT;
  registry.streams[device][at] = registry.streams[device][--registry.count[device]];
  return NXMEM_STATUS_OK;
}

static uint32_t change(uint32_t (*how)(uint32_t, nx_cuda_stream), uint32_t device, void *stream) {
  if (nx_is_forked()) return NXMEM_STATUS_DEVICE_ERROR;
  if (device >= nx_cuda_device_count()) return NXMEM_STATUS_WRONG_DEVICE;
  pthread_mutex_lock(&registry.lock);
  uint32_t status = how(device, stream);
  pthread_mutex_unlock(&registry.lock);
  return status;
}

NX_PUBLIC uint32_t NxmemCudaAddStream(uint32_t device_index, void *stream) { return change(add, device_index, stream); }

NX_PUBLIC uint32_t NxmemCudaRemoveStream(uint32_t device_index, void *stream) {
  return change(drop, device_index, stream);
}

/* ---- Events ------------------------------------------------------------------------------------------------------ */

static nx_cuda_cell *take_spare(nx_cuda *cuda) {
  pthread_mutex_lock(&cuda->lock);
  nx_cuda_cell *cell = cuda->spare;
  if (cell != NULL) cuda->spare = cell->next;
  pthread_mutex_unlock(&cuda->lock);
  return cell;
}

static void keep_spare(nx_cuda *cuda, nx_cuda_cell *cell) {
  pthread_mutex_lock(&cuda->lock);
  cell->next = cuda->spare;
  cuda->spare = cell;
  pthread_mutex_unlock(&cuda->lock);
}

static void keep_all(nx_cuda *cuda, nx_cuda_cell *cell) {
  while (cell != NULL) {
    nx_cuda_cell *next = cell->next;
    keep_spare(cuda, cell);
    cell = next;
  }
}

static nx_vmm_answer make_cell(nx_cuda *cuda, nx_cuda_cell **out) {
  *out = take_spare(cuda);
  if (*out != NULL) return nx_cuda_done();
  nx_cuda_cell *cell = malloc(sizeof *cell);
  if (cell == NULL) return nx_cuda_no_room();
  nx_cuda_result result = cuda->calls.cuEventCreate(&cell->event, NX_CUDA_EVENT_DISABLE_TIMING);
  if (result == NX_CUDA_SUCCESS)
    *out = cell;
  else
    free(cell);
  return nx_cuda_answer(cuda, "cuEventCreate", result);
}

/* ---- Marks ------------------------------------------------------------------------------------------------------- */

/* Its address is the mark's number, whatever becomes of its events. In a list, for marks that a lost device leaves behind. */
struct nx_cuda_events {
  nx_cuda_events *next, **link; /* link: what points here */
  nx_cuda_cell *first;
};

static nx_cuda_events *events_of(uint64_t mark) { return (nx_cuda_events *)(uintptr_t)mark; }

static void note_mark(nx_cuda *cuda, nx_cuda_events *events) {
  pthread_mutex_lock(&cuda->lock);
  events->next = cuda->marks;
  events->link = &cuda->marks;
  if (events->next != NULL) events->next->link = &events->next;
  cuda->marks = events;
  pthread_mutex_unlock(&cuda->lock);
}

static void forget_mark(nx_cuda *cuda, nx_cuda_events *events) {
  pthread_mutex_lock(&cuda->lock);
  *events->link = events->next;
  if (events->next != NULL) events->next->link = events->link;
  pthread_mutex_unlock(&cuda->lock);
  free(events);
}

/* One more event, on this stream, in front of the others. */
static nx_vmm_answer record(nx_cuda *cuda, nx_cuda_stream stream, nx_cuda_events *events) {
  nx_cuda_cell *cell;
  nx_vmm_answer answer = make_cell(cuda, &cell);
  if (answer.outcome != NX_VMM_DONE) return answer;
  cell->next = events->first;
  events->first = cell;
  return nx_cuda_answer(cuda, "cuEventRecord", cuda->calls.cuEventRecord(cell->event, stream));
}

static nx_vmm_answer record_all(nx_cuda *cuda, nx_cuda_events *events) {
  if (registry.count[cuda->index] == 0) return record(cuda, NULL, events);
  nx_vmm_answer answer = nx_cuda_done();
  for (uint32_t i = 0; i < registry.count[cuda->index] && answer.outcome == NX_VMM_DONE; i++) {
    answer = record(cuda, registry.streams[cuda->index][i], events);
  }
  return answer;
}

nx_vmm_answer nx_cuda_mark(void *self, uint64_t *mark_out) {
  nx_cuda *cuda = self;
  nx_cuda_events *events = calloc(1, sizeof *events);
  if (events == NULL) return nx_cuda_no_room();
  pthread_mutex_lock(&registry.lock);
  nx_vmm_answer answer = record_all(cuda, events);
  pthread_mutex_unlock(&registry.lock);
  if (answer.outcome == NX_VMM_DONE) {
    note_mark(cuda, events);
    *mark_out = (uint64_t)(uintptr_t)events;
    return answer;
  }
  keep_all(cuda, events->first);
  free(events);
  return answer;
}

nx_vmm_answer nx_cuda_mark_state(void *self, uint64_t mark) {
  const nx_cuda *cuda = self;
  for (const nx_cuda_cell *cell = events_of(mark)->first; cell != NULL; cell = cell->next) {
    nx_cuda_result result = cuda->calls.cuEventQuery(cell->event);
    if (result == NX_CUDA_NOT_READY) return (nx_vmm_answer){.outcome = NX_VMM_PENDING};
    if (result != NX_CUDA_SUCCESS) return nx_cuda_answer(cuda, "cuEventQuery", result);
  }
  return nx_cuda_done();
}

/* Anything but DONE: the mark is there with the events that stayed, and may be dropped again. */
nx_vmm_answer nx_cuda_drop_mark(void *self, uint64_t mark) {
  nx_cuda *cuda = self;
  nx_cuda_events *events = events_of(mark);
  while (events->first != NULL) {
    nx_cuda_cell *cell = events->first;
    nx_vmm_answer answer = nx_cuda_answer(cuda, "cuEventDestroy", cuda->calls.cuEventDestroy(cell->event));
    if (answer.outcome != NX_VMM_DONE) return answer;
    events->first = cell->next;
    free(cell);
  }
  forget_mark(cuda, events);
  return nx_cuda_done();
}

static void drop_cells(const nx_cuda *cuda, nx_cuda_cell *cell, int current) {
  while (cell != NULL) {
    nx_cuda_cell *next = cell->next;
    if (current && !nx_cuda_has_ended()) nx_cuda_note_end(cuda->calls.cuEventDestroy(cell->event));
    free(cell);
    cell = next;
  }
}

void nx_cuda_drop_events(nx_cuda *cuda, int current) {
  drop_cells(cuda, cuda->spare, current);
  cuda->spare = NULL;
  while (cuda->marks != NULL) {
    drop_cells(cuda, cuda->marks->first, current);
    forget_mark(cuda, cuda->marks);
  }
}
