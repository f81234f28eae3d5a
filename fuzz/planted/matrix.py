#!/usr/bin/env python3
"""Is the harness any good? Plants faults into a copy of the product, one at a time, and asks every layer whether it sees it.

    matrix.py [FAULT…] [--layers proof,unit,contract,libfuzzer,afl | fuzz] [--budget S] [--tries N] [--jobs N] [--json FILE]

A row a fault: which layer sees it; of the fuzzers, the median of the processor seconds to detection over several seeds, and
how far the best run came by the fault's canary: reached its place, triggered it there, detected. A fuzzer tries the fault's
main target and, where that misses it, the others whose program has the faulty file in it (--targets all: all of these).
Each target also runs on the unchanged product, and has to stay silent. Faults: fuzz/planted/faults*.ini.

The record grows with every answer; a run that was interrupted goes on, and what was changed since is asked anew.
Last line: "planted: N faults, F by a fuzz target within S s, L by some layer, U by none".
Exit codes: 0 fine; 1 below 95 % by a fuzz target, a fault that no layer sees, or an alarm on the unchanged product; 2 usage;
3 could not run, or a layer could not be asked.
"""
import argparse
import concurrent.futures
import fcntl
import hashlib
import os
import queue
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import apply as faults_of  # noqa: E402
import layers as layers_of  # noqa: E402
import oracles  # noqa: E402
import record as records  # noqa: E402
from hunt import CouldNotRun, Stopped, stopping  # noqa: E402

ROOT = layers_of.ROOT
FUZZERS = ("libfuzzer", "afl")
LAYERS = ("proof", "unit", "contract", *FUZZERS)
FUZZ_SHARE = 0.95

# What an answer depends on beside the fault itself.
JUDGED = {
    "fuzzer": ("abi", "host/src", "host/include", "host/cli", "host/policy", "plugins/vmm", "fuzz/targets", "fuzz/oracle", "fuzz/support", "fuzz/mains",
               "fuzz/life", "fuzz/owners", "fuzz/vmm", "fuzz/mutator", "fuzz/seeds", "fuzz/corpus", "fuzz/found", "fuzz/dict"),
    "contract": ("abi", "fuzz/contract", "fuzz/targets", "fuzz/support", "fuzz/oracle", "fuzz/seeds/core", "fuzz/corpus/core"),
    "unit": ("abi", "host", "plugins", "tests/core", "tests/host", "tests/registry", "tests/manager", "tests/plugins", "tests/vmm", "tests/policy", "tests/cli", "tests/cuda"),
    "proof": ("abi", "proofs/targets.toml", "proofs/loads.h", "proofs/assumptions", "proofs/units"),
}


def hash_of(root, names):
    """Of paths and bytes."""
    digest, paths = hashlib.sha256(), []
    for name in names:
        full = f"{root}/{name}"
        paths += [full] if os.path.isfile(full) else [f"{folder}/{file}" for folder, _, files in os.walk(full) for file in files]
    for path in sorted(paths):
        if not path.endswith((".pyc", ".md")):
            with open(path, "rb") as file:
                digest.update(os.path.relpath(path, root).encode() + b"\0" + hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def say(options, text):
    print(f"# {text}" if options.tap else text, flush=True)


class Campaign:
    """All copies, all layers asked for, and what they have answered so far."""

    def __init__(self, options, faults):
        self.options, self.faults = options, faults
        makers = {"proof": layers_of.Proof, "unit": layers_of.Unit, "contract": layers_of.Contract}
        self.layers = [makers[name](options) if name in makers else layers_of.Fuzzer(name, options) for name in options.layers]
        states = {kind: hash_of(options.root, names) for kind, names in JUDGED.items()}
        self.states = {layer.name: states["fuzzer" if layer.name in FUZZERS else layer.name] for layer in self.layers}
        self.record = records.Record(options.json, options.fresh)
        self.copies, self.guard, self.done, self.total = queue.Queue(), threading.Lock(), 0, 0

    def key(self, layer, *more):
        return hashlib.sha256(repr((layer.name, self.states[layer.name], layer.settings, *more)).encode()).hexdigest()[:16]

    def key_of(self, layer, fault):
        return self.key(layer, sorted(dict(fault).items()))

    def jobs(self):
        """(name, what is asked, layers still to ask): the faults, then the unchanged product, a job for each target."""
        open_jobs = []
        for fault in self.faults:
            waiting = [layer for layer in self.layers if layers_of.applies(layer.name, fault["file"])
                       and not self.record.has("faults", fault.name, layer.name, self.key_of(layer, fault))]
            open_jobs += [(fault.name, fault, waiting)] if waiting else []
        for target in sorted({fault["target"] for fault in self.faults}):
            waiting = [layer for layer in self.layers if layer.name in FUZZERS
                       and not self.record.has("unchanged", target, layer.name, self.key(layer, target))]
            open_jobs += [(target, None, waiting)] if waiting else []
        return open_jobs

    def make_copies(self, count, needed):
        def make(number):
            copy = layers_of.Copy(self.options.root, f"{self.options.place}/{number}")
            for layer in needed:
                layer.prepare(copy)
            return copy

        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            for copy in pool.map(make, range(count)):
                self.copies.put(copy)

    def run(self):
        jobs = self.jobs()
        self.total = len(jobs)
        say(self.options, f"planted: {len(self.faults)} faults, layers {', '.join(layer.name for layer in self.layers)}; "
            f"{self.total} rows to ask, the others stand in {self.record.path}")
        if not jobs:
            return
        needed = [layer for layer in self.layers if any(layer in waiting for _, _, waiting in jobs)]
        count = max(1, min(self.options.jobs, len(jobs)))
        say(self.options, f"planted: making {count} copies and their builds")
        self.make_copies(count, needed)
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            tasks = [pool.submit(self.row, *job) for job in jobs]
            try:
                for task in concurrent.futures.as_completed(tasks):
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()

    def row(self, name, fault, waiting):
        copy, answers = self.copies.get(), {}
        try:
            if stopping.is_set():
                raise Stopped
            for layer in waiting:
                answers[layer.name] = self.ask(copy, layer, name, fault)
                with self.guard:
                    self.record.put("faults" if fault else "unchanged", name, layer.name, answers[layer.name], fault)
        finally:
            self.copies.put(copy)
        with self.guard:
            self.done += 1
            say(self.options, f"[{self.done}/{self.total}] {name if fault else 'unchanged, ' + name}: " +
                "; ".join(f"{layer} {records.in_words(answer)}" for layer, answer in answers.items()))

    def ask(self, copy, layer, name, fault):
        started = time.monotonic()
        try:
            answer = self.ask_of_fault(copy, layer, fault) if fault else layer.unchanged(copy, name)
        except CouldNotRun as problem:
            answer = {"seen": False, "by": "", "seconds": None, "not_asked": str(problem)}
        key = self.key_of(layer, fault) if fault else self.key(layer, name)
        return {**answer, "key": key, "wall_seconds": round(time.monotonic() - started, 1)}

    def ask_of_fault(self, copy, layer, fault):
        path = f"{copy.source}/{fault['file']}"
        with open(path, encoding="utf-8") as file:
            unchanged = file.read()
        wrong = faults_of.wrong_place(fault, copy.source)
        if wrong:
            raise CouldNotRun(wrong)
        copy.plant({fault["file"]: faults_of.planted(unchanged, fault, layer.canary)})
        try:
            return layer.judge(copy, Planted(fault, unchanged))
        finally:
            copy.plant({fault["file"]: unchanged})


class Planted:
    """A fault as its section says, and the file as it was before."""

    def __init__(self, section, unchanged):
        self.name, self.section, self.unchanged_text = section.name, section, unchanged

    def __getitem__(self, key):
        return self.unchanged_text if key == "unchanged" else self.section[key]

    def get(self, key):
        return self.section.get(key)


def lock(place):
    os.makedirs(place, exist_ok=True)
    file = open(f"{place}/lock", "w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise CouldNotRun(f"another run is at work in {place}") from error
    return file


def chosen(options):
    every = faults_of.read_all() if options.faults else faults_of.read_faults(("alarms*.ini" if options.alarms else "faults*.ini",))
    unknown = [name for name in options.faults if name not in every]
    if unknown:
        raise ValueError(f"no fault named {', '.join(unknown)}; --list shows what there is")
    return [every[name] for name in every.sections()
            if (not options.faults or name in options.faults) and (not options.target or every[name]["target"] == options.target)]


def layers_named(text):
    names = [name for word in text.split(",") for name in (FUZZERS if word == "fuzz" else LAYERS if word == "all" else (word,))]
    unknown = [name for name in names if name not in LAYERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no layer {', '.join(unknown)}; there are: {', '.join(LAYERS)}, fuzz, all")
    return [name for name in LAYERS if name in names]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="these faults (all)")
    parser.add_argument("--target", help="the faults whose main target is this one")
    parser.add_argument("--layers", type=layers_named, default=list(LAYERS), help="asked, in this order: proof, unit, contract, libfuzzer, afl; fuzz: the last two (all)")
    parser.add_argument("--budget", type=float, default=60, metavar="S", help="processor seconds of a run (60)")
    parser.add_argument("--tries", type=int, default=5, metavar="N", help="runs of libFuzzer, each with a seed of its own (5)")
    parser.add_argument("--afl-tries", type=int, metavar="N", help="runs of AFL++, which takes several seconds to start (as --tries)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first of those seeds (1)")
    parser.add_argument("--bare", action="store_true", help="the fuzzers begin with nothing but their dictionaries")
    parser.add_argument("--targets", choices=("needed", "all"), default="needed", help="needed: the main target, others where it misses; all: each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="faults at a time, each in a copy of its own (processors)")
    parser.add_argument("--json", metavar="FILE", help="the record (build/records/planted.json, of --bare and --alarms planted_bare.json, planted_alarms.json); a table of it is written beside, .md")
    parser.add_argument("--fresh", action="store_true", help="ask everything anew")
    parser.add_argument("--alarms", action="store_true", help="the faults of alarms*.ini instead, one for each place in the harness that speaks")
    parser.add_argument("--tap", action="store_true", help="end with TAP, a row for each fault and for each target on the unchanged product")
    parser.add_argument("--list", action="store_true", help="show the faults and end")
    parser.add_argument("--show", action="store_true", help="show what the record says and end")
    parser.add_argument("--oracles", action="store_true", help="show which fault has made which oracle speak, by the record, and end")
    parser.add_argument("--place", metavar="FOLDER", help="where the copies and their builds are kept (build/planted)")
    parser.add_argument("--root", default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.budget <= 0 or options.tries < 1 or options.jobs < 1 or (options.afl_tries or 1) < 1:
        parser.error("--budget, --tries and --jobs are at least 1")
    options.root = os.path.abspath(options.root)
    options.place = os.path.abspath(options.place or f"{options.root}/build/planted")
    options.json = os.path.abspath(options.json or f"{options.root}/build/records/planted{'_alarms' if options.alarms else '_bare' if options.bare else ''}.json")
    options.afl_tries = options.afl_tries or options.tries
    options.every_target = sorted(name[:-2] for name in os.listdir(f"{options.root}/fuzz/targets") if name.endswith(".c"))
    return options


def judge(options, faults, record):
    """Prints the rows and the closing line; the exit code."""
    summary = record.summary(faults, options.layers, options.budget)
    print(record.tap(faults, options.layers) if options.tap else record.text(faults, options.layers))
    for line in summary["problems"]:
        say(options, line)
    say(options, f"planted: {summary['faults']} faults, {summary['fuzz']} by a fuzz target within {options.budget:g} s, "
        f"{summary['some']} by some layer, {summary['none']} by none")
    if summary["not_asked"]:
        return 3
    asked_fuzz = any(name in FUZZERS for name in options.layers)
    too_few = asked_fuzz and summary["fuzz"] < FUZZ_SHARE * summary["faults"]
    return int(bool(too_few or summary["false_alarms"] or (options.layers == list(LAYERS) and summary["none"])))


def main():
    options = parse()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    try:
        faults = chosen(options)
        if options.list:
            for fault in faults:
                print(f"{fault.name} {fault['target']} {fault['file']}")
            return 0
        if options.oracles:
            return oracles.show(options.root, [records.Record(options.json.replace(".json", end), False) for end in (".json", "_alarms.json", "_together.json")])
        if options.show:
            return judge(options, faults, records.Record(options.json, False))
        held = lock(options.place)
        options.files = sorted({fault["file"] for fault in faults})
        campaign = Campaign(options, faults)
        campaign.run()
        held.close()
        campaign.record.write_table(campaign.faults, options)
        return judge(options, faults, campaign.record)
    except Stopped:
        print(f"planted: interrupted; what was answered stands in {options.json}", file=sys.stderr)
        return 3
    except ValueError as problem:
        print(f"planted: {problem}", file=sys.stderr)
        return 2
    except (CouldNotRun, layers_of.defences_tree.CannotRun, OSError) as problem:
        print(f"planted: {problem}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
