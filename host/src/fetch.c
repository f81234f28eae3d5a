/*
 * fetch.c: plugin memory, copied once.
 *
 * Attackers: pointers that lead nowhere, tables that end early, memory that changes or vanishes while it is read.
 * Promise: in the guarded mode no address can make the host fault, and nothing is read twice.
 */
#include "fetch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "nxmem/name.h"
#include "nxmem/prefix.h"
#include "nxmem/range.h"

/* The pid is taken anew each time: a number kept from before a fork would read another process. */
size_t nx_fetch_by_readv(void *out, const void *src, size_t bytes) {
  struct iovec local = {.iov_base = out, .iov_len = bytes};
  struct iovec remote = {.iov_base = (void *)(uintptr_t)src, .iov_len = bytes};
  const ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  return n > 0 ? (size_t)n : 0u;
}

/* One scratch file for all threads; the lock is a leaf and no plugin code runs under it. */
static pthread_mutex_t scratch_lock = PTHREAD_MUTEX_INITIALIZER;
static int scratch_fd = -1;

static int open_scratch_locked(void) {
  if (scratch_fd < 0) scratch_fd = memfd_create("nxmem-fetch", MFD_CLOEXEC);
  return scratch_fd;
}

size_t nx_fetch_by_memfd(void *out, const void *src, size_t bytes) {
  size_t got = 0u;
  pthread_mutex_lock(&scratch_lock);
  const int fd = open_scratch_locked();
  if (fd >= 0) {
    const ssize_t written = pwrite(fd, src, bytes, 0);
    if (written > 0) {
      const ssize_t read_back = pread(fd, out, (size_t)written, 0);
      got = read_back > 0 ? (size_t)read_back : 0u;
    }
  }
  pthread_mutex_unlock(&scratch_lock);
  return got;
}

static int store_by_writev(uint64_t *to, uint64_t count) {
  struct iovec local = {.iov_base = &count, .iov_len = sizeof count};
  struct iovec remote = {.iov_base = to, .iov_len = sizeof count};
  return process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)sizeof count;
}

static int store_by_memfd(uint64_t *to, uint64_t count) {
  pthread_mutex_lock(&scratch_lock);
  const int fd = open_scratch_locked();
  const int stored = fd >= 0 && pwrite(fd, &count, sizeof count, 0) == (ssize_t)sizeof count &&
                     pread(fd, to, sizeof count, 0) == (ssize_t)sizeof count;
  pthread_mutex_unlock(&scratch_lock);
  return stored;
}

typedef enum way { WAY_UNKNOWN, WAY_READV, WAY_MEMFD, WAY_NONE } way;

static way find_way(void) {
  static const unsigned char probe[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  unsigned char copy[8] = {0};
  if (nx_fetch_by_readv(copy, probe, sizeof copy) == sizeof copy && memcmp(copy, probe, sizeof copy) == 0)
    return WAY_READV;
  memset(copy, 0, sizeof copy);
  if (nx_fetch_by_memfd(copy, probe, sizeof copy) == sizeof copy && memcmp(copy, probe, sizeof copy) == 0)
    return WAY_MEMFD;
  return WAY_NONE;
}

static way present_way(void) {
  static _Atomic int decided = WAY_UNKNOWN;
  int w = atomic_load_explicit(&decided, memory_order_relaxed);
  if (w != WAY_UNKNOWN) return (way)w;
  w = find_way();
  atomic_store_explicit(&decided, w, memory_order_relaxed);
  return (way)w;
}

int nx_fetch_guarded_works(void) { return present_way() != WAY_NONE; }

size_t nx_fetch_guarded(void *out, const void *src, size_t bytes) {
  return present_way() == WAY_READV ? nx_fetch_by_readv(out, src, bytes) : nx_fetch_by_memfd(out, src, bytes);
}

int nx_store_count(nxmem_fetch_mode mode, uint64_t *to, uint64_t count) {
  if (nxmem_check_table_address((uintptr_t)to).reason != NXMEM_REASON_NONE) return 0;
  if (mode == NXMEM_FETCH_GUARDED)
    return (present_way() == WAY_READV && store_by_writev(to, count)) || store_by_memfd(to, count);
  *(volatile uint64_t *)to = count;
  return 1;
}

/* What was readable must cover what the table's own size, as far as we know it, makes a reader look at. */
static nxmem_verdict check_snapshot(const nx_snapshot *snapshot, size_t got, uint32_t full) {
  uint32_t declared;
  if (got < sizeof declared) return nxmem_check_readable(got, NXMEM_HEADER_BYTES);
  memcpy(&declared, snapshot->bytes, sizeof declared);
  return nxmem_check_readable(got, nxmem_prefix_extent(declared, full));
}

nxmem_verdict nx_fetch_table(nxmem_fetch_mode mode, const void *src, uint32_t full, nx_snapshot *snapshot,
                             const void **view_out) {
  const nxmem_verdict address = nxmem_check_table_address((uintptr_t)src);
  if (address.reason != NXMEM_REASON_NONE) return address;
  if (mode == NXMEM_FETCH_DIRECT) {
    *view_out = src;
    return address;
  }
  memset(snapshot, 0, sizeof *snapshot);
  const size_t got = nx_fetch_guarded(snapshot->bytes, src, full);
  const nxmem_verdict whole = check_snapshot(snapshot, got, full);
  if (whole.reason == NXMEM_REASON_NONE) *view_out = snapshot;
  return whole;
}

static uint32_t name_by_loads(const uint8_t *src, uint8_t out[256]) {
  const volatile uint8_t *bytes = src;
  for (uint32_t i = 0; i < NXMEM_NAME_BUF; i++) {
    out[i] = bytes[i];
    if (out[i] == 0) return i + 1;
  }
  return NXMEM_NAME_BUF;
}

uint32_t nx_fetch_name(nxmem_fetch_mode mode, const uint8_t *src, uint8_t out[256]) {
  memset(out, 0, NXMEM_NAME_BUF);
  if (src == NULL) return 0;
  if (mode == NXMEM_FETCH_DIRECT) return name_by_loads(src, out);
  return (uint32_t)nx_fetch_guarded(out, src, NXMEM_NAME_BUF);
}
