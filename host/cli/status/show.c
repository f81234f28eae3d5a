/*
 * show.c: the books of one moment, as rows, and as a table of them.
 * Attackers: none; names of the scenario are escaped.
 * Promise: what is shown is one snapshot, whose totals are the sums of its parts.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "nxmem/quota.h"
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

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static nxmem_axes least_of(nxmem_axes a, const nxmem_axes *b) {
  return (nxmem_axes){least(a.charged, b->charged), least(a.physical, b->physical), least(a.mapped, b->mapped)};
}

/* '#' live, 'x' quarantined, '.' free of the whole. */
static void bar_of(uint64_t whole, uint64_t used, uint64_t kept, char bar[BAR + 1]) {
  if (whole >= NXMEM_TOTAL_MAX || whole == 0) {
    (void)snprintf(bar, BAR + 1, whole == 0 ? "limit 0" : "no limit");
    return;
  }
  const double part = (double)BAR / (double)whole;
  const int filled = (int)((double)least(used, whole) * part + 0.5);
  const int crossed = (int)((double)least(kept, whole) * part + 0.5);
  for (int i = 0; i < BAR; i++) bar[i] = i < filled - crossed ? '#' : i < filled ? 'x' : '.';
  bar[BAR] = '\0';
}

/* Of the least limit that holds, on each axis; "bar" is the charged one's. */
static void set_bars(json_t *row, const nxmem_axes *whole, const nxmem_figures *f) {
  char bar[BAR + 1];
  json_t *bars = json_object();
  if (bars == NULL) nx_out_of_memory();
  bar_of(whole->charged, f->used.charged, f->quarantined.charged, bar);
  nx_set_text(row, "bar", bar);
  nx_set_text(bars, "charged", bar);
  bar_of(whole->physical, f->used.physical, f->quarantined.physical, bar);
  nx_set_text(bars, "physical", bar);
  bar_of(whole->mapped, f->used.mapped, f->quarantined.mapped, bar);
  nx_set_text(bars, "mapped", bar);
  nx_set(row, "bars", bars);
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

/* What the authorities of a tier have together. */
typedef struct gathered {
  nxmem_axes slices, ahead;
} gathered;

static gathered gather(const nxmem_snapshot *now, uint32_t tier) {
  gathered sum = {{0, 0, 0}, {0, 0, 0}};
  for (uint32_t i = 0; i < now->authority_count; i++) {
    const nxmem_authority_figures *a = &now->authorities[i];
    if (a->tier != tier) continue;
    nxmem_axes_adopt(&sum.slices, &a->slice);
    nxmem_axes_adopt(&sum.ahead, &a->ahead);
  }
  return sum;
}

static json_t *tier_row(const nxmem_snapshot *now, uint32_t which) {
  const nxmem_tier_figures *tier = &now->tiers[which];
  const gathered sum = gather(now, which);
  json_t *row = titled("tier", NX_TIER_WORD[which]);
  set_bars(row, &tier->limit, &tier->figures);
  set_limit(row, "limit", &tier->limit);
  set_axes(row, "set-aside", &sum.slices);
  set_axes(row, "drawn-ahead", &sum.ahead);
  set_axes(row, "shares", &tier->shares);
  set_figures(row, &tier->figures);
  return row;
}

static json_t *authority_row(const char *name, const nxmem_snapshot *now, const nxmem_authority_figures *a) {
  json_t *row = titled("authority", name);
  nxmem_axes whole = least_of(a->budget, &now->tiers[a->tier].limit);
  if (a->delegated) whole = least_of(whole, &a->slice);
  set_bars(row, &whole, &a->figures);
  set_limit(row, "budget", &a->budget);
  if (a->delegated) set_axes(row, "slice", &a->slice);
  set_axes(row, "drawn-ahead", &a->ahead);
  set_figures(row, &a->figures);
  return row;
}

/* NULL: nothing was ever granted through it, or it is gone. */
static const nxmem_figures *figures_of(const nx_named *m, const nxmem_snapshot *now) {
  for (uint32_t i = 0; i < now->mechanism_count && i < now->mechanism_room; i++)
    if (now->mechanisms[i].mechanism.id == m->mechanism.id) return &now->mechanisms[i].figures;
  return NULL;
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
  const nxmem_figures *figures = figures_of(m, now);
  if (figures != NULL) set_figures(row, figures);
  return row;
}

/* Of all tiers; in the document beside the rows. */
static json_t *total_of(const nxmem_snapshot *now) {
  json_t *row = nx_row("total", NX_ROW_OK);
  gathered all = {{0, 0, 0}, {0, 0, 0}};
  for (uint32_t i = 0; i < NXMEM_MANAGER_TIERS; i++) {
    const gathered sum = gather(now, i);
    nxmem_axes_adopt(&all.slices, &sum.slices);
    nxmem_axes_adopt(&all.ahead, &sum.ahead);
  }
  set_axes(row, "set-aside", &all.slices);
  set_axes(row, "drawn-ahead", &all.ahead);
  set_figures(row, &now->total);
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
  const size_t first = json_array_size(report->rows);
  for (uint32_t i = 0; i < NXMEM_MANAGER_TIERS; i++) nx_report_keep(report, tier_row(&now, i));
  for (uint32_t i = 0; i < now.authority_count; i++) {
    const nxmem_authority_figures *a = &now.authorities[i];
    nx_report_keep(report, authority_row(name_of(&s->authorities, a->authority.id), &now, a));
  }
  for (uint32_t i = 0; i < s->mechanisms.count; i++)
    nx_report_keep(report, mechanism_row(&s->mechanisms.entries[i], &now));
  nx_set(report->root, "total", total_of(&now));
  if (!report->as_json) nx_books_print(report->out, report->rows, first, json_object_get(report->root, "total"));
  nx_set_number(report->root, "refusals", now.refusals);
  nx_set_number(report->root, "bugs", now.bugs);
  return 0;
}
