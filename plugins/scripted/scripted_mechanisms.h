/*
 * scripted_mechanisms.h: the groups of rows that the scripted modules publish.
 *
 * Attackers: none.
 * Promise: a group is a table of named rows; which module has which groups stands in CMakeLists.txt.
 */
#ifndef NXMEM_SCRIPTED_MECHANISMS_H
#define NXMEM_SCRIPTED_MECHANISMS_H

#include "scripted_base.h"

typedef struct nx_row_group {
  const nx_mechanism *rows;
  uint32_t count;
} nx_row_group;

/* What most rows begin with: an honest table of our own level. */
#define NX_HONEST(row_name, flags)                                                                                 \
  .name = (row_name), .abi_minor = NX_MINOR, .struct_size = NX_ALLOCATOR_BYTES, .table_bytes = NX_ALLOCATOR_BYTES, \
  .capability_flags = (flags)

/* What rows about queued releases offer: no backing, no sharing, blocks of the heap. */
#define NX_DEFERRED_CAPS (NX_CAPS | NXMEM_CAP_DEFERRED_RELEASE)

#define NX_ROWS(table) \
  { (table), sizeof(table) / sizeof((table)[0]) }

extern const nx_row_group nx_honest_rows; /* scripted_honest.c: eager and lazy */
extern const nx_row_group nx_table_rows;  /* scripted_tables.c: tables and opens that are not what they claim */
extern const nx_row_group nx_answer_rows; /* scripted_answers.c: honest tables whose slots answer falsely */
extern const nx_row_group
    nx_callback_rows; /* scripted_callbacks.c: calls into the host, at the right and the wrong time */
extern const nx_row_group nx_deferred_rows; /* scripted_deferred.c: queues with a will of their own */
extern const nx_row_group
    nx_completion_rows;                   /* scripted_completions.c: completions that must not settle, or otherwise */
extern const nx_row_group nx_queue_rows;  /* scripted_queues.c: enqueues, drains and counts that are not true */
extern const nx_row_group nx_misuse_rows; /* scripted_misuse.c: callbacks called wrongly */
extern const nx_row_group nx_reentrant_rows;  /* scripted_reentrant.c: callbacks called from everywhere */
extern const nx_row_group nx_racing_rows;     /* scripted_racing.c: records that a thread of the plugin writes on to */
extern const nx_row_group nx_commit_rows;     /* scripted_commits.c: virtual backing that answers falsely */
extern const nx_row_group nx_sharing_rows;    /* scripted_sharing.c: shared mapping that answers falsely */
extern const nx_row_group nx_capability_rows; /* scripted_capabilities.c: tables, flags and slots that do not fit */
extern const nx_row_group nx_address_rows;    /* scripted_addresses.c: addresses, results and refunds that cannot be */
extern const nx_row_group nx_size_rows;       /* scripted_sizes.c: headers at the edge of what may be */
extern const nx_row_group
    nx_fatal_rows; /* scripted_fatal.c: ends of the process, and what no host can defend against */
extern const nx_row_group nx_idle_drain_rows;     /* scripted_poison.c: claims to retire, and does not */
extern const nx_row_group nx_sticky_rows;         /* scripted_poison.c: never drains */
extern const nx_row_group nx_self_retaining_rows; /* scripted_poison.c: never ends */

#endif /* NXMEM_SCRIPTED_MECHANISMS_H */
