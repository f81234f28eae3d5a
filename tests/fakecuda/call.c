/*
 * call.c: what every call of the simulated driver passes on its way in and out: the lock, the schedule, the log, the state a call needs.
 *
 * Attackers: the plugin under test: calls before cuInit, in a forked child, without a context, behind a sticky error.
 * Promise: a call that fails here has changed nothing but the counts.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state.h"

fc_state fc = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define FC_NAME(name, parameters) #name,
const char *const fc_names[FC_IDS + 1] = {FC_CALLS(FC_NAME) "cuGetProcAddress", NULL};

static _Thread_local uint64_t thread_number;

int fc_id_of(const char *name, uint64_t length) {
  for (int id = 0; id < FC_IDS; id++) {
    if (strlen(fc_names[id]) == length && memcmp(fc_names[id], name, length) == 0) return id;
  }
  return -1;
}

nx_cuda_result fc_refuse(nx_cuda_result code) {
  fc.counts.rule_refusals++;
  return code;
}

void fc_lose(struct CUctx_st *context, uint32_t code) {
  if (context->lost) return;
  context->lost = code;
  fc.counts.lost_devices++;
}

/* The current context; without one, each. */
static void lose_scheduled(struct CUctx_st *current, uint32_t code) {
  for (int i = 0; i < FC_DEVICES; i++) {
    if (current == NULL || current == &fc.contexts[i]) fc_lose(&fc.contexts[i], code);
  }
}

static void end_driver(void) { fc.counts.ended = 1; }

/* Count down what waits for this call; the first that is due decides. */
static uint32_t scheduled(fc_id id, struct CUctx_st *current) {
  uint32_t code = 0;
  for (uint32_t i = 0; i < fc.fault_count; i++) {
    fc_fault *fault = &fc.faults[i];
    if (fault->call != id || (fault->left == 0 && !fault->repeats)) continue;
    if (fault->left > 0 && --fault->left > 0) continue;
    if (code != 0) continue;
    if (fault->fired++ == 0) {
      fc.counts.faults_fired++;
      fc.counts.faults_pending--;
    }
    code = fault->code;
    if (fault->sticky) lose_scheduled(current, code);
    if (code == NX_CUDA_DEINITIALIZED) end_driver();
  }
  return code;
}

static uint32_t capture_breaks(int needs) {
  if (!(needs & FC_SYNCHRONISES) || !fc.set.capture) return 0;
  fc.counts.capture_breaks++;
  return NX_CUDA_STREAM_CAPTURE_UNSUPPORTED;
}

/* What forbids the call before its arguments are looked at. */
static uint32_t judge(const fc_call *call, int needs) {
  if (fc.pid != 0 && fc.pid != (int)getpid()) return NX_CUDA_NOT_INITIALIZED;
  if (fc.counts.ended) {
    fc.counts.calls_after_end++;
    return NX_CUDA_DEINITIALIZED;
  }
  uint32_t code = scheduled(call->id, call->context);
  if (code != 0) return code;
  if ((needs & FC_NEEDS_INIT) && !fc.initialised) return fc_refuse(NX_CUDA_NOT_INITIALIZED);
  if (!(needs & FC_NEEDS_CONTEXT)) return 0;
  if (call->context == NULL || call->context->retained == 0) return fc_refuse(NX_CUDA_INVALID_CONTEXT);
  if (call->context->lost) {
    if (needs & FC_DESTROYS) fc.counts.calls_after_loss++;
    return call->context->lost;
  }
  return capture_breaks(needs);
}

static void start_log(void) {
  static int started;
  if (started) return;
  started = 1;
  fc_defaults(&fc.set);
  memset(fc.log, 0xFF, sizeof fc.log); /* touched now, so that no call makes the process grow */
  const char *text = getenv("FAKECUDA_SCHEDULE");
  int bad = text == NULL ? 0 : fc_schedule(text);
  if (bad == 0) return;
  fprintf(stderr, "fakecuda: item %d of FAKECUDA_SCHEDULE is none: %s\n", bad, text);
  _exit(98);
}

/* In the library's constructor, so that a schedule is there whoever comes first. */
static void __attribute__((constructor)) begin(void) { start_log(); }

fc_call fc_enter(fc_id id, int needs, uint64_t a, uint64_t b) {
  fc_call call = {.id = id, .a = a, .b = b};
  pthread_mutex_lock(&fc.lock);
  fc.counts.calls++;
  call.context = fc_current();
  call.code = judge(&call, needs);
  return call;
}

static void append(const fc_call *call, uint32_t code) {
  if (thread_number == 0) thread_number = ++fc.next_thread;
  fc.log[fc.log_count++ % FC_LOG] = (fakecuda_entry){fc_names[call->id], thread_number, call->a, call->b, code};
  fc.calls[call->id]++;
  if (fc.set.log_path[0] == '\0') return;
  if (fc.log_file == NULL) fc.log_file = fopen(fc.set.log_path, "w");
  if (fc.log_file == NULL) return;
  setvbuf(fc.log_file, NULL, _IOLBF, BUFSIZ); /* a forked child has nothing to write again */
  fprintf(fc.log_file, "%" PRIu64 " %s 0x%" PRIx64 " 0x%" PRIx64 " %" PRIu32 "\n", thread_number, fc_names[call->id],
          call->a, call->b, code);
}

nx_cuda_result fc_leave(const fc_call *call, nx_cuda_result code) {
  if (call->code != 0) code = call->code;
  append(call, code);
  pthread_mutex_unlock(&fc.lock);
  return code;
}
