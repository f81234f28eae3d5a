#!/usr/bin/env python3
"""Makes the fuzz targets' seeds and dictionaries from the wire header's own layout annotations and constants.

    make_seeds.py            write fuzz/seeds/<target>/*.bin and fuzz/dict/<target>.dict
    make_seeds.py --check    print TAP: is what is checked in what this script makes?
"""
import struct
import sys

sys.dont_write_bytecode = True
import core_seeds
import elf_seeds
import fetch_seeds
import life_seeds
import owners_seeds
import policy_seeds
import strings_seeds
import vmm_seeds
from layout import ALL_CAPS, CAP, CONSTANTS, FUZZ, MAX32, MAX64, MINOR_0_CAPS, RECORDS, whole

# ---- table -----------------------------------------------------------------------------------------------------------

KINDS = {"allocator": 0, "factory": 1, "backing": 2, "sharing": 3}
RECORD_OF = {"allocator": "NxmemAllocatorVtable", "factory": "NxmemAllocatorFactoryVtable",
             "backing": "NxmemVirtualBackingVtable", "sharing": "NxmemSharedMappingVtable"}
NO_POINTER = {"struct_size", "abi_minor", "mechanism_id", "device", "capability_flags"}
MECHANISM = 0x6D656D


def table(kind, argument, required=0, skew=0, readable=None, **changes):
    """A usable table of the highest minor, then changed field by field."""
    size, fields = RECORDS[RECORD_OF[kind]]
    values = {f: 0x5150000 + o for f, o in fields.items() if f not in NO_POINTER}
    values |= {"struct_size": size, "abi_minor": 1, "mechanism_id": MECHANISM, "device": struct.pack("<II", 1, 0),
               "capability_flags": ALL_CAPS}
    values |= changes
    body = whole(RECORD_OF[kind], {f: v for f, v in values.items() if f in fields}, readable)
    return struct.pack("<BQQ", KINDS[kind] | skew << 2, argument, required) + body


def allocator_seeds():
    size = RECORDS[RECORD_OF["allocator"]][0]
    base = size - 8
    for slot in ("allocate", "deallocate", "retain", "release"):
        yield f"allocator_null_{slot}", table("allocator", ALL_CAPS, **{slot: 0})
    for slot in ("virtual_backing", "shared_mapping", "enqueue_release", "drain_releases", "pending_release_count",
                 "release_allocation"):
        yield f"allocator_flag_without_{slot}", table("allocator", ALL_CAPS, **{slot: 0})
    for cap in ("virtual_backing", "shared_mapping"):
        yield f"allocator_{cap}_without_flag", table("allocator", ALL_CAPS, capability_flags=ALL_CAPS - CAP[cap])
        yield f"allocator_{cap}_masked", table("allocator", ALL_CAPS - CAP[cap], **{cap: 0})
    yield "allocator_minor1_full", table("allocator", ALL_CAPS, ALL_CAPS)
    yield "allocator_minor0_base", table("allocator", ALL_CAPS, struct_size=base, abi_minor=0, readable=base,
                                         capability_flags=MINOR_0_CAPS)
    yield "allocator_minor0_half_a_slot", table("allocator", ALL_CAPS, struct_size=base + 4, abi_minor=0,
                                                readable=base + 4, capability_flags=MINOR_0_CAPS)
    yield "allocator_minor0_long_as_minor1", table("allocator", ALL_CAPS, abi_minor=0, capability_flags=MINOR_0_CAPS)
    yield "allocator_minor0_with_minor1_bit", table("allocator", ALL_CAPS, abi_minor=0)
    yield "allocator_minor1_one_byte_short", table("allocator", ALL_CAPS, struct_size=size - 1, readable=size - 1)
    yield "allocator_minor1_short_as_minor0", table("allocator", ALL_CAPS, struct_size=base, readable=base)
    yield "allocator_newer_minor_longer", table("allocator", ALL_CAPS, struct_size=size + 8, abi_minor=2,
                                                readable=size + 8, capability_flags=ALL_CAPS + 32)
    yield "allocator_size_max", table("allocator", ALL_CAPS, struct_size=MAX32, abi_minor=MAX32)
    yield "allocator_size_zero", table("allocator", ALL_CAPS, struct_size=0)
    yield "allocator_size_seven", table("allocator", ALL_CAPS, struct_size=7, readable=7)
    yield "allocator_size_eight", table("allocator", ALL_CAPS, struct_size=8, readable=8)
    yield "allocator_ends_before_its_size", table("allocator", ALL_CAPS, readable=100)
    yield "allocator_misaligned", table("allocator", ALL_CAPS, skew=3)
    yield "allocator_zero_mechanism", table("allocator", ALL_CAPS, mechanism_id=0)
    yield "allocator_undefined_bit", table("allocator", ALL_CAPS, capability_flags=ALL_CAPS + 2**63)
    yield "allocator_without_allocator_bit", table("allocator", ALL_CAPS, capability_flags=ALL_CAPS - 1)
    yield "allocator_lacks_what_is_required", table("allocator", CAP["allocator"], ALL_CAPS)
    yield "allocator_all_zero", bytes(17 + size)
    yield "allocator_all_aa", bytes(17) + b"\xAA" * size


def other_table_seeds():
    for kind in ("factory", "backing", "sharing"):
        size, fields = RECORDS[RECORD_OF[kind]]
        yield f"{kind}_full", table(kind, MECHANISM)
        yield f"{kind}_minor0", table(kind, MECHANISM, abi_minor=0)
        yield f"{kind}_newer_minor_longer", table(kind, MECHANISM, struct_size=size + 8, abi_minor=7, readable=size + 8)
        yield f"{kind}_one_byte_short", table(kind, MECHANISM, struct_size=size - 1, readable=size - 1)
        yield f"{kind}_ends_before_its_size", table(kind, MECHANISM, readable=size - 8)
        yield f"{kind}_size_seven", table(kind, MECHANISM, struct_size=7, readable=7)
        yield f"{kind}_misaligned", table(kind, MECHANISM, skew=7)
        yield f"{kind}_all_aa", bytes([KINDS[kind]]) + bytes(16) + b"\xAA" * size
        for field in fields:
            if kind == "factory" and field in ("open_allocator", "release"):
                yield f"factory_null_{field}", table(kind, MECHANISM, **{field: 0})
        if kind != "factory":
            yield f"{kind}_zero_mechanism", table(kind, MECHANISM, mechanism_id=0)
            yield f"{kind}_other_mechanism", table(kind, MECHANISM + 1)
            yield f"{kind}_no_slots", table(kind, MECHANISM, **{f: 0 for f in fields if f not in NO_POINTER})


# ---- negotiate -------------------------------------------------------------------------------------------------------


def version_range(major_min=1, major_max=1, minor_min=0, minor_max=1):
    return struct.pack("<IIII", major_min, major_max, minor_min, minor_max)


def negotiation(room=40, skew=0, status=0, own=None, own_caps=ALL_CAPS, host=None, host_caps=ALL_CAPS, request=None,
                **lie):
    answer = {"struct_size": 40, "agreed_major": 1, "agreed_minor": 1, "plugin_range": version_range(),
              "capability_flags": ALL_CAPS} | lie
    ask = whole("NxmemNegotiateRequest", {"struct_size": 32, "host_range": host or version_range(),
                                          "host_capability_flags": host_caps})
    return (struct.pack("<BBI", room, skew, status) + (own or version_range()) + struct.pack("<Q", own_caps)
            + whole("NxmemNegotiateResponse", answer) + (ask if request is None else request))


def negotiate_seeds():
    short = whole("NxmemNegotiateRequest", {"struct_size": 31})
    yield "both_1_1", negotiation()
    yield "older_host", negotiation(host=version_range(minor_max=0), agreed_minor=0, capability_flags=MINOR_0_CAPS)
    yield "older_plugin", negotiation(own=version_range(minor_max=0), agreed_minor=0, capability_flags=MINOR_0_CAPS)
    yield "several_majors", negotiation(own=version_range(1, 5), host=version_range(3, 9), agreed_major=5)
    yield "host_ahead", negotiation(host=version_range(5, 6))
    yield "plugin_ahead", negotiation(own=version_range(2, 3))
    yield "no_common_minor", negotiation(own=version_range(minor_min=2, minor_max=3))
    yield "host_major_inverted", negotiation(host=version_range(2, 1))
    yield "host_minor_inverted", negotiation(host=version_range(minor_min=2, minor_max=1))
    yield "own_major_inverted", negotiation(own=version_range(2, 1))
    yield "own_minor_inverted", negotiation(own=version_range(minor_min=2, minor_max=1))
    yield "widest_ranges", negotiation(own=version_range(0, MAX32, 0, MAX32), host=version_range(0, MAX32, 0, MAX32))
    yield "no_common_capability", negotiation(own_caps=2, host_caps=4)
    yield "undefined_capabilities_on_both_sides", negotiation(own_caps=MAX64, host_caps=MAX64)
    yield "request_declares_31", negotiation(request=short)
    yield "request_declares_7", negotiation(request=struct.pack("<I", 7))
    yield "request_ends_before_its_size", negotiation(request=struct.pack("<II", 32, 0))
    longer = whole("NxmemNegotiateRequest", {"struct_size": 48}) + bytes(16)
    yield "request_longer_than_ours", negotiation(request=longer)
    yield "request_misaligned", negotiation(skew=5)
    yield "no_request", negotiation(request=b"")
    for room in (0, 3, 4, 15, 31, 36, 39, 41, 64):
        yield f"room_for_{room}", negotiation(room=room)
    yield "plugin_refuses", negotiation(status=1)
    yield "plugin_unknown_status", negotiation(status=MAX32)
    yield "lie_short_response", negotiation(struct_size=39)
    yield "lie_plugin_major_inverted", negotiation(plugin_range=version_range(2, 1))
    yield "lie_plugin_minor_inverted", negotiation(plugin_range=version_range(minor_min=2, minor_max=1))
    yield "lie_major_above", negotiation(agreed_major=2, plugin_range=version_range(1, 2))
    yield "lie_major_below", negotiation(agreed_major=0, plugin_range=version_range(0, 2))
    yield "lie_minor_above", negotiation(agreed_minor=2, plugin_range=version_range(minor_max=2))
    yield "lie_major_outside_its_own", negotiation(plugin_range=version_range(2, 3))
    yield "lie_minor_outside_its_own", negotiation(plugin_range=version_range(minor_max=0))
    yield "lie_undefined_bit", negotiation(capability_flags=ALL_CAPS + 32)
    yield "lie_beyond_the_offer", negotiation(host_caps=CAP["allocator"])
    yield "lie_no_allocator", negotiation(capability_flags=ALL_CAPS - 1)
    yield "lie_beyond_the_level", negotiation(agreed_minor=0)


# ---- status ----------------------------------------------------------------------------------------------------------


def text(bytes_, code=5, claimed=None, capacity=4096):
    return struct.pack("<IIH", code, len(bytes_) if claimed is None else claimed, capacity - 1) + bytes_


def status_seeds():
    smile = "\U0001F600".encode()
    euro = "\u20AC".encode()
    umlaut = "\u00E4".encode()
    yield "empty", text(b"")
    yield "plain", text(b"out of memory: 4096 bytes asked, 12 left\0")
    yield "nul_inside", text(b"before\0behind", claimed=13)
    yield "nul_first", text(b"\0behind", claimed=7)
    yield "claims_nothing", text(b"unseen", claimed=0)
    yield "claims_too_much", text(b"short\0", claimed=MAX32)
    yield "claims_256", text(b"x" * 256, claimed=256)
    for length in (254, 255, 256, 257):
        yield f"ascii_{length}", text(b"y" * length)
        yield f"name_{length}", text(b"n" * (length - 1) + b"\0")
    for name, character in (("two", umlaut), ("three", euro), ("four", smile)):
        for before in range(255 - len(character), 256):
            yield f"{name}_byte_character_at_{before}", text(b"z" * before + character + b"z")
    yield "continuation_bytes_up_to_the_cut", text(b"a" * 250 + b"\x80" * 12)
    yield "overlong", text(b"\xC0\xAF \xE0\x80\xAF \xF0\x80\x80\xAF")
    yield "surrogate", text(b"\xED\xA0\x80\xED\xBF\xBF")
    yield "above_the_last_code_point", text(b"\xF4\x90\x80\x80 \xF5\x80\x80\x80 \xFF")
    yield "truncated_two", text(b"a\xC3")
    yield "truncated_three", text(b"a\xE2\x82")
    yield "truncated_four", text(b"a\xF0\x9F\x98")
    yield "lowest_and_highest_of_each_length", text("\u0080\u07FF\u0800\uD7FF\uE000\uFFFF\U00010000\U0010FFFF".encode())
    yield "terminal_escape", text(b"\x1b[2J\x1b]0;title\x07\x7f")
    yield "c1_controls", text("\u0080\u009B\u009F\u00A0".encode())
    yield "separators", text("one\u2028two\u2029three".encode())
    yield "direction", text("\u061C\u200E\u200F\u202A\u202E\u2066\u2069 \u061B\u200D\u2010\u2027\u202F\u2065\u206A".encode())
    yield "backslashes", text(b"\\x41\\\\n\\")
    yield "replacement_character_itself", text("\uFFFD".encode() + b"\xFF")
    yield "lines_and_tabs", text(b"one\r\ntwo\tthree\n")
    for capacity in (1, 2, 3, 4, 5, 8):
        yield f"room_for_{capacity}", text(b"a\x1b" + euro + b"\xff" + smile, capacity=capacity)
    for code in (0, 1, 14, 15, 100, 101, MAX32):
        yield f"code_{code}", text(b"code\0", code=code)


# ---- Dictionaries ----------------------------------------------------------------------------------------------------


def entry(name, bytes_):
    return f'{name}="' + "".join(f"\\x{b:02x}" for b in bytes_) + '"'


def numbers(names):
    return [entry(name.lower(), CONSTANTS[name][0].to_bytes(CONSTANTS[name][1], "little")) for name in names]


def sizes(records):
    for record in records:
        size = RECORDS[record][0]
        for label, value in (("less", size - 1), ("size", size), ("more", size + 1)):
            yield entry(f"{record.lower()}_{label}", value.to_bytes(4, "little"))


def dictionaries():
    edges = [entry("max32", b"\xff" * 4), entry("max64", b"\xff" * 8), entry("zero64", bytes(8)),
             entry("header_size", struct.pack("<I", 8)), entry("all_caps", struct.pack("<Q", ALL_CAPS)),
             entry("minor_0_caps", struct.pack("<Q", MINOR_0_CAPS))]
    versions = numbers(n for n in CONSTANTS if n.startswith(("NXMEM_CAP_", "NXMEM_ABI_")))
    yield "table", (versions + edges + list(sizes(RECORD_OF.values()))
                    + [entry("allocator_at_minor_0", struct.pack("<I", RECORDS[RECORD_OF["allocator"]][0] - 8))])
    yield "negotiate", (versions + edges + list(sizes(["NxmemNegotiateRequest", "NxmemNegotiateResponse"]))
                        + [entry("range", version_range())])
    pieces = {"nul": b"\0", "escape": b"\x1b[", "del": b"\x7f", "backslash": b"\\x", "c1": b"\xc2\x80",
              "continuation": b"\x80", "two": b"\xc3\xa4", "three": b"\xe2\x82\xac", "four": b"\xf0\x9f\x98\x80",
              "surrogate": b"\xed\xa0\x80", "overlong": b"\xc0\xaf", "above_last": b"\xf4\x90\x80\x80",
              "replacement": b"\xef\xbf\xbd", "sixteen": b"sixteen bytes in"}
    yield "status", (numbers(n for n in CONSTANTS if n.startswith("NXMEM_STATUS_"))
                     + [entry(name, bytes_) for name, bytes_ in pieces.items()])
    texts = [entry(name, bytes_) for name, bytes_ in pieces.items()]
    yield "strings", numbers(n for n in CONSTANTS if n.startswith("NXMEM_STATUS_")) + texts
    for target in ("lifecycle", "deferred", "load"):
        yield target, edges + [entry(name, bytes_) for name, bytes_ in life_seeds.words(target)]
    yield "fetch", edges + [entry(name, bytes_) for name, bytes_ in fetch_seeds.words()]
    yield "elf", [entry(name, bytes_) for name, bytes_ in elf_seeds.words()]
    yield "owners", edges + [entry(name, bytes_) for name, bytes_ in owners_seeds.words()]
    yield "policy", [entry(name, bytes_) for name, bytes_ in policy_seeds.words()]
    yield "vmm", edges + [entry(name, bytes_) for name, bytes_ in vmm_seeds.words()]
    yield "core", (versions + edges + numbers(n for n in CONSTANTS if n.startswith("NXMEM_STATUS_"))
                   + list(sizes(core_seeds.RECORDS_READ))
                   + [entry(f"power_{n}", struct.pack("<Q", 1 << n)) for n in (8, 12, 24, 31, 32, 63)]
                   + [entry(name, bytes_) for name, bytes_ in pieces.items()])


# ---- Files -----------------------------------------------------------------------------------------------------------


def outputs():
    """Path -> bytes, of everything this script makes."""
    made = {}
    for target, seeds in (("table", [*allocator_seeds(), *other_table_seeds()]), ("negotiate", negotiate_seeds()),
                          ("fetch", fetch_seeds.seeds()), ("status", status_seeds()), ("core", core_seeds.seeds()),
                          ("strings", strings_seeds.seeds()), ("elf", elf_seeds.seeds()),
                          ("policy", policy_seeds.seeds()), ("vmm", vmm_seeds.seeds()), ("owners", owners_seeds.seeds())):
        for name, bytes_ in seeds:
            made[FUZZ / "seeds" / target / f"{name}.bin"] = bytes_
    for target, name, bytes_ in life_seeds.seeds():
        made[FUZZ / "seeds" / target / f"{name}.bin"] = bytes_
    for target, lines in dictionaries():
        head = "# Made by fuzz/seeds/make_seeds.py from the constants and layouts of nxmem_memory_abi.h.\n"
        made[FUZZ / "dict" / f"{target}.dict"] = (head + "\n".join(lines) + "\n").encode()
    return made


def present():
    return {*FUZZ.glob("seeds/*/*"), *FUZZ.glob("dict/*")}


def write(made):
    for path in present() - made.keys():
        path.unlink()
    for path, bytes_ in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes_)
    print(f"{len(made)} files, {sum(map(len, made.values()))} bytes")


def check(made):
    rows = sorted({path.parent for path in made})
    print(f"1..{len(rows)}")
    failed = 0
    for number, folder in enumerate(rows, 1):
        of_folder = {p for p in present() | made.keys() if p.parent == folder}
        stale = sorted(p.name for p in of_folder if not p.exists() or made.get(p) != p.read_bytes())
        failed += bool(stale)
        print(f"{'not ok' if stale else 'ok'} {number} - {folder.relative_to(FUZZ)} is what make_seeds.py makes")
        for name in stale:
            print(f"# differs: {name}; run fuzz/seeds/make_seeds.py")
    return failed


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(1 if check(outputs()) else 0)
    if sys.argv[1:]:
        sys.exit(__doc__)
    write(outputs())
