/*
 * show.c: the books of one moment, as rows.
 * Attackers: none; names of the scenario are escaped.
 * Promise: what is shown is one snapshot, whose totals are the sums of its parts.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "scenario.h"
#include "text.h"
#include "words.h"

enum { BAR = 20 };

static void set_axes(json_t *row, const char *key, const nxmem_axes *axes) {
  json_t *object = json_object();
  if (object == NULL) nx_out_of_memory();
  nx_set_number(object, "charged", axes->charged);
  nx_set_number(object, "physical", axes->physical);
  nx_set_number(object, "mapped", axes->mapped);
  nx_set(row, key, object);
}

static void set_figures(json_t *row, const nxmem_figures *f) {
  set_axes(row, "used", &f->used);
  set_axes(row, "live", &f->live);
  set_axes(row, "quarantined", &f->quarantined);
  nx_set_number(row, "allocations", f->live_count);
  nx_set_number(row, "kept", f->quarantined_count);
}

/* '#' live, 'x' quarantined, '.' free; the whole is the budget, or the slice where there is one. */
static void set_bar(json_t *row, const nxmem_authority_figures *a) {
  const uint64_t whole = a->delegated && a->slice.charged < a->budget.charged ? a->slice.charged : a->budget.charged;
  char bar[BAR + 1];
  if (whole >= NXMEM_TOTAL_MAX || whole == 0) return;
  const double part = (double)BAR / (double)whole;
  const int used = (int)((double)a->figures.used.charged * part + 0.5);
  const int kept = (int)((double)a->figures.quarantined.charged * part + 0.5);
  for (int i = 0; i < BAR; i++) bar[i] = i < used - kept ? '#' : i < used ? 'x' : '.';
  bar[BAR] = '\0';
  nx_set_text(row, "bar", bar);
}

static void set_limit(json_t *row, const char *key, const nxmem_axes *limit) {
  if (limit->charged < NXMEM_TOTAL_MAX || limit->physical < NXMEM_TOTAL_MAX || limit->mapped < NXMEM_TOTAL_MAX)
    set_axes(row, key, limit);
}

static const char *name_of(const nx_names *names, uint64_t authority) {
  for (uint32_t i = 0; i < names->count; i++)
    if (names->entries[i].authority.id == authority) return names->entries[i].name;
  return "?";
}

static json_t *titled(const char *kind, const char *name) {
  char title[128];
  (void)snprintf(title, sizeof title, "%s %s", kind, name);
  return nx_row(title, NX_ROW_OK);
}

static json_t *tier_row(const char *name, const nxmem_tier_figures *tier) {
  json_t *row = titled("tier", name);
  set_limit(row, "limit", &tier->limit);
  set_axes(row, "set-aside", &tier->shares);
  set_figures(row, &tier->figures);
  return row;
}

static json_t *authority_row(const char *name, const nxmem_authority_figures *a) {
  json_t *row = titled("authority", name);
  set_bar(row, a);
  set_limit(row, "budget", &a->budget);
  if (a->delegated) set_axes(row, "slice", &a->slice);
  set_figures(row, &a->figures);
  return row;
}

static json_t *mechanism_row(const nx_named *m, const nxmem_snapshot *now) {
  nxmem_mechanism_state state;
  json_t *row = titled("mechanism", m->name);
  if (nxmem_mechanism_get_state(m->mechanism, &state, NULL) == NXMEM_OK) {
    nx_set_text(row, "lifecycle", nxmem_lifecycle_name(state.lifecycle));
    nx_set_flag(row, "selected", state.selected);
    nx_set_device(row, state.device);
  } else {
    nx_set_text(row, "lifecycle", "removed");
  }
  for (uint32_t i = 0; i < now->mechanism_count && i < now->mechanism_room; i++)
    if (now->mechanisms[i].mechanism.id == m->mechanism.id) set_figures(row, &now->mechanisms[i].figures);
  return row;
}

int nx_scenario_show(nx_scenario *s, nx_report *report) {
  static nxmem_mechanism_figures mechanisms[NX_SCENARIO_MAX];
  static nxmem_snapshot now;
  nxmem_error error;
  now = (nxmem_snapshot){.mechanisms = mechanisms, .mechanism_room = NX_SCENARIO_MAX};
  if (nxmem_manager_snapshot(s->manager, &now, &error) != NXMEM_OK) {
    (void)snprintf(s->why, sizeof s->why, "snapshot: %s", error.message);
    return -1;
  }
  for (uint32_t i = 0; i < NXMEM_MANAGER_TIERS; i++) nx_report_add(report, tier_row(NX_TIER_WORD[i], &now.tiers[i]));
  for (uint32_t i = 0; i < now.authority_count; i++) {
    const nxmem_authority_figures *a = &now.authorities[i];
    nx_report_add(report, authority_row(name_of(&s->authorities, a->authority.id), a));
  }
  for (uint32_t i = 0; i < s->mechanisms.count; i++)
    nx_report_add(report, mechanism_row(&s->mechanisms.entries[i], &now));
  nx_set_number(report->root, "refusals", now.refusals);
  nx_set_number(report->root, "bugs", now.bugs);
  return 0;
}
