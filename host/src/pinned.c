/*
 * pinned.c: sealed files, by content, and the descriptors that keep their names.
 *
 * Attackers: callers with files that are not sealed, or with the same bytes again and again; code that closes descriptors that are not its own.
 * Promise: what is loaded can no longer change; a number under which something is mapped never becomes another file's by our doing; one descriptor for one content.
 */
#include "pinned.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "image.h"

/* A leaf: protects the list and the users. Bytes are compared under it; no plugin code runs, and the loader is not asked. */
static pthread_mutex_t pins_lock = PTHREAD_MUTEX_INITIALIZER;
static nx_pin *pins;

/* Without the last one a later holder of the file could add none, but whoever could add one could also lift none: it shows that nobody wants more. */
#define NEEDED_SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int is_same_file(const struct stat *found, const nx_file_identity *file) {
  return (uint64_t)found->st_dev == file->device && (uint64_t)found->st_ino == file->inode;
}

/* Somebody may have closed the descriptor, and another file may have its number now. */
static int is_still_ours(const nx_pin *pin) {
  struct stat found;
  return fstat(pin->fd, &found) == 0 && is_same_file(&found, &pin->file);
}

/* Both are sealed: neither can change or end early meanwhile. */
static int have_same_bytes(int a, int b, uint64_t bytes) {
  void *one = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, a, 0);
  if (one == MAP_FAILED) return 0;
  void *two = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, b, 0);
  const int same = two != MAP_FAILED && memcmp(one, two, (size_t)bytes) == 0;
  (void)munmap(one, (size_t)bytes);
  if (two != MAP_FAILED) (void)munmap(two, (size_t)bytes);
  return same;
}

static nx_pin *find_locked(const nx_pin *fresh) {
  for (nx_pin *p = pins; p != NULL; p = p->next)
    if (p->size_bytes == fresh->size_bytes && is_still_ours(p) && have_same_bytes(p->fd, fresh->fd, p->size_bytes))
      return p;
  return NULL;
}

static nxmem_result check_seals(int fd, const char *shown, nxmem_error *error) {
  static const nx_context unsealed = {
      NX_RECORD_SAID, "copy it into a memfd and add F_SEAL_WRITE, F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL"};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals >= 0 && (seals & NEEDED_SEALS) == NEEDED_SEALS) return NXMEM_OK;
  return nx_fail_in(error, NXMEM_ERR_INVALID_ARGUMENT, (nxmem_verdict){NXMEM_REASON_NONE, 0, 0, 0}, unsealed,
                    "open %s: found a file %s; needed one that can no longer change", shown,
                    seals < 0 ? "that cannot be sealed" : "that lacks a seal");
}

/* By a description of its own: what the caller does with its descriptor is no matter of ours. */
static nxmem_result open_anew(int fd, const char *shown, nx_pin *out, nxmem_error *error) {
  (void)snprintf(out->path, sizeof out->path, "/proc/self/fd/%d", fd);
  out->fd = open(out->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (out->fd < 0) return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "open %s: %s: %s", shown, out->path, strerror(errno));
  (void)snprintf(out->path, sizeof out->path, "/proc/self/fd/%d", out->fd);
  nxmem_result r = check_seals(out->fd, shown, error);
  if (r == NXMEM_OK) r = nx_file_check_open(out->fd, shown, &out->file, error);
  struct stat found;
  if (r == NXMEM_OK && fstat(out->fd, &found) != 0)
    r = nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "stat %s: %s", shown, strerror(errno));
  if (r == NXMEM_OK) {
    out->size_bytes = (uint64_t)found.st_size;
    return NXMEM_OK;
  }
  (void)close(out->fd);
  return r;
}

/* NULL: no memory. */
static nx_pin *enter_locked(const nx_pin *fresh) {
  nx_pin *pin = malloc(sizeof *pin);
  if (pin == NULL) return NULL;
  *pin = *fresh;
  pin->next = pins;
  pin->users = 1;
  pins = pin;
  return pin;
}

nxmem_result nx_pin_take(int fd, const char *shown, nx_pin **out, nxmem_error *error) {
  nxmem_result r = check_seals(fd, shown, error); /* also keeps FIFOs and devices from being opened anew */
  if (r != NXMEM_OK) return r;
  nx_pin fresh = {.users = 0};
  r = open_anew(fd, shown, &fresh, error);
  if (r != NXMEM_OK) return r;
  pthread_mutex_lock(&pins_lock);
  nx_pin *pin = find_locked(&fresh);
  const int known = pin != NULL;
  if (known)
    pin->users++;
  else
    pin = enter_locked(&fresh);
  pthread_mutex_unlock(&pins_lock);
  if (known || pin == NULL) (void)close(fresh.fd);
  if (pin == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "open %s: no memory for its record", shown);
  *out = pin;
  return NXMEM_OK;
}

void nx_pin_hold(nx_pin *pin) {
  pthread_mutex_lock(&pins_lock);
  pin->users++;
  pthread_mutex_unlock(&pins_lock);
}

static void unlink_locked(const nx_pin *pin) {
  nx_pin **link = &pins;
  while (*link != pin) link = &(*link)->next;
  *link = pin->next;
}

/*
 * Looked at before the count: whoever maps it is a user. Where two users leave at once both may see it mapped by the other; then the descriptor stays open
 * until the same bytes come again, which is safe.
 */
void nx_pin_give(nx_pin *pin) {
  if (pin == NULL) return;
  const int stays = nx_image_is_mapped(pin->path, &pin->file);
  pthread_mutex_lock(&pins_lock);
  const int last = --pin->users == 0 && !stays;
  if (last) unlink_locked(pin);
  pthread_mutex_unlock(&pins_lock);
  if (!last) return;
  if (is_still_ours(pin)) (void)close(pin->fd);
  free(pin);
}
