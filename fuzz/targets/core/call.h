/*
 * call.h: one call of a function of the core: its arguments from the input, its blocks with hard edges, and what may
 * not have changed afterwards.
 * Attackers: the input itself, any bytes of any length.
 * Promise: every call meets the function's preconditions; a block that is only given to be read, and an output that a
 * refusal keeps, are compared after it.
 *
 * With NXMEM_CONTRACT defined the names of the core's functions stand for the wrappers that check their contracts
 * (fuzz/contract); everywhere else for the functions themselves.
 */
#ifndef NXMEM_FUZZ_CORE_CALL_H
#define NXMEM_FUZZ_CORE_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "harness.h"
#include "nxmem/verdict.h"

enum { CORE_BLOCKS_MAX = 6, CORE_RECORD_MAX = 512 };

typedef struct core_block {
  uint8_t *at;
  size_t bytes;
  uint8_t *before; /* what a block given to be read holds; NULL for another */
  int changes;     /* neither given to be read nor an output */
} core_block;

typedef struct core_call {
  fuzz_input in;
  const char *function;
  core_block blocks[CORE_BLOCKS_MAX];
  size_t count;
  size_t used; /* of the room for blocks */
} core_call;

/* A block of exactly `bytes` bytes with what `from` holds, to be read and not written. NULL for 0 bytes. */
void *core_given(core_call *call, const void *from, size_t bytes);

/* The same with the next bytes of the input. */
void *core_given_next(core_call *call, size_t bytes);

/* A text, from the input: u16 length | that many bytes, fewer where the input ends or the length is above `most`. */
void *core_given_text(core_call *call, uint32_t most, uint32_t *bytes);

/* A block of exactly `bytes` bytes, canary in each, to be written. */
void *core_room(core_call *call, size_t bytes);

/* Fails where an output was written by a call that was refused. */
void core_kept(core_call *call);
void core_kept_unless_accepted(core_call *call, nxmem_verdict verdict);

/* Closes the blocks; fails where one that was given to be read has changed. */
void core_end(core_call *call);

/* Ends the process: the call did what its frame forbids. */
_Noreturn void core_fail(const core_call *call, const char *clause, const char *text);

/* As core_given(), of a block that the function may change: the row looks at what it did. */
void *core_changing(core_call *call, const void *from, size_t bytes);

/*
 * Where a record of `full` bytes is said to stand whose first four bytes say how many there are: a block of as many, at
 * least four. From the input: u32 address (0 to 127 as it is; else NULL, or misaligned by the low three bits) | the
 * record.
 */
const void *core_declared(core_call *call, size_t full);

/* A word of 64 bits out of few: each of two halves is 0 to 15. 0 for 0. Equal in one half is not equal. */
uint64_t core_small_word(core_call *call);

/* One entry point: eats its arguments from the input and calls it once. */
typedef struct core_row {
  const char *function;
  void (*run)(core_call *call);
} core_row;

#define CORE_ROW(name) \
  { #name, run_##name }

typedef struct core_topic {
  const char *name; /* of the file in abi/src */
  const core_row *rows;
  size_t count;
} core_topic;

/* One of each file beside this one. */
#define CORE_TOPIC(name) const core_topic core_##name = {#name, rows, sizeof rows / sizeof rows[0]}
extern const core_topic core_prefix, core_capability, core_negotiate, core_status, core_name, core_identity;
extern const core_topic core_outcome, core_unload, core_handle, core_enumerate, core_range, core_count;
extern const core_topic core_completion;
extern const core_topic core_pin, core_backing, core_sharing;
extern const core_topic core_reclaim, core_overlap;
extern const core_topic core_granule, core_granules, core_place, core_arena;
extern const core_topic core_lifecycle;
extern const core_topic core_quota;

/* What an input is about: its topic, and the function it calls. The byte of a topic; -1 where none has the name. */
const char *core_topic_of(const uint8_t *data, size_t size);
const char *core_function_of(const uint8_t *data, size_t size);
int core_topic_byte(const char *name);

/* The first call of an input alone. Returns how many bytes of the input it is. */
size_t core_run_first(const uint8_t *data, size_t size);

#endif /* NXMEM_FUZZ_CORE_CALL_H */
