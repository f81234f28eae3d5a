/*
 * fork.c: a page that the kernel empties in every forked child.
 *
 * Attackers: a child that inherits locks, mappings and books that are its parent's.
 * Promise: after a fork, by whatever call, the answer in the child is yes and costs one load; no handler stays behind when the module goes.
 */
#define _GNU_SOURCE
#include "fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

/* 1 in the process that set it up. Once made it stays until the module is unmapped: a child must find it, whatever else is gone. */
static _Atomic(atomic_uchar *) mark;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t page_bytes;

static atomic_uchar *make(void) {
  page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  void *page = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return NULL;
  if (madvise(page, page_bytes, MADV_WIPEONFORK) != 0) {
    munmap(page, page_bytes);
    return NULL;
  }
  atomic_uchar *byte = page;
  atomic_store(byte, 1);
  return byte;
}

int nx_fork_watch(void) {
  if (nx_is_forked()) return 1;
  pthread_mutex_lock(&lock);
  atomic_uchar *byte = atomic_load(&mark);
  if (byte == NULL) atomic_store(&mark, byte = make());
  pthread_mutex_unlock(&lock);
  return byte != NULL;
}

int nx_is_forked(void) {
  atomic_uchar *byte = atomic_load_explicit(&mark, memory_order_acquire);
  return byte != NULL && atomic_load_explicit(byte, memory_order_relaxed) == 0;
}

/* With the module, and not sooner: between the last allocator and the module's end a child may still call. */
__attribute__((destructor)) static void unmake(void) {
  atomic_uchar *byte = atomic_exchange(&mark, NULL);
  if (byte != NULL) munmap(byte, page_bytes);
}
