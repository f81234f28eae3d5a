"""Seeds of the targets lifecycle, deferred and load: a header, then operations and answers of 16 bytes each (life/life.h)."""
import itertools
import pathlib
import re
import struct

FUZZ = pathlib.Path(__file__).resolve().parents[1]
HOSTILE, DIRECT, TRUSTED, OLD, NO_HOOK, UNMAP = (1 << bit for bit in range(6))
UNWRITTEN = 2**64 - 1


def operations(target):
    """Operation -> the byte that says it, as the target lists them."""
    text = (FUZZ / "targets" / f"{target}.c").read_text()
    names = re.findall(r"OP_\w+", re.search(r"ops\[\] = \{(.*?)\}", text, re.S)[1])
    return {name[3:].lower(): names.index(name) for name in names}


def record(op=0, a=0, b=0, c=0, d=0, x=0, y=0):
    return struct.pack("<BBBBB", op, a, b, c, d) + x.to_bytes(3, "little") + struct.pack("<Q", y)


class Script:
    def __init__(self, target, mode=0, caps=31, new_spaces=False):
        """new_spaces: of the host's index no tier was used before this input; else all were."""
        self.ops = operations(target)
        self.bytes = bytes([mode, caps, 7 if new_spaces else 0]) + bytes(13)

    def do(self, op, *answers, **fields):
        """One operation and what the plugin answers to each question that it leads to; {} is an honest answer."""
        self.bytes += record(self.ops[op], **fields)
        for answer in answers:
            self.bytes += answer if isinstance(answer, bytes) else record(**answer)
        return self

    def nested(self, op, **fields):
        return record(self.ops[op], **fields)

    def open(self, which=0, **fields):
        return self.do("open", {}, **{"a": which, "b": which % 3, **fields})

    def allocate(self, which=0, answer=None, **fields):
        return self.do("allocate", answer or {}, a=which, **{"x": 4095, "c": 6, **fields})


ONE = 0xC0  # status nibble 0, one operation inside
FAILS = {"refuses": 10, "keeps": 11, "unknown": 14}


def everyday(target):
    yield "open_close", Script(target).open().do("close", {}, a=0)
    yield "allocate_release", Script(target).open().allocate(b=0).do("release", {}, b=0).do("close", {})
    yield "close_over_live", Script(target).open().allocate(b=0).allocate(b=1).do("close", {}, {}, {}, b=1)
    yield "two_allocators", Script(target).open(0).open(1).allocate(0, b=0).allocate(1, b=1).do("release", {}, b=1)


def queued():
    target = "deferred"
    for pinned in (0, 1):
        for name, fields in COMPLETIONS:
            s = Script(target).open(d=pinned).allocate(b=0).do("enqueue", {}, b=0).do("complete", b=0, **fields)
            yield f"{name}_{'pinned' if pinned else 'plain'}", s.do("complete", b=0).do("drain", {}).do("close", {})
    for name, status in FAILS.items():
        yield f"enqueue_{name}", Script(target).open().allocate(b=0).do("enqueue", {"a": status}, b=0).do("close", {}, b=1)
    s = Script(target).open().allocate(b=0)
    yield "no_ticket", s.do("enqueue", {"b": 9}, b=0).do("close", {})
    for name, fields in COMPLETIONS:
        for status in (0, 10, 11):
            s = Script(target).open().allocate(b=0)
            s.do("enqueue", {"a": ONE | status}, s.nested("complete", b=0, **fields), b=0)
            yield f"inside_enqueue_{name}_{status}", s.do("close", {}, {}, b=1)
    for name, fields in COMPLETIONS:
        s = Script(target).open().allocate(b=0).allocate(b=1).do("enqueue", {}, b=0).do("enqueue", {}, b=1)
        yield f"inside_drain_{name}", s.do("drain", {"a": ONE}, s.nested("complete", b=1, **fields), b=3).do("close", {})
        s = Script(target).open().allocate(b=0).do("enqueue", {}, b=0)
        s.do("close", {"a": ONE}, s.nested("complete", b=0, **fields), {}, {})
        yield f"inside_close_{name}", s.do("close", {}, b=1)
        s = Script(target).open().allocate(b=0).do("enqueue", {}, b=0)
        s.do("close", {}, {"a": ONE}, s.nested("complete", b=0, **fields))
        yield f"inside_the_last_release_{name}", s
        yield f"behind_close_{name}", Script(target).open().allocate(b=0).do("enqueue", {}, b=0).do("close", {}, {}).do(
            "complete", b=0, **fields).do("complete", b=0).open()
    for kind in range(8, 16):
        yield f"drain_says_{kind}", Script(target).open().allocate(b=0).do("enqueue", {}, b=0).do(
            "drain", {"b": kind, "y": 5}).do("pending", {"b": kind, "y": 5}).do("close", {"b": kind}, {})


COMPLETIONS = [("gone", {}), ("failed", {"d": 0x40}), ("kept", {"d": 0x03}), ("unwritten", {"d": 0x60}),
               ("unknown_state", {"d": 0x70}), ("too_much", {"d": 0x80, "y": UNWRITTEN}), ("other_ticket", {"c": 10}),
               ("other_mechanism", {"c": 11}), ("stale", {"c": 12}), ("nobody", {"c": 13}), ("short", {"c": 14}), ("short_by_one", {"c": 14, "x": 327}),
               ("unwritten_and_failed", {"d": 0x64}), ("failed_by_status", {"d": 0x44}), ("kept_by_state", {"d": 0x30}),
               ("null", {"c": 0xC0}), ("misaligned", {"c": 0xD0}), ("unreadable", {"c": 0xE0}),
               ("stray", {"a": 0x70}), ("without_context", {"a": 0x60}), ("anothers", {"a": 0x81})]


def addresses():
    for kind, mode in itertools.product(range(9, 16), (0, TRUSTED)):
        s = Script("lifecycle", mode).open().allocate(b=0)
        s.allocate(b=1, answer={"d": kind, "x": 0, "y": 0x7000}).do("release", {}, b=0).do("release", {}, b=1)
        yield f"address_{kind}{'_trusted' if mode else ''}", s.do("close", {}, b=1)
    for slot, kind in itertools.product("bc", range(8, 16)):
        s = Script("lifecycle").open().allocate(b=0, answer={slot: kind, "y": 1 << 62})
        s.allocate(b=1, answer={slot: kind, "y": 1 << 62}).do("release", {"b": 11}, b=0)
        yield f"number_{slot}{kind}", s.do("close", {}, {}, b=1)
    s = Script("lifecycle").open().allocate(b=0)
    s.do("release", {"a": ONE | 10, "d": 11}, s.nested("allocate", a=0, b=1, x=4095), {"d": 11, "x": 0}, b=0)
    yield "still_live_but_handed_out", s.do("close", {}, {}, b=1)


def kept():
    for old, place in itertools.product((0, OLD), (0x70000, 0x70FC0, 0x6FFC0, 0x71000)):
        s = Script("lifecycle", old).open()
        s.do("allocate", {"d": 15, "y": 0x70000, "b": 9}, {"a": 11}, b=0, x=4095, c=6)
        yield f"kept_address_{old}_{place:x}", s.allocate(b=1, answer={"d": 15, "y": place}).do("close", {}, {}, b=1)
        s = Script("lifecycle", old).open().allocate(b=0, answer={"d": 15, "y": 0x70000}).do("release", {"a": 11}, b=0)
        yield f"quarantined_{old}_{place:x}", s.do("close", {}).open().allocate(b=1, answer={"d": 15, "y": place}).do(
            "close", {}, {}, b=1)
    for small, large in itertools.product((64, 4096, 1 << 20), (12, 21, 30, 33, 40, 50)):
        if small < 1 << large:
            inside = {"d": 15, "y": (1 << large) + (1 << large) // 2}
            around = {"d": 15, "y": 1 << large}
            wide = dict(a=0, c=6, d=6, x=large)
            narrow = dict(a=0, c=6, d=7, x=small)
            s = Script("lifecycle").open().do("allocate", around, b=0, **wide).do("allocate", inside, b=1, **narrow)
            yield f"inside_{small}_{large}", s.do("release", {}, b=0).do("allocate", inside, b=2, **narrow)
            s = Script("lifecycle").open().do("allocate", inside, b=0, **narrow).do("allocate", around, b=1, **wide)
            yield f"around_{small}_{large}", s.do("release", {}, b=0).do("allocate", around, b=2, **wide)
    for large in (12, 21, 33, 50):
        inside, around = {"d": 15, "y": (1 << large) + (1 << large) // 2}, {"d": 15, "y": 1 << large}
        s = Script("lifecycle", new_spaces=True).open().do("allocate", inside, a=0, b=0, c=6, d=7, x=64)
        yield f"first_of_a_tier_{large}", s.do("allocate", around, a=0, b=1, c=6, d=6, x=large).do("release", {}, b=0)
    for mode, order in itertools.product((0, TRUSTED), (range(12), range(11, -1, -1), (5, 2, 9, 0, 11, 7, 3, 1, 10, 4, 8, 6))):
        s = Script("lifecycle", mode).open()
        for i in range(12):
            s.do("allocate", {"d": 15, "y": 0x70000 + 4 * i}, b=i, x=1, c=0, d=7)
        for i in order:
            s.do("release", {}, b=i)
        yield f"many_in_one_cell_{mode}_{order[0]}", s.do("close", {}, {}, b=1)
    s = Script("lifecycle").open().do("prefix_create", {}, x=4095).do("prefix_release", {"a": 11}).do("prefix_info")
    yield "kept_prefix", s.do("close", {}).do("prefix_info").do("prefix_retain").do("prefix_release").do("prefix_commit")


def releases():
    for old, status, state in itertools.product((0, OLD), (0, 10, 11, 14), (0, 10, 11, 12, 13, 14)):
        s = Script("lifecycle", old).open().allocate(b=0).do("release", {"a": status, "d": state, "b": 9, "x": 7}, b=0)
        yield f"release_{old}_{status}_{state}", s.do("release", {}, b=0).do("close", {}, b=1)
    for kind in range(8, 16):
        s = Script("lifecycle").open().allocate(b=0).allocate(b=1)
        yield f"unmapped_{kind}", s.do("release", {"b": kind, "y": 100}, b=0).do("release", {"b": kind, "y": 9000}, b=1)
    yield "release_misnamed", Script("lifecycle").open().allocate(b=0).do("release", b=0, d=3, y=1).do(
        "release", b=0, d=12, y=1).do("release", b=0, c=0x60, y=8).do("release", {}, b=0)
    yield "release_by_another", Script("lifecycle").open(0).open(1).allocate(0, b=0).do("release", b=0, a=1, c=0x80)


def inside_slots():
    s0 = Script("lifecycle")
    inner = {"release": dict(b=0), "close": dict(a=0), "allocate": dict(a=0, b=5, x=10), "commit": dict(b=0),
             "unload": {}, "destroy": {}, "load": dict(a=1), "reclaim": dict(x=100), "complete": dict(b=0),
             "open": dict(a=1, b=1), "end_host": {}}
    for name, fields in inner.items():
        op = s0.nested(name, **fields)
        yield f"inside_release_{name}", Script("lifecycle").open().allocate(b=0).do(
            "release", {"a": ONE}, op, {}, b=0).do("close", {}, {}, b=1)
        yield f"inside_allocate_{name}", Script("lifecycle").open().do("allocate", {"a": ONE}, op, {}, b=0, x=50)
        yield f"inside_commit_{name}", Script("lifecycle").open().allocate(b=0).do(
            "commit", {"a": ONE}, op, {"a": ONE | 10}, op, {"b": 0}, b=0).do("close", {}, {}, b=1)
        yield f"inside_unload_{name}", Script("lifecycle").do("unload", {"a": ONE}, op, {})
        yield f"inside_open_{name}", Script("lifecycle").do("open", {"a": ONE}, op, {}, a=0)
        yield f"inside_close_{name}", Script("lifecycle").open().allocate(b=0).do(
            "close", {"a": ONE}, op, {"a": ONE}, op, b=1)
        yield f"inside_reclaim_{name}", Script("lifecycle").open().do("reclaim", {"a": ONE}, op, {}, x=99, d=4, y=1000)


def pages():
    for kind in range(8, 16):
        s = Script("lifecycle").open().do("allocate", {}, b=0, d=0xE0 | 6, x=20, y=1)
        s.do("commit", {"b": kind, "y": 70}, {}, b=0).do("commit", {}, {"a": 10}, {"b": kind, "y": 77}, b=0)
        s.do("decommit", {"b": kind, "y": 70}, {"b": kind}, b=0).do("committed", {"b": kind}, b=0)
        s.do("cost_of_ranges", {"b": kind}, b=0, y=6).do("cost_of_allocation", {"b": kind}, x=100)
        yield f"pages_{kind}", s.do("close", {}, {}, b=1)
    s = Script("lifecycle").open().allocate(b=0)
    for c in (1, 2, 4, 24, 26):
        s.do("commit", {}, {}, b=0, c=c, x=77, y=5000).do("decommit", {}, b=0, c=c, x=77, y=5000)
    yield "ranges", s


def prefixes():
    for kind in range(8, 16):
        s = Script("lifecycle").open().do("prefix_create", {"d": kind, "y": 1 << 40, "x": 9}, {}, x=4095)
        yield f"prefix_{kind}", s.do("prefix_retain", {}).do("prefix_info", {"b": kind}).do("prefix_release", {}).do(
            "prefix_release", {"a": kind}).do("close", {}, {}, b=1)
        s = Script("lifecycle").open().allocate(b=0).allocate(b=1).allocate(b=2).do("prefix_create", {}, x=4095)
        s.do("prefix_commit", {}, {"b": kind, "c": kind}, {"a": kind}, {"a": kind}, {}, c=2, x=0x020100)
        yield f"group_{kind}", s.do("prefix_commit", {}, {"d": kind, "y": UNWRITTEN}, {}, {}, c=1, x=0x0201).do(
            "close", {}, {}, {}, {}, {}, b=1)
    for status in FAILS.values():
        s = Script("lifecycle").open().do("prefix_create", {}, x=4095)
        yield f"retain_refused_{status}", s.do("prefix_retain", {"a": status}).do("prefix_release", {})
    for inner in ("prefix_release", "prefix_retain", "prefix_info", "prefix_commit", "close"):
        s = Script("lifecycle").open().allocate(b=0).do("prefix_create", {}, x=4095)
        yield f"inside_last_prefix_release_{inner}", s.do("prefix_release", {"a": ONE}, s.nested(inner), {})
        s = Script("lifecycle").open().allocate(b=0).do("prefix_create", {}, x=4095)
        yield f"inside_prefix_retain_{inner}", s.do("prefix_retain", {"a": ONE}, s.nested(inner), {})
    s = Script("lifecycle").open().allocate(b=0).do("prefix_create", {}, x=4095).do("prefix_create", {}, x=10)
    yield "group_twice", s.do("prefix_commit", c=1, x=0).do("prefix_commit", {}, c=0, x=0).do(
        "prefix_commit", {"b": 0}, c=0, x=0).do("prefix_commit", c=0, d=0x80, y=1)


def reclaims():
    for kind in range(10, 14):
        yield f"reclaim_{kind}", Script("lifecycle").open().do("reclaim", c=kind, x=30, y=1)
    for place in (0xD0, 0xE0, 0xF0):
        yield f"reclaim_place_{place >> 4}", Script("lifecycle").open().do("reclaim", c=place, x=30).do(
            "reclaim", {}, d=place, x=30)
    yield "reclaim_refused", Script("lifecycle").open().do("reclaim", {}, d=3, x=30).do("reclaim", b=0xF0, y=9)
    yield "reclaim_without_hook", Script("lifecycle", NO_HOOK).open().do("reclaim", x=30)


def tables():
    for hostile, kind in itertools.product((11, 13, 15), range(16)):
        for x, y in ((0, 0), (1, 1), (3, 31), (0xFFFFFF, UNWRITTEN)):
            s = Script("lifecycle").do("open", {"c": hostile << 4, "d": kind, "x": x, "y": y})
            yield f"table_{hostile}_{kind}_{x}", s.allocate(b=0).do("enqueue", {}, b=0).do("close", {}, {}, b=1)
    yield "table_direct", Script("lifecycle", DIRECT).do("open", {"c": 0xF0, "x": 1}).do("open", {"c": 0xB0, "d": 1})
    yield "unknown_mechanism", Script("lifecycle").do("open", b=0xF0).do("open", b=0x70).do("open", c=0xE0, y=1 << 40)


def loads():
    for mode in (0, UNMAP, OLD, DIRECT, UNMAP | NO_HOOK):
        s = Script("load", mode).open().allocate(b=0).do("unload", {}).do("close", {}, {}, b=1)
        yield f"load_{mode}", s.do("load", a=1).do("unload", {}).do("unload", {}, a=1).do("load", {}, {}).open()
    for field in range(9):
        yield f"answer_{field}", Script("load", HOSTILE).do(
            "load", {"d": 0x80 + field - 0x80 % 9, "x": 2, "y": 1 << 40}, {}).do("load", {}, {"x": 2}, {}, {}, {})
    for kind, place in itertools.product(range(16), (0, 1, 2)):
        entries = [{"c": 0x80, "d": kind, "x": 7, "y": 0xFFC3} if i == place else {} for i in range(3)]
        yield f"factory_{kind}_{place}", Script("load", HOSTILE).do("load", {}, {"x": 2}, *entries).open(b=place)
    for kind in range(16):
        s = Script("load", HOSTILE | DIRECT).do("load", {}, {"x": 2}, {"c": 0x80, "d": kind, "x": 7, "y": 0xFFC3}, {}, {})
        yield f"factory_{kind}_direct", s.open(b=0)
    for kind in range(8, 16):
        yield f"count_{kind}", Script("load", HOSTILE).do("load", {}, {"x": 2, "b": kind, "y": 1}, {}, {}, {})
    for status in FAILS.values():
        yield f"load_status_{status}", Script("load", HOSTILE).do("load", {"a": status}, {}).do(
            "load", {}, {"a": status, "x": 2}, {}, {}, {})
    for name in ("unload", "load", "destroy", "open", "end_host"):
        op = Script("load").nested(name, a=1)
        yield f"inside_load_{name}", Script("load", HOSTILE).do("load", {"a": ONE}, op, {"a": ONE}, op, {}, {}, a=0)
        yield f"inside_unload_{name}", Script("load", UNMAP).do("unload", {"a": ONE}, op, {"a": ONE}, op)
    s = Script("load").open().allocate(b=0).do("enqueue", {}, b=0).do("close", {}, {}).do("unload", {})
    yield "held", s.do("complete", b=0).do("unload", {})
    s = Script("load").open().allocate(b=0).allocate(b=1).do("release", {"a": 11}, b=1).do("enqueue", {}, b=0)
    yield "held_with_kept", s.do("close", {}, {}).do("unload", {}).do("complete", b=0).do("unload", {})
    for minor in (0, OLD):
        s = Script("load", minor).do("ask", a=0).do("ask", a=1)
        yield f"ask_{minor}", s.do("ask", c=1, b=0).do("ask", c=1, b=2).do("ask", c=1, b=3).do("unload", {}).do("ask")
    s = Script("load", HOSTILE).do("load", {}, {"x": 2}, {"c": 0x80, "d": 3, "x": 7, "y": 0xFFC3}, {}, {})
    yield "ask_what_is_left", s.do("ask").do("ask", c=1, b=0).do("ask", c=1, b=1)
    for name in range(6):
        s = Script("load").do("ask", c=3, b=name).do("unload", {"a": ONE}, s.nested("ask", c=3, b=name))
        yield f"ask_name_{name}", s.do("ask", c=3, b=name)
    for kind in range(16):
        yield f"ask_badly_{kind}", Script("load").do("ask", c=2, b=kind)
    yield "offers_less", Script("load", 0, 1).do("open", {}, c=0xC0, x=31).do("open", {}, a=1, c=0xC0, x=1)
    for axis, kind in itertools.product(range(6), (9, 14)):
        s = Script("load", UNMAP).do("unload", {"c": 0xC0 + axis, "b": kind, "x": 3}).do("unload", {"a": 10})
        yield f"report_{axis}_{kind}", s.do("destroy", {"c": 0xC0 + axis, "b": kind, "x": 3}).do("load").do("unload", {})


def words(target):
    """What a record may be: each operation, and the kinds of answers that are not honest."""
    for name, op in operations(target).items():
        yield f"op_{name}", record(op)
    for name, status in FAILS.items():
        yield f"answer_{name}", record(a=status)
    for field, kind in itertools.product("bcd", range(8, 16)):
        yield f"answer_{field}{kind}", record(**{field: kind})


def seeds():
    for target, groups in (("lifecycle", (everyday("lifecycle"), addresses(), kept(), releases(), inside_slots(), pages(), prefixes(),
                                          reclaims(), tables())), ("deferred", (everyday("deferred"), queued())),
                           ("load", (loads(),))):
        for name, script in itertools.chain(*groups):
            yield target, name, script.bytes
