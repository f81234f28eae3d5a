"""Seeds of the target `core`: each function of the core, by name, with the arguments that its cases turn on."""
import struct

import core_books
import core_granules
import core_lifecycle
import core_overlap
import core_quota
import core_sharing
from core_calls import PLACES, call, message, numbered, text, u8, u16, u32, u64
from layout import ALL_CAPS, MAX32, MAX64, MINOR_0_CAPS, RECORDS, whole

ALLOCATOR, FACTORY = "NxmemAllocatorVtable", "NxmemAllocatorFactoryVtable"
BACKING, SHARING = "NxmemVirtualBackingVtable", "NxmemSharedMappingVtable"
RECORDS_READ = [ALLOCATOR, FACTORY, BACKING, SHARING, "NxmemNegotiateRequest", "NxmemNegotiateResponse",
                "NxmemUnloadReport", "NxmemReleaseCompletion"]
MECHANISM = 0x6D656D

# ---- prefix, capability ----------------------------------------------------------------------------------------------

NO_POINTER = {"struct_size", "abi_minor", "mechanism_id", "device", "capability_flags"}


def table(record, **changes):
    """A usable table of the highest minor, every slot another address, then changed field by field."""
    size, fields = RECORDS[record]
    values = {f: 0x5150000 + o for f, o in fields.items() if f not in NO_POINTER}
    values |= {"struct_size": size, "abi_minor": 1, "mechanism_id": MECHANISM, "device": struct.pack("<II", 1, 7),
               "capability_flags": ALL_CAPS}
    values |= changes
    return whole(record, {f: v for f, v in values.items() if f in fields})


def reader_seeds(function, record, needs, middle=b""):
    """Of every reader: address, header, size, level, ceiling."""
    def read(bytes_, address=0, ceiling=1):
        return call(function, u32(ceiling), middle, u32(address), bytes_)

    size = RECORDS[record][0]
    yield f"{function}_usable", read(table(record))
    yield f"{function}_ceiling_0", read(table(record), ceiling=0)
    yield f"{function}_level_0", read(table(record, abi_minor=0))
    yield f"{function}_newer", read(table(record, abi_minor=7, struct_size=size + 8), ceiling=MAX32)
    yield f"{function}_null", read(table(record), address=128)
    for by in (1, 4, 7):
        yield f"{function}_misaligned_{by}", read(table(record), address=128 + by)
    for bytes_ in (0, 7, 8, needs - 1, size - 1, size + 1, MAX32):
        yield f"{function}_size_{bytes_:x}", read(table(record, struct_size=bytes_))
    yield f"{function}_level_0_least", read(table(record, abi_minor=0, struct_size=needs))
    yield f"{function}_level_0_less", read(table(record, abi_minor=0, struct_size=needs - 1))


def prefix_seeds():
    yield from numbered("allocator_bytes_at", u32, (0, 1, 2, MAX32))
    yield from numbered("check_table_address", u64, (0, 1, 4, 7, 8, 9, 0x1000, MAX64, MAX64 - 7))
    yield from numbered("prefix_extent", u32, ((0, 8), (8, 8), (9, 8), (7, 8), (MAX32, 120), (120, MAX32)))
    for kind, record, needs in (("allocator", ALLOCATOR, 120), ("factory", FACTORY, 56)):
        for function in (f"read_{kind}_unvalidated", f"read_{kind}"):
            yield from reader_seeds(function, record, needs)
    for kind, record, needs in (("backing", BACKING, 72), ("sharing", SHARING, 64)):
        yield from reader_seeds(f"read_{kind}_unvalidated", record, needs)
        yield from reader_seeds(f"read_{kind}", record, needs, u64(MECHANISM))
        for name, found, needed in (("own", MECHANISM, MECHANISM), ("zero", 0, MECHANISM), ("both_zero", 0, 0),
                                    ("other", MECHANISM, MECHANISM + 1), ("other_half", MECHANISM, MECHANISM + 2**32)):
            yield f"check_{kind}_{name}", call(f"check_{kind}", table(record, mechanism_id=found), u64(needed))
            yield (f"read_{kind}_{name}_mechanism",
                   call(f"read_{kind}", u32(1), u64(needed), u32(0), table(record, mechanism_id=found)))
    gaps = {"allocator": (ALLOCATOR, ("allocate", "deallocate", "retain", "release", "mechanism_id")),
            "factory": (FACTORY, ("open_allocator", "release"))}
    for kind, (record, fields) in gaps.items():
        yield f"check_{kind}_usable", call(f"check_{kind}", table(record))
        for field in fields:
            gap = table(record, **{field: 0})
            yield f"check_{kind}_without_{field}", call(f"check_{kind}", gap)
            yield f"read_{kind}_without_{field}", call(f"read_{kind}", u32(1, 0), gap)
        yield f"check_{kind}_empty", call(f"check_{kind}", table(record, **{field: 0 for field in fields}))


def capability_seeds():
    yield from numbered("caps_at", u32, (0, 1, 2, MAX32))
    masks = (0, 1, 15, 16, 31, 32, MAX64, 0x1F00000000)
    for minor in (0, 1, 2):
        for mask in masks:
            yield f"caps_effective_{mask:x}_at_{minor}", call("caps_effective", u64(mask, MAX64), u32(minor))
            yield f"caps_effective_negotiated_{mask:x}_at_{minor}", call("caps_effective", u64(31, mask), u32(minor))
    yield from numbered("check_required", u64, ((0, 0), (31, 31), (31, 0), (30, 1), (15, 16), (1, 31), (0, MAX64)))

    def judged(declared_minor=1, ceiling=1, negotiated=MAX64, **changes):
        return call("check_capabilities", table(ALLOCATOR, **changes), u32(declared_minor, ceiling), u64(negotiated))

    flagged = {"virtual_backing": 2, "shared_mapping": 4, "enqueue_release": 8, "drain_releases": 8,
               "pending_release_count": 8, "release_allocation": 16}
    yield "capabilities_usable", judged()
    yield "capabilities_allocator_alone", judged(negotiated=1)
    yield "capabilities_nothing_negotiated", judged(negotiated=0)
    yield "capabilities_no_allocator", judged(capability_flags=30)
    yield "capabilities_undefined_bit", judged(capability_flags=32 + 31)
    yield "capabilities_high_bit", judged(capability_flags=2**63 + 31)
    yield "capabilities_undefined_bit_ahead", judged(declared_minor=2, capability_flags=32 + 31)
    yield "capabilities_bit_above_level", judged(declared_minor=0, abi_minor=0)
    yield "capabilities_bit_above_level_ahead", judged(declared_minor=1, ceiling=0, abi_minor=0)
    yield "capabilities_level_0", judged(declared_minor=0, ceiling=0, abi_minor=0, capability_flags=MINOR_0_CAPS)
    for slot, bit in flagged.items():
        yield f"capabilities_without_{slot}", judged(**{slot: 0})
        yield f"capabilities_masked_{slot}", judged(negotiated=MAX64 - bit, **{slot: 0})
        yield f"capabilities_only_{slot}", judged(negotiated=1 + bit, **{s: 0 for s in flagged if s != slot})
        yield f"capabilities_undeclared_{slot}", judged(capability_flags=ALL_CAPS - bit)
        yield f"capabilities_undeclared_empty_{slot}", judged(capability_flags=ALL_CAPS - bit, **{slot: 0})
    yield "capabilities_no_slot", judged(**{slot: 0 for slot in flagged})
    yield "capabilities_both_loose", judged(capability_flags=ALL_CAPS - 6)
    yield "capabilities_sharing_loose", judged(capability_flags=ALL_CAPS - 6, virtual_backing=0)
    yield "capabilities_level_0_without_slot", judged(abi_minor=0, release_allocation=0)


# ---- negotiate -------------------------------------------------------------------------------------------------------


def span(major_min=1, major_max=1, minor_min=0, minor_max=1):
    return u32(major_min, major_max, minor_min, minor_max)


SPANS = {"one": span(), "wide": span(0, MAX32, 0, MAX32), "major_inverted": span(2, 1),
         "minor_inverted": span(1, 1, 2, 1),
         "both_inverted": span(2, 1, 2, 1), "above": span(2, 3), "below": span(0, 0), "several": span(1, 5, 0, 3),
         "minor_above": span(1, 1, 2, 3), "minor_0": span(1, 1, 0, 0), "minor_1": span(1, 1, 1, 1)}


def request(range_, caps=ALL_CAPS, size=32):
    return whole("NxmemNegotiateRequest", {"struct_size": size, "reserved": 0xEEEEEEEE, "host_range": range_,
                                           "host_capability_flags": caps})


def negotiate_seeds():
    for name, range_ in SPANS.items():
        yield f"range_is_valid_{name}", call("range_is_valid", range_)
        yield f"negotiate_decide_host_{name}", call("negotiate_decide", request(range_), span(), u64(ALL_CAPS))
        yield f"negotiate_decide_own_{name}", call("negotiate_decide", request(span()), range_, u64(ALL_CAPS))
        yield f"negotiate_decide_both_{name}", call("negotiate_decide", request(range_), range_, u64(ALL_CAPS))
        yield f"negotiate_decide_wide_{name}", call("negotiate_decide", request(range_), SPANS["wide"], u64(MAX64))
        yield f"judge_own_{name}", call("negotiate_judge", u32(0), response(), range_, u64(ALL_CAPS))
        yield f"judge_theirs_{name}", call("negotiate_judge", u32(0), response(plugin_range=range_), span(),
                                           u64(ALL_CAPS))
    for own, host in ((2, 4), (30, 31), (31, 30), (MAX64, MAX64), (3, 5), (16, 17), (17, 17)):
        for minor in (0, 1):
            yield (f"negotiate_decide_caps_{own:x}_{host:x}_at_{minor}",
                   call("negotiate_decide", request(span(minor_max=minor), host), span(), u64(own)))
    yield "request_take_usable", call("request_take", u32(0), request(span(2, 3, 4, 5), 0x123456789ABCDEF))
    yield "request_take_null", call("request_take", u32(128), request(span()))
    for by in (1, 4, 7):
        yield f"request_take_misaligned_{by}", call("request_take", u32(128 + by), request(span()))
    for size in (0, 4, 31, 33, MAX32):
        yield f"request_take_size_{size:x}", call("request_take", u32(0), request(span(), size=size))
    yield from numbered("response_extent", u32, (0, 1, 3, 4, 5, 7, 30, 31, 32, 33, 36, 39, 40, 41, MAX32))
    yield "response_take", call("response_take", response(reserved=0xEEEEEEEE, agreed_major=2, agreed_minor=3,
                                                          plugin_range=span(4, 5, 6, 7), struct_size=41))
    yield from judge_seeds()


def response(**changes):
    values = {"struct_size": 40, "agreed_major": 1, "agreed_minor": 1, "plugin_range": span(),
              "capability_flags": ALL_CAPS}
    return whole("NxmemNegotiateResponse", values | changes)


def judge_seeds():
    def judged(status=0, own=SPANS["one"], caps=ALL_CAPS, **lie):
        return call("negotiate_judge", u32(status), response(**lie), own, u64(caps))

    wide = SPANS["wide"]
    for status in (1, MAX32):
        yield f"judge_status_{status:x}", judged(status)
    for size in (0, 39, 41):
        yield f"judge_size_{size}", judged(struct_size=size)
    for major in (0, 2, MAX32):
        yield f"judge_major_{major:x}", judged(agreed_major=major, plugin_range=wide)
        yield f"judge_major_{major:x}_outside_theirs", judged(agreed_major=major, own=wide)
    for minor in (0, 2, MAX32):
        yield f"judge_minor_{minor:x}", judged(agreed_minor=minor, own=SPANS["minor_1"], plugin_range=wide)
        yield f"judge_minor_{minor:x}_outside_theirs", judged(agreed_minor=minor, own=wide,
                                                              plugin_range=SPANS["minor_1"])
        yield f"judge_minor_{minor:x}_agreed", judged(agreed_minor=minor, own=wide, plugin_range=wide)
    for flags in (0, 1, 15, 16, 17, 30, 32, 33, 2**63 + 1):
        yield f"judge_flags_{flags:x}", judged(capability_flags=flags)
        yield f"judge_flags_{flags:x}_at_0", judged(capability_flags=flags, agreed_minor=0)
    for caps in (0, 1, 30, MAX64):
        yield f"judge_offered_{caps:x}", judged(caps=caps)


# ---- status, name ----------------------------------------------------------------------------------------------------

CHARACTERS = {"one_least": b"\x00", "one_most": b"\x7f", "two_least": b"\xc2\x80", "two_most": b"\xdf\xbf",
              "three_least": b"\xe0\xa0\x80", "three_e0_most": b"\xe0\xbf\xbf", "three_e1": b"\xe1\x80\x80",
              "three_ec": b"\xec\xbf\xbf", "three_before_surrogates": b"\xed\x9f\xbf", "three_ee": b"\xee\x80\x80",
              "three_most": b"\xef\xbf\xbf", "four_least": b"\xf0\x90\x80\x80", "four_f0_most": b"\xf0\xbf\xbf\xbf",
              "four_f1": b"\xf1\x80\x80\x80", "four_f3": b"\xf3\xbf\xbf\xbf", "four_most": b"\xf4\x8f\xbf\xbf"}
MALFORMED = {"tail": b"\x80", "last_tail": b"\xbf", "c0": b"\xc0\x80", "c1": b"\xc1\xbf", "two_without_tail": b"\xc2A",
             "two_bad_tail": b"\xc2\xc0", "overlong_three": b"\xe0\x9f\xbf", "surrogate": b"\xed\xa0\x80",
             "three_bad_second": b"\xe1\x7f\x80", "three_bad_third": b"\xe1\x80\xc0",
             "overlong_four": b"\xf0\x8f\xbf\xbf",
             "above_last": b"\xf4\x90\x80\x80", "four_bad_third": b"\xf1\x80A\x80", "four_bad_fourth": b"\xf1\x80\x80A",
             "f5": b"\xf5\x80\x80\x80", "ff": b"\xff", "cut_two": b"\xc2", "cut_three": b"\xe1\x80",
             "cut_four": b"\xf1\x80\x80", "f1_second": b"\xf1\xc0\x80\x80", "e0_above": b"\xe0\xc0\x80",
             "ed_below": b"\xed\x7f\x80", "f0_above": b"\xf0\xc0\x80\x80", "f4_below": b"\xf4\x7f\x80\x80"}
CONTROLS = {"c0_last": b"\x1f", "escape": b"\x1b", "del": b"\x7f", "c1_first": b"\xc2\x80", "c1_last": b"\xc2\x9f",
            "letter_mark": b"\xd8\x9c", "mark": b"\xe2\x80\x8e", "line": b"\xe2\x80\xa8", "override": b"\xe2\x80\xae",
            "isolate": b"\xe2\x81\xa6", "isolate_end": b"\xe2\x81\xa9"}
NEAR_CONTROLS = {"space": b" ", "tilde": b"~", "after_c1": b"\xc2\xa0", "two": b"\xc3\x80",
                 "before_mark": b"\xe2\x80\x8d", "after_mark": b"\xe2\x80\x90", "before_line": b"\xe2\x80\xa7",
                 "after_override": b"\xe2\x80\xaf", "before_isolate": b"\xe2\x81\xa5", "after_isolate": b"\xe2\x81\xaa",
                 "before_letter_mark": b"\xd8\x9b", "other_second": b"\xe2\x82\xae"}
TEXTS = {"": b"", "plain": b"out of memory", "backslash": b"a\\b",
         "mixed": b"a\xff\x1b\\\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"}


def long_texts():
    yield "ascii", b"x" * 320
    for before in range(251, 256):
        yield f"tails_from_{before}", b"y" * before + b"\x80" * (300 - before)
        yield f"character_at_{before}", b"y" * before + b"\xf0\x9f\x98\x80" + b"z" * 20
    yield "nul_at_255", b"n" * 255 + b"\0tail"
    yield "nul_at_256", b"n" * 256 + b"\0tail"


def status_seeds():
    for reason in (*range(0, 8), *range(10, 15), *range(20, 30), 40, 41, *range(50, 54), *range(60, 67), *range(67, 92),
                   *range(92, 102), MAX32):
        yield f"reason_status_{reason}", call("reason_status", u32(reason))
    for name, bytes_ in (CHARACTERS | MALFORMED).items():
        yield f"utf8_length_{name}", call("utf8_length", text(bytes_))
        yield f"utf8_length_{name}_and_more", call("utf8_length", text(bytes_ + b"A"))
        yield f"code_point_{name}", call("utf8_code_point", bytes_.ljust(4, b"A"))
    yield "utf8_length_nothing", call("utf8_length", text(b""))
    yield from numbered("is_control", u32, (0, 0x1F, 0x20, 0x5C, 0x7E, 0x7F, 0x80, 0x9F, 0xA0, 0x10001, MAX32,
                                               0x61B, 0x61C, 0x61D, 0x200D, 0x200E, 0x200F, 0x2010, 0x2027, 0x2028, 0x202E,
                                               0x202F, 0x2065, 0x2066, 0x2069, 0x206A))
    yield from numbered("status_message_len", u32, (0, 1, 254, 255, 256, MAX32))
    for name, bytes_ in (*TEXTS.items(), *long_texts()):
        yield f"status_build_{name}", call("status_build", u32(8), text(bytes_))
    for length in (1, 254, 255, 256, 257):
        yield f"status_build_of_{length}", call("status_build", u32(0), text(b"w" * length))
    yield "status_build_nul_first", call("status_build", u32(8), text(b"\0behind"))
    yield "status_build_nul_inside", call("status_build", u32(8), text(b"before\0behind"))
    for claimed in (0, 1, 5, 6, 254, 255, 256, MAX32):
        yield f"status_take_claims_{claimed:x}", call("status_take", message(b"q" * 256, claimed))
        yield f"status_take_claims_{claimed:x}_ended", call("status_take", message(b"short\0more", claimed, code=0))
    yield from show_seeds()


def show_seeds():
    def shown(bytes_, capacity=97):
        return call("text_show", u16(capacity - 1), text(bytes_))

    for name, bytes_ in (TEXTS | CHARACTERS | MALFORMED | CONTROLS | NEAR_CONTROLS).items():
        yield f"text_show_{name}", shown(bytes_)
        yield f"text_show_{name}_between", shown(b"a" + bytes_ + b"b")
    for capacity in range(1, 10):
        yield f"text_show_plain_in_{capacity}", shown(b"abcdefghij", capacity)
        yield f"text_show_mixed_in_{capacity}", shown(b"\xe2\x82\xac\x1b\xff\xf0\x9f\x98\x80", capacity)
    yield "text_show_all_escaped", shown(b"\x01" * 24, 97)


def name_seeds():
    for name, bytes_ in (TEXTS | CHARACTERS | MALFORMED | CONTROLS | NEAR_CONTROLS).items():
        yield f"check_name_{name}", call("check_name", text(bytes_ + b"\0"))
        yield f"check_name_{name}_behind", call("check_name", text(b"ab" + bytes_ + b"\0tail"))
    yield "check_name_nothing", call("check_name", text(b""))
    for length in (1, 254, 255, 256):
        yield f"check_name_of_{length}", call("check_name", text(b"n" * length + b"\0"))
        yield f"check_name_unended_{length}", call("check_name", text(b"n" * length))
    longest = b"s" * 255
    pairs = {"empty": (b"", b""), "same": (b"pool", b"pool"), "first_differs": (b"pool", b"tool"),
             "last_differs": (b"pool", b"poor"), "prefix": (b"poo", b"pool"), "longer": (b"pool", b"poo"),
             "one_empty": (b"", b"pool"), "longest": (longest, longest),
             "longest_differs": (longest, longest[:-1] + b"t"),
             "longest_and_shorter": (longest, longest[:-1])}
    for name, (a, b) in pairs.items():
        yield f"same_name_{name}", call("same_name", text(a), text(b))
        for devices in ((1, 2, 1, 2), (1, 2, 1, 3), (1, 2, 0, 2)):
            yield f"same_mechanism_{name}", call("same_mechanism", u32(*devices), text(a), text(b))
    for address in (0, 0x1000):
        for length in (0, 1, 5, 255, 256):
            yield f"fetched_{address}_{length}", call("check_fetched_name", u64(address), text(b"n" * length))
        for name, bytes_ in {"ended": b"pool\0tail", "empty": b"\0x", "bad": b"a\xff\0", "control": b"ab\x1b\0",
                             "c1": b"\xc2\x9f\0", "longest": b"n" * 255 + b"\0"}.items():
            yield f"fetched_{address}_{name}", call("check_fetched_name", u64(address), text(bytes_))


# ---- Files -----------------------------------------------------------------------------------------------------------

FILE_MAX, CALLS_MAX = 1024, 32
TOPICS = (prefix_seeds, capability_seeds, negotiate_seeds, status_seeds, name_seeds, *core_books.TOPICS,
          *core_sharing.TOPICS, *core_overlap.TOPICS, *core_granules.TOPICS,
          *core_quota.TOPICS, *core_lifecycle.TOPICS)


def is_full(calls, another):
    return len(calls) == CALLS_MAX or sum(map(len, calls)) + len(another) > FILE_MAX


def seeds():
    """Calls of one function share a file, CALLS_MAX of them and FILE_MAX bytes at most: FUNCTION_0, FUNCTION_1, ..."""
    names = {bytes(place): function.removeprefix("nxmem_") for function, place in PLACES.items()}
    files = {}
    for topic in TOPICS:
        for _, bytes_ in topic():
            of_function = files.setdefault(bytes_[:2], [])
            if not of_function or is_full(of_function[-1], bytes_):
                of_function.append([])
            of_function[-1].append(bytes_[2:])
    for place, of_function in files.items():
        for number, calls in enumerate(of_function):
            yield f"{names[place]}_{number}", place + b"".join(calls)
