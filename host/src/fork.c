/*
 * fork.c: is this process a forked child of the one that uses the library?
 *
 * Attackers: none; a child that inherits locks, threads and plugin state it must not touch.
 * Promise: after a fork, by whatever call, the answer in the child is yes and costs one load.
 */
#include "fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "objects.h"

/* A page that the kernel empties in a forked child (MADV_WIPEONFORK, Linux 4.14). 1 in the process that set it up. */
static _Atomic(atomic_uchar *) mark;
/* For kernels without it: only fork(3) and its like run this handler. */
static atomic_uchar fallback_mark = 1;

static void in_child(void) { atomic_store(&fallback_mark, 0); }

static void set_up(void) {
  void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED && madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) == 0) {
    atomic_uchar *byte = page;
    atomic_store(byte, 1);
    atomic_store(&mark, byte);
    return;
  }
  (void)pthread_atfork(NULL, NULL, in_child);
  atomic_store(&mark, &fallback_mark);
}

void nx_fork_watch(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, set_up);
}

int nx_is_forked(void) {
  atomic_uchar *byte = atomic_load_explicit(&mark, memory_order_acquire);
  return byte != NULL && atomic_load_explicit(byte, memory_order_relaxed) == 0;
}
