/*
 * watch.c: a page that writes down every access to it.
 *
 * Attackers: none.
 * Promise: an access outside the page is not ours: it gets the default fate of a fault.
 */
#define _GNU_SOURCE
#include "watch.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "support.h"

#if !defined(__x86_64__) || !defined(__linux__)
#error "watch.c single-steps x86-64 Linux code; port it before running the core's tests elsewhere"
#endif

enum { TRAP_FLAG = 0x100, FAULT_WAS_WRITE = 0x2 };

static nx_watch *armed;
static struct sigaction before_segv;
static struct sigaction before_trap;

static void note(nx_watch *watch, const uint8_t *address, int is_write) {
  if (watch->accesses < NX_WATCH_ACCESSES_MAX) watch->offsets[watch->accesses] = (int32_t)(address - watch->record);
  watch->accesses++;
  if (is_write) watch->writes++;
}

/* Opens the page for one instruction: the trap flag brings us back right behind it. */
static void on_fault(int number, siginfo_t *info, void *context) {
  ucontext_t *machine = context;
  const uint8_t *address = info->si_addr;
  if (armed == NULL || address < armed->bytes || address >= armed->bytes + NX_WATCH_BYTES) {
    signal(number, SIG_DFL);
    return;
  }
  note(armed, address, (machine->uc_mcontext.gregs[REG_ERR] & FAULT_WAS_WRITE) != 0);
  mprotect(armed->bytes, NX_WATCH_BYTES, PROT_READ | PROT_WRITE);
  machine->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_step(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)info;
  ucontext_t *machine = context;
  machine->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
  if (armed != NULL) mprotect(armed->bytes, NX_WATCH_BYTES, PROT_NONE);
}

void nx_watch_open(nx_watch *watch, size_t record_bytes) {
  if (sysconf(_SC_PAGESIZE) != NX_WATCH_BYTES) fail_msg("pages of another size");
  memset(watch, 0, sizeof *watch);
  void *pages = mmap(NULL, 2 * NX_WATCH_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) fail_msg("no memory to watch");
  watch->bytes = pages;
  mprotect(watch->bytes, NX_WATCH_BYTES, PROT_READ | PROT_WRITE);
  watch->record = watch->bytes + NX_WATCH_BYTES - record_bytes;
}

void nx_watch_close(nx_watch *watch) { munmap(watch->bytes, 2 * NX_WATCH_BYTES); }

void nx_watch_arm(nx_watch *watch) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  armed = watch;
  action.sa_sigaction = on_fault;
  sigaction(SIGSEGV, &action, &before_segv);
  action.sa_sigaction = on_step;
  sigaction(SIGTRAP, &action, &before_trap);
  mprotect(watch->bytes, NX_WATCH_BYTES, PROT_NONE);
}

void nx_watch_disarm(nx_watch *watch) {
  mprotect(watch->bytes, NX_WATCH_BYTES, PROT_READ | PROT_WRITE);
  armed = NULL;
  sigaction(SIGSEGV, &before_segv, NULL);
  sigaction(SIGTRAP, &before_trap, NULL);
}

size_t nx_watch_count(const nx_watch *watch, int32_t offset) {
  size_t count = 0;
  for (size_t i = 0; i < watch->accesses; i++) count += watch->offsets[i] == offset ? 1u : 0u;
  return count;
}

void nx_watch_assert_single_fetch(const nx_watch *watch, int32_t limit) {
  assert_int_equal(watch->writes, 0);
  assert_true(watch->accesses <= NX_WATCH_ACCESSES_MAX);
  for (size_t i = 0; i < watch->accesses; i++) {
    if (watch->offsets[i] < 0 || watch->offsets[i] >= limit)
      fail_msg("load at offset %d, outside 0..%d", watch->offsets[i], limit - 1);
    if (nx_watch_count(watch, watch->offsets[i]) != 1) fail_msg("offset %d loaded more than once", watch->offsets[i]);
  }
}
