/*
 * run.c: one input: a stage, steps, and everything given back.
 * Attackers: the input.
 * Promise: at the end nothing is left, in whatever order it ended; the next input finds all tables as this one did.
 */
#include <inttypes.h>
#include <string.h>

#include "manager.h"
#include "owners.h"
#include "registry.h"

/* ---- Failing ------------------------------------------------------------------------------------------------------ */

void own_expect(int holds, const char *what) {
  if (!holds) fuzz_fail("owners", "%s (step %" PRIu32 ")", what, it.steps);
}

void own_same(const char *what, uint64_t found, uint64_t expected) {
  if (found != expected)
    fuzz_fail("owners", "%s: %#" PRIx64 ", expected %#" PRIx64 " (step %" PRIu32 ")", what, found, expected, it.steps);
}

void own_result(const char *what, nxmem_result found, nxmem_result expected) {
  if (found != expected)
    fuzz_fail("owners", "%s: %s, expected %s (step %" PRIu32 ")", what, nxmem_result_name(found),
              nxmem_result_name(expected), it.steps);
}

void own_axes(const char *what, const nxmem_axes *found, const nxmem_axes *expected) {
  own_same(what, found->charged, expected->charged);
  own_same(what, found->physical, expected->physical);
  own_same(what, found->mapped, expected->mapped);
}

/* ---- Steps -------------------------------------------------------------------------------------------------------- */

enum {
  OP_OWN_REGISTER,
  OP_OWN_SELECT,
  OP_OWN_RETIRE,
  OP_OWN_LOSE,
  OP_OWN_CONFIRM,
  OP_OWN_REMOVE,
  OP_OWN_BIND,
  OP_OWN_END_BINDING,
  OP_OWN_ALLOCATE,
  OP_OWN_RELEASE,
  OP_OWN_PREPARE,
  OP_OWN_EXECUTE,
  OP_OWN_ABANDON,
  OP_OWN_QUEUE,
  OP_OWN_PUSH,
  OP_OWN_DRAIN,
  OP_OWN_REGISTRY,
  OP_OWN_MEMBER,
  OP_OWN_MANAGER,
  OP_OWN_AUTHORITY,
  OP_OWN_LIMIT,
  OP_OWN_DELEGATE,
  OP_OWN_CHARGE,
  OP_OWN_RESERVE,
  OP_OWN_STEP,
  OP_OWN_ROLLBACK,
  OP_OWN_WAIT,
  OP_OWN_PRESSURE,
  OP_OWN_ASK,
  OP_OWN_CONTEXT,
  OP_OWN_RECLAIM,
  OP_OWN_PAGES,
  OP_OWN_UNLOAD,
  OP_OWN_MISUSE,
  OP_OWN_COUNT
};

typedef void (*operation)(const life_record *op);

static const operation operations[OP_OWN_COUNT] = {
    [OP_OWN_REGISTER] = own_op_register, [OP_OWN_SELECT] = own_op_select,
    [OP_OWN_RETIRE] = own_op_retire,     [OP_OWN_LOSE] = own_op_lose,
    [OP_OWN_CONFIRM] = own_op_confirm,   [OP_OWN_REMOVE] = own_op_remove,
    [OP_OWN_BIND] = own_op_bind,         [OP_OWN_END_BINDING] = own_op_end_binding,
    [OP_OWN_ALLOCATE] = own_op_allocate, [OP_OWN_RELEASE] = own_op_release,
    [OP_OWN_PREPARE] = own_op_prepare,   [OP_OWN_EXECUTE] = own_op_execute,
    [OP_OWN_ABANDON] = own_op_abandon,   [OP_OWN_QUEUE] = own_op_queue,
    [OP_OWN_PUSH] = own_op_push,         [OP_OWN_DRAIN] = own_op_drain,
    [OP_OWN_REGISTRY] = own_op_registry, [OP_OWN_MEMBER] = own_op_member,
    [OP_OWN_MANAGER] = own_op_manager,   [OP_OWN_AUTHORITY] = own_op_authority,
    [OP_OWN_LIMIT] = own_op_limit,       [OP_OWN_DELEGATE] = own_op_delegate,
    [OP_OWN_CHARGE] = own_op_charge,     [OP_OWN_RESERVE] = own_op_reserve,
    [OP_OWN_STEP] = own_op_step,         [OP_OWN_ROLLBACK] = own_op_rollback,
    [OP_OWN_WAIT] = own_op_wait,         [OP_OWN_PRESSURE] = own_op_pressure,
    [OP_OWN_ASK] = own_op_ask,           [OP_OWN_CONTEXT] = own_op_context,
    [OP_OWN_RECLAIM] = own_op_reclaim,   [OP_OWN_PAGES] = own_op_pages,
    [OP_OWN_UNLOAD] = own_op_unload,     [OP_OWN_MISUSE] = own_op_misuse,
};

/* The more often one is named, the more often it comes. New ones go to the end. */
static const uint8_t ops[] = {
    OP_OWN_REGISTER,  OP_OWN_REGISTER, OP_OWN_SELECT,   OP_OWN_RETIRE,   OP_OWN_LOSE,        OP_OWN_CONFIRM,
    OP_OWN_REMOVE,    OP_OWN_REMOVE,   OP_OWN_BIND,     OP_OWN_BIND,     OP_OWN_END_BINDING, OP_OWN_ALLOCATE,
    OP_OWN_ALLOCATE,  OP_OWN_RELEASE,  OP_OWN_RELEASE,  OP_OWN_PREPARE,  OP_OWN_EXECUTE,     OP_OWN_ABANDON,
    OP_OWN_QUEUE,     OP_OWN_PUSH,     OP_OWN_DRAIN,    OP_OWN_REGISTRY, OP_OWN_MEMBER,      OP_OWN_MANAGER,
    OP_OWN_AUTHORITY, OP_OWN_LIMIT,    OP_OWN_DELEGATE, OP_OWN_CHARGE,   OP_OWN_CHARGE,      OP_OWN_CHARGE,
    OP_OWN_RESERVE,   OP_OWN_STEP,     OP_OWN_STEP,     OP_OWN_ROLLBACK, OP_OWN_WAIT,        OP_OWN_PRESSURE,
    OP_OWN_ASK,       OP_OWN_CONTEXT,  OP_OWN_RECLAIM,  OP_OWN_PAGES,    OP_OWN_UNLOAD,      OP_OWN_MISUSE};

/* An allocator whose handle the registry has not told yet is not asked. */
static void check_life(void) {
  uint32_t which = 0;
  while (which < LIFE_ALLOCATORS - 1u && it.allocators[which].gate == GATE_OPEN && it.allocators[which].handle.id == 0)
    which++;
  if (it.allocators[which].gate != GATE_OPEN || it.allocators[which].handle.id != 0) life_check_about(which);
}

static void check_all(void) {
  own_check();
  check_life();
}

static void do_op(uint32_t which, life_record op) {
  operations[which](&op);
  check_all();
}

static void step(void) {
  const life_record op = life_take();
  do_op(ops[op.op % sizeof ops], op);
}

/* ---- The stage ---------------------------------------------------------------------------------------------------- */

/* Of what most steps need there is one, unless the header says otherwise. */
static void begin(void) {
  memset(&own, 0, sizeof own);
  it.steps = 0;
  if (it.header.unused[1] >= 0xF0u) return;
  do_op(OP_OWN_REGISTRY, (life_record){.a = 0});
  do_op(OP_OWN_MEMBER, (life_record){.a = 0, .b = 0});
  do_op(OP_OWN_MEMBER, (life_record){.a = 0, .b = 1});
  do_op(OP_OWN_MANAGER, (life_record){.a = 0});
  do_op(OP_OWN_AUTHORITY, (life_record){.a = 0, .b = 0});
}

/* ---- The end ------------------------------------------------------------------------------------------------------ */

static void end_transactions(void) {
  for (uint8_t i = 0; i < OWN_CHARGES; i++)
    if (own.charges[i].stepwise && own.charges[i].stage >= OWN_RESERVED && own.charges[i].stage <= OWN_COMMITTED)
      do_op(OP_OWN_ROLLBACK, (life_record){.b = i});
}

static void end_queues(void) {
  for (uint8_t i = 0; i < OWN_QUEUES; i++) {
    do_op(OP_OWN_DRAIN, (life_record){.a = i, .d = 4});
    if (own.queues[i].there == OWN_LIVE) do_op(OP_OWN_QUEUE, (life_record){.a = i, .c = 3});
  }
  for (uint8_t i = 0; i < LIFE_BLOCKS; i++)
    if (own.blocks[i].state == OWN_PREPARED) do_op(OP_OWN_EXECUTE, (life_record){.b = i});
}

static void end_bindings(void) {
  for (uint8_t i = 0; i < OWN_BINDINGS; i++)
    if (own.bindings[i].there == OWN_LIVE)
      do_op(OP_OWN_END_BINDING, (life_record){.a = i, .c = i & 1u || own.bindings[i].uses != 0});
  for (uint8_t i = 0; i < LIFE_BLOCKS; i++)
    if (own.blocks[i].state == OWN_OWNED) do_op(OP_OWN_RELEASE, (life_record){.b = i});
}

static void end_mechanism(uint8_t which) {
  own_mechanism *m = &own.mechanisms[which];
  const life_record op = {.a = which};
  if (m->life == OWN_ACTIVE) do_op(OP_OWN_RETIRE, op);
  if (m->life == OWN_RETIRED) do_op(OP_OWN_REMOVE, op);
  if (m->there != OWN_LIVE) return;
  if (m->life == OWN_RETIRED) do_op(OP_OWN_LOSE, op);
  if (m->life == OWN_LOST) do_op(OP_OWN_CONFIRM, op);
  do_op(OP_OWN_REMOVE, op);
  own_expect(m->there == OWN_GONE, "at the end a mechanism is left");
}

static void end_manager(uint8_t which) {
  for (uint8_t i = 0; i < OWN_MEMBERS; i++)
    if (own.managers[which].accounts[i].here) do_op(OP_OWN_AUTHORITY, (life_record){.a = which, .b = i, .c = 1});
  do_op(OP_OWN_MANAGER, (life_record){.a = which, .c = 1});
  own_expect(own.managers[which].there == OWN_GONE, "at the end a manager is left");
}

static void end_registries(void) {
  for (uint8_t i = 0; i < OWN_MEMBERS; i++) {
    if (own.contexts[i].there == OWN_LIVE) do_op(OP_OWN_MEMBER, (life_record){.a = i, .b = 0, .c = 1});
    if (own.authorities[i].there == OWN_LIVE) do_op(OP_OWN_MEMBER, (life_record){.a = i, .b = 1, .c = 1});
  }
  for (uint8_t i = 0; i < OWN_REGISTRIES; i++) {
    if (own.registries[i].there != OWN_LIVE) continue;
    do_op(OP_OWN_REGISTRY, (life_record){.a = i, .c = 1});
    own_expect(own.registries[i].there == OWN_GONE, "at the end a registry is left");
  }
}

/* ---- As before the first input ------------------------------------------------------------------------------------ */

static void restore_table(nx_table *table) {
  const uint32_t count = atomic_load(&table->count);
  for (uint32_t i = 0; i < count; i++) {
    nx_slot *slot = nx_table_at(table, i);
    own_expect(nxmem_word_state(atomic_load(&slot->word)) == NXMEM_SLOT_FREE,
               "at the end a slot of the registry is taken");
    atomic_store(&slot->word, 0);
    atomic_store(&slot->self, i);
  }
  atomic_store(&table->free_head, 0);
  atomic_store(&table->count, 0);
}

/* What stands beside allocations outlives them. */
static void restore_sides(void) {
  const uint32_t count = atomic_load(&nx_allocations.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_side *side = nx_side_of(nxmem_handle_make(i, 1u));
    if (side != NULL) memset(side, 0, sizeof *side);
  }
}

static void restore_managers(void) {
  const uint32_t count = atomic_load(&nx_managers.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_manager *m = (nx_manager *)(void *)nx_table_at(&nx_managers, i);
    m->holder_ids = 0;
  }
}

static void restore(void) {
  restore_sides();
  restore_managers();
  restore_table(&nx_registries);
  restore_table(&nx_contexts);
  restore_table(&nx_authorities);
  restore_table(&nx_mechanisms);
  restore_table(&nx_bindings);
  restore_table(&nx_managers);
  restore_table(&nx_accounts);
  restore_table(&nx_transactions);
}

static void end_all(void) {
  end_transactions();
  end_queues();
  end_bindings();
  for (uint8_t i = 0; i < OWN_MECHANISMS; i++)
    if (own.mechanisms[i].there == OWN_LIVE) end_mechanism(i);
  for (uint8_t i = 0; i < OWN_MANAGERS; i++)
    if (own.managers[i].there == OWN_LIVE) end_manager(i);
  end_registries();
  restore();
}

/* ---- One input ---------------------------------------------------------------------------------------------------- */

/* The first manager, whichever it is now. */
static int reclaim(void *ctx, nxmem_allocator allocator, uint64_t bytes, uint64_t *reclaimed_out) {
  (void)ctx;
  return nxmem_manager_reclaim(&own.managers[0].handle, allocator, bytes, reclaimed_out);
}

static const life_rules rules = {.honest_tables = 1, .begin = begin, .step = step, .end = end_all, .reclaim = reclaim};

void own_run(const uint8_t *data, size_t size) { life_run(&rules, data, size); }
