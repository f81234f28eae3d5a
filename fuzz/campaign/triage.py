"""What becomes of an input that failed: run again alone, told from the others by its cause, made small, named, kept."""
import dataclasses
import pathlib
import tempfile
import time

from . import programs, stub
from .cause import ORACLES, Cause, cause_of, same
from .corpus import put
from .places import content_name, most_bytes
from .shrink import smaller

MINIMISE = 15  # seconds that libFuzzer may spend on making one small
MINIMISERS = ("replay", "libfuzzer", "contract")  # programs whose failures libFuzzer sees as well
SHRINK = 30  # seconds spent on leaving out pieces


@dataclasses.dataclass(frozen=True)
class Raw:
    """An input that failed, as an engine left it."""
    target: str
    engine: str
    kind: str  # crash, timeout, oom, leak: what the engine called it
    data: bytes


@dataclasses.dataclass
class Finding:
    target: str
    engine: str
    cause: Cause
    by: str  # the program that shows it: replay, libfuzzer, contract, dev, afl
    data: bytes
    bytes_as_found: int
    path: pathlib.Path = None
    times: int = 1
    known: bool = False  # stood in fuzz/found/ before

    @property
    def name(self):
        return self.cause.name(self.target)


class Triage:
    def __init__(self, places, processes, builds, say, alone):
        self.places, self.processes, self.builds, self.say = places, processes, builds, say
        self.alone = alone  # seconds that an input may take by itself
        self.findings = {}  # by target and key
        self.unreproduced = {}  # by target and content: the Raw
        self.seen = {}  # by target and content: the Finding, or None

    # ---- Running one alone ---------------------------------------------------------------------------------------

    def _commands(self, raw, path):
        """The programs that may show it: the one that anybody replays with first. Sanitizers let some faults pass that end a
        plain program, and most of AFL++'s are plain."""
        fuzzer = [f"-timeout={self.alone}", f"-rss_limit_mb={programs.MEMORY}", path]
        if raw.engine == "contract":
            yield "contract", [self.builds.contract(), *fuzzer], None
            return
        yield "replay", [self.builds.program("asan", raw.target), "--in-process", path], None
        yield "libfuzzer", [self.builds.program("libfuzzer", raw.target), *fuzzer], None
        if raw.engine == "afl":
            yield "dev", [self.builds.program("dev", raw.target), "--in-process", path], None
            yield "afl", [self.builds.program("afl", raw.target)], path

    def _run(self, raw, data, quick):
        """Returns, program by program, which it was, and how it failed or None."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "input"
            path.write_bytes(data)
            for by, command, feed in self._commands(raw, path):
                environment = programs.environment(raw.engine == "contract", quick)
                limit = self.alone + (0 if by in ("replay", "dev", "afl") else 30)  # libFuzzer has a limit of its own
                result = self.processes.run(command, limit, environment, cwd=folder, always=True, feed=feed)
                yield by, cause_of(result) if result.code != 0 or result.timed_out else None

    def _alone(self, raw, data, quick=False):
        """Returns the program that shows it and the cause, or None where none does."""
        return next(((by, cause) for by, cause in self._run(raw, data, quick) if cause is not None), None)

    def _at_a_glance(self, raw):
        """The finding whose line says all that tells it from others, where this input fails with the same line. Stacks
        are looked up slowly, and an engine finds one fault again and again."""
        by, cause = next(self._run(raw, raw.data, quick=True))
        for finding in self.of(raw.target) if cause is not None else ():
            if finding.by == by and finding.cause.kind == cause.kind in ORACLES and not finding.cause.telling and (
                    same(finding.cause.line) == same(cause.line)):
                return finding
        return None

    # ---- One after the other -------------------------------------------------------------------------------------

    def take(self, raw):
        """Returns the finding, new or not; None where the input fails no more."""
        place = (raw.target, content_name(raw.data))
        if place not in self.seen:
            self.seen[place] = self._judge(raw)
        elif self.seen[place]:
            self.seen[place].times += 1
        return self.seen[place]

    def _judge(self, raw):
        again = self._at_a_glance(raw) if self.of(raw.target) else None
        shown = self._alone(raw, raw.data) if again is None else (again.by, again.cause)
        if shown is None:
            self._keep_apart(raw)
            return None
        by, cause = shown
        again = self.findings.get((raw.target, cause.key))
        if again is not None:
            again.times += 1
            return again
        finding = Finding(raw.target, raw.engine, cause, by, raw.data, len(raw.data))
        self.findings[raw.target, cause.key] = finding
        self._file(raw, finding)
        return finding

    def _file(self, raw, finding):
        folder = self.places.found(finding.target)
        finding.path = stub.known(folder, finding.cause.key, raw.data)
        finding.known = finding.path is not None
        if not finding.known:
            self._shrink(raw, finding)
            self._write(finding, folder)
        self.say(f"finding{' (known)' if finding.known else ''}: {finding.path.stem}: {finding.cause.line}")

    def _write(self, finding, folder):
        """What a disk that is full or read-only does not take is told: an input has a kilobyte at most."""
        try:
            finding.path = stub.write(finding, folder)
        except OSError as problem:
            finding.path = folder / f"{finding.name}.bin"
            self.say(f"{finding.path} could not be written: {problem}; the input in hex: {finding.data.hex()}")

    def _keep_apart(self, raw):
        folder = self.places.unreproduced(raw.target)
        folder.mkdir(parents=True, exist_ok=True)
        put(folder, raw.data)
        self.unreproduced[raw.target, content_name(raw.data)] = raw
        self.say(f"does not fail again alone: {raw.kind} of {raw.engine}, kept in "
                 f"{folder / content_name(raw.data)}")

    # ---- Small ---------------------------------------------------------------------------------------------------

    def _shrink(self, raw, finding):
        """libFuzzer's minimisation, and pieces left out, as long as what is left fails for the same cause. Either ends in
        time."""
        if finding.cause.kind in ("timeout", "memory") or len(raw.data) < 2 or self.processes.interrupted:
            return
        small = self._minimised(raw, finding.by == "contract") if finding.by in MINIMISERS else raw.data
        if not 0 < len(small) < len(raw.data) or not self._is_like(raw, finding, small):
            small = raw.data  # the minimiser takes any failure for the one that it was given
        until = time.monotonic() + SHRINK
        small = smaller(small, lambda less: self._is_like(raw, finding, less),
                        lambda: time.monotonic() < until and not self.processes.interrupted)
        shown = self._alone(raw, small)
        if shown is not None and shown[0] == finding.by and shown[1].key == finding.cause.key:
            finding.data, finding.cause = small, shown[1]

    def _is_like(self, raw, finding, data):
        """Shown by the same program for the same cause. Where the line alone tells causes apart, no stack is looked up."""
        shown = self._alone(raw, data, quick=finding.cause.kind in ORACLES and not finding.cause.telling)
        return shown is not None and shown[0] == finding.by and shown[1].key == finding.cause.key

    def _minimised(self, raw, contract):
        program = self.builds.contract() if contract else self.builds.program("libfuzzer", raw.target)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "input").write_bytes(raw.data)
            out = folder / "small"
            self.processes.run([program, "-minimize_crash=1", f"-max_total_time={MINIMISE}", f"-timeout={self.alone}",
                                f"-max_len={most_bytes(raw.target)}", f"-exact_artifact_path={out}", folder / "input"],
                               MINIMISE + 30, programs.environment(contract), cwd=folder, always=True)
            return out.read_bytes() if out.exists() else raw.data

    # ---- In all --------------------------------------------------------------------------------------------------

    def of(self, target):
        return [finding for (where, _), finding in self.findings.items() if where == target]

    def apart(self, target):
        """What failed once and not again. A time-out alone may be the machine's: listed, not counted."""
        return [raw for (where, _), raw in self.unreproduced.items() if where == target]

    def count(self, target):
        return len(self.of(target)) + sum(raw.kind != "timeout" for raw in self.apart(target))
