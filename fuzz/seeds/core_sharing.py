"""Seeds of the functions on pins, on ranges that cost, and on shared prefixes."""
from core_calls import call, numbered, u32, u64
from layout import MAX32, MAX64, whole

TOTAL_MAX = 1 << 63
GRANULE = 1 << 30
LIVE, MET = 2, 1 << 31


def word(generation, pins, state, met=0):
    return (generation << 32) + met * MET + (pins << 8) + state


def pin_seeds():
    words = (0, word(7, 0, LIVE), word(7, 1, LIVE), word(7, 1, LIVE, 1), word(7, 2, LIVE), word(7, 2, LIVE, 1),
             word(7, 0, LIVE, 1), word(MAX32, 0x7FFFFF, LIVE, 1), word(7, 0x7FFFFE, 255), word(1, 0x7FFFFF, LIVE), MAX64)
    for function in ("word_pins", "word_pinned", "word_unpinned", "pin_must_settle", "pin_is_alone", "word_met",
                     "word_unmet"):
        yield from numbered(function, u64, words)
    for value in (*words, *(word(7, 0, state) for state in range(9))):
        for handle in ((7 << 32) + 5, (8 << 32) + 5):
            yield f"check_pin_{value:x}_{handle:x}", call("check_pin", u64(value, handle))


def backing_seeds():
    yield from numbered("check_range_list", u64, ((0, 0), (8, 0), (0, 1), (8, 1), (0, 1024), (8, 1024), (0, 1025),
                                                  (8, 1025), (8, MAX64)))
    yield from numbered("check_commit_range", u64, (
        (0, 0, 8), (9, 0, 8), (0, 1, 0), (4, 4, 8), (4, 5, 8), (8, 1, 8), (9, 1, 8), (0, 8, 8), (MAX64, 1, MAX64),
        (2, MAX64 - 1, 8), (1, MAX64, MAX64), (MAX64 - 1, 1, MAX64)))
    spans = ((0, 0), (0, 1), (GRANULE - 1, 1), (GRANULE - 1, 2), (0, GRANULE), (0, GRANULE + 1), (5, 0), (0, TOTAL_MAX),
             (0, TOTAL_MAX + 1), (1, TOTAL_MAX), (GRANULE, TOTAL_MAX), (0, MAX64), (MAX64, 0), (MAX64 - 1, 1))
    yield from numbered("most_mapped", u64, spans)
    for offset, bytes_ in spans:
        for cost in (0, 1, GRANULE, GRANULE + 1, 2 * GRANULE, TOTAL_MAX, MAX64):
            for total in (0, TOTAL_MAX - GRANULE, TOTAL_MAX):
                yield (f"judge_cost_{cost:x}_{offset:x}_{bytes_:x}_{total:x}",
                       call("judge_cost", u64(cost, offset, bytes_, total)))
    yield from numbered("settle_decommit", u64, ((0, 0), (5, 5), (4, 5), (6, 5), (MAX64, 5), (MAX64 - 1, 5), (5, 0),
                                                 (MAX64, 0), (MAX64, MAX64), (MAX64 - 1, MAX64)))
    for status in (0, 1, 12):
        for reported, bytes_ in ((0, 0), (0, 5), (1, 0), (GRANULE, 5), (GRANULE + 1, 5), (MAX64, 5), (TOTAL_MAX, MAX64),
                                 (TOTAL_MAX + 1, MAX64), (MAX64, MAX64)):
            yield (f"settle_committed_{status}_{reported:x}_{bytes_:x}",
                   call("settle_committed", u32(status), u64(reported, 7, bytes_)))


MECHANISM, BYTES = 0x6D656D, 3 * GRANULE
DEVICE = u32(1, 0)


def handle(**changes):
    values = {"struct_size": 64, "reserved": 0xEEEEEEEE, "mechanism_id": MECHANISM, "handle": 9, "device": DEVICE,
              "device_ptr": 1 << 40, "committed_physical_bytes": BYTES, "mapped_bytes": BYTES, "requested_bytes": BYTES}
    return whole("NxmemSharedPrefixHandle", values | changes)


def info(**changes):
    values = {"struct_size": 32, "reserved": 0xEEEEEEEE, "additional_owned_bytes": GRANULE,
              "newly_mapped_bytes": GRANULE + 1, "granules": 2}
    return whole("NxmemSharedPrefixCommitInfo", values | changes)


HANDLES = {"good": {}, "short": {"struct_size": 63}, "empty": {"struct_size": 0}, "longer": {"struct_size": MAX32},
           "other_mechanism": {"mechanism_id": MECHANISM + 2**32}, "other_tier": {"device": u32(2, 0)},
           "other_index": {"device": u32(1, 1)}, "unwritten": {"handle": MAX64}, "zero": {"handle": 0},
           "other_bytes": {"requested_bytes": BYTES + 1}, "physical": {"committed_physical_bytes": BYTES + 1},
           "mapped": {"mapped_bytes": BYTES + 1}, "both": {"committed_physical_bytes": MAX64, "mapped_bytes": MAX64}}


def prefix_seeds():
    for name, changes in HANDLES.items():
        yield f"prefix_handle_take_{name}", call("prefix_handle_take", handle(**changes))
        yield (f"check_prefix_handle_{name}",
               call("check_prefix_handle", handle(**changes), u64(MECHANISM), DEVICE, u64(BYTES)))
    yield ("check_prefix_handle_largest",
           call("check_prefix_handle", handle(requested_bytes=MAX64, mapped_bytes=TOTAL_MAX), u64(MECHANISM), DEVICE,
                u64(MAX64)))
    yield from numbered("prefix_may_go_back", u32, (0, 8, 41, 112, 113, 114, 115, 116, MAX32))


def commit_seeds():
    yield "commit_info_take", call("commit_info_take", info())
    limit = 2 * GRANULE
    rows = {"good": {}, "owned": {"additional_owned_bytes": limit + 1}, "mapped": {"newly_mapped_bytes": limit + 1},
            "granules": {"granules": limit + 1}, "owned_unwritten": {"additional_owned_bytes": MAX64},
            "mapped_unwritten": {"newly_mapped_bytes": MAX64}, "granules_unwritten": {"granules": MAX64},
            "all": {"additional_owned_bytes": limit, "newly_mapped_bytes": limit, "granules": limit}}
    for name, changes in rows.items():
        for owned in (0, TOTAL_MAX - GRANULE, TOTAL_MAX - GRANULE + 1, TOTAL_MAX):
            for mapped in (0, TOTAL_MAX - GRANULE - 1, TOTAL_MAX - GRANULE):
                yield (f"check_commit_info_{name}_{owned:x}_{mapped:x}",
                       call("check_commit_info", info(**changes), u64(GRANULE - 1, 2, owned, mapped)))
    yield from numbered("prefix_owned_once", u64, ((0, 0), (5, 0), (5, 1), (MAX64, 0), (MAX64, MAX64), (0, 5)))
    yield from numbered("judge_prefix_commit", u32, [(code, reason) for code in (0, 1, 12, MAX32)
                                                      for reason in (0, 63, 112)])
    yield from numbered("judge_group", u32, [(asked, mapped, kept) for asked, mapped in ((3, 3), (3, 2), (3, 0), (0, 0))
                                             for kept in (0, 1, MAX32)])


TOPICS = (pin_seeds, backing_seeds, prefix_seeds, commit_seeds)
