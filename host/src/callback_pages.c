/*
 * callback_pages.c: one set of pages, mapped twice.
 *
 * Attackers: a plugin that writes to its callback table, or that keeps a pointer to it for ever.
 * Promise: what a plugin sees of a table cannot be written through, and is there until the process ends.
 *
 * One file holds a table for each slot that the table of allocators can ever have; it is sparse, so pages nobody used
 * cost nothing. The host's view goes to no child process. The file is sealed before the plugins' view is mapped: the
 * kernel then refuses to make that view writable.
 */
#include "callback_pages.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct views {
  NxmemHostCallbacks *written;
  const NxmemHostCallbacks *shown;
  nx_pages_kind kind;
} views;

/* A leaf: protects the making. Read without it once `made` says so. */
static pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER;
static views pages;
static atomic_int made;

static size_t pages_bytes(void) {
  return ((size_t)NX_CHUNKS_MAX << nx_allocators.chunk_shift) * sizeof(NxmemHostCallbacks);
}

static void *map(int fd, int protection) {
  void *view = mmap(NULL, pages_bytes(), protection, MAP_SHARED, fd, 0);
  return view == MAP_FAILED ? NULL : view;
}

static void unmap(void *view) {
  if (view != NULL) (void)munmap(view, pages_bytes());
}

/* Both views of an open file, with the seals in between. */
static int map_file(int fd, views *out) {
  enum { SEALS = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };
  if (ftruncate(fd, (off_t)pages_bytes()) != 0) return 0;
  void *written = map(fd, PROT_READ | PROT_WRITE);
  const int sealed = written != NULL && fcntl(fd, F_ADD_SEALS, SEALS) == 0;
  void *shown = sealed ? map(fd, PROT_READ) : NULL;
  if (shown == NULL) {
    unmap(written);
    return 0;
  }
  *out = (views){.written = written, .shown = shown, .kind = NX_PAGES_SEALED};
  return 1;
}

static int make_sealed(views *out) {
  const int fd = memfd_create("nxmem-callbacks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return 0;
  const int mapped = map_file(fd, out);
  (void)close(fd);
  return mapped;
}

/* Shared memory without a file: an old size of 0 asks for a second mapping of the same pages. */
static int make_double(views *out) {
  void *written = mmap(NULL, pages_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (written == MAP_FAILED) return 0;
  void *shown = mremap(written, 0, pages_bytes(), MREMAP_MAYMOVE);
  if (shown == MAP_FAILED) {
    unmap(written);
    return 0;
  }
  if (mprotect(shown, pages_bytes(), PROT_READ) != 0) {
    unmap(written);
    unmap(shown);
    return 0;
  }
  *out = (views){.written = written, .shown = shown, .kind = NX_PAGES_DOUBLE};
  return 1;
}

static int make_locked(void) {
  if (!make_sealed(&pages) && !make_double(&pages)) return 0;
  (void)madvise(pages.written, pages_bytes(), MADV_DONTFORK);
  return 1;
}

int nx_callback_pages_make(void) {
  if (atomic_load(&made)) return 1;
  pthread_mutex_lock(&pages_lock);
  if (!atomic_load(&made) && make_locked()) atomic_store(&made, 1);
  pthread_mutex_unlock(&pages_lock);
  return atomic_load(&made);
}

nx_pages_kind nx_callback_pages_kind(void) { return atomic_load(&made) ? pages.kind : NX_PAGES_NONE; }

const NxmemHostCallbacks *nx_callback_page_shown(uint32_t slot) { return &pages.shown[slot]; }

NxmemHostCallbacks *nx_callback_page_written(uint32_t slot) { return &pages.written[slot]; }
