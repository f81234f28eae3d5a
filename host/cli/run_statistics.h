/*
 * run_statistics.h: the figures that a plugin exports beside the contract (nxmem/statistics.h), asked for while nxmem run works, as JSON and as a table.
 * Attackers: the plugin: its numbers, and a size larger than the room it was given.
 * Promise: figures are shown and never decide anything; one that was not written is not shown; a plugin without the export is told from one whose figures are 0.
 */
#ifndef NXMEM_CLI_RUN_STATISTICS_H
#define NXMEM_CLI_RUN_STATISTICS_H

#include "nxmem/statistics.h"
#include "run.h"

typedef struct nx_figures {
  nx_session *session;
  uint64_t mechanism_id;
  NxmemDeviceId device;
  NxmemVmmStatisticsFunction ask; /* NULL: none exported */
  uint32_t answer;                /* of the last time it was asked: 0, or a NXMEM_STATUS_... code */
  NxmemVmmStats latest;           /* struct_size: bytes that were written; 0 while nothing is known */
  int has_header;
} nx_figures;

/* Look for the export, and ask once. */
void nx_figures_begin(nx_figures *figures, nx_session *session, uint64_t mechanism_id, NxmemDeviceId device);

/* Ask again; what was there before becomes "before" of the row's "statistics", what is there now "after". Nothing where nothing is exported. */
void nx_figures_set(nx_figures *figures, json_t *row);

/* One line of the table, with its header above the first. Nothing in JSON or where nothing is known. */
void nx_figures_print(nx_figures *figures, const char *label);

/* "exported", "no statistics exported", or what the export answered. */
void nx_figures_set_state(const nx_figures *figures, json_t *row);

/* The first figure that must be 0 and is not, by its key; NULL: none. */
const char *nx_figures_trouble(const nx_figures *figures);

#endif /* NXMEM_CLI_RUN_STATISTICS_H */
