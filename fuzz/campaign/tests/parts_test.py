#!/usr/bin/env python3
"""The campaign driver's parts, without an engine: arguments, causes and names, corpora, turns, ends. Prints TAP."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from campaign import cause, cli, corpus, keeper, places, processes, programs, schedule  # noqa: E402
from campaign.tests.tap import same, tell  # noqa: E402

RUN = places.ROOT / "fuzz/run.py"

# arguments, and what is complained about
MISUSES = (
    ([], "needs TARGET SECONDS"), (["table"], "needs TARGET SECONDS"), (["table", "1", "2"], "needs TARGET SECONDS"),
    (["nothing", "1"], "no target 'nothing'"), (["table", "x"], "'x' is no number"), (["table", "0"], "'0' is no number"),
    (["table", "1", "--engine", "none"], "no engine 'none'"), (["table", "1", "--engine", "contract"], "target core"),
    (["table", "1", "--engine"], "expected one argument"), (["table", "1", "--jobs", "0"], "'0' is no number"),
    (["table", "1", "--jobs", "-2"], "no number from 1"), (["--all"], "expected one argument"),
    (["--all", "9", "table"], "takes no target"), (["--all", "1.5"], "'1.5' is no number"),
    (["table", "1", "--nothing"], "unrecognized"), (["table", "1", "--json", "/nowhere/x"], "no folder /nowhere"),
    (["table", "1", "--machine", "a/b"], "no name for a machine"), (["table", "1", "--alone", "x"], "'x' is no number"),
)


def run(words, **more):
    return subprocess.run([sys.executable, str(RUN), *words], capture_output=True, text=True, check=False, **more)


def argument_rows():
    for words, complaint in MISUSES:
        done = run(words)
        yield f"arguments: {' '.join(words) or 'none'}", same(done.returncode, 2) + (
            [] if complaint in done.stderr and not done.stdout else [done.stdout + done.stderr])
    done = run(["--help"])
    missing = [word for word in ("--engine", "--jobs", "--sync", "--json", "--planted", "Exit code:", "fuzz/found/")
               if word not in done.stdout]
    yield "arguments: --help says what there is", same(done.returncode, 0) + [f"nothing about {w}" for w in missing]
    done = run(["table", "1"], env={**os.environ, "PATH": str(pathlib.Path(sys.executable).parent / "nothing")})
    yield "arguments: without a compiler nothing is skipped", same(done.returncode, 3) + (
        [] if "clang is not installed" in done.stderr else [done.stderr])
    done = run(["table", "1", "--sync", "/dev/null/x"])
    yield "arguments: a folder of --sync that cannot be used is told before anything is built", same(
        [done.returncode, done.stdout, "fuzz: --sync: " in done.stderr], [3, "", True])


# ---- Causes --------------------------------------------------------------------------------------------------------

def failure(text, code=-6, timed_out=False):
    return cause.cause_of(processes.Result(code, text, timed_out))


def frames(*where):
    return "".join(f"    #{n} 0x{4096 + n:x} in {function} {places.ROOT}/{file}:{10 + n}:3\n"
                   for n, (function, file) in enumerate(where))


ORACLE = "ORACLE books: charged 0x10 of 3, expected 0x20\n==1==ERROR: AddressSanitizer: ABRT on unknown address 0x1\n"
DEEP = (("fuzz_fail", "fuzz/support/harness.c"), ("life_check", "fuzz/life/check.c"), ("step", "fuzz/life/life.c"))
OVERFLOW = "==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602 at pc 0x1\nREAD of size 1\n"
READ = (("nx_read", "abi/src/prefix.c"), ("nx_open", "host/src/open.c"), ("one", "fuzz/life/open.c"))
FREED = "\nfreed by thread T0 here:\n" + frames(("nx_free", "host/src/free.c"))
UNDEFINED = f"{places.ROOT}/abi/src/a.c:3:9: runtime error: shift exponent 70 is too large\n"
TIMEOUT = "==3== ERROR: libFuzzer: timeout after 60 seconds\n"

# two runs, and whether they have one cause
PAIRS = (
    ("the same line with other numbers", ORACLE + frames(*DEEP), ORACLE.replace("0x10", "0x77") + frames(*DEEP), True),
    ("another line", ORACLE, ORACLE.replace("charged", "queued"), False),
    ("an oracle that fires from elsewhere in the harness", ORACLE + frames(*DEEP), ORACLE + frames(*DEEP[:2]), True),
    ("one fault at other addresses and rows", OVERFLOW + frames(*READ),
     OVERFLOW.replace("0x602", "0x603") + frames(*READ).replace(":10:", ":11:"), True),
    ("one fault in another function", OVERFLOW + frames(*READ),
     OVERFLOW + frames(("nx_other", "abi/src/prefix.c"), *READ[1:]), False),
    ("one place, another fault", OVERFLOW + frames(*READ), OVERFLOW.replace("heap-buffer-overflow", "SEGV") + frames(*READ),
     False),
    ("one fault, reached by another operation of the harness", OVERFLOW + frames(*READ[:2]),
     OVERFLOW + frames(*READ), True),
    ("one fault, freed elsewhere", OVERFLOW + frames(*READ), OVERFLOW + frames(*READ) + FREED, True),
    ("undefined behaviour in two functions", UNDEFINED + frames(("f", "abi/src/a.c")),
     UNDEFINED + frames(("g", "abi/src/a.c")), False),
    ("a loop seen at two places", TIMEOUT + frames(("deep", "abi/src/a.c"), *READ), TIMEOUT + frames(*READ), True),
)

# a run, and what it is called up to the key
NAMES = (
    (ORACLE + frames(*DEEP), "lifecycle-oracle-books-charged-of-expected-"),
    (OVERFLOW + frames(*READ), "lifecycle-address-heap-buffer-overflow-in-nx-read-"),
    (UNDEFINED + frames(("f", "abi/src/a.c")), "lifecycle-undefined-shift-exponent-is-too-large-in-f-"),
    (TIMEOUT + frames(*READ), "lifecycle-timeout-timeout-in-nx-open-"),
    ("==9== ERROR: libFuzzer: out-of-memory (used: 2049Mb; limit: 2048Mb)\n", "lifecycle-memory-out-of-memory-"),
    ("==9==ERROR: LeakSan: detected memory leaks\n\nDirect leak:\n" + frames(("malloc", "x"), ("nx_new", "host/src/n.c")),
     "lifecycle-leak-detected-memory-leaks-in-nx-new-"),
    ("nothing", "lifecycle-ended-signal-"),
)


def cause_rows():
    for name, one, other, alike in PAIRS:
        yield f"causes: {name}", same(failure(one).key == failure(other).key, alike)
    yield "causes: no end, where nothing was said", same(failure("", -9, True).kind, "timeout")
    for text, start in NAMES:
        name = failure(text.replace("LeakSan:", "Leak" + "Sanitizer:")).name("lifecycle")
        yield f"names: {start}", [] if re.fullmatch(re.escape(start) + "[0-9a-f]{8}", name) else [name]


# ---- Corpora -------------------------------------------------------------------------------------------------------

def names(folder):
    return {path.name for path in places.inputs_in(folder)}


def corpus_rows():
    with tempfile.TemporaryDirectory() as base:
        base = pathlib.Path(base)
        here, there = (corpus.Corpus(places.Places(base / name), "table") for name in ("here", "there"))
        one, two = places.content_name(b"one"), places.content_name(b"two")
        yield "corpus: the same bytes count once, the longest inputs never", same(
            [here.add(b"one"), here.add(b"one"), here.add(b""), here.add(bytes(341))], [1, 0, 0, 0])
        there.add(b"two")
        yield "corpus: what engines begin with is the repository's and ours", same(
            {one} <= names(here.stage(base / "start")) and len(names(base / "start")) > 60, True)
        taken = [here.exchange(base / "sync", "a"), there.exchange(base / "sync", "b"), here.exchange(base / "sync", "a"),
                 there.exchange(base / "sync", "b")]
        yield "sync: each machine takes what the others found, once", same(taken, [0, 1, 1, 0])
        yield "sync: afterwards both have both", same([names(here.folder), names(there.folder)], [{one, two}] * 2)
        yield "sync: each machine's folder holds what it found itself", same(
            [names(base / "sync/table/a"), names(base / "sync/table/b")], [{one}, {two}])
        here.drop(two)
        yield "sync: what was found superfluous does not come back", same(
            [here.exchange(base / "sync", "a"), names(here.folder)], [0, {one}])
        here.drop(one)
        here.exchange(base / "sync", "a")
        yield "sync: a machine's folder shrinks with its corpus", same(names(base / "sync/table/a"), set())


# ---- Files ---------------------------------------------------------------------------------------------------------

def file_rows():
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder)
        (base / "taken/x").mkdir(parents=True)
        failed = False
        try:
            with corpus.whole(base / "taken") as beside:
                beside.write_bytes(b"half")
        except OSError:
            failed = True
        yield "files: of one that cannot be written nothing stays", same([failed, os.listdir(base)], [True, ["taken"]])
        said, log = [], base / "log"
        log.write_text("[1/9] a\n[2/9] b\nnot a step\n")
        progress = programs.Progress("asan", said.append)
        progress(log)
        progress.next = 0
        progress(log)
        yield "files: a long build says how far it is, once in a while", same(said, ["  asan: building for 0 s, 2 of 9 steps"])


# ---- Turns ---------------------------------------------------------------------------------------------------------

def simulated(plan, seconds):
    """Runs the plan with slices of exactly their length; returns job seconds by unit and whether a unit ran twice."""
    given, lanes, now = dict.fromkeys(plan.given, 0.0), {}, 0.0
    while now < seconds:
        for at, lane in enumerate(plan.lanes):
            unit = None if at in lanes else plan.next(lane)
            if unit is not None:
                lanes[at] = unit
        if len(set(lanes.values())) != len(lanes):
            return given, True
        for at, unit in lanes.items():
            given[unit] += plan.slice_seconds * plan.lanes[at].jobs
            plan.done(unit, plan.slice_seconds * plan.lanes[at].jobs)
        lanes, now = {}, now + plan.slice_seconds
    return given, False


def away_from_its_share(given):
    """Units whose part of the job seconds is a tenth away from their part of the shares."""
    shares = sum(places.share(unit.target) for unit in given)
    parts = {unit: seconds / sum(given.values()) * shares / places.share(unit.target) for unit, seconds in given.items()}
    return [f"{unit}: {part:.2f} of its share" for unit, part in parts.items() if not 0.9 <= part <= 1.1]


def schedule_rows():
    targets = places.targets()
    for seconds, jobs in ((60, 1), (600, 2), (3600, 2), (3600, 16), (28800, 100)):
        plan = schedule.for_all(targets, places.ENGINES, seconds, jobs)
        given, twice = simulated(plan, seconds)
        starved = [str(unit) for unit, time_ in given.items() if time_ == 0]
        used = sum(lane.jobs for lane in plan.lanes)
        yield f"turns: {seconds} s on {jobs}: every target on every engine, no job idle", same(
            [starved, twice, used], [[], False, jobs])
    for jobs in (100, 200):
        given, _ = simulated(schedule.for_all(targets, places.ENGINES, 28800, jobs), 28800)
        yield f"turns: a night on {jobs}: each target gets its share", away_from_its_share(given)
    life, table = schedule.Unit("lifecycle", "libfuzzer"), schedule.Unit("table", "libfuzzer")
    yield "turns: in a long campaign a target of many states gets more", same(given[life] > 2 * given[table], True)
    plan = schedule.for_target("core", ("libfuzzer", "afl", "contract"), 600, 8)
    yield "turns: several engines on one target share its jobs", same([lane.jobs for lane in plan.lanes], [3, 3, 2])
    plan = schedule.for_target("core", ("libfuzzer", "afl"), 600, 1)
    yield "turns: two engines on one job follow each other", same(
        [len(plan.lanes), plan.slice_seconds, not [t for t in simulated(plan, 600)[0].values() if t == 0]], [1, 300, True])


# ---- Engines that fail ---------------------------------------------------------------------------------------------

BROKEN = """
import errno, pathlib, shutil, sys
sys.path.insert(0, {fuzz!r})
from campaign import campaign, cli, crew, keeper, processes
class Engine(crew.Crew):
    def presets(self): return ()
    def build(self): pass
    def replayer(self): return "true"
    def launch(self, job): self.running.append(self.processes.start(["sleep", "600"], self.log / "job"))
    def measure_edges(self): return 1
    def collect(self): pass
class Good(Engine):
    engine = "libfuzzer"
    def poll(self): self.counter(0).write_bytes(bytes([9, 0, 0, 0, 0, 0, 0, 0]))
class Bad(Engine):
    engine = "afl"
    def poll(self): raise processes.CouldNotRun("out of shared memory")
class Full(Engine):
    engine = "afl"
    def poll(self): self.counter(0).write_bytes(bytes([9, 0, 0, 0, 0, 0, 0, 0]))
    def collect(self): raise OSError(errno.ENOSPC, "No space left on device")
class Unshared(Good):
    def collect(self):
        shared = pathlib.Path({build!r}, "shared/corpus")
        shutil.rmtree(shared)
        shared.write_text("no folder any more")
campaign.CREWS = {{"libfuzzer": {first}, "afl": {second}}}
sys.exit(keeper.guarded(lambda: cli.driver(["table", "4", "--engine", "libfuzzer,afl", "--jobs", "2", "--build", {build!r},
                                            "--sync", {build!r} + "/shared"])))
"""


def broken(first, second):
    with tempfile.TemporaryDirectory() as folder:
        text = BROKEN.format(fuzz=str(places.ROOT / "fuzz"), build=folder, first=first, second=second)
        return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)


def failing_rows():
    done = broken("Good", "Bad")
    yield "engines: one that fails does not end the others, and is told", same(
        [done.returncode, "table/afl could not run: out of shared memory" in done.stdout,
         re.search("table/afl could not run, [123] times", done.stdout) is not None,
         done.stdout.splitlines()[-1].startswith("fuzz table: 9 execs")], [3, True, True, True]) and [
             done.stdout + done.stderr]
    done = broken("Good", "Full")
    yield "engines: one whose disk is full does not end the others, and is told", same(
        [done.returncode, "table/afl could not run: [Errno 28]" in done.stdout,
         done.stdout.splitlines()[-1].startswith("fuzz table: 18 execs")], [3, True, True]) and [done.stdout + done.stderr]
    done = broken("Unshared", "Good")
    yield "engines: a common folder that goes away does not end the campaign, and is told", same(
        [done.returncode, done.stdout.count("  table is not shared with other machines: "),
         done.stdout.splitlines()[-1].startswith("fuzz table: 18 execs")], [3, 1, True]) and [done.stdout + done.stderr]


# Engines that never come to their first input, and one whose every input fails: what --all makes of it.
TURNS = """
import struct, sys
sys.path.insert(0, {fuzz!r})
from campaign import campaign, cli, crew, keeper, places, processes
campaign.PATIENCE = 0
places.ENGINES = ("libfuzzer",)
places.targets = lambda: {targets!r}
class Engine(crew.Crew):
    engine = "libfuzzer"
    def presets(self): return ()
    def build(self): pass
    def replayer(self): return "true"
    def launch(self, job): self.running.append(self.processes.start(["sleep", "600"], self.log / "job"))
    def poll(self):
        if self.target == "table": self.counter(0).write_bytes(struct.pack("Q", 9))
        if self.target == "strings": raise processes.CouldNotRun("the target crashed before its first input")
    def failing(self, batch): return [(path, "crash") for path in batch] if self.target == "strings" else []
    def measure_edges(self): return 1
    def collect(self): pass
    def _failed(self, path, kind): self.keep(kind, path.read_bytes())
campaign.CREWS = {{"libfuzzer": Engine}}
class Judge(campaign.Triage):
    def take(self, raw): self.findings[raw.target] = raw
    def of(self, target): return []
    def count(self, target): return int(target in self.findings)
cli.Triage = Judge
campaign.report.finding_json = str
sys.exit(keeper.guarded(lambda: cli.driver(["--all", {seconds!r}, "--jobs", "1", "--build", {build!r}, "--json", {build!r} + "/json"])))
"""


def turns(*targets):
    with tempfile.TemporaryDirectory() as folder:
        text = TURNS.format(fuzz=str(places.ROOT / "fuzz"), build=folder, targets=list(targets), seconds="6")
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
        path = pathlib.Path(folder, "json")
        never = json.loads(path.read_text())["never_ran"] if path.exists() else None
        return done, never


def turn_rows():
    for name, targets, code, never in (
            ("each target that ran", ("table",), 0, []),
            ("one that never ran is named, and no success", ("table", "status"), 3, ["status"]),
            ("one that fails before its first input is a finding", ("strings",), 1, ["strings"])):
        done, found = turns(*targets)
        last = done.stdout.splitlines()[-1] if done.stdout else ""
        said = last.split(", never ran: ")[1].split(", ") if ", never ran: " in last else []
        yield f"turns: {name}", same([done.returncode, found, said], [code, never, never]) and [done.stdout + done.stderr]


# ---- Ends ----------------------------------------------------------------------------------------------------------

# A program that leaves a session of its own behind, standing still, as AFL++'s targets do between two inputs.
LEAVES = "import os,signal,sys,time\nif os.fork() == 0:\n  os.setsid()\n  os.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(600)"
DRIVER = """
import sys, time
sys.path.insert(0, {fuzz!r})
from campaign import keeper, processes
def main():
    jobs = processes.Processes()
    jobs.start([sys.executable, "-c", {leaves!r}, {mark!r}], "/dev/null")
    open({mark!r}, "w").close()
    while not jobs.interrupted: time.sleep(0.05)
    return 1
sys.exit(keeper.guarded(main))
"""


def marked(mark):
    """Processes whose words name the mark."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(name))
        except OSError:
            continue
    return found


def wait_for(condition):
    """Waits as long as it takes: the test's own limit ends what never comes."""
    while not condition():
        time.sleep(0.05)


def keeper_rows():
    ways = (("asked by SIGINT", lambda keeper_, driver: os.kill(keeper_, signal.SIGINT), 1),
            ("asked by SIGTERM", lambda keeper_, driver: os.kill(keeper_, signal.SIGTERM), 1),
            ("the driver killed", lambda keeper_, driver: os.kill(driver, signal.SIGKILL), 137),
            ("the keeper killed", lambda keeper_, driver: os.kill(keeper_, signal.SIGKILL), -9))
    for name, way, code in ways:
        with tempfile.TemporaryDirectory() as folder:
            mark = f"{folder}/mark"
            text = DRIVER.format(fuzz=str(places.ROOT / "fuzz"), leaves=LEAVES, mark=mark)
            process = subprocess.Popen([sys.executable, "-c", text])
            wait_for(lambda: len(marked(mark)) == 4)  # keeper, driver, program, what it left
            driver = next(p for p in keeper.descendants(process.pid))
            way(process.pid, driver)
            found = process.wait()
            if code == -9:
                wait_for(lambda: len([p for p in marked(mark) if p != driver]) <= 1)
                keeper.end(marked(mark), signal.SIGKILL)
                yield f"ends: {name}: what was started directly is gone", same(found, code)
                continue
            left = marked(mark)
            keeper.end(left, signal.SIGKILL)
            yield f"ends: {name}: nothing is left running", same([found, left], [code, []])


def rows():
    yield from argument_rows()
    yield from cause_rows()
    yield from corpus_rows()
    yield from file_rows()
    yield from schedule_rows()
    yield from failing_rows()
    yield from turn_rows()
    yield from keeper_rows()


if __name__ == "__main__":
    sys.exit(tell(rows()))
