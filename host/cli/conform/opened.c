/*
 * opened.c: an allocator as a host opens it.
 * Attackers: the plugin: its table, and the tables behind that one.
 * Promise: what cannot be read stays zero; what fails on the way ends the trial as "could not tell".
 */
#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "conform/plugin.h"
#include "nxmem.h"
#include "nxmem/capability.h"

enum { OPEN_REQUEST_BYTES = 32 };

/* ---- Opening ---------------------------------------------------------------------------------------------------- */

NxmemAllocatorFactoryVtable nx_target_factory(nx_trial *trial) {
  NxmemAllocatorFactoryVtable table;
  uint32_t declared;
  NX_GIVEN(trial->target->index < trial->entry_count, "factory %" PRIu32 " is not listed again", trial->target->index);
  nxmem_verdict verdict = nx_read_factory_table(trial->entries[trial->target->index], &table, &declared);
  NX_GIVEN(verdict.reason == NXMEM_REASON_NONE, "the factory: %s", nx_verdict_words(verdict));
  NX_GIVEN(table.open_allocator, "the factory has no open_allocator");
  return table;
}

NxmemOpenRequest nx_open_request(nx_trial *trial, const NxmemAllocatorFactoryVtable *factory) {
  return (NxmemOpenRequest){OPEN_REQUEST_BYTES, trial->minor, factory->device, NXMEM_CAP_ALLOCATOR,
                            &nx_default_log()->table};
}

/* What cannot be read stays zero. */
static void read_capability_tables(nx_opened *out) {
  uint32_t ceiling = out->trial->minor;
  if (out->caps & NXMEM_CAP_VIRTUAL_BACKING) nx_read_backing_table(out->table.virtual_backing, ceiling, &out->backing);
  if (out->caps & NXMEM_CAP_SHARED_MAPPING) nx_read_sharing_table(out->table.shared_mapping, ceiling, &out->sharing);
}

nxmem_verdict nx_opened_read(nx_trial *trial, const NxmemAllocatorVtable *published, nx_opened *out) {
  *out = (nx_opened){.trial = trial, .published = published};
  nxmem_verdict verdict = nx_read_allocator_table(published, trial->minor, &out->table, &out->declared_minor);
  if (verdict.reason != NXMEM_REASON_NONE) return verdict;
  out->caps = nxmem_caps_effective(out->table.capability_flags, trial->caps, out->table.abi_minor);
  read_capability_tables(out);
  return verdict;
}

nx_opened nx_open_once(nx_trial *trial, nx_callback_log *log) {
  NxmemAllocatorFactoryVtable factory = nx_target_factory(trial);
  NxmemOpenRequest request = nx_open_request(trial, &factory);
  const NxmemAllocatorVtable *published = NULL;
  nx_opened opened;
  if (log) request.callbacks = &log->table;
  nx_enter("open_allocator");
  NxmemStatus status = factory.open_allocator(factory.ctx, &request, &published);
  nx_given_ok(status, "open_allocator");
  nxmem_verdict verdict = nx_opened_read(trial, published, &opened);
  NX_GIVEN(verdict.reason == NXMEM_REASON_NONE, "the allocator's table: %s", nx_verdict_words(verdict));
  return opened;
}

nx_opened nx_open_ready(nx_trial *trial) {
  nx_plugin_ready(trial);
  nx_opened opened = nx_open_once(trial, NULL);
  uint64_t wanted = trial->rule->capability;
  if ((opened.caps & wanted) != wanted) nx_does_not_apply("the mechanism does not have the capability");
  return opened;
}

void nx_close(nx_opened *opened) {
  nx_enter("release");
  NX_GIVEN(opened->table.release, "there is no release slot");
  opened->table.release(opened->table.ctx);
}
