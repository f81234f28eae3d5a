/*
 * image.h: an ELF file in memory that tests damage, and a descriptor that holds it.
 * Attackers: none; the tests play them.
 * Promise: every case starts from the same bytes; the accessors find the places to damage without the code under test.
 */
#ifndef TESTS_CLI_IMAGE_H
#define TESTS_CLI_IMAGE_H

#include <elf.h>

#include "elf_read.h"
#include "support.h"

/* Room behind the file for edits that make it longer. */
enum { IMAGE_SLACK = 4096 };

typedef struct nx_image {
  uint8_t *bytes;
  size_t size;
} nx_image;

/* The file named by the test's build; the case fails without it. */
nx_image nx_image_load(const char *path);
void nx_image_free(nx_image *image);

Elf64_Ehdr *nx_image_header(const nx_image *image);

/*
 * The first segment of a type, the first dynamic entry of a tag, the byte at an address; the case fails when there is
 * none.
 */
Elf64_Phdr *nx_image_segment(const nx_image *image, uint32_t type);
Elf64_Dyn *nx_image_dynamic(const nx_image *image, int64_t tag);
uint8_t *nx_image_at(const nx_image *image, uint64_t address);

/* A memfd that holds the image; the caller closes it. */
int nx_image_file(const nx_image *image);

/* nx_facts_read() of the image; a refusal must come with one printable line. */
int nx_image_read(const nx_image *image, nx_facts *facts);

void nx_assert_one_line(const nx_problem *why);

#endif /* TESTS_CLI_IMAGE_H */
