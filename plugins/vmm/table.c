/*
 * table.c: the granules of an arena, and runs of them.
 *
 * Attackers: none; arenas of which next to nothing is used.
 * Promise: memory is used for the granules that were used, not for those that were reserved.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "engine.h"

/* Untouched pages of such a mapping are zero and cost nothing: all zero is a free granule. */
int nx_table_open(nx_table *table, uint64_t count) {
  const uint64_t each = sizeof *table->granules + sizeof *table->handles;
  *table = (nx_table){0};
  if (count > SIZE_MAX / each) return 0;
  const size_t bytes = (size_t)(count * each);
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return 0;
  table->granules = at;
  table->handles = (uint64_t *)(void *)(table->granules + count);
  table->count = count;
  table->bytes = bytes;
  return 1;
}

void nx_table_close(nx_table *table) {
  if (table->granules != NULL) munmap(table->granules, table->bytes);
  table->granules = NULL;
}

static int make_room(nx_runs *runs) {
  if (runs->count < runs->room) return 1;
  const uint64_t room = runs->room == 0u ? 16u : runs->room * 2u;
  nx_run *wider = realloc(runs->items, room * sizeof *wider);
  if (wider == NULL) return 0;
  runs->items = wider;
  runs->room = room;
  return 1;
}

int nx_runs_find(nx_runs *runs, const nx_table *table, nx_run span, uint32_t kind) {
  nx_run run;
  runs->count = 0u;
  for (uint64_t at = 0u; nxmem_granules_next_run(table->granules + span.first, span.count, at, kind, &run);
       at = run.first + run.count) {
    if (!make_room(runs)) return 0;
    runs->items[runs->count++] = (nx_run){span.first + run.first, run.count};
  }
  return 1;
}
