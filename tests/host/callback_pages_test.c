/*
 * callback_pages_test.c: the tables that plugins see cannot be written, moved or taken away by them.
 *
 * Attackers played: a plugin that writes to its table, asks for write access to it, maps it anew, in the process and in
 * a forked child; a system without memfd_create, without seals, without a second mapping.
 * Promise: a write faults; the host goes on filling slots; where no way is left, no host is made, and the message says
 * why.
 */
#define _GNU_SOURCE
#include "callback_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "staging.h"

/* ---- What the system refuses --------------------------------------------------------------------------------------- */

static int no_memfd, no_seals, no_second_mapping, no_memory;

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags) {
  if (!no_memfd) return __real_memfd_create(name, flags);
  errno = ENOSYS;
  return -1;
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const int argument = va_arg(arguments, int);
  va_end(arguments);
  if (!no_seals || command != F_ADD_SEALS) return __real_fcntl(fd, command, argument);
  errno = EINVAL;
  return -1;
}

void *__real_mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...);
void *__wrap_mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...);
void *__wrap_mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...) {
  if (!no_second_mapping) return __real_mremap(old, old_bytes, bytes, flags);
  errno = EINVAL;
  return MAP_FAILED;
}

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (!no_memory) return __real_mmap(at, bytes, protection, flags, fd, offset);
  errno = ENOMEM;
  return MAP_FAILED;
}

typedef struct system_row {
  const char *name;
  int no_memfd, no_seals, no_second_mapping, no_memory;
  nx_pages_kind kind;
} system_row;

static const system_row system_rows[] = {
    {"a sealed file", 0, 0, 0, 0, NX_PAGES_SEALED},
    {"no memfd_create: mapped twice", 1, 0, 0, 0, NX_PAGES_DOUBLE},
    {"no seals: mapped twice", 0, 1, 0, 0, NX_PAGES_DOUBLE},
    {"no second mapping: a sealed file", 0, 0, 1, 0, NX_PAGES_SEALED},
    {"neither", 1, 0, 1, 0, NX_PAGES_NONE},
    {"neither seals nor a second mapping", 0, 1, 1, 0, NX_PAGES_NONE},
    {"no address space", 0, 0, 0, 1, NX_PAGES_NONE},
};

/* ---- In a child: what a plugin may try ------------------------------------------------------------------------------ */

enum { FINE = 0, BAD = 1 };

/* The signal that ended a child which ran `act`, or -1 where it came to its end. */
static int signal_of(void (*act)(void)) {
  (void)fflush(NULL);
  const pid_t child = fork();
  assert_int_not_equal(child, -1);
  if (child == 0) {
    act();
    _exit(FINE);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

static void write_to_table(void) { ((volatile NxmemHostCallbacks *)(uintptr_t)puppet.callbacks)->host_ctx = NULL; }

static void *page_of(const void *address) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  return (void *)((uintptr_t)address / page * page);
}

/* The host's own view is not in a child at all. */
static void write_behind_the_view(void) {
  ((volatile NxmemHostCallbacks *)nx_callback_page_written(0))->host_ctx = NULL;
}

static void read_table(void) {
  if (((const volatile NxmemHostCallbacks *)puppet.callbacks)->struct_size != 32) abort();
}

/* A crash in a child is no find of a sanitizer's: its handlers are put back to what the kernel does. */
static void plain_crashes(void) {
  signal(SIGSEGV, SIG_DFL);
  signal(SIGBUS, SIG_DFL);
}

static void assert_protected(nx_pages_kind kind) {
  plain_crashes();
  assert_int_equal(signal_of(write_to_table), SIGSEGV);
  assert_int_equal(signal_of(write_behind_the_view), SIGSEGV);
  assert_int_equal(signal_of(read_table), -1);
  if (kind != NX_PAGES_SEALED) return;
  errno = 0;
  assert_int_equal(mprotect(page_of(puppet.callbacks), 4096, PROT_READ | PROT_WRITE), -1);
  assert_int_equal(errno, EACCES);
  assert_int_equal(signal_of(write_to_table), SIGSEGV);
}

/* The host fills slot after slot, also those that were used before. */
static void assert_tables(nx_stage *stage) {
  enum { N = 70 }; /* more than one chunk of slots */
  static nxmem_allocator opened[N];
  static const NxmemHostCallbacks *tables[N];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < N; i++) {
      opened[i] = nx_must_open_mechanism(stage->plugin, "puppet");
      tables[i] = puppet.callbacks;
      assert_int_equal(tables[i]->struct_size, 32);
      for (int j = 0; j < i; j++) {
        assert_ptr_not_equal(tables[j], tables[i]);
        assert_ptr_not_equal(tables[j]->host_ctx, tables[i]->host_ctx);
      }
    }
    for (int i = 0; i < N; i++) nx_must_close(opened[i]);
  }
}

static int run_system(const system_row *row) {
  no_memfd = row->no_memfd;
  no_seals = row->no_seals;
  no_second_mapping = row->no_second_mapping;
  no_memory = row->no_memory;
  nxmem_host host;
  nxmem_error error = nx_blank_error();
  const nxmem_result made = nxmem_host_create(NULL, &host, &error);
  no_memory = 0;
  assert_int_equal(nx_callback_pages_kind(), row->kind);
  if (row->kind == NX_PAGES_NONE) {
    nx_assert_code(made, &error, NXMEM_ERR_OUT_OF_MEMORY);
    assert_non_null(strstr(error.message, "callback tables"));
    /* It is tried again: where the system gives them after all, there is a host. */
    no_memfd = no_seals = no_second_mapping = 0;
    assert_int_equal(nxmem_host_create(NULL, &host, NULL), NXMEM_OK);
    nx_host_gone(host);
    return FINE;
  }
  assert_int_equal(made, NXMEM_OK);
  nx_host_gone(host);
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(NXMEM_FETCH_GUARDED);
  const size_t fds = nx_open_fds();
  assert_protected(row->kind);
  assert_tables(&stage);
  assert_int_equal(nx_open_fds(), fds);
  nx_stage_strike(&stage);
  return FINE;
}

/* The pages are made once in a process: each row has one of its own. A failed assertion ends that with a message. */
static void test_system(void **state) {
  const system_row *row = *state;
  (void)fflush(NULL);
  const pid_t child = fork();
  assert_int_not_equal(child, -1);
  if (child == 0) _exit(run_system(row));
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), FINE);
}

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(system_rows), test_system);
  return nx_suite_run(&suite, "host_callback_pages");
}
