/*
 * registrytest.h: what the registry's tests share: a puppet plugin, a registry with a context and an authority, steps that must succeed.
 *
 * Attackers: none; the tests play them.
 * Promise: when a stage is struck everything has gone the way the contract says, and the plugin was released as often as it was opened.
 */
#ifndef TESTS_REGISTRY_REGISTRYTEST_H
#define TESTS_REGISTRY_REGISTRYTEST_H

#include "nxmem_registry.h"
#include "puppet.h"

/* Run a call that takes an error last; fail the case with its message where it is refused. */
#define MUST(call)                                                    \
  do {                                                                \
    nxmem_error error = nx_blank_error();                             \
    if ((call) != NXMEM_OK) fail_msg("%s: %s", #call, error.message); \
  } while (0)

/* Run a call and see this code, with a line that can be shown. */
#define REFUSED(call, code)               \
  do {                                    \
    nxmem_error error = nx_blank_error(); \
    nx_assert_code((call), &error, code); \
  } while (0)

typedef struct nx_play {
  nxmem_host host;
  nxmem_plugin plugin;
  const char *path;
  nxmem_registry registry;
  nxmem_context context;
  nxmem_authority authority;
} nx_play;

extern const NxmemDeviceId nx_device_0;

/* An honest puppet, loaded, and an empty registry. */
nx_play nx_play_set(void);

/* The same with a second mechanism, "puppet-1", on device 1; puppet.table.device says which device is opened next. */
extern const NxmemDeviceId nx_device_1;
nx_play nx_play_set_two(void);

/* Take all of it down; nothing may be left. */
void nx_play_strike(nx_play *play);

/* The same, where the plugin was never told of a loss: what it still counts as live is taken back from it first. */
void nx_play_strike_lost(nx_play *play);

/* Register one more opening of the puppet's mechanism. */
nxmem_mechanism nx_play_register(const nx_play *play);

nxmem_binding nx_must_bind(nxmem_mechanism mechanism);
nxmem_bound nx_must_allocate_bound(nxmem_binding binding, uint64_t bytes);
nxmem_prepared nx_must_prepare(const nxmem_bound *bound);
nxmem_mechanism_state nx_state_of(nxmem_mechanism mechanism);

/* The mechanism selected on device 0, or {0}. */
nxmem_mechanism nx_selected(const nx_play *play);

void nx_assert_selected(const nx_play *play, nxmem_mechanism want);

/* One allocation is kept of that mechanism, for this reason; returns it. */
nxmem_kept nx_assert_kept(nxmem_mechanism mechanism, nxmem_keeping reason, const nxmem_bound *bound);

/* Retire where it is not, and remove. */
void nx_must_go(nxmem_mechanism mechanism);

/* Lose where it is not, confirm, and remove. */
void nx_must_bury(nxmem_mechanism mechanism);

/* Remove it, in whatever way its lifecycle asks for. */
void nx_put_away(nxmem_mechanism mechanism);

/* Every call that the plugin got but the unload query. */
uint64_t nx_entries(void);

#endif /* TESTS_REGISTRY_REGISTRYTEST_H */
