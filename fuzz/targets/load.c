/*
 * load.c: a plugin loaded and unloaded: what it agrees to, what it publishes, what it reports, and what it owes.
 * Attackers: the plugin, in each export and from inside each; callers that load twice, unload too early and give up.
 * Promise: of a refused plugin nothing stays but a counted debt; the gate opens when both sides hold nothing, not before.
 *
 * Input: life/life.h; each has a host and a load of its own.
 */
#include "life.h"

static const uint8_t ops[] = {OP_LOAD,    OP_UNLOAD,   OP_DESTROY,       OP_OPEN,     OP_ALLOCATE,
                              OP_RELEASE, OP_CLOSE,    OP_ENQUEUE,       OP_COMPLETE, OP_LOAD,
                              OP_UNLOAD,  OP_END_HOST, OP_PREFIX_CREATE, OP_RECLAIM,  OP_ASK};

static const life_rules rules = {.ops = ops, .op_count = sizeof ops, .loads = 1};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  life_run(&rules, data, size);
  return 0;
}
