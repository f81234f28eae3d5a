/*
 * name.c: which bytes are a name.
 *
 * Attackers: empty, endless, malformed or terminal-steering names.
 * Promise: the first offence is named with its offset; nothing outside the given bytes is read.
 */
#include "nxmem/name.h"

#include "nxmem/status.h"
#include "verdict_make.h"

/*@ requires bytes_readable: \valid_read(bytes + (0 .. available - 1));
    assigns \nothing;
    ensures within: \result <= available;
    ensures before: NX_NO_NUL_AMONG(bytes, \result);
    ensures ended: \result < available ==> bytes[\result] == 0; */
static uint32_t find_nul(const uint8_t *bytes, uint32_t available) {
  uint32_t n = 0u;
  /*@ loop invariant within: n <= available;
      loop invariant before: NX_NO_NUL_AMONG(bytes, n);
      loop assigns n;
      loop variant available - n; */
  while (n < available && bytes[n] != 0u) n++;
  return n;
}

nxmem_verdict nxmem_check_name(const uint8_t *bytes, uint32_t available, uint32_t *length_out) {
  const uint32_t length = find_nul(bytes, available);
  if (length == available) return nx_verdict(NXMEM_REASON_UNTERMINATED_NAME, 0u, available, NXMEM_NAME_BUF);
  if (length == 0u) return nx_verdict(NXMEM_REASON_EMPTY_NAME, 0u, 0u, 1u);
  uint32_t at = 0u;
  /*@ loop invariant within: at <= length;
      loop invariant utf8_bytes: NX_UTF8_BYTES(bytes, at);
      loop invariant utf8_pairs: NX_UTF8_PAIRS(bytes, at);
      loop invariant printable: NX_NO_CONTROLS(bytes, at);
      loop assigns at;
      loop variant length - at; */
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

nxmem_verdict nxmem_check_fetched_name(uint64_t address, const uint8_t *bytes, uint32_t available,
                                       uint32_t *length_out) {
  if (address == 0u) return nx_verdict(NXMEM_REASON_NULL_POINTER, 0u, available, NXMEM_NAME_BUF);
  const nxmem_verdict v = nxmem_check_name(bytes, available, length_out);
  if (v.reason == NXMEM_REASON_UNTERMINATED_NAME && available < NXMEM_NAME_BUF)
    return nx_verdict(NXMEM_REASON_UNREADABLE, 0u, available, NXMEM_NAME_BUF);
  return v;
}

int nxmem_same_name(const uint8_t *a, const uint8_t *b) {
  uint32_t i = 0u;
  /*@ loop invariant within: i <= 255;
      loop invariant same: \forall integer k; 0 <= k < i ==> a[k] == b[k] && a[k] != 0;
      loop assigns i;
      loop variant 255 - i; */
  while (i < NXMEM_NAME_MAX && a[i] == b[i] && a[i] != 0u) i++;
  return a[i] == b[i];
}

int nxmem_same_mechanism(NxmemDeviceId a_device, const uint8_t *a, NxmemDeviceId b_device, const uint8_t *b) {
  return nxmem_same_device(a_device, b_device) && nxmem_same_name(a, b);
}
