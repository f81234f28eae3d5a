/* A stage with one prefix and a group of allocations to map it into; each step is asserted. */
#ifndef NX_TEST_PREFIX_GROUP_H
#define NX_TEST_PREFIX_GROUP_H

#include "puppet_backing.h"

#define G NX_PLAY_GRANULE
enum { BYTES = 3 * NX_PLAY_GRANULE - 5 /* of the prefix */, MEMBERS = 4 };

/* A stage with a prefix and a group of reserved allocations, each with its first granule committed. */
typedef struct nx_group {
  nx_stage stage;
  nxmem_prefix prefix;
  nxmem_allocation members[MEMBERS];
} nx_group;

nx_group nx_group_set(const nx_case *c);

/* No member is live any more: with the prefix its own bytes go. */
void nx_group_strike(nx_group *s);

/* The prefix into the first `count` members, from their third granule on. */
nxmem_result nx_group_commit(nx_group *s, uint32_t count, nxmem_group_outcome *outcome, nxmem_error *error);

/* What an allocator is charged with. */
uint64_t nx_owned(nxmem_allocator allocator);

#endif /* NX_TEST_PREFIX_GROUP_H */
