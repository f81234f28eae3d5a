/*
 * quarantine.c: the list of what is quarantined.
 *
 * Attackers: a plugin that keeps one allocation after another, also after its allocator, or its host, is gone.
 * Promise: a list is bounded and outlives the allocators; no want of memory loses a count, which the books keep.
 */
#include "quarantine.h"

#include <pthread.h>
#include <stdlib.h>

#include "books.h"
#include "error.h"
#include "nxmem/handle.h"
#include "record.h"

enum { PAGE_RECORDS = 256 };

typedef struct page {
  struct page *next;
  nxmem_quarantined records[PAGE_RECORDS];
} page;

/* The list of one host: made when the first is listed. */
typedef struct list {
  struct list *next;
  uint64_t host;
  page *first, *last;
  uint32_t count;
} list;

/* A leaf: no plugin code runs under it. Few quarantines happen, so one serves all hosts. */
static pthread_mutex_t lists_lock = PTHREAD_MUTEX_INITIALIZER;
static list *lists;

static list *find_locked(uint64_t host) {
  list *l = lists;
  while (l != NULL && l->host != host) l = l->next;
  return l;
}

static list *find_or_make_locked(uint64_t host) {
  list *l = find_locked(host);
  if (l != NULL || !nx_host_is_there(host)) return l; /* one that was destroyed gets none again: nobody would free it */
  l = calloc(1, sizeof *l);
  if (l == NULL) return NULL;
  l->host = host;
  l->next = lists;
  lists = l;
  return l;
}

/* The place behind the last record; NULL: full, or no memory. */
static nxmem_quarantined *extend_locked(list *l) {
  if (l->count == NX_QUARANTINE_MAX) return NULL;
  if (l->count % PAGE_RECORDS == 0) {
    page *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL) return NULL;
    if (l->first == NULL)
      l->first = fresh;
    else
      l->last->next = fresh;
    l->last = fresh;
  }
  return &l->last->records[l->count++ % PAGE_RECORDS];
}

void nx_quarantine_list(nx_allocator *a, const nxmem_quarantined *what) {
  nxmem_quarantined listed = *what;
  listed.allocator.id = nx_slot_handle(&a->slot);
  listed.mechanism_id = a->table.mechanism_id;
  listed.device = a->table.device;
  pthread_mutex_lock(&lists_lock);
  list *l = find_or_make_locked(atomic_load_explicit(&a->host, memory_order_relaxed));
  nxmem_quarantined *place = l == NULL ? NULL : extend_locked(l);
  if (place != NULL) *place = listed;
  pthread_mutex_unlock(&lists_lock);
}

void nx_quarantine_list_record(nx_allocator *a, nx_allocation *record, uint64_t residual, uint32_t plugin_status,
                               uint32_t reason) {
  const NxmemAllocation allocation = nx_record_describe(a, record);
  const nxmem_quarantined what = {.address = (uintptr_t)allocation.ptr,
                                  .bytes = allocation.bytes,
                                  .owned_bytes = nx_books_owned_of(record),
                                  .mapped_bytes = nx_books_mapped_of(record),
                                  .residual_bytes = residual,
                                  .plugin_status = plugin_status,
                                  .reason = reason};
  nx_quarantine_list(a, &what);
}

static list *unlink_locked(uint64_t host) {
  for (list **link = &lists; *link != NULL; link = &(*link)->next) {
    list *l = *link;
    if (l->host != host) continue;
    *link = l->next;
    return l;
  }
  return NULL;
}

void nx_quarantine_free(uint64_t host) {
  pthread_mutex_lock(&lists_lock);
  list *l = unlink_locked(host);
  pthread_mutex_unlock(&lists_lock);
  if (l == NULL) return;
  for (page *p = l->first; p != NULL;) {
    page *next = p->next;
    free(p);
    p = next;
  }
  free(l);
}

/* Copy from number `first` on; returns how many. */
static uint32_t copy_locked(const list *l, uint64_t first, nxmem_quarantined *out, uint32_t room) {
  const page *p = l->first;
  for (uint64_t skipped = PAGE_RECORDS; skipped <= first && p != NULL; skipped += PAGE_RECORDS) p = p->next;
  uint32_t copied = 0;
  for (uint64_t i = first; i < l->count && copied < room; i++) {
    out[copied++] = p->records[i % PAGE_RECORDS];
    if (i % PAGE_RECORDS == PAGE_RECORDS - 1) p = p->next;
  }
  return copied;
}

nxmem_result nxmem_host_quarantine(nxmem_host handle, uint64_t first, nxmem_quarantined *out, uint32_t room,
                                   uint32_t *count_out, uint64_t *total_out, nxmem_error *error) {
  if (count_out == NULL || (out == NULL && room != 0))
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "list quarantine: out or count_out is NULL");
  nx_host *host = NULL;
  const nxmem_result found = nx_host_find(handle, &host, error);
  if (found != NXMEM_OK) return found;
  pthread_mutex_lock(&lists_lock);
  const list *l = find_locked(handle.id);
  const uint64_t total = l == NULL ? 0 : l->count;
  *count_out = first < total ? copy_locked(l, first, out, room) : 0;
  pthread_mutex_unlock(&lists_lock);
  if (total_out != NULL) *total_out = total;
  return NXMEM_OK;
}
