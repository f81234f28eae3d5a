#!/usr/bin/env python3
"""What triage makes of inputs, with programs of its own in place of the targets'. Prints TAP."""
import contextlib
import pathlib
import subprocess
import sys
import tempfile
import tomllib

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from campaign import places, processes, shrink, triage  # noqa: E402
from campaign.tests.tap import same, tell  # noqa: E402

# Fails for every input: for another cause once the 7 is gone, or its neighbours are too many. What it is asked to make
# small, it makes so small that it fails for that other cause, as a minimiser does that takes any failure.
ORACLE = """#!/bin/sh
for word; do
  case $word in -exact_artifact_path=*) printf x >"${word#*=}"; exit 0;; esac
done
if grep -q 7 "$word"; then echo "ORACLE books: charged 1 of 3" >&2; else echo "ORACLE books: queued" >&2; fi
exit 1
"""
FINE = "#!/bin/sh\nexit 0\n"
SIGNAL = "#!/bin/sh\nkill -SEGV $$\n"


class Programs:
    """Presets and what their programs do."""

    def __init__(self, folder, texts):
        self.folder, self.texts = folder, texts

    def program(self, preset, target):
        path = self.folder / f"{preset}-{target}"
        path.write_text(self.texts[preset])
        path.chmod(0o700)
        return path


class Places(places.Places):
    def found(self, target):  # pylint: disable=arguments-differ
        return places.ROOT / "build" / self.build.name / target


@contextlib.contextmanager
def judged(engine, data, jobs, **texts):
    """The finding that becomes of an input; its note."""
    (places.ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=places.ROOT / "build") as name:
        folder = pathlib.Path(name)
        judge = triage.Triage(Places(folder), jobs, Programs(folder, texts), lambda words: None, 60)
        finding = judge.take(triage.Raw("table", engine, "crash", data))
        yield finding, tomllib.loads(finding.path.with_suffix(".toml").read_text())


def shrink_rows():
    for name, data, needed in (("one byte", b"." * 64 + b"7" + b"." * 64, b"7"), ("the first", b"7" + b"." * 99, b"7"),
                               ("the last", b"." * 100 + b"7", b"7"), ("two far apart", b"7" + b"." * 97 + b"8..", b"78"),
                               ("all of it", b"789", b"789"), ("nothing more than a byte", b"7", b"7")):
        def alike(less, needed=needed):
            return [byte for byte in less if byte in needed] == list(needed)
        yield f"small: {name}", same(shrink.smaller(data, alike, lambda: True), needed)
    asked = []
    yield "small: an end that is asked for is one", same(
        [shrink.smaller(b"7" * 64, lambda less: asked.append(less) or True, lambda: len(asked) < 2), len(asked)], [b"7" * 16, 2])


def triage_rows():
    jobs = processes.Processes()
    data = b"." * 64 + b"7" + b"." * 64
    with judged("libfuzzer", data, jobs, asan=ORACLE, libfuzzer=ORACLE) as (finding, note):
        yield "triage: a minimiser that comes to another cause is not the end", same(
            [finding.data, note["line"], note["bytes"], note["bytes_as_found"]], [b"7", "books: charged 1 of 3", 1, 129])
    with judged("afl", data, jobs, asan=FINE, libfuzzer=FINE, dev=SIGNAL, afl=SIGNAL) as (finding, note):
        yield "triage: what only a plain program shows is made small, and the note says which does", same(
            [finding.by, len(finding.data), note["preset"], "build/dev/bin/fuzz_table --in-process" in note["again"]],
            ["dev", 1, "dev", True])
    with judged("afl", data, jobs, asan=FINE, libfuzzer=FINE, dev=FINE, afl=SIGNAL) as (finding, note):
        yield "triage: what only AFL++'s program shows too", same([len(finding.data), note["preset"]], [1, "afl"])


# ---- Time ----------------------------------------------------------------------------------------------------------

# One engine ends at once with something that failed; its judgement takes until the campaign of 4 s is long over, and says
# how many programs run then. The other's would run for minutes.
LONG_JUDGEMENT = """
import os, sys, time
sys.path.insert(0, {fuzz!r})
from campaign import campaign, cli, crew, keeper
class Engine(crew.Crew):
    def presets(self): return ()
    def build(self): pass
    def replayer(self): return "true"
    def launch(self, job): self.running.append(self.processes.start(["sleep", "600"], self.log / "job"))
    def poll(self): self.counter(0).write_bytes(bytes([9, 0, 0, 0, 0, 0, 0, 0]))
    def measure_edges(self): return 1
    def collect(self): pass
class Failing(Engine):
    engine = "libfuzzer"
    def launch(self, job): self.running.append(self.processes.start(["true"], self.log / "job"))
    def poll(self):
        super().poll()
        self.keep("crash", b"7")
        self.running = []
class Steady(Engine):
    engine = "afl"
campaign.CREWS = {{"libfuzzer": Failing, "afl": Steady}}
class Judge(campaign.Triage):
    judged = 0
    def take(self, raw):
        until = time.monotonic() + 12
        while time.monotonic() < until: self.processes.pause()
        self.judged = 1
        print("running on:", len(keeper.descendants(os.getpid())), flush=True)
    def of(self, target): return []
    def count(self, target): return self.judged
cli.Triage = Judge
sys.exit(keeper.guarded(lambda: cli.driver(["table", "4", "--engine", "libfuzzer,afl", "--jobs", "2", "--build", {build!r}])))
"""


def time_rows():
    with tempfile.TemporaryDirectory() as folder:
        text = LONG_JUDGEMENT.format(fuzz=str(places.ROOT / "fuzz"), build=folder)
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    words = [done.stdout + done.stderr]
    yield "time: an engine whose time is over ends, whatever is judged meanwhile", same(
        "running on: 0\n" in done.stdout, True) and words
    yield "time: what is not judged yet is no finding", same(
        ["0 findings, 1 to be judged" in done.stdout, done.stdout.splitlines()[-1].endswith(" 1 findings"), done.returncode],
        [True, True, 1]) and words


def rows():
    yield from shrink_rows()
    yield from triage_rows()
    yield from time_rows()


if __name__ == "__main__":
    sys.exit(tell(rows()))
