/*
 * enumerate.c: is this list of factories one that may be owned?
 *
 * Attackers: counts above the room given, NULL entries, one object listed twice.
 * Promise: each distinct non-NULL entry within the transferred part is owed exactly once.
 */
#include "nxmem/enumerate.h"

#include "verdict_make.h"

uint32_t nxmem_factories_transferred(uint64_t reported) {
  return reported < NXMEM_FACTORIES_MAX ? (uint32_t)reported : (uint32_t)NXMEM_FACTORIES_MAX;
}

/* The lowest index at which entries[index] stands; index itself where it stands nowhere below. */
/*@ requires readable: \valid_read(entries + (0 .. index));
    assigns \nothing;
    ensures within: \result <= index;
    ensures same: entries[\result] == entries[index];
    ensures lowest: NX_NOT_BELOW(entries, index, \result); */
static uint32_t first_index_of(const uintptr_t *entries, uint32_t index) {
  uint32_t i = 0u;
  /*@ loop invariant within: i <= index;
      loop invariant not_below: NX_NOT_BELOW(entries, index, i);
      loop assigns i;
      loop variant index - i; */
  while (i < index && entries[i] != entries[index]) i++;
  return i;
}

int nxmem_factory_is_owed(const uintptr_t *entries, uint32_t index) {
  return entries[index] != 0u && first_index_of(entries, index) == index;
}

nxmem_verdict nxmem_check_factories(const uintptr_t *entries, uint64_t reported) {
  if (reported > NXMEM_FACTORIES_MAX) return nx_verdict(NXMEM_REASON_TOO_MANY, 0u, reported, NXMEM_FACTORIES_MAX);
  const uint32_t count = (uint32_t)reported;
  /*@ loop invariant within: i <= count;
      loop invariant owed: NX_ALL_OWED(entries, i);
      loop assigns i;
      loop variant count - i; */
  for (uint32_t i = 0u; i < count; i++) {
    if (entries[i] == 0u) return nx_verdict(NXMEM_REASON_NULL_POINTER, i, 0u, 0u);
    const uint32_t first = first_index_of(entries, i);
    if (first != i) return nx_verdict(NXMEM_REASON_LISTED_TWICE, i, i, first);
  }
  return nx_accept();
}
