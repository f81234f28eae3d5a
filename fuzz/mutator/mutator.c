/*
 * mutator.c: changes of records, of fields and of sizes.
 * Attackers: none; inputs of any length and content.
 * Promise: every index is drawn below what is there; nothing is read behind the input or written behind `max`.
 */
#include "mutator.h"

#include <string.h>

typedef struct draw {
  uint64_t state;
} draw;

/* SplitMix64. */
static uint64_t next(draw *d) {
  d->state += 0x9E3779B97F4A7C15ull;
  uint64_t z = d->state;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}

static size_t below(draw *d, size_t count) { return count == 0 ? 0 : (size_t)(next(d) % count); }

static size_t sum(const uint8_t *widths) {
  size_t bytes = 0;
  for (; widths != NULL && *widths != 0; widths++) bytes += *widths;
  return bytes;
}

size_t fuzz_head_bytes(const fuzz_shape *shape) { return sum(shape->head); }
size_t fuzz_record_bytes(const fuzz_shape *shape) { return sum(shape->record); }

/* An input that is being changed. */
typedef struct work {
  const fuzz_shape *shape;
  uint8_t *data;
  size_t size, max, head, record;
  draw d;
} work;

static size_t record_count(const work *w) {
  return w->record == 0 || w->size < w->head ? 0 : (w->size - w->head) / w->record;
}

static uint8_t *record_at(const work *w, size_t i) { return w->data + w->head + i * w->record; }

/* ---- Fields ------------------------------------------------------------------------------------------------------ */

typedef struct field {
  size_t at;
  uint8_t width;
} field;

static field field_of(draw *d, const uint8_t *widths) {
  size_t count = 0;
  while (widths[count] != 0) count++;
  const size_t chosen = below(d, count);
  field f = {0, widths[chosen]};
  for (size_t i = 0; i < chosen; i++) f.at += widths[i];
  return f;
}

/* One of the head's or of a record's; whole, and inside the input. */
static field choose_field(work *w) {
  const size_t records = record_count(w);
  if (records != 0 && below(&w->d, 4) != 0) {
    field f = field_of(&w->d, w->shape->record);
    f.at += w->head + below(&w->d, records) * w->record;
    return f;
  }
  if (w->record == 0 && w->size > w->head && below(&w->d, 3) != 0) { /* as in a table: aligned words */
    const uint8_t width = below(&w->d, 2) != 0 ? 8 : 4;
    return (field){w->head + below(&w->d, (w->size - w->head + width - 1u) / width) * width, width};
  }
  return field_of(&w->d, w->shape->head);
}

static uint64_t near_an_edge(work *w) {
  size_t count = 0;
  while (w->shape->edges != NULL && w->shape->edges[count] != 0xFFFFu) count++;
  if (count == 0) return next(&w->d) % 33u * 8u;
  return w->shape->edges[below(&w->d, count)] + (uint64_t)below(&w->d, 3) - 1u;
}

static uint64_t value_for(work *w, uint64_t before) {
  static const uint64_t special[] = {0, 1, UINT64_MAX, UINT64_MAX - 1u, 1ull << 63, (1ull << 63) - 1u, UINT32_MAX};
  switch (below(&w->d, 10)) {
    case 0:
      return special[below(&w->d, sizeof special / sizeof special[0])];
    case 1:
      return before + 1u;
    case 2:
      return before - 1u;
    case 3:
      return before ^ 1ull << below(&w->d, 64);
    case 4:
      return 1ull << below(&w->d, 64);
    case 5:
      return near_an_edge(w);
    case 6:
      return before + (next(&w->d) % 65u - 32u) * 8u;
    case 7:
      return next(&w->d) % 17u;
    default:
      return next(&w->d);
  }
}

static void change_field(work *w) {
  const field f = choose_field(w);
  if (f.at >= w->size) return;
  uint64_t value = 0;
  const size_t whole = f.width < sizeof value ? f.width : sizeof value;
  const size_t width = w->size - f.at < whole ? w->size - f.at : whole;
  memcpy(&value, w->data + f.at, width);
  value = value_for(w, value);
  memcpy(w->data + f.at, &value, width);
}

/* The same field of another record. */
static void copy_field(work *w) {
  const size_t records = record_count(w);
  if (records < 2) return;
  const field f = field_of(&w->d, w->shape->record);
  memcpy(record_at(w, below(&w->d, records)) + f.at, record_at(w, below(&w->d, records)) + f.at, f.width);
}

/* ---- Records ----------------------------------------------------------------------------------------------------- */

static void open_gap(work *w, size_t at) {
  memmove(record_at(w, at + 1u), record_at(w, at), w->size - w->head - at * w->record);
  w->size += w->record;
}

static int has_room(const work *w) { return w->size + w->record <= w->max; }

/* Honest in most fields: zero is what an honest answer is made of. */
static void make_record(work *w, uint8_t *out) {
  memset(out, 0, w->record);
  for (size_t fields = 1u + below(&w->d, 4); fields > 0; fields--) {
    const field f = field_of(&w->d, w->shape->record);
    const uint64_t value = value_for(w, 0);
    memcpy(out + f.at, &value, f.width < sizeof value ? f.width : sizeof value);
  }
}

static void insert_record(work *w) {
  if (!has_room(w)) return;
  const size_t at = below(&w->d, record_count(w) + 1u);
  open_gap(w, at);
  make_record(w, record_at(w, at));
}

static void repeat_record(work *w) {
  const size_t records = record_count(w);
  if (records == 0 || !has_room(w)) return;
  const size_t from = below(&w->d, records), at = below(&w->d, records + 1u);
  open_gap(w, at);
  memmove(record_at(w, at), record_at(w, from < at ? from : from + 1u), w->record);
}

static void drop_record(work *w) {
  const size_t records = record_count(w);
  if (records < 2) return;
  const size_t at = below(&w->d, records);
  memmove(record_at(w, at), record_at(w, at + 1u), w->size - w->head - (at + 1u) * w->record);
  w->size -= w->record;
}

static void swap_records(work *w) {
  uint8_t held[256];
  const size_t records = record_count(w);
  if (records < 2 || w->record > sizeof held) return;
  uint8_t *a = record_at(w, below(&w->d, records)), *b = record_at(w, below(&w->d, records));
  memcpy(held, a, w->record);
  memmove(a, b, w->record);
  memcpy(b, held, w->record);
}

/* An end in the middle of a record is an end of none. */
static void end_between_records(work *w) {
  if (w->record == 0 || w->size <= w->head) return;
  const size_t over = (w->size - w->head) % w->record;
  const size_t missing = over == 0 ? 0 : w->record - over;
  if (missing != 0 && w->size + missing <= w->max) {
    memset(w->data + w->size, 0, missing);
    w->size += missing;
  } else {
    w->size -= over;
  }
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------- */

/* What follows the head ends at, one before or one behind where something ends. */
static void nudge_size(work *w) {
  const uint64_t wanted = w->head + near_an_edge(w);
  const size_t size = wanted > w->max ? w->max : (size_t)wanted;
  if (size == 0) return;
  if (size > w->size) memset(w->data + w->size, (int)below(&w->d, 256), size - w->size);
  w->size = size;
}

static void fill_head(work *w) {
  if (w->size >= w->head || w->max < w->head) return;
  memset(w->data + w->size, 0, w->head - w->size);
  w->size = w->head;
}

static void change_records(work *w) {
  switch (below(&w->d, 8)) {
    case 0:
      drop_record(w);
      break;
    case 1:
      swap_records(w);
      break;
    case 2:
      repeat_record(w);
      break;
    case 3:
      copy_field(w);
      break;
    case 4:
    case 5:
      insert_record(w);
      break;
    default:
      change_field(w);
      break;
  }
}

size_t fuzz_mutate(const fuzz_shape *shape, uint8_t *data, size_t size, size_t max, uint32_t seed) {
  work w = {shape, data, size, max, fuzz_head_bytes(shape), fuzz_record_bytes(shape), {seed}};
  fill_head(&w);
  for (size_t changes = 1u + below(&w.d, 4); changes > 0; changes--) {
    if (w.record != 0)
      change_records(&w);
    else if (below(&w.d, 5) == 0)
      nudge_size(&w);
    else
      change_field(&w);
  }
  end_between_records(&w);
  return w.size == 0 ? 1u : w.size;
}

size_t fuzz_cross(const fuzz_shape *shape, const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                  uint8_t *out, size_t max, uint32_t seed) {
  draw d = {seed};
  const size_t head = fuzz_head_bytes(shape), record = fuzz_record_bytes(shape), step = record == 0 ? 8u : record;
  const size_t a_steps = a_size < head ? 0 : (a_size - head) / step;
  const size_t b_steps = b_size < head ? 0 : (b_size - head) / step;
  const size_t from = head + below(&d, b_steps + 1u) * step;
  size_t size = a_size < head ? a_size : head + below(&d, a_steps + 1u) * step;
  if (size > max) size = max;
  memcpy(out, a, size);
  if (from >= b_size || size < head) return size;
  size_t tail = b_size - from;
  if (tail > max - size) tail = (max - size) / step * step;
  memcpy(out + size, b + from, tail);
  return size + tail;
}
