/*
 * module.c: the plugin loaded, unloaded and given up; the gate between.
 * Attackers: answers that lie in any field, reports that are short, unwritten or refuse, calls from inside each export.
 * Promise: both sides of the gate are counted here as well, and the axis that shuts it is named.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "life.h"
#include "nxmem/verdict.h"
#include "reference_negotiate.h"

const fuzz_slots *life_own;

/* ---- Negotiation ------------------------------------------------------------------------------------------------- */

static int is_hostile(void) { return !it.honest && (it.header.mode & LIFE_HOSTILE_LOAD) != 0; }

static NxmemNegotiateResponse answer_honestly(const NxmemNegotiateRequest *request) {
  const uint32_t minor = request->host_range.minor_max < 1u ? request->host_range.minor_max : 1u;
  const NxmemNegotiateResponse response = {
      .struct_size = sizeof response,
      .agreed_major = 1,
      .agreed_minor = minor,
      .plugin_range = {1, 1, 0, 1},
      .capability_flags = request->host_capability_flags & (minor == 0 ? 15u : 31u),
  };
  return response;
}

/* One of its ten numbers. */
static void spoil(NxmemNegotiateResponse *response, const life_record *answer) {
  if (answer->d < 0x80u) return;
  const uint32_t field = answer->d % 9u;
  if (field == 8u)
    response->capability_flags = answer->y;
  else
    memcpy((uint8_t *)response + 4u * (field < 3u ? field : field + 1u), &answer->x, sizeof answer->x);
}

static void judge(life_frame *f, uint32_t code, const NxmemNegotiateResponse *response,
                  const NxmemNegotiateRequest *request) {
  ref_answer answer;
  ref_side host;
  uint8_t bytes[REF_ANSWER_BYTES];
  memcpy(bytes, response, sizeof bytes);
  ref_answer_from(bytes, &answer);
  memcpy(bytes, (const uint8_t *)request + 8, 24);
  ref_side_from(bytes, &host);
  const uint32_t reason = ref_judge(code, &answer, &host).reason;
  f->result = reason == NXMEM_REASON_NONE ? NXMEM_OK : NXMEM_ERR_NEGOTIATION;
  if (reason != NXMEM_REASON_NONE && reason != NXMEM_REASON_PLUGIN_REFUSED) life_violation(reason);
  it.module.minor = answer.agreed_minor;
  it.module.caps = answer.plugin.flags;
}

NxmemStatus life_negotiate(const fuzz_slots *own, const NxmemNegotiateRequest *request,
                           NxmemNegotiateResponse *response) {
  life_frame *f = life_top();
  life_expect(f->kind == CALL_LOAD && f->calls++ == 0, "negotiate: not asked");
  life_expect(request->struct_size == sizeof *request && response->struct_size == sizeof *response, "negotiate: sizes");
  life_own = own;
  const life_record answer = is_hostile() ? life_take_answer() : (life_record){.a = 0};
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  NxmemNegotiateResponse made = answer_honestly(request);
  spoil(&made, &answer);
  *response = made;
  f->drains = 1; /* negotiated */
  judge(f, status.code, &made, request);
  return status;
}

/* ---- The gate ---------------------------------------------------------------------------------------------------- */

static uint64_t plus(uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; }

uint64_t life_tally_allocations(void) {
  uint64_t n = it.module.retained;
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++) {
    const life_allocator *a = &it.allocators[i];
    if (a->gate == GATE_NONE || a->gate == GATE_GONE || a->gate == GATE_OPENING) continue;
    n = plus(n, a->live + a->quarantined);
  }
  return n;
}

static uint64_t count_gates(life_gate from, life_gate to) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++) n += it.allocators[i].gate >= from && it.allocators[i].gate <= to;
  return n;
}

/* In the order of the axes. */
static void take_tally(uint64_t tally[5]) {
  tally[0] = count_gates(GATE_OPEN, GATE_CLOSING);
  tally[1] = life_tally_allocations();
  tally[2] = it.module.inside;
  tally[3] = count_gates(GATE_HELD, GATE_HELD);
  tally[4] = it.module.unpaid;
}

static void judge_gate(life_frame *f, uint32_t code) {
  const uint64_t counts[] = {f->report.live_allocators, f->report.live_allocations, f->report.live_views,
                             f->report.live_capabilities, f->report.queued_releases};
  f->axis = 0;
  f->reason = NXMEM_REASON_REPORT_FAILED;
  if (code != NXMEM_STATUS_OK) return;
  f->reason = NXMEM_REASON_REPORT_SHORT;
  if (f->report.struct_size < sizeof f->report) return;
  for (uint32_t i = 0; i < 5; i++) {
    f->axis = 8u + 8u * i;
    f->reason = counts[i] == LIFE_UNWRITTEN ? NXMEM_REASON_REPORT_UNWRITTEN : NXMEM_REASON_PLUGIN_HOLDS;
    if (counts[i] != 0) return;
  }
  for (uint32_t i = 0; i < 5; i++) {
    f->axis = i + 1u;
    f->reason = NXMEM_REASON_HOST_HOLDS;
    if (f->tally[i] != 0) return;
  }
  f->axis = 0;
  f->reason = NXMEM_REASON_NONE;
}

/* A plugin that says nothing of what it holds: then the host's own side decides. */
static void report_for(NxmemUnloadReport *report, const life_record *answer) {
  memset(report, 0, sizeof *report);
  report->struct_size = sizeof *report;
  if (answer->c < 0xC0u) return;
  uint64_t count = life_number(answer->b, 0, answer);
  if (answer->c % 6u == 5u)
    report->struct_size = answer->x % 60u;
  else
    memcpy((uint8_t *)report + 8u + 8u * (answer->c % 6u), &count, sizeof count);
}

NxmemStatus life_query_unload(NxmemUnloadReport *report_out) {
  life_frame *f = life_top();
  life_expect(report_out->struct_size == sizeof *report_out && report_out->live_allocators == LIFE_UNWRITTEN &&
                  report_out->live_allocations == LIFE_UNWRITTEN && report_out->live_views == LIFE_UNWRITTEN &&
                  report_out->live_capabilities == LIFE_UNWRITTEN && report_out->queued_releases == LIFE_UNWRITTEN,
              "unload report: not prepared");
  life_expect(f->settles++ == 0, "unload: asked twice");
  if (f->kind == CALL_LOAD) {
    life_count_refusal();
    life_count_debts(LIFE_FACTORIES);
  }
  take_tally(f->tally);
  it.module.state = f->kind == CALL_LOAD ? MODULE_LOADING : MODULE_UNLOADING;
  const life_record answer = life_take_answer();
  life_nest(&answer);
  const NxmemStatus status = life_status(&answer);
  report_for(&f->report, &answer);
  *report_out = f->report;
  judge_gate(f, status.code);
  if (f->reason == NXMEM_REASON_REPORT_SHORT || f->reason == NXMEM_REASON_REPORT_UNWRITTEN) life_violation(f->reason);
  return status;
}

static void check_info(const life_frame *f, const nxmem_unload_info *info) {
  fuzz_same_number("life, reason of the gate", info->reason, f->reason);
  fuzz_same_number("life, axis of the gate", info->axis, f->axis);
  const uint64_t host[] = {info->host_allocators, info->host_allocations, info->host_calls_inside,
                           info->host_held_slots, info->host_unpaid_debts};
  for (uint32_t i = 0; i < 5; i++) fuzz_same_number("life, tally of the host", host[i], f->tally[i]);
  fuzz_same_number("life, references", info->references, it.module.references);
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

static int owes_nothing(void) {
  for (uint32_t i = 0; i < LIFE_FACTORIES; i++)
    if (it.factories[i].owed != 0) return 0;
  return 1;
}

static void free_factories(void) {
  for (uint32_t i = 0; i < LIFE_FACTORIES; i++) {
    free(it.factories[i].table);
    free(it.factories[i].name);
    it.factories[i].table = NULL;
    it.factories[i].name = NULL;
  }
}

/* Refused, and its code has run: gone, or left behind. */
static void expel(const life_frame *f) {
  life_expect(owes_nothing(), "load: refused, and not all that was owned is released");
  life_expect(f->settles == 1, "load: refused, and the gate was not asked");
  it.module.state = f->reason == NXMEM_REASON_NONE ? MODULE_NONE : MODULE_LEFT;
  it.forced += f->reason != NXMEM_REASON_NONE;
  it.module.factory_count = 0;
  free_factories();
}

static nxmem_result load_anew(life_frame *f, nxmem_plugin *out) {
  const int was_left = it.module.state == MODULE_LEFT;
  const uint64_t debts = was_left ? it.module.unpaid : 0; /* taken over with the file */
  memset(&it.module, 0, sizeof it.module);
  it.module.unpaid = debts;
  it.module.state = MODULE_LOADING;
  it.forced -= (uint64_t)was_left;
  f->result = NXMEM_OK;
  const nxmem_result found = nxmem_plugin_open(it.host, life_path(), out, NULL);
  life_expect(f->calls == 1, "load: not negotiated");
  life_same_result("load", found, f->result);
  if (found != NXMEM_OK) {
    expel(f);
    return found;
  }
  it.module.state = MODULE_LIVE;
  it.module.references = 1;
  return found;
}

static nxmem_result load_again(life_frame *f, nxmem_plugin *out) {
  f->result = it.module.state == MODULE_LIVE ? NXMEM_OK : NXMEM_ERR_BUSY;
  if (f->result == NXMEM_OK && it.module.references++ == 0) it.forced--;
  const nxmem_result found = nxmem_plugin_open(it.host, life_path(), out, NULL);
  life_same_result("load again", found, f->result);
  life_expect(f->calls == 0, "load: negotiated again");
  return found;
}

nxmem_result life_load(uint32_t which) {
  const int anew = it.module.state == MODULE_NONE || it.module.state == MODULE_LEFT;
  life_frame *f = life_push(CALL_LOAD);
  const int counted = anew || it.module.state != MODULE_NONE;
  it.open_plugins += (uint64_t)counted; /* while it is being opened as well */
  nxmem_plugin opened = {0};
  const nxmem_result found = anew ? load_anew(f, &opened) : load_again(f, &opened);
  it.plugin_open[which] = found == NXMEM_OK;
  if (found == NXMEM_OK) it.plugins[which] = opened;
  if (found != NXMEM_OK) it.open_plugins--;
  life_pop();
  return found;
}

void life_op_load(const life_record *op) {
  const uint32_t which = op->a % LIFE_PLUGINS;
  if (!it.plugin_open[which] && it.depth < LIFE_DEPTH) (void)life_load(which);
}

/* ---- Unloading --------------------------------------------------------------------------------------------------- */

static void gone(uint32_t which) {
  it.plugin_open[which] = 0;
  it.open_plugins--;
}

/* The last reference went through an open gate. */
static void unmapped(const nxmem_unload_info *info) {
  life_expect(owes_nothing(), "unload: not every factory is released");
  life_expect(info->unmapped == !life_is_held_elsewhere(), "unload: whether the module is gone was said wrongly");
  memset(&it.module, 0, sizeof it.module);
  free_factories();
}

static nxmem_result give_up(uint32_t which, int destroy) {
  nxmem_unload_info info;
  memset(&info, 0, sizeof info);
  life_frame *f = life_push(CALL_OTHER);
  const nxmem_plugin handle = it.plugins[which];
  nxmem_result expected = it.plugin_open[which] ? NXMEM_OK : NXMEM_ERR_STALE_HANDLE;
  if (expected == NXMEM_OK && it.module.state != MODULE_LIVE) expected = NXMEM_ERR_BUSY;
  const nxmem_result found =
      destroy ? nxmem_plugin_destroy(handle, &info, NULL) : nxmem_plugin_try_unload(handle, &info, NULL);
  if (expected != NXMEM_OK) {
    life_same_result("unload", found, expected);
    life_expect(f->settles == 0, "unload: refused, and the plugin was asked");
    life_pop();
    return found;
  }
  life_expect(f->settles == 1, "unload: the plugin was not asked");
  const int shut = f->reason != NXMEM_REASON_NONE;
  it.module.state = MODULE_LIVE;
  life_same_result("unload", found, shut && !destroy ? NXMEM_ERR_BUSY : NXMEM_OK);
  if (found == NXMEM_OK) it.module.references--;
  check_info(f, &info);
  if (found == NXMEM_OK) gone(which);
  if (found == NXMEM_OK && it.module.references == 0) {
    if (shut)
      it.forced++;
    else
      unmapped(&info);
  }
  life_pop();
  return found;
}

nxmem_result life_unload(uint32_t which) { return give_up(which, 0); }
nxmem_result life_destroy(uint32_t which) { return give_up(which, 1); }

void life_op_unload(const life_record *op) { (void)life_unload(op->a % LIFE_PLUGINS); }

void life_op_destroy(const life_record *op) { (void)life_destroy(op->a % LIFE_PLUGINS); }

/* Only where it must be refused: the host goes at the end. */
void life_op_end_host(const life_record *op) {
  (void)op;
  const int busy = it.open_plugins != 0 || it.module.inside != 0 || count_gates(GATE_OPEN, GATE_CLOSING) != 0;
  if (busy) life_same_result("destroy host", nxmem_host_destroy(it.host, NULL), NXMEM_ERR_BUSY);
}
