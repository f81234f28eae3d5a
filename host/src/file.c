/*
 * file.c: is this a file that the dynamic loader can be given?
 *
 * Attackers: paths to FIFOs, devices and directories, text files, truncated or foreign objects.
 * Promise: opening never blocks; a file whose segments reach past its end is refused before it is mapped.
 */
#include "file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

#if defined(__x86_64__)
#define THIS_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define THIS_MACHINE EM_AARCH64
#elif defined(__riscv)
#define THIS_MACHINE EM_RISCV
#elif defined(__powerpc64__)
#define THIS_MACHINE EM_PPC64
#else
#error "name this machine's ELF number"
#endif

static nxmem_result not_loadable(const char *path, const char *why, nxmem_error *error) {
  return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "check %s: %s; needed a 64-bit shared object of this machine", path,
                 why);
}

static int read_exactly(int fd, void *out, size_t bytes, uint64_t offset) {
  if (offset > INT64_MAX) return 0;
  return pread(fd, out, bytes, (off_t)offset) == (ssize_t)bytes;
}

static const char *header_fault(const Elf64_Ehdr *header) {
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return "found no ELF file";
  if (header->e_ident[EI_CLASS] != ELFCLASS64) return "found another word size";
  if (header->e_machine != THIS_MACHINE) return "found an object of another machine";
  if (header->e_type != ET_DYN) return "found an ELF file that is no shared object";
  if (header->e_phentsize != sizeof(Elf64_Phdr)) return "found program headers of an unknown size";
  return NULL;
}

/* The file's first bytes, read at once: nearly always all that is looked at. */
typedef struct beginning {
  int fd;
  size_t got;
  unsigned char bytes[2048];
} beginning;

static int read_begun(const beginning *b, void *out, size_t bytes, uint64_t offset) {
  if (offset > b->got || bytes > b->got - offset) return read_exactly(b->fd, out, bytes, offset);
  memcpy(out, b->bytes + offset, bytes);
  return 1;
}

static const char *segments_fault(const beginning *b, const Elf64_Ehdr *header, uint64_t file_bytes) {
  for (uint32_t i = 0; i < header->e_phnum; i++) {
    Elf64_Phdr segment;
    const uint64_t at = header->e_phoff + (uint64_t)i * sizeof segment;
    if (at < header->e_phoff || !read_begun(b, &segment, sizeof segment, at)) return "found a truncated header table";
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_filesz > file_bytes || segment.p_offset > file_bytes - segment.p_filesz)
      return "found a segment that reaches past the end of the file";
  }
  return NULL;
}

static nxmem_result check_elf(int fd, const char *path, uint64_t file_bytes, nxmem_error *error) {
  beginning b = {.fd = fd};
  const ssize_t got = pread(fd, b.bytes, sizeof b.bytes, 0);
  b.got = got > 0 ? (size_t)got : 0u;
  Elf64_Ehdr header;
  if (!read_begun(&b, &header, sizeof header, 0))
    return not_loadable(path, "found fewer bytes than an ELF header", error);
  const char *fault = header_fault(&header);
  if (fault == NULL) fault = segments_fault(&b, &header, file_bytes);
  return fault == NULL ? NXMEM_OK : not_loadable(path, fault, error);
}

nxmem_result nx_file_check_open(int fd, const char *path, nx_file_identity *out, nxmem_error *error) {
  struct stat found;
  if (fstat(fd, &found) != 0) return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "stat %s: %s", path, strerror(errno));
  if (!S_ISREG(found.st_mode)) return not_loadable(path, "found something that is no regular file", error);
  const nxmem_result checked = check_elf(fd, path, (uint64_t)found.st_size, error);
  if (checked != NXMEM_OK) return checked;
  out->device = (uint64_t)found.st_dev;
  out->inode = (uint64_t)found.st_ino;
  return NXMEM_OK;
}

nxmem_result nx_file_check(const char *path, nx_file_identity *out, nxmem_error *error) {
  if (path == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "open plugin: path is NULL");
  if (path[0] != '/')
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "open plugin %s: needed an absolute path", path);
  if (strchr(path, '$') != NULL)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT,
                   "open plugin %s: found a dollar sign, which the loader would expand; needed a path without one",
                   path);
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "open %s: %s", path, strerror(errno));
  const nxmem_result checked = nx_file_check_open(fd, path, out, error);
  (void)close(fd);
  return checked;
}
