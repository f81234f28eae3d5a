/*
 * image.c: reading a file once.
 * Attackers: the file: any kind, any size, changing while it is read.
 * Promise: never waits for a FIFO or device, never maps, never takes more than NX_CHUNK_MAX bytes.
 */
#include "audit/image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

/* Fewer than `room` where the file ends before. -1 on an error. */
static int64_t read_whole(int fd, uint8_t *out, uint64_t room) {
  uint64_t done = 0;
  while (done < room) {
    ssize_t got = read(fd, out + done, room - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += (uint64_t)got;
  }
  return (int64_t)done;
}

static nx_audit_reading take(int fd, nx_audit_image *out, nx_problem *why) {
  if (fstat(fd, &out->status)) {
    nx_refuse(why, "cannot look at it: %s; name a readable plugin file", strerror(errno));
    return NX_AUDIT_UNREADABLE;
  }
  uint64_t size = (uint64_t)out->status.st_size;
  if (size > NX_CHUNK_MAX) {
    nx_refuse(why, "found %" PRIu64 " bytes, need at most %u; no plugin is that large", size, NX_CHUNK_MAX);
    return NX_AUDIT_UNREADABLE;
  }
  out->bytes = malloc(size ? size : 1);
  if (!out->bytes) nx_out_of_memory();
  int64_t got = read_whole(fd, out->bytes, size);
  if (got < 0) {
    nx_refuse(why, "cannot read it: %s; name a readable plugin file", strerror(errno));
    nx_audit_image_free(out);
    return NX_AUDIT_UNREADABLE;
  }
  if ((uint64_t)got < size) {
    uint8_t *exact = realloc(out->bytes, got ? (size_t)got : 1);
    out->bytes = exact ? exact : out->bytes;
  }
  out->size = (uint64_t)got;
  return NX_AUDIT_READ;
}

nx_audit_reading nx_audit_image_read(const char *path, nx_audit_image *out, nx_problem *why) {
  struct stat status;
  *out = (nx_audit_image){0};
  int fd = nx_elf_open_file(path, why);
  if (fd < 0) return stat(path, &status) == 0 && !S_ISREG(status.st_mode) ? NX_AUDIT_NO_FILE : NX_AUDIT_UNREADABLE;
  nx_audit_reading reading = take(fd, out, why);
  close(fd);
  return reading;
}

void nx_audit_image_free(nx_audit_image *image) {
  free(image->bytes);
  *image = (nx_audit_image){0};
}

int nx_audit_image_changed(const char *path, const nx_audit_image *image) {
  nx_audit_image now;
  nx_problem ignored;
  if (nx_audit_image_read(path, &now, &ignored) != NX_AUDIT_READ) return 1;
  int changed = now.size != image->size || memcmp(now.bytes, image->bytes, now.size) != 0 ||
                now.status.st_dev != image->status.st_dev || now.status.st_ino != image->status.st_ino ||
                now.status.st_ctim.tv_sec != image->status.st_ctim.tv_sec ||
                now.status.st_ctim.tv_nsec != image->status.st_ctim.tv_nsec;
  nx_audit_image_free(&now);
  return changed;
}
