/*
 * fork.c: is this process a forked child of the one that uses the library?
 *
 * Attackers: none; a child that inherits locks, threads and plugin state it must not touch.
 * Promise: after a fork, by whatever call, the answer in the child is yes and costs two loads.
 */
#include "fork.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

/* For as long as nothing is watched, and for kernels that do not empty pages: there only fork(3) and its like run the handler. */
static atomic_uchar fallback_mark = 1;
_Atomic(atomic_uchar *) nx_fork_mark = &fallback_mark;

static void in_child(void) { atomic_store(&fallback_mark, 0); }

static void set_up(void) {
  void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED && madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) == 0) {
    atomic_uchar *byte = page;
    atomic_store(byte, 1);
    atomic_store(&nx_fork_mark, byte);
    return;
  }
  (void)pthread_atfork(NULL, NULL, in_child);
}

void nx_fork_watch(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, set_up);
}
