/*
 * trust.c: a file by its path, part by part, with a look at who could have written each.
 *
 * Attackers: users who can write to the file or to a directory above it; links, FIFOs and devices in its place; replacements while we look.
 * Promise: what was looked at is what is read; nothing but a regular file is opened; no part of the path is a link.
 */
#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

int nx_path_is_plain(const char *path) {
  if (path[0] != '/' || path[1] == '\0') return 0;
  for (const char *part = path; *part == '/';) {
    const char *name = part + 1;
    const size_t length = strcspn(name, "/");
    if (length == 0 || (length == 1 && name[0] == '.') || (length == 2 && name[0] == '.' && name[1] == '.')) return 0;
    part = name + length;
  }
  return 1;
}

/* One walk: where it is, and how far along the path. */
typedef struct walk {
  const char *what;
  const char *path;
  size_t seen; /* bytes of the path that `fd` stands for; 0: the root */
  int fd;      /* O_PATH */
  nxmem_error *error;
} walk;

/* The end of a long part is what tells it; the reason must have room behind it. */
enum { SHOWN_MAX = 300 };

static nxmem_result refuse_so(const walk *w, const char *why, const char *remedy) {
  const nx_context context = {NX_RECORD_SAID, remedy};
  const size_t length = w->seen == 0 ? 1u : w->seen, cut = length > SHOWN_MAX ? length - SHOWN_MAX : 0u;
  return nx_fail_in(w->error, NXMEM_ERR_CANNOT_OPEN, (nxmem_verdict){NXMEM_REASON_NONE, 0, 0, 0}, context,
                    "trust %s: %s%.*s %s", w->what, cut == 0 ? "" : "...", (int)(length - cut), w->path + cut, why);
}

static nxmem_result refuse(const walk *w, const char *why) {
  return refuse_so(w, why, "let only root or the user that loads it own and write all of it");
}

/* What the kernel answered. */
static nxmem_result cannot(const walk *w, int cause) {
  char why[128];
  (void)snprintf(why, sizeof why, "cannot be opened: %s", strerror(cause));
  return refuse_so(w, why, "name a file that is there and can be read");
}

static const char *owner_fault(const struct stat *found) {
  return found->st_uid == 0 || found->st_uid == geteuid() ? NULL : "belongs to another user";
}

/* An access list shows in the bits of the group: they are its mask. */
static int others_write(const struct stat *found) { return (found->st_mode & (S_IWGRP | S_IWOTH)) != 0; }

static const char *directory_fault(const struct stat *found) {
  if (!S_ISDIR(found->st_mode)) return S_ISLNK(found->st_mode) ? "is a symbolic link" : "is no directory";
  if (others_write(found) && (found->st_mode & S_ISVTX) == 0)
    return "can be written by its group or others, without the sticky bit";
  return owner_fault(found);
}

static const char *file_fault(const struct stat *found) {
  if (S_ISLNK(found->st_mode)) return "is a symbolic link";
  if (!S_ISREG(found->st_mode)) return "is no regular file";
  if (others_write(found)) return "can be written by its group or others";
  return owner_fault(found);
}

static nxmem_result look(const walk *w, const char *(*fault)(const struct stat *)) {
  struct stat found;
  if (fstat(w->fd, &found) != 0) return cannot(w, errno);
  const char *why = fault(&found);
  return why == NULL ? NXMEM_OK : refuse(w, why);
}

/* The next part of the path takes the place of the one before. */
static nxmem_result step(walk *w) {
  char name[NAME_MAX + 1];
  const char *begin = w->path + w->seen + 1;
  const size_t length = strcspn(begin, "/");
  w->seen += 1 + length;
  if (length > NAME_MAX) return cannot(w, ENAMETOOLONG);
  memcpy(name, begin, length);
  name[length] = '\0';
  const int next = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (next < 0) return cannot(w, errno);
  (void)close(w->fd);
  w->fd = next;
  return NXMEM_OK;
}

static nxmem_result go(walk *w) {
  for (;;) {
    if (w->path[w->seen] == '\0') return look(w, file_fault);
    nxmem_result r = look(w, directory_fault);
    if (r == NXMEM_OK) r = step(w);
    if (r != NXMEM_OK) return r;
  }
}

/* The very file that was looked at: by what the kernel has open, not by a name. */
static nxmem_result open_seen(const walk *w, int *fd_out) {
  char seen[32];
  (void)snprintf(seen, sizeof seen, "/proc/self/fd/%d", w->fd);
  const int fd = open(seen, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return cannot(w, errno);
  *fd_out = fd;
  return NXMEM_OK;
}

nxmem_result nx_trust_open(const char *what, const char *path, int *fd_out, nxmem_error *error) {
  if (path == NULL || !nx_path_is_plain(path))
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT,
                   "trust %s %s: needed an absolute path without empty, '.' and '..' parts", what,
                   path == NULL ? "NULL" : path);
  walk w = {.what = what, .path = path, .error = error};
  w.fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (w.fd < 0) return cannot(&w, errno);
  nxmem_result r = go(&w);
  if (r == NXMEM_OK) r = open_seen(&w, fd_out);
  (void)close(w.fd);
  return r;
}

/* At most `room` bytes; -1 with errno, EFBIG where there are more. */
static ssize_t read_all(int fd, char *out, size_t room) {
  size_t got = 0;
  for (;;) {
    const ssize_t n = read(fd, out + got, room + 1 - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) return (ssize_t)got;
    got += (size_t)n;
    if (got <= room) continue;
    errno = EFBIG;
    return -1;
  }
}

nxmem_result nx_trust_read(const char *what, const char *path, size_t room, char **text_out, size_t *bytes_out,
                           nxmem_error *error) {
  int fd = -1;
  const nxmem_result r = nx_trust_open(what, path, &fd, error);
  if (r != NXMEM_OK) return r;
  char *text = malloc(room + 1);
  const ssize_t got = text == NULL ? -1 : read_all(fd, text, room);
  const int cause = errno;
  (void)close(fd);
  if (got >= 0) {
    text[got] = '\0';
    *text_out = text;
    *bytes_out = (size_t)got;
    return NXMEM_OK;
  }
  free(text);
  if (text == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "read %s %s: no memory", what, path);
  if (cause != EFBIG) return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "read %s %s: %s", what, path, strerror(cause));
  return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "read %s %s: found more than %zu bytes", what, path, room);
}
