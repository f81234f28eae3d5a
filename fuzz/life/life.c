/*
 * life.c: one input from begin to end: a host, a plugin, operations, and everything given back.
 * Attackers: the input.
 * Promise: what an input leaves behind is known, is what it must be, and is gone before the next one.
 *
 * A load costs more than everything else together. So inputs that are not about loads share a host and a load for each
 * mode, and each leaves both as it found them.
 */
#define _DEFAULT_SOURCE /* readlink */
#include "life.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "again.h"
#include "guard.h"
#include "kernel.h"
#include "objects.h"
#include "quarantine.h"
#include "violations.h"

life it;

/* AddressSanitizer's, where the program has it. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

/* Of the whole process: callbacks whose context named nothing. */
static uint64_t strays;

/* Nobody else's reference: with it a load maps nothing and an unload unmaps nothing. */
static void *library;

/* Beside the program, wherever that was put. */
const char *life_path(void) {
  static const char name[] = "libnxmem_fuzz_plugin.so";
  static char path[4096];
  if (path[0] != '\0') return path;
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof name);
  char *slash = length <= 0 ? NULL : strrchr(path, '/');
  life_expect(slash != NULL, "harness: where the program lies is not known");
  strcpy(slash + 1, name);
  return path;
}

/* ---- Hosts ------------------------------------------------------------------------------------------------------- */

static void hold_library(int wanted) {
  if (wanted && library == NULL) library = dlopen(life_path(), RTLD_NOW | RTLD_LOCAL);
  life_expect(!wanted || library != NULL, "harness: the plugin cannot be loaded");
  if (wanted || library == NULL) return;
  dlclose(library);
  library = NULL;
}

static void make_host(void) {
  nxmem_host_options options;
  nxmem_host_options_default(&options);
  const uint8_t mode = it.header.mode;
  options.fetch = life_is_direct() ? NXMEM_FETCH_DIRECT : NXMEM_FETCH_GUARDED;
  options.overlap = mode & LIFE_TRUSTED ? NXMEM_OVERLAP_TRUSTED : NXMEM_OVERLAP_CHECKED;
  options.reclaim = it.rules->reclaim != NULL ? it.rules->reclaim : life_reclaim_hook;
  options.reclaim_ctx = it.rules->reclaim_ctx;
  if (mode & LIFE_NO_HOOK) options.reclaim = NULL;
  if (mode & LIFE_OLD) options.range.minor_max = 0;
  if (it.rules->loads) options.capability_flags = (it.header.caps & 31u) | 1u;
  life_same_result("create host", nxmem_host_create(&options, &it.host, NULL), NXMEM_OK);
}

/* ---- What is kept from one input to the next --------------------------------------------------------------------- */

enum { KEEPABLE = LIFE_DIRECT | LIFE_TRUSTED | LIFE_OLD | LIFE_NO_HOOK, SESSIONS = KEEPABLE + 1 };

typedef struct session {
  nx_module *module;
  life left; /* the model as each input finds it */
} session;

static session sessions[SESSIONS];

static void begin_fresh(void) {
  make_host();
  if ((it.header.mode & LIFE_HOSTILE_LOAD) == 0) life_same_result("load", life_load(0), NXMEM_OK);
}

static void copy_kept(life *to, const life *from) {
  to->host = from->host;
  to->open_plugins = from->open_plugins;
  to->violations = from->violations;
  to->refused = from->refused;
  to->unpaid = from->unpaid;
  to->listed = from->listed;
  to->last_listed = from->last_listed;
  to->last_reason = from->last_reason;
  to->module = from->module;
  memcpy(to->plugins, from->plugins, sizeof to->plugins);
  memcpy(to->plugin_open, from->plugin_open, sizeof to->plugin_open);
  memcpy(to->factories, from->factories, sizeof to->factories);
}

/* The host's only one. */
static nx_module *find_module(void) {
  const uint32_t count = atomic_load(&nx_modules.count);
  for (uint32_t i = 0; i < count; i++)
    if (atomic_load(&nx_module_at(i)->host) == it.host.id) return nx_module_at(i);
  life_fail("harness: the module is not found");
}

static void make_session(session *s, const life_rules *rules, uint8_t mode) {
  fuzz_clear(&it, sizeof it);
  it.rules = rules;
  it.header.mode = mode;
  it.honest = 1;
  make_host();
  life_same_result("load", life_load(LIFE_BASE), NXMEM_OK);
  life_same_result("load", life_load(0), NXMEM_OK);
  s->module = find_module();
  copy_kept(&s->left, &it);
}

/* All before the first input, so that none finds less than another. Inputs about loads keep none. */
static void make_sessions(const life_rules *rules) {
  static int made;
  if (made) return;
  made = 1;
  again_prepare_index();
  if (rules->loads) return;
  hold_library(1);
  life_restart_random();
  for (uint32_t mode = 0; mode < SESSIONS; mode++)
    if ((mode & ~(uint32_t)KEEPABLE) == 0) make_session(&sessions[mode], rules, (uint8_t)mode);
}

/* Seldom, so that what it costs is seldom paid. */
static int has_new_spaces(void) { return (it.header.unused[0] & 7u) == 7u; }

static void begin_kept(const session *s) {
  copy_kept(&it, &s->left);
  for (uint32_t i = 0; i < LIFE_FACTORIES; i++) again_note_tiers(&s->module->spaces[i], !has_new_spaces());
}

/* Inputs about loads keep nothing. */
int life_is_held_elsewhere(void) { return library != NULL; }

static void begin(const life_rules *rules, const uint8_t *data, size_t size) {
  make_sessions(rules);
  fuzz_clear(&it, sizeof it);
  it.in = fuzz_begin(data, size);
  life_restart_random();
  it.rules = rules;
  it.strays = strays;
  it.next_address = 1ull << 40;
  it.next_number = 1;
  fuzz_take(&it.in, &it.header, sizeof it.header);
  if (!rules->loads) it.header.mode &= KEEPABLE;
  hold_library((it.header.mode & LIFE_UNMAP) == 0);
  if (rules->loads)
    begin_fresh();
  else
    begin_kept(&sessions[it.header.mode]);
}

/* ---- The end of an input ----------------------------------------------------------------------------------------- */

static void complete_all(void) {
  for (uint32_t i = 0; i < LIFE_BLOCKS; i++)
    if (it.blocks[i].state == BLOCK_QUEUED) life_complete_honestly(&it.blocks[i]);
}

static void close_all(void) {
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++) {
    life_allocator *a = &it.allocators[i];
    if (a->gate != GATE_OPEN && a->gate != GATE_WAITING) continue;
    life_same_result("close at the end", life_close(a, NXMEM_CLOSE_RELEASE_LIVE), NXMEM_OK);
    life_check_about(i);
  }
}

/* The model's word for it: nothing of it may be left in the host's index. */
static void drop_addresses(nx_module *m) {
  for (uint32_t i = 0; i < it.kept_count; i++)
    nx_index_drop(&m->spaces[life_kept[i].factory], life_kept[i].first, life_kept[i].bytes);
  it.kept_count = 0;
}

static void forgive_module(nx_module *m) {
  drop_addresses(m);
  atomic_store(&m->unpaid_debts, 0);
  atomic_store(&m->retained, 0);
  atomic_store(&m->retained_bytes, 0);
  atomic_store(&m->retained_owned, 0);
  atomic_store(&m->retained_mapped, 0);
  it.module.unpaid = 0;
  it.module.retained = 0;
  it.module.retained_bytes = 0;
  it.module.retained_owned = 0;
  it.module.retained_mapped = 0;
}

/*
 * What is quarantined or owed keeps a module for good; a process that runs for months would be full of them. So what
 * was booked is forgiven, behind the host's back: then it must go like any other.
 */
static void forgive(void) {
  const uint32_t count = atomic_load(&nx_modules.count);
  for (uint32_t i = 0; i < count; i++) {
    nx_module *m = nx_module_at(i);
    if (atomic_load(&m->host) == it.host.id && nxmem_word_state(atomic_load(&m->slot.word)) != NXMEM_SLOT_FREE)
      forgive_module(m);
  }
}

static void unload_all(void) {
  forgive();
  it.header.mode &= (uint8_t)~LIFE_HOSTILE_LOAD;
  if (it.module.state == MODULE_LEFT || (it.module.state == MODULE_LIVE && it.module.references == 0))
    life_same_result("load at the end", life_load(0), NXMEM_OK);
  for (uint32_t i = 0; i <= LIFE_BASE; i++)
    if (it.plugin_open[i]) life_same_result("unload at the end", life_unload(i), NXMEM_OK);
  life_expect(it.module.state == MODULE_NONE, "harness: a module is left");
  life_same_result("destroy host at the end", nxmem_host_destroy(it.host, NULL), NXMEM_OK);
}

static void restore_lists(void) {
  nx_host *host = NULL;
  life_same_result("host at the end", nx_host_find(it.host, &host, NULL), NXMEM_OK);
  if (it.listed != 0) nx_quarantine_free(it.host.id);
  if (it.violations != 0 || it.refused != 0) nx_violations_reset(host);
  atomic_store(&host->unpaid_debts, 0);
}

/* Where no allocator was opened, nothing can be taken. */
static void restore_spaces(nx_module *m) {
  uint32_t used = 0;
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++)
    if (it.allocators[i].gate != GATE_NONE) used |= 1u << it.allocators[i].factory;
  for (uint32_t i = 0; i < LIFE_FACTORIES; i++)
    if ((used & 1u << i) != 0) again_restore_space(&m->spaces[i]);
}

/* As it was begun, but for the handles. */
static void restore_session(session *s) {
  forgive_module(s->module);
  if (it.plugin_open[1]) life_same_result("unload at the end", life_unload(1), NXMEM_OK);
  if (!it.plugin_open[0]) life_same_result("load at the end", life_load(0), NXMEM_OK);
  restore_lists();
  restore_spaces(s->module);
  memcpy(s->left.plugins, it.plugins, sizeof it.plugins);
}

/* Where there is a leak checker; not at each input, for it stops the world. */
static void look_for_leaks(void) {
  enum { INPUTS = 1 << 15 };
  static uint32_t inputs;
  if (++inputs % INPUTS != 0 || __lsan_do_recoverable_leak_check == NULL) return;
  life_expect(__lsan_do_recoverable_leak_check() == 0, "memory is lost");
}

static void free_what_is_owed(void) {
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++)
    for (uint32_t j = 0; j < sizeof it.allocators[i].blocks / sizeof(void *); j++)
      life_withdraw(it.allocators[i].blocks[j]);
}

static void end(void) {
  it.honest = 1;
  if (it.rules->end != NULL) it.rules->end();
  complete_all();
  close_all();
  life_check();
  life_expect(it.pins_out == 0, "at the end something is pinned");
  if (it.rules->loads)
    unload_all();
  else
    restore_session(&sessions[it.header.mode]);
  again_restore_index();
  again_restore_slots();
  strays = it.strays;
  free_what_is_owed();
  look_for_leaks();
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

typedef void (*operation)(const life_record *op);

static const operation operations[OP_COUNT] = {
    [OP_OPEN] = life_op_open,
    [OP_ALLOCATE] = life_op_allocate,
    [OP_RELEASE] = life_op_release,
    [OP_ENQUEUE] = life_op_enqueue,
    [OP_COMPLETE] = life_op_complete,
    [OP_DRAIN] = life_op_drain,
    [OP_PENDING] = life_op_pending,
    [OP_CLOSE] = life_op_close,
    [OP_COMMIT] = life_op_commit,
    [OP_DECOMMIT] = life_op_decommit,
    [OP_COMMITTED] = life_op_committed,
    [OP_COST_OF_RANGES] = life_op_cost_of_ranges,
    [OP_COST_OF_ALLOCATION] = life_op_cost_of_allocation,
    [OP_PREFIX_CREATE] = life_op_prefix_create,
    [OP_PREFIX_RETAIN] = life_op_prefix_retain,
    [OP_PREFIX_RELEASE] = life_op_prefix_release,
    [OP_PREFIX_INFO] = life_op_prefix_info,
    [OP_PREFIX_COMMIT] = life_op_prefix_commit,
    [OP_RECLAIM] = life_op_reclaim,
    [OP_LOAD] = life_op_load,
    [OP_UNLOAD] = life_op_unload,
    [OP_DESTROY] = life_op_destroy,
    [OP_END_HOST] = life_op_end_host,
    [OP_ASK] = life_op_ask,
};

/* The first byte says which; the others are the operation's own. */
void life_step(void) {
  if (it.steps++ >= LIFE_STEPS) return;
  if (it.rules->step != NULL) {
    it.rules->step();
    return;
  }
  life_record op = life_take();
  const uint32_t which = it.rules->ops[op.op % it.rules->op_count];
  operations[which](&op);
  life_check_about(op.a % LIFE_ALLOCATORS);
}

void life_run(const life_rules *rules, const uint8_t *data, size_t size) {
  begin(rules, data, size);
  life_check_about(0);
  if (rules->begin != NULL) rules->begin();
  while (it.in.left > 0 && it.steps < LIFE_STEPS) life_step();
  life_check();
  end();
}
