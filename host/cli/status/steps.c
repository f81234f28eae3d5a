/*
 * steps.c: doing what a scenario says, step by step.
 * Attackers: the file; the plugins it names.
 * Promise: each step is a row with what came of it; a refusal that the step expects by its name is a note.
 */
#include <stddef.h>
#include <string.h>

#include "nxmem/unload.h"
#include "progress.h"
#include "scenario.h"
#include "words.h"

/* What a step works on; NULL what it does not name. */
typedef struct step {
  nx_scenario *scenario;
  json_t *value;
  const char *name; /* of the allocation */
  nx_named *mechanism, *authority, *allocation, *plugin, *queue;
  const char *queue_name;
  uint64_t room;          /* of a queue */
  nxmem_drained drained;  /* by a drain */
  nxmem_unload_info gate; /* of an unload */
  uint64_t bytes, align;  /* of an allocation */
  nxmem_axes reserve;     /* for it */
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

/* Prepared once: a queue that refuses hands back the same release. */
static nxmem_result prepare(step *t, nxmem_error *error) {
  if (t->allocation == NULL) return missing(error, "the name of an allocation");
  if (t->allocation->prepared.id != 0) return NXMEM_OK;
  return nxmem_bound_prepare(&t->allocation->bound, &t->allocation->prepared, error);
}

static nxmem_result abandon(step *t, nxmem_error *error) {
  const nxmem_result r = prepare(t, error);
  return r == NXMEM_OK ? nxmem_prepared_abandon(t->allocation->prepared, error) : r;
}

static nxmem_result execute(step *t, nxmem_error *error) {
  const nxmem_result r = prepare(t, error);
  return r == NXMEM_OK ? nxmem_prepared_execute(t->allocation->prepared, error) : r;
}

/* ---- Queues ------------------------------------------------------------------------------------------------------ */

static nxmem_result make_queue(step *t, nxmem_error *error) {
  nx_names *all = &t->scenario->queues;
  if (t->queue_name == NULL || t->queue != NULL || all->count == NX_SCENARIO_MAX)
    return missing(error, "a name of its own for the queue; at most 32 are made");
  nx_named *entry = &all->entries[all->count];
  *entry = (nx_named){.name = t->queue_name};
  const uint32_t room = t->room > UINT32_MAX ? UINT32_MAX : (uint32_t)t->room;
  const nxmem_result r = nxmem_release_queue_create(t->scenario->registry, room, &entry->queue, error);
  if (r == NXMEM_OK) all->count++;
  return r;
}

static nxmem_result push(step *t, nxmem_error *error) {
  if (t->queue == NULL) return missing(error, "a queue that was made before");
  const nxmem_result r = prepare(t, error);
  return r == NXMEM_OK ? nxmem_release_queue_push(t->queue->queue, t->allocation->prepared, error) : r;
}

static nxmem_result drain(step *t, nxmem_error *error) {
  return t->queue == NULL ? missing(error, "a queue that was made before")
                          : nxmem_release_queue_drain(t->queue->queue, UINT64_MAX, &t->drained, error);
}

static nxmem_result close_queue(step *t, nxmem_error *error) {
  return t->queue == NULL ? missing(error, "a queue that was made before")
                          : nxmem_release_queue_close(t->queue->queue, error);
}

/* ---- Mechanisms and plugins -------------------------------------------------------------------------------------- */

static nxmem_result unload(step *t, nxmem_error *error) {
  return t->plugin == NULL ? missing(error, "a plugin") : nxmem_plugin_try_unload(t->plugin->plugin, &t->gate, error);
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

static const deed DEEDS[] = {{"execute", execute, 0},   {"queue", make_queue, 0},  {"push", push, 0},
                             {"drain", drain, 0},       {"close", close_queue, 0}, {"unload", unload, 0},
                             {"allocate", allocate, 0}, {"release", release, 0},   {"abandon", abandon, 0},
                             {"retire", retire, 0},     {"select", select_it, 0},  {"lose", lose, 0},
                             {"confirm", confirm, 0},   {"remove", remove_it, 0},  {"limit", limit, 1},
                             {"budget", budget, 1},     {"delegate", delegate, 1}};

static const deed *find_deed(const char *word) {
  for (size_t i = 0; word != NULL && i < sizeof DEEDS / sizeof DEEDS[0]; i++)
    if (strcmp(DEEDS[i].word, word) == 0) return &DEEDS[i];
  return NULL;
}

static const char *text_of(const json_t *value, const char *key) {
  return json_string_value(json_object_get(value, key));
}

static void set_drained(json_t *row, const nxmem_drained *drained) {
  nx_set_number(row, "completed", drained->completed);
  nx_set_number(row, "quarantined", drained->quarantined);
  nx_set_number(row, "left", drained->left);
}

/* What is still held, by the name that a report has for it. */
static const struct held {
  uint32_t reason, field;
  const char *name;
} HELD[] = {
    {NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATORS, "host_allocators"},
    {NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_ALLOCATIONS, "host_allocations"},
    {NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_CALLS_INSIDE, "host_calls_inside"},
    {NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_HELD_SLOTS, "host_held_slots"},
    {NXMEM_REASON_HOST_HOLDS, NXMEM_AXIS_UNPAID_DEBTS, "host_unpaid_debts"},
    {NXMEM_REASON_PLUGIN_HOLDS, offsetof(NxmemUnloadReport, live_allocators), "live_allocators"},
    {NXMEM_REASON_PLUGIN_HOLDS, offsetof(NxmemUnloadReport, live_allocations), "live_allocations"},
    {NXMEM_REASON_PLUGIN_HOLDS, offsetof(NxmemUnloadReport, live_views), "live_views"},
    {NXMEM_REASON_PLUGIN_HOLDS, offsetof(NxmemUnloadReport, live_capabilities), "live_capabilities"},
    {NXMEM_REASON_PLUGIN_HOLDS, offsetof(NxmemUnloadReport, queued_releases), "queued_releases"},
};

static const char *held_of(const nxmem_error *error) {
  for (size_t i = 0; i < sizeof HELD / sizeof HELD[0]; i++)
    if (HELD[i].reason == error->reason && HELD[i].field == error->field) return HELD[i].name;
  return NULL;
}

/* The axis that is over its limit, or on which something is still held; NULL: no refusal of that kind. */
static const char *axis_of(const nxmem_error *error) {
  if (error->result == NXMEM_ERR_OVER_LIMIT) return error->field < 3 ? NX_AXES_KEYS[error->field] : NULL;
  return error->result == NXMEM_ERR_BUSY ? held_of(error) : NULL;
}

static void set_refusal(json_t *row, const nxmem_error *error) {
  const char *axis = axis_of(error);
  if (axis) nx_set_text(row, "axis", axis);
  nx_set_error(row, error);
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
  if (t->plugin != NULL) nx_set_text(row, "plugin", t->plugin->name);
  if (t->queue_name != NULL) nx_set_text(row, "queue", t->queue_name);
  if (r == NXMEM_OK && d->act == drain) set_drained(row, &t->drained);
  if (r == NXMEM_OK && d->act == unload) nx_set_flag(row, "unmapped", t->gate.unmapped);
  if (r == NXMEM_OK)
    nx_set_result(row, r);
  else
    set_refusal(row, error);
  if (expected != NULL) nx_set_text(row, "expected", expected);
  nx_report_add(report, row);
}

static const char *const STEP_KEYS[] = {"do",      "expect", "name",   "mechanism", "authority", "bytes", "align",
                                        "reserve", "tier",   "plugin", "queue",     "room",      NULL};
static const char *const STEP_TEXTS[] = {"do", "expect", "name", "mechanism", "authority", "tier", "plugin", "queue"};

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
            .room = 16,
            .queue_name = text_of(value, "queue"),
            .axes = NXMEM_AXES_UNLIMITED};
  nxmem_error error = {.result = NXMEM_OK};
  if (d == NULL) {
    (void)snprintf(s->why, sizeof s->why,
                   "step: need \"do\", one of allocate, release, abandon, execute, queue, push, drain, close, retire, "
                   "select, lose, "
                   "confirm, remove, unload, limit, budget, delegate");
    return -1;
  }
  t.mechanism = nx_named_find(&s->mechanisms, text_of(value, "mechanism"));
  t.authority = nx_named_find(&s->authorities, text_of(value, "authority"));
  t.allocation = nx_named_find(&s->allocations, t.name);
  t.plugin = nx_named_find(&s->plugins, text_of(value, "plugin"));
  t.queue = nx_named_find(&s->queues, t.queue_name);
  if (nx_number_read(s, value, "room", "room", &t.room)) return -1;
  if (d->act == allocate && read_allocation(s, &t)) return -1;
  if (d->takes_axes && nx_axes_read(s, json_object_get(value, "bytes"), d->word, &t.axes)) return -1;
  if (d->act == limit && nx_tier_read(s, json_object_get(value, "tier"), d->word, &t.tier)) return -1;
  add_row(report, &t, d, d->act(&t, &error), &error);
  return 0;
}

int nx_scenario_run(nx_scenario *s, nx_report *report) {
  const json_t *steps = json_object_get(s->document, "steps");
  if (steps != NULL && !json_is_array(steps)) return unreadable(s, "steps", "need a list");
  const size_t count = json_array_size(steps);
  nx_progress progress;
  int r = 0;
  nx_progress_begin(&progress, "steps", count);
  for (size_t i = 0; i < count && r == 0; i++) {
    r = run_one(s, json_array_get(steps, i), report);
    nx_progress_tick(&progress, i + 1);
  }
  nx_progress_end(&progress);
  return r;
}
