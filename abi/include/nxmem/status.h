/*
 * status.h: building and reading NxmemStatus, and showing text that came from the other side.
 *
 * Attackers: a peer that writes lying lengths, unterminated or invalid UTF-8 text, terminal escapes.
 * Promise: built messages are cut on a character boundary with a zero tail; what is shown is printable UTF-8 on one
 * line.
 */
#ifndef NXMEM_STATUS_H
#define NXMEM_STATUS_H

#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __FRAMAC__
/* clang-format off */
/*
 * Words of the contracts. Reasons by the status they stand for; what is in none of these is INTERNAL_ERROR, NONE is
 * OK.
 */
#define NX_MEANS_SHORT(r) \
  ((r) == NXMEM_REASON_SHORT_HEADER || (r) == NXMEM_REASON_SHORT_TABLE || (r) == NXMEM_REASON_MISSING_SLOT || \
   (r) == NXMEM_REASON_SHORT_RESPONSE || (r) == NXMEM_REASON_SHORT_REQUEST || (r) == NXMEM_REASON_REPORT_SHORT || \
   (r) == NXMEM_REASON_SHORT_COMPLETION || (r) == NXMEM_REASON_SHORT_PREFIX)
#define NX_MEANS_INVALID(r) \
  ((r) == NXMEM_REASON_NULL_POINTER || (r) == NXMEM_REASON_MISALIGNED || (r) == NXMEM_REASON_ZERO_MECHANISM || \
   (r) == NXMEM_REASON_EMPTY_NAME || (r) == NXMEM_REASON_UNTERMINATED_NAME || (r) == NXMEM_REASON_BAD_UTF8 || \
   (r) == NXMEM_REASON_CONTROL_CHARACTER || (r) == NXMEM_REASON_NULL_ADDRESS || \
   (r) == NXMEM_REASON_MISALIGNED_ADDRESS || (r) == NXMEM_REASON_WRAPPING_ADDRESS || \
   (r) == NXMEM_REASON_TOTAL_TOO_LARGE || (r) == NXMEM_REASON_ZERO_BYTES || (r) == NXMEM_REASON_BAD_ALIGNMENT || \
   (r) == NXMEM_REASON_SIZE_WRAPS || (r) == NXMEM_REASON_TOO_MANY || (r) == NXMEM_REASON_LISTED_TWICE || \
   (r) == NXMEM_REASON_SAME_NAME || (r) == NXMEM_REASON_UNREADABLE || (r) == NXMEM_REASON_OTHER_TICKET || \
   (r) == NXMEM_REASON_OFFSET_OUTSIDE || (r) == NXMEM_REASON_BYTES_OUTSIDE || (r) == NXMEM_REASON_OTHER_ADDRESS || \
   (r) == NXMEM_REASON_OTHER_BYTES || (r) == NXMEM_REASON_OTHER_ALIGNMENT || \
   (r) == NXMEM_REASON_TOO_MANY_RANGES || (r) == NXMEM_REASON_MORE_THAN_POSSIBLE || \
   (r) == NXMEM_REASON_NO_PREFIX_HANDLE || (r) == NXMEM_REASON_OTHER_REQUEST || (r) == NXMEM_REASON_OVERLAP)
#define NX_MEANS_WRONG_DEVICE(r) ((r) == NXMEM_REASON_OTHER_DEVICE || (r) == NXMEM_REASON_UNKNOWN_TIER)
#define NX_MEANS_CAPABILITY(r) \
  ((r) == NXMEM_REASON_UNKNOWN_CAPABILITY || (r) == NXMEM_REASON_TABLE_WITHOUT_FLAG || \
   (r) == NXMEM_REASON_FLAG_WITHOUT_SLOT || (r) == NXMEM_REASON_NO_ALLOCATOR || \
   (r) == NXMEM_REASON_REQUIRED_MISSING || (r) == NXMEM_REASON_CAPS_BEYOND_OFFER || \
   (r) == NXMEM_REASON_CAPS_BEYOND_LEVEL)
#define NX_MEANS_VERSION(r) \
  ((r) == NXMEM_REASON_INVERTED_RANGE || (r) == NXMEM_REASON_NO_COMMON_MAJOR || \
   (r) == NXMEM_REASON_NO_COMMON_MINOR || (r) == NXMEM_REASON_MAJOR_OUT_OF_RANGE || \
   (r) == NXMEM_REASON_MINOR_OUT_OF_RANGE)
#define NX_MEANS_UNKNOWN_ALLOCATION(r) \
  ((r) == NXMEM_REASON_STALE_HANDLE || (r) == NXMEM_REASON_WRONG_STATE || \
   (r) == NXMEM_REASON_UNKNOWN_ALLOCATION || (r) == NXMEM_REASON_OTHER_OWNER || (r) == NXMEM_REASON_NOT_QUEUED)
#define NX_MEANS_BUSY(r) \
  ((r) == NXMEM_REASON_PLUGIN_HOLDS || (r) == NXMEM_REASON_HOST_HOLDS || (r) == NXMEM_REASON_IN_USE || \
   (r) == NXMEM_REASON_TOO_MANY_USERS)
#define NX_MEANS_OTHER(r) \
  ((r) != NXMEM_REASON_NONE && (r) != NXMEM_REASON_OTHER_MECHANISM && !NX_MEANS_SHORT(r) && !NX_MEANS_INVALID(r) && \
   !NX_MEANS_WRONG_DEVICE(r) && !NX_MEANS_CAPABILITY(r) && !NX_MEANS_VERSION(r) && \
   !NX_MEANS_UNKNOWN_ALLOCATION(r) && !NX_MEANS_BUSY(r))

/* Well-formed UTF-8 of one to four bytes at b, of which n may be looked at: Unicode 15, table 3-7, row by row. */
#define NX_TAIL(byte) (0x80 <= (byte) <= 0xBF)
#define NX_UTF8_1(b, n) ((n) >= 1 && (b)[0] <= 0x7F)
#define NX_UTF8_2(b, n) ((n) >= 2 && 0xC2 <= (b)[0] <= 0xDF && NX_TAIL((b)[1]))
#define NX_UTF8_3(b, n) \
  ((n) >= 3 && NX_TAIL((b)[2]) && \
   (((b)[0] == 0xE0 && 0xA0 <= (b)[1] <= 0xBF) || (0xE1 <= (b)[0] <= 0xEC && NX_TAIL((b)[1])) || \
    ((b)[0] == 0xED && 0x80 <= (b)[1] <= 0x9F) || (0xEE <= (b)[0] <= 0xEF && NX_TAIL((b)[1]))))
#define NX_UTF8_4(b, n) \
  ((n) >= 4 && NX_TAIL((b)[2]) && NX_TAIL((b)[3]) && \
   (((b)[0] == 0xF0 && 0x90 <= (b)[1] <= 0xBF) || (0xF1 <= (b)[0] <= 0xF3 && NX_TAIL((b)[1])) || \
    ((b)[0] == 0xF4 && 0x80 <= (b)[1] <= 0x8F)))
#define NX_UTF8(b, n) (NX_UTF8_1(b, n) || NX_UTF8_2(b, n) || NX_UTF8_3(b, n) || NX_UTF8_4(b, n))

/* The control characters, as they stand in UTF-8: C0 and DEL in one byte, C1 in two. */
#define NX_CONTROL_BYTE(byte) ((byte) <= 0x1F || (byte) == 0x7F)
#define NX_C1(b, n) ((n) >= 2 && (b)[0] == 0xC2 && 0x80 <= (b)[1] <= 0x9F)
/*
 * What ends a line or turns the direction of writing: U+061C in two bytes; U+200E and U+200F, U+2028 to U+202E, U+2066
 * to U+2069 in three.
 */
#define NX_TURNS_2(lead, byte) ((lead) == 0xD8 && (byte) == 0x9C)
#define NX_TURNS_3(lead, second, third) \
  ((lead) == 0xE2 && (((second) == 0x80 && (0x8E <= (third) <= 0x8F || 0xA8 <= (third) <= 0xAE)) || \
                      ((second) == 0x81 && 0xA6 <= (third) <= 0xA9)))
#define NX_TURN_2(b, n) ((n) >= 2 && NX_TURNS_2((b)[0], (b)[1]))
#define NX_TURN_3(b, n) ((n) >= 3 && NX_TURNS_3((b)[0], (b)[1], (b)[2]))
#define NX_TURNS(code_point) \
  ((code_point) == 0x61C || 0x200E <= (code_point) <= 0x200F || 0x2028 <= (code_point) <= 0x202E || \
   0x2066 <= (code_point) <= 0x2069)

/*
 * The first n bytes of b are whole UTF-8 characters: no byte that never occurs, no tail byte in the first place, each
 * lead byte with its tails within n, and behind each character no tail byte. Said of pairs of bytes at most four
 * apart, so that a prover meets no chain of neighbours.
 */
#define NX_SECOND(lead, byte) \
  (NX_TAIL(byte) && ((lead) == 0xE0 ==> (byte) >= 0xA0) && ((lead) == 0xED ==> (byte) <= 0x9F) && \
   ((lead) == 0xF0 ==> (byte) >= 0x90) && ((lead) == 0xF4 ==> (byte) <= 0x8F))
#define NX_FOLLOWS(lead, byte, apart) \
  (((lead) <= 0x7F ==> (apart) == 1 ==> !NX_TAIL(byte)) && \
   (0xC2 <= (lead) ==> (apart) == 1 ==> NX_SECOND(lead, byte)) && \
   (0xC2 <= (lead) <= 0xDF ==> (apart) == 2 ==> !NX_TAIL(byte)) && \
   (0xE0 <= (lead) ==> (apart) == 2 ==> NX_TAIL(byte)) && \
   (0xE0 <= (lead) <= 0xEF ==> (apart) == 3 ==> !NX_TAIL(byte)) && \
   (0xF0 <= (lead) ==> (apart) == 3 ==> NX_TAIL(byte)) && \
   (0xF0 <= (lead) ==> (apart) == 4 ==> !NX_TAIL(byte)))
#define NX_UTF8_BYTES(b, n) \
  (((n) > 0 ==> !NX_TAIL((b)[0])) && \
   (\forall integer k; 0 <= k < (n) ==> (b)[k] <= 0xBF || 0xC2 <= (b)[k] <= 0xF4) && \
   (\forall integer k; 0 <= k < (n) ==> ((b)[k] >= 0xC2 ==> k + 1 < (n)) && ((b)[k] >= 0xE0 ==> k + 2 < (n)) && \
                                        ((b)[k] >= 0xF0 ==> k + 3 < (n))))
#define NX_UTF8_PAIRS(b, n) \
  (\forall integer k, j; 0 <= k < (n) && k < j <= k + 4 ==> j < (n) ==> NX_FOLLOWS((b)[k], (b)[j], j - k))
/* The first n bytes of a text of `whole` bytes, as far as these n can tell whether it is whole UTF-8 characters. */
#define NX_UTF8_SO_FAR(b, n, whole) \
  (((n) > 0 ==> !NX_TAIL((b)[0])) && \
   (\forall integer k; 0 <= k < (n) ==> (b)[k] <= 0xBF || 0xC2 <= (b)[k] <= 0xF4) && \
   (\forall integer k; 0 <= k < (n) ==> ((b)[k] >= 0xC2 ==> k + 1 < (whole)) && \
                                        ((b)[k] >= 0xE0 ==> k + 2 < (whole)) && \
                                        ((b)[k] >= 0xF0 ==> k + 3 < (whole))) && \
   NX_UTF8_PAIRS(b, n))
/* And no character among them is a control. */
#define NX_NO_CONTROLS(b, n) \
  ((\forall integer k; 0 <= k < (n) ==> !NX_CONTROL_BYTE((b)[k])) && \
   (\forall integer k, j; 0 <= k < (n) && k < j <= k + 1 ==> j < (n) ==> (b)[k] == 0xC2 ==> (b)[j] >= 0xA0) && \
   (\forall integer k, j; 0 <= k < (n) && k < j <= k + 1 ==> j < (n) ==> !NX_TURNS_2((b)[k], (b)[j])) && \
   (\forall integer k, i, j; 0 <= k < (n) && k < i <= k + 1 && i < j <= i + 1 ==> j < (n) ==> \
                              !NX_TURNS_3((b)[k], (b)[i], (b)[j])))
#define NX_TEXT(b, n) (NX_UTF8_BYTES(b, n) && NX_UTF8_PAIRS(b, n) && NX_NO_CONTROLS(b, n))

/* Text that is shown as it is. */
#define NX_SHOWN_AS_IS(b, n) (NX_TEXT(b, n) && (\forall integer k; 0 <= k < (n) ==> (b)[k] != 0x5C))

#define NX_NO_NUL(b, n) (\forall integer k; 0 <= k < (n) ==> (b)[k] != 0)
/*
 * Where a text that fills the buffer is cut: before the last byte up to 255 that is no tail, 255 where the last four
 * are tails.
 */
#define NX_CUT(b) \
  (!NX_TAIL((b)[255]) ? 255 : !NX_TAIL((b)[254]) ? 254 : !NX_TAIL((b)[253]) ? 253 : !NX_TAIL((b)[252]) ? 252 : 255)
/* Of a text of n bytes a message is made from so many at most. */
#define NX_LOOKED_AT(n) ((n) < 256 ? (n) : 256)
/* A message that ends where it says: text without a NUL, then zeros to the end of the buffer. */
#define NX_MESSAGE_ENDED(s) \
  ((s)->message_len <= 255 && (\forall integer k; 0 <= k < (s)->message_len ==> (s)->message[k] != 0) && \
   (\forall integer k; (s)->message_len <= k < 256 ==> (s)->message[k] == 0))
#define NX_CLAMPED(claimed) ((claimed) < 255 ? (claimed) : 255)
/* Taken from memory that stood still: all bytes up to the first NUL or the clamped length. */
#define NX_MESSAGE_TAKEN(to, from) \
  ((\forall integer k; 0 <= k < (to)->message_len ==> (to)->message[k] == (from)->message[k]) && \
   (to)->message_len <= NX_CLAMPED((from)->message_len) && \
   ((to)->message_len < NX_CLAMPED((from)->message_len) ==> (from)->message[(to)->message_len] == 0))
/*
 * Taken from memory that may move: which bytes of the status were loaded; none behind the one that ended the message.
 */
#define NX_STATUS_LOADED(to) \
  (NX_LOADED(NX_STATUS_AT) && NX_LOADED(NX_STATUS_AT + 4) && \
   (\forall integer k; 0 <= k < (to)->message_len ==> NX_LOADED(NX_STATUS_AT + 8 + k)) && \
   NX_NOTHING_LOADED_FROM(NX_STATUS_AT + 8 + (to)->message_len + 1) && NX_NOTHING_LOADED_FROM(NX_STATUS_AT + 263))
/* clang-format on */
#endif
/*
 * The wire status code that stands for a reason. OK for NXMEM_REASON_NONE; INTERNAL_ERROR for a reason that does not
 * exist.
 */
/*@ assigns \nothing;
    behavior accepted:
      assumes none: reason == NXMEM_REASON_NONE;
      ensures code: \result == 0;
    behavior short_struct:
      assumes means: NX_MEANS_SHORT(reason);
      ensures code: \result == 2;
    behavior unsupported_capability:
      assumes means: NX_MEANS_CAPABILITY(reason);
      ensures code: \result == 3;
    behavior version_mismatch:
      assumes means: NX_MEANS_VERSION(reason);
      ensures code: \result == 1;
    behavior invalid_argument:
      assumes means: NX_MEANS_INVALID(reason);
      ensures code: \result == 4;
    behavior wrong_device:
      assumes means: NX_MEANS_WRONG_DEVICE(reason);
      ensures code: \result == 9;
    behavior wrong_mechanism:
      assumes means: reason == NXMEM_REASON_OTHER_MECHANISM;
      ensures code: \result == 10;
    behavior unknown_allocation:
      assumes means: NX_MEANS_UNKNOWN_ALLOCATION(reason);
      ensures code: \result == 11;
    behavior busy:
      assumes means: NX_MEANS_BUSY(reason);
      ensures code: \result == 14;
    behavior internal_error:
      assumes means: NX_MEANS_OTHER(reason);
      ensures code: \result == 5;
    complete behaviors;
    disjoint behaviors; */
uint32_t nxmem_reason_status(uint32_t reason);

/*
 * Length in bytes (1 to 4) of the well-formed UTF-8 sequence at the start of `bytes`; 0 where there is none (Unicode
 * 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF). Looks at no more than `available` bytes.
 */
/*@ requires bytes_readable: \valid_read(bytes + (0 .. available - 1));
    assigns \nothing;
    behavior one:
      assumes row: NX_UTF8_1(bytes, available);
      ensures length: \result == 1;
    behavior two:
      assumes row: NX_UTF8_2(bytes, available);
      ensures length: \result == 2;
    behavior three:
      assumes row: NX_UTF8_3(bytes, available);
      ensures length: \result == 3;
    behavior four:
      assumes row: NX_UTF8_4(bytes, available);
      ensures length: \result == 4;
    behavior none:
      assumes no_row: !NX_UTF8(bytes, available);
      ensures length: \result == 0;
    complete behaviors;
    disjoint behaviors; */
uint32_t nxmem_utf8_length(const uint8_t *bytes, uint32_t available);

/* The code point of a sequence of `length` bytes that nxmem_utf8_length accepted. */
/*@ requires length: 1 <= length <= 4;
    requires bytes_readable: \valid_read(bytes + (0 .. length - 1));
    requires one_accepted: length == 1 ==> NX_UTF8_1(bytes, 1);
    requires two_accepted: length == 2 ==> NX_UTF8_2(bytes, 2);
    requires three_accepted: length == 3 ==> NX_UTF8_3(bytes, 3);
    requires four_accepted: length == 4 ==> NX_UTF8_4(bytes, 4);
    assigns \nothing;
    behavior one:
      assumes length_1: length == 1;
      ensures exact: \result == bytes[0];
      ensures range: \result <= 0x7F;
    behavior two:
      assumes length_2: length == 2;
      ensures exact: \result == (bytes[0] - 0xC0) * 64 + (bytes[1] - 0x80);
      ensures range: 0x80 <= \result <= 0x7FF;
    behavior three:
      assumes length_3: length == 3;
      ensures exact: \result == (bytes[0] - 0xE0) * 4096 + (bytes[1] - 0x80) * 64 + (bytes[2] - 0x80);
      ensures range: 0x800 <= \result <= 0xFFFF;
      ensures no_surrogate: \result < 0xD800 || \result > 0xDFFF;
    behavior four:
      assumes length_4: length == 4;
      ensures exact: \result == (bytes[0] - 0xF0) * 262144 + (bytes[1] - 0x80) * 4096 + (bytes[2] - 0x80) * 64 +
                                (bytes[3] - 0x80);
      ensures range: 0x10000 <= \result <= 0x10FFFF;
    complete behaviors;
    disjoint behaviors; */
uint32_t nxmem_utf8_code_point(const uint8_t *bytes, uint32_t length);

/*
 * C0 controls, DEL, C1 controls, what separates lines (U+2028, U+2029) and what turns the direction of writing (U+061C,
 * U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069): what would steer a terminal, or show text in another order than
 * it has. 1 or 0.
 */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> code_point <= 0x1F || 0x7F <= code_point <= 0x9F || NX_TURNS(code_point); */
int nxmem_is_control(uint32_t code_point);

/*
 * Fill *out with a code and a message. The message ends at the first NUL of `text`, after `text_len` bytes, or at the
 * last character boundary not above NXMEM_STATUS_MESSAGE_MAX; everything behind it is zero, so no stack bytes reach
 * the peer. No more than 256 bytes of `text` are looked at; it may be NULL when text_len is 0.
 */
/*@ requires text_readable: \valid_read(text + (0 .. NX_LOOKED_AT(text_len) - 1));
    requires out_writable: \valid(out);
    requires apart: \separated(out, text + (0 .. NX_LOOKED_AT(text_len) - 1));
    assigns *out;
    ensures code: out->code == code;
    ensures text: NX_MESSAGE_ENDED(out);
    ensures within: out->message_len <= text_len;
    ensures copied: \forall integer k; 0 <= k < out->message_len ==> out->message[k] == text[k];
    ensures ended: out->message_len == text_len || text[out->message_len] == 0 ||
                   (text_len >= 256 && NX_NO_NUL(text, 256));
    ensures cut: text_len >= 256 && NX_NO_NUL(text, 256) ==> out->message_len == NX_CUT(text);
    ensures stays_utf8_bytes: NX_UTF8_SO_FAR(text, NX_LOOKED_AT(text_len), text_len) ==>
                              NX_UTF8_BYTES(out->message, out->message_len);
    ensures stays_utf8_pairs: NX_UTF8_SO_FAR(text, NX_LOOKED_AT(text_len), text_len) ==>
                              NX_UTF8_PAIRS(out->message, out->message_len); */
void nxmem_status_build(NxmemStatus *out, uint32_t code, const uint8_t *text, uint32_t text_len);

/* Meaningful bytes of a message: what the sender claims, at most NXMEM_STATUS_MESSAGE_MAX. */
/*@ assigns \nothing;
    ensures clamped: \result == NX_CLAMPED(claimed); */
uint32_t nxmem_status_message_len(uint32_t claimed);

/*
 * Copy a status out of memory that the other side may still write, each byte once; the copy's message_len is clamped
 * and its tail zero. A NUL inside the claimed length ends the message there.
 */
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out);
    assigns *out;
    ensures code: out->code == src->code;
    ensures text: NX_MESSAGE_ENDED(out);
    ensures copied: NX_MESSAGE_TAKEN(out, src); */
#else
/*@ requires src_readable: \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(NX_STATUS_AT);
    assigns *out, NX_STATUS_LEDGER;
    ensures text: NX_MESSAGE_ENDED(out);
    ensures loads: NX_STATUS_LOADED(out); */
#endif
void nxmem_status_take(NXMEM_UNTRUSTED NxmemStatus *src, NxmemStatus *out);

/*
 * Write at most capacity-1 bytes of printable one-line UTF-8 and a NUL to `out`; returns the bytes before the NUL.
 * Invalid bytes become U+FFFD, one for one; what nxmem_is_control names and backslash become \xNN, or \uNNNN above FF;
 * nothing is dropped. Output that does not fit ends before the first piece that does not fit. capacity at least 1;
 * `bytes` may be NULL when length is 0.
 */
/*@ requires capacity: capacity >= 1;
    requires bytes_readable: \valid_read(bytes + (0 .. length - 1));
    requires out_writable: \valid(out + (0 .. capacity - 1));
    requires apart: \separated(bytes + (0 .. length - 1), out + (0 .. capacity - 1));
    assigns out[0 .. capacity - 1];
    ensures within: \result < capacity;
    ensures ended: out[\result] == 0;
    ensures utf8_bytes: NX_UTF8_BYTES(out, \result);
    ensures utf8_pairs: NX_UTF8_PAIRS(out, \result);
    ensures printable: NX_NO_CONTROLS(out, \result);
    ensures nothing_dropped: \result >= length || capacity - \result <= 6;
    ensures nothing_invented: \result <= 4 * length;
    ensures as_is: \old(NX_SHOWN_AS_IS(bytes, length)) && length < capacity ==>
                   \result == length && (\forall integer k; 0 <= k < length ==> out[k] == bytes[k]); */
uint32_t nxmem_text_show(const uint8_t *bytes, uint32_t length, uint8_t *out, uint32_t capacity);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_STATUS_H */
