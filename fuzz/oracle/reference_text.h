/*
 * reference_text.h: UTF-8, names, messages and shown text, written a second time.
 * Attackers: none; it only ever sees bytes the harness owns.
 * Promise: a decoder that adds up bits and then asks whether the number was allowed; nothing from the core but the
 * names of its reasons.
 */
#ifndef NXMEM_FUZZ_REFERENCE_TEXT_H
#define NXMEM_FUZZ_REFERENCE_TEXT_H

#include <stdint.h>

#include "nxmem/verdict.h"

/* Bytes of the well-formed sequence at the start; 0 where there is none. *code_point is written where it is not 0. */
uint32_t ref_decode(const uint8_t *bytes, uint32_t available, uint32_t *code_point);

int ref_is_control(uint32_t code_point);

/*
 * 1 where `cut` bytes may be a message built from this text: all up to the first NUL where that fits 255. Beyond, the
 * cut is the last boundary
 * between characters not above 255 where the text is well-formed up to there; in malformed text any boundary within the
 * last
 * character's reach (252 to 255), as long as no well-formed character is split.
 */
int ref_is_message_cut(const uint8_t *text, uint32_t length, uint32_t cut);

/* The text as it must be shown, whole pieces only; returns the bytes before the NUL. `out` holds `capacity` bytes. */
uint32_t ref_show(const uint8_t *bytes, uint32_t length, uint8_t *out, uint32_t capacity);

/* 1 where `shown`, read backwards into bytes, accounts for every byte of the text in order. */
int ref_shows_all(const uint8_t *bytes, uint32_t length, const uint8_t *shown, uint32_t shown_length);

/* 1 where the bytes are well-formed and none of them steers a terminal. */
int ref_is_printable(const uint8_t *bytes, uint32_t length);

nxmem_verdict ref_name(const uint8_t *bytes, uint32_t available, uint32_t *length);

#endif /* NXMEM_FUZZ_REFERENCE_TEXT_H */
