#!/usr/bin/env python3
"""Take the defences away, one at a time: each must be missed by a test.

    python3 tests/defences/run.py [--only NAME] [--table FILE] [--list | --texts] [--jobs N] [--tap] [--json FILE]

The tables beside this file name each defence of the host and of the VMM plugins: the one place in the source that it stands at, what stands
there without it, and the tests that must notice. A defence's text has to be found exactly once. The tests are green before the first removal
and after the last one; a removal must turn at least one of them red. Works on copies under build/defences; the sources are left alone.

Prints a matrix: defence, which tests turned red, the first row of each that did. Last line: `defences: K/N removals noticed`.
Exit codes: 0 all noticed, 1 a removal that no test noticed, 2 usage, 3 could not run (tests red without any removal, a build that fails,
another run in the same place), or one of the removals could not be tried (its text not found once, a build that fails without it).
"""
import argparse
import concurrent.futures
import fcntl
import glob
import json
import os
import queue
import sys
import time
import tomllib

import tree as trees_of

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CannotRun = trees_of.CannotRun

# A removal that makes a test hang turns it red: by this many times what it takes otherwise, and by no less than --limit.
TIMES_THE_USUAL = 20
BASELINE_SECONDS = 600


# ---- The tables ---------------------------------------------------------------------------------------------------------


def default_tables():
    return sorted(glob.glob(f"{HERE}/*.toml"))


def load(paths, only):
    defences = []
    for path in paths:
        with open(path, "rb") as file:
            defences += [{**d, "table": os.path.basename(path)} for d in tomllib.load(file)["defence"]]
    names = [d["name"] for d in defences]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise CannotRun(f"found twice: {', '.join(sorted(doubled))}")
    unknown = [name for name in only if name not in names]
    if unknown:
        raise CannotRun(f"found no defence named {', '.join(unknown)}; --list shows what there is")
    return [d for d in defences if not only or d["name"] in only]


def edits_of(defence):
    """A removal may take several edits; each text stands exactly once in its file."""
    return defence.get("edit") or [defence]


def damaged(source, defence):
    """path -> text without the defence."""
    texts = {}
    for edit in edits_of(defence):
        path = edit["file"]
        if path not in texts:
            if not os.path.exists(f"{source}/{path}"):
                raise CannotRun(f"{defence['name']}: {path}: no such file: mend {defence['table']}")
            texts[path] = trees_of.read(f"{source}/{path}")
        count = texts[path].count(edit["find"])
        if count != 1:
            raise CannotRun(f"{defence['name']}: {path}: found its text {count} times, needed once: mend {defence['table']}")
        texts[path] = texts[path].replace(edit["find"], edit["put"])
    return texts


def look_at_texts(root, defences):
    """How many tables must be mended for the sources as they stand."""
    stale = 0
    for defence in defences:
        try:
            damaged(root, defence)
        except CannotRun as error:
            stale += 1
            print(error)
    print(f"defences: {len(defences) - stale}/{len(defences)} texts stand once")
    return stale


# ---- Trying -------------------------------------------------------------------------------------------------------------


class Trial:
    """All trees, and how long each test takes where nothing is missing."""

    def __init__(self, args, defences):
        self.place, self.floor, self.usual = args.place, args.limit, {}
        self.everything = sorted({test for d in defences for test in d["tests"]})
        jobs = max(1, min(args.jobs, len(defences)))
        self.trees = [trees_of.Tree(args.root, f"{args.place}/{n}") for n in range(jobs)]
        self.free = queue.Queue()
        for t in self.trees:
            self.free.put(t)

    def each_tree(self, what):
        with concurrent.futures.ThreadPoolExecutor(len(self.trees)) as pool:
            return list(pool.map(what, self.trees))

    def limit(self, test):
        return max(self.floor, TIMES_THE_USUAL * self.usual.get(test, 0.0))

    def build(self, when):
        for failure in self.each_tree(lambda t: t.make(self.everything)):
            if failure:
                raise CannotRun(f"{when}: the build fails:\n{failure}")
        self.each_tree(lambda t: t.list_tests())

    def green(self, when):
        """All sources are the same, so the trees share the tests among them."""
        self.build(when)
        waiting, red = queue.Queue(), {}
        for test in self.everything:
            waiting.put(test)

        def work(t):
            while True:
                try:
                    test = waiting.get_nowait()
                except queue.Empty:
                    return
                ended = t.test(test, BASELINE_SECONDS)
                self.usual.setdefault(test, ended.seconds)
                if ended.red:
                    red[test] = ended.red

        self.each_tree(work)
        if red:
            raise CannotRun(f"{when}: red without any removal: " + "; ".join(f"{t}: {row}" for t, row in sorted(red.items())))

    def damage_and_test(self, t, defence):
        """test -> its first failing row. The tree's sources are as before afterwards."""
        before = t.put(damaged(t.source, defence))
        try:
            failure = t.make_changed(defence["tests"], list(before))
            if failure:
                raise CannotRun(f"{defence['name']}: does not build without it:\n{failure}")
            return t.reds(defence["tests"], self.limit)
        finally:
            t.put(before)

    def remove(self, defence):
        """One removal in a tree that is free. One that cannot be tried does not keep the others from it."""
        t = self.free.get()
        processor, started, red, why = t.processor, time.monotonic(), {}, ""
        try:
            red = self.damage_and_test(t, defence)
        except CannotRun as error:
            why = str(error)
        finally:
            self.free.put(t)
        return {**{key: defence[key] for key in ("name", "guards", "table", "tests")}, "noticed": bool(red), "red": red, "not_tried": why,
                "seconds": round(time.monotonic() - started, 2), "processor_seconds": round(t.processor - processor, 2)}


def try_all(args, defences, out):
    trial = Trial(args, defences)
    trial.each_tree(lambda t: t.configure())
    out.say(f"building, and {len(trial.everything)} tests green without any removal")
    trial.green("before")
    out.row(True, "green before any removal", ", ".join(trial.everything))
    results = []
    with concurrent.futures.ThreadPoolExecutor(len(trial.trees)) as pool:
        tasks = [pool.submit(trial.remove, d) for d in defences]
        try:
            for task in concurrent.futures.as_completed(tasks):
                results.append(task.result())
                out.removal(len(results), len(defences), results[-1])
        finally:
            for task in tasks:
                task.cancel()
    trial.green("after")
    out.row(True, "green after the last one", "")
    return sorted(results, key=lambda r: (r["table"], r["name"])), sum(t.processor for t in trial.trees)


# ---- What is shown ------------------------------------------------------------------------------------------------------


class Out:
    """Lines for people, or TAP: a row for each removal and one for each time that all is green."""

    def __init__(self, tap):
        self.tap, self.rows = tap, 0

    def plan(self, removals):
        if self.tap:
            print(f"1..{removals + 2}", flush=True)

    def say(self, text):
        print(f"# {text}" if self.tap else text, flush=True)

    def row(self, good, name, detail):
        self.rows += 1
        if self.tap:
            print(f"{'ok' if good else 'not ok'} {self.rows} - {name}" + (f"\n# {detail}" if detail else ""), flush=True)
        else:
            print(name, flush=True)

    def removal(self, done, count, r):
        said = "; ".join(f"{test}: {row}" for test, row in sorted(r["red"].items())) or "NOT NOTICED by " + ", ".join(r["tests"])
        if r["not_tried"]:
            said = "NOT TRIED: " + r["not_tried"].replace("\n", "\n# ")
        if self.tap:
            self.row(r["noticed"], f"without {r['name']}: {said}", "")
        else:
            print(f"[{done}/{count}] {r['name']}: {said}", flush=True)

    def matrix(self, results):
        width = max(len(r["name"]) for r in results)
        for r in results:
            verdict = "???" if r["not_tried"] else "yes" if r["noticed"] else "NO "
            self.say(f"{r['name']:<{width}}  {verdict}  {', '.join(sorted(r['red'])) or '-'}")

    def failed(self, error):
        if self.tap:
            print("Bail out! " + str(error).replace("\n", "\n# "), flush=True)
        print(f"defences: {error}", file=sys.stderr)


def lock(place):
    os.makedirs(place, exist_ok=True)
    file = open(f"{place}/lock", "w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise CannotRun(f"another run is at work in {place}") from error
    return file


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this defence (may be given again)")
    parser.add_argument("--table", action="append", default=[], metavar="FILE", help="only the defences of this table (may be given again)")
    parser.add_argument("--list", action="store_true", help="show the defences and end")
    parser.add_argument("--texts", action="store_true", help="only look whether each text stands once, in a moment; build nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="removals at a time (processors)")
    parser.add_argument("--limit", type=float, default=20, metavar="S", help="a test that takes longer, and much longer than usual, is red (20)")
    parser.add_argument("--tap", action="store_true", help="print TAP, a row for each removal")
    parser.add_argument("--json", metavar="FILE", help="write the matrix")
    parser.add_argument("--place", metavar="FOLDER", help="where the copies and their builds are kept (build/defences)")
    parser.add_argument("--root", default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.root = os.path.abspath(args.root)
    args.place = os.path.abspath(args.place or f"{args.root}/build/defences")
    return args


def main():
    args = parse()
    out = Out(args.tap)
    started = time.monotonic()
    try:
        defences = load(args.table or default_tables(), args.only)
        if args.list:
            for d in defences:
                print(f"{d['name']}: {d['guards']}")
            return 0
        if args.texts:
            return 3 if look_at_texts(args.root, defences) else 0
        held = lock(args.place)
        out.plan(len(defences))
        results, processor = try_all(args, defences, out)
        held.close()
    except (CannotRun, OSError, tomllib.TOMLDecodeError) as error:
        out.failed(error)
        return 3
    seconds = time.monotonic() - started
    out.matrix(results)
    noticed = sum(r["noticed"] for r in results)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"command": sys.argv, "seconds": round(seconds, 1), "processor_seconds": round(processor, 1), "defences": results}, file, indent=1)
    out.say(f"{seconds:.0f} s, {processor:.0f} s of processor time, {sum(r['processor_seconds'] for r in results) / len(results):.2f} s for each removal")
    out.say(f"defences: {noticed}/{len(results)} removals noticed")
    if any(r["not_tried"] for r in results):
        return 3
    return 0 if noticed == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
