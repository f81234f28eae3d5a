#!/usr/bin/env python3
"""nxmem status: scenarios, what comes of each step, and the books of their end. Prints TAP."""
import json
import os

from harness import HERE, compile_so, environment, equal, main, nxmem, plugin, refused_in_one_line, scratch, write

EXAMPLES = os.path.join(HERE, "..", "..", "host", "cli", "status")

KIB = 1024


def axes(n):
    return {"charged": n, "physical": n, "mapped": n}


def scenario(*steps, budget=64 * KIB, limit=96 * KIB):
    return {"plugins": {"minimal": plugin("minimal")},
            "authorities": {"one": {"tier": "host", "budget": axes(budget)}, "two": {"tier": "host"}},
            "limits": {"host": axes(limit)},
            "mechanisms": {"a": {"plugin": "minimal", "mechanism": "minimal", "authority": "one"},
                           "b": {"plugin": "minimal", "mechanism": "minimal", "authority": "two"}},
            "steps": list(steps)}


def allocate(name, mechanism, kib, **more):
    return {"do": "allocate", "mechanism": mechanism, "name": name, "bytes": kib * KIB, **more}


def run(document, *flags):
    path = write("scenario.json", json.dumps(document).encode() if isinstance(document, dict) else document)
    return nxmem("status", *flags, path)


def report(document):
    done = run(document, "--json")
    return done.returncode, json.loads(done.stdout)


def row(rows, name):
    return next(r for r in rows["rows"] if r["name"] == name)


def steps(rows, count):
    return [r["verdict"] for r in rows["rows"][:count]]


def figures_add_up(rows):
    for axis in ("charged", "physical", "mapped"):
        parts = sum(row(rows, f"authority {name}")["used"][axis] for name in ("one", "two"))
        equal(row(rows, "tier host")["used"][axis], parts)
    equal(rows["bugs"], 0)


def quota_is_refused():
    code, rows = report(scenario(allocate("x", "a", 40), allocate("y", "a", 40), allocate("z", "b", 60)))
    equal(code, 1)
    equal(steps(rows, 3), ["ok", "refused", "refused"])
    equal(rows["rows"][1]["error"]["found"], 40 * KIB)
    equal(rows["rows"][1]["error"]["needed"], 24 * KIB)
    equal([rows["rows"][i].get("axis") for i in range(3)], [None, "charged", "charged"])
    equal(rows["rows"][2]["error"]["needed"], 56 * KIB)
    equal(row(rows, "authority one")["used"]["charged"], 40 * KIB)
    equal(row(rows, "authority two")["used"]["charged"], 0)
    equal(row(rows, "authority one")["bar"], "#############.......")  # 12.5 of 20
    equal(rows["refusals"], 2)
    figures_add_up(rows)


def refusal_is_expected():
    code, rows = report(scenario(allocate("x", "a", 65, expect="over-limit"), allocate("y", "a", 1, expect="ok")))
    equal(code, 0)
    equal(steps(rows, 2), ["note", "ok"])


def other_outcome_than_expected():
    code, rows = report(scenario(allocate("x", "a", 1, expect="over-limit")))
    equal(code, 1)
    equal(steps(rows, 1), ["warning"])


def device_is_lost():
    lost = [allocate("x", "a", 16), allocate("y", "b", 8), {"do": "lose", "mechanism": "a"},
            {"do": "release", "name": "x", "expect": "device-lost"}, {"do": "release", "name": "y"}]
    code, rows = report(scenario(*lost))
    equal(code, 0)
    equal(row(rows, "mechanism a")["lifecycle"], "device-lost")
    equal(row(rows, "mechanism a")["quarantined"]["charged"], 16 * KIB)
    equal(row(rows, "authority one")["bar"], "xxxxx...............")
    equal(row(rows, "authority two")["used"]["charged"], 0)
    figures_add_up(rows)
    code, rows = report(scenario(*lost, {"do": "confirm", "mechanism": "a"}, {"do": "remove", "mechanism": "a"}))
    equal(code, 0)
    equal(row(rows, "mechanism a")["lifecycle"], "removed")
    equal(row(rows, "authority one")["used"]["charged"], 0)


def bars_of_each_authority():
    """The whole is the least of slice, budget and the tier's limit, on each axis."""
    wide, least = axes(64 * KIB), {"charged": 96 * KIB, "physical": 40 * KIB, "mapped": 24 * KIB}
    half = "##########.........."
    for steps, limit, one, two in (
            ([allocate("x", "a", 32), allocate("y", "b", 48)], axes(96 * KIB), half, half),
            ([allocate("x", "a", 32)], axes(32 * KIB), "#" * 20, "." * 20),
            ([{"do": "delegate", "authority": "one", "bytes": axes(40 * KIB)}, allocate("x", "a", 20)], axes(96 * KIB), half, "." * 20)):
        code, rows = report(scenario(*steps, budget=64 * KIB) | {"limits": {"host": limit}})
        equal((code, row(rows, "authority one")["bar"], row(rows, "authority two")["bar"]), (0, one, two))
    code, rows = report(scenario(allocate("x", "b", 12)) | {"limits": {"host": least}})
    equal((code, row(rows, "authority two")["bars"]),
          (0, {"charged": "###.................", "physical": "######..............", "mapped": half}))
    code, rows = report(scenario(allocate("x", "b", 12)) | {"limits": {}})
    equal([row(rows, name)["bar"] for name in ("authority one", "authority two", "tier host", "tier disk")],
          ["." * 20, "no limit", "no limit", "no limit"])
    code, rows = report(scenario({"do": "limit", "tier": "host", "bytes": axes(0)}))
    equal(row(rows, "authority two")["bar"], "limit 0")
    code, rows = report(scenario(allocate("x", "a", 16), {"do": "lose", "mechanism": "a"}, {"do": "limit", "tier": "host", "bytes": wide | {"charged": KIB}}))
    equal((code, row(rows, "authority one")["bar"]), (0, "x" * 20))


def device_loss_as_it_is_shown():
    with open(os.path.join(EXAMPLES, "device_loss.json"), encoding="utf-8") as file:
        code, rows = report(json.load(file) | {"plugins": {"minimal": plugin("minimal")}})
    equal([code, *(row(rows, f"authority {name}")["bar"] for name in ("first", "second"))], [0, "xxxxxxxxxxxxx.......", "." * 20])


def ahead_is_not_set_aside():
    """What threads drew ahead is a figure of its own; slices alone are set aside."""
    code, rows = report(scenario(allocate("x", "a", 4)))
    host, one = row(rows, "tier host"), row(rows, "authority one")
    equal((code, host["set-aside"], rows["total"]["set-aside"]), (0, axes(0), axes(0)))
    equal([figures["drawn-ahead"]["charged"] for figures in (host, one, rows["total"])], [60 * KIB] * 3)
    equal(row(rows, "authority two")["drawn-ahead"], axes(0))
    equal(host["shares"], axes(64 * KIB))  # used and drawn ahead
    shown = {line["bytes"]: (line["used"], line["ahead"], line["set aside"]) for line in table(scenario(allocate("x", "a", 4)))[1]}
    equal([shown[name] for name in ("tier host", "authority one", "total")], [("4K", "60K", "0"), ("4K", "60K", "-"), ("4K", "60K", "0")])


def slice_is_set_aside():
    code, rows = report(scenario({"do": "delegate", "authority": "one", "bytes": axes(60 * KIB)},
                                 allocate("x", "b", 37, expect="over-limit"), allocate("y", "b", 36),
                                 {"do": "delegate", "authority": "one", "bytes": axes(1), "expect": "over-limit"}))
    equal(code, 0)
    equal([figures["set-aside"]["charged"] for figures in (row(rows, "tier host"), rows["total"])], [60 * KIB] * 2)
    equal(row(rows, "tier host")["shares"]["charged"], 96 * KIB)


def limit_is_lowered():
    code, rows = report(scenario(allocate("x", "a", 16), {"do": "limit", "tier": "host", "bytes": axes(8 * KIB)},
                                 allocate("y", "b", 1, expect="over-limit"), {"do": "release", "name": "x"},
                                 allocate("z", "b", 1)))
    equal(code, 0)
    figures_add_up(rows)


def unloads_behind_a_queue():
    with open(os.path.join(EXAMPLES, "unload_and_queue.json"), encoding="utf-8") as file:
        example = json.load(file) | {"plugins": {"minimal": plugin("minimal")}}
    code, rows = report(example)
    equal(code, 0)
    done = rows["rows"][:len(example["steps"])]
    equal([(r["name"], r["result"]) for r in done],
          [(step["do"], step.get("expect", "ok")) for step in example["steps"]])
    refused, allowed = [r for r in done if r["name"] == "unload"]
    equal((refused["error"]["reason_text"], refused["error"]["found"], refused["error"]["needed"]),
          ("the plugin still holds objects", 1, 0))
    assert "live_allocators" in refused["error"]["message"], refused
    equal((refused["axis"], "unmapped" in refused), ("live_allocators", False))
    equal((allowed["verdict"], allowed["unmapped"], "axis" in allowed), ("ok", True, False))
    drained = next(r for r in done if r["name"] == "drain")
    equal([drained[key] for key in ("completed", "quarantined", "left")], [1, 0, 0])
    equal(row(rows, "tier host")["used"], axes(0))
    equal(row(rows, "mechanism a")["lifecycle"], "removed")


def axis_is_named():
    """Each axis that a limit of its own refuses."""
    for axis in ("physical", "mapped"):
        code, rows = report(scenario() | {"limits": {"host": {"charged": 96 * KIB, "physical": 96 * KIB, "mapped": 96 * KIB} | {axis: KIB}},
                                          "steps": [allocate("x", "a", 2)]})
        equal((code, rows["rows"][0]["axis"]), (1, axis))


def resident_is_told():
    """A plugin that the loader keeps: the unload is allowed, and does not unmap it."""
    code, rows = report({"plugins": {"kept": plugin("fault_resident")}, "steps": [{"do": "unload", "plugin": "kept"}]})
    equal((code, rows["rows"][0]["result"], rows["rows"][0]["unmapped"]), (0, "ok", False))


def document_in_a_file():
    wanted = scenario(allocate("x", "a", 40), allocate("y", "a", 40))
    into = os.fsdecode(scratch("document.json"))
    done = run(wanted, "--json=" + into)
    equal(done.returncode, 1)
    assert b"authority one" in done.stdout, done.stdout
    with open(into, encoding="utf-8") as file:
        equal(json.load(file), report(wanted)[1])
    equal(run(wanted, "-j").stdout, run(wanted, "--json").stdout)
    done = run(b"[]", "--json=" + into)
    equal((done.returncode, len(done.stderr.splitlines())), (3, 1))
    with open(into, encoding="utf-8") as file:
        equal(json.load(file)["exit_code"], 3)


def document_that_is_not_written():
    for into in ("/nonexistent/folder/x", "/dev/full"):
        done = run(scenario(), "--json=" + into)
        equal(done.returncode, 3)
        assert into.encode() in done.stderr, done.stderr


NO_SNAPSHOT = """
#include <stdio.h>
#include "nxmem_manager.h"
nxmem_result nxmem_manager_snapshot(nxmem_manager manager, nxmem_snapshot *out, nxmem_error *error) {
  (void)manager;
  (void)out;
  *error = (nxmem_error){.result = NXMEM_ERR_OUT_OF_MEMORY};
  snprintf(error->message, sizeof error->message, "no room for the books");
  return error->result;
}
"""


def snapshot_that_fails():
    """The books of the end are what is asked for: without them nothing was shown."""
    include = [flag for folder in ("abi", "host") for flag in ("-I", os.path.join(HERE, "..", "..", folder, "include"))]
    broken = compile_so("no_snapshot", [os.fsdecode(write("no_snapshot.c", NO_SNAPSHOT.encode()))], include)
    wanted = scenario(allocate("x", "a", 1))
    path = write("scenario.json", json.dumps(wanted).encode())
    environment_ = {**environment(), "LD_PRELOAD": broken}
    done = nxmem("status", path, env=environment_)
    equal(done.returncode, 3)
    equal(len(done.stderr.splitlines()), 1)
    assert b"no room for the books" in done.stderr, done.stderr
    as_json = nxmem("status", "--json", path, env=environment_)
    equal((as_json.returncode, json.loads(as_json.stdout)["result"]), (3, "could-not-run"))


def step_is_refused(*steps):
    def run_it():
        code, rows = report(scenario(*steps))
        equal(code, 1)
        equal(rows["rows"][len(steps) - 1]["result"], "invalid-argument")
    return run_it


def cannot_be_read(step):
    return lambda: refused_in_one_line(run(scenario(step)))


NEW_STEPS = [("a push to a queue that is unknown", step_is_refused(allocate("x", "a", 1), {"do": "push", "queue": "q", "name": "x"})),
             ("a drain of a queue that is unknown", step_is_refused({"do": "drain", "queue": "q"})),
             ("a close of a queue that is unknown", step_is_refused({"do": "close", "queue": "q"})),
             ("an unload of what is not open", step_is_refused({"do": "unload", "plugin": "none"})),
             ("an execution of what was not allocated", step_is_refused({"do": "execute", "name": "x"})),
             ("a queue that is a number", cannot_be_read({"do": "queue", "queue": 7})),
             ("room of text", cannot_be_read({"do": "queue", "queue": "q", "room": "1"})),
             ("a plugin that is a list", cannot_be_read({"do": "unload", "plugin": []}))]


HEADER = ("bytes", "axis", "used", "live", "quarantined", "ahead", "set aside", "limit", "blocks", "kept", "# live x kept . free")
NAMES = ["tier device", "tier host", "tier disk", "authority one", "authority two", "mechanism a", "mechanism b", "total"]


def table(*documents):
    """Header and lines, each line as a dictionary of what stands under (texts) or ends with (figures) each title."""
    done = run(*documents)
    lines = done.stdout.decode().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("  bytes"))
    begin = {title: lines[at].index(title) for title in HEADER}
    cells = []
    for line in lines[at + 1:-1]:
        assert len(line) <= 120, line
        row_ = {"bytes": line[begin["bytes"]:begin["axis"]].strip(), "axis": line[begin["axis"]:].split()[0], HEADER[-1]: line[begin[HEADER[-1]]:]}
        for title in HEADER[2:-1]:
            end = begin[title] + len(title)
            row_[title] = line[:end].split(" ")[-1]
            assert line[end:end + 1] in ("", " "), (title, line)
        cells.append(row_)
    return done.returncode, cells


def shows_a_table():
    code, lines = table(scenario(allocate("x", "a", 40), allocate("y", "b", 8), {"do": "lose", "mechanism": "b"}))
    equal((code, [line["bytes"] for line in lines], {line["axis"] for line in lines}), (0, NAMES, {"each"}))
    shown = {line["bytes"]: tuple(line[title] for title in HEADER[2:] if title != "ahead") for line in lines}
    equal(shown["tier host"], ("48K", "40K", "8K", "0", "96K", "1", "1", "########xx.........."))
    equal(shown["authority one"], ("40K", "40K", "0", "-", "64K", "1", "0", "#############......."))
    equal(shown["authority two"], ("8K", "0", "8K", "-", "-", "0", "1", "xx.................."))
    equal(shown["tier disk"], ("0", "0", "0", "0", "-", "0", "0", "no limit"))
    equal(shown["mechanism a"], ("40K", "40K", "0", "-", "-", "1", "0", "active host:0 selected"))
    equal(shown["mechanism b"], ("8K", "0", "8K", "-", "-", "0", "1", "device-lost host:0"))
    equal(shown["total"], ("48K", "40K", "8K", "0", "-", "1", "1", ""))


def shows_axes_that_differ():
    """A line for each axis, and no figure is rounded."""
    code, lines = table(scenario(allocate("x", "a", 4, reserve={"charged": 50001, "physical": 4 * KIB, "mapped": 4 * KIB})))
    of_one = [line for i, line in enumerate(lines) if "authority one" in (line["bytes"], *(lines[i - n]["bytes"] for n in (1, 2)))]
    equal((code, [line["axis"] for line in of_one]), (0, ["charged", "physical", "mapped"]))
    equal([line["used"] for line in of_one], ["50001", "4K", "4K"])
    equal([line["blocks"] for line in of_one], ["1", "", ""])


def no_regular_file(make):
    def run_it():
        path = write("scenario.json", b"")
        os.unlink(path)
        make(path)
        try:
            equal(nxmem("status", path).returncode, 3)
        finally:
            os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
    return run_it


def large_file(path):
    with open(path, "wb") as file:
        file.write(b"{" + b" " * (17 << 20) + b"}")


def names_are_escaped():
    for name in ("\x1b[31mred", "a\nb", "\u202ebidi", "\u20ac" * 60, "x" * 59 + "\u20ac" * 30):
        named = scenario() | {"authorities": {name: {"tier": "host"}},
                              "mechanisms": {name: {"plugin": "minimal", "mechanism": "minimal", "authority": name}},
                              "steps": [allocate(name, name, 1), {"do": "release", "name": name}]}
        code, rows = report(named)
        equal(code, 0)
        done = run(named)
        equal(done.returncode, 0)
        assert not any(ord(c) < 32 and c != "\n" or c == "\u202e" for c in done.stdout.decode()), done.stdout
        done = run(scenario() | {"limits": {name: axes(1)}})
        equal(done.returncode, 3)
        assert not any(byte < 32 and byte != 10 for byte in done.stdout + done.stderr), done.stderr


def broken(document):
    def run_it():
        equal(run(document).returncode, 3)
    return run_it


def changed(**parts):
    return scenario() | parts


def broken_scenarios():
    return [("no such plugin", changed(plugins={"minimal": "/nowhere.so"})), ("no object", b"[]"), ("no JSON", b"{"),
            ("bytes of a file", bytes(range(256))), ("a step that is unknown", scenario({"do": "fly"})),
            ("a step that is a number", changed(steps=[7])), ("a tier that is unknown", changed(limits={"cloud": axes(1)})),
            ("a limit below zero", changed(limits={"host": axes(-1)})), ("a limit of text", changed(limits={"host": "all"})),
            ("an authority that is not named", changed(mechanisms={"a": {"plugin": "minimal", "mechanism": "minimal",
                                                                        "authority": "none"}})),
            ("steps that are no list", changed(steps={})), ("steps of nothing", changed(steps=None)),
            ("a key that is unknown", changed(stpes=[])),
            ("an axis that is unknown", changed(limits={"host": {"charge": 1}})),
            ("a budget's key that is unknown", changed(authorities={"one": {"tier": "host", "bugdet": axes(1)}, "two": {"tier": "host"}})),
            ("a mechanism's key that is unknown", changed(mechanisms={"a": {"plugin": "minimal", "mechanism": "minimal",
                                                                           "authority": "one", "size": 1}})),
            ("a step's key that is unknown", scenario(allocate("x", "a", 1, byts=1))),
            ("bytes below zero", scenario(allocate("x", "a", 1, bytes=-1))),
            ("bytes of text", scenario(allocate("x", "a", 1, bytes="4096"))),
            ("bytes by halves", scenario(allocate("x", "a", 1, bytes=1.5))),
            ("an alignment of text", scenario(allocate("x", "a", 1, align="64"))),
            ("a reservation of a list", scenario(allocate("x", "a", 1, reserve=[]))),
            ("a name that is a number", scenario(allocate(7, "a", 1))),
            ("an expectation that is a number", scenario(allocate("x", "a", 1, expect=7))),
            ("a mechanism that is no text", scenario(allocate("x", ["a"], 1))),
            ("deep arrays", b"[" * 100000), ("a key twice", b'{"steps": [], "steps": []}'),
            ("a NUL in a text", b'{"steps": [{"do": "lo\\u0000se"}]}'), ("a number beyond all", b'{"steps": [{"do": "allocate", "bytes": 18446744073709551616}]}'),
            ("a mechanism that there is not", changed(mechanisms={"a": {"plugin": "minimal", "mechanism": "none",
                                                                       "authority": "one"}}))]


ROWS = [("an axis is named", axis_is_named), ("a plugin that stays mapped", resident_is_told), ("a document in a file", document_in_a_file),
        ("a document that is not written", document_that_is_not_written), ("a snapshot that fails", snapshot_that_fails),
        ("a quota is refused", quota_is_refused), ("a refusal that is expected", refusal_is_expected),
        ("another outcome than expected", other_outcome_than_expected), ("a device is lost", device_is_lost),
        ("a slice is set aside", slice_is_set_aside), ("a limit is lowered", limit_is_lowered),
        ("a table", shows_a_table), ("a table of axes that differ", shows_axes_that_differ), ("a bar of each authority", bars_of_each_authority),
        ("the example of a lost device", device_loss_as_it_is_shown), ("drawn ahead is not set aside", ahead_is_not_set_aside), ("an unload behind a queue", unloads_behind_a_queue)] + NEW_STEPS


FILES = [("a FIFO", no_regular_file(os.mkfifo)), ("a directory", no_regular_file(os.mkdir)),
         ("a file of 17 MiB", no_regular_file(large_file)), ("names that would steer a terminal", names_are_escaped)]


def make_rows():
    return ROWS + FILES + [(f"broken: {name}", broken(document)) for name, document in broken_scenarios()]


if __name__ == "__main__":
    main(make_rows)
