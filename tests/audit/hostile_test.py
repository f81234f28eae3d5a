#!/usr/bin/env python3
"""nxmem audit on every hostile plugin of the tests: each is found out by a rule, none crashes or keeps it. Prints TAP.

A module without a row fails: what a new one must be found out by is said here.
"""
import concurrent.futures
import glob
import os

from common import above_note, names, one
from harness import Setting, main, plugin

# They keep the contract: a newer level, an odd list, or a fault that only another load can show.
HONEST = {"minor-endless", "bad-tier-newer", "same-name-other-device"}

# What the file itself shows.
STATIC = {"missing-export-negotiate": "missing-export", "missing-export-factories": "missing-export",
          "missing-export-unload": "missing-export", "resident": "nodelete", "gnu-unique": "unique-symbol"}

# What they do is the host library's to notice.
REFUSED = {"crashes-at-load", "exits-at-load", "hangs-at-load", "crashes-in-enumerate", "hangs-in-enumerate", "too-many",
           "listed-twice", "null-entry", "same-name", "bad-tier", "short-factory", "zero-header", "garbage-header",
           "empty-name", "long-name", "bad-utf8-name", "control-name", "unterminated-name", "wild-factory"}


WORKERS = 2
# Seconds: a list of sixty-five mechanisms keeps the conformance test for long. What the host library said counts then.
LIMIT = "60"


def found_out(name, running):
    def case():
        file = running.result()
        rules, fault = names(file), name.removeprefix("fault_")
        if fault in HONEST:
            return
        assert above_note(file), f"nothing was found: {rules}"
        if fault in STATIC:
            assert STATIC[fault] in rules, rules
        elif fault in REFUSED:
            assert "refused" in rules, rules
        else:
            assert rules & {"breaks-rule", "breaks-advice", "refused", "warned"}, rules
    return case


def hostile():
    found = glob.glob(os.path.join(Setting.plugins, "libnxmem_fault_*.so"))
    found += glob.glob(os.path.join(Setting.plugins, "libnxmem_scripted*.so"))
    return sorted(os.path.basename(path)[len("libnxmem_"):-len(".so")] for path in found)


def all_are_here():
    assert len(hostile()) >= 60, hostile()


def make_rows():
    pool = concurrent.futures.ThreadPoolExecutor(WORKERS)
    running = [(name, pool.submit(one, "--cycles", "0", "--timeout", LIMIT, plugin(name))) for name in hostile()]
    return [("all are here", all_are_here)] + [(f"found out: {name}", found_out(name, result)) for name, result in running]


if __name__ == "__main__":
    main(make_rows)
