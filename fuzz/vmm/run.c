/*
 * run.c: one input from begin to end.
 * Attackers: the input.
 * Promise: no state goes from one input to the next but the figures that only grow.
 */
#include <inttypes.h>
#include <string.h>

#include "vmm.h"

vm it;
vm_totals vm_total[VM_OFFERS];
uint64_t vm_last_prefix, vm_last_ticket;

/* AddressSanitizer's, where the program has it. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

/* What is wrong comes first: findings are told apart by it. */
void vm_fail(const char *what, uint64_t found, uint64_t expected) {
  fuzz_fail("vmm", "%s: %#" PRIx64 ", expected %#" PRIx64 " (step %" PRIu32 ")", what, found, expected, it.steps);
}
void vm_expect(int holds, const char *what) {
  if (!holds) fuzz_fail("vmm", "%s (step %" PRIu32 ")", what, it.steps);
}
void vm_same(const char *what, uint64_t found, uint64_t expected) {
  if (found != expected) vm_fail(what, found, expected);
}

/* ---- Calls of the engine -------------------------------------------------------------------------------------------- */

vm_frame *vm_top(void) { return it.frame_count == 0 ? NULL : it.frames[it.frame_count - 1u]; }
void vm_push(vm_frame *frame) {
  vm_expect(it.frame_count < VM_DEPTH + 2, "harness: too deep");
  it.frames[it.frame_count++] = frame;
}
void vm_pop(void) { it.frame_count--; }

/* ---- The schedule --------------------------------------------------------------------------------------------------- */

void vm_op_fail(const vm_record *op) {
  static const uint8_t outcomes[] = {NX_VMM_NO_MEMORY, NX_VMM_REFUSED,   NX_VMM_NO_MEMORY, NX_VMM_REFUSED,
                                     NX_VMM_LOST,      NX_VMM_SHUT_DOWN, NX_VMM_UNBOUND,   NX_VMM_CAPTURING};
  vm_rule *r = &it.rules[it.next_rule++ % VM_RULES];
  r->call = op->a % VM_CALLS;
  r->left = 1u + op->b % 16u;
  r->outcome = outcomes[op->c % sizeof outcomes];
  r->times = op->d & 15u ? op->d & 15u : 1u;
  if (r->times == 15u) r->times = 1u << 20;
  r->odd = op->d >> 4;
  /* A reservation at an address that none may be. */
  if (r->call == CALL_RESERVE && (op->c & 8u) != 0) r->outcome = NX_VMM_SHUT_DOWN + 1u;
}

/* ---- Looking without changing --------------------------------------------------------------------------------------- */

void vm_op_touch(const vm_record *op) {
  (void)op;
  for (uint32_t i = 0; i < it.block_top; i++)
    if (it.blocks[i].state != VM_BLOCK_NONE && it.blocks[i].engine->life != VM_NONE) vm_check_tags(&it.blocks[i]);
}

/* ---- Steps ---------------------------------------------------------------------------------------------------------- */

typedef void (*operation)(const vm_record *op);

static const operation operations[OP_COUNT] = {
    [OP_OPEN] = vm_op_open,
    [OP_ALLOCATE] = vm_op_allocate,
    [OP_COMMITTED] = vm_op_committed,
    [OP_RELEASE] = vm_op_release,
    [OP_COMMIT] = vm_op_commit,
    [OP_DECOMMIT] = vm_op_decommit,
    [OP_COST] = vm_op_cost,
    [OP_PREFIX] = vm_op_prefix,
    [OP_PREFIX_RETAIN] = vm_op_prefix_retain,
    [OP_PREFIX_RELEASE] = vm_op_prefix_release,
    [OP_PREFIX_COMMIT] = vm_op_prefix_commit,
    [OP_ENQUEUE] = vm_op_enqueue,
    [OP_DRAIN] = vm_op_drain,
    [OP_PASS] = vm_op_pass,
    [OP_FAIL] = vm_op_fail,
    [OP_CAPTURE] = vm_op_capture,
    [OP_RETAIN] = vm_op_retain,
    [OP_CLOSE] = vm_op_close,
    [OP_REPORT] = vm_op_report,
    [OP_TOUCH] = vm_op_touch,
    [OP_MISUSE] = vm_op_misuse,
};

/* The more often one is named, the more often it comes. New ones go to the end. */
static const uint8_t ops[] = {
    OP_OPEN,          OP_ALLOCATE, OP_ALLOCATE, OP_COMMITTED, OP_COMMITTED, OP_RELEASE,       OP_RELEASE,
    OP_COMMIT,        OP_COMMIT,   OP_DECOMMIT, OP_COST,      OP_PREFIX,    OP_PREFIX_RETAIN, OP_PREFIX_RELEASE,
    OP_PREFIX_COMMIT, OP_ENQUEUE,  OP_DRAIN,    OP_PASS,      OP_FAIL,      OP_FAIL,          OP_CAPTURE,
    OP_RETAIN,        OP_CLOSE,    OP_REPORT,   OP_TOUCH,     OP_MISUSE};

static vm_record take(void) {
  uint8_t wire[VM_RECORD];
  fuzz_take(&it.in, wire, sizeof wire);
  vm_record r = {wire[0], wire[1], wire[2], wire[3], wire[4], 0, 0};
  r.x = (uint32_t)wire[5] | (uint32_t)wire[6] << 8 | (uint32_t)wire[7] << 16;
  memcpy(&r.y, wire + 8, sizeof r.y);
  return r;
}

void vm_step(void) {
  if (it.steps++ >= VM_STEPS) return;
  const vm_record op = take();
  operations[ops[op.op % sizeof ops]](&op);
  vm_check();
}

/* The upper bits of the next operation say how many there are. */
void vm_inside(void) {
  vm_check();
  if (it.honest || it.frame_count > VM_DEPTH || it.in.left == 0) return;
  static const uint8_t counts[] = {0, 0, 0, 0, 1, 1, 2, 3};
  for (uint32_t i = counts[it.in.at[0] >> 5]; i != 0 && it.in.left != 0; i--) vm_step();
}

/* ---- One input ------------------------------------------------------------------------------------------------------ */

static void offer(void) {
  static const uint8_t shifts[] = {0, 0, 1, 8};
  const uint64_t arena = (uint64_t)VM_ARENA_BYTES >> (it.header.arena & 3u);
  for (uint32_t i = 0; i < VM_OFFERS; i++) {
    vm_offers[i].capabilities = NXMEM_CAP_ALLOCATOR | (30ull & ~(uint64_t)(it.header.stripped >> (i == 1u ? 3u : 0)));
    vm_offers[i].ladder_floor_bytes = arena - (it.header.arena >> 4) * 4096u;
    vm_offers[i].ladder_minimum_bytes = arena >> shifts[it.header.arena >> 2 & 3u] >> 4;
    vm_offers[i].pool_bytes = (it.header.pool & 15u) * 8192u + (it.header.pool >> 7);
  }
}

static void list_factories(void) {
  const NxmemAllocatorFactoryVtable *factories[VM_OFFERS];
  uint64_t count = 0;
  vm_same("listing factories", NxmemCreateAllocatorFactories(factories, VM_OFFERS, &count).code, NXMEM_STATUS_OK);
  vm_same("factories", count, VM_OFFERS);
}

static void begin(const uint8_t *data, size_t size) {
  memset(&it, 0, sizeof it);
  it.in = fuzz_begin(data, size);
  fuzz_take(&it.in, &it.header, sizeof it.header);
  it.next_id = 1;
  offer();
  list_factories();
}

/* Where there is a leak checker; not at each input, for it stops the world. */
static void look_for_leaks(void) {
  enum { INPUTS = 1 << 14 };
  static uint32_t inputs;
  if (++inputs % INPUTS != 0 || __lsan_do_recoverable_leak_check == NULL) return;
  vm_expect(__lsan_do_recoverable_leak_check() == 0, "memory is lost");
}

/* Everything that is the host's is given back, and a driver that fails no more takes it. */
static void end(void) {
  it.honest = 1;
  for (uint32_t i = 0; i < VM_DEVICES; i++)
    while (it.captures[i] != 0) vm_op_capture(&(vm_record){.a = (uint8_t)i, .c = 1});
  vm_op_touch(NULL);
  for (uint32_t i = 0; i < it.block_top; i++) {
    const vm_block *b = &it.blocks[i];
    if (b->state == VM_BLOCK_LIVE && b->engine->life == VM_OPEN) vm_op_release(&(vm_record){.b = (uint8_t)i});
    vm_check();
  }
  for (uint32_t i = 0; i < VM_PREFIXES; i++)
    while (it.prefixes[i].there && it.prefixes[i].handles != 0 && it.prefixes[i].engine->life == VM_OPEN) {
      vm_op_prefix_release(&(vm_record){.b = (uint8_t)i});
      vm_check();
    }
  for (uint32_t i = 0; i < it.driver_count; i++)
    if (it.engines[i].life == VM_OPEN && it.engines[i].queued != 0) vm_op_drain(&(vm_record){.a = (uint8_t)i});
  vm_check();
  vm_end_all();
  look_for_leaks();
}

void vm_run(const uint8_t *data, size_t size) {
  begin(data, size);
  vm_check();
  while (it.in.left != 0 && it.steps < VM_STEPS) vm_step();
  end();
}
