"""Seeds of the target owners: a header, then operations and answers of 16 bytes each (owners/run.c, life/life.h)."""
import pathlib
import re

from life_seeds import ONE, record

FUZZ = pathlib.Path(__file__).resolve().parents[1]


def operations():
    """Operation -> the byte that says it, as the target lists them."""
    text = (FUZZ / "owners" / "run.c").read_text()
    names = re.findall(r"OP_OWN_\w+", re.search(r"ops\[\] = \{(.*?)\}", text, re.S)[1])
    return {name[7:].lower(): names.index(name) for name in names}


OPS = operations()


class Script:
    def __init__(self, mode=0):
        self.bytes = bytes([mode]) + bytes(15)

    def do(self, op, *answers, **fields):
        self.bytes += record(OPS[op], **fields)
        for answer in answers:
            self.bytes += answer if isinstance(answer, bytes) else record(**answer)
        return self

    def bound(self, a=0):
        return self.do("register", {}, a=a).do("bind", a=a, c=1)


def nested(op, **fields):
    return record(OPS[op], **fields)


def everyday():
    for mode in (0, 4, 8):
        s = Script(mode).bound().do("allocate", {}, x=63, c=6).do("release", {}, b=0).do("end_binding").do("retire")
        yield f"once_{mode}", s.do("remove", {})
    s = Script().do("registry", a=1).do("member", a=1, b=0xF1).do("register", c=1).do("register", {}, b=0).do("member", a=1, b=1, c=1)
    yield "two_registries", s.do("registry", a=1, c=1)
    yield "select", Script().bound().do("register", {}, a=1).do("select", a=1).do("retire", a=1).do("bind").do("select").do("bind")
    yield "composite", Script().do("register", {}, {}, d=0xC0).do("bind", c=1).do("allocate", {"a": 10}, {}, x=63, c=6).do("release", {}, b=0)
    yield "two_devices", Script().do("register", {}, {}, {}, d=0xF0).do("register", {}, d=1).do("bind", b=1)
    for fate in (0, 10, 11, 12, 15):
        s = Script().bound().do("allocate", {}, x=63, c=6).do("prepare", b=0).do("execute", {"a": fate, "d": fate}, b=0)
        yield f"executed_{fate}", s.do("retire").do("remove").do("lose").do("confirm").do("end_binding", c=1).do("remove", {})


def queued():
    s = Script().bound().do("queue", d=0, x=0)
    for b in range(3):
        s.do("allocate", {}, b=b, x=63, c=6).do("prepare", b=b).do("push", b=b)
    yield "queue_full", s.do("abandon", b=1).do("drain", {}, d=4).do("queue", c=2).do("push", b=2).do("queue", c=3)
    s = Script().bound().do("queue", x=2)
    for b in range(3):
        s.do("allocate", {}, b=b, x=63, c=6).do("prepare", b=b).do("push", b=b)
    yield "queue_of_three", s.do("drain", {}, d=1).do("drain", {}, {}, d=4)
    s = Script().bound().do("queue", x=2).do("allocate", {}, x=63, c=6).do("prepare").do("push").do("lose").do("drain", d=4)
    yield "queue_lost", s.do("confirm").do("end_binding", c=1).do("remove", {})


def lost():
    for op, inside in (("allocate", "lose"), ("allocate", "end_binding"), ("allocate", "retire"), ("charge", "lose")):
        s = Script().bound().do(op, {"a": ONE}, nested(inside, c=inside == "end_binding"), a=0, x=63, c=6).do("confirm")
        yield f"{op}_{inside}", s.do("end_binding", c=1).do("remove", {})
    s = Script().bound().do("allocate", {}, x=63, c=6).do("release", {"a": ONE}, nested("lose")).do("release", b=0).do("confirm")
    yield "release_lose", s.do("remove").do("end_binding").do("remove", {})
    yield "lose_device", Script().bound().do("bound" if "bound" in OPS else "lose", a=0, c=1).do("unload").do("unload", c=1, b=0)


def managed():
    for d in (0, 8, 16, 32):
        yield f"charge_{d}", Script().bound().do("charge", {}, x=63, c=6, d=d).do("release", {}, b=0).do("wait", b=0)
        s = Script().bound().do("reserve", x=63, c=6, d=d).do("step", {}, c=0).do("step", c=1).do("step", c=2).do("rollback")
        yield f"steps_{d}", s.do("release", {}, b=0).do("context")
    s = Script().bound().do("limit", x=100).do("charge", {}, x=63, c=6).do("charge", {}, b=1, x=63, c=6).do("release", {}, b=0)
    yield "limit", s.do("charge", {}, b=1, x=63, c=6).do("delegate", x=50).do("delegate", x=90).do("delegate", x=90)
    s = Script().bound().do("charge", {}, x=63, c=6).do("limit", x=100).do("pressure", d=1).do("pressure", d=2)
    yield "pressure", s.do("charge", {"a": ONE}, nested("release", b=0), {}, {}, b=1, x=63, c=6).do("ask", {"d": 4}, {}, x=9)
    s = Script().bound().do("limit", x=100).do("charge", {"b": 14, "x": 4096}, {}, x=63, c=6).do("charge", {"b": 14, "x": 4096}, {"a": 12, "d": 11}, x=63, c=6)
    yield "rolled_back", s.do("charge", {"a": 10}, x=31, c=6).do("authority", c=1)
    s = Script().bound().do("reserve", x=63, c=6).do("step", {}, c=0).do("lose").do("rollback").do("confirm")
    yield "lost_in_between", s.do("end_binding", c=1).do("remove", {}).do("wait").do("authority", c=1).do("manager", c=1)
    s = Script().bound().do("reserve", x=63, c=6).do("step", c=1).do("step", {}, c=0).do("step", c=2).do("step", c=1)
    yield "steps_out_of_order", s.do("step", c=1).do("step", c=0).do("step", c=2).do("step", c=2)
    # Taken more than reserved, and a holder makes room behind the plugin's answer.
    s = Script().bound().do("limit", x=100).do("charge", {}, x=63, c=6).do("pressure")
    yield "room_at_commit", s.do("charge", {}, {"a": ONE}, nested("release", b=0), {}, b=1, x=63, c=6, d=56)
    # What a reservation is for goes while holders are asked.
    s = Script().bound().do("limit", x=10).do("pressure")
    yield "authority_goes", s.do("reserve", {"a": ONE}, nested("authority", c=1), x=63, c=6)
    s = Script().bound().do("limit", x=10).do("pressure")
    yield "authority_goes_at_once", s.do("charge", {"a": ONE}, nested("authority", c=1), x=63, c=6)
    # The process limit refuses: holders are asked for the other authority of the tier as well; for one with a slice only where the asker has one.
    for first, second in ((), (1,)), ((0, 1), ()):
        s = Script().do("member", a=1, b=1).do("authority", b=1).bound().do("limit", x=200)
        for b in first:
            s.do("delegate", b=b, x=80)
        s.do("charge", {}, x=63, c=6).do("pressure").do("limit", x=70).do("charge", {}, {}, {}, b=1, x=15, c=6)
        for b in second:
            s.do("delegate", b=b, x=1)
        yield f"others_of_the_tier_{len(first)}", s.do("charge", {}, {}, {}, b=1, x=15, c=6)
    # A holder that nobody has a reason to ask.
    yield "holder_and_room", Script().bound().do("pressure").do("reserve", x=63, c=6).do("rollback")
    yield "reclaim", Script().bound().do("pressure").do("charge", {}, x=63, c=6).do("reclaim", {"d": 4}, x=9)


def pages_and_misuse():
    s = Script().bound().do("allocate", {}, x=8191, c=13).do("pages", {}, {}, c=0).do("pages", {}, c=1).do("pages", {}, {}, c=2, x=4096)
    yield "pages", s.do("pages", {"a": ONE}, nested("lose"), c=1).do("pages", c=0)
    # A commit that fails half way, and a count behind it above what was charged.
    for b in (8, 10, 11):
        s = Script().bound().do("charge", {}, x=8191, c=13).do("pages", {"b": 8}, {"a": 10}, {"b": b, "y": 12288}, c=0)
        yield f"settled_{b}", s.do("release", {}, b=0)
    for which in range(0, 24, 6):
        s = Script().bound()
        for b in range(which, which + 6):
            s.do("misuse", b=b).do("misuse", b=b + 32)
        yield f"misuse_{which}", s


def seeds():
    for group in (everyday, queued, lost, managed, pages_and_misuse):
        for name, script in group():
            yield name, script.bytes


def words():
    """Records that a mutation may put together."""
    for op, number in OPS.items():
        yield f"op_{op}", record(number)[:5]
