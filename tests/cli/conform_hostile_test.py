#!/usr/bin/env python3
"""nxmem conform against every scripted mechanism and every fault of a module: each is caught by the rule it breaks, and
by no other than those that its fault breaks too. Prints TAP.

What keeps the contract passes whole, however odd it is. A mechanism without a row fails.
"""
import concurrent.futures
import json
import os
import subprocess

from harness import Setting, environment, equal, main, plugin, scratch

LIMIT_SECONDS = 1200
WORKERS = 2

# Of a step. Where one hangs, its limit is waited for in full; elsewhere it is there for a hang that nobody expects, and not for a busy machine.
STEP_SECONDS = {"scripted_fatal": "8", "fault_hangs-at-load": "8", "fault_hangs-in-enumerate": "8"}
PATIENCE_SECONDS = "60"

# They keep the contract: odd, old, ahead, or with slots that are NULL.
HONEST = dict.fromkeys([
    "eager", "lazy", "legacy-1-0", "guard-page-table", "poisoned-tail", "ahead", "ahead-of-host", "undeclared-slot",
    "drip", "backing-without-slots", "backing-ahead", "sharing-without-slots", "minor-endless",
    "callback-probe", "reentrant", "calls-in-open", "asks-on-thread",
    # At minor 0 its 120 bytes are enough, and part of a slot behind them is none.
    *(f"size-{size}" for size in range(120, 128))], "")

TABLES = {
    "short-struct": "NX-TAB-002", "lying-size": "NX-TAB-002", "null-table": "NX-TAB-002", "wild-table": "NX-TAB-002",
    "misaligned-table": "NX-TAB-002", "missing-slot": "NX-TAB-004", "zero-mechanism": "NX-TAB-005",
    "wrong-device": "NX-TAB-006", "unknown-capability": "NX-TAB-007", "flag-without-slot": "NX-TAB-009",
    "undeclared-table": "NX-TAB-010", "open-refuses": "NX-TAB-001",
    "flag-without-backing": "NX-TAB-009", "flag-without-sharing": "NX-TAB-009", "flag-without-enqueue": "NX-TAB-009",
    "flag-without-drain": "NX-TAB-009", "flag-without-pending": "NX-TAB-009",
    "wild-backing": "NX-TAB-011", "misaligned-backing": "NX-TAB-011", "backing-of-another": "NX-TAB-011",
    "short-backing": "NX-TAB-011", "lying-backing": "NX-TAB-011",
    "wild-sharing": "NX-TAB-012", "misaligned-sharing": "NX-TAB-012", "sharing-of-another": "NX-TAB-012",
    "short-sharing": "NX-TAB-012", "lying-sharing": "NX-TAB-012",
    # Its table does not declare what its open serves when it is required.
    "undeclared-sharing": "NX-TAB-010 NX-OPN-006",
    "self-retaining": "NX-OPN-014",
    **dict.fromkeys(["size-0", "size-4", "size-7", "size-8", "size-119", "size-127-minor-1"], "NX-TAB-002"),
    "size-endless": "NX-TAB-003",
    # Every slot stands somewhere else.
    "old-layout": "NX-TAB-004 NX-TAB-009 NX-TAB-013"}

ANSWERS = {
    "allocate-refuses": "NX-ALC-001", "null-address": "NX-ALC-002", "misaligned-address": "NX-ALC-003",
    # Another block's address is not aligned as this one asks.
    "same-address-twice": "NX-ALC-003",
    "wrapping-address": "NX-ALC-004", "huge-numbers": "NX-ALC-005", "deallocate-refuses": "NX-DEA-001",
    "over-refund": "NX-DEA-003", "status-quarantined": "NX-STR-001", "future-state": "NX-STR-002",
    "no-outcome": "NX-STR-002", "quarantining": "NX-STR-003", "failed-release": "NX-STR-003",
    "unknown-status": "NX-ALC-001", "endless-message": "NX-ALC-001", "result-silent": "NX-ALC-002",
    "total-beyond": "NX-ALC-005", "overlapping-inside": "NX-ALC-008", "overlapping-around": "NX-ALC-008",
    "overlapping-end": "NX-ALC-008", "overlapping-start": "NX-ALC-008",
    "address-of-sibling": "NX-ALC-042", "deallocate-quarantines": "NX-DEA-001", "deallocate-silent": "NX-DEA-002",
    "over-refund-double": "NX-DEA-003", "release-contradicts": "NX-STR-001", "release-refuses": "NX-STR-001",
    "reissues-quarantined": "NX-STR-003", "release-endless-message": "NX-STR-003",
    "release-over-refunds": "NX-STR-005", "release-huge": "NX-STR-004 NX-STR-005 NX-STR-006"}

ANYTHING = None

# The end of the process, of a thread, or of patience.
FATAL = {
    **dict.fromkeys(["crashes-in-open", "exits-in-open", "hangs-in-open"], "NX-TAB-001"),
    **dict.fromkeys(["crashes-in-allocate", "aborts-in-allocate", "exits-in-allocate", "hangs-in-allocate"],
                    "NX-ALC-001"),
    "crashes-in-deallocate": "NX-DEA-001", "hangs-in-drain": "NX-DEF-007 NX-DEF-041",
    # Wherever an allocator is closed.
    "crashes-in-release": "NX-OPN-005 NX-OPN-006 NX-OPN-007 NX-OPN-008 NX-OPN-009 NX-OPN-010 NX-OPN-011 NX-OPN-012 "
                          "NX-OPN-013 NX-OPN-014 NX-OPN-016 NX-OPN-017 NX-ALC-012 NX-CBK-004 NX-CBK-005 NX-CBK-006",
    # What lies behind a result is another part of the caller's memory.
    "scribbles-past-result": ("NX-ALC-038", ANYTHING),
    "grows": "", "loses-count": "NX-ALC-010", "one-at-a-time": "NX-THR-001",
    "locks-across-callback": "NX-THR-004"}

CALLBACKS = {
    "calls-host": "NX-CBK-004", "callback-after-drop": "NX-CBK-006",
    "invented-ctx": "NX-DEF-017 NX-CBK-005", "null-ctx": "NX-DEF-017 NX-CBK-005",
    "stale-ctx": "NX-CBK-005 NX-CBK-006",
    "ignores-callback-size": "NX-OPN-012", "writes-callbacks": "NX-OPN-012 NX-OPN-008", "unprotects-callbacks": "NX-OPN-008",
    **dict.fromkeys(["reclaim-short", "reclaim-lying", "reclaim-null", "reclaim-wild", "reclaim-misaligned",
                     "reclaim-without-out"], "NX-CBK-001"),
    **dict.fromkeys(["reclaim-other-device", "reclaim-other-mechanism", "reclaim-huge", "reclaim-zero"],
                    "NX-CBK-002")}

QUEUES = {
    **dict.fromkeys(["refusing-deferred", "completion-then-failure", "enqueue-fails", "enqueue-quarantines"],
                    "NX-DEF-001"),
    "no-ticket": "NX-DEF-002", "same-ticket": "NX-DEF-003", "reentrant-completion": "NX-DEF-006",
    **dict.fromkeys(["pending-none", "pending-huge", "pending-silent", "pending-refuses"], "NX-DEF-004"),
    **dict.fromkeys(["sticky", "idle-drain", "complete-on-release", "late-completion", "drain-refuses",
                     "drain-fails-after", "drain-silent", "drain-claims-all"], "NX-DEF-007"),
    "drain-overclaims": "NX-DEF-008", "drain-beyond-max": "NX-DEF-008", "drain-claims-none": "NX-DEF-009",
    "drain-reversed": "NX-DEF-008 NX-DEF-011",
    "duplicate-completion": "NX-DEF-010 NX-DEF-011", "completes-live": "NX-DEF-010", "completes-unknown": "NX-DEF-010",
    "foreign-ticket": "NX-DEF-012", "completes-other-mechanism": "NX-DEF-013", "completes-sibling": "NX-DEF-017",
    **dict.fromkeys(["short-completion", "lying-completion", "null-completion", "wild-completion",
                     "misaligned-completion"], "NX-DEF-014"),
    **dict.fromkeys(["completion-fails", "completion-quarantines", "completion-future-state",
                     "completion-without-state", "completion-with-error"], "NX-DEF-015"),
    "completion-over-refunds": "NX-DEF-016"}

BACKING = {
    **dict.fromkeys(["committed-refuses", "committed-null", "committed-silent", "committed-misaligned"], "NX-VBK-001"),
    **dict.fromkeys(["committed-huge", "bytes-huge", "bytes-silent", "bytes-refused"], "NX-VBK-002"),
    **dict.fromkeys(["ranges-huge", "ranges-silent", "ranges-refuse"], "NX-VBK-015"),
    **dict.fromkeys(["foretold-huge", "foretold-silent", "foretold-refused"], "NX-VBK-005"),
    **dict.fromkeys(["commit-partial", "commit-partial-huge", "commit-partial-mute", "commit-partial-silent",
                     "commit-refuses", "commit-nothing"], "NX-VBK-006"),
    **dict.fromkeys(["decommit-overclaims", "decommit-huge", "decommit-silent"], "NX-VBK-010"),
    "decommit-fails-after": "NX-VBK-010 NX-VBK-033", "decommit-refuses": "NX-VBK-010 NX-VBK-031 NX-VBK-033",
    "decommit-nothing": "NX-VBK-010 NX-VBK-031",
    "decommit-beyond": "NX-VBK-011 NX-VBK-021 NX-VBK-022 NX-VBK-023 NX-VBK-029 NX-VBK-032"}

SHARING = {
    "prefix-refused": "NX-SHM-001",
    **dict.fromkeys(["prefix-silent", "prefix-other-mechanism", "prefix-other-device", "prefix-other-bytes",
                     "prefix-huge"], "NX-SHM-002"),
    **dict.fromkeys(["prefix-zero-handle", "prefix-same-handle", "prefix-release-refused"], "NX-SHM-003"),
    "prefix-retain-refused": "NX-SHM-004", "share-fails-first": "NX-SHM-005",
    **dict.fromkeys(["share-fails-second", "share-fails-third", "share-fails-mapped"], "NX-SHM-013"),
    "rollback-quarantines": "NX-SHM-013 NX-STR-003",
    "share-silent": "NX-SHM-006 NX-SHM-033", "share-huge": "NX-SHM-006",
    "share-charges-twice": "NX-SHM-007 NX-SHM-008", "share-nothing": "NX-SHM-007 NX-SHM-009",
    **dict.fromkeys(["incremental-huge", "incremental-silent", "incremental-refused"], "NX-SHM-008")}

# Another thread rewrites what the host reads: which rules see it depends on the moment, that one of them does not.
RACING = {
    "flipping-table": ("NX-OPN-017", "NX-TAB-002 NX-TAB-003"),
    "flipping-short-table": ("NX-OPN-017", "NX-TAB-002 NX-TAB-003"),
    "flipping-completion": ("NX-DEF-041", "NX-DEF-007 NX-DEF-014"),
    "flipping-ticket": ("NX-DEF-041", "NX-DEF-004 NX-DEF-007 NX-DEF-008 NX-DEF-009 NX-DEF-010 NX-DEF-012 NX-DEF-018"),
    "flipping-reclaim": ("NX-CBK-003", "NX-CBK-001"),
    # Behind the call it writes to what may be any other part of the stack by then.
    "writes-on-result": ("NX-ALC-041", ANYTHING),
    "writes-on-outcome": ("NX-STR-003 NX-STR-013", ANYTHING)}

# Where the table is short at the moment of an open, what rests on that open could not run, and nothing fails.
SELDOM_UNSEEN = {"flipping-table", "flipping-short-table"}

MECHANISMS = {**HONEST, **TABLES, **ANSWERS, **CALLBACKS, **QUEUES, **BACKING, **SHARING, **FATAL, **RACING}

# libnxmem_fault_NAME.so: what fails of the module, and of its mechanism. Every one of them wants room for 64 factories,
# and so breaks NX-ENU-007 beside its own rule.
FAULTS = {
    "refuse-negotiation": "NX-NEG-001", "short-response": "NX-NEG-002", "zero-response": "NX-NEG-002",
    "inverted-range": "NX-NEG-005", "minor-beyond": "NX-NEG-004", "major-zero": "NX-NEG-003",
    "caps-beyond-offer": "NX-NEG-010", "unknown-caps": "NX-NEG-006", "no-allocator-cap": "NX-NEG-007 NX-TAB-008",
    "caps-beyond-level": "NX-NEG-004",
    "enumerate-error": "NX-ENU-001", "too-many": "NX-ENU-002 NX-TAB-013", "listed-twice": "NX-ENU-004",
    "null-entry": "NX-ENU-003", "entry-beyond-count": "NX-ENU-005", "same-name": "NX-ENU-016",
    "same-name-other-device": "",
    "bad-tier": "NX-ENU-015 NX-TAB-001", "bad-tier-newer": "NX-TAB-013", "short-factory": "NX-ENU-009",
    "factory-missing-open": "NX-ENU-010", "factory-missing-release": "NX-ENU-010", "zero-header": "NX-ENU-009",
    "garbage-header": "NX-ENU-011", "empty-name": "NX-ENU-012", "long-name": "NX-ENU-011",
    "bad-utf8-name": "NX-ENU-013", "control-name": "NX-ENU-014", "unterminated-name": "NX-ENU-011",
    "wild-factory": "NX-ENU-009",
    "no-report": "NX-UNL-002 NX-UNL-005 NX-UNL-007", "short-report": "NX-UNL-003", "failing-report": "NX-UNL-001",
    "report-holds": "NX-UNL-004",
    "missing-export-negotiate": "NX-MOD-002", "missing-export-factories": "NX-MOD-003",
    "missing-export-unload": "NX-MOD-004",
    **dict.fromkeys(["resident", "gnu-unique", "calls-host-at-load", "crashes-at-unload"], "NX-MOD-005 NX-MOD-006"),
    **dict.fromkeys(["crashes-at-load", "exits-at-load", "hangs-at-load"], "NX-MOD-001"),
    **dict.fromkeys(["crashes-in-enumerate", "hangs-in-enumerate", "count-endless"], "NX-ENU-001"),
    "count-none": "NX-ENU-002 NX-ENU-005", "minor-endless": "NX-NEG-004", "lingering-thread": "NX-MOD-008",
    "crashes-in-report": "NX-UNL-001", "report-holds-capabilities": "NX-UNL-004", "report-holds-queued": "NX-UNL-004",
    "report-holds-allocations": "NX-UNL-004 NX-ALC-010", "report-holds-allocators": "NX-UNL-004 NX-OPN-014",
    "report-huge": "NX-UNL-004 NX-OPN-014 NX-ALC-010", "report-zero": "NX-OPN-014 NX-ALC-010"}
WANTS_ROOM = "NX-ENU-007"
ONE_MECHANISM = {"too-many": "eager-01"}


def judged(name, *args):
    """What failed, by mechanism; None: of the module."""
    report = scratch(f"{name}.json")
    command = [Setting.nxmem, "conform", plugin(name), "--cycles", "0", "--timeout", STEP_SECONDS.get(name, PATIENCE_SECONDS),
               "--json", report, *args]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=LIMIT_SECONDS, env=environment())
    assert done.returncode in (0, 1), f"exit {done.returncode}: {done.stderr.decode(errors='replace')}"
    with open(report, encoding="utf-8") as file:
        verdicts = json.load(file)["verdicts"]
    found = {row.get("mechanism"): set() for row in verdicts}
    for row in verdicts:
        if row["verdict"] == "fail":
            found[row.get("mechanism")].add(row["rule"])
    return found


def module_names(prefix):
    """Built modules whose name begins so, without what stands in front of it."""
    front, back = "libnxmem_" + prefix, ".so"
    names = [name[len(front):-len(back)] for name in os.listdir(Setting.plugins)
             if name.startswith(front) and name.endswith(back)]
    return sorted(names)


def expect(found, expected):
    if isinstance(expected, tuple):
        first, beside = expected
        if beside is ANYTHING:
            assert found & set(first.split()), f"found {sorted(found)}, need one of {first} among them"
            return
        possible = {first, *beside.split()}
        assert found and found <= possible, f"found {sorted(found)}, need some of {sorted(possible)} and no other"
        return
    equal(" ".join(sorted(found)), " ".join(sorted(expected.split())))


def later(pool, work, *args):
    """The work begins at once; a row waits for it."""
    return pool.submit(work, *args)


def scripted_rows(pool):
    for name in module_names("scripted"):
        asked = later(pool, judged, "scripted" + name)
        yield f"module scripted{name} keeps the contract", lambda asked=asked: equal(asked.result()[None], set())
        yield f"each mechanism of scripted{name} has a row", lambda asked=asked: equal(
            sorted(name for name in asked.result() if name and name not in MECHANISMS), [])
        for mechanism, expected in MECHANISMS.items():
            if mechanism in listed(name):
                yield f"scripted{name}: {mechanism}", lambda asked=asked, mechanism=mechanism, expected=expected: \
                    mechanism in SELDOM_UNSEEN and not asked.result()[mechanism] or expect(
                        asked.result()[mechanism], expected)


def listed(name):
    """The mechanisms of a scripted module, without running a rule on any of them."""
    if name not in LISTED:
        done = subprocess.run([Setting.nxmem, "run", plugin("scripted" + name), "--json", "--mechanism", "?"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        steps = json.loads(done.stdout)["steps"]
        LISTED[name] = {step["mechanism"] for step in steps if "mechanism" in step}
    return LISTED[name]


LISTED = {}


def fault_rows(pool):
    yield "each fault has a row", lambda: equal(sorted(set(module_names("fault_")) ^ set(FAULTS)), [])
    for name, expected in FAULTS.items():
        args = ["--mechanism", ONE_MECHANISM[name]] if name in ONE_MECHANISM else []
        asked = later(pool, judged, "fault_" + name, *args)
        yield f"fault: {name}", lambda asked=asked, expected=expected: expect_fault(asked.result(), expected)


def expect_fault(found, expected):
    rules = set().union(*found.values())
    expect(rules - {WANTS_ROOM}, expected)


def growth():
    """What only many cycles show."""
    found = judged("scripted_fatal", "--mechanism", "grows", "--rule", "NX-GRO-002", "--cycles", "10000")
    equal(found["grows"], {"NX-GRO-002"})


def make_rows():
    pool = concurrent.futures.ThreadPoolExecutor(WORKERS)
    return [*scripted_rows(pool), *fault_rows(pool), ("grows, over 10,000 cycles", growth)]


if __name__ == "__main__":
    main(make_rows)
