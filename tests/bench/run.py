#!/usr/bin/env python3
"""The host beside the bare operations: one run, pinned, medians of many short batches that take turns.

Prints a table, writes build/bench/bench.json and a plot of cost against live allocations, build/bench/bench.png. Each row names its configuration:
the fetch mode and the overlap check of the host (the shipped default is guarded, checked), or the compiler of the core.

Closing line: `bench: ok`, or the rows that missed their bar. Exit codes: 0 all bars held, 1 some missed, 2 usage, 3 could not run.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIVE = (0, 1000, 100000, 1000000)
DEFAULT = "guarded, checked (default)"
TRUSTED = "guarded, trusted"


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def fail(text):
    print(f"bench: {text}", file=sys.stderr)
    sys.exit(3)


def run(command, **more):
    try:
        return subprocess.run([str(part) for part in command], check=True, text=True, capture_output=True, **more).stdout
    except FileNotFoundError as error:
        fail(error)
    except subprocess.CalledProcessError as error:
        fail(f"{' '.join(map(str, command))}: exit code {error.returncode}\n{error.stderr or error.stdout}")


class Bench:
    def __init__(self, build, processor, rounds):
        self.build, self.processor, self.rounds = build, processor, rounds
        self.commands = []

    def program(self, name):
        return self.build / "bin" / f"nxmem_bench_{name}"

    def library(self, name):
        return self.build / "lib" / f"lib{name}.so"

    def samples(self, command, pinned=True):
        """{(row, series): [nanoseconds]} of one program."""
        if pinned:
            command = ["taskset", "-c", self.processor, *command]
        self.commands.append(" ".join(map(str, command)))
        found = {}
        for line in run(command).splitlines():
            row, series, value = line.split("\t")
            found.setdefault((row, series), []).append(float(value))
        return found

    def medians(self, command, pinned=True):
        return {key: statistics.median(values) for key, values in self.samples(command, pinned).items()}


def row(name, configuration, value, bar, unit, floor=None, host=None):
    """One line of the table; bar None: shown for comparison only."""
    return {"name": name, "configuration": configuration, "value": value, "bar": bar, "unit": unit, "floor_ns": floor,
            "host_ns": host, "held": None if bar is None else value <= bar}


def core_rows(bench):
    rows = []
    for compiler in ("gcc", "clang"):
        m = bench.medians([bench.program(f"core_{compiler}")])
        where = f"core, {compiler} -O2, direct reads"
        floor, accepted = m["reader", "floor"], m["reader", "accepted"]
        rows.append(row("allocator table accepted / branch and copy of 128 bytes", where, accepted / floor, 5.0, "x", floor, accepted))
        for series in ("short", "missing-slot", "id-0"):
            refused = m["reader", series]
            rows.append(row(f"allocator table refused ({series}) / accepted", where, refused / accepted, 1.5, "x", accepted, refused))
        floor, stored = m["negotiation", "floor"], m["negotiation", "stored"]
        core = m["negotiation", "core"]
        rows.append(row("negotiate and validate / a zeroed status by value, stored through a pointer", where, core / stored, 2.0, "x", stored, core))
        rows.append(row("the same / a zeroed status by value, left where it came", where, core / floor, None, "x", floor, core))
    return rows


def host_rows(bench):
    rows, plot = [], []
    first = {}
    for live in LIVE:
        say(f"{live:,} others live")
        rounds = bench.rounds if live < 1000000 else max(200, bench.rounds // 2)
        m = bench.medians([bench.program("host"), bench.library("nxmem_minimal"), "minimal", live, rounds])
        pair, direct = m["last", "malloc"], m["last", "direct"]
        point = {"live": live, "malloc_pair": pair, "last": {}, "random": {}}
        for series, where in (("trusted", TRUSTED), ("checked", DEFAULT)):
            cost = m["last", series]
            more = cost - direct
            first.setdefault(series, more)
            if series == "checked":
                rows.append(row(f"pair over direct calls, {live:,} live", where, more / pair, 6.0, "malloc pairs", direct, cost))
            else:
                rows.append(row(f"pair over direct calls, {live:,} live", where, more / pair, 3.5 if live == 0 else None, "malloc pairs", direct, cost))
            if live != 0:
                bar = 1.5 if series == "trusted" else None
                rows.append(row(f"the same / the figure at 0 live, {live:,} live", where, more / first[series], bar, "x", first[series], more))
        for series in ("direct", "trusted", "checked"):
            point["last"][series] = m["last", series]
            if live != 0:
                point["random"][series] = m["random", series]
        plot.append(point)
        if live == LIVE[-1]:
            floor = m["random", "direct"]
            for series, where, bar in (("trusted", TRUSTED, 4.0), ("checked", DEFAULT, 12.0)):
                cost = m["random", series]
                rows.append(row(f"random order over direct calls, {live:,} live", where, cost / floor, bar, "x", floor, cost))
                rows.append(row(f"host memory for each of {live:,} live, 64 bytes", where, m["memory", series], 64.0, "bytes"))
    return rows, {"cost_by_live": plot}


def thread_rows(bench):
    m = bench.medians([bench.program("thread"), bench.library("nxmem_bench_arena"), bench.rounds], pinned=False)
    rows = []
    bare = m["two", "direct"] / m["one", "direct"]
    for series, where in (("trusted", TRUSTED), ("checked", DEFAULT)):
        ratio = m["two", series] / m["one", series] / bare
        rows.append(row("two threads / one thread, over the same of direct calls, lock-free plugin", where, ratio, 1.3, "x", m["one", series], m["two", series]))
    return rows


def load_rows(bench):
    m = bench.medians([bench.program("load"), bench.library("nxmem_minimal"), max(200, bench.rounds // 2)])
    bare = m["load", "bare"]
    return [row("load, negotiate, enumerate, unload / bare dlopen and dlclose", where, m["load", series] / bare, 1.4, "x", bare, m["load", series])
            for series, where in (("guarded", DEFAULT), ("direct", "direct, checked"))]


def vmm_rows(bench):
    spans = ("10", "100", "1000", "10000", "100000")
    m = bench.medians([bench.program("vmm"), bench.library("nxmem_hostvmm"), "hostvmm", bench.rounds // 4 or 1, *spans])
    bare, host = m["granule", "bare"], m["granule", "host"]
    pair, slots = m["small", "malloc"], m["small", "slots"]
    few, many = m["search", spans[0]], m["search", spans[-1]]
    rows = [row("commit and decommit of one granule / the bare mmap, mprotect, mmap", "hostvmm, " + DEFAULT, host / bare, 1.15, "x", bare, host),
            row("allocate and release of 64 bytes that map nothing / malloc and free", "hostvmm, slots called directly", slots / pair, 12.0, "x", pair, slots),
            row("the same among 100,000 free spans / among 10", "hostvmm, slots called directly", many / few, 6.0, "x", few, many)]
    return rows, {"cost_by_free_spans": [{"free_spans": int(n), "pair_ns": m["search", n]} for n in spans]}


def manager_rows(bench):
    """What a binding, and a binding with a manager, add to the allocator alone; flat: as many malloc pairs more, whatever is live."""
    rows, first = [], None
    for live in (0, 1000, 100000):
        m = bench.medians([bench.program("manager"), bench.library("nxmem_minimal"), "minimal", live, bench.rounds])
        pair, alone = m["pair", "malloc"], m["pair", "allocator"]
        more = (m["pair", "manager"] - alone) / pair
        first = more if first is None else first
        rows.append(row(f"pair through a binding over the allocator alone, {live:,} live", DEFAULT, (m["pair", "binding"] - alone) / pair, None, "malloc pairs", alone, m["pair", "binding"]))
        rows.append(row(f"pair through a binding with a manager over the allocator alone, {live:,} live", DEFAULT, more, 4.5, "malloc pairs", alone, m["pair", "manager"]))
        if live != 0:
            rows.append(row(f"the same / the figure at 0 live, {live:,} live", DEFAULT, more / first, 1.5, "x"))
    return rows


GROUPS = {"core": core_rows, "host": host_rows, "threads": thread_rows, "load": load_rows, "vmm": vmm_rows, "manager": manager_rows}


def measure(bench, group):
    say(group)
    found = GROUPS[group](bench)
    return found if isinstance(found, tuple) else (found, {})


def better(old, new):
    """Of two tries of a group, row by row the one nearer its bar: other programs can only add to a cost."""
    return [a if a["held"] in (True, None) or (not b["held"] and a["value"] <= b["value"]) else b for a, b in zip(old, new)]


def show(rows):
    width = max(len(r["name"]) for r in rows)
    wide = max(len(r["configuration"]) for r in rows)
    print(f"{'measured':{width}}  {'configuration':{wide}}  {'floor ns':>10}  {'host ns':>10}  {'found':>8}  bar")
    for r in rows:
        numbers = "  ".join(f"{'' if r[k] is None else format(r[k], '.1f'):>10}" for k in ("floor_ns", "host_ns"))
        bar = "" if r["bar"] is None else f"{r['bar']:g} {r['unit']}{'' if r['held'] else '  MISSED'}"
        print(f"{r['name']:{width}}  {r['configuration']:{wide}}  {numbers}  {r['value']:8.2f}  {bar}")


def versions(build):
    found = {"python": platform.python_version(), "kernel": platform.release(), "machine": platform.machine()}
    for tool in ("gcc", "clang", "cmake", "ninja"):
        found[tool] = run([tool, "--version"]).splitlines()[0] if shutil.which(tool) else None
    cache = (build / "CMakeCache.txt").read_text().splitlines()
    found["host compiler"] = next((line.split("=", 1)[1] for line in cache if line.startswith("CMAKE_C_COMPILER:")), None)
    found["build type"] = next((line.split("=", 1)[1] for line in cache if line.startswith("CMAKE_BUILD_TYPE:")), None)
    return found


def revision():
    head = run(["git", "-C", ROOT, "rev-parse", "HEAD"]).strip()
    return head + ("+changes" if run(["git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no"]).strip() else "")


def draw(out):
    """The plot needs matplotlib, which may belong to the system's Python alone."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import matplotlib"], capture_output=True).returncode == 0:
            run([python, ROOT / "tests/bench/plot.py", out / "bench.json", out / "bench.png"])
            return
    fail("matplotlib is missing: apt-get install python3-matplotlib")


def build_all(args):
    if args.build:
        return Path(args.build).resolve()
    say("building release")
    run(["cmake", "--preset", "release"], cwd=ROOT)
    run(["cmake", "--build", "--preset", "release", "--target", "nxmem_bench", "-j", str(os.cpu_count())], cwd=ROOT)
    return ROOT / "build" / "release"


def parse():
    parser = argparse.ArgumentParser(prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", metavar="FOLDER", help="a build folder whose target nxmem_bench is built (else the preset release is)")
    parser.add_argument("--out", metavar="FOLDER", default=str(ROOT / "build" / "bench"), help="where the JSON and the plot go")
    parser.add_argument("--json", metavar="FILE", help="write the JSON there as well")
    parser.add_argument("--processor", metavar="N", default=str(max(os.sched_getaffinity(0))), help="pin to this processor")
    parser.add_argument("--rounds", metavar="N", type=int, default=2000, help="batches of each kind (2000)")
    parser.add_argument("--retry", metavar="N", type=int, default=2, help="measure a group again while a bar is missed (2 more times)")
    parser.add_argument("--only", metavar="GROUP", choices=sorted(GROUPS), action="append", help="one of " + ", ".join(sorted(GROUPS)))
    args = parser.parse_args()
    if args.rounds < 1 or args.retry < 0:
        parser.error("--rounds needs at least 1, --retry at least 0")
    return args


def main():
    args = parse()
    build = build_all(args)
    bench = Bench(build, args.processor, args.rounds)
    rows, plots, tries = [], {}, {}
    for group in args.only or GROUPS:
        found, points = measure(bench, group)
        plots.update(points)
        tries[group] = 1
        while tries[group] <= args.retry and any(r["held"] is False for r in found):
            say(f"{group} again: missed {', '.join(r['name'] for r in found if r['held'] is False)}")
            again, points = measure(bench, group)
            found = better(found, again)
            plots.update(points)
            tries[group] += 1
        rows += found
    show(rows)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    result = {"command": " ".join(sys.argv), "revision": revision(), "preset": "release" if not args.build else str(build), "tools": versions(build),
              "processor": args.processor, "rounds": args.rounds, "tries": tries, "programs": bench.commands, "rows": rows, **plots}
    text = json.dumps(result, indent=1) + "\n"
    (out / "bench.json").write_text(text)
    if args.json:
        Path(args.json).write_text(text)
    if plots:
        draw(out)
    missed = [f"{r['name']} ({r['configuration']})" for r in rows if r["held"] is False]
    print("bench: ok" if not missed else f"bench: {len(missed)} missed: " + "; ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
