/*
 * fatal_test.c: does each mechanism of libnxmem_scripted_fatal.so end, stop or spoil its process as its name says?
 *
 * Attackers played: none; here the attackers are under test, those that end a process in one of their own.
 * Promise: the signal or exit code is compared, and that nothing happens before the slot that is named.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "mechanisms.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* ---- The end of the process -------------------------------------------------------------------------------------- */

typedef enum deed { IN_OPEN, IN_ALLOCATE, IN_DEALLOCATE, IN_DRAIN, IN_RELEASE } deed;

typedef struct end_row {
  const char *name;
  deed where;
  int signal; /* 0: it exits */
} end_row;

static const end_row ends[] = {
    {"crashes-in-open", IN_OPEN, SIGSEGV},        {"exits-in-open", IN_OPEN, 0},
    {"hangs-in-open", IN_OPEN, SIGALRM},          {"crashes-in-allocate", IN_ALLOCATE, SIGSEGV},
    {"aborts-in-allocate", IN_ALLOCATE, SIGABRT}, {"exits-in-allocate", IN_ALLOCATE, 0},
    {"hangs-in-allocate", IN_ALLOCATE, SIGALRM},  {"crashes-in-deallocate", IN_DEALLOCATE, SIGSEGV},
    {"hangs-in-drain", IN_DRAIN, SIGALRM},        {"crashes-in-release", IN_RELEASE, SIGSEGV},
};

enum { SHORTLY = 1 };

static const plugin *playing;

/* A whole life up to the call named and with it: where that returns, so does this. */
static void live_until(deed last) {
  recorder r;
  uint64_t number = 0u;
  recorder_start(&r);
  const NxmemAllocatorVtable *table = recorder_open(&r, playing);
  if (last == IN_OPEN) return;
  const NxmemAllocation a = take(table, 5u, 100u, 64u);
  if (last == IN_ALLOCATE) return;
  (void)table->deallocate(table->ctx, &a, &number);
  if (last == IN_DEALLOCATE) return;
  if (last == IN_DRAIN && table->drain_releases != NULL) (void)table->drain_releases(table->ctx, 1u, &number);
  if (last == IN_RELEASE) table->release(table->ctx);
}

static void live_with(const void *row) { live_until(((const end_row *)row)->where); }
static void live_before(const void *row) {
  if (((const end_row *)row)->where != IN_OPEN) live_until(((const end_row *)row)->where - 1);
}

static void run_end(const subject *s, const void *data) {
  const end_row *row = data;
  plugin p;
  plugin_load(&p, s->file);
  plugin_find(&p, row->name);
  playing = &p;
  const int before = in_child(live_before, row, 60u);
  assert_true(WIFEXITED(before));
  assert_int_equal(WEXITSTATUS(before), RETURNED);
  const int status = in_child(live_with, row, row->signal == SIGALRM ? SHORTLY : 60u);
  assert_int_equal(WIFSIGNALED(status), row->signal != 0);
  if (row->signal != 0) assert_int_equal(WTERMSIG(status), row->signal);
  if (row->signal == 0) assert_int_equal(WEXITSTATUS(status), 0);
  plugin_close(&p);
}

/* ---- What is not seen at once ------------------------------------------------------------------------------------ */

static void show_honest(const scene *s) {
  const NxmemAllocation a = take(s->table, 5u, 100u, 64u);
  give_back(s->table, &a);
}

static void show_scribble(const scene *s) {
  union {
    NxmemAllocResult result;
    uint8_t bytes[64];
  } room;
  const NxmemAllocRequest request = alloc_request(s->table, 5u, 100u, 64u);
  memset(&room, 0xC5, sizeof room);
  room.result = alloc_result();
  assert_status(s->table->allocate(s->table->ctx, &request, &room.result), NXMEM_STATUS_OK);
  for (size_t i = 32u; i < 64u; i++) assert_int_equal(room.bytes[i], i < 40u ? 0x00 : 0xC5);
  const NxmemAllocation a = allocation_of(&request, &room.result);
  give_back(s->table, &a);
}

static uint64_t resident_pages(void) {
  unsigned long pages = 0u, resident = 0u;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%lu %lu", &pages, &resident), 2);
  fclose(file);
  return resident;
}

static void show_growth(const scene *s) {
  enum { CYCLES = 4000 };
  show_honest(s);
  const uint64_t before = resident_pages();
  for (int i = 0; i < CYCLES; i++) show_honest(s);
  assert_true(resident_pages() > before + CYCLES / 2u);
  assert_books(s->p, 1u, 0u);
}

static void show_lost_count(const scene *s) {
  const NxmemAllocation a = take(s->table, 5u, 100u, 64u);
  give_back(s->table, &a);
  assert_books(s->p, 1u, 1u);
}

/* ---- Not fit for threads ----------------------------------------------------------------------------------------- */

enum { ROUNDS = 50 };
typedef struct worker {
  const scene *s;
  uint64_t first_id;
  uint32_t refused;
} worker;

static void *work(void *argument) {
  worker *w = argument;
  for (uint64_t i = 0u; i < ROUNDS; i++) {
    const NxmemAllocRequest request = alloc_request(w->s->table, w->first_id + i, 100u, 64u);
    NxmemAllocResult result = alloc_result();
    uint64_t unmapped = 0u;
    const uint32_t code = w->s->table->allocate(w->s->table->ctx, &request, &result).code;
    w->refused += code == NXMEM_STATUS_BUSY;
    const NxmemAllocation a = allocation_of(&request, &result);
    if (code == NXMEM_STATUS_OK) (void)w->s->table->deallocate(w->s->table->ctx, &a, &unmapped);
  }
  return NULL;
}

static void show_alone(const scene *s) {
  worker workers[2] = {{s, 1u, 0u}, {s, 1000u, 0u}};
  pthread_t threads[2];
  work(&workers[0]);
  assert_int_equal(workers[0].refused, 0u); /* alone it serves every call */
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_true(workers[0].refused + workers[1].refused > 0u);
  assert_books(s->p, 1u, 0u);
}

static NxmemStatus come_back(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  (void)request, (void)reclaimed_out;
  const NxmemAllocation a = take(((recorder *)host_ctx)->table, 9u, 100u, 64u);
  give_back(((recorder *)host_ctx)->table, &a);
  return (NxmemStatus){NXMEM_STATUS_BUSY, 0u, {0}};
}

static void allocate_coming_back(const void *argument) {
  const scene *s = argument;
  s->r->callbacks.request_reclaim = come_back;
  show_honest(s);
}

static void show_locking(const scene *s) {
  show_honest(s); /* where the host does not come back, nothing is noticed */
  assert_int_equal(s->r->reclaims, 1u);
  const int status = in_child(allocate_coming_back, s, SHORTLY);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGALRM);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

#define ENDS(name, flags) \
  { name, 0, 0, flags, ANY, 0, NULL } /* a case of its own: `ends` */
#define ROW(name, show) \
  { name, 128, 1, PLAIN, ANY, 1, show }

static const mechanism_row rows[] = {
    {"eager", 128, 1, STRUCTURED, ANY, 1, show_eager},
    {"lazy", 128, 1, ALL, ANY, 1, show_honest},
    ENDS("crashes-in-open", STRUCTURED),
    ENDS("exits-in-open", STRUCTURED),
    ENDS("hangs-in-open", STRUCTURED),
    ENDS("crashes-in-allocate", PLAIN),
    ENDS("aborts-in-allocate", PLAIN),
    ENDS("exits-in-allocate", PLAIN),
    ENDS("hangs-in-allocate", PLAIN),
    ENDS("crashes-in-deallocate", PLAIN),
    ENDS("hangs-in-drain", DEFERRED),
    ENDS("crashes-in-release", STRUCTURED),
    ROW("scribbles-past-result", show_scribble),
    ROW("grows", show_growth),
    ROW("loses-count", show_lost_count),
    ROW("one-at-a-time", show_alone),
    ROW("locks-across-callback", show_locking),
};

int main(void) {
  static const subject fatal = {"libnxmem_scripted_fatal.so", "fatal", 0u, 31u};
  add_mechanisms(&fatal, rows, COUNT(rows), 1);
  for (size_t i = 0u; i < COUNT(ends); i++) add_case(&fatal, "end", &ends[i], run_end);
  return run_added("fatal mechanisms");
}
