/*
 * handle.h: slot and generation: does this handle name a live object?
 *
 * Attackers: a caller with a stale or made-up handle; a plugin that returns an invented host_ctx or allocation id.
 * Promise: a handle is never 0 and never names a slot whose generation has moved on; a slot whose generation would wrap is retired.
 *
 * A handle is generation * 2^32 + slot + 1. A slot's word is generation * 2^32 + users * 2^8 + state, so that one compare-and-swap
 * changes all three.
 */
#ifndef NXMEM_HANDLE_H
#define NXMEM_HANDLE_H

#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NXMEM_USERS_MAX = 0xFFFFFF };

/* States of a slot. Which of them a table uses stands at that table. */
typedef enum nxmem_slot_state {
  NXMEM_SLOT_FREE = 0,
  NXMEM_SLOT_ALLOCATING = 1, /* claimed; the plugin is being asked */
  NXMEM_SLOT_LIVE = 2,
  NXMEM_SLOT_RELEASING = 3,
  NXMEM_SLOT_QUARANTINED = 4,
  NXMEM_SLOT_RETIRED = 5 /* its generation is used up; never handed out again */
} nxmem_slot_state;

/* slot below 2^32 - 1. */
uint64_t nxmem_handle_make(uint32_t slot, uint32_t generation);
uint32_t nxmem_handle_generation(uint64_t handle);

/* The slot a handle names, or UINT32_MAX for one that names none (0, or no slot part). */
uint32_t nxmem_handle_slot(uint64_t handle);

/* users at most NXMEM_USERS_MAX, state at most 255. */
uint64_t nxmem_word_make(uint32_t generation, uint32_t users, uint32_t state);
uint32_t nxmem_word_generation(uint64_t word);
uint32_t nxmem_word_users(uint64_t word);
uint32_t nxmem_word_state(uint64_t word);

/*
 * May the object that `handle` names be taken through this word? STALE_HANDLE (another generation), WRONG_STATE (not LIVE), IN_USE (users inside).
 */
nxmem_verdict nxmem_check_claim(uint64_t word, uint64_t handle);

/* The word of a slot that becomes free: the next generation and FREE, or RETIRED with the same one where it would wrap. */
uint64_t nxmem_word_freed(uint64_t word);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_HANDLE_H */
