/*
 * completion.h: a queued release settles exactly once.
 *
 * Attackers: a plugin that completes twice, completes what was never queued or belongs to another allocator, names a
 * ticket of its own invention, hands over a short record or rewrites it while it is judged; one that fails an enqueue
 * it has completed.
 * Promise: only an outstanding record of the right owner, mechanism, generation and ticket settles; whatever else
 * arrives changes nothing; a close never drains without end.
 *
 * A slot's word is LIVE, then QUEUING while the plugin is in enqueue_release, then QUEUED under the ticket it gave.
 * Judge a word as it was loaded and change it by one compare-and-swap from that very value, step P1 of
 * proofs/models/close_completion.pml: then two completions of one release cannot both win. While its enqueue runs a
 * record has no ticket yet, so a completion is matched by its allocation alone. Count the thread that enqueues as a
 * user of the slot: a completion that ends in LIVE meanwhile then leaves a slot that nobody can claim before the
 * enqueue has returned.
 */
#ifndef NXMEM_COMPLETION_H
#define NXMEM_COMPLETION_H

#include "nxmem/handle.h"
#include "nxmem/outcome.h"
#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NXMEM_COMPLETION_BYTES = 328 };

/* What the host knows of a release that may be outstanding. */
typedef struct nxmem_release_record {
  uint64_t word;          /* of the allocation's slot */
  uint64_t allocation_id; /* the handle under which the plugin was asked to release it */
  uint64_t owner;         /* the host's own identity of the allocator; mechanism ids of two modules may be equal */
  uint64_t mechanism_id;
  uint64_t ticket; /* means something only while the word is QUEUED */
} nxmem_release_record;

#ifdef __FRAMAC__
/* clang-format off */
#define NX_COMPLETION_READABLE(p) \
  (\valid_read(&(p)->struct_size) && ((p)->struct_size >= 328 ==> \valid_read(p)))

/* A completion c, brought by `who`, against the record r: each word one step further than the one before. */
#define NX_COMPLETES_1(c, r) ((c)->allocation_id == (r)->allocation_id)
#define NX_COMPLETES_2(c, r) (NX_COMPLETES_1(c, r) && NX_SAME_GENERATION((r)->word, (c)->allocation_id))
#define NX_COMPLETES_3(c, r, who) (NX_COMPLETES_2(c, r) && (r)->owner == (who))
#define NX_COMPLETES_4(c, r, who) (NX_COMPLETES_3(c, r, who) && (c)->mechanism_id == (r)->mechanism_id)
#define NX_OUTSTANDING(word) \
  (NX_WORD_STATE(word) == NXMEM_SLOT_QUEUING || NX_WORD_STATE(word) == NXMEM_SLOT_QUEUED)
#define NX_COMPLETES_5(c, r, who) (NX_COMPLETES_4(c, r, who) && NX_OUTSTANDING((r)->word))
#define NX_TICKET_FITS(c, r) (NX_WORD_STATE((r)->word) == NXMEM_SLOT_QUEUING || (c)->ticket == (r)->ticket)
#define NX_SETTLES(c, r, who) (NX_COMPLETES_5(c, r, who) && NX_TICKET_FITS(c, r))

/* The answer to one that does not settle. */
#define NX_COMPLETION_REFUSED(v, c, r, who) \
  ((!NX_COMPLETES_1(c, r) ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_UNKNOWN_ALLOCATION, 24, (c)->allocation_id, (r)->allocation_id)) && \
   (NX_COMPLETES_1(c, r) && !NX_COMPLETES_2(c, r) ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_STALE_HANDLE, 24, (c)->allocation_id / NX_TWO_32, NX_WORD_GENERATION((r)->word))) && \
   (NX_COMPLETES_2(c, r) && !NX_COMPLETES_3(c, r, who) ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_OTHER_OWNER, 24, who, (r)->owner)) && \
   (NX_COMPLETES_3(c, r, who) && !NX_COMPLETES_4(c, r, who) ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_OTHER_MECHANISM, 16, (c)->mechanism_id, (r)->mechanism_id)) && \
   (NX_COMPLETES_4(c, r, who) && !NX_COMPLETES_5(c, r, who) ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_NOT_QUEUED, 24, NX_WORD_STATE((r)->word), NXMEM_SLOT_QUEUED)) && \
   (NX_COMPLETES_5(c, r, who) && !NX_TICKET_FITS(c, r) ==> \
    NX_VERDICT_IS(v, NXMEM_REASON_OTHER_TICKET, 8, (c)->ticket, (r)->ticket)))

/* Users that a word keeps when a completion wins it. */
#define NX_USERS_WON(word) (NX_WORD_STATE(word) == NXMEM_SLOT_QUEUING ? NX_WORD_USERS(word) : 0)

#define NX_STILL_QUEUING(word, id) (NX_SAME_GENERATION(word, id) && NX_WORD_STATE(word) == NXMEM_SLOT_QUEUING)

/* What status and state of a completion say. */
#define NX_SAYS_GONE(code, state) ((code) == 0 && (state) == 0)
#define NX_SAYS_LIVE(code, state) ((code) != 12 && (state) == 2)

/* The slot that a completion names, where a table of `count` records has it. */
#define NX_SLOT_OF(c) ((c)->allocation_id % NX_TWO_32 - 1)
#define NX_IN_TABLE(c, count) (0 <= NX_SLOT_OF(c) < (count))
/*
 * The word of that slot at entry. Asked for at each entry by who runs the contract, also where the table ends before
 * it.
 */
#define NX_WORD_BEFORE(r, count, c) (\old(NX_IN_TABLE(c, count) ? (r)[NX_SLOT_OF(c)].word : 0))
/* clang-format on */
#endif
/*
 * Copy a completion that the plugin may still be writing, each field once. NULL_POINTER, MISALIGNED,
 * SHORT_COMPLETION: of a record that says less than its full size nothing more is looked at. *out is written only on
 * acceptance. The size of the outcome inside is copied and not judged: the outer one covers it.
 */
#ifdef NXMEM_QUIET_WORLD
/*@ requires src_readable: NX_USABLE(src) ==> NX_COMPLETION_READABLE(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out);
    assigns *out;
    behavior unreadable:
      assumes refusable: !(NX_USABLE(src) && src->struct_size >= 328);
      assigns \nothing;
      ensures null_pointer: \old(NX_ADDRESS(src)) == 0 ==> NX_VERDICT_IS(\result, NXMEM_REASON_NULL_POINTER, 0, 0, 0);
      ensures misaligned: \old(NX_ADDRESS(src)) % 8 != 0 ==>
                          NX_VERDICT_IS(\result, NXMEM_REASON_MISALIGNED, 0, \old(NX_ADDRESS(src)) % 8, 8);
      ensures short_completion: \old(NX_USABLE(src)) ==>
                                NX_VERDICT_IS(\result, NXMEM_REASON_SHORT_COMPLETION, 0, src->struct_size, 328);
    behavior whole:
      assumes readable: NX_USABLE(src) && src->struct_size >= 328;
      ensures accepted: NX_ACCEPTED(\result);
      ensures header: out->struct_size == src->struct_size && out->reserved == 0;
      ensures ticket: out->ticket == src->ticket;
      ensures mechanism_id: out->mechanism_id == src->mechanism_id;
      ensures allocation_id: out->allocation_id == src->allocation_id;
      ensures outcome_size: out->outcome.struct_size == src->outcome.struct_size;
      ensures state: out->outcome.state == src->outcome.state;
      ensures allocation_bytes: out->outcome.allocation_bytes == src->outcome.allocation_bytes;
      ensures unmapped_bytes: out->outcome.unmapped_bytes == src->outcome.unmapped_bytes;
      ensures residual_owned_bytes: out->outcome.residual_owned_bytes == src->outcome.residual_owned_bytes;
      ensures failure_code: out->outcome.failure.code == src->outcome.failure.code;
      ensures failure_text: NX_MESSAGE_ENDED(&out->outcome.failure);
      ensures failure_copied: NX_MESSAGE_TAKEN(&out->outcome.failure, &src->outcome.failure);
    complete behaviors;
    disjoint behaviors; */
#else
/*@ requires src_readable: NX_USABLE(src) ==> \valid_read(src);
    requires out_writable: \valid(out);
    requires apart: \separated(src, out, &NX_LEDGER);
    requires fresh: NX_NOTHING_LOADED_FROM(0);
    assigns *out, NX_LEDGER;
    ensures reason: \result.reason == NXMEM_REASON_NONE || \result.reason == NXMEM_REASON_NULL_POINTER ||
                    \result.reason == NXMEM_REASON_MISALIGNED || \result.reason == NXMEM_REASON_SHORT_COMPLETION;
    ensures null_pointer: \result.reason == NXMEM_REASON_NULL_POINTER <==> NX_ADDRESS(src) == 0;
    ensures misaligned: \result.reason == NXMEM_REASON_MISALIGNED <==> NX_ADDRESS(src) % 8 != 0;
    ensures numbers: NX_ADDRESS_NUMBERS(\result, src);
    ensures unread: \result.reason == NXMEM_REASON_NULL_POINTER || \result.reason == NXMEM_REASON_MISALIGNED ==>
                    NX_NOTHING_LOADED_FROM(0);
    ensures short_completion: \result.reason == NXMEM_REASON_SHORT_COMPLETION ==>
                              \result.field == 0 && \result.found < 328 && \result.needed == 328 &&
                              NX_NOTHING_LOADED_FROM(4);
    ensures kept: \result.reason != NXMEM_REASON_NONE ==> *out == \old(*out);
    ensures size: \result.reason == NXMEM_REASON_NONE ==> out->struct_size >= 328 && out->reserved == 0;
    ensures failure_text: \result.reason == NXMEM_REASON_NONE ==> NX_MESSAGE_ENDED(&out->outcome.failure);
    ensures loads: \result.reason == NXMEM_REASON_NONE ==>
                   NX_LOADED(0) && NX_LOADED(8) && NX_LOADED(16) && NX_LOADED(24) && NX_LOADED(32) && NX_LOADED(36) &&
                   NX_LOADED(40) && NX_LOADED(48) && NX_LOADED(56) && !NX_LOADED(4);
    ensures no_more_loads: \forall integer k; 57 <= k < NX_STATUS_AT ==> !NX_LOADED(k);
    ensures status_loads: \result.reason == NXMEM_REASON_NONE ==> NX_STATUS_LOADED(&out->outcome.failure); */
#endif
nxmem_verdict nxmem_completion_take(NXMEM_UNTRUSTED NxmemReleaseCompletion *src, NxmemReleaseCompletion *out);

/*
 * Does a completion settle the record?
 *
 * owner  The host's own identity of the allocator through which the completion came.
 *
 * UNKNOWN_ALLOCATION (another record's), STALE_HANDLE (the slot has moved on: it was settled before), OTHER_OWNER,
 * OTHER_MECHANISM, NOT_QUEUED (a duplicate, or never queued), OTHER_TICKET. Whether the allocator is being closed
 * plays no part: what is outstanding settles.
 */
/*@ requires completion_readable: \valid_read(completion);
    requires record_readable: \valid_read(record);
    assigns \nothing;
    behavior unknown_allocation:
      assumes other: !NX_COMPLETES_1(completion, record);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_UNKNOWN_ALLOCATION, 24, completion->allocation_id,
                                     record->allocation_id);
    behavior stale:
      assumes known: NX_COMPLETES_1(completion, record);
      assumes moved_on: !NX_SAME_GENERATION(record->word, completion->allocation_id);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_STALE_HANDLE, 24, completion->allocation_id / NX_TWO_32,
                                     NX_WORD_GENERATION(record->word));
    behavior other_owner:
      assumes present: NX_COMPLETES_2(completion, record);
      assumes stranger: record->owner != owner;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OTHER_OWNER, 24, owner, record->owner);
    behavior other_mechanism:
      assumes owned: NX_COMPLETES_3(completion, record, owner);
      assumes other: completion->mechanism_id != record->mechanism_id;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OTHER_MECHANISM, 16, completion->mechanism_id,
                                     record->mechanism_id);
    behavior not_queued:
      assumes identified: NX_COMPLETES_4(completion, record, owner);
      assumes settled_or_never: !NX_OUTSTANDING(record->word);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_NOT_QUEUED, 24, NX_WORD_STATE(record->word),
                                     NXMEM_SLOT_QUEUED);
    behavior other_ticket:
      assumes outstanding: NX_COMPLETES_5(completion, record, owner);
      assumes other: !NX_TICKET_FITS(completion, record);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_OTHER_TICKET, 8, completion->ticket, record->ticket);
    behavior settles:
      assumes matches: NX_SETTLES(completion, record, owner);
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_judge_completion(const NxmemReleaseCompletion *completion, const nxmem_release_record *record,
                                     uint64_t owner);

/*
 * What a completion that settles makes of the allocation: its status and the state it wrote. Like
 * nxmem_judge_release, except that a state left at all ones is no sign of "not written" here, the record is the
 * plugin's own: it is unknown, and that is quarantine. FAILED is live again, and may be released or queued anew.
 */
/*@ assigns \nothing;
    behavior gone:
      assumes complete_release: NX_SAYS_GONE(status_code, state);
      ensures fate: \result == NXMEM_FATE_GONE;
    behavior live:
      assumes nothing_changed: NX_SAYS_LIVE(status_code, state);
      ensures fate: \result == NXMEM_FATE_LIVE;
    behavior quarantined:
      assumes doubtful: !NX_SAYS_GONE(status_code, state) && !NX_SAYS_LIVE(status_code, state);
      ensures fate: \result == NXMEM_FATE_QUARANTINED;
    complete behaviors;
    disjoint behaviors; */
nxmem_release_fate nxmem_completion_fate(uint32_t status_code, uint32_t state);

/*
 * The word of a record whose completion has won it, RELEASING: nobody else's from now on, but for the thread that may
 * still be enqueuing it. That one is the user of a word that is QUEUING; what stands there in a QUEUED word is the
 * round by which a host tells its words apart, and no user who would ever leave.
 */
/*@ assigns \nothing;
    ensures same_generation: NX_WORD_GENERATION(\result) == NX_WORD_GENERATION(word);
    ensures users: NX_WORD_USERS(\result) == NX_USERS_WON(word);
    ensures releasing: NX_WORD_STATE(\result) == NXMEM_SLOT_RELEASING;
    ensures exact: \result == NX_WORD_GENERATION(word) * NX_TWO_32 + NX_USERS_WON(word) * 256 + NXMEM_SLOT_RELEASING; */
uint64_t nxmem_word_won(uint64_t word);

/*
 * The word of a slot whose release has settled, from the one that was won: freed (nxmem_word_freed), LIVE with the
 * users it has, or QUARANTINED without any.
 */
/*@ requires fate_exists: fate == NXMEM_FATE_GONE || fate == NXMEM_FATE_LIVE || fate == NXMEM_FATE_QUARANTINED;
    assigns \nothing;
    behavior next_generation:
      assumes gone: fate == NXMEM_FATE_GONE;
      assumes room: NX_WORD_GENERATION(word) < 4294967295;
      ensures exact: \result == (NX_WORD_GENERATION(word) + 1) * NX_TWO_32 + NXMEM_SLOT_FREE;
    behavior retired:
      assumes gone: fate == NXMEM_FATE_GONE;
      assumes used_up: NX_WORD_GENERATION(word) == 4294967295;
      ensures exact: \result == 4294967295 * NX_TWO_32 + NXMEM_SLOT_RETIRED;
    behavior live:
      assumes live: fate == NXMEM_FATE_LIVE;
      ensures exact: \result == NX_WORD_GENERATION(word) * NX_TWO_32 + NX_WORD_USERS(word) * 256 + NXMEM_SLOT_LIVE;
    behavior quarantined:
      assumes kept: fate == NXMEM_FATE_QUARANTINED;
      ensures exact: \result == NX_WORD_GENERATION(word) * NX_TWO_32 + NXMEM_SLOT_QUARANTINED;
    complete behaviors;
    disjoint behaviors; */
uint64_t nxmem_word_settled(uint64_t word, nxmem_release_fate fate);

/*
 * Settle in a table: records[k] is the record of slot k. Exactly the record that the completion names changes, in its
 * word alone, and only where the completion settles it; all others stay. The same completion never settles again.
 *
 * UNKNOWN_ALLOCATION (needed: 0) where the table has no such slot; else as nxmem_judge_completion.
 */
/*@ requires records_writable: \valid(records + (0 .. count - 1));
    requires completion_readable: \valid_read(completion);
    requires apart: \separated(records + (0 .. count - 1), completion);
    assigns records[0 .. count - 1].word;
    behavior no_such_slot:
      assumes outside: !NX_IN_TABLE(completion, count);
      assigns \nothing;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_UNKNOWN_ALLOCATION, 24, completion->allocation_id, 0);
    behavior does_not_settle:
      assumes inside: NX_IN_TABLE(completion, count);
      assumes no_match: !NX_SETTLES(completion, &records[NX_SLOT_OF(completion)], owner);
      assigns \nothing;
      ensures refused: NX_COMPLETION_REFUSED(\result, completion, &records[NX_SLOT_OF(completion)], owner);
    behavior settles:
      assumes inside: NX_IN_TABLE(completion, count);
      assumes matches: NX_SETTLES(completion, &records[NX_SLOT_OF(completion)], owner);
      assigns records[NX_SLOT_OF(completion)].word;
      ensures accepted: NX_ACCEPTED(\result);
      ensures others: \forall integer k; 0 <= k < count ==> k != NX_SLOT_OF(completion) ==>
                      records[k].word == \old(records[k].word);
      ensures once: !NX_SETTLES(completion, &records[NX_SLOT_OF(completion)], owner);
      ensures gone: NX_SAYS_GONE(completion->outcome.failure.code, completion->outcome.state) &&
                    NX_WORD_GENERATION(NX_WORD_BEFORE(records, count, completion)) < 4294967295 ==>
                    records[NX_SLOT_OF(completion)].word ==
                    (NX_WORD_GENERATION(NX_WORD_BEFORE(records, count, completion)) + 1) * NX_TWO_32 + NXMEM_SLOT_FREE;
      ensures retired: NX_SAYS_GONE(completion->outcome.failure.code, completion->outcome.state) &&
                       NX_WORD_GENERATION(NX_WORD_BEFORE(records, count, completion)) == 4294967295 ==>
                       records[NX_SLOT_OF(completion)].word == 4294967295 * NX_TWO_32 + NXMEM_SLOT_RETIRED;
      ensures live: NX_SAYS_LIVE(completion->outcome.failure.code, completion->outcome.state) ==>
                    records[NX_SLOT_OF(completion)].word ==
                    NX_WORD_GENERATION(NX_WORD_BEFORE(records, count, completion)) * NX_TWO_32 +
                    NX_USERS_WON(NX_WORD_BEFORE(records, count, completion)) * 256 + NXMEM_SLOT_LIVE;
      ensures quarantined: !NX_SAYS_GONE(completion->outcome.failure.code, completion->outcome.state) &&
                           !NX_SAYS_LIVE(completion->outcome.failure.code, completion->outcome.state) ==>
                           records[NX_SLOT_OF(completion)].word ==
                           NX_WORD_GENERATION(NX_WORD_BEFORE(records, count, completion)) * NX_TWO_32 +
                           NXMEM_SLOT_QUARANTINED;
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_settle(nxmem_release_record *records, uint32_t count, uint64_t owner,
                           const NxmemReleaseCompletion *completion);

/* What an enqueue's answer makes of the record. */
typedef enum nxmem_enqueue_fate {
  NXMEM_ENQUEUE_QUEUED = 0,             /* outstanding under its ticket */
  NXMEM_ENQUEUE_LIVE = 1,               /* refused and not completed: live again */
  NXMEM_ENQUEUE_QUARANTINED = 2,        /* the plugin keeps it, or gave no ticket by which it could ever settle */
  NXMEM_ENQUEUE_SETTLED = 3,            /* completed before the answer: nothing is left to do */
  NXMEM_ENQUEUE_SETTLED_THEN_FAILED = 4 /* the completion stands, and the failure is reported */
} nxmem_enqueue_fate;

/*
 * Judge what enqueue_release answered. `word` is the slot's when the call came back, allocation_id the handle it was
 * called with: where the slot is no longer QUEUING in that generation, a completion came first. `ticket` was
 * pre-filled with NXMEM_UNWRITTEN_COUNT.
 */
/*@ assigns \nothing;
    behavior queued:
      assumes open: NX_STILL_QUEUING(word, allocation_id);
      assumes ok: status_code == 0 && ticket != 0xFFFFFFFFFFFFFFFF;
      ensures fate: \result == NXMEM_ENQUEUE_QUEUED;
    behavior no_ticket:
      assumes open: NX_STILL_QUEUING(word, allocation_id);
      assumes unwritten: status_code == 0 && ticket == 0xFFFFFFFFFFFFFFFF;
      ensures fate: \result == NXMEM_ENQUEUE_QUARANTINED;
    behavior said_quarantined:
      assumes open: NX_STILL_QUEUING(word, allocation_id);
      assumes status: status_code == 12;
      ensures fate: \result == NXMEM_ENQUEUE_QUARANTINED;
    behavior refused:
      assumes open: NX_STILL_QUEUING(word, allocation_id);
      assumes status: status_code != 0 && status_code != 12;
      ensures fate: \result == NXMEM_ENQUEUE_LIVE;
    behavior completed:
      assumes first: !NX_STILL_QUEUING(word, allocation_id);
      assumes ok: status_code == 0;
      ensures fate: \result == NXMEM_ENQUEUE_SETTLED;
    behavior completed_then_failed:
      assumes first: !NX_STILL_QUEUING(word, allocation_id);
      assumes failed: status_code != 0;
      ensures fate: \result == NXMEM_ENQUEUE_SETTLED_THEN_FAILED;
    complete behaviors;
    disjoint behaviors; */
nxmem_enqueue_fate nxmem_judge_enqueue(uint32_t status_code, uint64_t ticket, uint64_t word, uint64_t allocation_id);

/* TICKET_UNWRITTEN for an OK that left the ticket as it was before the call: such a release could never settle. */
/*@ assigns \nothing;
    behavior no_ticket:
      assumes unwritten: status_code == 0 && ticket == 0xFFFFFFFFFFFFFFFF;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TICKET_UNWRITTEN, 0, 0, 0);
    behavior a_ticket:
      assumes otherwise: status_code != 0 || ticket != 0xFFFFFFFFFFFFFFFF;
      ensures accepted: NX_ACCEPTED(\result);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_ticket(uint32_t status_code, uint64_t ticket);

#ifdef __FRAMAC__
/* clang-format off */
#define NX_MOST_RETIRED(max, queued) NX_LEAST(max, queued)
/* clang-format on */
#endif
/*
 * How many releases a drain says it retired: TOO_MANY_RETIRED where that is more than it was asked for or than were queued at
 * any time meanwhile; a count left unwritten is. The first says so, the second how many may be told on.
 */
/*@ assigns \nothing;
    behavior possible:
      assumes within: reported <= NX_MOST_RETIRED(max, queued);
      ensures accepted: NX_ACCEPTED(\result);
    behavior too_many:
      assumes beyond: reported > NX_MOST_RETIRED(max, queued);
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_TOO_MANY_RETIRED, 0, reported, NX_MOST_RETIRED(max, queued));
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_retired(uint64_t reported, uint64_t max, uint64_t queued);
/*@ assigns \nothing;
    ensures bounded: \result <= max && \result <= queued && \result <= reported;
    ensures exact: \result == reported || \result == max || \result == queued; */
uint64_t nxmem_retired(uint64_t reported, uint64_t max, uint64_t queued);

/* What a plugin says is pending. It may count what the host does not know of: COUNT_UNWRITTEN only. */
/*@ assigns \nothing;
    behavior written:
      assumes number: count != 0xFFFFFFFFFFFFFFFF;
      ensures accepted: NX_ACCEPTED(\result);
    behavior unwritten:
      assumes untouched: count == 0xFFFFFFFFFFFFFFFF;
      ensures refused: NX_VERDICT_IS(\result, NXMEM_REASON_COUNT_UNWRITTEN, 0, count, 0);
    complete behaviors;
    disjoint behaviors; */
nxmem_verdict nxmem_check_pending(uint64_t count);

/* A close drains at most this often. */
enum { NXMEM_DRAIN_PASSES = 16 };

/*
 * Is another pass worth it? passes: how many there were. before, after: what was queued before and after the last one;
 * equal at the first. Not beyond the bound, not with nothing queued, not after a pass that retired nothing.
 */
/*@ assigns \nothing;
    ensures boolean: \result == 0 || \result == 1;
    ensures exact: \result == 1 <==> passes < 16 && after != 0 && (passes == 0 || after < before); */
int nxmem_drain_goes_on(uint32_t passes, uint64_t before, uint64_t after);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_COMPLETION_H */
