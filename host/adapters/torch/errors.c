/*
 * errors.c: the latest error of each thread, and one line on stderr for the first of each kind.
 *
 * Attackers: texts of a plugin, made printable by the host before; names out of the environment, made printable here.
 * Promise: whatever is said is one line; a program that fails a million times writes one of a kind.
 */
#include "errors.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "nxmem_torch.h"

enum { LINE = NXMEM_ERROR_MESSAGE_BUF + 512 };

static _Thread_local char latest[LINE];
static atomic_flag told[NX_TORCH_KINDS];

const char *nxmem_torch_last_error(void) { return latest; }

/* Bytes of UTF-8 stay, control characters do not. */
static void make_printable(char *text) {
  for (; *text != '\0'; text++)
    if ((unsigned char)*text < 0x20 || *text == 0x7F) *text = '?';
}

static void tell(void) {
  char line[LINE + 16];
  const int length = snprintf(line, sizeof line, "nxmem torch: %s\n", latest);
  if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0) return; /* nobody to tell */
}

void nx_torch_report(nx_torch_kind kind, const nxmem_error *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int used = vsnprintf(latest, sizeof latest, format, arguments);
  va_end(arguments);
  if (error != NULL && used >= 0 && (size_t)used < sizeof latest)
    (void)snprintf(latest + used, sizeof latest - (size_t)used, ": %s", error->message);
  make_printable(latest);
  if (!atomic_flag_test_and_set(&told[kind])) tell();
}
