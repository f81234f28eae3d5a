/*
 * prefix_memory_test.c: what the readers of published tables load, exactly.
 *
 * Attackers played: tables that end at a page without access or in an exact heap block, and tables rewritten while
 * they are read.
 * Promise: no load at or beyond the declared size, none repeated, and one consistent answer whatever a racing thread
 * writes.
 */
#include <pthread.h>

#include "prefix_tables.h"
#include "watch.h"

/* ---- Every size from 0 to full + 64, at a guard page and in an exact heap block ---- */

typedef struct sweep {
  const reader *r;
  uint32_t minor;
} sweep;

static nxmem_verdict expected(const sweep *s, uint32_t size) {
  const uint32_t needed = bytes_needed(s->r, s->minor);
  if (size < 8) return (nxmem_verdict){NXMEM_REASON_SHORT_HEADER, 0, size, 8};
  if (size < needed) return (nxmem_verdict){NXMEM_REASON_SHORT_TABLE, 0, size, needed};
  return (nxmem_verdict){NXMEM_REASON_NONE, 0, 0, 0};
}

/* Every field of an accepted table is what the source holds; the slot above the level is NULL. */
static void assert_fields(const sweep *s, uint32_t size, uint32_t ceiling, const reading *got) {
  const uint32_t level = s->minor < ceiling ? s->minor : ceiling;
  assert_int_equal(nx_get32(got->out.bytes, 0), size);
  assert_int_equal(nx_get32(got->out.bytes, 4), level);
  for (size_t offset = 8; offset < s->r->full; offset += 8) {
    const int above = offset == 120 && level == 0;
    assert_int_equal(nx_get64(got->out.bytes, offset), above ? 0 : filled_value(offset));
  }
  for (size_t i = s->r->full; i < TABLE_BYTES_MAX; i++) assert_int_equal(got->out.bytes[i], UNTOUCHED);
  if (s->r->tells_declared) assert_int_equal(got->declared_minor, s->minor);
}

static void judge_size(const sweep *s, const uint8_t *src, uint32_t size, uint32_t ceiling) {
  reading got;
  run_reader(s->r, src, ceiling, &got);
  nx_assert_verdict(got.verdict, expected(s, size));
  if (got.verdict.reason == NXMEM_REASON_NONE)
    assert_fields(s, size, ceiling, &got);
  else
    assert_output_untouched(&got);
}

/* A table must hold its own header's first word to be a table at all. */
static size_t block_bytes(uint32_t size) { return size < 4 ? 4 : size; }

static void put_sized(uint8_t *at, size_t room, uint32_t size, uint32_t minor) {
  uint8_t whole[TABLE_BYTES_MAX + SWEEP_BEYOND + 8];
  fill_table(whole, sizeof whole, size, minor);
  memcpy(at, whole, room);
}

static void test_sweep_guard_page(void **state) {
  const sweep *s = *state;
  nx_fence fence;
  nx_fence_open(&fence, TABLE_BYTES_MAX + SWEEP_BEYOND);
  for (uint32_t size = 0; size <= s->r->full + SWEEP_BEYOND; size++) {
    const size_t room = (block_bytes(size) + 7) / 8 * 8;
    put_sized(fence.end - room, room, size, s->minor);
    for (uint32_t ceiling = 0; ceiling <= 2; ceiling++) judge_size(s, fence.end - room, size, ceiling);
  }
  nx_fence_close(&fence);
}

static void test_sweep_exact_block(void **state) {
  const sweep *s = *state;
  for (uint32_t size = 0; size <= s->r->full + SWEEP_BEYOND; size++) {
    uint8_t *src = nx_exact_block(block_bytes(size));
    put_sized(src, block_bytes(size), size, s->minor);
    for (uint32_t ceiling = 0; ceiling <= 2; ceiling++) judge_size(s, src, size, ceiling);
    free(src);
  }
}

/* A table that declares more than it holds is safe as long as what we know is there. */
static void test_lying_size_at_guard_page(void **state) {
  const reader *r = *state;
  const uint32_t sizes[] = {r->full + 1, r->full + 8, 4096, 0x7FFFFFFFu, 0xFFFFFFFFu};
  const sweep s = {r, 0xFFFFFFFFu};
  nx_fence fence;
  nx_fence_open(&fence, r->full);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    put_sized(fence.end - r->full, r->full, sizes[i], s.minor);
    judge_size(&s, fence.end - r->full, sizes[i], 1);
  }
  nx_fence_close(&fence);
}

/* ---- Which loads are made: each at most once, and none that the table did not offer ---- */

typedef struct load_row {
  const reader *r;
  uint32_t size;
  uint32_t minor;
  uint32_t ceiling;
} load_row;

static void assert_loads(const load_row *row, const nx_watch *watch) {
  const sweep s = {row->r, row->minor};
  const uint32_t reason = expected(&s, row->size).reason;
  const int32_t limit = reason == NXMEM_REASON_SHORT_HEADER  ? 4
                        : reason == NXMEM_REASON_SHORT_TABLE ? 8
                        : row->size < row->r->full           ? (int32_t)(row->size / 8 * 8)
                                                             : (int32_t)row->r->full;
  nx_watch_assert_single_fetch(watch, limit);
  assert_int_equal(nx_watch_count(watch, 0), 1);
  if (reason != NXMEM_REASON_SHORT_HEADER) assert_int_equal(nx_watch_count(watch, 4), 1);
  if (reason != NXMEM_REASON_NONE) return;
  for (int32_t offset = 8; offset < limit; offset += 8)
    if (offset != 120) assert_int_equal(nx_watch_count(watch, offset), 1);
}

static void test_loads(void **state) {
  const load_row *row = *state;
  nx_watch watch;
  const size_t room = row->size < 8 ? 8 : row->size < 256 ? (row->size + 7u) / 8 * 8 : row->r->full;
  nx_watch_open(&watch, room);
  put_sized(watch.record, room, row->size, row->minor);
  reading got;
  memset(&got, UNTOUCHED, sizeof got);
  nx_watch_arm(&watch);
  row->r->read(watch.record, row->ceiling, &got);
  nx_watch_disarm(&watch);
  assert_loads(row, &watch);
  nx_watch_close(&watch);
}

/* ---- A plugin thread that rewrites the header while it is read ---- */

typedef struct racer {
  volatile uint32_t *header;
  uint32_t small;
  uint32_t full;
  volatile int stop;
} racer;

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DELIBERATE_RACE __attribute__((no_sanitize("thread")))
#endif
#endif
#ifndef DELIBERATE_RACE
#define DELIBERATE_RACE
#endif

DELIBERATE_RACE static void *flip_header(void *argument) {
  racer *race = argument;
  while (!race->stop) {
    race->header[0] = race->small;
    race->header[1] = 0xFFFFFFFFu;
    race->header[0] = race->full;
    race->header[1] = 0;
  }
  return NULL;
}

/* Whatever was seen, it was seen once: an accepted size is big enough, a refused one too small for the answer's own
   numbers. */
static void assert_consistent(const reader *r, const racer *race, const reading *got) {
  const nxmem_verdict v = got->verdict;
  if (v.reason == NXMEM_REASON_NONE) {
    const uint32_t size = nx_get32(got->out.bytes, 0);
    assert_int_equal(size, race->full);
    return;
  }
  assert_true(v.reason == NXMEM_REASON_SHORT_HEADER || v.reason == NXMEM_REASON_SHORT_TABLE);
  assert_int_equal(v.found, race->small);
  assert_true(v.found < v.needed);
  assert_true(v.needed == 8 || v.needed == r->at_minor_0 || v.needed == r->full);
  assert_output_untouched(got);
}

static void race_against(const reader *r, uint32_t small) {
  uint8_t *src = nx_exact_block(r->full);
  fill_table(src, r->full, r->full, 0);
  racer race = {(volatile uint32_t *)(void *)src, small, r->full, 0};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, flip_header, &race), 0);
  for (int i = 0; i < 20000; i++) {
    reading got;
    run_reader(r, src, 1, &got);
    assert_consistent(r, &race, &got);
  }
  race.stop = 1;
  pthread_join(thread, NULL);
  free(src);
}

static void test_race(void **state) {
  const reader *r = *state;
  race_against(r, 4);
  race_against(r, r->at_minor_0 - 1);
}

static void add_sweeps(nx_suite *suite, const reader *r) {
  static sweep sweeps[READERS * 4];
  static size_t used;
  static const uint32_t minors[] = {0, 1, 2, 0xFFFFFFFFu};
  for (size_t i = 0; i < 4; i++) {
    sweep *s = &sweeps[used++];
    s->r = r;
    s->minor = minors[i];
    nx_suite_add(suite, nx_name("every size at a guard page: %s, minor %u", r->name, s->minor), test_sweep_guard_page,
                 s);
    nx_suite_add(suite, nx_name("every size in an exact block: %s, minor %u", r->name, s->minor),
                 test_sweep_exact_block, s);
  }
}

static void add_loads(nx_suite *suite, const reader *r) {
  static load_row rows[READERS * 9];
  static size_t used;
  const load_row wanted[] = {
      {r, 0, 0, 1},
      {r, 7, 1, 1},
      {r, 8, 1, 1},
      {r, r->full - 1, 1, 1},
      {r, r->at_minor_0, 0, 1},
      {r, r->full, 1, 0},
      {r, r->full, 1, 1},
      {r, r->full + 8, 2, 1},
      {r, 0xFFFFFFFFu, 0xFFFFFFFFu, 2},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    rows[used] = wanted[i];
    nx_suite_add(suite,
                 nx_name("loads once: %s, size %u minor %u ceiling %u", r->name, wanted[i].size, wanted[i].minor,
                         wanted[i].ceiling),
                 test_loads, &rows[used++]);
  }
}

int main(void) {
  nx_suite suite = {0};
  for (size_t i = 0; i < READERS; i++) {
    add_sweeps(&suite, &readers[i]);
    add_loads(&suite, &readers[i]);
    nx_suite_add(&suite, nx_name("declares more than it holds: %s", readers[i].name), test_lying_size_at_guard_page,
                 &readers[i]);
    nx_suite_add(&suite, nx_name("header rewritten while read: %s", readers[i].name), test_race, &readers[i]);
  }
  return nx_suite_run(&suite, "prefix memory");
}
