"""Seeds of the functions that keep books: identities, outcomes, unloading, handles, lists, numbers, completions."""
import struct

from core_calls import call, message, numbered, text, u8, u32, u64
from layout import MAX32, MAX64, whole

TOTAL_MAX = 1 << 63

# ---- identity, outcome, unload ---------------------------------------------------------------------------------------


def identity_seeds():
    yield from numbered("check_tier", u32, (0, 1, 2, 3, MAX32))
    pairs = ((0, 0, 0, 0), (1, 2, 1, 2), (1, 2, 1, 3), (1, 2, 0, 2), (2, 1, 1, 2), (MAX32, MAX32, MAX32, MAX32),
             (MAX32, 0, 0, MAX32), (1, 1, 1, MAX32))
    for pair in pairs:
        name = "_".join(f"{n:x}" for n in pair)
        yield f"same_device_{name}", call("same_device", u32(*pair))
        yield f"check_device_{name}", call("check_device", u32(*pair))
        for mechanisms in ((5, 5), (5, 6), (5, 5 + 2**32)):
            yield (f"check_identity_{mechanisms[1]:x}_{name}",
                   call("check_identity", u64(mechanisms[0]), u32(*pair[:2]), u64(mechanisms[1]), u32(*pair[2:])))


def tier_seeds():
    cases = [(tier, minor, ceiling) for tier in (0, 2, 3, MAX32) for minor, ceiling in ((0, 1), (1, 1), (2, 1), (1, 0))]
    yield from numbered("tier_is_left_out", u32, cases)


def outcome_seeds():
    yield from numbered("check_alloc_request", u64, (
        (0, 0), (0, 8), (1, 0), (1, 1), (1, 3), (1, 6), (4096, 64), (MAX64, 1), (MAX64, 2), (MAX64 - 1, 2),
        (MAX64 - 62, 64),
        (MAX64 - 63, 64), (MAX64 - 64, 64), (1, TOTAL_MAX), (TOTAL_MAX, TOTAL_MAX), (TOTAL_MAX + 1, TOTAL_MAX),
        (TOTAL_MAX + 2, TOTAL_MAX), (1, TOTAL_MAX + 1), (1, MAX64)))
    yield "alloc_result_take", call("alloc_result_take", u32(32, 0xEEEEEEEE), u64(0x1122334455667788, 3 << 40, 5 << 41))
    # address, owned, mapped, bytes, align, owned_total, mapped_total
    yield from numbered("check_alloc_result", u64, (
        (0, 1, 1, 1, 8, 0, 0), (4096, 64, 64, 64, 64, 0, 0), (4100, 64, 64, 64, 64, 0, 0), (4097, 1, 1, 1, 1, 0, 0),
        (4098, 1, 1, 1, 4, 0, 0), (MAX64 - 7, 8, 8, 7, 8, 0, 0), (MAX64 - 7, 8, 8, 8, 8, 0, 0),
        (8, 8, 8, MAX64, 8, 0, 0),
        (MAX64, 1, 1, 0, 1, 0, 0), (MAX64, 1, 1, 1, 1, 0, 0), (8, TOTAL_MAX, 0, 8, 8, 0, 0),
        (8, TOTAL_MAX + 1, 0, 8, 8, 0, 0), (8, TOTAL_MAX, 0, 8, 8, 1, 0), (8, 0, TOTAL_MAX, 8, 8, 0, 0),
        (8, 0, TOTAL_MAX, 8, 8, 0, 1), (8, 1, 1, 8, 8, TOTAL_MAX - 1, TOTAL_MAX - 1), (8, 1, 1, 8, 8, TOTAL_MAX, 0),
        (8, 1, 1, 8, 8, 0, TOTAL_MAX), (8, 2, 2, 8, 8, TOTAL_MAX - 1, TOTAL_MAX - 1), (8, MAX64, MAX64, 8, 8, 0, 0),
        (24, 3, 5, 8, 12, 7, 9), (8, 5, 3, 8, 8, TOTAL_MAX - 5, TOTAL_MAX - 2), (8, 0, 0, 8, 8, TOTAL_MAX, TOTAL_MAX)))
    codes = (*range(0, 15), 100, MAX32)
    yield from numbered("judge_deallocate", u32, codes)
    yield from numbered("judge_release", u32, [(code, state) for code in (0, 1, 12, 13, MAX32)
                                              for state in (0, 1, 2, 3, MAX32 - 1, MAX32)])
    for claimed in (0, 5, 255, MAX32):
        record = u32(296, 2) + u64(1 << 40, 2 << 40, 3 << 40) + message(b"why\0" + b"x" * 252, claimed, code=7)
        yield f"outcome_take_{claimed:x}", call("outcome_take", record)
    yield from numbered("settle_refund", u64, (
        (0, 0, 0), (5, 5, 0), (4, 5, 0), (6, 5, 0), (6, 5, 1), (6, 5, 2), (7, 5, 1), (MAX64, 5, 3), (MAX64, MAX64, 0),
        (MAX64, 0, MAX64), (0, 5, 5), (5, 0, 5), (4, 0, 5), (6, 0, 5), (MAX64, MAX64, MAX64)))
    yield from numbered("check_refund", u64, ((0, 0, 0), (5, 5, 0), (6, 5, 1), (MAX64, 5, MAX64 - 5), (MAX64, 0, MAX64)))


def named_seeds():
    books = (9, 1 << 40, 4096, 64)
    names = {"same": books, "unsaid": (9, 1 << 40, 0, 0), "owner": (8, *books[1:]),
             "owner_half": (9 + 2**32, *books[1:]),
             "address": (9, 8, 4096, 64), "bytes": (9, 1 << 40, 4095, 64), "alignment": (9, 1 << 40, 4096, 32),
             "bytes_unsaid": (9, 1 << 40, 0, 64), "alignment_unsaid": (9, 1 << 40, 4096, 0),
             "bytes_unsaid_alignment": (9, 1 << 40, 0, 32), "all": (1, 2, 3, 4)}
    for name, named in names.items():
        yield f"check_named_{name}", call("check_named", u64(*named, *books))
    yield "check_named_books_empty", call("check_named", u64(9, 1 << 40, 4096, 64, 9, 1 << 40, 0, 0))
    yield from numbered("may_hand_back", u32, (0, 59, 60, 61, 62, 63, 64, 65, 100, MAX32))
    yield from numbered("failure_says_why", u32, [(code, fate) for code in (0, 1, 12) for fate in (0, 1, 2)])
    yield from numbered("final_fate", u32, (0, 1, 2, 3))


def unload_seeds():
    yield from numbered("report_is_broken", u32, (0, 69, 70, 71, 72, 73, 74, MAX32))

    def judged(status=0, size=48, report=(0,) * 5, tally=(0,) * 5):
        return call("judge_unload", u32(status), u32(size, 0xEEEEEEEE), u64(*report), u64(*tally))

    yield "unload_report_take", call("unload_report_take", u32(49, 0xEEEEEEEE),
                                     u64(1 << 33, 2 << 33, 3 << 33, 4 << 33, 5))
    yield "judge_unload_free", judged()
    yield "judge_unload_longer", judged(size=MAX32)
    for status in (1, 14, MAX32):
        yield f"judge_unload_status_{status:x}", judged(status)
    for size in (0, 47):
        yield f"judge_unload_size_{size}", judged(size=size)
    for axis in range(5):
        for count in (1, 2**32, MAX64 - 1, MAX64):
            alone = tuple(count if i == axis else 0 for i in range(5))
            yield f"judge_unload_plugin_{axis}_{count:x}", judged(report=alone)
            yield f"judge_unload_host_{axis}_{count:x}", judged(tally=alone)
        from_here = tuple(7 + i if i >= axis else 0 for i in range(5))
        yield f"judge_unload_plugin_from_{axis}", judged(report=from_here, tally=(9,) * 5)
        yield f"judge_unload_host_from_{axis}", judged(tally=from_here)


# ---- handle, enumerate -----------------------------------------------------------------------------------------------


def word(generation, users, state):
    return (generation << 32) + (users << 8) + state


def handle_seeds():
    yield from numbered("handle_make", u32, ((0, 0), (0, 1), (1, 0), (MAX32 - 1, MAX32), (5, 7), (MAX32 - 1, 0)))
    handles = (0, 1, 2, MAX32, 2**32, 2**32 + 1, (7 << 32) + 5, MAX64, MAX64 - MAX32)
    yield from numbered("handle_generation", u64, handles)
    yield from numbered("handle_slot", u64, handles)
    yield from numbered("word_make", u32, ((0, 0, 0), (1, 2, 3), (MAX32, 0xFFFFFF, 255), (0, 0xFFFFFF, 0), (0, 0, 255),
                                           (MAX32, 0, 0)))
    words = (0, 1, 2, 255, 256, 2**24, MAX32, 2**32, word(7, 0, 2), word(7, 3, 2), word(MAX32, 0, 2), MAX64,
             word(MAX32 - 1, 0xFFFFFF, 255), word(1, 1, 0), word(2**31, 2**16, 4))
    for function in ("word_generation", "word_users", "word_state", "word_freed"):
        yield from numbered(function, u64, words)
    for state in range(0, 9):
        yield f"check_claim_state_{state}", call("check_claim", u64(word(7, 0, state), (7 << 32) + 5))
    for users in (1, 2**16, 0xFFFFFF):
        yield f"check_claim_users_{users:x}", call("check_claim", u64(word(7, users, 2), (7 << 32) + 5))
    for named in (0, 6, 8, MAX32):
        yield f"check_claim_generation_{named:x}", call("check_claim", u64(word(7, 0, 2), (named << 32) + 5))
    yield "check_claim_zero", call("check_claim", u64(0, 0))
    yield "check_claim_last_generation", call("check_claim", u64(word(MAX32, 0, 2), (MAX32 << 32) + 1))


    yield from word_seeds(words)


def word_seeds(words):
    """What a word, or a claim's verdict, says of the object."""
    yield from numbered("is_open", u64, [*words, *(word(7, 1, state) for state in range(9))])
    yield from numbered("check_live", u64, [*words, *(word(7, 1, state) for state in range(9))])
    for value in (word(7, 0, 2), word(7, 3, 2), word(7, 0, 3), word(8, 0, 2), word(7 + 2**31, 0, 2)):
        for function in ("same_generation", "check_lost_claim", "is_claimable"):
            yield f"{function}_{value:x}", call(function, u64(value, (7 << 32) + 5))
        for state in (2, 3, 0x102):
            for owner in (4, 5, 4 + 2**32):
                yield f"is_owned_{value:x}_{state:x}_{owner:x}", call("is_owned", u64(value), u32(state), u64(owner, 4))
        for state in (0, 4, 255):
            yield f"word_in_state_{value:x}_{state}", call("word_in_state", u64(value), u32(state))
    for reason in (0, 80, 81, 82, 83, MAX32):
        for found in (*range(9), 2**32 + 1, MAX64):
            yield f"presence_of_{reason:x}_{found:x}", call("presence_of", u32(reason, 0), u64(found, 2))


def enumerate_seeds():
    yield from numbered("factories_transferred", u64, (0, 1, 63, 64, 65, 2**32, MAX64))
    distinct = bytes(range(1, 65))
    lists = {"distinct": distinct, "null_first": b"\0" + distinct[1:], "null_last": distinct[:63] + b"\0",
             "null_inside": distinct[:5] + b"\0" + distinct[6:], "twice_at_once": b"\1\1" + distinct[2:],
             "twice_far": distinct[:63] + b"\1", "twice_inside": distinct[:9] + b"\3" + distinct[10:],
             "all_same": b"\7" * 64, "same_half": b"\x11\x21\x12" + distinct[3:], "two_nulls": b"\1\0\0" + distinct[3:]}
    for name, entries in lists.items():
        for reported in (0, 1, 2, 10, 63, 64, 65, 2**32 + 2):
            yield f"check_factories_{name}_{reported:x}", call("check_factories", u64(reported), entries)
        for index in (0, 1, 2, 5, 9, 63):
            yield f"factory_is_owed_{name}_{index}", call("factory_is_owed", u8(index), entries)


# ---- range, count ----------------------------------------------------------------------------------------------------


def range_seeds():
    yield from numbered("is_power_of_two", u64, (0, 1, 2, 3, 4, 6, 2**32, 2**32 + 1, TOTAL_MAX, TOTAL_MAX + 1, MAX64))
    edges = ((0, 0), (0, MAX64), (1, MAX64), (1, MAX64 - 1), (MAX64, 0), (MAX64, 1), (TOTAL_MAX, TOTAL_MAX),
             (TOTAL_MAX, TOTAL_MAX - 1), (5, 7))
    yield from numbered("range_is_whole", u64, edges)
    yield from numbered("check_readable", u64, ((0, 0), (0, 1), (1, 0), (5, 6), (6, 5), (MAX64, MAX64),
                                                (MAX64 - 1, MAX64)))
    yield from numbered("check_range", u64, (
        (0, 0, 0), (0, 1, 0), (1, 0, 0), (4, 4, 8), (4, 5, 8), (8, 0, 8), (9, 0, 8), (8, 1, 8), (0, 8, 8),
        (MAX64, 1, MAX64),
        (1, MAX64, MAX64), (MAX64, 0, MAX64), (2, MAX64 - 1, 8), (MAX64 - 1, 1, MAX64)))
    yield from numbered("ranges_overlap", u64, (
        (0, 4, 4, 4), (0, 5, 4, 4), (4, 4, 0, 4), (4, 4, 0, 5), (4, 4, 4, 4), (4, 0, 4, 4), (4, 4, 4, 0), (0, 9, 4, 0),
        (0, MAX64, MAX64, 1), (0, MAX64, MAX64 - 1, 1), (MAX64, 5, 0, 2), (0, 0, 0, 0), (4, 2, 3, 1), (3, 1, 4, 2),
        (MAX64, 2, MAX64, 1), (2, 9, 5, 1), (5, 1, 2, 9)))
    units = [(value, unit) for unit in (1, 2, 3, 4096, TOTAL_MAX, MAX64)
             for value in (0, 1, 2, 4095, 4096, 4097, TOTAL_MAX, MAX64 - 1, MAX64)]
    yield from numbered("round_down", u64, units)
    yield from numbered("round_up", u64, units)
    yield from numbered("granules_touched", u64, (
        (0, 0, 4096), (0, 1, 4096), (0, 4096, 4096), (0, 4097, 4096), (4095, 1, 4096), (4095, 2, 4096),
        (4096, 4096, 4096),
        (5, 9, 1), (5, 9, 3), (0, MAX64, 1), (MAX64, 0, 4096), (MAX64 - 1, 1, 7), (1, MAX64 - 1, MAX64),
        (4096, 0, 4096)))


def count_seeds():
    yield from numbered("count_add", u64, ((0, 0), (1, 2), (MAX64, 0), (MAX64, 1), (MAX64 - 1, 1), (MAX64 - 1, 2),
                                           (1, MAX64),
                                           (MAX64, MAX64), (5, 1)))
    yield from numbered("count_up", u64, (0, 1, MAX32, MAX64 - 1, MAX64))
    yield from numbered("total_add", u64, ((0, 0), (3, 4), (0, TOTAL_MAX), (1, TOTAL_MAX), (TOTAL_MAX, 0),
                                           (TOTAL_MAX, 1),
                                           (0, TOTAL_MAX + 1), (TOTAL_MAX - 1, 1), (TOTAL_MAX - 1, 2), (5, MAX64)))


# ---- completion ------------------------------------------------------------------------------------------------------

QUEUING, QUEUED, LIVE = 6, 7, 2
OWNER, MECHANISM, TICKET = 0xA0A0A0A0A0, 0x6D656D, 0x71C4E7
NAMED = (7 << 32) + 2  # generation 7, slot 1


def completion(status=0, state=0, claimed=4, **changes):
    values = {"struct_size": 328, "reserved": 0xEEEEEEEE, "ticket": TICKET, "mechanism_id": MECHANISM,
              "allocation_id": NAMED, "outcome": outcome(status, state, claimed)}
    return whole("NxmemReleaseCompletion", values | changes)


def outcome(status, state, claimed):
    return u32(296, state) + u64(1 << 40, 2 << 40, 3 << 40) + message(b"why\0" + b"x" * 252, claimed, status)


def record(state=QUEUED, generation=7, users=0, allocation_id=NAMED, owner=OWNER, mechanism=MECHANISM, ticket=TICKET):
    return u64(word(generation, users, state), allocation_id, owner, mechanism, ticket)


MATCHES = {"queued": {}, "queuing": {"state": QUEUING}, "users": {"users": 3}, "queuing_other_ticket":
           {"state": QUEUING, "ticket": 9}}
STRANGERS = {"other_allocation": {"allocation_id": NAMED + 1}, "stale": {"generation": 8}, "earlier": {"generation": 6},
             "other_owner": {"owner": OWNER + 1}, "other_mechanism": {"mechanism": MECHANISM + 1},
             "other_ticket": {"ticket": TICKET + 1}, "other_ticket_half": {"ticket": TICKET + 2**32},
             **{f"state_{state}": {"state": state} for state in (0, 1, 2, 3, 4, 5, 8, 255)},
             "queuing_stranger": {"state": QUEUING, "owner": 0}, "nothing_fits":
             {"state": 0, "generation": 1, "allocation_id": 1, "owner": 1, "mechanism": 1, "ticket": 1}}
SAYS = [(status, state) for status in (0, 1, 12) for state in (0, 1, 2, 3, MAX32)]


def completion_seeds():
    for name, changes in (MATCHES | STRANGERS).items():
        yield f"judge_completion_{name}", call("judge_completion", completion(), record(**changes), u64(OWNER))
        yield f"settle_{name}", settled(completion(), record(**changes))
    for claimed in (0, 4, 255, MAX32):
        yield f"completion_take_{claimed:x}", call("completion_take", u32(0), completion(7, 2, claimed))
    for size in (0, 4, 327, 329, MAX32):
        yield f"completion_take_size_{size:x}", call("completion_take", u32(0), completion(struct_size=size))
    for address in (128, 129, 132, 135):
        yield f"completion_take_at_{address}", call("completion_take", u32(address), completion())
    yield from numbered("completion_fate", u32, [*SAYS, (MAX32, 0), (MAX32, 2)])
    won = (*(word(7, 5, state) for state in range(9)), word(MAX32, 0xFFFFFF, 6), word(MAX32, 0xFFFFFF, 7), MAX64, 0)
    yield from numbered("word_won", u64, won)
    for fate in (0, 1, 2):
        for value in (word(7, 0, 7), word(7, 3, 7), word(MAX32, 0, 6), word(MAX32 - 1, 0xFFFFFF, 255), 0):
            yield f"word_settled_{fate}_{value:x}", call("word_settled", u64(value), u32(fate))
    yield from settle_seeds()
    for status in (0, 1, 12, MAX32):
        for ticket in (0, TICKET, MAX64 - 1, MAX64):
            for value in (word(7, 1, QUEUING), word(7, 1, QUEUED), word(8, 1, QUEUING), word(7, 1, LIVE)):
                yield (f"judge_enqueue_{status:x}_{ticket:x}_{value:x}",
                       call("judge_enqueue", u32(status), u64(ticket, value, NAMED)))


def drain_seeds():
    counts = (0, 1, 5, MAX64 - 1, MAX64)
    for numbers in [(r, m, q) for r in (0, 5, 6, MAX64) for m in (0, 5, MAX64) for q in (0, 5, MAX64)]:
        name = "_".join(f"{n:x}" for n in numbers)
        yield f"retired_{name}", call("retired", u64(*numbers))
        yield f"check_retired_{name}", call("check_retired", u64(*numbers))
    yield from numbered("check_pending", u64, counts)
    for status in (0, 1, MAX32):
        for ticket in (0, 5, MAX64 - 1, MAX64):
            yield f"check_ticket_{status:x}_{ticket:x}", call("check_ticket", u32(status), u64(ticket))
    for passes in (0, 1, 15, 16, MAX32):
        for before, after in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (1, 2), (MAX64, MAX64 - 1)):
            yield f"drain_goes_on_{passes:x}_{before:x}_{after:x}", call("drain_goes_on", u32(passes), u64(before, after))


def reclaim_seeds():
    def request(size=32, mechanism=MECHANISM, tier=1, index=2, amount=4096):
        return u32(size, 0xEEEEEEEE) + u64(mechanism) + u32(tier, index) + u64(amount)

    for size in (0, 4, 8, 31, 32, 33, MAX32):
        yield f"reclaim_take_size_{size:x}", call("reclaim_take", u32(0), request(size))
    for address in (128, 129, 132, 135):
        yield f"reclaim_take_at_{address}", call("reclaim_take", u32(address), request())
    for name, changes in (("own", {}), ("mechanism", {"mechanism": MECHANISM + 2**32}), ("tier", {"tier": 0}),
                          ("index", {"index": MAX32}), ("nothing", {"amount": 0}), ("all", {"amount": MAX64}),
                          ("stranger", {"mechanism": 0, "tier": MAX32, "index": 0, "amount": 0})):
        yield f"check_reclaim_{name}", call("check_reclaim", request(**changes), u64(MECHANISM), u32(1, 2))
    yield from numbered("reclaimed", u64, ((0, 0), (0, 1), (1, 0), (5, 5), (MAX64, 5), (5, MAX64)))


def settled(bytes_, named, count=3, owner=OWNER):
    """In a table of records that all are outstanding: the one named is the second."""
    others = [record(generation=7, allocation_id=NAMED - 1 + slot) for slot in range(4)]
    others[1] = named
    return call("settle", u32(count), *others, u64(owner), bytes_)


def settle_seeds():
    for status, state in SAYS:
        yield f"settle_{status}_{state:x}", settled(completion(status, state), record())
        yield f"settle_last_{status}_{state:x}", settled(
            completion(status, state, allocation_id=(MAX32 << 32) + 2),
            record(QUEUING, MAX32, 5, allocation_id=(MAX32 << 32) + 2))
    for count in range(5):
        yield f"settle_in_{count}", settled(completion(), record(), count)
    for name, allocation_id in (("none", 7 << 32), ("first", NAMED - 1), ("last", NAMED + 1), ("outside", NAMED + 2)):
        yield f"settle_{name}", settled(completion(allocation_id=allocation_id), record())
    yield "settle_stranger", settled(completion(), record(), owner=1)


TOPICS = (identity_seeds, tier_seeds, named_seeds, outcome_seeds, unload_seeds, handle_seeds, enumerate_seeds,
          range_seeds, count_seeds,
          completion_seeds, drain_seeds, reclaim_seeds)
