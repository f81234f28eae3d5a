/*
 * sealed.c: a file's bytes, copied into memory of our own and sealed there.
 *
 * Attackers: whoever writes to the file while it is copied; files that grow without end.
 * Promise: once it is sealed no byte of the copy changes, so what is looked at is what is loaded; the copy is bounded.
 */
#include "sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "error.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

enum { STEP = 16384 };

/* Not to be executed as a program, where the kernel knows of that (6.3). */
static int make_file(void) {
  const int fd = memfd_create("nxmem-pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  return fd >= 0 || errno != EINVAL ? fd : memfd_create("nxmem-pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

static int write_all(int fd, const uint8_t *bytes, size_t count) {
  while (count != 0) {
    const ssize_t n = write(fd, bytes, count);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return 0;
    bytes += n;
    count -= (size_t)n;
  }
  return 1;
}

static nxmem_result too_large(const char *shown, uint64_t max_bytes, nxmem_error *error) {
  return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "copy %s: found more than the %" PRIu64 " bytes that the policy allows",
                 shown, max_bytes);
}

/* What is copied may be rewritten meanwhile: then its hash tells. */
static nxmem_result copy(int from, int to, const char *shown, uint64_t max_bytes, nxmem_error *error) {
  uint8_t step[STEP];
  for (uint64_t copied = 0;;) {
    const ssize_t n = read(from, step, sizeof step);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "copy %s: %s", shown, strerror(errno));
    if (n == 0) return NXMEM_OK;
    if ((uint64_t)n > max_bytes - copied) return too_large(shown, max_bytes, error);
    if (!write_all(to, step, (size_t)n))
      return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "copy %s: %s", shown, strerror(errno));
    copied += (uint64_t)n;
  }
}

static nxmem_result seal(int fd, const char *shown, nx_sealed *out, nxmem_error *error) {
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "seal %s: %s", shown, strerror(errno));
  const off_t end = lseek(fd, 0, SEEK_END);
  if (end <= 0) return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "copy %s: found no byte", shown);
  void *bytes = mmap(NULL, (size_t)end, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes == MAP_FAILED) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "map %s: %s", shown, strerror(errno));
  *out = (nx_sealed){fd, bytes, (size_t)end};
  return NXMEM_OK;
}

nxmem_result nx_sealed_copy(int fd, const char *shown, uint64_t max_bytes, nx_sealed *out, nxmem_error *error) {
  const int memory = make_file();
  if (memory < 0) return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "copy %s: memfd_create: %s", shown, strerror(errno));
  nxmem_result r = copy(fd, memory, shown, max_bytes, error);
  if (r == NXMEM_OK) r = seal(memory, shown, out, error);
  if (r != NXMEM_OK) (void)close(memory);
  return r;
}

void nx_sealed_close(nx_sealed *sealed) {
  (void)munmap((void *)(uintptr_t)sealed->bytes, sealed->count);
  (void)close(sealed->fd);
}
