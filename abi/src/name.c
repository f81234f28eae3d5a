/*
 * name.c: which bytes are a name.
 *
 * Attackers: empty, endless, malformed or terminal-steering names.
 * Promise: the first offence is named with its offset; nothing outside the given bytes is read.
 */
#include "nxmem/name.h"

#include "nxmem/status.h"
#include "verdict_make.h"

static uint32_t find_nul(const uint8_t *bytes, uint32_t available) {
  uint32_t n = 0u;
  while (n < available && bytes[n] != 0u) n++;
  return n;
}

nxmem_verdict nxmem_check_name(const uint8_t *bytes, uint32_t available, uint32_t *length_out) {
  const uint32_t length = find_nul(bytes, available);
  if (length == available) return nx_verdict(NXMEM_REASON_UNTERMINATED_NAME, 0u, available, NXMEM_NAME_BUF);
  if (length == 0u) return nx_verdict(NXMEM_REASON_EMPTY_NAME, 0u, 0u, 1u);
  uint32_t at = 0u;
  while (at < length) {
    const uint32_t step = nxmem_utf8_length(bytes + at, length - at);
    if (step == 0u) return nx_verdict(NXMEM_REASON_BAD_UTF8, at, bytes[at], 0u);
    const uint32_t code_point = nxmem_utf8_code_point(bytes + at, step);
    if (nxmem_is_control(code_point)) return nx_verdict(NXMEM_REASON_CONTROL_CHARACTER, at, code_point, 0u);
    at += step;
  }
  *length_out = length;
  return nx_accept();
}

int nxmem_same_name(const uint8_t *a, const uint8_t *b) {
  for (uint32_t i = 0u; i < NXMEM_NAME_BUF; i++) {
    if (a[i] != b[i]) return 0;
    if (a[i] == 0u) return 1;
  }
  return 1;
}
