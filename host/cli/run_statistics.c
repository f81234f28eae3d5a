/*
 * run_statistics.c: a plugin's own figures: found by name, asked for, shown.
 * Attackers: the plugin: its numbers, and a size larger than the room it was given.
 * Promise: nothing that was not written is shown, and nothing is decided by what is.
 */
#include "run_statistics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "crash.h"
#include "text.h"

/* A column of the table, or in JSON alone where it has no heading. */
typedef struct figure {
  const char *key;
  size_t offset;
  const char *heading;
  int width;
  int is_size;
  int must_be_zero;
} figure;

#define AT(field) offsetof(NxmemVmmStats, field)
static const figure FIGURES[] = {
    {"reserved_bytes", AT(reserved_bytes), "reserved", 14, 1, 0},
    {"committed_bytes", AT(committed_bytes), "committed", 11, 1, 0},
    {"peak_committed_bytes", AT(peak_committed_bytes), "peak", 11, 1, 0},
    {"granule_bytes", AT(granule_bytes), "granule", 9, 1, 0},
    {"granules_mapped", AT(granules_mapped), "mapped", 8, 0, 0},
    {"pool_bytes", AT(pool_bytes), "pool", 10, 1, 0},
    {"quarantined_bytes", AT(quarantined_bytes), "quarantined", 13, 1, 1},
    {"quarantined_spans", AT(quarantined_spans), NULL, 0, 0, 1},
    {"poisoned_granules", AT(poisoned_granules), "poisoned", 10, 0, 1},
    {"refcount_underflows", AT(refcount_underflows), NULL, 0, 0, 1},
    {"bind_failures", AT(bind_failures), NULL, 0, 0, 1},
    {"maps", AT(maps), "maps", 8, 0, 0},
    {"unmaps", AT(unmaps), "unmaps", 8, 0, 0},
    {"device_lost", AT(device_lost), NULL, 0, 0, 1},
};
enum { FIGURE_COUNT = sizeof FIGURES / sizeof FIGURES[0] };

/* ---- Ask --------------------------------------------------------------------------------------------------------- */

/* A size beyond the room counts as all of it: only figures that this command knows are looked at. */
static void ask(nx_figures *f) {
  if (!f->ask) return;
  NxmemVmmStats stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  f->answer = f->ask(f->mechanism_id, f->device.tier, f->device.index, &stats);
  if (f->answer != NXMEM_STATUS_OK) stats.struct_size = 0;
  f->latest = stats;
}

void nx_figures_begin(nx_figures *f, nx_session *session, uint64_t mechanism_id, NxmemDeviceId device) {
  *f = (nx_figures){.session = session, .mechanism_id = mechanism_id, .device = device};
  void *address = NULL;
  nx_crash_entering("statistics", NULL);
  if (nxmem_plugin_symbol(session->plugin, NXMEM_STATISTICS_EXPORT, &address, NULL) != NXMEM_OK) return;
  memcpy(&f->ask, &address, sizeof address);
  ask(f);
}

static int is_written(const NxmemVmmStats *stats, const figure *one) {
  return one->offset + sizeof(uint64_t) <= stats->struct_size;
}

static uint64_t value_of(const NxmemVmmStats *stats, const figure *one) {
  uint64_t value;
  memcpy(&value, (const char *)stats + one->offset, sizeof value);
  return value;
}

const char *nx_figures_trouble(const nx_figures *f) {
  for (int i = 0; i < FIGURE_COUNT; i++) {
    const figure *one = &FIGURES[i];
    if (one->must_be_zero && is_written(&f->latest, one) && value_of(&f->latest, one)) return one->key;
  }
  return NULL;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *object_of(const NxmemVmmStats *stats) {
  json_t *object = json_object();
  if (!object) nx_out_of_memory();
  for (int i = 0; i < FIGURE_COUNT; i++) {
    if (is_written(stats, &FIGURES[i])) nx_set_number(object, FIGURES[i].key, value_of(stats, &FIGURES[i]));
  }
  return object;
}

void nx_figures_set(nx_figures *f, json_t *row) {
  if (!f->ask) return;
  json_t *both = json_object();
  if (!both) nx_out_of_memory();
  nx_set(both, "before", object_of(&f->latest));
  ask(f);
  nx_set(both, "after", object_of(&f->latest));
  nx_set(row, "statistics", both);
}

void nx_figures_set_state(const nx_figures *f, json_t *row) {
  char state[80];
  snprintf(state, sizeof state, "%s%s", f->ask ? "exported" : "no statistics exported",
           f->ask && f->answer != NXMEM_STATUS_OK ? ", refused with " : "");
  if (f->ask && f->answer != NXMEM_STATUS_OK) {
    const size_t used = strlen(state);
    snprintf(state + used, sizeof state - used, "%s", nxmem_status_name(f->answer));
  }
  nx_set_text(row, "figures", state);
}

/* ---- Table ------------------------------------------------------------------------------------------------------- */

/* Exact: in the largest unit that divides it. */
static void size_word(uint64_t bytes, char out[32]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (unit + 1 < sizeof units / sizeof units[0] && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    unit++;
  }
  snprintf(out, 32, bytes ? "%" PRIu64 " %s" : "0", bytes, units[unit]);
}

enum { LABEL_WIDTH = 16 };

static void print_header(nx_figures *f, FILE *out) {
  if (f->has_header++) return;
  fprintf(out, "%*s", LABEL_WIDTH, "statistics");
  for (int i = 0; i < FIGURE_COUNT; i++) {
    if (FIGURES[i].heading) fprintf(out, "%*s", FIGURES[i].width, FIGURES[i].heading);
  }
  fputc('\n', out);
}

static void print_figure(FILE *out, const NxmemVmmStats *stats, const figure *one) {
  char word[32] = "-";
  if (!one->heading) return;
  if (is_written(stats, one) && one->is_size) size_word(value_of(stats, one), word);
  if (is_written(stats, one) && !one->is_size) snprintf(word, sizeof word, "%" PRIu64, value_of(stats, one));
  fprintf(out, "%*s", one->width, word);
}

void nx_figures_print(nx_figures *f, const char *label) {
  FILE *out = f->session->report.out;
  if (f->session->report.as_json || f->latest.struct_size == 0) return;
  print_header(f, out);
  fprintf(out, "%*s", LABEL_WIDTH, label);
  for (int i = 0; i < FIGURE_COUNT; i++) print_figure(out, &f->latest, &FIGURES[i]);
  fputc('\n', out);
  fflush(out);
}
