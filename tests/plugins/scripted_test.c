/*
 * scripted_test.c: does each mechanism of the scripted plugin commit what its name says, and nothing else?
 *
 * Attackers played: none; here the attackers are under test, since a fixture that is tame by accident proves nothing.
 * Promise: every listed mechanism has a row here; where a table is short, it is shown that it really ends there.
 */
#include <malloc.h>
#include <string.h>

#include "plugin.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { ANY = 0, PLAIN = 1, STRUCTURED = 17, ALL = 31 };
enum { SECOND_TRY = 2 };

typedef struct scene {
  const plugin *p;
  const NxmemAllocatorVtable *table;
} scene;

typedef struct mechanism_row {
  const char *name;
  uint32_t struct_size; /* 0: no table to look at */
  uint32_t abi_minor;
  uint64_t flags;
  uint32_t readable_bytes; /* of 200; ANY: no guard behind it */
  int owes_release;        /* 1: opened, and one release pays it */
  void (*show)(const scene *s);
} mechanism_row;

static uint64_t counted(const scene *s, nx_probe what) { return s->p->probe(what); }

/* ---- What each row shows ---------------------------------------------------------------------------------------- */

static void show_honest(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  assert_books(s->p, 1u, 1u);
  assert_int_equal(give_back(s->table, &allocation), 100u);
}

/* All of it: lazy_test.c. */
static void show_lazy(const scene *s) {
  assert_int_equal(s->table->virtual_backing->mechanism_id, s->table->mechanism_id);
  assert_int_equal(s->table->shared_mapping->mechanism_id, s->table->mechanism_id);
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  assert_int_equal(give_back(s->table, &allocation), 65536u);
}

/* 120 is a size that malloc hands out exactly, with a sanitizer or without. */
static void assert_exact_block(const scene *s) { assert_int_equal(malloc_usable_size((void *)s->table), 120u); }

static void show_legacy(const scene *s) {
  assert_exact_block(s);
  show_honest(s);
}

static void show_poison(const scene *s) {
  const uint8_t *bytes = (const uint8_t *)s->table;
  for (uint32_t i = 128u; i < s->table->struct_size; i++) assert_int_equal(bytes[i], 0xAA);
  show_honest(s);
}

static void show_missing_slot(const scene *s) {
  assert_null(s->table->allocate);
  assert_non_null(s->table->deallocate);
}
static void show_no_release_slot(const scene *s) { assert_null(s->table->release_allocation); }
static void show_no_mechanism(const scene *s) { assert_int_equal(s->table->mechanism_id, 0u); }
static void show_other_device(const scene *s) {
  assert_int_equal(s->p->factory->device.index, 0u);
  assert_int_equal(s->table->device.index, 1u);
}
static void show_undeclared(const scene *s) {
  assert_non_null(s->table->virtual_backing);
  assert_int_equal(s->table->virtual_backing->struct_size, 72u);
  assert_int_equal(s->table->virtual_backing->mechanism_id, s->table->mechanism_id);
}
static void show_null(const scene *s) { assert_null(s->table); }
static void show_wild(const scene *s) {
  assert_int_equal((uintptr_t)s->table % 8u, 0u);
  assert_int_equal(readable(s->table, 1u), 0u);
}
static void show_misaligned(const scene *s) {
  assert_int_equal((uintptr_t)s->table % 8u, 4u);
  assert_int_equal(readable(s->table, 128u), 128u);
}

/* A table that created no state counts a call into it as stray, the release too. */
static void show_stateless(const scene *s) {
  assert_exact_block(s);
  s->table->release(s->table->ctx);
  assert_int_equal(counted(s, NX_PROBE_STRAY_ALLOCATOR_CALLS), 1u);
}

static void show_refused_open(const scene *s) {
  const NxmemAllocatorVtable *table = NULL;
  const NxmemOpenRequest request = open_request(s->p);
  const NxmemStatus status = s->p->factory->open_allocator(s->p->factory->ctx, &request, &table);
  assert_int_equal(status.code, NXMEM_STATUS_DEVICE_ERROR);
  assert_int_equal(status.message_len, 0xFFFFFFFFu);
  assert_null(memchr(status.message, 0, sizeof status.message));
  assert_null(table);
}

static NxmemStatus ask(const scene *s, uint64_t id, NxmemAllocRequest *request, NxmemAllocResult *result) {
  *request = alloc_request(s->table, id, 100u, 64u);
  *result = alloc_result();
  return s->table->allocate(s->table->ctx, request, result);
}

static void show_refused_allocate(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask(s, 5u, &request, &result), NXMEM_STATUS_OUT_OF_MEMORY);
  assert_int_equal(result.owned_bytes, UINT64_MAX);
  assert_books(s->p, 1u, 0u);
}

static void show_null_address(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask(s, 5u, &request, &result), NXMEM_STATUS_OK);
  assert_null(result.ptr);
  assert_int_equal(result.owned_bytes, 100u);
  assert_books(s->p, 1u, 0u);
}

static void show_misaligned_address(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask(s, 5u, &request, &result), NXMEM_STATUS_OK);
  assert_int_equal((uintptr_t)result.ptr % 64u, 1u);
  memset(result.ptr, 0x5A, 100u);
  const NxmemAllocation allocation = allocation_of(&request, &result);
  give_back(s->table, &allocation);
}

static void show_wrapping_address(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask(s, 5u, &request, &result), NXMEM_STATUS_OK);
  assert_int_equal((uintptr_t)result.ptr % 64u, 0u);
  assert_true((uintptr_t)result.ptr > UINTPTR_MAX - 100u);
  const NxmemAllocation allocation = allocation_of(&request, &result);
  give_back(s->table, &allocation);
}

static void show_huge(const scene *s) {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  assert_status(ask(s, 5u, &request, &result), NXMEM_STATUS_OK);
  assert_int_equal(result.owned_bytes, UINT64_MAX);
  assert_int_equal(result.mapped_bytes, UINT64_MAX);
  const NxmemAllocation allocation = allocation_of(&request, &result);
  give_back(s->table, &allocation);
}

static void show_same_address(const scene *s) {
  const NxmemAllocation first = take(s->table, 5u, 100u, 64u);
  const NxmemAllocation second = take(s->table, 6u, 100u, 64u);
  assert_ptr_equal(first.ptr, second.ptr);
  give_back(s->table, &second);
  memset(first.ptr, 0x5A, 100u); /* only the first owns it */
  give_back(s->table, &first);
}

static void show_refused_deallocate(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  uint64_t unmapped = UINT64_MAX;
  assert_status(s->table->deallocate(s->table->ctx, &allocation, &unmapped), NXMEM_STATUS_BUSY);
  assert_int_equal(unmapped, UINT64_MAX);
  assert_books(s->p, 1u, 1u);
  assert_int_equal(give_back(s->table, &allocation), 100u);
  assert_int_equal(counted(s, NX_PROBE_DEALLOCATE_CALLS), SECOND_TRY);
}

static void show_over_refund(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  assert_int_equal(give_back(s->table, &allocation), UINT64_MAX);
}

/* ---- Structured releases ---------------------------------------------------------------------------------------- */

static NxmemReleaseOutcome unwritten(void) {
  NxmemReleaseOutcome outcome;
  memset(&outcome, 0xFF, sizeof outcome);
  outcome.struct_size = sizeof outcome;
  return outcome;
}

static void release_as(const scene *s, const NxmemAllocation *allocation, uint32_t code, uint32_t state) {
  NxmemReleaseOutcome outcome = unwritten();
  assert_status(s->table->release_allocation(s->table->ctx, allocation, &outcome), code);
  assert_int_equal(outcome.state, state);
}

static void show_quarantine(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  NxmemReleaseOutcome outcome = unwritten();
  assert_status(s->table->release_allocation(s->table->ctx, &allocation, &outcome), NXMEM_STATUS_OK);
  assert_int_equal(outcome.state, NXMEM_RELEASE_QUARANTINED);
  assert_int_equal(outcome.unmapped_bytes, 0u);
  assert_int_equal(outcome.residual_owned_bytes, 100u);
  assert_status(outcome.failure, NXMEM_STATUS_DEVICE_ERROR);
  assert_books(s->p, 1u, 1u);
  assert_int_equal(counted(s, NX_PROBE_PARKED_BLOCKS), 1u);
}

static void show_future(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  release_as(s, &allocation, NXMEM_STATUS_OK, 77u);
  assert_books(s->p, 1u, 1u);
}

static void show_no_outcome(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  const NxmemReleaseOutcome before = unwritten();
  NxmemReleaseOutcome outcome = before;
  assert_status(s->table->release_allocation(s->table->ctx, &allocation, &outcome), NXMEM_STATUS_OK);
  assert_memory_equal(&before, &outcome, sizeof before);
  assert_books(s->p, 1u, 0u);
}

static void show_status_only(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  release_as(s, &allocation, NXMEM_STATUS_RELEASE_QUARANTINED, UINT32_MAX);
  assert_books(s->p, 1u, 1u);
}

static void show_failed_first(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  release_as(s, &allocation, NXMEM_STATUS_OK, NXMEM_RELEASE_FAILED);
  assert_books(s->p, 1u, 1u);
  release_as(s, &allocation, NXMEM_STATUS_OK, NXMEM_RELEASE_COMPLETE);
  assert_int_equal(counted(s, NX_PROBE_RELEASE_ALLOCATION_CALLS), SECOND_TRY);
}

/* The honest structured release, and what it refuses. */
static void show_eager(const scene *s) {
  const NxmemAllocation allocation = take(s->table, 5u, 100u, 64u);
  NxmemAllocation foreign = allocation;
  foreign.allocation_id = 6u;
  NxmemReleaseOutcome cramped = unwritten();
  cramped.struct_size = 295u;
  assert_status(s->table->release_allocation(s->table->ctx, &allocation, &cramped), NXMEM_STATUS_SHORT_STRUCT);
  assert_int_equal(cramped.state, UINT32_MAX);
  release_as(s, &foreign, NXMEM_STATUS_UNKNOWN_ALLOCATION, UINT32_MAX);
  NxmemReleaseOutcome outcome = unwritten();
  assert_status(s->table->release_allocation(s->table->ctx, &allocation, &outcome), NXMEM_STATUS_OK);
  assert_int_equal(outcome.state, NXMEM_RELEASE_COMPLETE);
  assert_int_equal(outcome.allocation_bytes, 100u);
  assert_int_equal(outcome.unmapped_bytes, 100u);
  assert_int_equal(outcome.residual_owned_bytes, 0u);
  assert_status(outcome.failure, NXMEM_STATUS_OK);
  release_as(s, &allocation, NXMEM_STATUS_UNKNOWN_ALLOCATION, UINT32_MAX);
}

/* ---- Calls into the host ---------------------------------------------------------------------------------------- */

typedef struct seen_calls {
  NxmemReclaimRequest reclaim;
  NxmemReleaseCompletion completion;
} seen_calls;

static NxmemStatus plain(uint32_t code) { return (NxmemStatus){code, 0u, {0}}; }

static NxmemStatus reclaim_7(void *host_ctx, const NxmemReclaimRequest *request, uint64_t *reclaimed_out) {
  ((seen_calls *)host_ctx)->reclaim = *request;
  *reclaimed_out = 7u;
  return plain(NXMEM_STATUS_BUSY);
}

static NxmemStatus refuse_completion(void *host_ctx, const NxmemReleaseCompletion *completion) {
  ((seen_calls *)host_ctx)->completion = *completion;
  return plain(NXMEM_STATUS_INVALID_ARGUMENT);
}

static void show_calls_host(const scene *s) {
  seen_calls seen;
  const NxmemHostCallbacks callbacks = {sizeof callbacks, 1u, &seen, reclaim_7, refuse_completion};
  NxmemOpenRequest request = open_request(s->p);
  const NxmemAllocatorVtable *table = NULL;
  request.callbacks = &callbacks;
  assert_status(s->p->factory->open_allocator(s->p->factory->ctx, &request, &table), NXMEM_STATUS_OK);
  const NxmemAllocation allocation = take(table, 5u, 100u, 64u);
  assert_int_equal(seen.reclaim.struct_size, 32u);
  assert_int_equal(seen.reclaim.mechanism_id, table->mechanism_id);
  assert_int_equal(seen.reclaim.bytes, 100u);
  assert_int_equal(counted(s, NX_PROBE_RECLAIM_STATUS), NXMEM_STATUS_BUSY);
  assert_int_equal(counted(s, NX_PROBE_RECLAIMED_BYTES), 7u);
  give_back(table, &allocation);
  assert_int_equal(seen.completion.struct_size, 328u);
  assert_int_equal(seen.completion.allocation_id, 5u);
  assert_int_equal(counted(s, NX_PROBE_COMPLETION_STATUS), NXMEM_STATUS_INVALID_ARGUMENT);
  table->release(table->ctx);
  show_honest(s); /* without callbacks it just works */
  assert_int_equal(counted(s, NX_PROBE_RECLAIM_CALLS), 1u);
  assert_int_equal(counted(s, NX_PROBE_COMPLETION_CALLS), 1u);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

#define BIT_40 (1ull << 40)

static const mechanism_row rows[] = {
    {"eager", 128, 1, STRUCTURED, ANY, 1, show_eager},
    {"lazy", 128, 1, ALL, ANY, 1, show_lazy},
    {"legacy-1-0", 120, 0, PLAIN, ANY, 1, show_legacy},
    {"guard-page-table", 120, 0, PLAIN, 120, 1, show_honest},
    {"poisoned-tail", 192, 2, STRUCTURED, ANY, 1, show_poison},
    {"ahead", 136, 2, STRUCTURED | BIT_40, ANY, 1, show_poison},
    {"short-struct", 120, 1, STRUCTURED, ANY, 0, show_stateless},
    {"lying-size", 128, 1, STRUCTURED, 120, 1, show_honest},
    {"missing-slot", 128, 1, STRUCTURED, ANY, 1, show_missing_slot},
    {"flag-without-slot", 128, 1, STRUCTURED, ANY, 1, show_no_release_slot},
    {"zero-mechanism", 128, 1, STRUCTURED, ANY, 1, show_no_mechanism},
    {"unknown-capability", 128, 1, STRUCTURED | BIT_40, ANY, 1, show_honest},
    {"wrong-device", 128, 1, STRUCTURED, ANY, 1, show_other_device},
    {"undeclared-table", 128, 1, STRUCTURED, ANY, 1, show_undeclared},
    {"null-table", 0, 0, 0, ANY, 0, show_null},
    {"wild-table", 0, 0, 0, ANY, 0, show_wild},
    {"misaligned-table", 0, 0, 0, ANY, 0, show_misaligned},
    {"allocate-refuses", 128, 1, PLAIN, ANY, 1, show_refused_allocate},
    {"null-address", 128, 1, PLAIN, ANY, 1, show_null_address},
    {"misaligned-address", 128, 1, PLAIN, ANY, 1, show_misaligned_address},
    {"wrapping-address", 128, 1, PLAIN, ANY, 1, show_wrapping_address},
    {"huge-numbers", 128, 1, PLAIN, ANY, 1, show_huge},
    {"same-address-twice", 128, 1, PLAIN, ANY, 1, show_same_address},
    {"deallocate-refuses", 128, 1, PLAIN, ANY, 1, show_refused_deallocate},
    {"over-refund", 128, 1, PLAIN, ANY, 1, show_over_refund},
    {"calls-host", 128, 1, PLAIN, ANY, 1, show_calls_host},
    {"quarantining", 128, 1, STRUCTURED, ANY, 1, show_quarantine},
    {"future-state", 128, 1, STRUCTURED, ANY, 1, show_future},
    {"no-outcome", 128, 1, STRUCTURED, ANY, 1, show_no_outcome},
    {"status-quarantined", 128, 1, STRUCTURED, ANY, 1, show_status_only},
    {"failed-release", 128, 1, STRUCTURED, ANY, 1, show_failed_first},
};

static const subject scripted = {"libnxmem_scripted.so", "scripted", 0u, 0u};

static void assert_declares(const mechanism_row *row, const NxmemAllocatorVtable *table) {
  assert_int_equal(table->struct_size, row->struct_size);
  assert_int_equal(table->abi_minor, row->abi_minor);
  assert_int_equal(table->capability_flags, row->flags);
  assert_string_equal((const char *)table->name, row->name);
  if (row->readable_bytes != ANY) assert_int_equal(readable(table, 200u), row->readable_bytes);
}

static void run_mechanism(const subject *s, const void *data) {
  const mechanism_row *row = data;
  plugin p;
  plugin_load(&p, s->file);
  plugin_find(&p, row->name);
  const NxmemOpenRequest request = open_request(&p);
  const NxmemAllocatorVtable *table = NULL;
  assert_status(p.factory->open_allocator(p.factory->ctx, &request, &table), NXMEM_STATUS_OK);
  assert_int_equal(p.probe(NX_PROBE_ALLOCATORS_OPENED), row->owes_release);
  if (row->struct_size != 0u) assert_declares(row, table);
  const scene shown = {&p, table};
  row->show(&shown);
  if (row->owes_release) table->release(table->ctx);
  assert_int_equal(p.probe(NX_PROBE_ALLOCATORS_OPENED), p.probe(NX_PROBE_ALLOCATORS_RELEASED));
  plugin_close(&p);
}

static void run_refused_open(const subject *s, const void *data) {
  const mechanism_row *row = data;
  plugin p;
  plugin_load(&p, s->file);
  plugin_find(&p, row->name);
  const scene shown = {&p, NULL};
  row->show(&shown);
  assert_int_equal(p.probe(NX_PROBE_ALLOCATORS_OPENED), 0u);
  plugin_close(&p);
}
static const mechanism_row refused_open = {"open-refuses", 0, 0, 0, ANY, 0, show_refused_open};

/* ---- The module as a whole -------------------------------------------------------------------------------------- */

typedef struct module_row {
  const char *name;
} module_row;
static const module_row list_row = {"every mechanism has a row here"};
static const module_row observe_row = {"an observer reads the counts after the module is gone"};
static const module_row environment_row = {"an observer in the environment sees the module from its start"};

static int has_row(const uint8_t *name) {
  if (strcmp((const char *)name, refused_open.name) == 0) return 1;
  for (size_t i = 0u; i < COUNT(rows); i++)
    if (strcmp((const char *)name, rows[i].name) == 0) return 1;
  return 0;
}

static void run_list(const subject *s, const void *data) {
  plugin p;
  (void)data;
  plugin_load(&p, s->file);
  plugin_find(&p, "eager");
  assert_int_equal(p.listed, COUNT(rows) + 1u);
  for (uint64_t i = 0u; i < p.listed; i++)
    if (!has_row(p.list[i]->name)) fail_msg("%s has no row", (const char *)p.list[i]->name);
  plugin_close(&p);
}

/* A second release of factory and allocator; the counts go on after the unload. */
static void observed_life(plugin *p) {
  const NxmemAllocatorVtable *table = plugin_open(p);
  const NxmemAllocation allocation = take(table, 5u, 100u, 64u);
  void (*const release)(void *) = table->release;
  void *const ctx = table->ctx;
  give_back(table, &allocation);
  release(ctx);
  release(ctx);
  void (*const release_factory)(void *) = p->factory->release;
  void *const factory_ctx = p->factory->ctx;
  for (uint64_t i = 0u; i < p->listed; i++) p->list[i]->release(p->list[i]->ctx);
  release_factory(factory_ctx);
  p->listed = 0u;
  plugin_close(p);
}

static void assert_observed(const uint64_t *counters) {
  assert_int_equal(counters[NX_PROBE_FACTORIES_CREATED], COUNT(rows) + 1u);
  assert_int_equal(counters[NX_PROBE_FACTORIES_RELEASED], COUNT(rows) + 1u);
  assert_int_equal(counters[NX_PROBE_STRAY_FACTORY_CALLS], 1u);
  assert_int_equal(counters[NX_PROBE_ALLOCATORS_OPENED], 1u);
  assert_int_equal(counters[NX_PROBE_ALLOCATORS_RELEASED], 1u);
  assert_int_equal(counters[NX_PROBE_STRAY_ALLOCATOR_CALLS], 1u);
  assert_int_equal(counters[NX_PROBE_LIVE_ALLOCATIONS], 0u);
  assert_int_equal(counters[NX_PROBE_ALLOCATE_CALLS], 1u);
}

static void run_observe(const subject *s, const void *data) {
  uint64_t counters[NX_PROBE_COUNT];
  plugin p;
  (void)data;
  memset(counters, 0xFF, sizeof counters);
  plugin_load(&p, s->file);
  plugin_observe(&p, counters);
  plugin_find(&p, "eager");
  observed_life(&p);
  assert_observed(counters);
}

static void run_environment(const subject *s, const void *data) {
  uint64_t counters[NX_PROBE_COUNT];
  plugin p;
  (void)data;
  memset(counters, 0xFF, sizeof counters);
  plugin_observe_from_start(counters);
  plugin_load(&p, s->file);
  plugin_observe_from_start(NULL);
  plugin_find(&p, "eager");
  observed_life(&p);
  assert_observed(counters);
}

int main(void) {
  for (size_t i = 0u; i < COUNT(rows); i++) add_case(&scripted, "mechanism", &rows[i], run_mechanism);
  add_case(&scripted, "mechanism", &refused_open, run_refused_open);
  add_case(&scripted, "module", &list_row, run_list);
  add_case(&scripted, "module", &observe_row, run_observe);
  add_case(&scripted, "module", &environment_row, run_environment);
  return run_added("scripted mechanisms");
}
