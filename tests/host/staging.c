/*
 * staging.c: holding a thread inside the plugin until the test lets it go.
 *
 * Attackers: none.
 * Promise: one thread is held once; others pass.
 */
#include "staging.h"

static sem_t arrived, go;
static _Atomic int held_place;

static void stop_here(nx_place_inside place) {
  int wanted = (int)place;
  if (!atomic_compare_exchange_strong(&held_place, &wanted, -1)) return;
  sem_post(&arrived);
  sem_wait(&go);
}

void nx_hold_at(nx_place_inside place) {
  sem_init(&arrived, 0, 0);
  sem_init(&go, 0, 0);
  atomic_store(&held_place, (int)place);
  puppet.inside = stop_here;
}

void nx_hold_wait(void) { sem_wait(&arrived); }
void nx_hold_let_go(void) { sem_post(&go); }

static void *run_call(void *argument) {
  nx_call *call = argument;
  call->run(call);
  return NULL;
}

void nx_call_start(nx_call *call) {
  if (pthread_create(&call->thread, NULL, run_call, call) != 0) fail_msg("no thread");
}

nxmem_result nx_call_join(nx_call *call) {
  pthread_join(call->thread, NULL);
  return call->result;
}

void nx_call_allocate(nx_call *call) {
  call->result = nxmem_allocate(call->stage->allocator, 64, 8, NULL, &call->allocation, NULL);
}
void nx_call_release(nx_call *call) {
  call->result = nxmem_release(call->stage->allocator, call->allocation, NULL, NULL);
}
void nx_call_close(nx_call *call) { call->result = nxmem_allocator_close(call->stage->allocator, 0, NULL); }
void nx_call_open_allocator(nx_call *call) {
  const nxmem_open_options options = {.mechanism = "puppet"};
  call->result = nxmem_allocator_open(call->stage->plugin, &options, &call->allocator, NULL);
}
void nx_call_unload(nx_call *call) { call->result = nxmem_plugin_try_unload(call->stage->plugin, NULL, NULL); }
void nx_call_open_plugin(nx_call *call) {
  call->result = nxmem_plugin_open(call->stage->host, call->path, &call->plugin, NULL);
}
