/*
 * negotiation_test.c: the agreement as the host drives it, with a plugin that answers whatever the row says.
 *
 * Attackers played: a plugin that refuses late, answers nothing, or lies in one field; an older or poorer host.
 * Promise: nothing of a refused agreement is used or kept; what was agreed is what both sides see.
 */
#include "puppet.h"

#define ALL_ONES 0xFFFFFFFFFFFFFFFFull
#define U32_MAX 0xFFFFFFFFu

/* ---- Answers that are refused ------------------------------------------------------------------------------------ */

typedef struct answer_row {
  const char *name;
  nx_modes modes;
  uint32_t code;
  NxmemNegotiateResponse response;
  nx_refusal want;
} answer_row;

#define GOOD_RANGE \
  { 1, 1, 0, 1 }
#define LIE(reason, field, found, needed) \
  { NXMEM_ERR_NEGOTIATION, NXMEM_REASON_##reason, (field), (found), (needed), 0 }
#define PLUGIN_SAYS(code) \
  { NXMEM_ERR_NEGOTIATION, NXMEM_REASON_PLUGIN_REFUSED, 0, 0, 0, (code) }

static const answer_row answer_rows[] = {
    {"size 7", 0, 0, {7, 1, 1, 0, GOOD_RANGE, 1}, LIE(SHORT_RESPONSE, 0, 7, 40)},
    {"size 39", 0, 0, {39, 1, 1, 0, GOOD_RANGE, 1}, LIE(SHORT_RESPONSE, 0, 39, 40)},
    {"every byte 0", 0, 0, {0, 0, 0, 0, {0, 0, 0, 0}, 0}, LIE(SHORT_RESPONSE, 0, 0, 40)},
    {"every byte 0xAA",
     0,
     0,
     {0xAAAAAAAA,
      0xAAAAAAAA,
      0xAAAAAAAA,
      0xAAAAAAAA,
      {0xAAAAAAAA, 0xAAAAAAAA, 0xAAAAAAAA, 0xAAAAAAAA},
      0xAAAAAAAAAAAAAAAA},
     LIE(MAJOR_OUT_OF_RANGE, 4, 0xAAAAAAAA, 1)},
    {"every number 2^n-1",
     0,
     0,
     {U32_MAX, U32_MAX, U32_MAX, U32_MAX, {U32_MAX, U32_MAX, U32_MAX, U32_MAX}, ALL_ONES},
     LIE(MAJOR_OUT_OF_RANGE, 4, U32_MAX, 1)},
    {"major 2", 0, 0, {40, 2, 1, 0, {1, 2, 0, 1}, 1}, LIE(MAJOR_OUT_OF_RANGE, 4, 2, 1)},
    {"minor 0xFFFFFFFF", 0, 0, {40, 1, U32_MAX, 0, {1, 1, 0, U32_MAX}, 1}, LIE(MINOR_OUT_OF_RANGE, 8, U32_MAX, 1)},
    {"minor above its own range", 0, 0, {40, 1, 1, 0, {1, 1, 0, 0}, 1}, LIE(MINOR_OUT_OF_RANGE, 8, 1, 0)},
    {"minor below its own range", 0, 0, {40, 1, 0, 0, {1, 1, 1, 1}, 1}, LIE(MINOR_OUT_OF_RANGE, 8, 0, 1)},
    {"major outside its own range", 0, 0, {40, 1, 1, 0, {2, 3, 0, 1}, 1}, LIE(MAJOR_OUT_OF_RANGE, 4, 1, 2)},
    {"majors inverted", 0, 0, {40, 1, 1, 0, {2, 1, 0, 1}, 1}, LIE(INVERTED_RANGE, 16, 2, 1)},
    {"every capability bit", 0, 0, {40, 1, 1, 0, GOOD_RANGE, ALL_ONES}, LIE(UNKNOWN_CAPABILITY, 32, ALL_ONES, 31)},
    {"no capability", 0, 0, {40, 1, 1, 0, GOOD_RANGE, 0}, LIE(NO_ALLOCATOR, 32, 0, 1)},
    {"structured release at 1.0", 0, 0, {40, 1, 0, 0, GOOD_RANGE, 31}, LIE(CAPS_BEYOND_LEVEL, 32, 31, 15)},
    {"refusal with a perfect answer", 0, 1, {40, 1, 1, 0, GOOD_RANGE, 31}, PLUGIN_SAYS(1)},
    {"refusal with an unknown code", 0, 4242, {40, 1, 1, 0, GOOD_RANGE, 31}, PLUGIN_SAYS(4242)},
    {"refusal with the highest code", 0, U32_MAX, {0, 0, 0, 0, {0, 0, 0, 0}, 0}, PLUGIN_SAYS(U32_MAX)},
};

/* Refused, unmapped, its code not entered beyond the query of the gate. */
static void refuse_at_negotiation(nxmem_fetch_mode mode, nx_refusal want) {
  nxmem_host host = nx_host_in(mode);
  const char *path = nx_puppet_copy();
  nx_assert_open_refused(host, path, want, 0);
  assert_int_equal(nx_puppet_calls(NX_IN_NEGOTIATE), 1);
  assert_int_equal(nx_puppet_calls(NX_IN_CREATE), 0);
  assert_int_equal(nx_puppet_calls(NX_IN_QUERY), 1);
  assert_int_equal(nx_puppet_calls(NX_IN_DESTRUCTOR), 1);
  assert_int_equal(atomic_load(&puppet.after_the_end), 0);
  const int lie = want.reason != NXMEM_REASON_PLUGIN_REFUSED;
  assert_int_equal(nx_counts(host).contract_violations, lie);
  nx_host_gone(host);
}

static void test_answer(void **state) {
  const nx_case *c = *state;
  const answer_row *row = c->row;
  nx_puppet_reset();
  puppet.negotiate_code = row->code;
  puppet.response = row->response;
  refuse_at_negotiation(c->mode, row->want);
}

/* Versions left as the host wrote them: closed, so 0 is agreed. */
static void test_silence(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  puppet.leave_response = 1;
  refuse_at_negotiation(c->mode, (nx_refusal)LIE(MAJOR_OUT_OF_RANGE, 4, 0, 1));
}

/* Refused, and then the gate is shut as well: it has to stay, and is counted. */
static void test_refused_with_shut_gate(void **state) {
  const nx_case *c = *state;
  nx_puppet_reset();
  puppet.response.agreed_major = 0;
  puppet.own_report = 1;
  puppet.report = (NxmemUnloadReport){48, 0, 0, 0, 1, 0, 0};
  nxmem_host host = nx_host_in(c->mode);
  nx_assert_open_refused(host, nx_puppet_copy(), (nx_refusal)LIE(MAJOR_OUT_OF_RANGE, 4, 0, 1), 1);
  assert_int_equal(nx_puppet_calls(NX_IN_DESTRUCTOR), 0);
  nx_host_gone(host);
}

/* ---- What the host asks ------------------------------------------------------------------------------------------ */

typedef struct offer_row {
  const char *name;
  nx_modes modes;
  uint32_t minor_max;
  uint64_t flags;
  uint64_t offered; /* what no level of the range defines is not offered */
} offer_row;

static const offer_row offer_rows[] = {
    {"1.1 offers everything", 0, 1, 31, 31},          {"1.0 offers what 1.0 knows", 0, 0, 31, 15},
    {"1.1 offers the allocator alone", 0, 1, 1, 1},   {"1.0 offers the allocator alone", 0, 0, 1, 1},
    {"1.1 without structured release", 0, 1, 15, 15}, {"1.1 with structured release alone", 0, 1, 17, 17},
};

static void test_offer(void **state) {
  const nx_case *c = *state;
  const offer_row *row = c->row;
  nx_puppet_reset();
  puppet.response = (NxmemNegotiateResponse){40, 1, row->minor_max, 0, GOOD_RANGE, row->offered};
  nxmem_host host = nx_host_of_level(c->mode, row->minor_max, row->flags);
  const char *path = nx_puppet_copy();
  nxmem_plugin plugin = nx_must_open(host, path);
  assert_int_equal(puppet.request.struct_size, 32);
  assert_int_equal(puppet.request.reserved, 0);
  assert_int_equal(puppet.request.host_range.major_min, 1);
  assert_int_equal(puppet.request.host_range.major_max, 1);
  assert_int_equal(puppet.request.host_range.minor_min, 0);
  assert_int_equal(puppet.request.host_range.minor_max, row->minor_max);
  assert_int_equal(puppet.request.host_capability_flags, row->offered);

  nxmem_plugin_info info;
  assert_int_equal(nxmem_plugin_get_info(plugin, &info, NULL), NXMEM_OK);
  assert_int_equal(info.agreed_major, 1);
  assert_int_equal(info.agreed_minor, row->minor_max);
  assert_int_equal(info.plugin_range.minor_max, 1);
  assert_int_equal(info.capability_flags, row->offered);
  assert_int_equal(info.references, 1);
  nx_must_unload(plugin, path);
  nx_host_gone(host);
}

/* ---- Levels: which release slot is entered ----------------------------------------------------------------------- */

typedef struct level_row {
  const char *name;
  nx_modes modes;
  uint32_t minor_max;   /* of the host */
  uint64_t flags;       /* offered */
  uint32_t table_minor; /* of the plugin's table */
  int structured;       /* release_allocation is entered, else deallocate */
  uint32_t open_minor;  /* what the open request says */
} level_row;

static const level_row level_rows[] = {
    {"1.1 host, 1.1 table: the newer slot", 0, 1, 31, 1, 1, 1},
    {"1.0 host, 1.1 table: the older slot", 0, 0, 31, 1, 0, 0},
    {"1.1 host, 1.0 table: the older slot", 0, 1, 31, 0, 0, 1},
    {"1.0 host, 1.0 table: the older slot", 0, 0, 31, 0, 0, 0},
    {"1.1 host, table of 1.4294967295: the newer slot", 0, 1, 31, U32_MAX, 1, 1},
    {"1.1 host that does not offer it: the older slot", 0, 1, 15, 1, 0, 1},
};

static void test_level(void **state) {
  const nx_case *c = *state;
  const level_row *row = c->row;
  nx_puppet_reset();
  puppet.response =
      (NxmemNegotiateResponse){40, 1, row->minor_max, 0, GOOD_RANGE, row->minor_max == 0 ? 15 : row->flags};
  puppet.table.abi_minor = row->table_minor;
  if (row->table_minor == U32_MAX) puppet.table.struct_size = U32_MAX; /* only our part of it is looked at */
  if (row->table_minor == 0) puppet.table.capability_flags = 9;        /* a 1.0 table may not declare it at all */
  nx_stage stage = {.path = nx_puppet_copy()};
  stage.host = nx_host_of_level(c->mode, row->minor_max, row->flags);
  stage.plugin = nx_must_open(stage.host, stage.path);
  stage.allocator = nx_must_open_mechanism(stage.plugin, "puppet");
  assert_int_equal(puppet.open_request.abi_minor, row->open_minor);
  assert_int_equal(puppet.callbacks->abi_minor, row->open_minor);

  nxmem_allocator_info info;
  assert_int_equal(nxmem_allocator_get_info(stage.allocator, &info, NULL), NXMEM_OK);
  assert_int_equal(info.abi_minor, row->table_minor < row->minor_max ? row->table_minor : row->minor_max);
  assert_int_equal(info.effective_flags, row->structured ? 25 : 9);

  nx_must_release(stage.allocator, nx_must_allocate(stage.allocator, 100, 64));
  assert_int_equal(nx_puppet_calls(NX_IN_RELEASE_ALLOCATION), row->structured);
  assert_int_equal(nx_puppet_calls(NX_IN_DEALLOCATE), !row->structured);
  nx_stage_strike(&stage);
}

static const nx_row_head single_rows[] = {{"nothing written", 0}};
static const nx_row_head shut_rows[] = {{"refused, and its gate is shut", 0}};

int main(void) {
  nx_suite suite = {0};
  nx_suite_modes(&suite, ROWS(answer_rows), test_answer);
  nx_suite_modes(&suite, ROWS(single_rows), test_silence);
  nx_suite_modes(&suite, ROWS(shut_rows), test_refused_with_shut_gate);
  nx_suite_modes(&suite, ROWS(offer_rows), test_offer);
  nx_suite_modes(&suite, ROWS(level_rows), test_level);
  return nx_suite_run(&suite, "host_negotiation");
}
