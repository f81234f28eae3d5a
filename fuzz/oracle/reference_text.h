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

/* A text decoded once, at every position with all that is left of it: what is asked about it is asked more than once. */
enum { REF_TEXT_MAX = 270 };
typedef struct ref_text {
  const uint8_t *bytes;
  uint32_t length;
  uint8_t steps[REF_TEXT_MAX];   /* what ref_decode() answers there */
  uint32_t points[REF_TEXT_MAX]; /* where that is not 0 */
} ref_text;

/* Decoded from `from` on. `length` is at most REF_TEXT_MAX; the bytes stay the caller's and must stay. */
void ref_text_read(ref_text *text, const uint8_t *bytes, uint32_t length, uint32_t from);

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

/* The text from there on as it must be shown where there is room for all of it, and what of it a smaller room holds. */
enum { REF_SHOWN_MAX = 4 * REF_TEXT_MAX };
typedef struct ref_shown {
  uint32_t length;
  uint32_t fits; /* bytes, in whole pieces, of the room that was asked about */
  uint8_t bytes[REF_SHOWN_MAX];
} ref_shown;
/* `room`: for so many bytes and a NUL. */
void ref_show_all(const ref_text *text, uint32_t from, uint32_t room, ref_shown *out);

/*
 * 1 where `shown`, read backwards into bytes, accounts for every byte of the text in order, and nothing in it steers a
 * terminal.
 */
int ref_shows_all(const ref_text *text, uint32_t from, const uint8_t *shown, uint32_t shown_length);

/* 1 where the bytes are well-formed and none of them steers a terminal. */
int ref_is_printable(const uint8_t *bytes, uint32_t length);

nxmem_verdict ref_name(const uint8_t *bytes, uint32_t available, uint32_t *length);

#endif /* NXMEM_FUZZ_REFERENCE_TEXT_H */
