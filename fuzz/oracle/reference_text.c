/*
 * reference_text.c: text, slowly.
 * Attackers: none; it only ever sees bytes the harness owns.
 * Promise: one decoder beneath everything, and it shares no table with the core's.
 */
#include "reference_text.h"

#include <string.h>

/* How many leading bits of a byte are set. */
static uint32_t leading_ones(uint8_t byte) {
  uint32_t ones = 0;
  while (ones < 8 && (byte & 0x80u >> ones) != 0) ones++;
  return ones;
}

/* The smallest number that needs a sequence of this many bytes. */
static uint32_t least_of(uint32_t length) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  return least[length];
}

uint32_t ref_decode(const uint8_t *bytes, uint32_t available, uint32_t *code_point) {
  if (available == 0) return 0;
  const uint32_t length = leading_ones(bytes[0]);
  if (length == 0) {
    *code_point = bytes[0];
    return 1;
  }
  if (length == 1 || length > 4 || length > available) return 0;
  uint32_t value = bytes[0] & (0xFFu >> (length + 1));
  for (uint32_t i = 1; i < length; i++) {
    if (bytes[i] >> 6 != 2) return 0;
    value = value << 6 | (bytes[i] & 63u);
  }
  const int surrogate = value >> 11 == 0x1B;
  if (value < least_of(length) || surrogate || value > 0x10FFFF) return 0;
  *code_point = value;
  return length;
}

/* By rows of sixteen: what separates lines or turns the direction of writing. */
static int ref_turns(uint32_t code_point) {
  const uint32_t column = code_point & 15u;
  switch (code_point >> 4) {
    case 0x61:
      return column == 12;
    case 0x200:
      return column > 13;
    case 0x202:
      return column > 7 && column != 15;
    case 0x206:
      return column > 5 && column < 10;
    default:
      return 0;
  }
}

/* 00 to 1F and 80 to 9F have neither bit 5 nor bit 6 nor any above bit 7; 7F stands alone. */
int ref_is_control(uint32_t code_point) {
  return (code_point & ~0x9Fu) == 0 || code_point == 0x7F || ref_turns(code_point);
}

void ref_text_read(ref_text *text, const uint8_t *bytes, uint32_t length, uint32_t from) {
  text->bytes = bytes;
  text->length = length;
  for (uint32_t at = from; at < length; at++)
    text->steps[at] = (uint8_t)ref_decode(bytes + at, length - at, &text->points[at]);
}

int ref_is_message_cut(const uint8_t *text, uint32_t length, uint32_t cut) {
  uint32_t ended = 0;
  while (ended < length && ended < 256 && text[ended] != 0) ended++;
  if (ended <= 255) return cut == ended;
  uint32_t at = 0;
  int well_formed = 1;
  int is_boundary = cut == 0;
  for (;;) {
    uint32_t code_point;
    const uint32_t step = ref_decode(text + at, length - at, &code_point);
    const uint32_t next = at + (step == 0 ? 1 : step);
    if (step == 0) well_formed = 0;
    if (next > 255) break;
    at = next;
    is_boundary |= at == cut;
  }
  return well_formed ? cut == at : is_boundary && cut >= 252;
}

/* One byte that is shown as it is: most are. */
static int is_plain(uint32_t byte) { return byte >= ' ' && byte <= '~' && byte != '\\'; }

/* What stands for a character, or for one byte that is none. Returns how many bytes the piece has. */
static uint32_t piece_of(const uint8_t *bytes, uint32_t length, uint32_t code_point, uint8_t *piece) {
  static const char digits[] = "0123456789abcdef";
  if (length == 0) {
    piece[0] = 0xEF;
    piece[1] = 0xBF;
    piece[2] = 0xBD;
    return 3;
  }
  if (ref_is_control(code_point) && code_point > 255) {
    piece[0] = '\\';
    piece[1] = 'u';
    for (uint32_t i = 0; i < 4; i++) piece[2 + i] = (uint8_t)digits[code_point >> (12 - 4 * i) & 15];
    return 6;
  }
  if (ref_is_control(code_point) || code_point == '\\') {
    piece[0] = '\\';
    piece[1] = 'x';
    piece[2] = (uint8_t)digits[code_point >> 4];
    piece[3] = (uint8_t)digits[code_point & 15];
    return 4;
  }
  for (uint32_t i = 0; i < length; i++) piece[i] = bytes[i];
  return length;
}

uint32_t ref_show(const uint8_t *bytes, uint32_t length, uint8_t *out, uint32_t capacity) {
  uint32_t written = 0;
  uint32_t at = 0;
  while (at < length) {
    uint8_t piece[6];
    uint32_t code_point = 0;
    const uint32_t step = ref_decode(bytes + at, length - at, &code_point);
    const uint32_t size = piece_of(bytes + at, step, code_point, piece);
    at += step == 0 ? 1 : step;
    if (written + size + 1 > capacity) break;
    for (uint32_t i = 0; i < size; i++) out[written++] = piece[i];
  }
  out[written] = 0;
  return written;
}

void ref_show_all(const ref_text *text, uint32_t from, uint32_t room, ref_shown *out) {
  uint32_t length = 0;
  uint32_t fits = UINT32_MAX;
  for (uint32_t at = from; at < text->length;) {
    const uint32_t step = text->steps[at];
    uint32_t size = 1;
    if (is_plain(text->bytes[at]))
      out->bytes[length] = text->bytes[at];
    else
      size = piece_of(text->bytes + at, step, text->points[at], out->bytes + length);
    at += step == 0 ? 1 : step;
    if (length + size > room && fits == UINT32_MAX) fits = length;
    length += size;
  }
  out->length = length;
  out->fits = fits == UINT32_MAX ? length : fits;
}

/* 16 and more: no digit. */
static uint32_t hex_value(uint8_t digit) {
  if (digit >= '0' && digit <= '9') return digit - (uint32_t)'0';
  return digit >= 'a' && digit <= 'f' ? digit - (uint32_t)'a' + 10 : 16;
}

/* Whether the escape at `shown`, of so many digits, names this number. */
static int names(const uint8_t *shown, uint32_t digits, uint32_t code_point) {
  uint32_t named = 0;
  for (uint32_t i = 0; i < digits; i++) {
    if (hex_value(shown[2 + i]) > 15) return 0;
    named = named * 16 + hex_value(shown[2 + i]);
  }
  return named == code_point;
}

/*
 * Bytes of text that the piece at `shown` accounts for; 0 where it stands for something else, or steers. *used: bytes
 * of the piece.
 */
static uint32_t accounted(const ref_text *text, uint32_t at, const uint8_t *shown, uint32_t left, uint32_t *used) {
  uint32_t shown_point = 0;
  const uint32_t length = text->steps[at];
  *used = ref_decode(shown, left, &shown_point);
  if (*used == 0 || ref_is_control(shown_point)) return 0;
  if (shown_point == '\\') {
    const uint32_t digits = left < 2 ? 0 : shown[1] == 'x' ? 2 : shown[1] == 'u' ? 4 : 0;
    *used = 2 + digits;
    if (digits == 0 || left < *used) return 0;
    return length != 0 && names(shown, digits, text->points[at]) ? length : 0;
  }
  if (length == 0) return shown_point == 0xFFFD;
  return shown_point == text->points[at] ? length : 0;
}

int ref_shows_all(const ref_text *text, uint32_t from, const uint8_t *shown, uint32_t shown_length) {
  uint32_t shown_at = 0;
  for (uint32_t at = from; at < text->length;) {
    uint32_t used = 1;
    const int as_it_is = shown_at < shown_length && shown[shown_at] == text->bytes[at] && is_plain(text->bytes[at]);
    const uint32_t step = as_it_is ? 1 : accounted(text, at, shown + shown_at, shown_length - shown_at, &used);
    if (step == 0) return 0;
    at += step;
    shown_at += used;
  }
  return shown_at == shown_length;
}

int ref_is_printable(const uint8_t *bytes, uint32_t length) {
  uint32_t at = 0;
  while (at < length) {
    uint32_t code_point = 0;
    const uint32_t step = ref_decode(bytes + at, length - at, &code_point);
    if (step == 0 || ref_is_control(code_point)) return 0;
    at += step;
  }
  return 1;
}

static nxmem_verdict say(nxmem_reason reason, uint32_t field, uint64_t found, uint64_t needed) {
  const nxmem_verdict verdict = {(uint32_t)reason, field, found, needed};
  return verdict;
}

nxmem_verdict ref_name(const uint8_t *bytes, uint32_t available, uint32_t *length) {
  const uint8_t *end = available == 0 ? NULL : memchr(bytes, 0, available);
  if (end == NULL) return say(NXMEM_REASON_UNTERMINATED_NAME, 0, available, 256);
  const uint32_t bytes_before = (uint32_t)(end - bytes);
  if (bytes_before == 0) return say(NXMEM_REASON_EMPTY_NAME, 0, 0, 1);
  uint32_t at = 0;
  while (at < bytes_before) {
    uint32_t code_point = 0;
    const uint32_t step = ref_decode(bytes + at, bytes_before - at, &code_point);
    if (step == 0) return say(NXMEM_REASON_BAD_UTF8, at, bytes[at], 0);
    if (ref_is_control(code_point)) return say(NXMEM_REASON_CONTROL_CHARACTER, at, code_point, 0);
    at += step;
  }
  *length = bytes_before;
  return say(NXMEM_REASON_NONE, 0, 0, 0);
}
