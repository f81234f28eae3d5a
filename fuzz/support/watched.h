/*
 * watched.h: a record that is rewritten while it is read: every load of it is seen, and what was loaded is changed at once.
 * Attackers: the input: it says what the bytes become.
 * Promise: exact, not sampled: each load faults, goes through alone, and the page closes again. x86-64 Linux.
 */
#ifndef NXMEM_FUZZ_WATCHED_H
#define NXMEM_FUZZ_WATCHED_H

#include <stddef.h>
#include <stdint.h>

enum { FUZZ_WATCHED_MAX = 512 };

typedef struct fuzz_watched {
  uint8_t loads[FUZZ_WATCHED_MAX]; /* how many loads began at each offset */
  uint32_t writes;
  uint32_t outside; /* loads of the page that are not the record's */
} fuzz_watched;

/*
 * A copy of `bytes` bytes, at most FUZZ_WATCHED_MAX, aligned to 8, with less than 8 readable bytes behind it and then an
 * unreadable page. Valid until the next call.
 */
void *fuzz_watch(const void *from, size_t bytes);

/* From here to the end every load of it is counted in *seen, and a byte that was loaded becomes another by `flip`. */
void fuzz_watch_begin(fuzz_watched *seen, uint8_t flip);
void fuzz_watch_end(void);

#endif /* NXMEM_FUZZ_WATCHED_H */
