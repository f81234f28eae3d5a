/*
 * spans_test.c: the free spans of an arena against a list that is searched from its start.
 *
 * Attackers played: a caller that gives back twice, or what was never taken; sizes and alignments near 2^64.
 * Promise: the tree and the list agree at every step: in what is free, in what is joined, and in where first fit takes.
 */
#include "spans.h"

#include "support.h"

enum { GRANULE = 4096, STEPS = 20000, LIVE_MAX = 700 };
#define BASE 0x100000000ull
#define BYTES (64ull << 20)

/* ---- The list -------------------------------------------------------------------------------------------------------- */

typedef struct piece {
  uint64_t first, bytes;
} piece;

static piece list[4096];
static size_t count;

static void list_open(void) {
  list[0] = (piece){BASE, BYTES};
  count = 1u;
}

static void list_remove(size_t at) {
  memmove(&list[at], &list[at + 1u], (count - at - 1u) * sizeof list[0]);
  count--;
}

static void list_insert(size_t at, piece p) {
  assert_in_range(count, 0, 4000);
  memmove(&list[at + 1u], &list[at], (count - at) * sizeof list[0]);
  list[at] = p;
  count++;
}

static uint64_t fit(piece p, uint64_t bytes, uint64_t align) {
  const uint64_t at = (p.first + align - 1u) / align * align;
  return at - p.first + bytes <= p.bytes ? at : 0u;
}

static uint64_t list_take(uint64_t bytes, uint64_t align) {
  for (size_t i = 0u; i < count; i++) {
    const uint64_t at = fit(list[i], bytes, align);
    if (at == 0u) continue;
    const piece before = {list[i].first, at - list[i].first};
    const piece behind = {at + bytes, list[i].first + list[i].bytes - at - bytes};
    list_remove(i);
    if (behind.bytes != 0u) list_insert(i, behind);
    if (before.bytes != 0u) list_insert(i, before);
    return at;
  }
  return 0u;
}

static void list_give(piece p) {
  size_t i = 0u;
  while (i < count && list[i].first < p.first) i++;
  if (i < count && p.first + p.bytes == list[i].first) {
    p.bytes += list[i].bytes;
    list_remove(i);
  }
  if (i > 0u && list[i - 1u].first + list[i - 1u].bytes == p.first)
    list[i - 1u].bytes += p.bytes;
  else
    list_insert(i, p);
}

static uint64_t list_bytes(void) {
  uint64_t sum = 0u;
  for (size_t i = 0u; i < count; i++) sum += list[i].bytes;
  return sum;
}

/* ---- Both ------------------------------------------------------------------------------------------------------------ */

static uint64_t seed = 88172645463325252ull;
static uint64_t any(uint64_t below) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed % below;
}

static void agree(const nx_spans *spans) {
  assert_int_equal(nx_spans_count(spans), count);
  assert_int_equal(nx_spans_free_bytes(spans), list_bytes());
}

/* Alignments for which first fit is exact: up to the unit, and the granule (whole granules). */
static nxmem_block any_block(void) {
  if (any(4u) == 0u) return (nxmem_block){(1u + any(6u)) * GRANULE, GRANULE};
  return (nxmem_block){(1u + any(200u)) * NX_UNIT, NX_UNIT};
}

static void tree_agrees_with_the_list(void **state) {
  static piece live[LIVE_MAX];
  size_t used = 0u;
  nx_spans spans;
  (void)state;
  list_open();
  assert_true(nx_spans_open(&spans, BASE, BYTES, GRANULE));
  for (int step = 0; step < STEPS; step++) {
    if (used < LIVE_MAX && (used == 0u || any(100u) < 55u)) {
      const nxmem_block block = any_block();
      uint64_t at = 0u;
      assert_true(nx_spans_take(&spans, &block, &at));
      assert_int_equal(at, list_take(block.bytes, block.align));
      live[used++] = (piece){at, block.bytes};
    } else {
      const size_t chosen = any(used);
      assert_true(nx_spans_give(&spans, live[chosen].first, live[chosen].bytes));
      list_give(live[chosen]);
      live[chosen] = live[--used];
    }
    if (step % 64 == 0) agree(&spans);
  }
  while (used > 0u) {
    used--;
    assert_true(nx_spans_give(&spans, live[used].first, live[used].bytes));
    list_give(live[used]);
    agree(&spans);
  }
  assert_int_equal(nx_spans_count(&spans), 1);
  assert_int_equal(nx_spans_free_bytes(&spans), BYTES);
  nx_spans_close(&spans);
}

/* Of other alignments the place is not the lowest there is, but it is aligned, free, and found where a span surely holds it. */
static void odd_alignments_are_kept(void **state) {
  nx_spans spans;
  (void)state;
  assert_true(nx_spans_open(&spans, BASE + NX_UNIT, BYTES - NX_UNIT, GRANULE));
  for (uint64_t align = 512u; align <= 1ull << 24; align *= 2u) {
    const nxmem_block block = {3u * NX_UNIT, align};
    uint64_t at = 0u;
    assert_true(nx_spans_take(&spans, &block, &at));
    assert_int_equal(at % align, 0);
    assert_true(nx_spans_give(&spans, at, block.bytes));
  }
  assert_int_equal(nx_spans_count(&spans), 1);
  nx_spans_close(&spans);
}

static void what_does_not_fit_is_refused(void **state) {
  nx_spans spans;
  uint64_t at = 7u;
  (void)state;
  assert_true(nx_spans_open(&spans, BASE, BYTES, GRANULE));
  const nxmem_block blocks[] = {{BYTES + NX_UNIT, NX_UNIT}, {UINT64_MAX - 255u, NX_UNIT}, {NX_UNIT, 1ull << 63}};
  for (size_t i = 0u; i < 3u; i++) assert_false(nx_spans_take(&spans, &blocks[i], &at));
  assert_int_equal(at, 7);
  const nxmem_block all = {BYTES, GRANULE};
  assert_true(nx_spans_take(&spans, &all, &at));
  assert_int_equal(nx_spans_count(&spans), 0);
  const nxmem_block least = {NX_UNIT, NX_UNIT};
  assert_false(nx_spans_take(&spans, &least, &at));
  nx_spans_close(&spans);
}

static void what_is_free_is_not_given_back(void **state) {
  nx_spans spans;
  uint64_t at = 0u;
  (void)state;
  assert_true(nx_spans_open(&spans, BASE, BYTES, GRANULE));
  const nxmem_block block = {4u * NX_UNIT, NX_UNIT};
  assert_true(nx_spans_take(&spans, &block, &at));
  assert_false(nx_spans_give(&spans, at, 5u * NX_UNIT));          /* one unit too many */
  assert_false(nx_spans_give(&spans, BASE - NX_UNIT, NX_UNIT));   /* outside */
  assert_false(nx_spans_give(&spans, BASE + BYTES - 256u, 512u)); /* beyond the end */
  assert_true(nx_spans_give(&spans, at, 4u * NX_UNIT));
  assert_false(nx_spans_give(&spans, at, 4u * NX_UNIT)); /* twice */
  assert_int_equal(nx_spans_free_bytes(&spans), BYTES);
  nx_spans_close(&spans);
}

/* Of a span that is free in parts, all that is free goes, and only that. */
static void withdrawn_never_comes_back(void **state) {
  nx_spans spans;
  uint64_t at = 0u, middle = 0u;
  (void)state;
  assert_true(nx_spans_open(&spans, BASE, 4u * GRANULE, GRANULE));
  const nxmem_block block = {2u * NX_UNIT, NX_UNIT};
  assert_true(nx_spans_take(&spans, &block, &at));
  assert_true(nx_spans_take(&spans, &block, &middle));
  assert_true(nx_spans_give(&spans, at, block.bytes));
  nx_spans_withdraw(&spans, BASE, GRANULE);
  assert_int_equal(nx_spans_free_bytes(&spans), 3u * GRANULE);
  nx_spans_withdraw(&spans, BASE + 2u * GRANULE, GRANULE);
  assert_int_equal(nx_spans_free_bytes(&spans), 2u * GRANULE);
  assert_int_equal(nx_spans_count(&spans), 2);
  assert_true(nx_spans_take(&spans, &block, &at));
  assert_int_equal(at, BASE + GRANULE);
  nx_spans_close(&spans);
}

/* The key is what the core says, wherever a span begins and ends. */
static void key_is_the_cores(void **state) {
  (void)state;
  for (int i = 0; i < 20000; i++) {
    const uint64_t granule = 1ull << (12u + any(10u)), first = BASE + any(8u * granule), bytes = 1u + any(6u * granule);
    uint64_t unused = 0u;
    assert_int_equal(nx_spans_key(first, bytes, granule),
                     nxmem_granules_whole(first, bytes, granule, &unused) * granule);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tree_agrees_with_the_list),    cmocka_unit_test(odd_alignments_are_kept),
      cmocka_unit_test(what_does_not_fit_is_refused), cmocka_unit_test(what_is_free_is_not_given_back),
      cmocka_unit_test(withdrawn_never_comes_back),   cmocka_unit_test(key_is_the_cores)};
  return cmocka_run_group_tests_name("vmm_spans", tests, NULL, NULL);
}
