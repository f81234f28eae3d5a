/*
 * text.c: bytes that came from outside made fit for a terminal and for JSON.
 * Attackers: a file name or a string table with control bytes, terminal escapes, invalid UTF-8 or megabytes of text.
 * Promise: one line of printable UTF-8 of bounded length, through the core's own nxmem_text_show().
 */
#include "text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exit_codes.h"
#include "nxmem/status.h"

/* The longest path Linux takes; an escaped byte takes at most 4 ("\x1B"). */
enum { SHOWN_BYTES = 4096, BYTES_PER_ESCAPE = 4, UTF8_BYTES = 4 };

static const char CUT_MARK[] = "...";

_Noreturn void nx_out_of_memory(void) {
  fputs("nxmem: out of memory; ask for fewer blocks (--blocks) or free memory on this machine, then try again\n",
        stderr);
  exit(NX_EXIT_COULD_NOT_RUN);
}

char *nx_show(const void *bytes, size_t length) {
  uint32_t shown = length > SHOWN_BYTES ? SHOWN_BYTES : (uint32_t)length;
  uint32_t capacity = shown * BYTES_PER_ESCAPE + 1;
  char *out = malloc((size_t)capacity + sizeof CUT_MARK);
  if (!out) nx_out_of_memory();
  uint32_t written = nxmem_text_show(bytes, shown, (uint8_t *)out, capacity);
  if (length > SHOWN_BYTES) memcpy(out + written, CUT_MARK, sizeof CUT_MARK);
  return out;
}

char *nx_show_text(const char *text) { return nx_show(text, strlen(text)); }

int nx_is_printable(const char *text) {
  const uint8_t *at = (const uint8_t *)text;
  size_t left = strlen(text);
  while (left > 0) {
    uint32_t length = nxmem_utf8_length(at, left > UTF8_BYTES ? UTF8_BYTES : (uint32_t)left);
    if (length == 0 || nxmem_is_control(nxmem_utf8_code_point(at, length))) return 0;
    at += length;
    left -= length;
  }
  return 1;
}

char *nx_show_hex(const void *bytes, size_t length) {
  static const char digits[] = "0123456789abcdef";
  const uint8_t *byte = bytes;
  char *out = malloc(length * 2 + 1);
  if (!out) nx_out_of_memory();
  for (size_t i = 0; i < length; i++) {
    out[2 * i] = digits[byte[i] >> 4];
    out[2 * i + 1] = digits[byte[i] & 15];
  }
  out[2 * length] = '\0';
  return out;
}

char *nx_file_uri(const char *path) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  static const char digits[] = "0123456789ABCDEF", scheme[] = "file://";
  char *uri = malloc(sizeof scheme + 3 * strlen(path)), *at = uri;
  if (!uri) nx_out_of_memory();
  at += strlen(strcpy(at, scheme));
  for (; *path; path++) {
    if (strchr(plain, *path)) {
      *at++ = *path;
      continue;
    }
    *at++ = '%';
    *at++ = digits[(unsigned char)*path >> 4];
    *at++ = digits[(unsigned char)*path & 15];
  }
  *at = '\0';
  return uri;
}

const char *nx_entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return NULL;
  }
}
