/*
 * plugin.h: the way to a plugin's slots, each step as an honest host takes it.
 * Attackers: the plugin: tables that lie or lead nowhere. They are copied, and the core judges the copy.
 * Promise: what fails on the way ends the trial with "could not tell": the rule about that step says what was wrong.
 */
#ifndef NXMEM_CONFORM_PLUGIN_H
#define NXMEM_CONFORM_PLUGIN_H

#include "conform/trial.h"
#include "nxmem/verdict.h"

/* ---- Reading the plugin's memory (read.c) ----------------------------------------------------------------------- */

/* Copy up to `bytes`; returns how many were readable from the start. Never faults. */
size_t nx_read_memory(void *out, const void *from, size_t bytes);

/* Whether memory keeps its content for some milliseconds. */
int nx_stands_still(const void *memory, size_t bytes);

/* The verdicts of the core's readers, on a copy of what is readable. */
nxmem_verdict nx_read_factory_table(const void *from, NxmemAllocatorFactoryVtable *out, uint32_t *declared_minor);
nxmem_verdict nx_read_allocator_table(const void *from, uint32_t ceiling, NxmemAllocatorVtable *out,
                                      uint32_t *declared_minor);
nxmem_verdict nx_read_backing_table(const void *from, uint32_t ceiling, NxmemVirtualBackingVtable *out);
nxmem_verdict nx_read_sharing_table(const void *from, uint32_t ceiling, NxmemSharedMappingVtable *out);

/* A name and its verdict. */
nxmem_verdict nx_read_name(const uint8_t *from, uint8_t out[256]);

/* "SHORT_TABLE: found 48, needed 56" in words. */
const char *nx_verdict_words(nxmem_verdict verdict);

/* ---- Module ------------------------------------------------------------------------------------------------------ */

void nx_plugin_load(nx_trial *trial);

NxmemNegotiateRequest nx_plugin_offer(void);
NxmemNegotiateResponse nx_plugin_room(void);

/* Load and negotiate; then list the factories as well. */
void nx_plugin_negotiate(nx_trial *trial);
void nx_plugin_ready(nx_trial *trial);
void nx_plugin_enumerate(nx_trial *trial);
void nx_plugin_release_factories(nx_trial *trial);

/* Every count is written; the raw one may be anything. */
NxmemUnloadReport nx_plugin_report(nx_trial *trial);
NxmemUnloadReport nx_plugin_raw_report(nx_trial *trial);

/* Fails where any count differs; `after` names what happened in between. */
void nx_same_counts(nx_trial *trial, const NxmemUnloadReport *before, const char *after);

/* The sum of all counts: 0 when all was given back. */
uint64_t nx_all_counts(const NxmemUnloadReport *report);

/* A check like any other, which writes the mechanisms to the board. */
void nx_plugin_list_targets(nx_trial *trial, const void *with);

/* ---- An allocator ------------------------------------------------------------------------------------------------ */

typedef struct nx_opened {
  nx_trial *trial;
  const NxmemAllocatorVtable *published;
  NxmemAllocatorVtable table; /* clamped to the agreed minor */
  uint32_t declared_minor;
  uint64_t caps; /* effective */
  NxmemVirtualBackingVtable backing;
  NxmemSharedMappingVtable sharing;
} nx_opened;

/* ---- The host's callbacks (callbacks.c) -------------------------------------------------------------------------- */

enum { NX_COMPLETIONS_KEPT = 512, NX_RECLAIMS_KEPT = 64, NX_WORDS_BYTES = 128 };

/* What one table of callbacks was told. Only whole records are kept; the rest is counted as malformed. */
typedef struct nx_callback_log {
  NxmemHostCallbacks table;
  _Atomic uint64_t calls;
  _Atomic uint64_t reclaims;
  _Atomic uint64_t completions;
  _Atomic uint64_t malformed_reclaims;
  _Atomic uint64_t malformed_completions;
  _Atomic uint64_t unsteady; /* records that changed while they were read */
  char malformed[NX_WORDS_BYTES];
  NxmemReclaimRequest asked[NX_RECLAIMS_KEPT];
  NxmemReleaseCompletion kept[NX_COMPLETIONS_KEPT];
  void (*inside)(void *with); /* called from inside every callback; NULL: nothing */
  void *with;
} nx_callback_log;

/* The log stays registered for the rest of the child. */
void nx_callbacks_begin(nx_callback_log *log);

/* The one that an open gets that names none. */
nx_callback_log *nx_default_log(void);

/* Calls with a host_ctx that no open was given. */
uint64_t nx_foreign_calls(void);

/* Whether the host answers that it gave up what was asked for (the default), or nothing. */
void nx_host_is_generous(int generous);

/* From here on the first records of each log are watched for changes while the plugin waits for the answer. */
void nx_host_watches(void);

/* The factory that the trial is about, copied. */
NxmemAllocatorFactoryVtable nx_target_factory(nx_trial *trial);
NxmemOpenRequest nx_open_request(nx_trial *trial, const NxmemAllocatorFactoryVtable *factory);

/* nx_plugin_ready() and one open; ends the trial as not applicable where the rule's capability is not effective. */
nx_opened nx_open_ready(nx_trial *trial);

/* One more open. `log` may be NULL: the default one. */
nx_opened nx_open_once(nx_trial *trial, nx_callback_log *log);
void nx_close(nx_opened *opened);

/* Read a published table as an opened allocator; nothing is judged. */
nxmem_verdict nx_opened_read(nx_trial *trial, const NxmemAllocatorVtable *published, nx_opened *out);

#endif /* NXMEM_CONFORM_PLUGIN_H */
