/*
 * fetch_test.c: reading memory that ends, is forbidden, is not there, or changes. Looks inside the host.
 *
 * Attackers played: addresses of every kind; tables and names that end at a page without access; a thread that rewrites
 * what is read.
 * Promise: no address faults in the guarded mode, by either of its two ways; what was read is one state, looked at
 * once.
 */
#define _GNU_SOURCE
#include "fetch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hosttest.h"
#include "nxmem/prefix.h"

typedef size_t (*reader)(void *out, const void *src, size_t bytes);

typedef struct way {
  const char *name;
  reader read;
} way;

static const way ways[] = {{"readv", nx_fetch_by_readv}, {"memfd", nx_fetch_by_memfd}, {"guarded", nx_fetch_guarded}};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* ---- A kernel that refuses ---------------------------------------------------------------------------------------- */

static int refuse_readv, refuse_memfd;

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                                const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                                const struct iovec *remote, unsigned long remote_count, unsigned long flags);
int __real_memfd_create(const char *name, unsigned int flags);
int __wrap_memfd_create(const char *name, unsigned int flags);

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                                const struct iovec *remote, unsigned long remote_count, unsigned long flags) {
  if (!refuse_readv) return __real_process_vm_readv(pid, local, local_count, remote, remote_count, flags);
  errno = EPERM;
  return -1;
}

int __wrap_memfd_create(const char *name, unsigned int flags) {
  if (!refuse_memfd) return __real_memfd_create(name, flags);
  errno = EPERM;
  return -1;
}

static int reads_by_the_other_way(void) {
  static const NxmemAllocatorVtable table = {.struct_size = 128, .abi_minor = 1};
  nx_snapshot snapshot;
  const void *view = NULL;
  const void *nowhere = (const void *)(uintptr_t)0x1000;
  return nx_fetch_guarded_works() &&
         nx_fetch_table(NXMEM_FETCH_GUARDED, &table, 128, &snapshot, &view).reason == NXMEM_REASON_NONE &&
         nx_fetch_table(NXMEM_FETCH_GUARDED, nowhere, 128, &snapshot, &view).reason == NXMEM_REASON_UNREADABLE;
}

static int makes_no_host(void) {
  nxmem_host host;
  nxmem_host_options options;
  nxmem_host_options_default(&options);
  refuse_memfd = 1;
  return nxmem_host_create(&options, &host, NULL) == NXMEM_ERR_UNREADABLE_MEMORY;
}

typedef struct refusal_row {
  const char *name;
  nx_modes modes;
  int (*good)(void);
} refusal_row;

static const refusal_row refusal_rows[] = {
    {"no process_vm_readv: no less guarded", 0, reads_by_the_other_way},
    {"no process_vm_readv and no memfd: no host", 0, makes_no_host},
};

/* In a process of its own: the way is chosen once. */
static void test_refusing_kernel(void **state) {
  const refusal_row *row = *state;
  const pid_t child = fork();
  if (child == 0) {
    refuse_readv = 1;
    _exit(row->good() ? 0 : 1);
  }
  int ended = -1;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_int_equal(ended, 0);
}

/* ---- What can be read -------------------------------------------------------------------------------------------- */

/*
 * `readable` bytes that end at a guard page, read as `asked` bytes: all that is there, and no byte of the rest is
 * written.
 */
static void test_ends(void **state) {
  const way *w = *state;
  static const size_t readable[] = {1, 3, 4, 7, 8, 55, 56, 119, 120, 127, 128, 255, 256};
  for (size_t i = 0; i < sizeof readable / sizeof readable[0]; i++) {
    nx_fence fence;
    nx_fence_open(&fence, 256);
    uint8_t *src = fence.end - readable[i];
    for (size_t k = 0; k < readable[i]; k++) src[k] = (uint8_t)(k + 1);
    uint8_t out[257];
    memset(out, 0xEE, sizeof out);
    const size_t got = w->read(out, src, 256);
    assert_int_equal(got, readable[i]);
    assert_memory_equal(out, src, readable[i]);
    assert_int_equal(out[256], 0xEE);
    assert_int_equal(w->read(out, src, readable[i]), readable[i]);
    nx_fence_close(&fence);
  }
}

/* Across two pages, and with the second one gone. */
static void test_two_pages(void **state) {
  const way *w = *state;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(two, MAP_FAILED);
  memset(two, 0x11, page);
  memset(two + page, 0x22, page);
  uint8_t out[128];
  assert_int_equal(w->read(out, two + page - 40, 128), 128);
  assert_int_equal(out[39], 0x11);
  assert_int_equal(out[40], 0x22);
  assert_int_equal(munmap(two + page, page), 0);
  assert_int_equal(w->read(out, two + page - 40, 128), 40);
  assert_int_equal(w->read(out, two + page, 128), 0);
  assert_int_equal(munmap(two, page), 0);
  assert_int_equal(w->read(out, two + page - 40, 128), 0);
}

static void test_nowhere(void **state) {
  const way *w = *state;
  static const uint64_t addresses[] = {0,
                                       1,
                                       8,
                                       0x1000,
                                       0xDEAD0000DEAD0000ull,
                                       0x7FFFFFFFF000ull,
                                       0x800000000000ull,
                                       0xFFFF800000000000ull,
                                       0xFFFFFFFFFFFFFFF8ull,
                                       0xFFFFFFFFFFFFFFFFull};
  uint8_t out[128];
  for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
    assert_int_equal(w->read(out, (const void *)(uintptr_t)addresses[i], 128), 0);
}

/* Unlike /proc/self/mem, no way looks through a page that is closed. */
static void test_forbidden(void **state) {
  const way *w = *state;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *closed = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(closed, 0x33, page);
  uint8_t out[128];
  assert_int_equal(w->read(out, closed, 128), 128);
  assert_int_equal(mprotect(closed, page, PROT_NONE), 0);
  assert_int_equal(w->read(out, closed, 128), 0);
  assert_int_equal(mprotect(closed, page, PROT_READ), 0);
  assert_int_equal(w->read(out, closed, 128), 128);
  assert_int_equal(munmap(closed, page), 0);
}

static void *read_own_pattern(void *argument) {
  const way *w = argument;
  uint8_t mine[128], out[128];
  memset(mine, (int)((uintptr_t)&mine >> 4), sizeof mine);
  for (int i = 0; i < 2000; i++)
    if (w->read(out, mine, sizeof mine) != sizeof mine || memcmp(out, mine, sizeof mine) != 0) return argument;
  return NULL;
}

/* One scratch file serves all threads, and none gets another's bytes. */
static void test_threads(void **state) {
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, read_own_pattern, *state);
  void *bad = NULL, *answer;
  for (int i = 0; i < 8; i++) {
    pthread_join(threads[i], &answer);
    if (answer != NULL) bad = answer;
  }
  assert_null(bad);
}

static void test_works_here(void **state) {
  (void)state;
  const size_t fds = nx_open_fds();
  assert_int_equal(nx_fetch_guarded_works(), 1);
  assert_int_equal(nx_open_fds(), fds);
}

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

typedef struct table_row {
  const char *name;
  uint32_t declared; /* struct_size */
  uint32_t readable; /* bytes before the guard page */
  uint32_t full;     /* our size */
  uint32_t reason;
  uint64_t found, needed;
} table_row;

#define GOOD NXMEM_REASON_NONE, 0, 0
#define CUT(found, needed) NXMEM_REASON_UNREADABLE, (found), (needed)

static const table_row table_rows[] = {
    {"128 of 128", 128, 128, 128, GOOD},
    {"120 of 120: the rest is not needed", 120, 120, 128, GOOD},
    {"8 of 8: the core will call it short", 8, 8, 128, GOOD},
    {"declares 0 and ends behind it", 0, 8, 128, GOOD},
    {"declares 128 and ends at 120", 128, 120, 128, CUT(120, 128)},
    {"declares 127 and ends at 120", 127, 120, 128, CUT(120, 127)},
    {"declares 192: ours is enough", 192, 128, 128, GOOD},
    {"declares 192 and ends at 120", 192, 120, 128, CUT(120, 128)},
    {"declares 2^32-1 and ends at 8", 0xFFFFFFFFu, 8, 128, CUT(8, 128)},
    {"a factory of 56", 56, 56, 56, GOOD},
    {"a factory that ends at 48", 56, 48, 56, CUT(48, 56)},
};

static void test_table(void **state) {
  const table_row *row = *state;
  nx_fence fence;
  nx_fence_open(&fence, 256);
  uint8_t *table = fence.end - row->readable;
  memset(table, 0x44, row->readable);
  nx_put32(table, row->declared);
  nx_snapshot snapshot;
  memset(&snapshot, 0x55, sizeof snapshot);
  const void *view = &fence;
  const nxmem_verdict v = nx_fetch_table(NXMEM_FETCH_GUARDED, table, row->full, &snapshot, &view);
  nx_assert_verdict(v, (nxmem_verdict){row->reason, 0, row->found, row->needed});
  assert_ptr_equal(view, row->reason == NXMEM_REASON_NONE ? (const void *)&snapshot : (const void *)&fence);
  /* Zero beyond what was readable, so that nothing of an earlier table shines through. */
  for (size_t i = row->readable; i < sizeof snapshot; i++) assert_int_equal(snapshot.bytes[i], 0);
  nx_fence_close(&fence);
}

static void test_table_address(void **state) {
  (void)state;
  _Alignas(8) uint8_t table[144] = {128};
  nx_snapshot snapshot;
  for (int mode = 0; mode < 2; mode++) {
    const void *view = &snapshot;
    nx_assert_verdict(nx_fetch_table((nxmem_fetch_mode)mode, NULL, 128, &snapshot, &view),
                      (nxmem_verdict){NXMEM_REASON_NULL_POINTER, 0, 0, 0});
    for (uint32_t by = 1; by < 8; by++)
      nx_assert_verdict(nx_fetch_table((nxmem_fetch_mode)mode, table + by, 128, &snapshot, &view),
                        (nxmem_verdict){NXMEM_REASON_MISALIGNED, 0, by, 8});
    assert_ptr_equal(view, &snapshot);
  }
  const void *view = NULL;
  nx_assert_verdict(nx_fetch_table(NXMEM_FETCH_DIRECT, table, 128, &snapshot, &view), (nxmem_verdict){0, 0, 0, 0});
  assert_ptr_equal(view, table);
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

typedef struct name_row {
  const char *name;
  uint32_t length; /* letters before the NUL, or before the guard page where there is none */
  int terminated;
  uint32_t want; /* bytes that may be looked at */
} name_row;

static const name_row name_rows[] = {
    {"empty at the end", 0, 1, 1},           {"five letters at the end", 5, 1, 6},
    {"255 letters at the end", 255, 1, 256}, {"no NUL before the end", 40, 0, 40},
    {"one letter and the end", 1, 0, 1},     {"256 letters without a NUL", 256, 0, 256},
};

static void test_name(void **state) {
  const name_row *row = *state;
  for (int mode = 0; mode < 2; mode++) {
    if (mode == NXMEM_FETCH_DIRECT && !row->terminated && row->length < 256) continue; /* would fault, by design */
    nx_fence fence;
    nx_fence_open(&fence, 512);
    const uint32_t bytes = row->length + (row->terminated ? 1 : 0);
    uint8_t *name = fence.end - bytes;
    memset(name, 'n', bytes);
    if (row->terminated) fence.end[-1] = 0;
    uint8_t out[256];
    memset(out, 0xEE, sizeof out);
    assert_int_equal(nx_fetch_name((nxmem_fetch_mode)mode, name, out), row->want);
    assert_memory_equal(out, name, row->want);
    for (uint32_t i = row->want; i < 256; i++) assert_int_equal(out[i], 0);
    nx_fence_close(&fence);
  }
}

static void test_name_nowhere(void **state) {
  (void)state;
  uint8_t out[256];
  memset(out, 0xEE, sizeof out);
  assert_int_equal(nx_fetch_name(NXMEM_FETCH_GUARDED, NULL, out), 0);
  assert_int_equal(nx_fetch_name(NXMEM_FETCH_DIRECT, NULL, out), 0);
  assert_int_equal(nx_fetch_name(NXMEM_FETCH_GUARDED, (const uint8_t *)0x10, out), 0);
  for (int i = 0; i < 256; i++) assert_int_equal(out[i], 0);
}

/* ---- A thread that rewrites the table while it is read ----------------------------------------------------------- */

static const uint32_t sizes[] = {0, 7, 8, 120, 127, 128, 192, 0xFFFFFFFFu};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static struct {
  _Atomic uint32_t *written; /* the same page twice: a race the reader's tools need not know of */
  uint8_t *read;
  _Atomic int stop;
} racing;

static void *flip(void *argument) {
  for (uint32_t i = 0; !atomic_load(&racing.stop); i++) atomic_store(racing.written, sizes[i % SIZES]);
  return argument;
}

/* `found` is a size that once stood there, and the verdict is that size's. */
static void assert_one_state(nxmem_verdict v, const NxmemAllocatorVtable *table) {
  if (v.reason == NXMEM_REASON_NONE) {
    assert_true(table->struct_size >= 128);
    return;
  }
  int known = 0;
  for (int i = 0; i < SIZES; i++) known |= sizes[i] == v.found;
  assert_true(known);
  if (v.reason == NXMEM_REASON_SHORT_HEADER)
    assert_true(v.found < 8);
  else
    assert_true(v.reason == NXMEM_REASON_SHORT_TABLE && v.found >= 8 && v.found < 128);
}

static void test_racing(void **state) {
  const nxmem_fetch_mode mode = (nxmem_fetch_mode)(uintptr_t)*state;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const int fd = memfd_create("racing", MFD_CLOEXEC);
  assert_int_equal(ftruncate(fd, (off_t)page), 0);
  racing.written = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  racing.read = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  atomic_store(&racing.stop, 0);
  ((_Atomic uint32_t *)racing.written)[1] = 1; /* abi_minor */
  pthread_t thread;
  pthread_create(&thread, NULL, flip, NULL);
  for (int i = 0; i < 20000; i++) {
    nx_snapshot snapshot;
    const void *view = NULL;
    NxmemAllocatorVtable table;
    uint32_t minor = 0;
    nxmem_verdict v = nx_fetch_table(mode, racing.read, 128, &snapshot, &view);
    assert_int_equal(v.reason, NXMEM_REASON_NONE); /* the whole page can be read */
    v = nxmem_read_allocator_unvalidated(view, 1, &table, &minor);
    assert_one_state(v, &table);
  }
  atomic_store(&racing.stop, 1);
  pthread_join(thread, NULL);
  munmap(racing.written, page);
  munmap(racing.read, page);
}

int main(void) {
  alarm(280);
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(refusal_rows), test_refusing_kernel); /* before the way is chosen here */
  nx_suite_add(&suite, "the guarded mode works here", test_works_here, NULL);
  for (int i = 0; i < WAYS; i++) {
    nx_suite_add(&suite, nx_name("%s: ends at a guard page", ways[i].name), test_ends, &ways[i]);
    nx_suite_add(&suite, nx_name("%s: across two pages", ways[i].name), test_two_pages, &ways[i]);
    nx_suite_add(&suite, nx_name("%s: leads nowhere", ways[i].name), test_nowhere, &ways[i]);
    nx_suite_add(&suite, nx_name("%s: a closed page", ways[i].name), test_forbidden, &ways[i]);
    nx_suite_add(&suite, nx_name("%s: eight threads", ways[i].name), test_threads, &ways[i]);
  }
  nx_suite_rows(&suite, ROWS(table_rows), test_table);
  nx_suite_add(&suite, "table addresses in both modes", test_table_address, NULL);
  nx_suite_rows(&suite, ROWS(name_rows), test_name);
  nx_suite_add(&suite, "a name that is nowhere", test_name_nowhere, NULL);
  nx_suite_add(&suite, "guarded: a size that changes meanwhile", test_racing, (void *)(uintptr_t)NXMEM_FETCH_GUARDED);
  nx_suite_add(&suite, "direct: a size that changes meanwhile", test_racing, (void *)(uintptr_t)NXMEM_FETCH_DIRECT);
  return nx_suite_run(&suite, "host_fetch");
}
