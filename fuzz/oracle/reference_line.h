/*
 * reference_line.h: the one line that a failure is told in, put together piece by piece.
 * Attackers: none; it only ever sees bytes the harness owns.
 * Promise: slow and plain; shares no code with the host.
 */
#ifndef NXMEM_FUZZ_REFERENCE_LINE_H
#define NXMEM_FUZZ_REFERENCE_LINE_H

#include <stddef.h>
#include <stdint.h>

/* A line holds REF_LINE bytes with its NUL; each piece may use half of them where less than half is used. */
enum { REF_LINE = 1024, REF_APPEND_ROOM = 256 };

typedef struct ref_line {
  uint8_t bytes[REF_LINE];
  size_t used;
} ref_line;

/* Adds one piece, cut where there is no more room for it. */
void ref_line_add(ref_line *line, const char *piece);

/* The finished message: shown, then "; " and the advice, which keeps its place. NUL-terminated. Returns its length. */
size_t ref_line_finish(const ref_line *line, const char *advice, uint8_t out[REF_LINE]);

#endif /* NXMEM_FUZZ_REFERENCE_LINE_H */
