/*
 * prefix_bytes.c: what prefixes own, while anybody maps it.
 *
 * Attackers: a plugin that reports the same bytes once more, in commits that run at once, of which some come to nothing.
 * Promise: a prefix's bytes are charged once, from the commit that reports them to the end of the prefix and of all its mappings, whichever allocation came first
 * and whatever became of it.
 */
#include "prefix_bytes.h"

#include "books.h"
#include "nxmem/sharing.h"
#include "record.h"

/* One mapping. slot.extra: the record's next, an index + 1. */
typedef struct nx_mapping {
  nx_slot slot;
  _Atomic uint32_t bytes; /* index of what is mapped */
} nx_mapping;

static nx_table all_bytes = NX_TABLE(nx_prefix_bytes, 6);
static nx_table mappings = NX_TABLE(nx_mapping, 8);

nx_prefix_bytes *nx_prefix_bytes_make(void) {
  nx_prefix_bytes *bytes = (nx_prefix_bytes *)(void *)nx_table_take(&all_bytes);
  if (bytes == NULL) return NULL;
  atomic_store(&bytes->charged, 0);
  atomic_store(&bytes->users, 1);
  atomic_store(&bytes->kept, 0);
  return bytes;
}

void nx_prefix_bytes_leave(nx_allocator *a, nx_prefix_bytes *bytes) {
  if (atomic_fetch_sub(&bytes->users, 1u) != 1u) return;
  if (!atomic_load(&bytes->kept)) nx_books_disown(a, atomic_load(&bytes->charged));
  nx_table_give(&all_bytes, &bytes->slot);
}

void nx_prefix_bytes_keep(nx_prefix_bytes *bytes) { atomic_store(&bytes->kept, 1); }

/* Where this mapping is the only one, an earlier commit may have come to nothing: then the plugin may report its bytes as if for the first time. */
enum { PREFIX_AND_THIS_ONE = 2 };

int nx_prefix_bytes_charge(nx_allocator *a, nx_prefix_bytes *bytes, uint64_t reported, int *believed_out) {
  uint64_t before = atomic_load(&bytes->charged);
  for (;;) {
    const uint64_t known = atomic_load(&bytes->users) == PREFIX_AND_THIS_ONE ? 0u : before;
    const uint64_t owned = nxmem_prefix_owned_once(reported, known);
    *believed_out = owned == reported;
    if (owned <= before) return 1;
    if (!nx_books_own(a, owned - before)) return 0;
    const uint64_t more = owned - before;
    if (atomic_compare_exchange_strong(&bytes->charged, &before, owned)) return 1;
    nx_books_disown(a, more);
  }
}

/* ---- Mappings ---------------------------------------------------------------------------------------------------- */

int nx_mapping_enter(nx_allocation *record, nx_prefix_bytes *bytes) {
  _Atomic uint32_t *first = nx_record_beside(record, NX_BESIDE_MAPPINGS);
  nx_mapping *mapping = first == NULL ? NULL : (nx_mapping *)(void *)nx_table_take(&mappings);
  if (mapping == NULL) return 0;
  atomic_store(&mapping->bytes, bytes->slot.self);
  atomic_store(&mapping->slot.extra, nx_record_maps(record) ? atomic_load(first) : 0u);
  atomic_store(first, mapping->slot.self + 1u);
  nx_record_set_maps(record, 1);
  atomic_fetch_add(&bytes->users, 1u);
  return 1;
}

/* The first of a record's mappings goes; it has one. */
static void drop_first(nx_allocator *a, nx_allocation *record, int kept) {
  _Atomic uint32_t *first = nx_record_beside(record, NX_BESIDE_MAPPINGS);
  nx_mapping *mapping = (nx_mapping *)(void *)nx_table_at(&mappings, atomic_load(first) - 1u);
  nx_prefix_bytes *bytes = (nx_prefix_bytes *)(void *)nx_table_at(&all_bytes, atomic_load(&mapping->bytes));
  const uint32_t next = atomic_load(&mapping->slot.extra);
  atomic_store(first, next);
  if (next == 0u) nx_record_set_maps(record, 0);
  nx_table_give(&mappings, &mapping->slot);
  if (kept) nx_prefix_bytes_keep(bytes);
  nx_prefix_bytes_leave(a, bytes);
}

void nx_mapping_undo(nx_allocator *a, nx_allocation *record) { drop_first(a, record, 0); }

void nx_mappings_drop(nx_allocator *a, nx_allocation *record, int kept) {
  while (nx_record_maps(record)) drop_first(a, record, kept);
}
