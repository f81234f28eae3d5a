/*
 * gate.c: what all engines on one device share: its capture gate, and whether it is lost.
 *
 * Attackers: a program that captures a graph while other threads commit and release; one that leaves more often than it entered.
 * Promise: while the gate is held no call that synchronises the device is made; a section that is open is never made to wait; a device is lost once.
 */
#include "gate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "nxmem_memory_abi.h"

struct nx_gate {
  struct nx_gate *next;
  uint32_t tier, index;
  uint64_t references; /* engines, and captures that hold it or wait */
  uint64_t captures;   /* that hold it or wait */
  uint64_t held;       /* of these: that hold it */
  uint64_t sections;   /* open now */
  atomic_int lost;
};

/* One lock for all gates, a leaf: held for a few instructions, never across a driver's call. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t section_closed = PTHREAD_COND_INITIALIZER;
static nx_gate *gates;

static nx_gate *find_locked(uint32_t tier, uint32_t index) {
  for (nx_gate *gate = gates; gate != NULL; gate = gate->next)
    if (gate->tier == tier && gate->index == index) return gate;
  return NULL;
}

static nx_gate *take_locked(uint32_t tier, uint32_t index) {
  nx_gate *gate = find_locked(tier, index);
  if (gate == NULL) {
    gate = calloc(1u, sizeof *gate);
    if (gate == NULL) return NULL;
    gate->tier = tier;
    gate->index = index;
    gate->next = gates;
    gates = gate;
  }
  gate->references++;
  return gate;
}

static void drop_locked(nx_gate *gate) {
  if (--gate->references != 0u) return;
  nx_gate **link = &gates;
  while (*link != gate) link = &(*link)->next;
  *link = gate->next;
  free(gate);
}

nx_gate *nx_gate_take(uint32_t tier, uint32_t index) {
  pthread_mutex_lock(&lock);
  nx_gate *gate = take_locked(tier, index);
  pthread_mutex_unlock(&lock);
  return gate;
}

void nx_gate_drop(nx_gate *gate) {
  pthread_mutex_lock(&lock);
  drop_locked(gate);
  pthread_mutex_unlock(&lock);
}

int nx_gate_open_section(nx_gate *gate) {
  pthread_mutex_lock(&lock);
  const int open = gate->captures == 0u;
  if (open) gate->sections++;
  pthread_mutex_unlock(&lock);
  return open;
}

void nx_gate_close_section(nx_gate *gate) {
  pthread_mutex_lock(&lock);
  gate->sections--;
  if (gate->sections == 0u && gate->captures != 0u) pthread_cond_broadcast(&section_closed);
  pthread_mutex_unlock(&lock);
}

uint64_t nx_gate_captures(const nx_gate *gate) {
  pthread_mutex_lock(&lock);
  const uint64_t captures = gate->captures;
  pthread_mutex_unlock(&lock);
  return captures;
}

int nx_gate_lose(nx_gate *gate) { return atomic_exchange(&gate->lost, 1) == 0; }
int nx_gate_is_lost(const nx_gate *gate) { return atomic_load_explicit(&gate->lost, memory_order_relaxed); }

int nx_gate_lost_on(uint32_t tier, uint32_t index) {
  pthread_mutex_lock(&lock);
  const nx_gate *gate = find_locked(tier, index);
  const int lost = gate != NULL && nx_gate_is_lost(gate);
  pthread_mutex_unlock(&lock);
  return lost;
}

/* Counted before it waits: no new section opens meanwhile, so it waits for those that are open and for no others. */
uint32_t nx_vmm_gate_enter(uint32_t tier, uint32_t index) {
  pthread_mutex_lock(&lock);
  nx_gate *gate = take_locked(tier, index);
  if (gate != NULL) {
    gate->captures++;
    while (gate->sections != 0u) pthread_cond_wait(&section_closed, &lock);
    gate->held++;
  }
  pthread_mutex_unlock(&lock);
  return gate == NULL ? NXMEM_STATUS_OUT_OF_MEMORY : NXMEM_STATUS_OK;
}

/* Only what was entered: whoever waits still is not let down, and its gate not forgotten under it. */
uint32_t nx_vmm_gate_leave(uint32_t tier, uint32_t index) {
  pthread_mutex_lock(&lock);
  nx_gate *gate = find_locked(tier, index);
  const int held = gate != NULL && gate->held != 0u;
  if (held) {
    gate->held--;
    gate->captures--;
    drop_locked(gate);
  }
  pthread_mutex_unlock(&lock);
  return held ? NXMEM_STATUS_OK : NXMEM_STATUS_INVALID_ARGUMENT;
}
