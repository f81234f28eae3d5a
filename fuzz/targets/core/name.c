/*
 * name.c: judging and comparing names.
 * Attackers: empty, endless, malformed or terminal-steering names.
 * Promise: a name's block ends with its NUL, or with the bytes given.
 */
#include "nxmem/name.h"

#include <string.h>

#include "call.h"

static void run_nxmem_check_name(core_call *call) {
  uint32_t available;
  const uint8_t *bytes = core_given_text(call, NXMEM_NAME_BUF, &available);
  uint32_t *length = core_room(call, sizeof *length);
  core_kept_unless_accepted(call, nxmem_check_name(bytes, available, length));
}

/* A text up to its first NUL, with one NUL behind; at most NXMEM_NAME_MAX bytes before it. */
static const uint8_t *ended_name(core_call *call) {
  uint8_t name[NXMEM_NAME_BUF] = {0};
  uint32_t length = 0;
  uint32_t ended = 0;
  const uint8_t *text = core_given_text(call, NXMEM_NAME_MAX, &length);
  while (ended < length && text[ended] != 0u) ended++;
  if (ended != 0u) memcpy(name, text, ended);
  return core_given(call, name, ended + 1u);
}

static void run_nxmem_same_name(core_call *call) {
  const uint8_t *a = ended_name(call);
  nxmem_same_name(a, ended_name(call));
}

static void run_nxmem_check_fetched_name(core_call *call) {
  const uint64_t address = fuzz_take_u64(&call->in);
  uint32_t available;
  const uint8_t *bytes = core_given_text(call, NXMEM_NAME_BUF, &available);
  uint32_t *length = core_room(call, sizeof *length);
  core_kept_unless_accepted(call, nxmem_check_fetched_name(address, bytes, available, length));
}

static void run_nxmem_same_mechanism(core_call *call) {
  NxmemDeviceId a_device;
  NxmemDeviceId b_device;
  fuzz_take(&call->in, &a_device, sizeof a_device);
  fuzz_take(&call->in, &b_device, sizeof b_device);
  const uint8_t *a = ended_name(call);
  nxmem_same_mechanism(a_device, a, b_device, ended_name(call));
}

static const core_row rows[] = {CORE_ROW(nxmem_check_name), CORE_ROW(nxmem_same_name),
                                CORE_ROW(nxmem_check_fetched_name), CORE_ROW(nxmem_same_mechanism)};
CORE_TOPIC(name);
