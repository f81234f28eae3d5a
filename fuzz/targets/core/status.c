/*
 * status.c: messages and the showing of foreign text.
 * Attackers: lying lengths, missing NULs, malformed UTF-8, terminal escapes.
 * Promise: a text's block holds the text and no byte more; numbers first, then the text.
 */
#include "nxmem/status.h"

#include "call.h"
#include "reference_text.h"

/*
 * More than a message holds, by more than the longest character. Shown text is shorter: its contract looks at all that
 * was shown for each piece that comes to it.
 */
enum { TEXT_MAX = 320, SHOWN_TEXT_MAX = 24, CAPACITY_MAX = 4 * SHOWN_TEXT_MAX + 1 };

static void run_nxmem_reason_status(core_call *call) { nxmem_reason_status(fuzz_take_u32(&call->in)); }

static void run_nxmem_utf8_length(core_call *call) {
  uint32_t available;
  const uint8_t *bytes = core_given_text(call, 6u, &available);
  nxmem_utf8_length(bytes, available);
}

/* Takes only what nxmem_utf8_length accepts: where the input's bytes are no character, one of seven bits instead. */
static void run_nxmem_utf8_code_point(core_call *call) {
  uint8_t wire[4];
  uint32_t code_point;
  fuzz_take(&call->in, wire, sizeof wire);
  uint32_t length = ref_decode(wire, sizeof wire, &code_point);
  if (length == 0u) {
    wire[0] &= 0x7Fu;
    length = 1u;
  }
  nxmem_utf8_code_point(core_given(call, wire, length), length);
}

static void run_nxmem_is_control(core_call *call) { nxmem_is_control(fuzz_take_u32(&call->in)); }

static void run_nxmem_status_build(core_call *call) {
  const uint32_t code = fuzz_take_u32(&call->in);
  uint32_t length;
  const uint8_t *text = core_given_text(call, TEXT_MAX, &length);
  nxmem_status_build(core_room(call, sizeof(NxmemStatus)), code, text, length);
}

static void run_nxmem_status_message_len(core_call *call) { nxmem_status_message_len(fuzz_take_u32(&call->in)); }

static void run_nxmem_status_take(core_call *call) {
  const NxmemStatus *given = core_given_next(call, sizeof *given);
  nxmem_status_take(given, core_room(call, sizeof(NxmemStatus)));
}

static void run_nxmem_text_show(core_call *call) {
  const uint32_t capacity = fuzz_take_u16(&call->in) % CAPACITY_MAX + 1u;
  uint32_t length;
  const uint8_t *text = core_given_text(call, SHOWN_TEXT_MAX, &length);
  nxmem_text_show(text, length, core_room(call, capacity), capacity);
}

static const core_row rows[] = {
    CORE_ROW(nxmem_reason_status), CORE_ROW(nxmem_utf8_length),  CORE_ROW(nxmem_utf8_code_point),
    CORE_ROW(nxmem_is_control),    CORE_ROW(nxmem_status_build), CORE_ROW(nxmem_status_message_len),
    CORE_ROW(nxmem_status_take),   CORE_ROW(nxmem_text_show),
};
CORE_TOPIC(status);
