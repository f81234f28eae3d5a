/*
 * read.c: the plugin's memory, copied without a fault, and what the core says of the copy.
 * Attackers: pointers that lead nowhere, tables and names that end early.
 * Promise: each byte is read once; a table that is not readable as far as it claims is UNREADABLE.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "conform/plugin.h"
#include "nxmem.h"
#include "nxmem/name.h"
#include "nxmem/prefix.h"
#include "nxmem/range.h"

/* Where process_vm_readv() is refused (containers): a write() of the bytes fails where a load would fault. */
static size_t read_by_file(void *out, const void *from, size_t bytes) {
  int fd = memfd_create("nxmem-conform", MFD_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t got = pwrite(fd, from, bytes, 0);
  if (got > 0) got = pread(fd, out, (size_t)got, 0);
  close(fd);
  return got > 0 ? (size_t)got : 0;
}

size_t nx_read_memory(void *out, const void *from, size_t bytes) {
  struct iovec to = {out, bytes}, source = {(void *)(uintptr_t)from, bytes};
  ssize_t got = process_vm_readv(getpid(), &to, 1, &source, 1, 0);
  return got > 0 ? (size_t)got : read_by_file(out, from, bytes);
}

enum { LOOKED_AT_BYTES = 512, LOOKS = 32, BETWEEN_LOOKS_NS = 300000 };

int nx_stands_still(const void *memory, size_t bytes) {
  const struct timespec moment = {0, BETWEEN_LOOKS_NS};
  uint8_t first[LOOKED_AT_BYTES], now[LOOKED_AT_BYTES];
  size_t looked = bytes < LOOKED_AT_BYTES ? bytes : LOOKED_AT_BYTES;
  size_t got = nx_read_memory(first, memory, looked);
  for (int i = 0; i < LOOKS; i++) {
    nanosleep(&moment, NULL);
    if (nx_read_memory(now, memory, looked) != got || memcmp(first, now, got)) return 0;
  }
  return 1;
}

/* The largest table there is. */
typedef union snapshot {
  uint32_t declared;
  uint64_t words[sizeof(NxmemAllocatorVtable) / sizeof(uint64_t)];
} snapshot;

static nxmem_verdict take(const void *from, size_t known, snapshot *out) {
  nxmem_verdict verdict = nxmem_check_table_address((uintptr_t)from);
  if (verdict.reason != NXMEM_REASON_NONE) return verdict;
  memset(out, 0, sizeof *out);
  size_t got = nx_read_memory(out, from, known);
  if (got < sizeof out->declared) return nxmem_check_readable(got, NXMEM_HEADER_BYTES);
  return nxmem_check_readable(got, nxmem_prefix_extent(out->declared, (uint32_t)known));
}

nxmem_verdict nx_read_factory_table(const void *from, NxmemAllocatorFactoryVtable *out, uint32_t *declared_minor) {
  snapshot copy;
  nxmem_verdict verdict = take(from, NXMEM_FACTORY_BYTES, &copy);
  if (verdict.reason != NXMEM_REASON_NONE) return verdict;
  return nxmem_read_factory_unvalidated((const void *)&copy, NXMEM_ABI_VERSION_MINOR, out, declared_minor);
}

nxmem_verdict nx_read_allocator_table(const void *from, uint32_t ceiling, NxmemAllocatorVtable *out,
                                      uint32_t *declared_minor) {
  snapshot copy;
  nxmem_verdict verdict = take(from, NXMEM_ALLOCATOR_BYTES_1, &copy);
  if (verdict.reason != NXMEM_REASON_NONE) return verdict;
  return nxmem_read_allocator_unvalidated((const void *)&copy, ceiling, out, declared_minor);
}

nxmem_verdict nx_read_backing_table(const void *from, uint32_t ceiling, NxmemVirtualBackingVtable *out) {
  snapshot copy;
  nxmem_verdict verdict = take(from, NXMEM_BACKING_BYTES, &copy);
  if (verdict.reason != NXMEM_REASON_NONE) return verdict;
  return nxmem_read_backing_unvalidated((const void *)&copy, ceiling, out);
}

nxmem_verdict nx_read_sharing_table(const void *from, uint32_t ceiling, NxmemSharedMappingVtable *out) {
  snapshot copy;
  nxmem_verdict verdict = take(from, NXMEM_SHARING_BYTES, &copy);
  if (verdict.reason != NXMEM_REASON_NONE) return verdict;
  return nxmem_read_sharing_unvalidated((const void *)&copy, ceiling, out);
}

nxmem_verdict nx_read_name(const uint8_t *from, uint8_t out[256]) {
  uint32_t length = 0;
  memset(out, 0, NXMEM_NAME_BUF);
  size_t got = from ? nx_read_memory(out, from, NXMEM_NAME_BUF) : 0;
  return nxmem_check_fetched_name((uintptr_t)from, out, (uint32_t)got, &length);
}

const char *nx_verdict_words(nxmem_verdict verdict) {
  static char words[256];
  snprintf(words, sizeof words, "%s (field at byte %" PRIu32 ", found %" PRIu64 ", needed %" PRIu64 ")",
           nxmem_reason_text(verdict.reason), verdict.field, verdict.found, verdict.needed);
  return words;
}
