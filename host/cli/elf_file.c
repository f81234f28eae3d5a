/*
 * elf_file.c: opening an ELF file and finding bytes by virtual address.
 * Attackers: every byte of the file, a file that is no regular file, one that shrinks while it is read.
 * Promise: read() and pread() alone, no mapping (a file that shrinks would otherwise kill us); every range is
 * checked before use.
 */
#include "elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Our own ELF header, placed by the linker: what "this machine" is, without a table of processors. */
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

int nx_refuse(nx_problem *why, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why->message, sizeof why->message, format, arguments);
  va_end(arguments);
  return -1;
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */

static const char *file_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  return "a socket or another special file";
}

int nx_elf_open_file(const char *path, nx_problem *why) {
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return nx_refuse(why, "cannot open it: %s; name a readable plugin file", strerror(errno));
  if (fstat(fd, &status)) {
    nx_refuse(why, "cannot look at it: %s; name a readable plugin file", strerror(errno));
  } else if (!S_ISREG(status.st_mode)) {
    nx_refuse(why, "found %s, need a regular file; name the plugin's .so file", file_kind(status.st_mode));
  } else {
    return fd;
  }
  close(fd);
  return -1;
}

static ssize_t copy_at(const nx_elf *file, void *out, size_t length, uint64_t offset) {
  uint64_t left = offset < file->size ? file->size - offset : 0;
  size_t some = length < left ? length : (size_t)left;
  if (some) memcpy(out, file->image + offset, some);
  return (ssize_t)some;
}

/* Bytes read from `offset`: fewer than `length` only at the end of the file. -1 on an error. */
static ssize_t read_at(const nx_elf *file, void *out, size_t length, uint64_t offset) {
  size_t done = 0;
  if (file->image) return copy_at(file, out, length, offset);
  while (done < length) {
    ssize_t got = pread(file->fd, (char *)out + done, length - done, (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += (size_t)got;
  }
  return (ssize_t)done;
}

/* ---- The ELF header ---------------------------------------------------------------------------------------------- */

const char *nx_machine_name(uint16_t machine) {
  switch (machine) {
    case EM_386:
      return "32-bit x86";
    case EM_ARM:
      return "32-bit Arm";
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC64:
      return "64-bit PowerPC";
    case EM_S390:
      return "S/390";
    default:
      return "another processor";
  }
}

static const char *type_name(uint16_t type) {
  switch (type) {
    case ET_REL:
      return "an object file (.o)";
    case ET_EXEC:
      return "an executable";
    case ET_CORE:
      return "a core dump";
    default:
      return "an ELF file of an unknown type";
  }
}

static int check_magic(const unsigned char *start, size_t length, nx_problem *why) {
  if (length == 0) return nx_refuse(why, "found an empty file, need an ELF shared object; build or copy it again");
  if (length < SELFMAG || memcmp(start, ELFMAG, SELFMAG) != 0) {
    return nx_refuse(
        why, "found no ELF file (it starts with byte 0x%02x), need an ELF shared object; name the plugin's .so file",
        start[0]);
  }
  if (length >= sizeof(Elf64_Ehdr)) return 0;
  return nx_refuse(why, "found %zu bytes, need at least the %zu of an ELF header; the file is cut off, copy it again",
                   length, sizeof(Elf64_Ehdr));
}

static int check_machine(const Elf64_Ehdr *header, nx_problem *why) {
  if (header->e_ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS]) {
    return nx_refuse(why, "found ELF class %u (1 is 32-bit, 2 is 64-bit), need %u; build it for %s",
                     header->e_ident[EI_CLASS], __ehdr_start.e_ident[EI_CLASS],
                     nx_machine_name(__ehdr_start.e_machine));
  }
  if (header->e_ident[EI_DATA] != __ehdr_start.e_ident[EI_DATA]) {
    return nx_refuse(why, "found ELF byte order %u (1 is little, 2 is big), need %u; build it for %s",
                     header->e_ident[EI_DATA], __ehdr_start.e_ident[EI_DATA], nx_machine_name(__ehdr_start.e_machine));
  }
  if (header->e_machine == __ehdr_start.e_machine) return 0;
  return nx_refuse(why, "found code for %s (machine %u), need %s (machine %u); build it for this machine",
                   nx_machine_name(header->e_machine), header->e_machine, nx_machine_name(__ehdr_start.e_machine),
                   __ehdr_start.e_machine);
}

static int check_kind(const Elf64_Ehdr *header, nx_problem *why) {
  if (header->e_ident[EI_VERSION] != EV_CURRENT || header->e_version != EV_CURRENT) {
    return nx_refuse(why, "found ELF version %u, need 1; the file is damaged, build or copy it again",
                     header->e_version);
  }
  if (header->e_type == ET_DYN) return 0;
  return nx_refuse(why, "found %s (type %u), need a shared object; link it with -shared", type_name(header->e_type),
                   header->e_type);
}

/* One of the header's two tables: `count` entries of `entry` bytes at `offset`. */
static int check_header_table(uint64_t size, uint64_t offset, uint64_t count, uint64_t entry, const char *what,
                              nx_problem *why) {
  if (count == 0) return 0;
  if (offset <= size && count * entry <= size - offset) return 0;
  return nx_refuse(why,
                   "found the %s table (%" PRIu64 " entries at byte %" PRIu64 ") outside the file of %" PRIu64
                   " bytes; the file is cut off or damaged, build or copy it again",
                   what, count, offset, size);
}

/* About ten in an honest file. Bounds the work of every look-up by address. */
enum { SEGMENTS_MAX = 1024 };

static int check_tables(const Elf64_Ehdr *header, uint64_t size, nx_problem *why) {
  if (header->e_phnum == 0) {
    return nx_refuse(why, "found no segments, need those of a linked shared object; link it with -shared");
  }
  if (header->e_phnum > SEGMENTS_MAX || header->e_phentsize != sizeof(Elf64_Phdr)) {
    return nx_refuse(
        why,
        "found %u segments of %u bytes each, need fewer than %u of %zu; the file is damaged, build or copy it again",
        header->e_phnum, header->e_phentsize, PN_XNUM, sizeof(Elf64_Phdr));
  }
  if (check_header_table(size, header->e_phoff, header->e_phnum, sizeof(Elf64_Phdr), "segment", why)) return -1;
  /* The first entry would hold a count of 65280 or more, for which libelf makes room before anybody has judged it. */
  if (header->e_shoff && !header->e_shnum) {
    return nx_refuse(why,
                     "found a section table without a count, need that of a shared object; the file is damaged, "
                     "build or copy it again");
  }
  return check_header_table(size, header->e_shoff, header->e_shnum, sizeof(Elf64_Shdr), "section", why);
}

static int check_header(const nx_elf *file, nx_problem *why) {
  Elf64_Ehdr header;
  memset(&header, 0, sizeof header);
  ssize_t got = read_at(file, &header, sizeof header, 0);
  if (got < 0) return nx_refuse(why, "cannot read it: %s; name a readable plugin file", strerror(errno));
  if (check_magic(header.e_ident, (size_t)got, why)) return -1;
  if (check_machine(&header, why) || check_kind(&header, why)) return -1;
  return check_tables(&header, file->size, why);
}

/* ---- Segments ---------------------------------------------------------------------------------------------------- */

int nx_elf_segment(const nx_elf *file, size_t index, GElf_Phdr *out) {
  return index < file->segments && gelf_getphdr(file->elf, (int)index, out) ? 0 : -1;
}

static int check_file_range(const nx_elf *file, size_t i, const GElf_Phdr *segment, nx_problem *why) {
  if (segment->p_filesz == 0 || segment->p_type == PT_GNU_STACK) return 0;
  if (segment->p_offset <= file->size && segment->p_filesz <= file->size - segment->p_offset) return 0;
  return nx_refuse(why,
                   "found segment %zu (%" PRIu64 " bytes at byte %" PRIu64 ") outside the file of %" PRIu64
                   " bytes; the file is cut off or damaged, build or copy it again",
                   i, segment->p_filesz, segment->p_offset, file->size);
}

/* The smallest page of any machine: what shares one with another segment is covered by it, whatever its own bytes say. */
enum { PAGE_MASK = 4095 };

/* Ascending and apart, as the gABI has it ("Program Header", PT_LOAD); `end`: first page behind those before. */
static int check_address_range(size_t i, const GElf_Phdr *segment, uint64_t *end, nx_problem *why) {
  uint64_t first = segment->p_vaddr & ~(uint64_t)PAGE_MASK;
  if (segment->p_memsz > UINT64_MAX - PAGE_MASK - segment->p_vaddr || segment->p_filesz > segment->p_memsz)
    return nx_refuse(why,
                     "found loaded segment %zu of %" PRIu64 " bytes, %" PRIu64
                     " of them of the file, at address 0x%" PRIx64 "; the file is damaged, build or copy it again",
                     i, segment->p_memsz, segment->p_filesz, segment->p_vaddr);
  if (first < *end)
    return nx_refuse(
        why,
        "found loaded segment %zu at address 0x%" PRIx64
        " over or before another one, need ascending ones on pages of their own; the file is damaged, build "
        "or copy it again",
        i, segment->p_vaddr);
  if (segment->p_memsz) *end = (segment->p_vaddr + segment->p_memsz + PAGE_MASK) & ~(uint64_t)PAGE_MASK;
  return 0;
}

/* A reader that takes one of two dynamic segments and a loader that takes the other see two plugins. */
static int check_segments(const nx_elf *file, nx_problem *why) {
  GElf_Phdr segment;
  uint64_t end = 0;
  unsigned dynamic = 0;
  for (size_t i = 0; i < file->segments; i++) {
    if (nx_elf_segment(file, i, &segment))
      return nx_refuse(why, "segment %zu is not readable; the file is damaged, build or copy it again", i);
    if (check_file_range(file, i, &segment, why)) return -1;
    if (segment.p_type == PT_LOAD && check_address_range(i, &segment, &end, why)) return -1;
    dynamic += segment.p_type == PT_DYNAMIC;
  }
  if (dynamic <= 1) return 0;
  return nx_refuse(why, "found %u dynamic segments, need one; the file is damaged, build or copy it again", dynamic);
}

static Elf *begin_libelf(const nx_elf *file) {
  if (file->image) return elf_memory((char *)file->image, file->size);
  return elf_begin(file->fd, ELF_C_READ, NULL);
}

static int begin(nx_elf *file, nx_problem *why) {
  if (check_header(file, why)) return -1;
  if (elf_version(EV_CURRENT) == EV_NONE)
    return nx_refuse(why, "libelf is too old for this command; install a newer libelf");
  file->elf = begin_libelf(file);
  if (!file->elf || elf_kind(file->elf) != ELF_K_ELF || !gelf_getehdr(file->elf, &file->header) ||
      elf_getphdrnum(file->elf, &file->segments)) {
    nx_refuse(why, "libelf cannot read it (%s); the file is damaged, build or copy it again", elf_errmsg(-1));
    nx_elf_end(file);
    return -1;
  }
  if (!check_segments(file, why)) return 0;
  nx_elf_end(file);
  return -1;
}

int nx_elf_begin(int fd, nx_elf *file, nx_problem *why) {
  struct stat status;
  if (fstat(fd, &status)) return nx_refuse(why, "cannot look at it: %s; name a readable plugin file", strerror(errno));
  *file = (nx_elf){.fd = fd, .size = (uint64_t)status.st_size};
  return begin(file, why);
}

int nx_elf_begin_image(uint8_t *image, uint64_t size, nx_elf *file, nx_problem *why) {
  *file = (nx_elf){.fd = -1, .image = image, .size = size};
  return begin(file, why);
}

void nx_elf_end(nx_elf *file) {
  if (file->elf) elf_end(file->elf);
  file->elf = NULL;
}

/* ---- Work -------------------------------------------------------------------------------------------------------- */

int nx_elf_spend(nx_elf *file, uint64_t bytes, nx_problem *why) {
  if (bytes <= NX_WORK_MAX - file->work) {
    file->work += bytes;
    return 0;
  }
  return nx_refuse(why,
                   "found more than %llu bytes of tables and names to read, need fewer; this is no plugin, or it "
                   "is damaged",
                   NX_WORK_MAX);
}

/* ---- Bytes by virtual address ------------------------------------------------------------------------------------ */

int nx_elf_locate(const nx_elf *file, uint64_t address, uint64_t *offset, uint64_t *room) {
  GElf_Phdr segment;
  int found = -1;
  for (size_t i = 0; i < file->segments; i++) {
    if (nx_elf_segment(file, i, &segment) || segment.p_type != PT_LOAD) continue;
    if (address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz) continue;
    *offset = segment.p_offset + (address - segment.p_vaddr);
    *room = segment.p_filesz - (address - segment.p_vaddr);
    found = 0;
  }
  return found;
}

static int locate_range(nx_elf *file, uint64_t address, uint64_t size, const char *what, uint64_t *offset,
                        nx_problem *why) {
  uint64_t room = 0;
  if (nx_elf_locate(file, address, offset, &room) || size > room) {
    return nx_refuse(why,
                     "found the %s (%" PRIu64 " bytes at address 0x%" PRIx64
                     ") outside every loaded segment; the file is damaged, build or copy it again",
                     what, size, address);
  }
  if (size <= NX_CHUNK_MAX) return nx_elf_spend(file, size, why);
  return nx_refuse(why, "found a %s of %" PRIu64 " bytes, need at most %u; this is no plugin, or it is damaged", what,
                   size, NX_CHUNK_MAX);
}

Elf_Data *nx_elf_table(nx_elf *file, uint64_t address, uint64_t size, Elf_Type type, const char *what,
                       nx_problem *why) {
  uint64_t offset = 0;
  if (locate_range(file, address, size, what, &offset, why)) return NULL;
  Elf_Data *data = elf_getdata_rawchunk(file->elf, (int64_t)offset, size, type);
  if (!data)
    nx_refuse(why, "cannot read the %s (%s); the file is damaged or changes, build or copy it again", what,
              elf_errmsg(-1));
  return data;
}

Elf_Data *nx_elf_chunk(nx_elf *file, uint64_t offset, uint64_t size, Elf_Type type) {
  nx_problem ignored;
  if (size == 0 || size > NX_CHUNK_MAX || size > file->size || offset > file->size - size) return NULL;
  if (nx_elf_spend(file, size, &ignored)) return NULL;
  return elf_getdata_rawchunk(file->elf, (int64_t)offset, size, type);
}

int nx_elf_bytes(nx_elf *file, uint64_t address, void *out, size_t length, const char *what, nx_problem *why) {
  uint64_t offset = 0;
  if (locate_range(file, address, length, what, &offset, why)) return -1;
  if (read_at(file, out, length, offset) == (ssize_t)length) return 0;
  return nx_refuse(why, "cannot read the %s; the file is damaged or changes, build or copy it again", what);
}
