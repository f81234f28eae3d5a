/*
 * steps.c: doing what a scenario says, step by step.
 * Attackers: the file; the plugins it names.
 * Promise: each step is a row with what came of it; a refusal that the step expects by its name is a note.
 */
#include <string.h>

#include "scenario.h"
#include "words.h"

/* What a step works on; NULL what it does not name. */
typedef struct step {
  nx_scenario *scenario;
  json_t *value;
  const char *name; /* of the allocation */
  nx_named *mechanism, *authority, *allocation;
  uint64_t bytes, align; /* of an allocation */
  nxmem_axes reserve;    /* for it */
  nxmem_axes axes;
  uint32_t tier;
} step;

static nxmem_result missing(nxmem_error *error, const char *what) {
  *error = (nxmem_error){.result = NXMEM_ERR_INVALID_ARGUMENT};
  (void)snprintf(error->message, sizeof error->message, "the step needs %s", what);
  return error->result;
}

static nxmem_result allocate(step *t, nxmem_error *error) {
  nx_names *all = &t->scenario->allocations;
  if (t->mechanism == NULL || t->name == NULL) return missing(error, "a mechanism and a name for the allocation");
  if (t->allocation != NULL || all->count == NX_SCENARIO_MAX)
    return missing(error, "a name of its own; at most 32 are kept");
  nx_named *entry = &all->entries[all->count];
  nxmem_request request = {.authority = t->scenario->authorities.entries[t->mechanism->of].authority,
                           .binding = t->mechanism->binding,
                           .bytes = t->bytes,
                           .align = t->align,
                           .reserve = t->reserve};
  *entry = (nx_named){.name = t->name};
  const nxmem_result r = nxmem_manager_allocate(t->scenario->manager, &request, &entry->bound, NULL, NULL, error);
  if (r == NXMEM_OK) all->count++;
  return r;
}

static nxmem_result release(step *t, nxmem_error *error) {
  return t->allocation == NULL ? missing(error, "the name of an allocation")
                               : nxmem_bound_release(&t->allocation->bound, error);
}

static nxmem_result abandon(step *t, nxmem_error *error) {
  nxmem_prepared prepared;
  if (t->allocation == NULL) return missing(error, "the name of an allocation");
  const nxmem_result r = nxmem_bound_prepare(&t->allocation->bound, &prepared, error);
  return r == NXMEM_OK ? nxmem_prepared_abandon(prepared, error) : r;
}

static nxmem_result on_mechanism(step *t, nxmem_error *error, nxmem_result (*act)(nxmem_mechanism, nxmem_error *)) {
  return t->mechanism == NULL ? missing(error, "a mechanism") : act(t->mechanism->mechanism, error);
}
static nxmem_result retire(step *t, nxmem_error *error) { return on_mechanism(t, error, nxmem_mechanism_retire); }
static nxmem_result select_it(step *t, nxmem_error *error) { return on_mechanism(t, error, nxmem_mechanism_select); }
static nxmem_result confirm(step *t, nxmem_error *error) {
  return on_mechanism(t, error, nxmem_mechanism_confirm_terminated);
}
static nxmem_result lose(step *t, nxmem_error *error) {
  return t->mechanism == NULL ? missing(error, "a mechanism")
                              : nxmem_mechanism_lose(t->mechanism->mechanism, NULL, error);
}

/* Its binding goes first, where it is still there. */
static nxmem_result remove_it(step *t, nxmem_error *error) {
  if (t->mechanism == NULL) return missing(error, "a mechanism");
  const nxmem_result r = nxmem_binding_end(t->mechanism->binding, 0, error);
  if (r != NXMEM_OK && r != NXMEM_ERR_STALE_HANDLE) return r;
  return nxmem_mechanism_remove(t->mechanism->mechanism, NULL, error);
}

static nxmem_result limit(step *t, nxmem_error *error) {
  return nxmem_manager_set_limit(t->scenario->manager, t->tier, &t->axes, NULL, error);
}
static nxmem_result budget(step *t, nxmem_error *error) {
  if (t->authority == NULL) return missing(error, "an authority");
  return nxmem_manager_set_budget(t->scenario->manager, t->authority->authority, &t->axes, NULL, error);
}
static nxmem_result delegate(step *t, nxmem_error *error) {
  if (t->authority == NULL) return missing(error, "an authority");
  return nxmem_manager_delegate(t->scenario->manager, t->authority->authority, &t->axes, error);
}

typedef struct deed {
  const char *word;
  nxmem_result (*act)(step *t, nxmem_error *error);
  int takes_axes;
} deed;

static const deed DEEDS[] = {{"allocate", allocate, 0}, {"release", release, 0},  {"abandon", abandon, 0},
                             {"retire", retire, 0},     {"select", select_it, 0}, {"lose", lose, 0},
                             {"confirm", confirm, 0},   {"remove", remove_it, 0}, {"limit", limit, 1},
                             {"budget", budget, 1},     {"delegate", delegate, 1}};

static const deed *find_deed(const char *word) {
  for (size_t i = 0; word != NULL && i < sizeof DEEDS / sizeof DEEDS[0]; i++)
    if (strcmp(DEEDS[i].word, word) == 0) return &DEEDS[i];
  return NULL;
}

static const char *text_of(const json_t *value, const char *key) {
  return json_string_value(json_object_get(value, key));
}

static void add_row(nx_report *report, const step *t, const deed *d, nxmem_result r, const nxmem_error *error) {
  const char *expected = text_of(t->value, "expect");
  const int as_expected = strcmp(expected == NULL ? "ok" : expected, nxmem_result_name(r)) == 0;
  nx_row_verdict verdict = r == NXMEM_OK ? NX_ROW_OK : NX_ROW_REFUSED;
  if (expected != NULL) verdict = !as_expected ? NX_ROW_WARNING : r == NXMEM_OK ? NX_ROW_OK : NX_ROW_NOTE;
  json_t *row = nx_row(d->word, verdict);
  if (t->name != NULL) nx_set_text(row, "allocation", t->name);
  if (t->mechanism != NULL) nx_set_text(row, "mechanism", t->mechanism->name);
  if (t->authority != NULL) nx_set_text(row, "authority", t->authority->name);
  if (r == NXMEM_OK)
    nx_set_result(row, r);
  else
    nx_set_error(row, error);
  if (expected != NULL) nx_set_text(row, "expected", expected);
  nx_report_add(report, row);
}

static const char *const STEP_KEYS[] = {"do",    "expect", "name",    "mechanism", "authority",
                                        "bytes", "align",  "reserve", "tier",      NULL};
static const char *const STEP_TEXTS[] = {"do", "expect", "name", "mechanism", "authority", "tier"};

static int unreadable(nx_scenario *s, const char *key, const char *what) {
  (void)snprintf(s->why, sizeof s->why, "step: %s: %s", key, what);
  return -1;
}

static int check_step(nx_scenario *s, json_t *value) {
  if (nx_keys_check(s, value, "step", STEP_KEYS)) return -1;
  for (size_t i = 0; i < sizeof STEP_TEXTS / sizeof STEP_TEXTS[0]; i++) {
    const json_t *text = json_object_get(value, STEP_TEXTS[i]);
    if (text != NULL && !json_is_string(text)) return unreadable(s, STEP_TEXTS[i], "need a text");
  }
  return 0;
}

static int read_allocation(nx_scenario *s, step *t) {
  json_t *reserve = json_object_get(t->value, "reserve");
  if (nx_number_read(s, t->value, "bytes", "bytes", &t->bytes) ||
      nx_number_read(s, t->value, "align", "align", &t->align))
    return -1;
  t->reserve = (nxmem_axes){t->bytes, t->bytes, t->bytes};
  return reserve != NULL && nx_axes_read(s, reserve, "reserve", &t->reserve) ? -1 : 0;
}

static int run_one(nx_scenario *s, json_t *value, nx_report *report) {
  if (check_step(s, value)) return -1;
  const deed *d = find_deed(text_of(value, "do"));
  step t = {.scenario = s,
            .value = value,
            .name = text_of(value, "name"),
            .bytes = 4096,
            .align = 64,
            .axes = NXMEM_AXES_UNLIMITED};
  nxmem_error error = {.result = NXMEM_OK};
  if (d == NULL) {
    (void)snprintf(
        s->why, sizeof s->why,
        "step: need \"do\", one of allocate, release, abandon, retire, select, lose, confirm, remove, limit, "
        "budget, delegate");
    return -1;
  }
  t.mechanism = nx_named_find(&s->mechanisms, text_of(value, "mechanism"));
  t.authority = nx_named_find(&s->authorities, text_of(value, "authority"));
  t.allocation = nx_named_find(&s->allocations, t.name);
  if (d->act == allocate && read_allocation(s, &t)) return -1;
  if (d->takes_axes && nx_axes_read(s, json_object_get(value, "bytes"), d->word, &t.axes)) return -1;
  if (d->act == limit && nx_tier_read(s, json_object_get(value, "tier"), d->word, &t.tier)) return -1;
  add_row(report, &t, d, d->act(&t, &error), &error);
  return 0;
}

int nx_scenario_run(nx_scenario *s, nx_report *report) {
  const json_t *steps = json_object_get(s->document, "steps");
  if (steps != NULL && !json_is_array(steps)) return unreadable(s, "steps", "need a list");
  for (size_t i = 0; i < json_array_size(steps); i++)
    if (run_one(s, json_array_get(steps, i), report)) return -1;
  return 0;
}
