/*
 * group.c: one prefix mapped into several allocations: all of them, or none.
 *
 * Attackers: a plugin that maps some and refuses others, reports bytes that cannot be, or cannot undo; callers whose
 * lists name strangers, or one allocation twice.
 * Promise: whose each allocation is, is checked before the plugin hears of any; from then on they are this call's
 * alone, until each is live again, gone or quarantined.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "backing.h"
#include "books.h"
#include "error.h"
#include "grant.h"
#include "nxmem/sharing.h"
#include "record.h"
#include "release.h"
#include "sharing.h"
#include "violations.h"

typedef struct group {
  nx_allocator *a;
  nxmem_allocator owner;
  nx_prefix *prefix;
  const nxmem_allocation *members; /* the host's copy: what the caller's array says later does not count */
  uint32_t count;
  uint64_t offset;
  uint32_t mapped; /* the first so many map it, at a believed cost */
  uint32_t kept;   /* had to be released again, and were not */
  nxmem_error *error;
} group;

static const char verb[] = "commit prefix";

/* A record that this call has claimed. */
static nx_allocation *member(const group *g, uint32_t i) {
  return (nx_allocation *)(void *)nx_table_find(&nx_allocations, g->members[i].id);
}

/* ---- Claims ------------------------------------------------------------------------------------------------------ */

static void give_back(const group *g, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) nx_slot_set(&member(g, i)->slot, NXMEM_SLOT_LIVE);
}

static int is_named_before(const group *g, uint32_t i) {
  for (uint32_t j = 0; j < i; j++)
    if (g->members[j].id == g->members[i].id) return 1;
  return 0;
}

static nxmem_result claim_one(const group *g, uint32_t i) {
  const nx_naming naming = {.verb = verb, .allocator = g->owner, .allocation = g->members[i]};
  nx_allocation *record = NULL;
  const nxmem_result r = nx_record_claim(&naming, NXMEM_SLOT_RELEASING, &record, g->error);
  if (r == NXMEM_ERR_BUSY && is_named_before(g, i))
    return nx_fail(g->error, NXMEM_ERR_INVALID_ARGUMENT, "%s: allocation %" PRIu32 " is named twice", verb, i);
  if (r != NXMEM_OK) return r;
  const nxmem_verdict v =
      nxmem_check_range(g->offset, g->prefix->handle.requested_bytes, nx_record_describe(g->a, record).bytes);
  if (v.reason == NXMEM_REASON_NONE) return NXMEM_OK;
  nx_slot_set(&record->slot, NXMEM_SLOT_LIVE);
  return nx_fail_in(g->error, NXMEM_ERR_INVALID_ARGUMENT, v, (nx_context){.record = NX_RECORD_RANGE},
                    "%s: in allocation %" PRIu32, verb, i);
}

static nxmem_result claim_all(const group *g) {
  for (uint32_t i = 0; i < g->count; i++) {
    const nxmem_result r = claim_one(g, i);
    if (r == NXMEM_OK) continue;
    give_back(g, 0, i);
    return r;
  }
  return NXMEM_OK;
}

/* ---- Commits ----------------------------------------------------------------------------------------------------- */

static uint64_t at_most(uint64_t total) { return total < NXMEM_TOTAL_MAX ? total : NXMEM_TOTAL_MAX; }

/* The prefix's own bytes are charged once; whoever reports some again is not believed. 0 where there is no room for them. */
static int charge_owned(const group *g, const NxmemSharedPrefixCommitInfo *info) {
  int believed = 1;
  if (!nx_prefix_bytes_charge(g->a, g->prefix->bytes, info->additional_owned_bytes, &believed)) return 0;
  if (!believed)
    nx_violation(g->a, (nxmem_verdict){NXMEM_REASON_MORE_THAN_POSSIBLE,
                                       (uint32_t)offsetof(NxmemSharedPrefixCommitInfo, additional_owned_bytes),
                                       info->additional_owned_bytes, 0});
  return 1;
}

/* Judge what a commit reports, and charge it to its allocation. */
static nxmem_verdict charge(const group *g, nx_allocation *record, const NxmemSharedPrefixCommitInfo *info) {
  const nxmem_prefix_place place = {.offset = g->offset,
                                    .bytes = g->prefix->handle.requested_bytes,
                                    .owned_total = at_most(nx_books_owned(g->a)),
                                    .mapped_total = at_most(nx_books_mapped(g->a))};
  const nxmem_verdict v = nxmem_check_commit_info(info, &place);
  if (v.reason != NXMEM_REASON_NONE) return v;
  uint64_t mapped = 0;
  if (charge_owned(g, info) && nxmem_total_add(nx_books_mapped_of(record), info->newly_mapped_bytes, &mapped) &&
      nx_books_move(g->a, record, nx_books_owned_of(record), mapped))
    return v;
  return (nxmem_verdict){NXMEM_REASON_TOTAL_TOO_LARGE, 0, info->newly_mapped_bytes, 0}; /* others used up the room */
}

/* Where the plugin's limit alone refuses, it did what it was asked to: the group is rolled back, and nobody is blamed. */
static int is_limit(const group *g, nxmem_verdict v, const NxmemSharedPrefixCommitInfo *info) {
  const nxmem_prefix_place empty = {.offset = g->offset, .bytes = g->prefix->handle.requested_bytes};
  return nx_grant_refuse(g->a, v, nxmem_check_commit_info(info, &empty));
}

/*
 * What a commit in doubt mapped is not known: as much as the prefix takes counts as mapped, where there is room for it.
 */
static void charge_unknown(const group *g, nx_allocation *record) {
  const NxmemSharedPrefixHandle *handle = &g->prefix->handle;
  const uint64_t most =
      handle->mapped_bytes > handle->committed_physical_bytes ? handle->mapped_bytes : handle->committed_physical_bytes;
  uint64_t mapped = 0;
  if (nxmem_total_add(nx_books_mapped_of(record), most, &mapped))
    (void)nx_books_move(g->a, record, nx_books_owned_of(record), mapped);
}

static nxmem_share_fate commit_one(const group *g, uint32_t i, nxmem_result *why) {
  nx_allocation *record = member(g, i);
  if (!nx_mapping_enter(record, g->prefix->bytes)) {
    *why = nx_fail(g->error, NXMEM_ERR_OUT_OF_MEMORY, "%s: no room to note a mapping", verb);
    return NXMEM_SHARE_REFUSED;
  }
  const NxmemSharedPrefixCommitRequest request = {.struct_size = sizeof request,
                                                  .prefix = g->prefix->handle,
                                                  .allocation = nx_record_describe(g->a, record),
                                                  .byte_offset = g->offset};
  NxmemSharedPrefixCommitInfo info = {.struct_size = sizeof info,
                                      .additional_owned_bytes = NXMEM_UNWRITTEN_COUNT,
                                      .newly_mapped_bytes = NXMEM_UNWRITTEN_COUNT,
                                      .granules = NXMEM_UNWRITTEN_COUNT};
  const NxmemSharedMappingVtable *table = nx_sharing_of(g->a);
  const NxmemStatus answer = table->commit_shared_prefix(table->ctx, &request, &info);
  NxmemStatus status;
  const uint32_t code = nx_take_answer(&answer, &status);
  NxmemSharedPrefixCommitInfo taken;
  nxmem_commit_info_take(&info, &taken);
  nxmem_verdict v = {NXMEM_REASON_NONE, 0, 0, 0};
  if (code == NXMEM_STATUS_OK) v = charge(g, record, &taken);
  if (is_limit(g, v, &taken)) {
    *why = nx_grant_fail(g->error, v, "%s: into allocation %" PRIu32, verb, i);
  } else if (v.reason != NXMEM_REASON_NONE) {
    nx_violation(g->a, v);
    *why = nx_fail_in(g->error, NXMEM_ERR_CONTRACT, v, (nx_context){.record = NX_RECORD_COMMIT},
                      "%s: into allocation %" PRIu32, verb, i);
  } else if (code != NXMEM_STATUS_OK) {
    *why = nx_fail_status(g->error, NXMEM_ERR_PLUGIN, &status, "%s: into allocation %" PRIu32, verb, i);
  }
  const nxmem_share_fate fate = nxmem_judge_prefix_commit(code, v.reason);
  if (fate == NXMEM_SHARE_DOUBTFUL) charge_unknown(g, record);
  if (fate == NXMEM_SHARE_REFUSED) nx_mapping_undo(g->a, record);
  return fate;
}

/* Release those that map it, or may; the others were not touched and are live again. */
static void roll_back(group *g, uint32_t touched) {
  for (uint32_t i = 0; i < touched; i++) {
    nx_allocation *record = member(g, i);
    nx_release_answer answer;
    nx_release_ask(g->a, record, &answer);
    if (nxmem_final_fate(answer.fate) != NXMEM_FATE_GONE) g->kept++;
    nx_release_settle(g->a, record, &answer);
  }
  give_back(g, touched, g->count);
}

static const char *aftermath(const group *g, uint32_t touched) {
  if (touched == 0) return "; nothing maps it";
  return g->kept == 0 ? "; those that mapped it are released" : "; of those that mapped it some could not be released";
}

static nxmem_result commit_all(group *g) {
  nxmem_result why = NXMEM_OK;
  nxmem_share_fate fate = NXMEM_SHARE_MAPPED;
  while (g->mapped < g->count) {
    fate = commit_one(g, g->mapped, &why);
    if (fate != NXMEM_SHARE_MAPPED) break;
    g->mapped++;
  }
  if (g->mapped == g->count) {
    give_back(g, 0, g->count);
    return NXMEM_OK;
  }
  const uint32_t touched = g->mapped + (fate == NXMEM_SHARE_DOUBTFUL ? 1u : 0u);
  roll_back(g, touched);
  nx_error_append(g->error, aftermath(g, touched));
  return why;
}

static nxmem_result commit_entered(group *g) {
  const int there = nx_sharing_of(g->a)->commit_shared_prefix != NULL;
  nxmem_result r = nx_need_slot(there, verb, "shared_mapping.commit_shared_prefix", g->error);
  if (r == NXMEM_OK) r = claim_all(g);
  return r == NXMEM_OK ? commit_all(g) : r;
}

static nxmem_result commit_group(group *g, nxmem_prefix handle, nxmem_group_outcome *outcome_out) {
  nxmem_result r = nx_prefix_enter(verb, handle, &g->prefix, &g->a, g->error);
  if (r != NXMEM_OK) return r;
  g->owner.id = nx_slot_handle(&g->a->slot);
  r = commit_entered(g);
  *outcome_out = (nxmem_group_outcome)nxmem_judge_group(g->count, g->mapped, g->kept);
  nx_prefix_leave(g->prefix, g->a);
  return r;
}

nxmem_result nxmem_prefix_commit(nxmem_prefix handle, const nxmem_allocation *allocations, uint32_t count,
                                 uint64_t byte_offset, nxmem_group_outcome *outcome_out, nxmem_error *error) {
  if (allocations == NULL || count == 0 || outcome_out == NULL)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "%s: allocations or outcome_out is NULL, or there are none",
                   verb);
  *outcome_out = NXMEM_GROUP_PRIVATE;
  nxmem_allocation *members = malloc(count * sizeof *members);
  if (members == NULL)
    return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "%s: no memory for a group of %" PRIu32, verb, count);
  memcpy(members, allocations, count * sizeof *members);
  group g = {.members = members, .count = count, .offset = byte_offset, .error = error};
  const nxmem_result r = commit_group(&g, handle, outcome_out);
  free(members);
  return r;
}
