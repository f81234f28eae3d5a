/*
 * maps.c: /proc/self/maps, and the loader's list of images.
 * Attackers: a plugin that unlinks, renames or oddly names its file, or answers with an address of ours.
 * Promise: the kernel escapes line breaks in names, so each line is one mapping; names decide nothing but "[stack]".
 */
#include "maps.h"

#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf_file.h"
#include "text.h"

typedef struct mapping {
  nx_range range;
  nx_mapped_file file;
  const char *name;
} mapping;

/* Returns 1 to end the search. */
typedef int (*see_mapping)(const mapping *seen, void *with);

static int read_line(const char *line, mapping *out) {
  int name = 0;
  int found = sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*x %x:%x %" SCNu64 " %n", &out->range.start, &out->range.end,
                     &out->file.major, &out->file.minor, &out->file.inode, &name);
  out->name = line + name;
  return found == 5 ? 0 : -1;
}

/* 1 when a mapping ended the search, 0 when none did, -1 when the kernel does not say. */
static int search(see_mapping see, void *with) {
  char *line = NULL;
  size_t room = 0;
  int found = 0;
  mapping seen;
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) return -1;
  while (!found && getline(&line, &room, maps) > 0) found = !read_line(line, &seen) && see(&seen, with);
  free(line);
  fclose(maps);
  return found;
}

/* ---- A file among the mappings ----------------------------------------------------------------------------------- */

typedef struct place {
  uint64_t address;
  nx_mapped_file file;
} place;

static int is_there(const mapping *seen, void *with) {
  place *wanted = with;
  if (wanted->address < seen->range.start || wanted->address >= seen->range.end) return 0;
  wanted->file = seen->file;
  return 1;
}

/* The page is never touched: the file may be empty or shrink. */
nx_mapped_file nx_mapped_as(const char *path) {
  nx_problem ignored;
  place wanted = {0};
  int fd = nx_elf_open_file(path, &ignored);
  if (fd < 0) return wanted.file;
  void *page = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (page == MAP_FAILED) return wanted.file;
  wanted.address = (uint64_t)(uintptr_t)page;
  search(is_there, &wanted);
  munmap(page, 1);
  return wanted.file;
}

static int is_of_file(const mapping *seen, void *with) {
  const nx_mapped_file *wanted = with;
  return seen->file.inode == wanted->inode && seen->file.major == wanted->major && seen->file.minor == wanted->minor;
}

int nx_is_mapped(const nx_mapped_file *file) {
  nx_mapped_file wanted = *file;
  return wanted.inode ? search(is_of_file, &wanted) : -1;
}

/* ---- What is ours ------------------------------------------------------------------------------------------------ */

/* Whole pages: the loader's own small heap lies behind the last segment of its image. */
static void add_segment(nx_ours *ours, uint64_t base, const ElfW(Phdr) * segment) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = base + segment->p_vaddr;
  nx_range *more = realloc(ours->images, (ours->count + 1) * sizeof *more);
  if (!more) nx_out_of_memory();
  ours->images = more;
  more[ours->count++] = (nx_range){start & ~(page - 1), (start + segment->p_memsz + page - 1) & ~(page - 1)};
}

static int add_image(struct dl_phdr_info *info, size_t size, void *with) {
  (void)size;
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type == PT_LOAD) add_segment(with, info->dlpi_addr, &info->dlpi_phdr[i]);
  }
  return 0;
}

void nx_ours_begin(nx_ours *ours) {
  memset(ours, 0, sizeof *ours);
  dl_iterate_phdr(add_image, ours);
  nx_ours_look(ours);
}

static int is_stack(const mapping *seen, void *with) {
  if (strncmp(seen->name, "[stack]", strlen("[stack]")) != 0) return 0;
  *(nx_range *)with = seen->range;
  return 1;
}

void nx_ours_look(nx_ours *ours) { search(is_stack, &ours->stack); }

void nx_ours_free(nx_ours *ours) {
  free(ours->images);
  memset(ours, 0, sizeof *ours);
}

/* By last bytes: a range may end at the very end of the address space. */
static int overlaps(const nx_range *range, uint64_t start, uint64_t bytes) {
  uint64_t last = bytes - 1 > UINT64_MAX - start ? UINT64_MAX : start + (bytes - 1);
  return start < range->end && last >= range->start;
}

const char *nx_ours_overlap(const nx_ours *ours, uint64_t start, uint64_t bytes) {
  if (overlaps(&ours->stack, start, bytes)) return "the stack";
  for (size_t i = 0; i < ours->count; i++) {
    if (overlaps(&ours->images[i], start, bytes)) return "the image of this command or of a library it uses";
  }
  return NULL;
}
