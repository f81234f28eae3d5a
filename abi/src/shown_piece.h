/*
 * shown_piece.h: private to the core: what foreign text is shown in, piece by piece, and the words that status.c's contracts say of it.
 *
 * Attackers: text that would steer a terminal.
 * Promise: none of its own; declarations.
 */
#ifndef NX_SHOWN_PIECE_H
#define NX_SHOWN_PIECE_H

#include <stdint.h>

/* One piece of shown text: a character as it is, an escape, or the replacement character. */
typedef struct shown_piece {
  uint8_t bytes[6];
  uint32_t length;   /* 1 to 4, or 6 bytes of output */
  uint32_t consumed; /* 1 to 4 bytes of input */
} shown_piece;

#ifdef __FRAMAC__
/* clang-format off */
/* Words of the contracts on pieces of shown text. */
#define NX_HEX(digit) ((digit) < 10 ? 0x30 + (digit) : 0x57 + (digit))
#define NX_REPLACEMENT(p) \
  ((p)->length == 3 && (p)->bytes[0] == 0xEF && (p)->bytes[1] == 0xBF && (p)->bytes[2] == 0xBD && (p)->consumed == 1)
#define NX_ESCAPE(p, code_point, taken) \
  ((p)->length == 4 && (p)->bytes[0] == 0x5C && (p)->bytes[1] == 0x78 && \
   (p)->bytes[2] == NX_HEX((code_point) / 16) && (p)->bytes[3] == NX_HEX((code_point) % 16) && (p)->consumed == (taken))
#define NX_WIDE_ESCAPE(p, code_point, taken) \
  ((p)->length == 6 && (p)->bytes[0] == 0x5C && (p)->bytes[1] == 0x75 && \
   (p)->bytes[2] == NX_HEX((code_point) / 4096) && (p)->bytes[3] == NX_HEX((code_point) / 256 % 16) && \
   (p)->bytes[4] == NX_HEX((code_point) / 16 % 16) && (p)->bytes[5] == NX_HEX((code_point) % 16) && \
   (p)->consumed == (taken))
#define NX_VERBATIM(p, b, n) \
  ((p)->length == (n) && (p)->consumed == (n) && (p)->bytes[0] == (b)[0] && \
   ((n) > 1 ==> (p)->bytes[1] == (b)[1]) && ((n) > 2 ==> (p)->bytes[2] == (b)[2]) && \
   ((n) > 3 ==> (p)->bytes[3] == (b)[3]))
#define NX_PADDED(p) \
  (((p)->length < 2 ==> (p)->bytes[1] == 0) && ((p)->length < 3 ==> (p)->bytes[2] == 0) && \
   ((p)->length < 4 ==> (p)->bytes[3] == 0) && ((p)->length < 5 ==> (p)->bytes[4] == 0 && (p)->bytes[5] == 0))
#define NX_ESCAPED_BYTE(byte) (NX_CONTROL_BYTE(byte) || (byte) == 0x5C)
/* What any piece is, whatever it stands for: one character, or an escape in four or six printable ASCII bytes. */
#define NX_PRINTABLE_ASCII(byte) (0x20 <= (byte) <= 0x7E)
#define NX_PIECE_IS_TEXT(p) \
  (((p)->length == 1 && NX_PRINTABLE_ASCII((p)->bytes[0])) || \
   ((p)->length == 2 && NX_UTF8_2((p)->bytes, 2) && !NX_C1((p)->bytes, 2) && !NX_TURN_2((p)->bytes, 2)) || \
   ((p)->length == 3 && NX_UTF8_3((p)->bytes, 3) && !NX_TURN_3((p)->bytes, 3)) || \
   ((p)->length == 4 && NX_UTF8_4((p)->bytes, 4)) || \
   (((p)->length == 4 || (p)->length == 6) && NX_PRINTABLE_ASCII((p)->bytes[0]) && \
    NX_PRINTABLE_ASCII((p)->bytes[1]) && NX_PRINTABLE_ASCII((p)->bytes[2]) && NX_PRINTABLE_ASCII((p)->bytes[3]) && \
    ((p)->length == 6 ==> NX_PRINTABLE_ASCII((p)->bytes[4]) && NX_PRINTABLE_ASCII((p)->bytes[5]))))
#define NX_VERBATIM_AT(o, p) \
  ((o)[0] == (p)->bytes[0] && ((p)->length > 1 ==> (o)[1] == (p)->bytes[1]) && \
   ((p)->length > 2 ==> (o)[2] == (p)->bytes[2]) && ((p)->length > 3 ==> (o)[3] == (p)->bytes[3]) && \
   ((p)->length > 4 ==> (o)[4] == (p)->bytes[4]) && ((p)->length > 5 ==> (o)[5] == (p)->bytes[5]))
#define NX_PIECE_LENGTH(n) (1 <= (n) <= 4 || (n) == 6)
/* clang-format on */
#endif

#endif /* NX_SHOWN_PIECE_H */
