/*
 * pin.h: users of a live object: calls that need it to stay, several at once.
 *
 * Attackers: callers with stale handles, on many threads; a plugin that calls back from inside such a call.
 * Promise: an object with users is claimed by nobody; the users never overflow; whoever leaves last knows whether
 * users ever met in it.
 *
 * The 24 bits of a word that count users (handle.h) hold 23 bits of pins and, above them, one that says that pins met:
 * one came while another was there, or one left something open. The last to leave finds it, settles what no single one
 * of them could know, and takes it away with itself. A word without pins never has it.
 */
#ifndef NXMEM_PIN_H
#define NXMEM_PIN_H

#include "nxmem/handle.h"
#include "nxmem/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NXMEM_PINS_MAX = 0x7FFFFF };

#ifdef __FRAMAC__
/* clang-format off */
#define NX_WORD_PINS(w) ((w) / 256 % 8388608)
#define NX_WORD_MET(w) ((w) / 2147483648 % 2)
/* clang-format on */
#endif
/*@ assigns \nothing;
    ensures exact: \result == NX_WORD_PINS(word);
    ensures bounded: \result <= NXMEM_PINS_MAX; */
uint32_t nxmem_word_pins(uint64_t word);

/*
 * May the object that `handle` names be pinned through this word? STALE_HANDLE (another generation), WRONG_STATE (not
 * LIVE), TOO_MANY_USERS.
 */
/*@ assigns \nothing;
    behavior stale:
      assumes moved_on: !NX_SAME_GENERATION(word, handle);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_STALE_HANDLE, 0, handle / NX_TWO_32,
                                     NX_WORD_GENERATION(word));
    behavior not_live:
      assumes present: NX_SAME_GENERATION(word, handle);
      assumes other_state: NX_WORD_STATE(word) != NXMEM_SLOT_LIVE;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_WRONG_STATE, 0, NX_WORD_STATE(word), NXMEM_SLOT_LIVE);
    behavior full:
      assumes present: NX_SAME_GENERATION(word, handle);
      assumes live: NX_WORD_STATE(word) == NXMEM_SLOT_LIVE;
      assumes no_room: NX_WORD_PINS(word) == NXMEM_PINS_MAX;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TOO_MANY_USERS, 0, NXMEM_PINS_MAX, NXMEM_PINS_MAX - 1);
    behavior pinnable:
      assumes present: NX_SAME_GENERATION(word, handle);
      assumes live: NX_WORD_STATE(word) == NXMEM_SLOT_LIVE;
      assumes room: NX_WORD_PINS(word) != NXMEM_PINS_MAX;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_pin(uint64_t word, uint64_t handle);

/* The word with one pin more; where there was one already, they have met. */
/*@ requires room: NX_WORD_PINS(word) < NXMEM_PINS_MAX;
    assigns \nothing;
    ensures generation: NX_WORD_GENERATION(\result) == NX_WORD_GENERATION(word);
    ensures state: NX_WORD_STATE(\result) == NX_WORD_STATE(word);
    ensures one_more: NX_WORD_PINS(\result) == NX_WORD_PINS(word) + 1;
    behavior first:
      assumes alone: NX_WORD_PINS(word) == 0;
      ensures mark: NX_WORD_MET(\result) == NX_WORD_MET(word);
    behavior joins:
      assumes others: NX_WORD_PINS(word) != 0;
      ensures mark: NX_WORD_MET(\result) == 1;
    complete behaviors;
    disjoint behaviors; */
uint64_t nxmem_word_pinned(uint64_t word);

/* The word with one pin fewer; the last takes the mark that they met with it. */
/*@ requires pinned: NX_WORD_PINS(word) > 0;
    assigns \nothing;
    ensures generation: NX_WORD_GENERATION(\result) == NX_WORD_GENERATION(word);
    ensures state: NX_WORD_STATE(\result) == NX_WORD_STATE(word);
    ensures one_fewer: NX_WORD_PINS(\result) == NX_WORD_PINS(word) - 1;
    behavior last:
      assumes alone: NX_WORD_PINS(word) == 1;
      ensures no_mark: NX_WORD_MET(\result) == 0;
    behavior leaves:
      assumes others: NX_WORD_PINS(word) > 1;
      ensures mark: NX_WORD_MET(\result) == NX_WORD_MET(word);
    complete behaviors;
    disjoint behaviors; */
uint64_t nxmem_word_unpinned(uint64_t word);

/* 1 where the one pin that is left has something to settle before it leaves. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_WORD_PINS(word) == 1 && NX_WORD_MET(word) == 1; */
int nxmem_pin_must_settle(uint64_t word);

/* 1 where there is one pin and no mark: since it was taken away nobody came. */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> NX_WORD_PINS(word) == 1 && NX_WORD_MET(word) == 0; */
int nxmem_pin_is_alone(uint64_t word);

/* The word with, and without, the mark; all else stays. */
/*@ assigns \nothing;
    ensures exact: \result == word + (1 - NX_WORD_MET(word)) * 2147483648;
    ensures marked: NX_WORD_MET(\result) == 1; */
uint64_t nxmem_word_met(uint64_t word);
/*@ assigns \nothing;
    ensures exact: \result == word - NX_WORD_MET(word) * 2147483648;
    ensures unmarked: NX_WORD_MET(\result) == 0; */
uint64_t nxmem_word_unmet(uint64_t word);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_PIN_H */
