#!/usr/bin/env python3
"""Each named race of the registry, a thousand times in a row, each program's runs in one process.

    tests/registry/thousand.py [--build FOLDER] [--runs N] [--only RACE] [--json FILE] [--list | --reverted]

A race is a set of cases of the stepped test programs; RACES below says which, and which removals in tests/defences/registry*.toml turn them red
(--reverted takes each away, with tests/defences/run.py, and shows the first case of a race that fails then). A case or a removal that is not there is a failure.
A program ends with the first run in which a case fails. Progress on standard error.
Last line: `races: K/N passed R of R runs`, or `races: K/N turn red, R removals`. Exit codes: 0 all did, 1 one that did not, 2 usage, 3 could not run.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CASE = re.compile(r"(ok|not ok) \d+ - (.*)")
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
    "drop against an allocation": (["drop: "], ["allocate: dropped while it was made", "drop: the last use ends it", "drop: not while it is used", "drop: the binding that was found dropped"]),
    "loss against an allocation": (["loss: before an allocation", "loss: when an allocation"], ["allocate: lost while it was made"]),
    "two refusing queues": (["queue: "], ["queue: the refusal is the call's"]),
}


class CannotRun(Exception):
    pass


class Progress:
    """On a terminal one line that is written over; else a line every half minute."""

    def __init__(self, runs):
        self.runs, self.start, self.shown = runs, time.monotonic(), 0.0

    def show(self, program, run, failed, last=False):
        now, terminal = time.monotonic(), sys.stderr.isatty()
        if not last and now - self.shown < (0.5 if terminal else 30):
            return
        self.shown = now
        end = "\n" if last or not terminal else "\r"
        print(f"{program}: {run}/{self.runs} runs, {failed} cases failed, {now - self.start:.0f} s", end=end, file=sys.stderr, flush=True)


def add_up_one(path, runs, passed, progress):
    """All runs in one process; it ends with the first in which a case fails. How often each case passed is added."""
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP")
    run, failed, program = 0, 0, os.path.basename(path)
    with tempfile.TemporaryFile("w+") as said, subprocess.Popen([path, "--repeat", str(runs)], env=env, stdout=subprocess.PIPE, stderr=said, text=True) as child:
        for line in child.stdout:
            match = CASE.match(line)
            run += line.startswith("1..")
            if match:
                passed[match[2]] = passed.get(match[2], 0) + (match[1] == "ok")
                failed += match[1] != "ok"
            progress.show(program, run, failed)
        child.wait()
        said.seek(0)
        if run == 0 or (child.returncode != 0 and failed == 0):
            raise CannotRun(f"{path} ended with {child.returncode} in run {run}: {said.read()[-300:]}")
    progress.show(program, run, failed, last=True)


def add_up(build, runs):
    passed, progress = {}, Progress(runs)
    for program in PROGRAMS:
        add_up_one(os.path.join(build, "bin", program), runs, passed, progress)
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


def revert(names, place):
    """Take each behaviour away that one of the races guards: which case fails then, by removal."""
    tool = os.path.join(ROOT, "tests", "defences", "run.py")
    wanted = sorted({removal for name in names for removal in RACES[name][1]})
    only = [part for removal in wanted for part in ("--only", removal)]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "matrix.json")
        more = ["--place", place] if place else []
        done = subprocess.run([sys.executable, tool, "--jobs", "1", "--json", out, *more, *only], stdout=sys.stderr, check=False)
        if done.returncode not in (0, 1):
            raise CannotRun(f"{tool} ended with {done.returncode}")
        with open(out, encoding="utf-8") as file:
            matrix = json.load(file)["defences"]
    tests = [program.removeprefix("test_") for program in PROGRAMS]
    return {d["name"]: next((d["red"][t] for t in tests if t in d["red"]), None) for d in matrix}


def show_reverted(names, place):
    red = revert(names, place)
    rows = [{"race": name, "removals": {removal: red.get(removal) for removal in RACES[name][1]}} for name in names]
    for row in rows:
        good = all(row["removals"].values())
        print(f"{'red    ' if good else 'NOT RED'} {row['race']}")
        for removal, case in row["removals"].items():
            print(f"      without \"{removal}\": {case or 'NO RACE FAILS'}")
    return rows, sum(all(row["removals"].values()) for row in rows), len(red)


def show_passed(names, build, runs):
    removals = set()
    for path in glob.glob(os.path.join(ROOT, "tests", "defences", "registry*.toml")):
        with open(path, "rb") as file:
            removals |= {d["name"] for d in tomllib.load(file)["defence"]}
    rows = judge(names, add_up(build, runs), runs, removals)
    for row in rows:
        bad = row["failed"] + row["lacking"]
        print(f"{'passed' if not bad else 'FAILED'} {row['race']}: {len(row['cases'])} cases" + (f"; {', '.join(bad)}" if bad else ""))
    return rows, sum(not row["failed"] + row["lacking"] for row in rows)


def parse():
    parser = argparse.ArgumentParser(prog="thousand.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER", help="where the test programs are built (build/dev)")
    parser.add_argument("--runs", type=int, default=1000, metavar="N", help="in a row (1000)")
    parser.add_argument("--only", action="append", default=[], choices=list(RACES), metavar="RACE", help="only this race (may be given again)")
    parser.add_argument("--list", action="store_true", help="show the races and end")
    parser.add_argument("--reverted", action="store_true", help="take what the races guard away, one at a time, instead")
    parser.add_argument("--place", metavar="FOLDER", help="with --reverted: where copies are kept and built (build/defences)")
    parser.add_argument("--json", metavar="FILE", help="write the result there as well")
    args = parser.parse_args()
    if args.runs < 1:
        parser.error("--runs: needed 1 or more")
    return args


def main():
    args = parse()
    names = args.only or list(RACES)
    if args.list:
        print("\n".join(names))
        return 0
    try:
        if args.reverted:
            rows, good, removals = show_reverted(names, args.place)
        else:
            rows, good = show_passed(names, args.build, args.runs)
    except (CannotRun, OSError) as why:
        print(f"races: could not run: {why}", file=sys.stderr)
        return 3
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"runs": None if args.reverted else args.runs, "races": rows}, file, indent=1)
            file.write("\n")
    print(f"races: {good}/{len(rows)} turn red, {removals} removals" if args.reverted else f"races: {good}/{len(rows)} passed {args.runs} of {args.runs} runs")
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
