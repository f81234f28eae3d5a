#!/usr/bin/env python3
"""Every driver call that cudavmm makes fails once, at every occurrence, with every result: faults.py --build FOLDER [--sample] [--json FILE]

A run without faults says which calls the workload makes and how often. Then, for each call, each occurrence and each result, the workload
runs again in a process of its own with exactly that fault. It checks by itself that nothing of the driver is left unaccounted for, that what
is charged is what is owned, that no address is handed out that is still mapped, that the plugin serves again or the device is given up for good,
and that unloading is allowed exactly when nothing is left (workload.c says how). A fault that did not fire is a failure.

Kinds of outcome: unnoticed (no step failed), refused (some did, and everything was as before), quarantined (something could not be given back:
counted, charged, never handed out), kept (the module stays with it), lost (the device), ended (the driver).
Prints a table and one closing line. Exit codes: 0 every promise holds, 1 one does not, 2 usage, 3 could not run.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time

RESULTS = {"out of memory": "2", "invalid value": "1", "not permitted": "800", "illegal address": "700:sticky",
           "deinitialized": "4"}
KINDS = ["unnoticed", "refused", "quarantined", "kept", "lost", "ended"]
# The optional flag is there, so that its trial is part of every run.
BASE = "rdma;"
# Made only behind another call's failure: that one fails first.
BEHIND = {"cuGetErrorName": "fail=cuMemMap:5:800;"}
SAMPLE = 10
LIMIT_S = 60


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--build", required=True, help="build folder with bin/fakecuda_workload, lib and fakecuda (./dev faults names build/dev)")
    parser.add_argument("--sample", action="store_true",
                        help="a tenth: of each call and result the first occurrence, and of the rest every tenth")
    parser.add_argument("--only", metavar="CALL", help="this call alone")
    parser.add_argument("--json", metavar="FILE", help="write every run's outcome there")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at once (default: processors)")
    return parser.parse_args()


def could_not(why):
    print(f"faults: {why}", file=sys.stderr)
    sys.exit(3)


class Workload:
    """The program, the plugin and the simulated driver of one build."""

    def __init__(self, build):
        build = os.path.abspath(build)
        self.program = os.path.join(build, "bin", "fakecuda_workload")
        self.plugin = os.path.join(build, "lib", "libnxmem_cudavmm.so")
        self.driver = os.path.join(build, "fakecuda")
        for path in (self.program, self.plugin, os.path.join(self.driver, "libcuda.so.1")):
            if not os.path.exists(path):
                could_not(f"no {path}; build the targets fakecuda_workload and nxmem_cudavmm first")

    def run(self, schedule):
        environment = dict(os.environ, LD_LIBRARY_PATH=self.driver, FAKECUDA_SCHEDULE=schedule)
        return subprocess.run([self.program, self.plugin], env=environment, capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)

    def calls(self):
        """How often the workload makes each call while nothing fails."""
        with tempfile.NamedTemporaryFile("r", suffix=".log") as log:
            done = self.run(f"{BASE}leaks=exit;log={log.name}")
            if done.returncode != 0:
                could_not(f"the workload fails without any fault:\n{done.stderr}{done.stdout}")
            counts = {}
            for line in log:
                name = line.split()[1]
                counts[name] = counts.get(name, 0) + 1
        return counts


def chosen(occurrences, sample):
    if not sample:
        return range(1, occurrences + 1)
    return [n for n in range(1, occurrences + 1) if n == 1 or n % SAMPLE == 0]


def judge(done, may_lose, faults):
    """(kind, why it is broken or None) of one run."""
    words = done.stdout.split()
    kind = words[0] if words else "died"
    broken = [line for line in done.stderr.splitlines() if line.startswith("broken: ")]
    if done.returncode < 0:
        return "died", f"ended by signal {-done.returncode}"
    if broken or done.returncode != 0 or kind not in KINDS:
        return kind, "; ".join(broken) or f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"
    if kind == "lost" and not may_lose:
        return kind, "the device was given up for a result that is not sticky"
    fired = [word for word in words if word.startswith("fired=")]
    return kind, None if fired == [f"fired={faults}"] else "a scheduled fault never fired"


def one(workload, call, n, result):
    schedule = f"{BASE}{BEHIND.get(call, '')}fail={call}:{n}:{RESULTS[result]}"
    try:
        # An event that fails, whatever the result, leaves nobody who knows whether work still runs.
        may_lose = result == "illegal address" or call == "cuEventQuery"
        kind, why = judge(workload.run(schedule), may_lose, schedule.count("fail="))
    except subprocess.TimeoutExpired:
        kind, why = "hangs", f"still running after {LIMIT_S} s"
    return {"call": call, "occurrence": n, "result": result, "schedule": schedule, "kind": kind, "broken": why}


def run_all(workload, cases, jobs):
    done, started = [], time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(lambda case: one(workload, *case), cases):
            done.append(outcome)
            if len(done) % 200 == 0:
                print(f"  {len(done)} of {len(cases)} after {time.monotonic() - started:.0f} s", file=sys.stderr)
    return done


def show(outcomes):
    """One row a call, one column a result: how many occurrences ended in which kind."""
    letters = {kind: kind[0] for kind in KINDS}
    print(f"{'call':<31}" + "".join(f"{result:>18}" for result in RESULTS))
    for call in dict.fromkeys(outcome["call"] for outcome in outcomes):
        cells = []
        for result in RESULTS:
            kinds = [o["kind"] for o in outcomes if o["call"] == call and o["result"] == result and not o["broken"]]
            cell = " ".join(f"{kinds.count(kind)}{letters[kind]}" for kind in KINDS if kind in kinds)
            broken = sum(1 for o in outcomes if o["call"] == call and o["result"] == result and o["broken"])
            cells.append(cell + (f" {broken}!" if broken else ""))
        print(f"{call:<31}" + "".join(f"{cell:>18}" for cell in cells))
    print("  " + ", ".join(f"{letters[kind]} {kind}" for kind in KINDS) + ", ! a promise is broken")


def main():
    options = arguments()
    workload = Workload(options.build)
    counts = dict(workload.calls(), **{call: 1 for call in BEHIND})
    if options.only is not None and options.only not in counts:
        could_not(f"the workload never makes {options.only}; it makes {', '.join(counts)}")
    cases = [(call, n, result) for call, count in counts.items() if options.only in (None, call)
             for result in RESULTS for n in chosen(count, options.sample)]
    print(f"faults: {len(counts)} kinds of call, {sum(counts.values())} calls, {len(cases)} runs", file=sys.stderr)
    outcomes = run_all(workload, cases, max(1, options.jobs))
    show(outcomes)
    broken = [outcome for outcome in outcomes if outcome["broken"]]
    for outcome in broken:
        print(f"broken: {outcome['schedule']}: {outcome['broken']}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"command": sys.argv, "calls": counts, "runs": outcomes}, file, indent=1)
    print(f"faults: {len(outcomes) - len(broken)}/{len(outcomes)} runs keep every promise")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
