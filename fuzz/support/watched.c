/*
 * watched.c: a page that is shut, and opened for one instruction at a time.
 * Attackers: none beyond the input.
 * Promise: a fault elsewhere keeps the fate that the engine has for it.
 */
#define _GNU_SOURCE
#include "watched.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "harness.h"

#if !defined(__x86_64__) || !defined(__linux__)
#error "single-steps x86-64 Linux code"
#endif

enum { TRAP_FLAG = 0x100, FAULT_WAS_WRITE = 0x2 };

static uint8_t *page;   /* FUZZ_GUARDED_MAX bytes, then as many that cannot be read */
static uint8_t *record; /* in it */
static size_t record_bytes;
static fuzz_watched *counts; /* NULL: nothing is watched */
static uint8_t flip_by;
static uint8_t *loaded; /* by the instruction that is let through */
static struct sigaction before_segv, before_trap;

static void shut(int access) {
  if (mprotect(page, FUZZ_GUARDED_MAX, access) != 0) fuzz_fail("harness", "the watched page cannot be shut or opened");
}

static void note(uint8_t *address, int is_write) {
  loaded = NULL;
  if (is_write) {
    counts->writes++;
  } else if (address < record || address >= record + record_bytes) {
    counts->outside++;
  } else {
    loaded = address;
    if (counts->loads[address - record] != UINT8_MAX) counts->loads[address - record]++;
  }
}

/* The trap flag brings us back right behind the instruction. */
static void on_fault(int number, siginfo_t *info, void *context) {
  ucontext_t *machine = context;
  uint8_t *address = info->si_addr;
  if (counts == NULL || address < page || address >= page + FUZZ_GUARDED_MAX) {
    sigaction(number, &before_segv, NULL);
    return;
  }
  note(address, (machine->uc_mcontext.gregs[REG_ERR] & FAULT_WAS_WRITE) != 0);
  shut(PROT_READ | PROT_WRITE);
  machine->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_step(int number, siginfo_t *info, void *context) {
  ucontext_t *machine = context;
  (void)number;
  (void)info;
  machine->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
  if (counts == NULL) return;
  if (loaded != NULL) *loaded ^= flip_by;
  shut(PROT_NONE);
}

void *fuzz_watch(const void *from, size_t bytes) {
  if (bytes > FUZZ_WATCHED_MAX) fuzz_fail("harness", "%zu bytes cannot be watched", bytes);
  if (page == NULL) {
    page = mmap(NULL, 2u * FUZZ_GUARDED_MAX, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) fuzz_fail("harness", "no memory to watch");
  }
  shut(PROT_READ | PROT_WRITE);
  record_bytes = bytes;
  record = page + FUZZ_GUARDED_MAX - (bytes + 7u) / 8u * 8u;
  memset(record, 0, (size_t)(page + FUZZ_GUARDED_MAX - record));
  if (bytes != 0) memcpy(record, from, bytes);
  return record;
}

void fuzz_watch_begin(fuzz_watched *seen, uint8_t flip) {
  struct sigaction action;
  memset(seen, 0, sizeof *seen);
  memset(&action, 0, sizeof action);
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  counts = seen;
  flip_by = flip;
  action.sa_sigaction = on_fault;
  sigaction(SIGSEGV, &action, &before_segv);
  action.sa_sigaction = on_step;
  sigaction(SIGTRAP, &action, &before_trap);
  shut(PROT_NONE);
}

void fuzz_watch_end(void) {
  shut(PROT_READ | PROT_WRITE);
  counts = NULL;
  sigaction(SIGSEGV, &before_segv, NULL);
  sigaction(SIGTRAP, &before_trap, NULL);
}
