/*
 * objects.c: the tables, and how a call pins what it works on.
 *
 * Attackers: callers with stale or foreign handles, on any thread, at any moment of a close or an unload.
 * Promise: a pinned object is not closed or unmapped before the matching leave; a handle that names nothing touches nothing.
 *
 * The order that makes this work: a call first counts itself in, then looks at the state; a closer first changes the state, then looks at the count. All four
 * are sequentially consistent, so at least one of the two sees the other. An allocator's count is spread over stripes: each call uses one of them for its way in and
 * out, and the closer looks at all of them, so the same holds stripe by stripe (proofs/models/striped_gate.pml). Before that, a handle that is no longer live is refused without being counted: a caller's
 * stale handle must not hold up a close.
 */
#include "objects.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "nxmem/count.h"
#include "nxmem/handle.h"
#include "nxmem/status.h"

nx_table nx_hosts = NX_TABLE(nx_host, 3);
nx_table nx_modules = NX_TABLE(nx_module, NX_MODULES_SHIFT);
nx_table nx_plugins = NX_TABLE(nx_plugin, 8);
nx_table nx_allocators = NX_TABLE(nx_allocator, NX_ALLOCATORS_SHIFT);
nx_table nx_allocations = NX_TABLE_CACHED(nx_allocation, NX_ALLOCATIONS_SHIFT);

_Static_assert(sizeof(nx_allocation) == 48, "what a live allocation takes");

void nx_add(nx_counter *counter, uint64_t amount) {
  uint64_t n = atomic_load(counter);
  while (!atomic_compare_exchange_weak(counter, &n, nxmem_count_add(n, amount))) {
  }
}

void nx_count(nx_counter *counter) { nx_add(counter, 1u); }

uint32_t nx_take_answer(const NxmemStatus *answer, NxmemStatus *taken) {
  const uint32_t code = ((const volatile NxmemStatus *)answer)->code;
  taken->message_len = 0;
  if (code != NXMEM_STATUS_OK) nxmem_status_take(answer, taken);
  taken->code = code;
  return code;
}

nx_host *nx_host_of(uint64_t handle) {
  static nx_host nobody;
  nx_slot *slot = nx_table_find(&nx_hosts, handle);
  if (slot == NULL || !nxmem_same_generation(atomic_load(&slot->word), handle)) return &nobody;
  return (nx_host *)(void *)slot;
}
int nx_host_is_there(uint64_t handle) {
  nx_slot *slot = nx_table_find(&nx_hosts, handle);
  if (slot == NULL) return 0;
  const uint64_t word = atomic_load(&slot->word);
  return nxmem_is_open(word) && nxmem_same_generation(word, handle);
}
nx_module *nx_module_at(uint32_t slot) { return (nx_module *)(void *)nx_table_at(&nx_modules, slot); }

static nxmem_result forked(nxmem_error *error) {
  return nx_fail(error, NXMEM_ERR_FORKED, "this process is a forked child of the one that created the host");
}

/* A handle whose slot is being closed, unloaded or opened is busy, not stale: it may come back. */
static nxmem_result refuse(nxmem_verdict v, const char *kind, nxmem_error *error) {
  const nxmem_presence presence = nxmem_presence_of(v);
  if (presence != NXMEM_PRESENCE_GONE && presence != NXMEM_PRESENCE_KEPT)
    return nx_fail_verdict(error, NXMEM_ERR_BUSY, v, "the %s is being opened, closed or unloaded", kind);
  return nx_fail_verdict(error, NXMEM_ERR_STALE_HANDLE, v, "the %s handle names nothing that is open", kind);
}

static nxmem_result unknown(const char *kind, nxmem_error *error) {
  return nx_fail(error, NXMEM_ERR_STALE_HANDLE, "the %s handle was never issued", kind);
}

nxmem_result nx_host_find(nxmem_host handle, nx_host **out, nxmem_error *error) {
  if (nx_is_forked()) return forked(error);
  nx_slot *slot = nx_table_find(&nx_hosts, handle.id);
  if (slot == NULL) return unknown("host", error);
  const nxmem_verdict v = nxmem_check_claim(atomic_load(&slot->word), handle.id);
  if (v.reason != NXMEM_REASON_NONE) return refuse(v, "host", error);
  *out = (nx_host *)(void *)slot;
  return NXMEM_OK;
}

void nx_plugin_leave(nx_module *module) { atomic_fetch_sub(&module->inside, 1u); /* E4 */ }

nxmem_result nx_plugin_enter(nxmem_plugin handle, nx_module **out, nxmem_error *error) {
  if (nx_is_forked()) return forked(error);
  nx_plugin *plugin = (nx_plugin *)(void *)nx_table_find(&nx_plugins, handle.id);
  if (plugin == NULL) return unknown("plugin", error);
  nxmem_verdict v = nxmem_check_claim(atomic_load(&plugin->slot.word), handle.id);
  if (v.reason != NXMEM_REASON_NONE) return refuse(v, "plugin", error);
  nx_module *module = nx_module_at(atomic_load_explicit(&plugin->module, memory_order_relaxed));
  atomic_fetch_add(&module->inside, 1u);                        /* E1 */
  const uint64_t module_word = atomic_load(&module->slot.word); /* E2 */
  /* The handle is looked at again after the pin: if it is live now, its reference holds this very module. */
  v = nxmem_check_claim(atomic_load(&plugin->slot.word), handle.id);
  if (v.reason == NXMEM_REASON_NONE) v = nxmem_check_live(module_word);
  if (v.reason == NXMEM_REASON_NONE) {
    *out = module;
    return NXMEM_OK;
  }
  nx_plugin_leave(module);
  return refuse(v, "plugin", error);
}

/* 1 where the kernel lets a closer make every thread of the process pass a barrier (Linux 4.14). */
static _Atomic int barrier_works;

static void ask_for_barrier(void) {
  const long answer = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0u, 0);
  atomic_store(&barrier_works, answer == 0);
}

void nx_objects_prepare(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, ask_for_barrier);
}

/* 1 for as long as what was stored plainly before the kernel took its barrier back may not be seen yet. */
static _Atomic int barrier_leaves;

static uint64_t now_ns(void) {
  struct timespec now = {0, 0};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A signal ends a sleep before its time, and what forbids the barrier may forbid sleeping: so the clock is asked, where there is one. */
NX_APART void nx_wait_until_stored(void) {
  const struct timespec long_enough = {0, 1000000};
  const uint64_t begun = now_ns();
  do (void)nanosleep(&long_enough, NULL);
  while (begun != 0 && now_ns() - begun < (uint64_t)long_enough.tv_nsec);
}

/* Refused although it was registered: by a filter that came later. Calls make their own from now on; who comes before they all do waits as well. */
static NX_APART int lose_barrier(void) {
  atomic_store(&barrier_leaves, 1);
  atomic_store(&barrier_works, 0);
  nx_wait_until_stored();
  atomic_store(&barrier_leaves, 0);
  return 0;
}

/* What others did before is seen; what they do after sees what this thread did. 0 where the kernel does not do it any more. */
static int pass_barrier_everywhere(void) {
  if (atomic_load(&barrier_works))
    return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0u, 0) == 0 ? 1 : lose_barrier();
  if (atomic_load(&barrier_leaves)) nx_wait_until_stored();
  return 1;
}

/*
 * Behind a store, before a look. The compiler keeps the order; the closer's barrier makes the processor's the same. Whether there is one is asked behind the store too: a
 * thread that was told so before, and stores when it is no longer true, would make none.
 */
static inline void look_behind(void) {
  atomic_signal_fence(memory_order_seq_cst);
  if (!atomic_load_explicit(&barrier_works, memory_order_relaxed)) atomic_thread_fence(memory_order_seq_cst);
  atomic_signal_fence(memory_order_seq_cst);
}

/*
 * Only this thread writes an exclusive stripe. Where the closer's barrier works, a plain store is enough: a thread either had stored before the barrier, then the closer
 * counts it, or looks at the state after it, then it sees the closer's.
 */
static void count_in_plainly(nx_counter *inside) {
  atomic_store_explicit(inside, atomic_load_explicit(inside, memory_order_relaxed) + 1u, memory_order_relaxed); /* E1 */
  look_behind();
}

static void count_in_one(nx_counter *part, int exclusive) {
  if (exclusive)
    count_in_plainly(part);
  else
    atomic_fetch_add(part, 1u);
}

static void count_in(nx_visit visit) { count_in_one(&visit.stripe->inside, nx_visit_is_exclusive(visit)); }

void nx_visit_end(nx_visit visit) {
  nx_counter *inside = &visit.stripe->inside;
  if (nx_visit_is_exclusive(visit))
    atomic_store_explicit(inside, atomic_load_explicit(inside, memory_order_relaxed) - 1u,
                          memory_order_release); /* E4 */
  else
    atomic_fetch_sub_explicit(inside, 1u, memory_order_release);
}

void nx_allocator_leave(nx_allocator *a) { nx_visit_end(nx_visit_of(a)); }

/* ---- Counts in parts ------------------------------------------------------------------------------------------------ */

void nx_shares_in(nx_share_of_count *shares) {
  const nx_thread *thread = nx_thread_self();
  count_in_one(&shares[thread->stripe].part, thread->stripe != NX_SHARED_STRIPE); /* U1 */
}

void nx_shares_out(nx_share_of_count *shares) {
  const nx_thread *thread = nx_thread_self();
  nx_counter *part = &shares[thread->stripe].part;
  if (thread->stripe == NX_SHARED_STRIPE)
    atomic_fetch_sub(part, 1u);
  else
    atomic_store_explicit(part, atomic_load_explicit(part, memory_order_relaxed) - 1u, memory_order_release); /* U3 */
  look_behind();
}

uint64_t nx_shares_sum(nx_share_of_count *shares) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < NX_STRIPES; i++) sum += atomic_load(&shares[i].part);
  return sum;
}

void nx_look_behind(void) { look_behind(); }

void nx_barrier_everywhere(void) {
  (void)pass_barrier_everywhere(); /* or has waited instead */
  atomic_thread_fence(memory_order_seq_cst);
}

uint64_t nx_allocator_inside(nx_allocator *a) {
  /* K1: where it does not work somebody may be inside, unseen: next time all are seen. */
  uint64_t sum = pass_barrier_everywhere() ? 0u : 1u;
  for (uint32_t i = 0; i < NX_STRIPES; i++) sum += atomic_load(&a->stripes[i].inside);
  return sum; /* K2 */
}

/* Why the allocator may not be entered; STALE_HANDLE where there is no reason any more: it was LIVE again in between. */
static nxmem_result refuse_allocator(nx_allocator *a, nxmem_allocator handle, nxmem_error *error) {
  return refuse(nxmem_check_lost_claim(atomic_load(&a->slot.word), handle.id), "allocator", error);
}

static NX_APART nxmem_result begin_slowly(nxmem_allocator handle, nx_visit *out, nxmem_error *error) {
  if (nx_is_forked()) return forked(error);
  nx_allocator *allocator = nx_allocator_of(handle.id);
  if (allocator == NULL) return unknown("allocator", error);
  if (!nxmem_is_claimable(atomic_load(&allocator->slot.word), handle.id))
    return refuse_allocator(allocator, handle, error);
  *out = nx_visit_of(allocator);
  count_in(*out);
  if (nxmem_is_claimable(atomic_load(&allocator->slot.word), handle.id)) return NXMEM_OK;
  nx_visit_end(*out);
  return refuse_allocator(allocator, handle, error);
}

/* A place of its own for what is found, so that the caller's stays in registers. */
static nxmem_result begin_elsewhere(nxmem_allocator handle, nx_visit *out, nxmem_error *error) {
  nx_visit visit;
  const nxmem_result r = begin_slowly(handle, &visit, error);
  if (r == NXMEM_OK) *out = visit;
  return r;
}

/* The same, where nothing is out of the ordinary: an exclusive stripe, an allocator that is open. */
nxmem_result nx_visit_begin(nxmem_allocator handle, nx_visit *out, nxmem_error *error) {
  nx_thread *thread = nx_thread_current;
  nx_allocator *allocator = nx_allocator_of(handle.id);
  if (thread == NULL || allocator == NULL || thread->stripe == NX_SHARED_STRIPE || nx_is_forked() ||
      !nxmem_is_claimable(atomic_load(&allocator->slot.word), handle.id))
    return begin_elsewhere(handle, out, error);
  const nx_visit visit = {allocator, thread, &allocator->stripes[thread->stripe]};
  count_in_plainly(&visit.stripe->inside);
  *out = visit;
  if (nxmem_is_claimable(atomic_load(&allocator->slot.word), handle.id)) return NXMEM_OK; /* E2 */
  nx_visit_end(visit);
  return begin_elsewhere(handle, out, error);
}

nxmem_result nx_allocator_enter(nxmem_allocator handle, nx_allocator **out, nxmem_error *error) {
  nx_visit visit;
  const nxmem_result r = nx_visit_begin(handle, &visit, error);
  if (r == NXMEM_OK) *out = visit.allocator;
  return r;
}
