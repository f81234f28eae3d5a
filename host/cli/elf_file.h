/*
 * elf_file.h: an ELF64 shared object as the dynamic loader sees it (program headers and dynamic segment); section
 * headers say what people and debuggers are told.
 * Attackers: every byte of the file, a file that is no regular file, one that shrinks while it is read.
 * Promise: only reads, never maps or runs; each offset, size and count is bounded by the file before use; a refusal
 * is one line that says what was found, what was needed and what to do.
 */
#ifndef NXMEM_CLI_ELF_FILE_H
#define NXMEM_CLI_ELF_FILE_H

#include <gelf.h>
#include <stddef.h>
#include <stdint.h>

/* Why a file was refused. Printable once its path is escaped; the path is not part of it. */
typedef struct nx_problem {
  char message[512];
} nx_problem;

/* Records a problem; returns -1, so that a reader can return it. */
int nx_refuse(nx_problem *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A name for an e_machine, or "another processor". */
const char *nx_machine_name(uint16_t machine);

/* No table of a real plugin comes near; a crafted sparse file must not make us allocate what it claims. */
#define NX_CHUNK_MAX (256u << 20)

/*
 * Bytes of tables, hash words and names that are looked at in one file, each as often as it is. Tables may overlap
 * and many symbols may share one endless name, so no bound on a single one bounds the whole.
 */
#define NX_WORK_MAX (4ull * NX_CHUNK_MAX)

typedef struct nx_elf {
  int fd;
  uint8_t *image; /* all bytes of the file, borrowed; NULL: they are read from `fd` */
  uint64_t size;  /* bytes of the file when it was opened */
  uint64_t work;  /* bytes looked at so far; at most NX_WORK_MAX */
  Elf *elf;
  GElf_Ehdr header;
  size_t segments;
} nx_elf;

/* A descriptor of a regular file, or -1. A FIFO or device is refused without waiting for it. */
int nx_elf_open_file(const char *path, nx_problem *why);

/* Judge the headers; `fd` stays the caller's and must outlive `file`. 0 or -1. On 0 nx_elf_end() is owed. */
int nx_elf_begin(int fd, nx_elf *file, nx_problem *why);

/* The same of a file that lies in memory, which must outlive `file` and is not written to. */
int nx_elf_begin_image(uint8_t *image, uint64_t size, nx_elf *file, nx_problem *why);
void nx_elf_end(nx_elf *file);

/* Segment `index` below file->segments; its file range lies inside the file. */
int nx_elf_segment(const nx_elf *file, size_t index, GElf_Phdr *out);

/* Before `bytes` are looked at. 0, or -1 when that is more than any plugin asks for. */
int nx_elf_spend(nx_elf *file, uint64_t bytes, nx_problem *why);

/*
 * Where a virtual address lies in the file. *room: bytes of the file behind it in the same loaded segment. -1 when
 * no loaded segment holds it.
 */
int nx_elf_locate(const nx_elf *file, uint64_t address, uint64_t *offset, uint64_t *room);

/*
 * `size` bytes at a virtual address, converted as `type`; valid until nx_elf_end(). `what` names the table in the
 * message. NULL on refusal.
 */
Elf_Data *nx_elf_table(nx_elf *file, uint64_t address, uint64_t size, Elf_Type type, const char *what, nx_problem *why);

/* `size` bytes (at least 1) at an offset of the file, as nx_elf_table() gives them. NULL: not there. */
Elf_Data *nx_elf_chunk(nx_elf *file, uint64_t offset, uint64_t size, Elf_Type type);

/* Exactly `length` bytes at a virtual address, as they stand. 0 or -1. */
int nx_elf_bytes(nx_elf *file, uint64_t address, void *out, size_t length, const char *what, nx_problem *why);

#endif /* NXMEM_CLI_ELF_FILE_H */
