/*
 * image.h: a file, read once, as bytes in memory.
 * Attackers: the file: any kind, any size, changing while it is read.
 * Promise: a regular file of at most NX_CHUNK_MAX bytes in a block of exactly its size; what is judged is this copy.
 */
#ifndef NXMEM_AUDIT_IMAGE_H
#define NXMEM_AUDIT_IMAGE_H

#include <sys/stat.h>

#include "elf_file.h"

typedef struct nx_audit_image {
  uint8_t *bytes;
  uint64_t size;
  struct stat status; /* when it was opened */
} nx_audit_image;

typedef enum nx_audit_reading {
  NX_AUDIT_READ,
  NX_AUDIT_NO_FILE,   /* no regular file */
  NX_AUDIT_UNREADABLE /* it could not be looked at */
} nx_audit_reading;

/* nx_audit_image_free() is owed where the answer is NX_AUDIT_READ; else *why is set. */
nx_audit_reading nx_audit_image_read(const char *path, nx_audit_image *out, nx_problem *why);
void nx_audit_image_free(nx_audit_image *image);

/* 1 where the path now holds other bytes, another file or nothing, or the file was written to, renamed or marked meanwhile. */
int nx_audit_image_changed(const char *path, const nx_audit_image *image);

#endif /* NXMEM_AUDIT_IMAGE_H */
