/*
 * books_test.c: what is charged, summed while others charge and refund. Looks inside the host: the books alone, without a plugin.
 *
 * Attackers played: threads that take room from the total and give it back again at every step; threads without a stripe of their own.
 * Promise: a sum never shows room as charged, nor less than what stays charged; it is exact when nobody is at it; no total passes its limit.
 */
#define _GNU_SOURCE
#include "books.h"

#include <pthread.h>
#include <unistd.h>

#include "hosttest.h"
#include "nxmem/count.h"
#include "record.h"

enum { BYTES = 64, HELD = 4096, WORKERS_MAX = 18, READINGS = 100000 };

static nx_allocator *books; /* of a table: as aligned as its stripes are */
static pthread_barrier_t line;
static _Atomic int stop, odd;

static NxmemAllocResult answer(uint64_t owned, uint64_t mapped) {
  return (NxmemAllocResult){
      .struct_size = sizeof(NxmemAllocResult), .ptr = (uint8_t *)64, .owned_bytes = owned, .mapped_bytes = mapped};
}

static uint32_t charge(nx_allocation *record, uint64_t owned, uint64_t mapped) {
  const NxmemAllocResult result = answer(owned, mapped);
  return nx_books_charge(nx_visit_of(books), record, &result).reason;
}

static uint32_t refund(nx_allocation *record, uint64_t reported) {
  return nx_books_refund(nx_visit_of(books), record, reported).reason;
}

static void set_books(void) {
  books = (nx_allocator *)(void *)nx_table_take(&nx_allocators);
  nx_books_reset(books);
  atomic_store(&stop, 0);
  atomic_store(&odd, 0);
}

static void assert_charged(uint64_t owned, uint64_t mapped) {
  assert_int_equal(nx_books_owned(books), owned);
  assert_int_equal(nx_books_mapped(books), mapped);
}

/* Nothing is charged: then the totals may hold room, but a charge that needs all of it gets it. */
static void strike_books(void) {
  assert_charged(0, 0);
  nx_table_give(&nx_allocators, &books->slot);
}

static void expect(int as_it_must_be) {
  if (!as_it_must_be) atomic_fetch_add(&odd, 1);
}

/* ---- Sums beside charges -------------------------------------------------------------------------------------------- */

/* A charge too large for the total is refused, and all room given back before: so each of the others draws room anew. */
static void *charge_and_refund(void *unused) {
  nx_allocation record = {.bytes = BYTES};
  pthread_barrier_wait(&line);
  while (!atomic_load(&stop)) {
    expect(charge(&record, BYTES, BYTES) == NXMEM_REASON_NONE);
    expect(refund(&record, BYTES) == NXMEM_REASON_NONE);
    expect(charge(&record, NXMEM_TOTAL_MAX + 1u, BYTES) == NXMEM_REASON_TOTAL_TOO_LARGE);
  }
  return unused;
}

/* The same of a record whose charge rises and falls, at the end to where it was. */
static void *move_up_and_down(void *unused) {
  nx_allocation record = {.bytes = BYTES};
  pthread_barrier_wait(&line);
  while (!atomic_load(&stop)) {
    expect(nx_books_move(books, &record, BYTES, BYTES / 2));
    expect(nx_books_move(books, &record, BYTES / 2, BYTES));
    expect(nx_books_move(books, &record, 0, 0));
    expect(!nx_books_move(books, &record, BYTES, NXMEM_TOTAL_MAX + 1u));
    expect(!nx_books_move(books, &record, NXMEM_TOTAL_MAX + 1u, BYTES));
  }
  return unused;
}

typedef struct sum_row {
  const char *name;
  nx_modes modes;
  void *(*work)(void *);
  int workers; /* of 15 stripes that one thread has alone the test's own takes one */
} sum_row;

static const sum_row sum_rows[] = {
    {"sums beside one thread that charges", NX_GUARDED_ONLY, charge_and_refund, 1},
    {"sums beside four threads that charge", NX_GUARDED_ONLY, charge_and_refund, 4},
    {"sums beside threads that share a stripe", NX_GUARDED_ONLY, charge_and_refund, WORKERS_MAX},
    {"sums beside one thread whose charge moves", NX_GUARDED_ONLY, move_up_and_down, 1},
    {"sums beside threads that share a stripe and whose charges move", NX_GUARDED_ONLY, move_up_and_down, WORKERS_MAX},
};

static int is_within(uint64_t sum, int workers) { return sum >= HELD && sum - HELD <= (uint64_t)workers * BYTES; }

static void test_sums(void **state) {
  const sum_row *row = ((const nx_case *)*state)->row;
  set_books();
  nx_allocation held = {.bytes = HELD};
  assert_int_equal(charge(&held, HELD, HELD), NXMEM_REASON_NONE);
  pthread_t threads[WORKERS_MAX];
  pthread_barrier_init(&line, NULL, (unsigned)row->workers + 1);
  for (int i = 0; i < row->workers; i++) pthread_create(&threads[i], NULL, row->work, NULL);
  pthread_barrier_wait(&line);
  uint64_t wrong = 0;
  for (int i = 0; i < READINGS; i++) {
    wrong += !is_within(nx_books_owned(books), row->workers);
    wrong += !is_within(nx_books_mapped(books), row->workers);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < row->workers; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&line);
  assert_int_equal(wrong, 0);
  assert_int_equal(atomic_load(&odd), 0);
  assert_charged(HELD, HELD);
  assert_int_equal(refund(&held, HELD), NXMEM_REASON_NONE);
  strike_books();
}

/* ---- The limit ------------------------------------------------------------------------------------------------------ */

static nx_allocation half = {.bytes = BYTES};

static void *charge_half(void *unused) {
  expect(charge(&half, NXMEM_TOTAL_MAX / 2u, NXMEM_TOTAL_MAX / 2u) == NXMEM_REASON_NONE);
  return unused;
}

/* Charged by a thread that has ended, refunded by another. To the last byte for the thread that asks, whoever was charged before. */
static void test_limit(void **state) {
  (void)state;
  set_books();
  nx_allocation rest = {.bytes = BYTES}, more = {.bytes = BYTES};
  pthread_t thread;
  pthread_create(&thread, NULL, charge_half, NULL);
  pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&odd), 0);
  assert_int_equal(charge(&rest, NXMEM_TOTAL_MAX / 2u + 1u, 0), NXMEM_REASON_TOTAL_TOO_LARGE);
  assert_int_equal(charge(&rest, NXMEM_TOTAL_MAX / 2u, NXMEM_TOTAL_MAX / 2u - 1u), NXMEM_REASON_NONE);
  assert_charged(NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX - 1u);
  assert_int_equal(charge(&more, 1, 0), NXMEM_REASON_TOTAL_TOO_LARGE);
  assert_int_equal(charge(&more, 0, 2), NXMEM_REASON_TOTAL_TOO_LARGE);
  assert_false(nx_books_move(books, &rest, NXMEM_TOTAL_MAX / 2u + 1u, 0));
  assert_false(nx_books_move(books, &rest, 0, NXMEM_TOTAL_MAX / 2u + 1u));
  assert_charged(NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX - 1u); /* what is refused leaves nothing behind */
  assert_int_equal(charge(&more, 0, 1), NXMEM_REASON_NONE);
  assert_int_equal(refund(&half, NXMEM_TOTAL_MAX / 2u), NXMEM_REASON_NONE);
  assert_int_equal(refund(&rest, NXMEM_TOTAL_MAX / 2u - 1u), NXMEM_REASON_NONE);
  assert_int_equal(refund(&more, 1), NXMEM_REASON_NONE);
  assert_charged(0, 0);
  assert_int_equal(charge(&rest, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX), NXMEM_REASON_NONE);
  assert_int_equal(refund(&rest, NXMEM_TOTAL_MAX), NXMEM_REASON_NONE);
  strike_books();
}

static const nx_row_head limit_rows[] = {{"the limit, to the last byte", NX_GUARDED_ONLY}};

int main(void) {
  alarm(280);
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(sum_rows), test_sums);
  nx_suite_modes(&suite, ROWS(limit_rows), test_limit);
  return nx_suite_run(&suite, "host_books");
}
