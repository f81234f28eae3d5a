/*
 * records.h: what every slot does with the records it is given: judged before anything is touched, written within their room.
 *
 * Attackers: a host with short, NULL, misaligned, stale or foreign records, of any version.
 * Promise: no byte is read or written beyond what the host declared; every status has its text and nothing behind it.
 */
#ifndef NX_VMM_RECORDS_H
#define NX_VMM_RECORDS_H

#include "engine.h"

enum {
  NX_ALLOC_REQUEST_BYTES = 64,
  NX_ALLOC_RESULT_BYTES = 32,
  NX_ALLOCATION_BYTES = 56,
  NX_RANGE_REQUEST_BYTES = 80,
  NX_OUTCOME_BYTES = 296,
  NX_OPEN_REQUEST_BYTES = 32,
  NX_CALLBACKS_BYTES = 32,
  NX_HANDLE_BYTES = 64,
  NX_COMMIT_REQUEST_BYTES = 136,
  NX_COMMIT_INFO_BYTES = 32,
  NX_UNLOAD_REPORT_BYTES = 48
};

NxmemStatus nx_ok(void);
NxmemStatus nx_status(uint32_t code, const char *text);
/* nx_ok() for OK; else what the device last said, where the code is one of the device's, behind the text. */
NxmemStatus nx_told(nx_engine *engine, uint32_t code, const char *text);
/* The same, and what could not be undone. */
NxmemStatus nx_told_loss(nx_engine *engine, uint32_t code, const char *text, const nx_loss *loss);

/* The same where `bytes` could not be had: how many were needed, and what the arena has left in one piece. */
NxmemStatus nx_told_need(nx_engine *engine, uint32_t code, const char *text, uint64_t bytes, const nx_loss *loss);

/* What a check says: a status is 264 bytes, and most calls pass several checks. `text` is not freed. */
typedef struct nx_said {
  uint32_t code; /* NXMEM_STATUS_...; OK: go on */
  const char *text;
} nx_said;
static inline nx_said nx_fine(void) { return (nx_said){NXMEM_STATUS_OK, NULL}; }
static inline nx_said nx_say(uint32_t code, const char *text) { return (nx_said){code, text}; }
static inline int nx_failed(nx_said said) { return said.code != NXMEM_STATUS_OK; }
NxmemStatus nx_refused(nx_said said);

int nx_unusable(const void *record);

/* A forked child, a NULL ctx, NULL or misaligned records: what each slot refuses before it looks at anything. `second` may be the first again. */
nx_said nx_check_call(const void *ctx, const void *first, const void *second);

/* Mechanism before device. */
nx_said nx_check_owner(const nx_engine *engine, uint64_t mechanism_id, NxmemDeviceId device);
nx_said nx_check_allocation(const nx_engine *engine, const NxmemAllocation *allocation);

/* The block that an allocation names, number by number: 0 and *out, or why not. */
uint32_t nx_find_block_locked(const nx_engine *engine, const NxmemAllocation *allocation, nx_block **out);
/* The same; BUSY where its release is queued. */
uint32_t nx_find_live_locked(const nx_engine *engine, const NxmemAllocation *allocation, nx_block **out);

/* No lock held: pools on the device are emptied and the host is asked for memory. */
void nx_relieve(nx_engine *engine, uint64_t bytes);

#endif /* NX_VMM_RECORDS_H */
