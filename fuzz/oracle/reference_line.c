/*
 * reference_line.c: pieces, cuts, and the advice behind them.
 * Attackers: none; it only ever sees bytes the harness owns.
 * Promise: the line never grows past its end, whatever the pieces are.
 */
#include "reference_line.h"

#include <string.h>

#include "reference_text.h"

void ref_line_add(ref_line *line, const char *piece) {
  const size_t half = REF_LINE / 2;
  const size_t room = (line->used < half ? half : REF_LINE - line->used) - 1;
  const size_t length = strlen(piece), taken = length < room ? length : room;
  memcpy(line->bytes + line->used, piece, taken);
  line->used += taken;
}

size_t ref_line_finish(const ref_line *line, const char *advice, uint8_t out[REF_LINE]) {
  const uint32_t room = (uint32_t)(REF_LINE - REF_APPEND_ROOM - strlen(advice) - 3);
  const uint32_t shown = ref_show(line->bytes, (uint32_t)line->used, out, room);
  memcpy(out + shown, "; ", 2);
  strcpy((char *)out + shown + 2, advice);
  return shown + 2 + strlen(advice);
}
