/*
 * lifecycle.c: the real host against a plugin whose every answer is the input's.
 * Attackers: the plugin, in each table, number, pointer, status, callback and call from inside a slot; the caller, with
 * stale, foreign and doubled handles.
 * Promise: after each step the host's books are those of a reference model; at the end nothing is left.
 *
 * Input: life/life.h.
 */
#include "life.h"

/* The more often one is named, the more often it comes. New ones go to the end of the list in life.h. */
static const uint8_t ops[] = {OP_OPEN,          OP_ALLOCATE,      OP_ALLOCATE,       OP_ALLOCATE,
                              OP_RELEASE,       OP_RELEASE,       OP_ENQUEUE,        OP_COMPLETE,
                              OP_DRAIN,         OP_PENDING,       OP_CLOSE,          OP_COMMIT,
                              OP_DECOMMIT,      OP_COMMITTED,     OP_COST_OF_RANGES, OP_COST_OF_ALLOCATION,
                              OP_PREFIX_CREATE, OP_PREFIX_RETAIN, OP_PREFIX_RELEASE, OP_PREFIX_INFO,
                              OP_PREFIX_COMMIT, OP_RECLAIM,       OP_LOAD,           OP_UNLOAD,
                              OP_DESTROY,       OP_END_HOST};

static const life_rules rules = {.ops = ops, .op_count = sizeof ops};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  life_run(&rules, data, size);
  return 0;
}
