/*
 * managertest.h: what the manager's tests share: a puppet's mechanisms registered under authorities that a manager keeps the books of.
 *
 * Attackers: the rows; the puppet plays the plugin.
 * Promise: each scene ends with books that are empty, without a bug counted, and with nothing of the plugin mapped.
 */
#ifndef TESTS_MANAGER_MANAGERTEST_H
#define TESTS_MANAGER_MANAGERTEST_H

#include "hosttest.h"
#include "nxmem_manager.h"
#include "puppet.h"

enum { NX_TEST_MECHANISMS = 4, NX_TEST_BOOKS = 64 /* mechanisms in the books, also ones that are gone */ };

typedef struct nx_scene {
  nxmem_host host;
  nxmem_plugin plugin;
  const char *path;
  nxmem_registry registry;
  nxmem_context context;
  nxmem_manager manager;
  uint32_t count; /* mechanisms, device host:0, host:1, ... */
  nxmem_authority authorities[NX_TEST_MECHANISMS];
  nxmem_mechanism mechanisms[NX_TEST_MECHANISMS];
  nxmem_binding bindings[NX_TEST_MECHANISMS];
  int module_stays; /* mapped for good: the plugin has something that no record is of */
} nx_scene;

/* `count` mechanisms, each under an authority of its own (shared 1: all under the first), all on the tier of host memory; no limits. */
nx_scene nx_scene_of(uint32_t count, int shared);

/* One mechanism with virtual backing (puppet_backing.h). */
nx_scene nx_scene_lazy(void);

/* Everything back: nothing may be live. */
void nx_scene_end(nx_scene *scene);

/* The same where some is quarantined: the devices are lost and terminated first. */
void nx_scene_end_lost(nx_scene *scene);

/* 64 bytes aligned to 8, with this reservation, through mechanism i. */
nxmem_request nx_request(const nx_scene *scene, uint32_t i, uint64_t charged, uint64_t physical, uint64_t mapped);

nxmem_bound nx_must_grant(const nx_scene *scene, const nxmem_request *request, uint64_t *charge_out);
void nx_must_give_back(const nxmem_bound *bound);

void nx_must_limit(const nx_scene *scene, nxmem_axes limit);
void nx_must_budget(const nx_scene *scene, uint32_t i, nxmem_axes budget);

/* The books of one moment; every total is compared with the sum of its parts, and no bug may be counted. */
nxmem_snapshot nx_books_now(const nx_scene *scene);

void nx_assert_axes(nxmem_axes got, nxmem_axes want);

/* What is used in all. */
void nx_assert_used(const nx_scene *scene, nxmem_axes want);

#define AXES(charged, physical, mapped) ((nxmem_axes){charged, physical, mapped})

#endif /* TESTS_MANAGER_MANAGERTEST_H */
