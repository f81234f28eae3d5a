/*
 * touch.c: a pattern into plugin memory and back, with faults caught.
 * Attackers: a plugin that hands out an address that cannot be written.
 * Promise: only a fault of the touching thread while it touches is caught.
 */
#include "touch.h"

#include <setjmp.h>
#include <stddef.h>
#include <string.h>

/* Plugin threads may fault at the same moment: the flag tells their faults from ours. */
static _Thread_local volatile sig_atomic_t touching;
static sigjmp_buf back;
static void *volatile fault_address;
static const nx_touch_guard *guarding;

static void on_fault(int number, siginfo_t *info, void *context) {
  (void)context;
  if (!touching) {
    /* The faulting access runs again and ends the process as it would have. */
    sigaction(number, number == SIGBUS ? &guarding->bus : &guarding->segv, NULL);
    return;
  }
  touching = 0;
  fault_address = info->si_addr;
  siglongjmp(back, 1);
}

void nx_touch_begin(nx_touch_guard *guard) {
  struct sigaction catching;
  guarding = guard;
  memset(&catching, 0, sizeof catching);
  catching.sa_sigaction = on_fault;
  catching.sa_flags = SA_SIGINFO;
  sigemptyset(&catching.sa_mask);
  sigaction(SIGSEGV, &catching, &guard->segv);
  sigaction(SIGBUS, &catching, &guard->bus);
}

void nx_touch_end(const nx_touch_guard *guard) {
  sigaction(SIGSEGV, &guard->segv, NULL);
  sigaction(SIGBUS, &guard->bus, NULL);
}

/* One byte of a block's pattern: a mix of block and 8-byte word (odd constants of 64-bit Weyl sequences). */
static uint8_t pattern(uint64_t block, uint64_t offset) {
  uint64_t word = (block + 1) * 0x9E3779B97F4A7C15u + (offset >> 3) * 0xBF58476D1CE4E5B9u;
  word ^= word >> 29;
  return (uint8_t)(word >> (8 * (offset & 7)));
}

static nx_touch fault(void) { return (nx_touch){NX_TOUCH_FAULT, (uint64_t)(uintptr_t)fault_address}; }

/* volatile: each byte is really stored, and really loaded, at the address the plugin named. */
nx_touch nx_touch_fill(void *start, uint64_t bytes, uint64_t block) {
  volatile uint8_t *to = start;
  if (sigsetjmp(back, 1)) return fault();
  touching = 1;
  for (uint64_t i = 0; i < bytes; i++) to[i] = pattern(block, i);
  touching = 0;
  return (nx_touch){NX_TOUCH_OK, 0};
}

nx_touch nx_touch_verify(const void *start, uint64_t bytes, uint64_t block) {
  const volatile uint8_t *from = start;
  volatile uint64_t at = 0;
  if (sigsetjmp(back, 1)) return fault();
  touching = 1;
  for (uint64_t i = 0; i < bytes; i++) {
    if (from[i] == pattern(block, i)) continue;
    at = (uint64_t)(uintptr_t)(from + i);
    break;
  }
  touching = 0;
  return (nx_touch){at ? NX_TOUCH_CHANGED : NX_TOUCH_OK, at};
}
