/*
 * deferred.c: queued releases in every order: enqueued, completed twice, early, late, nested, short or by a stranger,
 * drained, closed over.
 * Attackers: the plugin's completions and its answers; tables are honest, so that nothing else is in the way.
 * Promise: what is queued settles exactly once, whatever comes first; the books are those of a reference model.
 *
 * Input: life/life.h; of its operations those about queued releases.
 */
#include "life.h"

static const uint8_t ops[] = {OP_OPEN,     OP_ALLOCATE, OP_ENQUEUE, OP_COMPLETE, OP_ENQUEUE, OP_COMPLETE,
                              OP_COMPLETE, OP_DRAIN,    OP_CLOSE,   OP_PENDING,  OP_RELEASE, OP_ALLOCATE};

static const life_rules rules = {.ops = ops, .op_count = sizeof ops, .honest_tables = 1};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  life_run(&rules, data, size);
  return 0;
}
