/*
 * harness.h: what every fuzz target shares: reading its input, laying bytes out where a stray read is seen, and failing
 * loudly.
 * Attackers: the input itself, any bytes of any length.
 * Promise: an input means the same under every engine; memory handed out ends exactly where it says.
 */
#ifndef NXMEM_FUZZ_HARNESS_H
#define NXMEM_FUZZ_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#include "nxmem/verdict.h"

/* What outputs are filled with before a call, so that an untouched one is known. */
enum { FUZZ_CANARY = 0xC9 };

/* The one entry that each target defines and each main drives. Always 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * What an engine's main calls once, before the first input: lays out the guard page, so that no input's path differs
 * for being the first, and,
 * where the environment names a file of eight bytes in NXMEM_FUZZ_COUNTER, keeps the inputs run so far in it.
 */
void fuzz_start(void);

/*
 * What a planted fault calls at its place (planted/apply.py): whether it makes a difference here. Where the environment
 * names a file of sixteen bytes in NXMEM_FUZZ_CANARY, it counts there how often it was reached and how often it did.
 */
int nxmem_fuzz_canary(int triggered);

/* Of faults that are planted together (planted/together.py) whether it is this one that the environment asks for, in NXMEM_FUZZ_PLANTED. */
int nxmem_fuzz_planted(int number);

/* The input, eaten from the front; where it ends, zeros follow. */
typedef struct fuzz_input {
  const uint8_t *at;
  size_t left;
} fuzz_input;

/* Starts an input and counts it. */
fuzz_input fuzz_begin(const uint8_t *data, size_t size);
void fuzz_take(fuzz_input *in, void *out, size_t bytes);
uint8_t fuzz_take_u8(fuzz_input *in);
uint16_t fuzz_take_u16(fuzz_input *in);
uint32_t fuzz_take_u32(fuzz_input *in);
uint64_t fuzz_take_u64(fuzz_input *in);

/*
 * A heap copy of exactly `bytes` bytes, so that AddressSanitizer sees one byte more; NULL for 0. The caller frees it.
 */
void *fuzz_exact(const void *from, size_t bytes);

/* A heap block of exactly `bytes` bytes, all canary; NULL for 0. The caller frees it. */
void *fuzz_exact_canary(size_t bytes);

/*
 * The same of a size, the same block each time: for what the code under test does not keep, at a tenth of the price. A
 * call needs a number of its own for each of its blocks. At most FUZZ_KEPT_BYTES; never freed; NULL for 0.
 */
enum { FUZZ_KEPT = 6, FUZZ_KEPT_BYTES = 1536 };
void *fuzz_kept(unsigned int number, const void *from, size_t bytes); /* from NULL: as it was left */
void *fuzz_kept_canary(unsigned int number, size_t bytes);

/*
 * The last so many bytes of one block, however many they are: what is behind them is seen. Before them the harness's own
 * go on, at least FUZZ_KEPT_BEFORE. For a room whose size differs each time: blocks of all sizes would be cold ones.
 */
enum { FUZZ_KEPT_BEFORE = 16 };
void *fuzz_kept_end(unsigned int number, size_t bytes);

/*
 * 1 where what a block's end is overstepped by is seen: AddressSanitizer is there, and a copy before the guard page would
 * only be a second one.
 */
#ifndef FUZZ_EXACT_IS_SEEN
#define FUZZ_EXACT_IS_SEEN 0
#endif

/*
 * A copy whose last byte is the last before an unreadable page. At most FUZZ_GUARDED_MAX bytes; valid until the next
 * call.
 */
enum { FUZZ_GUARDED_MAX = 4096 };
void *fuzz_at_guard(const void *from, size_t bytes);

/* The first address of that unreadable page; a multiple of 8. */
uintptr_t fuzz_unreadable(void);

/*
 * Makes all bytes the canary, or zero; copies. As memset and memcpy, of which the sanitizers ask first whether all of it
 * may be touched: for memory of the harness's own.
 */
void fuzz_fill(void *block, size_t bytes);
void fuzz_clear(void *block, size_t bytes);
void fuzz_copy(void *to, const void *from, size_t bytes);

/* 1 where all bytes still are the canary. */
int fuzz_untouched(const void *block, size_t bytes);

/* Says which oracle saw what, and aborts: a finding under every engine. */
_Noreturn void fuzz_fail(const char *oracle, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fails, saying how they differ. */
_Noreturn void fuzz_other_verdict(const char *oracle, nxmem_verdict found, nxmem_verdict expected);
_Noreturn void fuzz_other_number(const char *oracle, uint64_t found, uint64_t expected);

/* Fails unless both verdicts agree in all four numbers. Here, for a target asks a hundred times in an input. */
static inline void fuzz_same_verdict(const char *oracle, nxmem_verdict found, nxmem_verdict expected) {
  if (found.reason != expected.reason || found.field != expected.field || found.found != expected.found ||
      found.needed != expected.needed)
    fuzz_other_verdict(oracle, found, expected);
}

/* Fails, naming the first offset, unless both blocks agree. */
void fuzz_same_bytes(const char *oracle, const void *found, const void *expected, size_t bytes);

/* Fails unless both numbers agree. */
static inline void fuzz_same_number(const char *oracle, uint64_t found, uint64_t expected) {
  if (found != expected) fuzz_other_number(oracle, found, expected);
}

#endif /* NXMEM_FUZZ_HARNESS_H */
