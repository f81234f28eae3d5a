/*
 * prefix_group.c: a stage with one prefix and a group of allocations to map it into.
 *
 * Attackers played: none.
 * Promise: each step is asserted; at the end the allocator owns nothing.
 */
#include "prefix_group.h"

nx_group nx_group_set(const nx_case *c) {
  nx_group s;
  nx_play_reset();
  s.stage = nx_stage_set(c->mode);
  assert_int_equal(nxmem_prefix_create(s.stage.allocator, BYTES, &s.prefix, NULL), NXMEM_OK);
  for (int i = 0; i < MEMBERS; i++) s.members[i] = nx_must_reserve(s.stage.allocator, 8 * G, 1);
  return s;
}

uint64_t nx_owned(nxmem_allocator allocator) {
  nxmem_allocator_info info;
  assert_int_equal(nxmem_allocator_get_info(allocator, &info, NULL), NXMEM_OK);
  return info.owned_bytes;
}

void nx_group_strike(nx_group *s) {
  assert_int_equal(nxmem_prefix_release(s->prefix, NULL), NXMEM_OK);
  assert_int_equal(nx_owned(s->stage.allocator), 0);
  nx_stage_strike(&s->stage);
}

nxmem_result nx_group_commit(nx_group *s, uint32_t count, nxmem_group_outcome *outcome, nxmem_error *error) {
  return nxmem_prefix_commit(s->prefix, s->members, count, 2 * G, outcome, error);
}
