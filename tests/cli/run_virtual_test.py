#!/usr/bin/env python3
"""nxmem run's walk through virtual memory: its steps, a plugin's own figures before and after each, what is not
offered, one document beside the lines. Prints TAP."""
import json
import os

from harness import Setting, document, environment, equal, fits_a_terminal, main, nxmem, plugin, scratch

TIB = 1 << 40
GRANULE = 65536
WALK = ["vm_reserve", "vm_commit", "vm_commit", "vm_commit", "vm_decommit", "vm_decommit", "vm_share", "vm_unshare",
        "vm_queue", "vm_drain"]
# What is committed after each step of a walk through `lazy`, in granules.
COMMITTED = [1, 2, 10, 11, 7, 1, 4, 1, 1, 0]

# Step (by its place among the steps of that name) and facts, by what could be reserved.
FACTS = [
    ("vm_reserve", 0, lambda size: {"mapped": GRANULE}),
    ("vm_commit", 0, lambda size: {"offset": 32 << 20, "bytes": 1, "newly_mapped": GRANULE, "committed": 2 * GRANULE}),
    ("vm_commit", 1, lambda size: {"offset": size // 2, "bytes": 8 * GRANULE, "newly_mapped": 8 * GRANULE}),
    ("vm_commit", 2, lambda size: {"offset": size - GRANULE, "bytes": GRANULE, "committed": 11 * GRANULE}),
    ("vm_decommit", 0, lambda size: {"unmapped": 4 * GRANULE, "still_mapped": 7 * GRANULE}),
    ("vm_decommit", 1, lambda size: {"offset": 0, "bytes": size - GRANULE, "unmapped": 6 * GRANULE,
                                      "still_mapped": GRANULE}),
    ("vm_share", 0, lambda size: {"allocations": 3, "outcome": "shared", "mapped": GRANULE + 3 * (GRANULE + (2 << 20))}),
    ("vm_unshare", 0, lambda size: {"still_mapped": GRANULE}),
    ("vm_queue", 0, lambda size: {"bytes": size}),
    ("vm_drain", 0, lambda size: {"pending": 1, "drains": 1, "still_queued": 0}),
]

# Mechanisms that go wrong: module, mechanism, step, verdict, and the steps that are then not reached.
WRONG = [
    ("scripted_backing", "commit-refuses", "vm_commit", "refused", []),
    ("scripted_backing", "ranges-huge", "vm_commit", "refused", []),
    ("scripted_capabilities", "backing-without-slots", "vm_reserve", "note",
     ["vm_commit", "vm_commit", "vm_commit", "vm_decommit", "vm_decommit"]),
    ("scripted_sharing", "prefix-huge", "vm_share", "refused", ["vm_unshare"]),
    ("scripted_sticky", "sticky", "vm_drain", "warning", []),
]


def steps(found, name):
    return [row for row in found["steps"] if row["name"] == name]


def walk(found):
    return [row for row in found["steps"] if row["name"].startswith("vm_")]


def holds(row, facts):
    equal({key: row.get(key) for key in facts}, facts)


def test_module(name):
    path = os.path.join(Setting.plugins, f"libnxmem_test_{name}.so")
    assert os.path.exists(path), f"{path} is not built"
    return path


def run(module, *args, code=0, way=None):
    env = environment()
    if way:
        env["NXMEM_TEST_FIGURES"] = way
    return document(nxmem("run", "--json", "--blocks", "1", *args, module, env=env), code)


def lazy(*args, **options):
    return run(plugin("scripted"), "-m", "lazy", *args, **options)


def figures(*args, **options):
    return run(test_module("figures"), "-m", "lazy", *args, **options)


def reserved(found):
    """A terabyte, or less where the process has less room (under a sanitizer), and then the row says so."""
    row = steps(found, "vm_reserve")[0]
    if row["reserved"] == TIB:
        equal(row["verdict"], "ok")
    else:
        holds(row, {"verdict": "note", "asked": TIB})
    return row["reserved"]


def all_steps():
    found = lazy()
    equal([row["name"] for row in walk(found)], WALK)
    equal({row["verdict"] for row in walk(found)[1:]}, {"ok"})
    assert 64 << 20 <= reserved(found) <= TIB, reserved(found)
    holds(steps(found, "virtual")[0], {"verdict": "ok", "figures": "no statistics exported"})
    equal([row for row in walk(found) if "statistics" in row], [])


def facts_of(name, place, facts):
    def case():
        found = lazy()
        holds(steps(found, name)[place], facts(reserved(found)))
    return case


def smaller_reservation():
    found = lazy("--reserve", "64M")
    equal([row["name"] for row in walk(found)], WALK)
    holds(steps(found, "vm_reserve")[0], {"reserved": 64 << 20, "verdict": "ok"})
    holds(steps(found, "vm_commit")[2], {"offset": (64 << 20) - GRANULE})


def reservation_beyond_all():
    """What the plugin does not reserve is halved until it does; the row says so and is no finding."""
    found = figures(way="small")
    holds(steps(found, "vm_reserve")[0], {"verdict": "note", "asked": TIB, "reserved": 1 << 30})
    equal([row["verdict"] for row in walk(found)[1:]], ["ok"] * (len(WALK) - 1))


def no_reservation_at_all():
    found = figures(way="tiny", code=1)
    holds(steps(found, "vm_reserve")[0], {"verdict": "refused", "result": "plugin-error"})
    equal({row["verdict"] for row in steps(found, "vm_commit") + steps(found, "vm_decommit")}, {"note"})
    equal([row["verdict"] for row in steps(found, "vm_queue") + steps(found, "vm_drain")], ["ok", "ok"])


def goes_wrong(module, mechanism, step, verdict, lost):
    def case():
        code = 0 if verdict == "note" else 1
        found = run(plugin(module), "-m", mechanism, code=code)
        equal(steps(found, step)[0]["verdict"], verdict)
        equal([row["name"] for row in walk(found) if row.get("message", "").startswith("not reached")], lost)
        equal([row["verdict"] for row in steps(found, "close")], ["ok"])
    return case


def not_offered(module, mechanism, missing):
    def case():
        found = run(module(), "-m", mechanism)
        row = steps(found, "virtual")[0]
        holds(row, {"verdict": "note", "not_offered": missing})
        assert row["message"].startswith("not offered: vm_"), row
        named = set(row["message"].replace("not offered:", "").replace(",", "").split())
        equal(named | {row["name"] for row in walk(found)}, set(WALK))
        equal(named & {row["name"] for row in walk(found)}, set())
    return case


def statistics_before_and_after():
    found = figures()
    equal([row["statistics"]["after"]["committed_bytes"] // GRANULE for row in walk(found)], COMMITTED)
    equal([row["statistics"]["before"] for row in walk(found)[1:]],
          [row["statistics"]["after"] for row in walk(found)[:-1]])
    holds(steps(found, "virtual")[0], {"verdict": "ok", "figures": "exported"})
    equal(steps(found, "statistics"), [])


def table_of_lines():
    done = nxmem("run", "--blocks", "1", "-m", "lazy", test_module("figures"))
    equal(done.returncode, 0)
    lines = [line.split() for line in fits_a_terminal(done.stdout).splitlines()]
    equal([line[1:4] for line in lines if line[:1] == ["statistics"]], [["reserved", "committed", "peak"]])
    table = [line for line in lines if line and (line[0] in WALK or line[:2] == ["at", "first"])]
    equal([line[0] for line in table], ["at"] + WALK)
    equal(table[3][2:4], ["640", "KiB"])


def figures_end_early():
    after = walk(figures(way="short"))[0]["statistics"]["after"]
    equal(set(after), {"reserved_bytes", "committed_bytes", "peak_committed_bytes", "granule_bytes"})


def figures_beyond_their_room():
    found = figures(way="huge")
    equal(set(walk(found)[0]["statistics"]["after"]), set(walk(figures())[0]["statistics"]["after"]))


def figures_are_refused():
    found = figures(way="refuses")
    holds(steps(found, "virtual")[0], {"figures": "exported, refused with WRONG_DEVICE"})
    equal([row["statistics"] for row in walk(found)], [{"before": {}, "after": {}}] * len(WALK))


def figure_that_must_be_0():
    found = figures(way="spoilt", code=1)
    row = steps(found, "statistics")[0]
    equal((row["verdict"], found["result"]), ("warning", "findings"))
    assert "refcount_underflows" in row["message"], row


def document_beside_the_lines():
    path = os.fsdecode(scratch("beside.json"))
    done = nxmem("run", "--blocks", "1", "--json=" + path, "-m", "lazy", plugin("scripted"))
    equal(done.returncode, 0)
    assert b"vm_drain" in done.stdout and not done.stdout.startswith(b"{"), "no lines"
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    equal((found["exit_code"], found["result"], [row["name"] for row in walk(found)]), (0, "ok", WALK))


def document_that_cannot_be_written():
    done = nxmem("run", "--blocks", "1", "--json=" + os.fsdecode(scratch("nowhere/x.json")), plugin("minimal"))
    equal(done.returncode, 3)
    assert b"could not write" in done.stderr, done.stderr


def short_option_prints():
    equal(document(nxmem("run", "-j", "-n1", plugin("minimal")), 0)["result"], "ok")


def make_rows():
    rows = [("every step, without statistics", all_steps)]
    rows += [(f"{name} {place + 1}", facts_of(name, place, facts)) for name, place, facts in FACTS]
    rows += [(f"{mechanism}: {step} is {verdict}", goes_wrong(module, mechanism, step, verdict, lost))
             for module, mechanism, step, verdict, lost in WRONG]
    rows += [("nothing is offered: eager", not_offered(lambda: plugin("scripted"), "eager",
                                                       ["virtual-backing", "shared-mapping", "deferred-release"])),
             ("sharing alone is offered, which needs backing", not_offered(
                 lambda: plugin("scripted_capabilities"), "sharing-without-slots", ["virtual-backing", "deferred-release"])),
             ("only queued releases are offered: drip", not_offered(lambda: plugin("scripted"), "drip",
                                                                    ["virtual-backing", "shared-mapping"])),
             ("a smaller reservation", smaller_reservation),
             ("a reservation that is halved", reservation_beyond_all),
             ("no reservation at all", no_reservation_at_all),
             ("statistics before and after each step", statistics_before_and_after),
             ("a table among the lines", table_of_lines),
             ("figures that end early", figures_end_early),
             ("figures that claim more than their room", figures_beyond_their_room),
             ("an export that refuses", figures_are_refused),
             ("a figure that must be 0", figure_that_must_be_0),
             ("a document beside the lines", document_beside_the_lines),
             ("a document that cannot be written", document_that_cannot_be_written),
             ("-j prints it", short_option_prints)]
    return rows


if __name__ == "__main__":
    main(make_rows)
