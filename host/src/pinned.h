/* Sealed files that modules are loaded from, kept open as long as anything of them may be mapped. Private to the host. */
#ifndef NX_PINNED_H
#define NX_PINNED_H

#include "file.h"

/* One for all descriptors of the same bytes. */
enum { NX_PIN_PATH = 32 };
typedef struct nx_pin {
  struct nx_pin *next;
  nx_file_identity file; /* of the descriptor that the host keeps */
  uint64_t size_bytes;
  uint64_t users; /* under the pins' lock */
  int fd;         /* the host's own; its number is the name by which the loader knows the bytes */
  char path[NX_PIN_PATH];
} nx_pin;

/*
 * The pin of a sealed file's bytes, with one more user: one that is there already, or a fresh one. The seals are looked at, and the file is checked as
 * nx_file_check() does. `shown` is what messages call it.
 *
 * NXMEM_ERR_INVALID_ARGUMENT, CANNOT_OPEN, OUT_OF_MEMORY; *out is written only on NXMEM_OK. [any-thread]
 */
nxmem_result nx_pin_take(int fd, const char *shown, nx_pin **out, nxmem_error *error);

/* One more user of a pin that the caller uses. */
void nx_pin_hold(nx_pin *pin);

/*
 * One user less; NULL: nothing. With the last one the descriptor is closed, unless the loader still has something under its name: then the number must not
 * become another file's. [any-thread]
 */
void nx_pin_give(nx_pin *pin);

#endif /* NX_PINNED_H */
