/*
 * status.h: building and reading NxmemStatus, and showing text that came from the other side.
 *
 * Attackers: a peer that writes lying lengths, unterminated or invalid UTF-8 text, terminal escapes.
 * Promise: built messages are cut on a character boundary with a zero tail; what is shown is printable UTF-8 on one line.
 */
#ifndef NXMEM_STATUS_H
#define NXMEM_STATUS_H

#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The wire status code that stands for a reason. OK for NXMEM_REASON_NONE; INTERNAL_ERROR for a reason that does not exist. */
uint32_t nxmem_reason_status(uint32_t reason);

/*
 * Length in bytes (1 to 4) of the well-formed UTF-8 sequence at the start of `bytes`; 0 where there is none (Unicode 15, table 3-7:
 * no overlong forms, no surrogates, nothing above U+10FFFF). Looks at no more than `available` bytes.
 */
uint32_t nxmem_utf8_length(const uint8_t *bytes, uint32_t available);

/* The code point of a sequence of `length` bytes that nxmem_utf8_length accepted. */
uint32_t nxmem_utf8_code_point(const uint8_t *bytes, uint32_t length);

/* C0 controls, DEL, C1 controls: what would steer a terminal. 1 or 0. */
int nxmem_is_control(uint32_t code_point);

/*
 * Fill *out with a code and a message. The message ends at the first NUL of `text`, after `text_len` bytes, or at the last
 * character boundary not above NXMEM_STATUS_MESSAGE_MAX; everything behind it is zero, so no stack bytes reach the peer.
 * `text` may be NULL when text_len is 0.
 */
void nxmem_status_build(NxmemStatus *out, uint32_t code, const uint8_t *text, uint32_t text_len);

/* Meaningful bytes of a message: what the sender claims, at most NXMEM_STATUS_MESSAGE_MAX. */
uint32_t nxmem_status_message_len(uint32_t claimed);

/*
 * Copy a status out of memory that the other side may still write, each byte once; the copy's message_len is clamped and its
 * tail zero. A NUL inside the claimed length ends the message there.
 */
void nxmem_status_take(NXMEM_UNTRUSTED NxmemStatus *src, NxmemStatus *out);

/*
 * Write at most capacity-1 bytes of printable one-line UTF-8 and a NUL to `out`; returns the bytes before the NUL. Invalid bytes become
 * U+FFFD, one for one; control characters and backslash become \xNN; nothing is dropped. Output that does not fit ends before the first piece
 * that does not fit. capacity at least 1; `bytes` may be NULL when length is 0.
 */
uint32_t nxmem_text_show(const uint8_t *bytes, uint32_t length, uint8_t *out, uint32_t capacity);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_STATUS_H */
