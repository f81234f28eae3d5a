/*
 * cache.c: /etc/ld.so.cache, which says where libraries are.
 * Attackers: nobody who is not root; it is read as if anybody were.
 * Promise: every offset is inside the file before it is used.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/image.h"
#include "audit/needed.h"

/* glibc, dl-cache.h: struct cache_file_new and its entries; numbers in the machine's order. */
typedef struct cache_head {
  char magic[20]; /* with its version */
  uint32_t count;
  uint32_t string_bytes;
  uint32_t unused[5];
} cache_head;

typedef struct cache_entry {
  int32_t flags;
  uint32_t name, path; /* from the start of the head */
  uint32_t os_version;
  uint64_t hardware;
} cache_entry;

static const char MAGIC[] = "glibc-ld.so.cache1.1";

/* Read once. */
static const nx_audit_image *cache_file(void) {
  static nx_audit_image file;
  static int tried;
  nx_problem ignored;
  if (!tried++ && nx_audit_image_read("/etc/ld.so.cache", &file, &ignored) != NX_AUDIT_READ) file = (nx_audit_image){0};
  return &file;
}

/* A string inside the file, or NULL. */
static const char *text_at(const nx_audit_image *file, uint32_t offset) {
  if (offset >= file->size || !memchr(file->bytes + offset, 0, file->size - offset)) return NULL;
  return (const char *)file->bytes + offset;
}

char *nx_audit_cached(const char *name, unsigned nth) {
  const nx_audit_image *file = cache_file();
  cache_head head;
  if (file->size < sizeof head) return NULL;
  memcpy(&head, file->bytes, sizeof head);
  uint64_t room = (file->size - sizeof head) / sizeof(cache_entry);
  if (memcmp(head.magic, MAGIC, sizeof head.magic) != 0) return NULL;
  for (uint64_t i = 0; i < head.count && i < room; i++) {
    cache_entry entry;
    memcpy(&entry, file->bytes + sizeof head + i * sizeof entry, sizeof entry);
    const char *found = text_at(file, entry.name), *path = text_at(file, entry.path);
    if (found && path && !strcmp(found, name) && nth-- == 0) return strdup(path);
  }
  return NULL;
}
