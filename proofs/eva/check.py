#!/usr/bin/env python3
"""Eva as a check of the core that owes nothing to the proofs: one driver per public function, no alarm, every statement reached.

Each driver (eva_NAME in *.c) is analysed twice in each world of its function: without any annotation, where no contract
can hide an alarm and the statements reached are counted; and with them, where each precondition that Eva meets must be
valid. README.md says what is an exception and why. Prints TAP; last line: eva: N entry points, A alarms.
Exit code: 0 none, 1 alarms or gaps, 2 usage, 3 could not run.
"""
import argparse
import concurrent.futures
import csv
import datetime
import fnmatch
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
sys.path.insert(0, os.path.dirname(HERE))
import gate_source  # noqa: E402
import report_sources  # noqa: E402

WORLDS = {"quiet": "-DNXMEM_QUIET_WORLD", "racing": "-include {proofs}/loads.h"}
SOURCES = report_sources.CORE[:1] + ("proofs/eva", "proofs/loads.h")
PROTOTYPE = re.compile(r"^(?!typedef|static|extern)[A-Za-z_][\w \t\*]*?\b(nxmem_\w+)\(([^;{}]*)\)\s*;", re.M)
# The memory that tables may stand in (support.h).
RANGES = {"": "0xe00-0x107f", "size_only": "0x2000-0x2003"}
DOMAINS = "equality,symbolic-locations"
# What a driver may ask for in a comment before it (eva: OPTIONS): precision, at the price of time.
PRECISION = {"-eva-domains", "-eva-slevel-function", "-eva-min-loop-unroll"}
# Domains and partitioning make the analysis more precise; none of these options silences anything.
EVA = ["-eva", "-eva-verbose", "0", "-warn-unsigned-overflow", "-warn-unsigned-downcast", "-warn-signed-downcast",
       "-eva-domains", DOMAINS, "-eva-equality-through-calls", "all", "-eva-octagon-through-calls", "-eva-split-return", "full",
       "-eva-subdivide-non-linear", "64", "-eva-slevel", "5000"]
# Kinds of properties that are the proofs' business: what a contract promises, and what loops keep.
PROVED_ELSEWHERE = {"postcondition", "assigns clause", "from clause", "loop invariant", "loop assigns", "loop variant",
                    "user assertion", "behavior", "complete behaviors", "disjoint behaviors", "terminates clause",
                    "allocates clause", "axiom", "predicate", "precondition"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def entry_points(root):
    """name -> True where it reads plugin memory, of every function that a public header of the core declares."""
    folder, found = f"{root}/abi/include/nxmem", {}
    for name in sorted(os.listdir(folder)):
        for match in PROTOTYPE.finditer(gate_source.without_comments(read(f"{folder}/{name}"))):
            found[match.group(1)] = bool(gate_source.untrusted_parameters(match.group(2)))
    return found


def core_functions(root):
    """name -> is_static, of every function that abi/src defines."""
    folder, found = f"{root}/abi/src", {}
    for name in sorted(os.listdir(folder)):
        for function, (_, _, static) in gate_source.functions(read(f"{folder}/{name}")).items():
            found[function] = static
    return found


class Driver:
    """One driver. A variant (eva_NAME__VARIANT) tries other sizes than the main one and owes no coverage."""

    def __init__(self, options, name):
        self.name = name
        self.entry, _, self.variant = name.removeprefix("eva_").partition("__")
        words = options.split()
        self.options = [",".join((DOMAINS, value)) if key == "-eva-domains" else value
                        for key, value in zip([""] + words, words)]
        self.unknown = [word for word in words[::2] if word not in PRECISION]

    def memory(self):
        return ["-absolute-valid-range", RANGES.get(self.variant, RANGES[""])]


def find_drivers(folder):
    """Every driver of a folder."""
    return [Driver(*parts) for name in sorted(os.listdir(folder)) if name.endswith(".c")
            for parts in re.findall(r"^(?:/\* eva: (.*) \*/\n)?void (eva_\w+)\(void\)", read(f"{folder}/{name}"), re.M)]


def frama_c(arguments, folder):
    # Frama-C takes its own folder from PWD.
    done = subprocess.run(["frama-c", *arguments], capture_output=True, text=True, cwd=folder, env=dict(os.environ, PWD=folder))
    return done.returncode, done.stdout + done.stderr


def parse(root, drivers, world, annotated, folder):
    """One parse for all drivers of a world; says what went wrong, or None."""
    flag = WORLDS[world].format(proofs=os.path.dirname(HERE))
    sources = [os.path.join(base, name) for base in (f"{root}/abi/src", drivers)
               for name in sorted(os.listdir(base)) if name.endswith(".c")]
    command = ["-machdep", "gcc_x86_64", f"-cpp-extra-args=-I{root}/abi/include -I{root}/abi/src {flag}", *sources]
    command += ["-save", save_name(world, annotated)] + ([] if annotated else ["-no-annot"])
    code, said = frama_c(command, folder)
    bad = re.findall(r".*\b(?:error|Error)\b.*", said)
    return None if code == 0 and not bad else "\n".join(bad) or said[-800:]


def save_name(world, annotated):
    return f"{world}-{'annotated' if annotated else 'bare'}.sav"


class Analysis:
    """What one run of Eva on one driver says."""

    def __init__(self, entry, world):
        self.entry = entry
        self.world = world
        self.alarms = []  # text of each
        self.preconditions = []  # (caller, callee, label) of each that is not valid
        self.reached = {}  # function -> (statements reached, statements)
        self.seconds = 0.0
        self.broken = ""


def analyse(driver, world, annotated, folder):
    result = Analysis(driver.entry, world)
    prefix = f"{folder}/{driver.name}-{world}-{'annotated' if annotated else 'bare'}"
    command = ["-load", save_name(world, annotated), *EVA, *driver.options, *driver.memory(), "-main", driver.name]
    command += ["-then", "-report-csv", f"{prefix}.csv"]
    if not annotated:
        command += ["-then", "-metrics", "-metrics-eva-cover"]
    started = time.monotonic()
    code, said = frama_c(command, folder)
    result.seconds = time.monotonic() - started
    if code != 0 or not os.path.exists(f"{prefix}.csv"):
        result.broken = said[-800:]
        return result
    if re.search(r"Degeneration|NON TERMINATING|Recursive call|\[eva\] user error", said):
        result.broken = said[-800:]
    for name, reached, total in re.findall(r"^\s+(\w+): (\d+) stmts out of (\d+)", said, re.M):
        result.reached[name] = (int(reached), int(total))
    read_properties(result, f"{prefix}.csv")
    warned = re.findall(r"\[eva:alarm\] (.*?: Warning:(?:\s*\n)? .*)", said)
    if not annotated and len(warned) and not result.alarms:
        result.alarms += [re.sub(r"\s+", " ", text) for text in warned]
    return result


def read_properties(result, path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows:
        kind, status = row["property kind"], row["status"]
        if status in ("Valid", "Dead", "Considered valid", "Valid but dead") or kind in PROVED_ELSEWHERE:
            continue
        if kind.startswith("precondition of "):
            label = row["property"].partition(":")[0]
            result.preconditions.append((row["function"], kind.removeprefix("precondition of "), label))
        else:
            shown = re.sub(r"\s+", " ", row["property"])
            red = " (on every path)" if status.startswith("Invalid") else ""
            result.alarms.append(f"{row['file']}:{row['line']}: {kind}: {shown}{red}")


def original_name(name, known):
    """Frama-C numbers the later ones of equal static names."""
    return name if name in known else re.sub(r"_\d+$", "", name)


class Exceptions:
    """exceptions.toml: what Eva cannot see, each with its reason; one that is not met any more is an error."""

    def __init__(self, path):
        table = tomllib.loads(read(path)) if os.path.exists(path) else {}
        self.unreached = table.get("unreached", [])
        self.unproved = table.get("unproved", [])
        self.used = set()

    def allows_gap(self, function, reached, total):
        for i, entry in enumerate(self.unreached):
            if entry["function"] == function and entry["statements"] == total - reached:
                self.used.add(("unreached", i))
                return True
        return False

    def allows_precondition(self, caller, callee, label):
        for i, entry in enumerate(self.unproved):
            if all(map(fnmatch.fnmatch, (caller, callee), (entry["caller"], entry["callee"]))) and label in entry["labels"]:
                self.used.add(("unproved", i))
                return True
        return False

    def problems(self):
        said = []
        for kind, entries in (("unreached", self.unreached), ("unproved", self.unproved)):
            for i, entry in enumerate(entries):
                if not entry.get("why"):
                    said.append(f"exception without a reason: {entry}")
                if (kind, i) not in self.used:
                    said.append(f"exception that nothing meets any more: {kind} {entry}")
        return said


def judge(entry, analyses, exceptions):
    """The row of one entry point: (problems, what was reached per world)."""
    problems, reached = [], {}
    for run in analyses:
        if run.broken:
            problems.append(f"{run.world}: Eva did not finish: {run.broken}")
        problems += [f"{run.world}: {alarm}" for alarm in run.alarms]
        problems += [f"{run.world}: precondition not valid: {caller} calls {callee}: {label}"
                     for caller, callee, label in run.preconditions
                     if not exceptions.allows_precondition(caller, callee, label)]
        if entry in run.reached:
            reached[run.world] = max(reached.get(run.world, (0, 0)), run.reached[entry])
    for world in {run.world for run in analyses}:
        got, total = reached.get(world, (0, 0))
        if got < total and not exceptions.allows_gap(entry, got, total):
            problems.append(f"{world}: {got} of {total} statements reached")
        if total == 0:
            problems.append(f"{world}: never called")
    return sorted(set(problems)), reached


def check_helpers(functions, analyses, exceptions):
    """Every function of the core has all its statements reached by some driver."""
    best = {}
    for run in analyses:
        for name, counts in run.reached.items():
            name = original_name(name, functions)
            if name in functions:
                best[name] = max(best.get(name, (0, counts[1])), counts)
    problems = [f"reached by no driver: {name}" for name in functions if name not in best]
    problems += [f"{name}: {got} of {total} statements reached" for name, (got, total) in best.items()
                 if got < total and not exceptions.allows_gap(name, got, total)]
    return sorted(problems), best


class Tap:
    def __init__(self, rows):
        self.number = self.failed = 0
        print(f"1..{rows}", flush=True)

    def row(self, text, problems):
        self.number += 1
        self.failed += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {self.number} - {text}", flush=True)
        for problem in problems:
            print("".join(f"#   {line}\n" for line in problem.splitlines()), end="", flush=True)


def plan(root, drivers_folder, only):
    """entry -> [(driver, world)], and what stands in the way."""
    entries, functions = entry_points(root), core_functions(root)
    public = {name for name, static in functions.items() if not static}
    problems = [f"declared but not defined: {n}" for n in sorted(set(entries) - public)]
    problems += [f"defined but not declared: {n}" for n in sorted(public - set(entries))]
    drivers = find_drivers(drivers_folder)
    problems += [f"driver of no public function: {d.name}" for d in drivers if d.entry not in entries]
    problems += [f"option that is not for precision alone: {d.name}: {word}" for d in drivers for word in d.unknown]
    runs = {}
    for entry in sorted(entries):
        if only and not any(fnmatch.fnmatch(entry, pattern) for pattern in only):
            continue
        worlds = ("quiet", "racing") if entries[entry] else ("quiet",)
        own = [d for d in drivers if d.entry == entry]
        runs[entry] = [(d, w) for d in own for w in worlds if d.variant == "" or w == "quiet"]
        if not any(d.variant == "" for d in own):
            problems.append(f"public function without a driver: {entry}")
    return runs, functions, problems


def run_all(root, drivers_folder, only, jobs, tap_rows=True):
    """Analyses everything; returns the record. Prints one row per entry point as it ends, in order."""
    runs, functions, problems = plan(root, drivers_folder, only)
    exceptions = Exceptions(f"{drivers_folder}/exceptions.toml")
    tap = Tap(len(runs) + (1 if only else 2))
    tap.row("every public function of the core has a driver", problems)
    everything, rows = [], []
    worlds = sorted({w for steps in runs.values() for _, w in steps})
    with tempfile.TemporaryDirectory(prefix="nxmem-eva-") as folder, \
            concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        parses = [(w, a) for w in worlds for a in (False, True)]
        for (world, _), said in zip(parses, pool.map(lambda p: parse(root, drivers_folder, p[0], p[1], folder), parses)):
            if said:
                raise RuntimeError(f"frama-c could not parse the {world} world: {said}")
        waiting = {entry: [pool.submit(analyse, d, w, annotated, folder)
                           for d, w in steps for annotated in (False, True)] for entry, steps in runs.items()}
        for entry, futures in waiting.items():
            analyses = [future.result() for future in futures]
            found, reached = judge(entry, analyses, exceptions)
            everything += analyses
            share = ", ".join(f"{w} {100 * got // max(total, 1)}%" for w, (got, total) in sorted(reached.items()))
            tap.row(f"{entry}: {len(found)} alarms, {share or '0%'} of statements reached", found)
            rows.append({"name": entry, "seconds": round(sum(a.seconds for a in analyses), 1), "worlds": sorted({a.world for a in analyses}), "alarms": found,
                         "reached": {w: list(pair) for w, pair in reached.items()}})
    if not only:
        missing, _ = check_helpers(functions, everything, exceptions)
        tap.row(f"each of {len(functions)} functions of the core is reached whole", missing + exceptions.problems())
    return rows, tap.failed, sum(len(row["alarms"]) for row in rows)


def write_record(path, root, seconds, rows, failed):
    revision = report_sources.git(root, "describe", "--always", "--dirty") or b""
    record = {"command": [os.path.basename(sys.argv[0])] + sys.argv[1:],
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "revision": revision.decode().strip(), "content": report_sources.content(root, SOURCES),
              "seconds": round(seconds, 1), "failed_rows": failed, "entries": rows}
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="PATTERN", help="entry points whose name matches")
    parser.add_argument("--jobs", type=int, default=2, help="analyses at a time")
    parser.add_argument("--json", metavar="FILE", help="write a record (default for a whole run: build/records/eva.json)")
    parser.add_argument("--root", default=ROOT, help="project whose abi/ is analysed")
    parser.add_argument("--drivers", default=HERE, metavar="FOLDER", help="drivers to use")
    parser.add_argument("--self-test", action="store_true", help="damaged copies of the core: each must give a red row")
    return parser.parse_args()


def main():
    args = parse_arguments()
    if args.self_test:
        import self_test
        return self_test.main(args.root, args.jobs)
    started = time.monotonic()
    root = os.path.abspath(args.root)
    try:
        rows, failed, alarms = run_all(root, os.path.abspath(args.drivers), args.only, args.jobs)
    except (OSError, RuntimeError, tomllib.TOMLDecodeError) as error:
        print(f"eva: could not run: {error}", file=sys.stderr)
        return 3
    target = args.json or (None if args.only or root != ROOT else f"{ROOT}/build/records/eva.json")
    if target:
        write_record(target, root, time.monotonic() - started, rows, failed)
    print(f"eva: {len(rows)} entry points, {alarms} alarms")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
