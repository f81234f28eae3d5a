/*
 * image.c: an ELF file in memory that tests damage.
 * Attackers: none; the tests play them.
 * Promise: every case starts from the same bytes.
 */
#include "image.h"

#include <sys/mman.h>
#include <unistd.h>

nx_image nx_image_load(const char *path) {
  nx_image image = {NULL, 0};
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  image.size = (size_t)ftell(file);
  rewind(file);
  image.bytes = calloc(1, image.size + IMAGE_SLACK);
  assert_non_null(image.bytes);
  assert_int_equal(fread(image.bytes, 1, image.size, file), image.size);
  fclose(file);
  return image;
}

void nx_image_free(nx_image *image) { free(image->bytes); }

Elf64_Ehdr *nx_image_header(const nx_image *image) { return (void *)image->bytes; }

Elf64_Phdr *nx_image_segment(const nx_image *image, uint32_t type) {
  const Elf64_Ehdr *header = nx_image_header(image);
  Elf64_Phdr *segments = (void *)(image->bytes + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; i++) {
    if (segments[i].p_type == type) return &segments[i];
  }
  fail_msg("no segment of type %u", type);
  return NULL;
}

Elf64_Dyn *nx_image_dynamic(const nx_image *image, int64_t tag) {
  Elf64_Dyn *entry = (void *)(image->bytes + nx_image_segment(image, PT_DYNAMIC)->p_offset);
  while (entry->d_tag != tag && entry->d_tag != DT_NULL) entry++;
  if (entry->d_tag != tag) fail_msg("no dynamic entry %lld", (long long)tag);
  return entry;
}

uint8_t *nx_image_at(const nx_image *image, uint64_t address) {
  const Elf64_Ehdr *header = nx_image_header(image);
  const Elf64_Phdr *segments = (void *)(image->bytes + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; i++) {
    const Elf64_Phdr *s = &segments[i];
    if (s->p_type == PT_LOAD && address >= s->p_vaddr && address - s->p_vaddr < s->p_filesz) {
      return image->bytes + s->p_offset + (address - s->p_vaddr);
    }
  }
  fail_msg("address %llx is in no segment", (unsigned long long)address);
  return NULL;
}

int nx_image_file(const nx_image *image) {
  int fd = memfd_create("image", MFD_CLOEXEC);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, image->bytes, image->size), image->size);
  return fd;
}

int nx_image_read(const nx_image *image, nx_facts *facts) {
  nx_problem why = {""};
  int fd = nx_image_file(image);
  int refused = nx_facts_read(fd, facts, &why);
  close(fd);
  if (refused) nx_assert_one_line(&why);
  return refused;
}

void nx_assert_one_line(const nx_problem *why) {
  size_t length = strnlen(why->message, sizeof why->message);
  assert_true(length > 0 && length < sizeof why->message);
  for (size_t i = 0; i < length; i++) assert_true(why->message[i] >= ' ' && why->message[i] <= '~');
}
