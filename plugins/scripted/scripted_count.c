/*
 * scripted_count.c: the counters of a scripted module, mirrored into an array of the test's.
 *
 * Attackers: none.
 * Promise: no count is lost between threads; the mirror receives every change from its registration on.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdatomic.h>
#include <stdlib.h>

#include "scripted_base.h"

static _Atomic uint64_t counters[NX_PROBE_COUNT];
static _Atomic uint64_t *_Atomic mirror;

static void change(nx_probe what, uint64_t delta) {
  atomic_fetch_add(&counters[what], delta);
  _Atomic uint64_t *seen = atomic_load(&mirror);
  if (seen != NULL) atomic_fetch_add(&seen[what], delta);
}

void nx_count(nx_probe what) { change(what, 1u); }
void nx_uncount(nx_probe what) { change(what, UINT64_MAX); }

void nx_note(nx_probe what, uint64_t value) {
  atomic_store(&counters[what], value);
  _Atomic uint64_t *seen = atomic_load(&mirror);
  if (seen != NULL) atomic_store(&seen[what], value);
}

NX_EXPORT uint64_t nxmem_scripted_probe(uint32_t what) {
  return what < NX_PROBE_COUNT ? atomic_load(&counters[what]) : 0u;
}

NX_EXPORT void nxmem_scripted_observe(uint64_t *observed) {
  _Atomic uint64_t *seen = (_Atomic uint64_t *)observed;
  for (uint32_t i = 0u; seen != NULL && i < NX_PROBE_COUNT; i++) atomic_store(&seen[i], atomic_load(&counters[i]));
  atomic_store(&mirror, seen);
}

__attribute__((constructor)) static void observe_from_environment(void) {
  const char *text = getenv(NXMEM_SCRIPTED_OBSERVE_ENV);
  if (text != NULL) nxmem_scripted_observe((uint64_t *)(uintptr_t)strtoull(text, NULL, 16));
}
