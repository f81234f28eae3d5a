/*
 * plugin.h: drive a plugin directly, as a host of its own would, without the host library.
 *
 * Attackers played: by the rows that include this.
 * Promise: nothing stands between a row and the plugin; every helper that says "must succeed" asserts it.
 */
#ifndef NXMEM_TESTS_PLUGIN_H
#define NXMEM_TESTS_PLUGIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* cmocka needs the four above first */
#include <cmocka.h>

#include "nxmem_memory_abi.h"
#include "scripted_probe.h"

/* A plugin under test: a file of NXMEM_PLUGIN_DIR and one of its mechanisms. */
typedef struct subject {
  const char *file;
  const char *mechanism;
  uint64_t capability_flags; /* of the mechanism */
  uint64_t offered;          /* by the module */
} subject;

/* The two honest ones: what either must do, both must do. */
extern const subject honest[2];

typedef struct plugin {
  void *module;
  NxmemStatus (*negotiate)(const NxmemNegotiateRequest *request, NxmemNegotiateResponse *response);
  NxmemStatus (*factories)(const NxmemAllocatorFactoryVtable **out, uint64_t max, uint64_t *count);
  NxmemStatus (*unload)(NxmemUnloadReport *report);
  nx_probe_function probe; /* NULL where the module has none */
  const NxmemAllocatorFactoryVtable *list[64];
  uint64_t listed;
  const NxmemAllocatorFactoryVtable *factory; /* of the mechanism asked for; NULL: none asked for, or not listed */
} plugin;

/* Load a file of NXMEM_PLUGIN_DIR, or of any other path; resolve what it exports. */
void plugin_load(plugin *p, const char *file);
void plugin_load_from(plugin *p, const char *path);

/* Enumerate and find a mechanism. */
void plugin_find(plugin *p, const char *mechanism);

/* Mirror a scripted module's counters into an array of NX_PROBE_COUNT, now or from the next load on (NULL: no more). */
void plugin_observe(const plugin *p, uint64_t *counters);
void plugin_observe_from_start(uint64_t *counters);

/* Release every listed factory and unload. */
void plugin_close(plugin *p);

/* Leave the module loaded for good. */
void plugin_keep(void);

/* Open the found mechanism, which must succeed. */
const NxmemAllocatorVtable *plugin_open(const plugin *p);

NxmemOpenRequest open_request(const plugin *p);
NxmemAllocRequest alloc_request(const NxmemAllocatorVtable *table, uint64_t id, uint64_t bytes, uint64_t align);
NxmemAllocResult alloc_result(void);
NxmemAllocation allocation_of(const NxmemAllocRequest *request, const NxmemAllocResult *result);
NxmemUnloadReport report_of(const plugin *p);

/* Allocate, which must succeed. */
NxmemAllocation take(const NxmemAllocatorVtable *table, uint64_t id, uint64_t bytes, uint64_t align);

/* Deallocate, which must succeed; the bytes it says it unmapped. */
uint64_t give_back(const NxmemAllocatorVtable *table, const NxmemAllocation *allocation);

/* The code, and that the message is whole: true length, zeros to the end, some text with every refusal. */
void assert_status(NxmemStatus status, uint32_t code);

/* How many of the first `want` bytes at an address can be read. */
size_t readable(const void *address, size_t want);

/* 1 where a byte may be written; it is written with what it holds. */
int writable(void *address);

/*
 * Run it in a child, which exits with 42 where it returns; the wait status. The child is killed (SIGALRM) behind
 * `seconds`, dies of its signals as a process without any handler does, and leaves no core.
 */
enum { RETURNED = 42 };
int in_child(void (*body)(const void *argument), const void *argument, unsigned seconds);

/* Live allocators and allocations as the module reports them, and nothing else. */
void assert_books(const plugin *p, uint64_t allocators, uint64_t allocations);

/*
 * Add rows: each becomes one cmocka case per honest subject. `rows` is an array of records that begin with their name;
 * `run` gets one of them. add_case adds one that is about a single subject.
 */
typedef void (*row_function)(const subject *s, const void *row);
void add_rows(const char *group, const void *rows, size_t count, size_t size, row_function run);
void add_case(const subject *s, const char *group, const void *row, row_function run);

/* Run what was added; what main returns. */
int run_added(const char *name);

#endif /* NXMEM_TESTS_PLUGIN_H */
