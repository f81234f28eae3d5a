#!/usr/bin/env python3
"""Each named race of the registry, again and again, with the least claim on the processor: whatever else runs here cuts in between.

    python3 tests/registry/thousand.py [--build FOLDER] [--runs N] [--only RACE] [--json FILE] [--list]

A race is a set of cases of the stepped test programs; RACES below says which, and which removals in tests/defences/registry.toml turn them red
(tests/defences/run.py --only NAME shows it). A case that is not there, or a removal that is not, is a failure.
Last line: `races: K/N passed R of R runs`. Exit codes: 0 all passed, 1 a run that failed, 2 usage, 3 could not run.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAMS = ("test_registry_races", "test_registry_release_races")

# race: how its cases begin, and the removals that each turn one of them red.
RACES = {
    "healthy predecessor restored": (["select: a healthy predecessor"], ["select: healthy predecessor"]),
    "retired predecessor not restored": (["predecessor retired "], ["select: predecessor looked at", "select: re-check of the predecessor"]),
    "lost predecessor not restored": (["predecessor lost "], ["select: predecessor looked at", "select: re-check of the predecessor"]),
    "removed predecessor not restored": (["predecessor removed "], ["select: predecessor looked at", "select: re-check of the predecessor"]),
    "newer selection kept": (["select: newer than "], ["select: newer selection kept", "select: newer than the restored one kept"]),
    "two failing selects": (["select: two fail"], ["select: re-check of the candidate"]),
    "healing by a later registration": (["predecessor ", "select: two fail"], ["register: healing"]),
    "retire against select": (["retire: "], ["retire: the selection is dropped", "retire: lifecycle before selection", "end: only a selection that names it"]),
    "loss against select": (["lose: "], ["lose: the selection is dropped", "lose: lifecycle before selection"]),
    "two racing releases": (["release: ", "execute: two at once"], ["prepare: the record is claimed", "prepare: a claimed record is unknown", "execute: once"]),
    "loss against a queued release": (["loss: a queued release", "loss: executed "], ["execute: through the gate", "execute: the lifecycle behind the gate"]),
    "two refusing queues": (["queue: "], ["queue: the refusal is the call's"]),
}


class CannotRun(Exception):
    pass


def yield_to_all():
    os.nice(15)
    os.setsid()  # a scheduling group of its own
    try:
        with open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write("15")
    except OSError:
        pass  # a kernel without such groups: nice is all there is


def run(path, limit):
    """What each case of a program answered, by name."""
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP")
    done = subprocess.run([path], env=env, capture_output=True, text=True, timeout=limit, check=False, preexec_fn=yield_to_all)
    cases = {m[2]: m[1] == "ok" for m in re.finditer(r"^(ok|not ok) \d+ - (.*)$", done.stdout, re.M)}
    if not cases:
        raise CannotRun(f"{path} printed no case: {done.stderr[-300:]}")
    return cases


def add_up(build, runs):
    passed, seen = {}, set()
    start = shown = time.monotonic()
    for n in range(runs):
        for program in PROGRAMS:
            for case, good in run(os.path.join(build, "bin", program), 600).items():
                passed[case] = passed.get(case, 0) + good
                seen.add(case)
        now = time.monotonic()
        if sys.stderr.isatty() or now - shown > 30:
            shown = now
            bad = sum(passed[c] != n + 1 for c in seen)
            print(f"{n + 1}/{runs} runs, {bad} cases failed, {now - start:.0f} s", end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr)
    return passed


def judge(names, passed, runs, removals):
    rows = []
    for name in names:
        begins, missed_by = RACES[name]
        cases = [c for c in passed if any(c.startswith(b) for b in begins)]
        lacking = [b for b in begins if not any(c.startswith(b) for c in passed)] + [m for m in missed_by if m not in removals]
        failed = [c for c in cases if passed[c] != runs]
        rows.append({"race": name, "cases": cases, "removals": missed_by, "failed": failed, "lacking": lacking})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=1000, metavar="N")
    parser.add_argument("--only", action="append", default=[], choices=list(RACES), metavar="RACE")
    parser.add_argument("--list", action="store_true", help="show the races and end")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if args.list:
        print("\n".join(RACES))
        return 0
    if args.runs < 1:
        parser.error("--runs: needed 1 or more")
    with open(os.path.join(ROOT, "tests", "defences", "registry.toml"), "rb") as file:
        removals = {d["name"] for d in tomllib.load(file)["defence"]}
    names = args.only or list(RACES)
    try:
        rows = judge(names, add_up(args.build, args.runs), args.runs, removals)
    except (CannotRun, OSError, subprocess.TimeoutExpired) as why:
        print(f"races: could not run: {why}", file=sys.stderr)
        return 3
    good = 0
    for row in rows:
        bad = row["failed"] + row["lacking"]
        good += not bad
        print(f"{'ok ' if not bad else 'BAD'} {row['race']}: {len(row['cases'])} cases" + (f"; {', '.join(bad)}" if bad else ""))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"runs": args.runs, "races": rows}, file, indent=1)
    print(f"races: {good}/{len(rows)} passed {args.runs} of {args.runs} runs")
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
