"""Seeds of the target vmm: a header, then operations of 16 bytes each (vmm/vmm.h, vmm/run.c)."""
import itertools
import pathlib
import re
import struct

FUZZ = pathlib.Path(__file__).resolve().parents[1]
MARKS_PASS, RAW_GRANULE, RAW_RECOMMENDED = 1, 2, 4
CALLS = ("open", "describe", "bind", "unbind", "reserve", "unreserve", "create", "destroy", "map", "unmap", "access", "mark",
         "state", "drop")
OUTCOMES = {"no_memory": 0, "refused": 1, "lost": 4, "shut": 5, "unbound": 6, "capturing": 7}
ODD_ADDRESS = 8
INSIDE = 0x80  # upper bits of an operation's first byte: one operation from inside the callback; and 0xC0 two, 0xE0 three
GRANULES, WHOLE, UNITS, BYTES = 1, 6, 7, 5  # kinds of size
MAX64 = 2**64 - 1


def operations():
    """Operation -> the byte that says it, as the target lists them."""
    text = (FUZZ / "vmm" / "run.c").read_text()
    names = re.findall(r"OP_\w+", re.search(r"ops\[\] = \{(.*?)\}", text, re.S)[1])
    return {name[3:].lower(): names.index(name) for name in names}, len(names)


OPS, OPS_COUNT = operations()


def nested(op, how):
    """The byte for an operation that says how many come from inside a callback: the bits above, and still this operation."""
    return next(b for b in range(how, how + 32) if b % OPS_COUNT == OPS[op])


class Script:
    def __init__(self, flags=MARKS_PASS, granule=0, arena=2, pool=0, stripped=0, refused=0, raw=0):
        self.bytes = struct.pack("<BBBBBBHQ", flags, granule, arena, pool, stripped, refused, 0, raw)

    def do(self, op, a=0, b=0, c=0, d=0, x=0, y=0, inside=0):
        self.bytes += struct.pack("<BBBBB", nested(op, inside) if inside else OPS[op], a, b, c, d)
        self.bytes += x.to_bytes(3, "little") + struct.pack("<Q", y)
        return self

    def open(self, a=0, **fields):
        return self.do("open", a=a, **fields)

    def small(self, size=999, a=0, **fields):
        return self.do("allocate", a=a, x=size, **fields)

    def ranges(self, granules=4, ranges=(), a=0, **fields):
        """A block of whole granules; ranges are pairs of quarters of a granule."""
        y = sum((first | many << 8) << 16 * i for i, (first, many) in enumerate(ranges))
        return self.do("committed", a=a, b=len(ranges), c=GRANULES, x=granules - 1, y=y, **fields)

    def commit(self, b, first, many, **fields):
        return self.do("commit", b=b, x=first | many << 12, **fields)

    def decommit(self, b, first, many, **fields):
        return self.do("decommit", b=b, x=first | many << 12, **fields)

    def prefix(self, granules=2, a=0, **fields):
        return self.do("prefix", a=a, c=GRANULES, x=granules - 1, **fields)

    def fail(self, call, outcome="refused", after=0, times=1, odd=0):
        code = outcome if isinstance(outcome, int) else OUTCOMES[outcome]
        return self.do("fail", a=CALLS.index(call), b=after, c=code, d=times | odd << 4)

    def end(self):
        return self.do("touch").do("close").do("report").do("report")


# ---- What goes well --------------------------------------------------------------------------------------------------


def everyday():
    yield "open_close", Script().open().end()
    yield "small_blocks", Script().open().small().small(5000).small(70).do("touch").do("release", b=1).small(300).end()
    for granule in range(8):
        s = Script(granule=granule | 8, arena=0).open().ranges(3, [(0, 5)]).small(2047).do("touch")
        yield f"granule_{granule}", s.do("release").do("release").end()
    for way in range(4):
        yield f"granularity_{way}", Script(granule=2 | way << 3).open().ranges(2, [(0, 8)]).do("release").end()
    for pool in (0, 1, 2, 4, 0x81):
        s = Script(pool=pool).open().ranges(6, [(0, 24)]).decommit(0, 4, 8).commit(0, 2, 20).do("release").ranges(4, [(0, 9)])
        yield f"pool_{pool:x}", s.do("release", c=1).end()
    s = Script().open().ranges(8, [(0, 2), (9, 3), (16, 4)]).do("cost", c=2, d=2, y=0x0804_0C02_1F00).do("cost", c=1, d=3, x=8)
    yield "ranges_and_costs", s.commit(0, 0, 32).decommit(0, 3, 9).decommit(0, 0, 32).do("release").end()
    for kind, align in itertools.product((0, 1, 3, 7), (0, 8, 9, 12, 13, 16, 20)):
        s = Script().open().small(100).do("allocate", c=kind, d=align, x=700).do("committed", c=kind, d=align, x=3)
        yield f"aligned_{kind}_{align}", s.do("release").do("allocate", c=kind, d=align, x=5).end()
    s = Script().open()
    for _ in range(9):
        s.do("allocate", c=UNITS, x=40)
    for b in (1, 3, 5, 4):
        s.do("release", b=b)
    yield "fragments", s.do("allocate", c=UNITS, x=40).do("allocate", c=UNITS, x=63).do("allocate", c=UNITS, d=12, x=20).end()
    yield "filled", Script(arena=3).open().do("committed", c=WHOLE).small().do("release").do("allocate", c=WHOLE).small().end()
    yield "three_mechanisms", Script(pool=2).open().open(1).open(2).small().small(a=1).small(a=2).do("release", b=1).end()
    yield "two_of_one", Script(pool=2).open().open().small().small(a=1).do("close", a=1).small().do("release").end()
    yield "retained", Script().open().do("retain").do("close").small().do("release").do("close").do("report")
    for stripped in (1, 2, 4, 8, 16, 31):
        yield f"without_{stripped}", Script(stripped=stripped).open(c=1, b=31).open(c=1, b=1).small().prefix().do("enqueue").end()
    s = Script(arena=0).open()
    for _ in range(68):
        s.small(40)
    yield "many_blocks", s.do("release", b=40).do("release", b=7).do("touch").end()
    yield "named_twice", Script().open().small().small(b=0xE0).do("release").small(b=0xE0).end()


def shared():
    s = Script().open().prefix(2).ranges(4).ranges(4).do("prefix_commit", x=1).do("prefix_commit", c=1, x=0).do("touch")
    yield "prefix_in_two", s.do("prefix_retain", c=1).do("release").do("prefix_release").do("touch").do("release").end()
    orders = itertools.permutations(("p", 0, 1))
    for order in orders:
        s = Script(pool=1).open().prefix(2).ranges(3).ranges(3).do("prefix_commit").do("prefix_commit", c=1, x=1)
        for which in order:
            s.do("prefix_release") if which == "p" else s.do("release", b=which)
        yield "prefix_gone_" + "".join(map(str, order)), s.end()
    s = Script().open().prefix(2).do("prefix_retain").ranges(4, [(0, 4)]).do("prefix_commit").do("prefix_commit", x=1)
    yield "prefix_over_what_is_mapped", s.commit(0, 0, 16).decommit(0, 4, 8).do("prefix_release").do("prefix_release").end()
    s = Script().open().ranges(5).prefix(2).do("prefix_commit", x=1).commit(0, 0, 20).decommit(0, 0, 20).decommit(0, 0, 4)
    yield "commit_across_a_prefix", s.do("release").end()
    for how in range(1, 6):
        s = Script().open().prefix().ranges(3).do("prefix_retain", d=how).do("prefix_commit", d=how).do("prefix_retain", c=1, d=how)
        yield f"prefix_misnamed_{how}", s.do("prefix_release", d=how).end()
    yield "prefix_released", Script().open().prefix(1).ranges(2).do("prefix_commit").do("prefix_release").do("prefix_release").do(
        "prefix_commit", x=1).do("prefix_retain").do("release").end()
    yield "prefix_too_large", Script().open().do("prefix", c=WHOLE).do("prefix", c=BYTES, y=MAX64).do("prefix", c=BYTES).end()
    for d in (30, 31):
        yield f"prefix_refused_{d}", Script().open().do("prefix", c=GRANULES, d=d).end()


def queued():
    s = Script(flags=0).open().small().small(5000).do("enqueue").do("enqueue", b=1).do("drain").do("pass", b=1).do("drain")
    yield "queued_in_order", s.do("pass").do("drain").end()
    s = Script(flags=0).open().ranges(2, [(0, 8)]).do("enqueue").do("release").do("enqueue").commit(0, 0, 4).decommit(0, 0, 8)
    yield "queued_is_busy", s.do("pass", c=1).do("drain", c=0, d=1).do("drain", c=1, d=1).end()
    yield "queued_and_closed", Script(flags=0).open().small().do("enqueue").do("close").do("report").do("pass").do("report")
    s = Script().open().small().small().small().do("enqueue").do("enqueue", b=1).do("enqueue", b=2)
    for op in ("drain", "close", "report", "allocate", "release"):
        yield f"inside_a_completion_{op}", Script(pool=1).open().small().small(9000).do("enqueue").do("enqueue", b=1).do(
            "drain").do(op, inside=INSIDE).do("release", b=1).end()
    yield "three_drained", s.do("drain", c=2, d=1).do("drain").end()
    s = Script().open().prefix().ranges(3).do("prefix_commit").do("enqueue").do("prefix_release").do("drain")
    yield "queued_with_a_view", s.end()
    for call, outcome in itertools.product(("mark", "state", "drop", "bind", "unmap", "destroy"), OUTCOMES):
        s = Script().open().small().small(9000).fail(call, outcome).do("enqueue").do("enqueue").do("enqueue", b=1)
        yield f"queued_{call}_{outcome}", s.fail(call, outcome).do("drain").do("drain").do("release").end()


# ---- What fails ------------------------------------------------------------------------------------------------------


def opening():
    for call, outcome in itertools.product(CALLS, OUTCOMES):
        for after in range(2 if call in ("create", "map", "access", "unmap", "destroy") else 1):
            s = Script(pool=after).fail(call, outcome, after=after, odd=1).open().small().open().do("report")
            yield f"open_{call}_{outcome}_{after}", s.end()
    for odd in range(3):
        yield f"reserved_at_{odd}", Script().fail("reserve", ODD_ADDRESS, odd=odd).open().open().end()
    for raw in (0, 1, 256, 2048, 4096, 6144, 1 << 20, 1 << 30, 1 << 31, 1 << 63, MAX64):
        yield f"granularity_of_{raw:x}", Script(flags=RAW_GRANULE, raw=raw).open().small().end()
        yield f"recommended_{raw:x}", Script(flags=RAW_RECOMMENDED, raw=raw).open().small().end()
    for refused in range(1, 8):
        yield f"rungs_refused_{refused}", Script(refused=refused, arena=refused << 2 & 12).open().small().end()
    for how in (1, 2, 3):
        yield f"open_request_{how}", Script().open(d=how).open().end()


def one_fails():
    work = {
        "small": lambda s: s.small(9000),
        "ranges": lambda s: s.ranges(5, [(0, 4), (9, 4)]),
        "commit": lambda s: s.commit(0, 1, 18),
        "prefix": lambda s: s.prefix(3),
        "view": lambda s: s.do("prefix_commit", b=0, c=1, x=1),
    }
    for (name, step), call, outcome in itertools.product(work.items(), ("bind", "create", "map", "access", "unbind"), OUTCOMES):
        for after in (0, 2):
            s = Script(pool=after).open().ranges(6, [(8, 4)]).ranges(6).prefix(2)
            step(s.fail(call, outcome, after=after))
            step(s).do("touch").do("release")
            yield f"{name}_{call}_{outcome}_{after}", s.do("release", b=1).do("prefix_release").end()
    for (name, step), call, undo in itertools.product(work.items(), ("map", "access"), ("unmap", "destroy")):
        s = Script().open().ranges(6, [(8, 4)]).ranges(6).prefix(2).fail(call, after=1).fail(undo, times=15)
        step(s)
        step(s).do("release").do("release", b=1).do("prefix_release").small(9000)
        yield f"{name}_{call}_and_{undo}", s.do("close").do("report")
    ends = {
        "release": lambda s: s.do("release"),
        "deallocate": lambda s: s.do("release", c=1),
        "decommit": lambda s: s.decommit(0, 4, 12),
        "prefix": lambda s: s.do("prefix_release"),
        "view": lambda s: s.do("release", b=1),
        "close": lambda s: s.do("release").do("release", b=1).do("prefix_release").do("close").do("report"),
    }
    for (name, step), call, outcome in itertools.product(ends.items(), ("bind", "unmap", "destroy", "unreserve"), OUTCOMES):
        s = Script(pool=1 if outcome == "refused" else 0).open().ranges(6, [(0, 16)]).ranges(4).prefix(2)
        s.do("prefix_commit", b=0, c=1, x=1).small(70)
        step(s.fail(call, outcome))
        yield f"end_{name}_{call}_{outcome}", step(s).small(9000).do("report").end()


def pressure():
    for op, again in itertools.product(("release", "allocate", "close", "decommit", "prefix_release", "commit", "drain"), (1, 2)):
        s = Script(pool=4).open().open(1).ranges(4, [(0, 16)]).prefix().small(9000, a=1).do("release", b=1)
        s.fail("create", "no_memory", times=again).ranges(8, [(0, 32)]).do(op, inside=INSIDE).do("touch").do("release")
        yield f"pressure_{op}_{again}", s.end()
    s = Script(pool=2).open().ranges(8).fail("create", "no_memory", after=3).commit(0, 0, 32).do("release", inside=INSIDE)
    yield "released_while_it_is_committed", s.end()
    s = Script(pool=2).open().ranges(8).fail("create", "no_memory", after=1).do("prefix", c=1, x=3).do("close", inside=INSIDE)
    yield "closed_while_a_prefix_is_made", s.end()
    yield "no_room", Script(arena=3).open().small().do("allocate", c=WHOLE).do("release", inside=INSIDE).end()
    for outcome in OUTCOMES:
        s = Script(pool=4).open().open(1).ranges(4, [(0, 16)]).do("release").fail("destroy", outcome)
        yield f"pressure_trim_{outcome}", s.fail("create", "no_memory", after=0, times=9).ranges(8, [(0, 32)], a=1).end()


def captured():
    for name, step in (("open", lambda s: s.open()), ("small", lambda s: s.small(9000)), ("release", lambda s: s.do("release")),
                       ("commit", lambda s: s.commit(0, 0, 24)), ("decommit", lambda s: s.decommit(0, 8, 4)),
                       ("prefix", lambda s: s.prefix()), ("view", lambda s: s.do("prefix_commit", c=1)),
                       ("unprefix", lambda s: s.do("prefix_release")), ("enqueue", lambda s: s.do("enqueue")),
                       ("drain", lambda s: s.do("drain")), ("close", lambda s: s.do("close").do("report"))):
        s = Script(pool=1).open().ranges(6, [(8, 4)]).ranges(3).prefix().small(3000).do("enqueue", b=2)
        s.do("capture").do("capture")
        step(s).do("capture", c=1)
        step(s).do("capture", c=1)
        yield f"captured_{name}", step(s).do("capture", c=1).end()


def lost():
    for where in ("open", "unbind", "create", "destroy", "unmap", "state"):
        s = Script(pool=1).open().open(1).open(2).ranges(4, [(0, 16)]).prefix().do("prefix_commit").small(9000, a=1).small(800)
        s.do("enqueue", b=2).fail(where, "lost").do("release").small().open().do("drain", a=1).do("release", b=1)
        yield f"lost_{where}", s.do("prefix_release").commit(0, 0, 4).decommit(0, 0, 16).do("cost", c=2).do("report").end()
        s = Script(pool=1).open().ranges(4, [(0, 16)]).ranges(4).prefix().do("prefix_commit", c=1).small().fail(where, "shut")
        s.do("enqueue", b=2).do("release").small().do("drain").do("release", b=1).do("prefix_release")
        yield f"shut_{where}", s.commit(0, 0, 4).do("report").end()
    s = Script().open().small(9000).fail("unmap", times=15).do("release").small(9000).do("close").do("report").open()
    yield "poisoned_and_closed", s.small(3000).end()


def misnamed():
    for how in range(1, 10):
        s = Script().open().ranges(2, [(0, 4)]).small()
        for op in ("release", "commit", "decommit", "enqueue"):
            s.do(op, d=how, c=6 if op != "release" else how & 1)
        yield f"misnamed_{how}", s.do("cost", d=how << 3).do("release", b=1, d=how).end()
    for how in (1, 2, 3):
        yield f"request_{how}", Script().open().small(c=how << 4).do("committed", c=how << 4 | 1).end()
    for way in range(5):
        s = Script().open().do("misuse", b=way, c=way, d=1, x=63, y=40).small().do("misuse", b=way, d=way, x=31, y=39 - way)
        yield f"misuse_{way}", s.prefix().do("misuse", b=way, c=1, d=1, x=1, y=40).end()
    for align in (0, 3, 1 << 63, MAX64):
        yield f"align_{align:x}", Script().open().do("allocate", d=0xE0, x=9, y=align).do("committed", d=0xE0, y=align).end()
    for size in (0, 1, MAX64, MAX64 - 255, MAX64 - 4095, 1 << 40):
        yield f"size_{size:x}", Script().open().do("allocate", c=BYTES, y=size).do("allocate", c=BYTES, d=31, y=size).do(
            "committed", c=BYTES, y=size).end()
    s = Script().open().ranges(2)
    for first, many in ((0, 0), (8192, 1), (8191, 2), (MAX64, 2), (1, 8191), (8192, 0)):
        s.do("commit", c=7, x=many & 0xFFFFFF, y=first).do("decommit", c=7, x=many & 0xFFFFFF, y=first)
    yield "ranges_outside", s.end()


def seeds():
    for group in (everyday, shared, queued, opening, one_fails, pressure, captured, lost, misnamed):
        for name, script in group():
            yield name, script.bytes


def words():
    """Records that a mutation may put together."""
    for op, number in OPS.items():
        yield f"op_{op}", struct.pack("<B", number) + bytes(4)
    for call, outcome in itertools.product(("create", "map", "unmap", "destroy"), ("refused", "no_memory", "lost")):
        yield f"fail_{call}_{outcome}", Script().fail(call, outcome).bytes[-16:-11]
