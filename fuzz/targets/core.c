/*
 * core.c: every public function of the proved core.
 * Attackers: whatever reaches the core's functions: tables, records, texts, numbers.
 * Promise: each function of abi/include/nxmem has a row (the test fuzz_core_rows looks); each call meets the function's
 * preconditions, so that whatever fails is the core's.
 *
 * Input: u8 topic | u8 row of the topic | the function's arguments, as its file in core/ takes them, once a call; calls
 * go on until the input ends. New topics and new rows go to the end, so that inputs keep their meaning.
 */
#include <string.h>

#include "core/call.h"
#ifdef NXMEM_CONTRACT
#include "runtime.h"
#endif

static const core_topic *const topics[] = {
    &core_prefix,     &core_capability, &core_negotiate, &core_status,    &core_name,     &core_identity,
    &core_outcome,    &core_unload,     &core_handle,    &core_enumerate, &core_range,    &core_count,
    &core_completion, &core_reclaim,    &core_pin,       &core_backing,   &core_sharing,  &core_overlap,
    &core_granule,    &core_granules,   &core_place,     &core_arena,     &core_lifecycle,
    &core_quota};
enum { TOPICS = sizeof topics / sizeof topics[0], CALLS_MAX = 32 };

static const core_topic *take_topic(fuzz_input *in) { return topics[fuzz_take_u8(in) % TOPICS]; }

static const core_row *take_row(fuzz_input *in) {
  const core_topic *topic = take_topic(in);
  return &topic->rows[fuzz_take_u8(in) % topic->count];
}

const char *core_topic_of(const uint8_t *data, size_t size) {
  fuzz_input in = {data, size};
  return take_topic(&in)->name;
}

const char *core_function_of(const uint8_t *data, size_t size) {
  fuzz_input in = {data, size};
  return take_row(&in)->function;
}

int core_topic_byte(const char *name) {
  for (int i = 0; i < (int)TOPICS; i++)
    if (strcmp(topics[i]->name, name) == 0) return i;
  return -1;
}

static void enter(const char *function, const fuzz_input *in) {
#ifdef NXMEM_CONTRACT
  contract_enter(function, in->at, in->left);
#else
  (void)function;
  (void)in;
#endif
}

static void run_once(const core_row *row, fuzz_input *in) {
  core_call call = {.in = *in, .function = row->function};
  enter(row->function, in);
  row->run(&call);
  core_end(&call);
  *in = call.in;
}

size_t core_run_first(const uint8_t *data, size_t size) {
  fuzz_input in = fuzz_begin(data, size);
  run_once(take_row(&in), &in);
  return size - in.left;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = fuzz_begin(data, size);
  const core_row *row = take_row(&in);
  for (int calls = 0; calls < CALLS_MAX && (calls == 0 || in.left > 0); calls++) run_once(row, &in);
  return 0;
}
