/*
 * scenario.h: a scenario file: which plugins, authorities, mechanisms and limits there are, and what is done with them.
 * Attackers: the file, any bytes; the plugins it names, as everywhere.
 * Promise: what is wrong with the file is said with the key it stands at; nothing of it is done by halves without saying so.
 */
#ifndef NXMEM_CLI_SCENARIO_H
#define NXMEM_CLI_SCENARIO_H

#include <jansson.h>

#include "nxmem_manager.h"
#include "report.h"

enum { NX_SCENARIO_MAX = 32, NX_SCENARIO_TEXT = 512, NX_SCENARIO_BYTES = 16 << 20 };

typedef struct nx_named {
  const char *name; /* the document's */
  nxmem_plugin plugin;
  nxmem_authority authority;
  nxmem_mechanism mechanism;
  nxmem_binding binding;
  nxmem_bound bound;
  nxmem_prepared prepared; /* of an allocation; {0}: none */
  nxmem_release_queue queue;
  uint32_t of; /* a mechanism's authority, an allocation's mechanism */
} nx_named;

typedef struct nx_names {
  nx_named entries[NX_SCENARIO_MAX];
  uint32_t count;
} nx_names;

typedef struct nx_scenario {
  json_t *document;   /* owned */
  const char *folder; /* paths of plugins are relative to it */
  nxmem_host host;
  nxmem_registry registry;
  nxmem_context context;
  nxmem_manager manager;
  nx_names plugins, authorities, mechanisms, allocations, queues;
  char why[1536]; /* what is wrong with the file, or could not be opened */
} nx_scenario;

/* 0; or -1 with `why`. */
int nx_scenario_read(nx_scenario *scenario, const char *path);
int nx_scenario_open(nx_scenario *scenario);

/* Gives the document back; what was opened ends with the process. */
void nx_scenario_free(nx_scenario *scenario);

/* One row for each step, in order: "ok", "refused" with code and numbers, "note" for a refusal that the step expects. -1 with `why`: a step that cannot be read. */
int nx_scenario_run(nx_scenario *scenario, nx_report *report);

/* A row for each tier, authority and mechanism, with figures by axis, and their total; tiers and authorities have a bar. -1 with `why`: no snapshot. */
int nx_scenario_show(nx_scenario *scenario, nx_report *report);

/* The rows from `first` on, and the total, as a table. */
void nx_books_print(FILE *out, const json_t *rows, size_t first, const json_t *total);

/* Shared by those above. */
extern const char *const NX_AXES_KEYS[]; /* of nxmem_axes, in its order; NULL behind them */
nx_named *nx_named_find(nx_names *names, const char *name);
int nx_keys_check(nx_scenario *scenario, json_t *object, const char *where, const char *const *known);
int nx_number_read(nx_scenario *scenario, const json_t *object, const char *key, const char *where, uint64_t *out);
int nx_axes_read(nx_scenario *scenario, json_t *value, const char *where, nxmem_axes *out);
int nx_tier_read(nx_scenario *scenario, const json_t *value, const char *where, uint32_t *out);

#endif /* NXMEM_CLI_SCENARIO_H */
