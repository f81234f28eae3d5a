/*
 * index_test.c: the index of taken addresses against a slow list of them. Looks inside the host.
 *
 * Attackers played: ranges of every length, at every place up to the last byte there is; threads that want the same bytes at once; addresses far apart, one after
 * the other.
 * Promise: a range is refused exactly where it shares a byte with one that is in; of several at once at most one has a byte; empty cells do not pile up.
 */
#define _GNU_SOURCE
#include "index.h"

#include <pthread.h>
#include <unistd.h>

#include "hosttest.h"
#include "index_shard.h"

static uint64_t seed = 88172645463325252ull;
static uint64_t draw_from(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}
static uint64_t draw(void) { return draw_from(&seed); }

static uint32_t next_space_id = 1;
static nx_space fresh_space(void) { return (nx_space){.id = next_space_id++}; }

static int put(nx_space *space, uint64_t first, uint64_t bytes) {
  uint64_t other, other_bytes;
  return (int)nx_index_put(space, first, bytes, &other, &other_bytes);
}

/* ---- Against a list ------------------------------------------------------------------------------------------------- */

typedef struct span {
  uint64_t first, bytes;
} span;

enum { LIST_MAX = 600, ROUNDS = 12000 };

typedef struct random_row {
  const char *name;
  uint64_t base;
  uint32_t window_bits;           /* first addresses lie in 2^window_bits from there on */
  uint32_t least_bits, most_bits; /* lengths from 2^least_bits up to below 2^(most_bits + 1) */
  uint32_t aligned;               /* first addresses and lengths are multiples */
} random_row;

static const random_row random_rows[] = {
    {"single bytes in a page", 0x10000, 12, 0, 0, 1},
    {"short ones in a page", 0x7F0000001000, 12, 0, 6, 1},
    {"short ones in sixteen pages", 0x7F0000001000, 16, 0, 9, 1},
    {"up to a cell's length", 0x7F0000000000, 18, 8, 10, 1},
    {"around a cell's length", 0x7F0000000000, 20, 9, 11, 1},
    {"short and long", 0x7F0000000000, 22, 0, 18, 1},
    {"short and long, aligned", 0x7F0000000000, 22, 4, 18, 16},
    {"the second and the third tier", 0x7F0000000000, 28, 12, 25, 1},
    {"gigabytes and bytes", 0x7F0000000000, 38, 0, 34, 1},
    {"terabytes", 0x100000000000, 46, 30, 42, 4096},
    {"all lengths everywhere", 1, 63, 0, 62, 1},
    {"long ones everywhere", 1, 63, 50, 62, 1},
    {"at the top: short", 0xFFFFFFFFFFFFF000, 12, 0, 8, 1},
    {"at the top: all lengths", 0xFFFFFFFF00000000, 32, 0, 31, 1},
    {"around the middle", 0x7FFFFFFFFFFF0000, 17, 0, 16, 1},
};

static int shares_a_byte(span a, span b) {
  return a.first <= b.first + (b.bytes - 1) && b.first <= a.first + (a.bytes - 1);
}

static span draw_span(const random_row *row) {
  const uint32_t bits = row->least_bits + (uint32_t)(draw() % (row->most_bits - row->least_bits + 1));
  span s = {row->base + (draw() & ((1ull << row->window_bits) - 1)), (1ull << bits) + (draw() & ((1ull << bits) - 1))};
  s.first -= s.first % row->aligned;
  s.bytes += row->aligned - 1;
  s.bytes -= s.bytes % row->aligned;
  if (s.bytes - 1 > UINT64_MAX - s.first) s.bytes = UINT64_MAX - s.first + 1; /* up to the last byte */
  return s;
}

static span list[LIST_MAX];
static size_t listed;

static size_t first_that_shares(span s) {
  size_t i = 0;
  while (i < listed && !shares_a_byte(list[i], s)) i++;
  return i;
}

static void try_to_put(nx_space *space, span s) {
  span other = {0, 0};
  const nx_put got = nx_index_put(space, s.first, s.bytes, &other.first, &other.bytes);
  const int taken = first_that_shares(s) < listed;
  if (got != (taken ? NX_PUT_TAKEN : NX_PUT_DONE))
    fail_msg("%llx + %llx: found %d, %zu are in", (unsigned long long)s.first, (unsigned long long)s.bytes, (int)got,
             listed);
  if (taken && (!shares_a_byte(other, s) || first_that_shares(other) == listed))
    fail_msg("%llx + %llx is said to be there", (unsigned long long)other.first, (unsigned long long)other.bytes);
  if (got == NX_PUT_DONE) list[listed++] = s;
}

static void drop_any(nx_space *space) {
  const size_t i = draw() % listed;
  nx_index_drop(space, list[i].first, list[i].bytes);
  list[i] = list[--listed];
}

static void test_random(void **state) {
  const random_row *row = *state;
  nx_space space = fresh_space();
  listed = 0;
  size_t most = 0;
  for (int i = 0; i < ROUNDS; i++) {
    const int grows = draw() % 3 != 0;
    if (listed == LIST_MAX || (listed != 0 && !grows))
      drop_any(&space);
    else
      try_to_put(&space, draw_span(row));
    if (listed > most) most = listed;
  }
  assert_true(most >= 3);
  while (listed != 0) drop_any(&space);
  assert_int_equal(put(&space, 1, UINT64_MAX), NX_PUT_DONE); /* nothing was left anywhere */
  nx_index_drop(&space, 1, UINT64_MAX);
}

/* ---- One beside another --------------------------------------------------------------------------------------------- */

typedef struct pair_row {
  const char *name;
  span first, second;
  nx_put want;
} pair_row;

#define BIG 0x40000000ull
static const pair_row pair_rows[] = {
    {"the same", {4096, 64}, {4096, 64}, NX_PUT_TAKEN},
    {"the same byte", {4096, 1}, {4096, 1}, NX_PUT_TAKEN},
    {"inside", {4096, 64}, {4112, 16}, NX_PUT_TAKEN},
    {"around", {4112, 16}, {4096, 64}, NX_PUT_TAKEN},
    {"the last byte", {4096, 64}, {4159, 1}, NX_PUT_TAKEN},
    {"over the first byte", {4096, 64}, {4090, 7}, NX_PUT_TAKEN},
    {"up to the first byte", {4096, 64}, {4090, 6}, NX_PUT_DONE},
    {"behind the last byte", {4096, 64}, {4160, 1}, NX_PUT_DONE},
    {"across a cell's end, its second half", {5100, 100}, {5190, 4}, NX_PUT_TAKEN},
    {"across a cell's end, its first half", {5100, 100}, {5100, 4}, NX_PUT_TAKEN},
    {"across a cell's end, behind it", {5100, 100}, {5200, 4}, NX_PUT_DONE},
    {"two that cross the same end", {5100, 100}, {5119, 2}, NX_PUT_TAKEN},
    {"a byte in a gigabyte", {BIG, BIG}, {BIG + 12345, 1}, NX_PUT_TAKEN},
    {"a gigabyte around a byte", {BIG + 12345, 1}, {BIG, BIG}, NX_PUT_TAKEN},
    {"a byte before a gigabyte", {BIG, BIG}, {BIG - 1, 1}, NX_PUT_DONE},
    {"a gigabyte behind a byte", {BIG - 1, 1}, {BIG, BIG}, NX_PUT_DONE},
    {"a gigabyte before a byte", {2 * BIG, 1}, {BIG, BIG}, NX_PUT_DONE},
    {"pages of a gigabyte", {BIG, BIG}, {BIG + 4096, 8192}, NX_PUT_TAKEN},
    {"a gigabyte around pages", {BIG + 4096, 8192}, {BIG, BIG}, NX_PUT_TAKEN},
    {"all there is, then a byte", {1, UINT64_MAX}, {777, 1}, NX_PUT_TAKEN},
    {"a byte, then all there is", {777, 1}, {1, UINT64_MAX}, NX_PUT_TAKEN},
    {"the last byte there is, twice", {UINT64_MAX, 1}, {UINT64_MAX, 1}, NX_PUT_TAKEN},
    {"the last byte there is, and before", {UINT64_MAX, 1}, {UINT64_MAX - 1, 1}, NX_PUT_DONE},
    {"both halves", {1, 0x7FFFFFFFFFFFFFFFull}, {0x8000000000000000ull, 0x8000000000000000ull}, NX_PUT_DONE},
};

static void test_pair(void **state) {
  const pair_row *row = *state;
  nx_space space = fresh_space(), elsewhere = fresh_space();
  assert_int_equal(put(&space, row->first.first, row->first.bytes), NX_PUT_DONE);
  assert_int_equal(put(&space, row->second.first, row->second.bytes), row->want);
  assert_int_equal(put(&elsewhere, row->second.first, row->second.bytes), NX_PUT_DONE); /* spaces never meet */
  if (row->want == NX_PUT_DONE) nx_index_drop(&space, row->second.first, row->second.bytes);
  nx_index_drop(&space, row->first.first, row->first.bytes);
  nx_index_drop(&elsewhere, row->second.first, row->second.bytes);
  for (int i = 0; i < 2; i++) { /* what was refused left nothing, what was dropped is free again */
    assert_int_equal(put(&space, row->second.first, row->second.bytes), NX_PUT_DONE);
    nx_index_drop(&space, row->second.first, row->second.bytes);
  }
}

/* ---- Threads -------------------------------------------------------------------------------------------------------- */

enum { THREADS = 6, HELD = 24, GRANULE = 64, GRANULES = 1 << 15 };

typedef struct contest_row {
  const char *name;
  uint32_t granule_bits; /* where they are */
  uint32_t most_bits;    /* lengths: up to 2^most_bits granules */
  int turns;
} contest_row;

static const contest_row contest_rows[] = {
    {"six threads, short ones", 7, 2, 12000},
    {"six threads, of two tiers", 10, 6, 8000},
    {"six threads, of all tiers up to a megabyte", 15, 14, 2000},
    {"six threads, a few short ones among long ones", 14, 13, 2500},
};

static struct {
  const contest_row *row;
  nx_space space;
  _Atomic uint32_t owners[GRANULES]; /* the thread that has it, by the index's word */
  _Atomic uint64_t clashes, got;
} contest;

static span in_bytes(uint64_t first, uint64_t granules) {
  return (span){0x7E0000000000ull + first * GRANULE, granules * GRANULE};
}

static void own(uint64_t first, uint64_t granules, uint32_t from, uint32_t to) {
  for (uint64_t i = 0; i < granules; i++)
    if (atomic_exchange(&contest.owners[first + i], to) != from) atomic_fetch_add(&contest.clashes, 1);
}

typedef struct holding {
  uint64_t first, granules;
} holding;

static void contend(uint32_t me, uint64_t *state, holding *held, size_t *count) {
  const contest_row *row = contest.row;
  if (*count == HELD || (*count != 0 && draw_from(state) % 2 == 0)) {
    const size_t i = draw_from(state) % *count;
    const span s = in_bytes(held[i].first, held[i].granules);
    own(held[i].first, held[i].granules, me, 0);
    nx_index_drop(&contest.space, s.first, s.bytes);
    held[i] = held[--*count];
    return;
  }
  holding h = {draw_from(state) & ((1ull << row->granule_bits) - 1), 1ull << draw_from(state) % (row->most_bits + 1u)};
  const uint64_t room = (1ull << row->granule_bits) - h.first;
  if (h.granules > room) h.granules = room;
  const span s = in_bytes(h.first, h.granules);
  if (put(&contest.space, s.first, s.bytes) != NX_PUT_DONE) return;
  own(h.first, h.granules, 0, me);
  atomic_fetch_add(&contest.got, 1);
  held[(*count)++] = h;
}

static void *contestant(void *argument) {
  const uint32_t me = (uint32_t)(uintptr_t)argument;
  uint64_t state = 0x9E3779B97F4A7C15ull * me;
  holding held[HELD];
  size_t count = 0;
  for (int i = 0; i < contest.row->turns; i++) contend(me, &state, held, &count);
  while (count != 0) {
    const span s = in_bytes(held[count - 1].first, held[count - 1].granules);
    own(held[count - 1].first, held[count - 1].granules, me, 0);
    nx_index_drop(&contest.space, s.first, s.bytes);
    count--;
  }
  return NULL;
}

static void test_contest(void **state) {
  contest.row = *state;
  contest.space = fresh_space();
  atomic_store(&contest.got, 0);
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, contestant, (void *)(i + 1));
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&contest.clashes), 0);
  assert_true(atomic_load(&contest.got) > 200);
  assert_int_equal(put(&contest.space, 1, UINT64_MAX), NX_PUT_DONE);
  nx_index_drop(&contest.space, 1, UINT64_MAX);
}

/* ---- Memory --------------------------------------------------------------------------------------------------------- */

/* One allocation at a time, each at a place of its own: what an address costs is given back for the next. */
static void test_far_apart(void **state) {
  (void)state;
  nx_space space = fresh_space();
  const uint64_t before = nx_index_bytes();
  for (int i = 0; i < 100000; i++) {
    const uint64_t first = draw() | 1, bytes = 1 + draw() % 4096;
    if (bytes - 1 > UINT64_MAX - first) continue;
    assert_int_equal(put(&space, first, bytes), NX_PUT_DONE);
    nx_index_drop(&space, first, bytes);
  }
  assert_in_range(nx_index_bytes() - before, 0, 2u << 20);
}

typedef struct weight_row {
  const char *name;
  uint64_t stride, bytes;
  uint64_t most; /* tenths of a byte of the index for each */
} weight_row;

static const weight_row weight_rows[] = {
    {"weight: 64 bytes, close together", 64, 64, 95},  {"weight: 64 bytes in 80", 80, 64, 120},
    {"weight: 64 bytes in 144", 144, 64, 110},         {"weight: 16 bytes in 32", 32, 16, 90},
    {"weight: 4,096 bytes in 4,112", 4112, 4096, 120},
};

static void test_weight(void **state) {
  const weight_row *row = *state;
  enum { COUNT = 200000 };
  nx_space space = fresh_space();
  const uint64_t base = 0x600000000000ull + ((uint64_t)space.id << 40), before = nx_index_used_bytes();
  for (uint64_t i = 0; i < COUNT; i++) assert_int_equal(put(&space, base + i * row->stride, row->bytes), NX_PUT_DONE);
  const uint64_t each = (nx_index_used_bytes() - before) * 10 / COUNT;
  assert_in_range(each, 40, row->most);
  for (uint64_t i = 0; i < COUNT; i++) nx_index_drop(&space, base + i * row->stride, row->bytes);
  assert_true(nx_index_used_bytes() <= before + (1u << 20));
}

/* The odds against it are 2^63 for each. */
static void test_keys(void **state) {
  (void)state;
  static const uint64_t known[] = {0xD6E8FEB86659FD93ull, 0x9E3779B97F4A7C15ull};
  for (size_t i = 0; i < sizeof nx_hash_keys / sizeof nx_hash_keys[0]; i++) {
    assert_int_equal(nx_hash_keys[i] % 2u, 1);
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) assert_int_not_equal(nx_hash_keys[i], known[k]);
  }
}

static const nx_row_head far_rows[] = {{"a hundred thousand places, one after the other", 0}};

#define EACH(rows, test)                                        \
  for (size_t i = 0; i < sizeof(rows) / sizeof((rows)[0]); i++) \
  nx_suite_add(&suite, (rows)[i].name, test, (void *)(uintptr_t) & (rows)[i])

int main(void) {
  alarm(280);
  nx_suite suite = {0};
  EACH(pair_rows, test_pair);
  EACH(random_rows, test_random);
  EACH(contest_rows, test_contest);
  EACH(far_rows, test_far_apart);
  EACH(weight_rows, test_weight);
  nx_suite_add(&suite, "keys that nobody knows", test_keys, NULL);
  return nx_suite_run(&suite, "host_index");
}
