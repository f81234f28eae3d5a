#!/usr/bin/env python3
"""nxmem audit on every hostile plugin of the tests: each is found out by the rules that its fault breaks, and by no other;
none crashes the audit or keeps it. Prints TAP.

What a fault breaks of the contract is said once, in conform_hostile_test.py. A module without a row fails.
"""
import concurrent.futures
import glob
import os

from common import above_note, evidence, names, one
from conform_hostile_test import FAULTS, MECHANISMS, SELDOM_UNSEEN, WANTS_ROOM, expect, listed
from harness import Setting, equal, main, plugin

# What is found above a note, but for warnings of the host library. Where no row says otherwise, the contract is broken and
# the host refuses.
BOTH = {"breaks-rule", "refused"}
RULES = {
    # Nothing: two mechanisms of one name, each of its own device.
    "same-name-other-device": set(), "bad-tier-newer": {"breaks-advice"}, "lingering-thread": {"breaks-advice"},
    # The host puts up with it.
    **dict.fromkeys(["calls-host-at-load", "caps-beyond-offer", "count-none", "entry-beyond-count", "report-zero"], {"breaks-rule"}),
    "gnu-unique": {"breaks-rule", "unique-symbol"}, "resident": {"breaks-rule", "nodelete"},
    **dict.fromkeys(["missing-export-negotiate", "missing-export-factories", "missing-export-unload"], BOTH | {"missing-export"}),
    "too-many": BOTH | {"breaks-advice"}}

WORKERS = 2
# Seconds: a list of sixty-five mechanisms keeps the conformance test for long. What the host library said counts then.
LIMIT = "60"
LONG = {"too-many"}


def broken(file):
    """Rules of the contract, by mechanism."""
    found = {}
    for text in evidence(file, "breaks-rule") + evidence(file, "breaks-advice"):
        rule, mechanism = text.split(": ")[0].split(" ", 1)
        found.setdefault(mechanism, set()).add(rule)
    return found


def is_whole(file):
    """Did the conformance test come to its end, and is each rule that was broken told?"""
    return file["running"]["conformance"].get("failed", 101) <= 100 and not evidence(file, "unjudged")


def fault_is_found(fault, running):
    def case():
        file = running.result()
        rules = RULES.get(fault, BOTH)
        if fault in LONG and not is_whole(file):
            assert "refused" in names(file), names(file)
            return
        equal({finding["name"] for finding in file["findings"] if finding["level"] != "note"} - {"warned"}, rules)
        found = set().union(*broken(file).values()) - {WANTS_ROOM}
        equal(" ".join(sorted(found)), " ".join(sorted(FAULTS[fault].split())))
    return case


def mechanisms_are_found(name, running):
    """Each by its own rules; where there was no time for all, what was found is theirs all the same."""
    def case():
        file = running.result()
        found, mechanisms = broken(file), sorted(listed(name.removeprefix("scripted")))
        assert mechanisms and above_note(file), names(file)
        equal([mechanism for mechanism in mechanisms if mechanism not in MECHANISMS], [])
        equal(found.pop("module", set()) - {WANTS_ROOM}, set())
        equal([mechanism for mechanism in found if mechanism not in mechanisms], [])
        if not is_whole(file):
            assert names(file) & {"breaks-rule", "refused"}, names(file)
            return
        for mechanism in mechanisms:
            if mechanism in found or mechanism not in SELDOM_UNSEEN:
                expect(found.get(mechanism, set()), MECHANISMS[mechanism])
    return case


def hostile():
    found = glob.glob(os.path.join(Setting.plugins, "libnxmem_fault_*.so"))
    found += glob.glob(os.path.join(Setting.plugins, "libnxmem_scripted*.so"))
    return sorted(os.path.basename(path)[len("libnxmem_"):-len(".so")] for path in found)


def all_are_here():
    assert len(hostile()) >= 60, hostile()
    equal([name for name in RULES if f"fault_{name}" not in hostile()], [])
    equal([name for name in hostile() if name.startswith("fault_") and name.removeprefix("fault_") not in FAULTS], [])


def row(name, running):
    is_fault = name.startswith("fault_")
    return f"found out: {name}", fault_is_found(name.removeprefix("fault_"), running) if is_fault else mechanisms_are_found(name, running)


def make_rows():
    pool = concurrent.futures.ThreadPoolExecutor(WORKERS)
    running = [(name, pool.submit(one, "--cycles", "0", "--timeout", LIMIT, plugin(name))) for name in hostile()]
    return [("all are here", all_are_here)] + [row(name, result) for name, result in running]


if __name__ == "__main__":
    main(make_rows)
