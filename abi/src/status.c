/*
 * status.c: NxmemStatus and the showing of foreign text.
 *
 * Attackers: lying lengths, missing NULs, invalid UTF-8, terminal escapes.
 * Promise: no read outside the given bytes, no raw control byte in what is shown.
 */
#include "nxmem/status.h"

#include <stddef.h>

#include "load.h"
#include "shown_piece.h"

uint32_t nxmem_reason_status(uint32_t reason) {
  switch (reason) {
    case NXMEM_REASON_NONE:
      return NXMEM_STATUS_OK;
    case NXMEM_REASON_SHORT_HEADER:
    case NXMEM_REASON_SHORT_TABLE:
    case NXMEM_REASON_MISSING_SLOT:
    case NXMEM_REASON_SHORT_RESPONSE:
    case NXMEM_REASON_SHORT_REQUEST:
    case NXMEM_REASON_REPORT_SHORT:
    case NXMEM_REASON_SHORT_COMPLETION:
    case NXMEM_REASON_SHORT_PREFIX:
      return NXMEM_STATUS_SHORT_STRUCT;
    case NXMEM_REASON_NULL_POINTER:
    case NXMEM_REASON_MISALIGNED:
    case NXMEM_REASON_ZERO_MECHANISM:
    case NXMEM_REASON_EMPTY_NAME:
    case NXMEM_REASON_UNTERMINATED_NAME:
    case NXMEM_REASON_BAD_UTF8:
    case NXMEM_REASON_CONTROL_CHARACTER:
    case NXMEM_REASON_NULL_ADDRESS:
    case NXMEM_REASON_MISALIGNED_ADDRESS:
    case NXMEM_REASON_WRAPPING_ADDRESS:
    case NXMEM_REASON_TOTAL_TOO_LARGE:
    case NXMEM_REASON_ZERO_BYTES:
    case NXMEM_REASON_BAD_ALIGNMENT:
    case NXMEM_REASON_SIZE_WRAPS:
    case NXMEM_REASON_TOO_MANY:
    case NXMEM_REASON_LISTED_TWICE:
    case NXMEM_REASON_SAME_NAME:
    case NXMEM_REASON_UNREADABLE:
    case NXMEM_REASON_OTHER_TICKET:
    case NXMEM_REASON_OFFSET_OUTSIDE:
    case NXMEM_REASON_BYTES_OUTSIDE:
    case NXMEM_REASON_OTHER_ADDRESS:
    case NXMEM_REASON_OTHER_BYTES:
    case NXMEM_REASON_OTHER_ALIGNMENT:
    case NXMEM_REASON_TOO_MANY_RANGES:
    case NXMEM_REASON_MORE_THAN_POSSIBLE:
    case NXMEM_REASON_NO_PREFIX_HANDLE:
    case NXMEM_REASON_OTHER_REQUEST:
    case NXMEM_REASON_OVERLAP:
      return NXMEM_STATUS_INVALID_ARGUMENT;
    case NXMEM_REASON_OTHER_MECHANISM:
      return NXMEM_STATUS_WRONG_MECHANISM;
    case NXMEM_REASON_OTHER_DEVICE:
    case NXMEM_REASON_UNKNOWN_TIER:
      return NXMEM_STATUS_WRONG_DEVICE;
    case NXMEM_REASON_UNKNOWN_CAPABILITY:
    case NXMEM_REASON_TABLE_WITHOUT_FLAG:
    case NXMEM_REASON_FLAG_WITHOUT_SLOT:
    case NXMEM_REASON_NO_ALLOCATOR:
    case NXMEM_REASON_REQUIRED_MISSING:
    case NXMEM_REASON_CAPS_BEYOND_OFFER:
    case NXMEM_REASON_CAPS_BEYOND_LEVEL:
      return NXMEM_STATUS_UNSUPPORTED_CAPABILITY;
    case NXMEM_REASON_INVERTED_RANGE:
    case NXMEM_REASON_NO_COMMON_MAJOR:
    case NXMEM_REASON_NO_COMMON_MINOR:
    case NXMEM_REASON_MAJOR_OUT_OF_RANGE:
    case NXMEM_REASON_MINOR_OUT_OF_RANGE:
      return NXMEM_STATUS_VERSION_MISMATCH;
    case NXMEM_REASON_STALE_HANDLE:
    case NXMEM_REASON_WRONG_STATE:
    case NXMEM_REASON_UNKNOWN_ALLOCATION:
    case NXMEM_REASON_OTHER_OWNER:
    case NXMEM_REASON_NOT_QUEUED:
      return NXMEM_STATUS_UNKNOWN_ALLOCATION;
    case NXMEM_REASON_PLUGIN_HOLDS:
    case NXMEM_REASON_HOST_HOLDS:
    case NXMEM_REASON_IN_USE:
    case NXMEM_REASON_TOO_MANY_USERS:
      return NXMEM_STATUS_BUSY;
    default: /* PLUGIN_REFUSED, REPORT_FAILED, REPORT_UNWRITTEN, and what does not exist */
      return NXMEM_STATUS_INTERNAL_ERROR;
  }
}

/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_TAIL(byte); */
static int is_continuation(uint8_t byte) { return byte >= 0x80u && byte <= 0xBFu; }

/* Whether `second` may follow `lead` in a sequence of three or four bytes: the ranges of Unicode's table 3-7. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures least: \result == 1 ==> second >= (lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80);
    ensures greatest: \result == 1 ==> second <= (lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF);
    ensures all: (lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80) <= second <=
                 (lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF) ==> \result == 1; */
static int second_byte_fits(uint8_t lead, uint8_t second) {
  if (lead == 0xE0u) return second >= 0xA0u && second <= 0xBFu;
  if (lead == 0xEDu) return second >= 0x80u && second <= 0x9Fu;
  if (lead == 0xF0u) return second >= 0x90u && second <= 0xBFu;
  if (lead == 0xF4u) return second >= 0x80u && second <= 0x8Fu;
  return is_continuation(second);
}

uint32_t nxmem_utf8_length(const uint8_t *bytes, uint32_t available) {
  if (available == 0u) return 0u;
  const uint8_t lead = bytes[0];
  if (lead < 0x80u) return 1u;
  if (lead < 0xC2u || lead > 0xF4u) return 0u;
  if (available < 2u || !second_byte_fits(lead, bytes[1])) return 0u;
  if (lead < 0xE0u) return 2u;
  if (available < 3u || !is_continuation(bytes[2])) return 0u;
  if (lead < 0xF0u) return 3u;
  if (available < 4u || !is_continuation(bytes[3])) return 0u;
  return 4u;
}

uint32_t nxmem_utf8_code_point(const uint8_t *bytes, uint32_t length) {
  const uint32_t lead = bytes[0];
  if (length == 1u) return lead;
  if (length == 2u) return (lead - 0xC0u) * 64u + (bytes[1] - 0x80u);
  if (length == 3u) return (lead - 0xE0u) * 4096u + (bytes[1] - 0x80u) * 64u + (bytes[2] - 0x80u);
  return (lead - 0xF0u) * 262144u + (bytes[1] - 0x80u) * 4096u + (bytes[2] - 0x80u) * 64u + (bytes[3] - 0x80u);
}

/* Line and paragraph separators, and what turns the direction of writing. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_TURNS(code_point); */
static int turns(uint32_t code_point) {
  return code_point == 0x61Cu || code_point == 0x200Eu || code_point == 0x200Fu ||
         (code_point >= 0x2028u && code_point <= 0x202Eu) || (code_point >= 0x2066u && code_point <= 0x2069u);
}

/* C0, DEL, C1: of two digits. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> code_point <= 0x1F || 0x7F <= code_point <= 0x9F; */
static int steers(uint32_t code_point) { return code_point < 0x20u || (code_point >= 0x7Fu && code_point <= 0x9Fu); }

int nxmem_is_control(uint32_t code_point) { return steers(code_point) || turns(code_point); }

/* Bytes before the first NUL, at most `limit`. */
/*@ requires text_readable: \valid_read(text + (0 .. limit - 1));
    assigns \nothing;
    ensures within: \result <= limit;
    ensures before: NX_NO_NUL(text, \result);
    ensures ended: \result < limit ==> text[\result] == 0; */
static uint32_t bytes_before_nul(const uint8_t *text, uint32_t limit) {
  uint32_t n = 0u;
  /*@ loop invariant within: n <= limit;
      loop invariant before: NX_NO_NUL(text, n);
      loop assigns n;
      loop variant limit - n; */
  while (n < limit && text[n] != 0u) n++;
  return n;
}

/*
 * The last character boundary of `text` not above NXMEM_STATUS_MESSAGE_MAX. A character has at most three
 * continuation bytes: where four stand up to 255, the last is part of none, and a cut before any other could split
 * one.
 */
/*@ requires text_readable: length >= 256 ==> \valid_read(text + (252 .. 255));
    assigns \nothing;
    behavior whole:
      assumes fits: length <= 255;
      ensures kept: \result == length;
    behavior cut:
      assumes too_long: length >= 256;
      ensures boundary: \result == NX_CUT(text);
    complete behaviors;
    disjoint behaviors; */
static uint32_t cut_on_boundary(const uint8_t *text, uint32_t length) {
  if (length <= NXMEM_STATUS_MESSAGE_MAX) return length;
  if (!is_continuation(text[255])) return 255u;
  if (!is_continuation(text[254])) return 254u;
  if (!is_continuation(text[253])) return 253u;
  if (!is_continuation(text[252])) return 252u;
  return 255u;
}

/*@ requires text_readable: \valid_read(text + (0 .. length - 1));
    requires length: length <= 256;
    requires out_writable: \valid(out + (0 .. 255));
    requires apart: \separated(out + (0 .. 255), text + (0 .. length - 1));
    assigns out[0 .. 255];
    ensures copied: \forall integer k; 0 <= k < length ==> out[k] == text[k];
    ensures zero: \forall integer k; length <= k < 256 ==> out[k] == 0; */
static void copy_then_zero(uint8_t *out, const uint8_t *text, uint32_t length) {
  /*@ loop invariant within: i <= 256;
      loop invariant copied: \forall integer k; 0 <= k < i && k < length ==> out[k] == text[k];
      loop invariant zero: \forall integer k; length <= k < i ==> out[k] == 0;
      loop assigns i, out[0 .. 255];
      loop variant 256 - i; */
  for (uint32_t i = 0u; i < NXMEM_STATUS_MESSAGE_BUF; i++) out[i] = i < length ? text[i] : (uint8_t)0u;
}

void nxmem_status_build(NxmemStatus *out, uint32_t code, const uint8_t *text, uint32_t text_len) {
  const uint32_t looked_at = text_len <= NXMEM_STATUS_MESSAGE_BUF ? text_len : NXMEM_STATUS_MESSAGE_BUF;
  const uint32_t length = cut_on_boundary(text, bytes_before_nul(text, looked_at));
  out->code = code;
  out->message_len = length;
  copy_then_zero(out->message, text, length);
}

uint32_t nxmem_status_message_len(uint32_t claimed) {
  return claimed <= NXMEM_STATUS_MESSAGE_MAX ? claimed : NXMEM_STATUS_MESSAGE_MAX;
}

void nxmem_status_take(NXMEM_UNTRUSTED NxmemStatus *src, NxmemStatus *out) {
  out->code = NX_LOAD_STATUS(src, code);
  const uint32_t claimed = nxmem_status_message_len(NX_LOAD_STATUS(src, message_len));
  uint32_t length = 0u;
#ifdef NXMEM_QUIET_WORLD
  /*@ loop invariant within: length <= i <= 256 && length <= claimed;
      loop invariant text: NX_NO_NUL(out->message, length);
      loop invariant zero: \forall integer k; length <= k < i ==> out->message[k] == 0;
      loop invariant copied: \forall integer k; 0 <= k < length ==> out->message[k] == src->message[k];
      loop invariant ended: length < i && length < claimed ==> src->message[length] == 0;
      loop assigns i, length, out->message[0 .. 255];
      loop variant 256 - i; */
#else
  /*@ loop invariant within: length <= i <= 256 && length <= claimed;
      loop invariant text: NX_NO_NUL(out->message, length);
      loop invariant zero: \forall integer k; length <= k < i ==> out->message[k] == 0;
      loop invariant header: NX_LOADED(NX_STATUS_AT) && NX_LOADED(NX_STATUS_AT + 4);
      loop invariant loaded: \forall integer k; NX_STATUS_AT + 8 <= k < NX_STATUS_AT + 8 + length ==> NX_LOADED(k);
      loop invariant no_further: NX_NOTHING_LOADED_FROM(NX_STATUS_AT + 8 + i);
      loop invariant ended: length < i ==> NX_NOTHING_LOADED_FROM(NX_STATUS_AT + 8 + length + 1);
      loop invariant clamped: NX_NOTHING_LOADED_FROM(NX_STATUS_AT + 8 + claimed);
      loop assigns i, length, out->message[0 .. 255], nx_loads[NX_STATUS_AT + 8 .. 511];
      loop variant 256 - i; */
#endif
  for (uint32_t i = 0u; i < NXMEM_STATUS_MESSAGE_BUF; i++) {
    uint8_t byte = 0u;
    if (i < claimed && length == i) byte = NX_LOAD_MESSAGE(src, i);
    out->message[i] = byte;
    if (byte != 0u) length = i + 1u;
  }
  out->message_len = length;
}

/*@ requires digit: value < 16;
    assigns \nothing;
    ensures exact: \result == NX_HEX(value); */
static uint8_t hex_digit(uint32_t value) { return (uint8_t)(value < 10u ? 48u + value : 87u + value); }

/*@ requires piece_writable: \valid(piece);
    assigns *piece;
    ensures replacement: NX_REPLACEMENT(piece);
    ensures padded: NX_PADDED(piece); */
static void piece_replacement(shown_piece *piece) {
  piece->bytes[0] = 0xEFu;
  piece->bytes[1] = 0xBFu;
  piece->bytes[2] = 0xBDu;
  piece->bytes[3] = 0u;
  piece->bytes[4] = 0u;
  piece->bytes[5] = 0u;
  piece->length = 3u;
  piece->consumed = 1u;
}

/* C1 controls take two bytes in UTF-8; their code point fits the two digits. */
/*@ requires piece_writable: \valid(piece);
    requires two_digits: code_point <= 0xFF;
    assigns *piece;
    ensures escape: NX_ESCAPE(piece, code_point, consumed); */
static void piece_escape(shown_piece *piece, uint32_t code_point, uint32_t consumed) {
  piece->bytes[0] = (uint8_t)'\\';
  piece->bytes[1] = (uint8_t)'x';
  piece->bytes[2] = hex_digit(code_point / 16u);
  piece->bytes[3] = hex_digit(code_point % 16u);
  piece->bytes[4] = 0u;
  piece->bytes[5] = 0u;
  piece->length = 4u;
  piece->consumed = consumed;
}

/*@ requires piece_writable: \valid(piece);
    requires four_digits: code_point <= 0xFFFF;
    assigns *piece;
    ensures escape: NX_WIDE_ESCAPE(piece, code_point, consumed); */
static void piece_wide_escape(shown_piece *piece, uint32_t code_point, uint32_t consumed) {
  piece->bytes[0] = (uint8_t)'\\';
  piece->bytes[1] = (uint8_t)'u';
  piece->bytes[2] = hex_digit(code_point / 4096u);
  piece->bytes[3] = hex_digit(code_point / 256u % 16u);
  piece->bytes[4] = hex_digit(code_point / 16u % 16u);
  piece->bytes[5] = hex_digit(code_point % 16u);
  piece->length = 6u;
  piece->consumed = consumed;
}

/*@ requires piece_writable: \valid(piece);
    requires length: 1 <= length <= 4;
    requires bytes_readable: \valid_read(bytes + (0 .. length - 1));
    requires apart: \separated(piece, bytes + (0 .. length - 1));
    assigns *piece;
    ensures verbatim: NX_VERBATIM(piece, bytes, length);
    ensures padded: NX_PADDED(piece); */
static void piece_verbatim(shown_piece *piece, const uint8_t *bytes, uint32_t length) {
  piece->bytes[0] = bytes[0];
  piece->bytes[1] = length > 1u ? bytes[1] : (uint8_t)0u;
  piece->bytes[2] = length > 2u ? bytes[2] : (uint8_t)0u;
  piece->bytes[3] = length > 3u ? bytes[3] : (uint8_t)0u;
  piece->bytes[4] = 0u;
  piece->bytes[5] = 0u;
  piece->length = length;
  piece->consumed = length;
}

/*@ requires available: available >= 1;
    requires bytes_readable: \valid_read(bytes + (0 .. available - 1));
    requires piece_writable: \valid(piece);
    requires apart: \separated(piece, bytes + (0 .. available - 1));
    assigns *piece;
    ensures is_text: NX_PIECE_IS_TEXT(piece);
    ensures progress: 1 <= piece->consumed <= available;
    ensures nothing_dropped: piece->consumed <= piece->length <= 4 * piece->consumed;
    behavior invalid:
      assumes no_character: !NX_UTF8(bytes, available);
      ensures replacement: NX_REPLACEMENT(piece);
    behavior control:
      assumes one_byte: NX_ESCAPED_BYTE(bytes[0]);
      ensures escape: NX_ESCAPE(piece, bytes[0], 1);
    behavior control_c1:
      assumes two_bytes: NX_C1(bytes, available);
      ensures escape: NX_ESCAPE(piece, bytes[1], 2);
    behavior one:
      assumes row: NX_UTF8_1(bytes, available) && !NX_ESCAPED_BYTE(bytes[0]);
      ensures verbatim: NX_VERBATIM(piece, bytes, 1);
    behavior turn_two:
      assumes mark: NX_TURN_2(bytes, available);
      ensures escape: NX_WIDE_ESCAPE(piece, 0x61C, 2);
    behavior turn_three:
      assumes mark: NX_TURN_3(bytes, available);
      ensures escape: NX_WIDE_ESCAPE(piece, (bytes[0] - 0xE0) * 4096 + (bytes[1] - 0x80) * 64 + (bytes[2] - 0x80), 3);
    behavior two:
      assumes row: NX_UTF8_2(bytes, available) && !NX_C1(bytes, available) && !NX_TURN_2(bytes, available);
      ensures verbatim: NX_VERBATIM(piece, bytes, 2);
    behavior three:
      assumes row: NX_UTF8_3(bytes, available) && !NX_TURN_3(bytes, available);
      ensures verbatim: NX_VERBATIM(piece, bytes, 3);
    behavior four:
      assumes row: NX_UTF8_4(bytes, available);
      ensures verbatim: NX_VERBATIM(piece, bytes, 4);
    complete behaviors;
    disjoint behaviors; */
static void next_piece(const uint8_t *bytes, uint32_t available, shown_piece *piece) {
  const uint32_t length = nxmem_utf8_length(bytes, available);
  if (length == 0u) {
    piece_replacement(piece);
    return;
  }
  const uint32_t code_point = nxmem_utf8_code_point(bytes, length);
  if (turns(code_point)) {
    piece_wide_escape(piece, code_point, length);
    return;
  }
  if (steers(code_point) || code_point == 0x5Cu) {
    piece_escape(piece, code_point, length);
    return;
  }
  piece_verbatim(piece, bytes, length);
}

/* Names for two of the contracts' words: a prover opens them only where it must. */
/*@ predicate nx_is_text{L}(uint8_t *b, integer n) = NX_TEXT(b, n); */
/*@ predicate nx_as_is{L}(uint8_t *b, integer n) = NX_SHOWN_AS_IS(b, n); */

/*@ requires piece_readable: \valid_read(piece) && NX_PIECE_LENGTH(piece->length);
    requires out_writable: \valid(out + (0 .. piece->length - 1));
    requires apart: \separated(piece, out + (0 .. piece->length - 1));
    assigns out[0 .. piece->length - 1];
    ensures copied: NX_VERBATIM_AT(out, piece); */
static void put_piece(uint8_t *out, const shown_piece *piece) {
  const uint32_t length = piece->length;
  out[0] = piece->bytes[0];
  if (length > 1u) out[1] = piece->bytes[1];
  if (length > 2u) out[2] = piece->bytes[2];
  if (length > 3u) out[3] = piece->bytes[3];
  if (length > 4u) out[4] = piece->bytes[4];
  if (length > 5u) out[5] = piece->bytes[5];
}

/*@ requires piece_readable: \valid_read(piece) && NX_PIECE_LENGTH(piece->length);
    requires room: written + piece->length <= 0xFFFFFFFF;
    requires out_writable: \valid(out + (0 .. written + piece->length - 1));
    requires apart: \separated(piece, out + (0 .. written + piece->length - 1));
    requires is_text: NX_PIECE_IS_TEXT(piece);
    requires shown: nx_is_text(out, written);
    assigns out[written .. written + piece->length - 1];
    ensures copied: NX_VERBATIM_AT(out + written, piece);
    ensures shown: nx_is_text(out, written + piece->length); */
static void append_piece(uint8_t *out, uint32_t written, const shown_piece *piece) {
  put_piece(out + written, piece);
  //@ assert kept: \forall integer k; 0 <= k < written ==> out[k] == \at(out[k], Pre);
  //@ assert character: NX_UTF8(out + written, piece->length);
  //@ assert utf8_bytes: NX_UTF8_BYTES(out, written + piece->length);
  //@ assert utf8_pairs: NX_UTF8_PAIRS(out, written + piece->length);
  //@ assert printable: NX_NO_CONTROLS(out, written + piece->length);
}

/*@ requires capacity: capacity >= 1;
    requires bytes_readable: \valid_read(bytes + (0 .. length - 1));
    requires out_writable: \valid(out + (0 .. capacity - 1));
    requires apart: \separated(bytes + (0 .. length - 1), out + (0 .. capacity - 1));
    assigns out[0 .. capacity - 1];
    ensures within: \result < capacity;
    ensures utf8_bytes: NX_UTF8_BYTES(out, \result);
    ensures utf8_pairs: NX_UTF8_PAIRS(out, \result);
    ensures printable: NX_NO_CONTROLS(out, \result);
    ensures nothing_dropped: \result >= length || capacity - \result <= 6;
    ensures nothing_invented: \result <= 4 * length;
    ensures as_is: \old(NX_SHOWN_AS_IS(bytes, length)) && length < capacity ==>
                   \result == length && (\forall integer k; 0 <= k < length ==> out[k] == bytes[k]); */
static uint32_t show_pieces(const uint8_t *bytes, uint32_t length, uint8_t *out, uint32_t capacity) {
  uint32_t read = 0u;
  uint32_t written = 0u;
  /*@ loop invariant read_within: read <= length;
      loop invariant written_within: written < capacity;
      loop invariant shown: nx_is_text(out, written);
      loop invariant nothing_dropped: read <= written <= 4 * read;
      loop invariant untouched: \forall integer k; 0 <= k < length ==> bytes[k] == \at(bytes[k], Pre);
      loop invariant as_is: \at(nx_as_is(bytes, length), Pre) ==> read == written;
      loop invariant as_is_start: \at(nx_as_is(bytes, length), Pre) ==> read < length ==> !NX_TAIL(bytes[read]);
      loop invariant as_is_copied: \at(nx_as_is(bytes, length), Pre) ==>
                                   (\forall integer k; 0 <= k < read ==> out[k] == bytes[k]);
      loop assigns read, written, out[0 .. capacity - 1];
      loop variant length - read; */
  while (read < length) {
    shown_piece piece;
    next_piece(bytes + read, length - read, &piece);
    /*@ assert as_is_character: \at(nx_as_is(bytes, length), Pre) ==>
          NX_UTF8(bytes + read, length - read) && !NX_ESCAPED_BYTE(bytes[read]) &&
          !NX_C1(bytes + read, length - read) && !NX_TURN_2(bytes + read, length - read) &&
          !NX_TURN_3(bytes + read, length - read); */
    /*@ assert as_is_piece: \at(nx_as_is(bytes, length), Pre) ==>
          NX_VERBATIM(&piece, bytes + read, piece.length) &&
          (read + piece.length < length ==> !NX_TAIL(bytes[read + piece.length])); */
    if (piece.length >= capacity - written) break;
    append_piece(out, written, &piece);
    /*@ assert as_is_kept: \at(nx_as_is(bytes, length), Pre) ==>
          (\forall integer k; 0 <= k < written ==> out[k] == bytes[k]); */
    //@ assert as_is_added: \at(nx_as_is(bytes, length), Pre) ==> NX_VERBATIM(&piece, out + written, piece.length);
    /*@ assert as_is_same: \at(nx_as_is(bytes, length), Pre) ==> NX_VERBATIM(&piece, bytes + read, piece.length); */
    written += piece.length;
    read += piece.consumed;
  }
  return written;
}

uint32_t nxmem_text_show(const uint8_t *bytes, uint32_t length, uint8_t *out, uint32_t capacity) {
  const uint32_t written = show_pieces(bytes, length, out, capacity);
  out[written] = 0u;
  return written;
}
