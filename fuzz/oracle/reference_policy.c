/*
 * reference_policy.c: the grammar of a policy, read in one go from left to right.
 * Attackers: none; it only ever sees bytes the harness owns.
 * Promise: each key by what must stand behind it; what is not expected there refuses the whole.
 */
#include "reference_policy.h"

#include <string.h>

#include "nxmem_memory_abi.h"
#include "reference_text.h"

typedef struct reader {
  const uint8_t *at, *end;
} reader;

static void skip_space(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static int eat(reader *r, uint8_t c) {
  skip_space(r);
  if (r->at == r->end || *r->at != c) return 0;
  r->at++;
  return 1;
}

/* ---- Texts and numbers ------------------------------------------------------------------------------------------- */

static int digit16(uint8_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int four_digits(reader *r, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < 4; i++, r->at++) {
    const int digit = r->at < r->end ? digit16(*r->at) : -1;
    if (digit < 0) return 0;
    *out = *out * 16 + (uint32_t)digit;
  }
  return 1;
}

typedef struct text {
  uint8_t bytes[REF_POLICY_TEXT];
  size_t count;
} text;

static void put(text *out, uint8_t byte) {
  if (out->count < sizeof out->bytes - 1) out->bytes[out->count++] = byte;
}

static void put_point(text *out, uint32_t c) {
  if (c < 0x80) {
    put(out, (uint8_t)c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const uint8_t lead[] = {0, 0xC0, 0xE0, 0xF0};
  put(out, (uint8_t)(lead[more] | c >> (6 * more)));
  for (int i = more - 1; i >= 0; i--) put(out, (uint8_t)(0x80 | (c >> (6 * i) & 0x3F)));
}

/* Behind "\u". A pair of halves is one character; a half alone and the character 0 are refused. */
static int take_unicode(reader *r, text *out) {
  uint32_t one, two;
  if (!four_digits(r, &one) || one == 0 || (one >= 0xDC00 && one < 0xE000)) return 0;
  if (one >= 0xD800 && one < 0xDC00) {
    if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u') return 0;
    r->at += 2;
    if (!four_digits(r, &two) || two < 0xDC00 || two >= 0xE000) return 0;
    one = 0x10000 + ((one - 0xD800) << 10) + (two - 0xDC00);
  }
  put_point(out, one);
  return 1;
}

static int take_escape(reader *r, text *out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (r->at == r->end) return 0;
  const uint8_t c = *r->at++;
  if (c == 'u') return take_unicode(r, out);
  const char *found = c == 0 ? NULL : strchr(from, c);
  if (found == NULL) return 0;
  put(out, (uint8_t)to[found - from]);
  return 1;
}

static int take_text(reader *r, text *out) {
  out->count = 0;
  if (!eat(r, '"')) return 0;
  while (r->at < r->end && *r->at != '"') {
    uint32_t point = 0;
    const uint32_t step = ref_decode(r->at, (uint32_t)(r->end - r->at), &point);
    if (step == 0 || point < 0x20) return 0;
    r->at += step;
    if (point == '\\') {
      if (!take_escape(r, out)) return 0;
    } else {
      put_point(out, point);
    }
  }
  out->bytes[out->count] = 0;
  return eat(r, '"');
}

static int is(const text *t, const char *word) { return strcmp((const char *)t->bytes, word) == 0; }

/* From 1 to `most`; a sign, a fraction, an exponent or a zero in front make it another kind of number. */
static int take_number(reader *r, uint64_t most, uint64_t *out) {
  uint64_t value = 0;
  skip_space(r);
  if (r->at == r->end || *r->at < '1' || *r->at > '9') return 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
    const uint64_t digit = (uint64_t)(*r->at - '0');
    if (digit > most || value > (most - digit) / 10) return 0;
    value = value * 10 + digit;
  }
  *out = value;
  return r->at == r->end || (*r->at != '.' && *r->at != 'e' && *r->at != 'E');
}

/* ---- What stands behind a key ------------------------------------------------------------------------------------ */

static int take_hex(reader *r, uint8_t *out, size_t room, size_t *count) {
  text t;
  if (!take_text(r, &t) || t.count == 0 || t.count % 2 != 0 || t.count / 2 > room) return 0;
  for (size_t i = 0; i < t.count; i += 2) {
    const int high = digit16(t.bytes[i]), low = digit16(t.bytes[i + 1]);
    if (high < 0 || low < 0) return 0;
    out[i / 2] = (uint8_t)(high * 16 + low);
  }
  *count = t.count / 2;
  return 1;
}

static int take_path(reader *r, char *out) {
  text t;
  if (!take_text(r, &t) || t.count < 2 || t.bytes[0] != '/' || t.bytes[t.count - 1] == '/') return 0;
  t.bytes[t.count] = '/'; /* so that every part ends in one */
  t.bytes[t.count + 1] = 0;
  const char *whole = (const char *)t.bytes;
  if (strstr(whole, "//") != NULL || strstr(whole, "/./") != NULL || strstr(whole, "/../") != NULL) return 0;
  memcpy(out, whole, t.count);
  out[t.count] = 0;
  return 1;
}

static int take_bytes(reader *r, uint64_t *out) {
  text t;
  skip_space(r);
  if (r->at == r->end || *r->at != '"') return take_number(r, INT64_MAX, out);
  *out = 1ull << 63;
  return take_text(r, &t) && is(&t, "unlimited");
}

static int word_of(const text *t, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (is(t, words[i])) return (int)i;
  return -1;
}

static int take_capabilities(reader *r, uint64_t *out) {
  static const char *const words[] = {"allocator", "virtual-backing", "shared-mapping", "deferred-release",
                                      "structured-release"};
  *out = 0;
  if (!eat(r, '[')) return 0;
  do {
    text t;
    if (!take_text(r, &t)) return 0;
    const int word = word_of(&t, words, 5);
    if (word < 0 || (*out >> word & 1) != 0) return 0;
    *out |= 1ull << word;
  } while (eat(r, ','));
  return eat(r, ']') && (*out & 1) != 0;
}

static int take_isolation(reader *r, int *out) {
  static const char *const words[] = {"none", "no-new-privs", "seccomp"};
  text t;
  if (!take_text(r, &t)) return 0;
  *out = word_of(&t, words, 3);
  return *out >= 0;
}

static int take_key_line(reader *r, uint8_t *out) {
  text t;
  return take_text(r, &t) && ref_base64(t.bytes, t.count, out, REF_KEY_BYTES) && out[0] == 'E' && out[1] == 'd';
}

/* ---- Objects ----------------------------------------------------------------------------------------------------- */

/* One key and its colon: which of the words, and for the first time. -1: none. */
static int take_key(reader *r, const char *const *words, size_t count, unsigned *seen) {
  text t;
  if (!take_text(r, &t) || !eat(r, ':')) return -1;
  const int key = word_of(&t, words, count);
  if (key < 0 || (*seen >> key & 1) != 0) return -1;
  *seen |= 1u << key;
  return key;
}

static int take_signature(reader *r, ref_policy_row *row) {
  static const char *const keys[] = {"file", "public_key"};
  unsigned seen = 0;
  if (!eat(r, '{')) return 0;
  do {
    const int key = take_key(r, keys, 2, &seen);
    if (key < 0 || !(key == 0 ? take_path(r, row->signature_path) : take_key_line(r, row->key))) return 0;
  } while (eat(r, ','));
  return eat(r, '}') && seen == 3;
}

static int take_value(reader *r, int key, ref_policy_row *row) {
  size_t count = 0;
  switch (key) {
    case 0:
      return row->has_path = 1, take_path(r, row->path);
    case 1:
      return row->has_build_id = 1, take_hex(r, row->build_id, sizeof row->build_id, &row->build_id_bytes);
    case 2:
      return take_hex(r, row->sha256, sizeof row->sha256, &count) && count == sizeof row->sha256;
    case 3:
      return row->has_signature = 1, take_signature(r, row);
    case 4:
      return take_capabilities(r, &row->capabilities);
    case 5:
      return take_bytes(r, &row->max_owned);
    case 6:
      return take_bytes(r, &row->max_mapped);
    case 7:
      return take_isolation(r, &row->isolation);
    default:
      return 0;
  }
}

static int take_row(reader *r, ref_policy_row *row) {
  static const char *const keys[] = {"path",         "build_id",        "sha256",           "signature",
                                     "capabilities", "max_owned_bytes", "max_mapped_bytes", "isolation"};
  enum { NEEDED = 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 };
  unsigned seen = 0;
  memset(row, 0, sizeof *row);
  if (!eat(r, '{')) return 0;
  do {
    if (!take_value(r, take_key(r, keys, 8, &seen), row)) return 0;
  } while (eat(r, ','));
  return eat(r, '}') && (seen & NEEDED) == NEEDED && (row->has_path || row->has_build_id);
}

static int is_another(const ref_policy *policy, const ref_policy_row *row) {
  for (size_t i = 0; i < policy->count; i++) {
    const ref_policy_row *before = &policy->rows[i];
    if (before->has_path != row->has_path) continue;
    if (row->has_path ? strcmp(before->path, row->path) == 0 : memcmp(before->sha256, row->sha256, 32) == 0) return 0;
  }
  return 1;
}

static int take_rows(reader *r, ref_policy *out) {
  if (!eat(r, '[')) return 0;
  if (eat(r, ']')) return 1;
  do {
    if (out->count == REF_POLICY_ROWS || !take_row(r, &out->rows[out->count])) return 0;
    if (!is_another(out, &out->rows[out->count])) return 0;
    out->count++;
  } while (eat(r, ','));
  return eat(r, ']');
}

int ref_policy_read(const uint8_t *bytes, size_t count, ref_policy *out) {
  static const char *const keys[] = {"version", "max_file_bytes", "plugins"};
  reader r = {bytes, bytes + count};
  unsigned seen = 0;
  uint64_t one;
  out->max_file_bytes = 64ull << 20;
  out->count = 0;
  if (!eat(&r, '{')) return 0;
  do {
    const int key = take_key(&r, keys, 3, &seen);
    if (key < 0) return 0;
    if (!(key == 0   ? take_number(&r, 1, &one)
          : key == 1 ? take_number(&r, 1ull << 30, &out->max_file_bytes)
                     : take_rows(&r, out)))
      return 0;
  } while (eat(&r, ','));
  if (!eat(&r, '}') || (seen & 5) != 5) return 0;
  skip_space(&r);
  return r.at == r.end;
}

/* ---- minisign ---------------------------------------------------------------------------------------------------- */

int ref_base64(const uint8_t *in, size_t length, uint8_t *out, size_t bytes) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const size_t pad = (3 - bytes % 3) % 3;
  if (length != (bytes + 2) / 3 * 4) return 0;
  for (size_t i = 0; i < pad; i++)
    if (in[length - 1 - i] != '=') return 0;
  uint32_t bits = 0;
  size_t have = 0, made = 0;
  for (size_t i = 0; i < length - pad; i++) {
    const char *found = in[i] == 0 ? NULL : strchr(letters, in[i]);
    if (found == NULL) return 0;
    bits = bits << 6 | (uint32_t)(found - letters);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out[made++] = (uint8_t)(bits >> have);
    bits &= (1u << have) - 1;
  }
  return made == bytes && bits == 0; /* what is left over must say nothing */
}

static int take_line(reader *r, const uint8_t **line, size_t *length) {
  if (r->at == r->end) return 0;
  *line = r->at;
  while (r->at < r->end && *r->at != '\n') r->at++;
  *length = (size_t)(r->at - *line);
  if (r->at < r->end) r->at++;
  if (*length > 0 && (*line)[*length - 1] == '\r') (*length)--;
  return 1;
}

int ref_signature_read(const uint8_t *bytes, size_t count, ref_signature *out) {
  static const char first[] = "untrusted comment: ", third[] = "trusted comment: ";
  reader r = {bytes, bytes + count};
  const uint8_t *line[4];
  size_t length[4];
  uint8_t head[2 + 8 + REF_SIGNATURE_BYTES];
  for (int i = 0; i < 4; i++)
    if (!take_line(&r, &line[i], &length[i])) return 0;
  if (r.at != r.end || length[0] < sizeof first - 1 || memcmp(line[0], first, sizeof first - 1) != 0) return 0;
  if (length[2] < sizeof third - 1 || memcmp(line[2], third, sizeof third - 1) != 0) return 0;
  if (!ref_base64(line[1], length[1], head, sizeof head)) return 0;
  if (!ref_base64(line[3], length[3], out->of_comment, sizeof out->of_comment)) return 0;
  memcpy(out->kind, head, 2);
  memcpy(out->id, head + 2, 8);
  memcpy(out->of_bytes, head + 10, REF_SIGNATURE_BYTES);
  out->comment = line[2] + sizeof third - 1;
  out->comment_bytes = length[2] - (sizeof third - 1);
  return 1;
}
