"""The campaign itself: lanes of slices until the time is over, and triage, tidying and exchange behind each slice."""
import collections
import contextlib
import dataclasses
import fcntl
import functools
import json
import time

from . import report
from .corpus import Corpus, copy_new
from .engines import CREWS
from .places import Places
from .processes import CouldNotRun, Interrupted, Processes
from .programs import Programs
from .triage import Triage

TRIES = 3  # of a unit that cannot run
PATIENCE = 120  # seconds beyond its time that a slice waits for its first input
LEAST = 5  # seconds that a slice has once it was prepared, however long that took


@dataclasses.dataclass
class Context:
    places: Places
    processes: Processes
    builds: Programs
    triage: Triage
    sync: object = None  # the folder exchanged with other machines
    machine: str = ""
    alone: int = 60  # seconds that an input may take by itself
    first: bool = False  # whether the first finding ends the campaign


@dataclasses.dataclass
class Slice:
    lane: object
    unit: object
    crew: object
    began: float
    until: float
    failed: bool = False
    ended: float = 0.0  # when its engines were stopped; what they found may be judged later

    def halt(self):
        if not self.ended:
            self.crew.halt()
            self.ended = time.monotonic()

    def is_over(self):
        """On a busy machine an engine may take long to its first input."""
        begun = self.crew.execs() > 0 or time.monotonic() > self.until + PATIENCE
        return self.failed or not self.crew.running or begun and time.monotonic() >= self.until


class Campaign:
    def __init__(self, context, schedule, seconds, name):
        self.context, self.schedule, self.seconds, self.name = context, schedule, seconds, name
        self.slices = []
        self.rows = {}  # by unit
        self.walls = {}  # by target: seconds in which it ran
        self.deadline = 0.0
        self.began = 0.0
        self.next_line = 0.0
        self.troubles = []  # engines that could not run; the others go on
        self.tries = collections.Counter()  # by unit: slices that could not run
        self.unshared = {}  # by target: why its last exchange with other machines failed
        self.unjudged = 0  # of the slice whose findings are being judged
        self.looked = 0.0
        context.processes.tick = self.tick

    # ---- Time ----------------------------------------------------------------------------------------------------

    def run(self):
        """Until the time is over or somebody ends it; building does not count."""
        with contextlib.ExitStack() as locks:
            self._take_targets(locks)
            with contextlib.suppress(Interrupted):
                self._prepare_programs()
                self.began = self.looked = time.monotonic()
                self.deadline = self.began + self.seconds
                self._loop()
            self._finish_all()

    def _take_targets(self, locks):
        """Two campaigns on one target would overwrite each other's folders."""
        for target in sorted({unit.target for unit in self.schedule.given}):
            path = self.context.places.lock(target)
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = locks.enter_context(open(path, "w", encoding="utf-8"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise CouldNotRun(f"another campaign runs {target} in {self.context.places.build}") from None

    def _prepare_programs(self):
        """All of them once, before the time counts."""
        engines = {unit.engine for unit in self.schedule.given}
        for engine in sorted(engines):
            self.context.builds.require(engine)
        jobs = max(lane.jobs for lane in self.schedule.lanes)
        crews = [CREWS[unit.engine](self.context, unit.target, jobs) for unit in self.schedule.given]
        for preset in sorted({preset for crew in crews for preset in crew.presets()}):
            self.context.builds.together(preset, sorted({c.target for c in crews if preset in c.presets()}))
        for crew in crews:
            crew.build()

    def _loop(self):
        while (time.monotonic() < self.deadline or self.slices) and not self._is_over():
            self._fill_lanes()
            if not self.slices:
                return
            self.context.processes.pause()
            for one in [s for s in self.slices if s.is_over()]:
                self._finish(one)

    def _is_over(self):
        return self.context.processes.interrupted or self.context.first and self._findings() + self._unjudged() > 0

    def _fill_lanes(self):
        busy = [one.lane for one in self.slices]
        for lane in self.schedule.lanes:
            left = self.deadline - time.monotonic()
            if any(lane is other for other in busy) or left < 1:
                continue
            unit = self.schedule.next(lane)
            if unit is not None:
                self._try(lane, unit, min(left, self.schedule.slice_seconds))

    def _try(self, lane, unit, seconds):
        if not self._goes_well(unit, lambda: self._begin(lane, unit, seconds)):
            self.schedule.done(unit, seconds * lane.jobs)
            self._count_try(unit)

    def _goes_well(self, unit, what):
        """A disk that is full or gone is an engine's trouble, not the end: others may do without it."""
        try:
            what()
            return True
        except (CouldNotRun, OSError) as problem:
            self.troubles.append(unit)
            report.say(f"{unit} could not run: {problem}")
            return False

    def _count_try(self, unit):
        self.tries[unit] += 1
        if self.tries[unit] == TRIES:
            self.schedule.drop(unit)

    def _begin(self, lane, unit, seconds):
        crew = CREWS[unit.engine](self.context, unit.target, lane.jobs)
        self._exchange(crew.corpus)
        crew.prepare()
        now = time.monotonic()
        seconds = min(seconds, max(self.deadline - now, LEAST))
        try:
            crew.start(seconds)
        except OSError:
            crew.finish()  # the jobs that did start
            raise
        self.slices.append(Slice(lane, unit, crew, now, now + seconds))

    def tick(self):
        """Looks after what runs, also while something else is waited for."""
        now = time.monotonic()
        for target in {one.unit.target for one in self.slices if not one.ended}:
            self.walls[target] = self.walls.get(target, 0.0) + now - self.looked
        self.looked = now
        for one in self.slices:
            self._look_after(one, now)
        if (self.slices or self.unjudged) and now >= self.next_line:
            self.next_line = now + report.EVERY
            report.say(self._line(now))

    def _look_after(self, one, now):
        """Also while another slice's findings are judged, which takes long: no engine runs beyond its time."""
        if one.ended:
            return
        if not one.failed and not self._goes_well(one.unit, one.crew.poll):
            one.failed, one.until = True, now
            self._count_try(one.unit)
        if one.is_over():
            one.halt()

    # ---- Behind a slice ------------------------------------------------------------------------------------------

    def _finish(self, one):
        one.halt()
        seconds = max(one.ended - one.began, 0.001)
        self.slices.remove(one)
        self._goes_well(one.unit, one.crew.finish)
        # One that fails is not tried again before the others had their turn.
        self.schedule.done(one.unit, (self.schedule.slice_seconds if one.failed else seconds) * one.crew.jobs)
        row = self.rows.setdefault(one.unit, report.Row(one.unit.target, one.unit.engine))
        row.add(one.crew, seconds)
        self._judge(one)
        self._goes_well(one.unit, lambda: self._tidy(one.crew))

    def _judge(self, one):
        self.unjudged = len(one.crew.raws)
        for raw in one.crew.raws.values():
            if not self._goes_well(one.unit, functools.partial(self.context.triage.take, raw)):
                report.say(f"{raw.kind} of {one.unit}, not judged; the input in hex: {raw.data.hex()}")
            self.unjudged -= 1

    def _tidy(self, crew):
        if crew.corpus.wants_less() and not self.context.processes.interrupted:
            program = self.context.builds.program("libfuzzer", crew.target)
            gone = crew.corpus.minimise(program, self.context.processes, crew.start_folder)
            report.say(f"minimised {crew.corpus.folder}: {gone} inputs went")
        self._exchange(crew.corpus)

    def _exchange(self, corpus: Corpus):
        """Where the common folder is full or gone, what was found stays here, and goes there once that works again."""
        if self.context.sync is None:
            return
        try:
            corpus.exchange(self.context.sync / "corpus", self.context.machine)
            self._publish(corpus.target)
            self.unshared.pop(corpus.target, None)
        except OSError as problem:
            self.unshared[corpus.target] = str(problem)
            report.say(f"{corpus.target} is not shared with other machines: {problem}")

    def _publish(self, target):
        """Findings are named by their cause, so machines that found the same write the same file."""
        triage = self.context.triage
        files = [path for finding in triage.of(target) for path in (finding.path, finding.path.with_suffix(".toml"))]
        copy_new(files, self.context.sync / "found" / target)
        apart = self.context.places.unreproduced(target)
        copy_new([apart / name for where, name in triage.unreproduced if where == target],
                 self.context.sync / "unreproduced" / target)

    def _finish_all(self):
        for one in self.slices:
            one.halt()
        for one in list(self.slices):
            self._finish(one)

    # ---- What it says --------------------------------------------------------------------------------------------

    def _findings(self):
        return sum(self.context.triage.count(target) for target in self._targets())

    def _unjudged(self):
        """Inputs that failed: many may have one cause."""
        return self.unjudged + sum(len(one.crew.raws) for one in self.slices)

    def _targets(self):
        return list(dict.fromkeys(unit.target for unit in self.schedule.given))

    def _line(self, now):
        done = sum(row.execs for row in self.rows.values())
        live = sum(one.crew.execs() for one in self.slices)
        edges = [str(one.crew.measure()) for one in self.slices]
        what = " ".join(str(one.unit) for one in self.slices) or "judging"
        return report.progress(now - self.began, self.deadline - now, what, done + live, now - self.began,
                               "+".join(edges) or "no", self._findings(), self._unjudged())

    def close(self, every):
        """Prints the summary; returns the number of findings. `every`: a line a target, and one for all."""
        targets = [target for target in self._targets() if every or any(u.target == target for u in self.rows)]
        total = 0
        for unit in dict.fromkeys(self.troubles):
            report.say(f"  {unit} could not run, {self.troubles.count(unit)} times")
        for target, why in self.unshared.items():
            report.say(f"  {target} is not shared with other machines: {why}")
        for target in targets:
            rows = [row for unit, row in self.rows.items() if unit.target == target]
            for row in rows:
                for line in report.details(row):
                    report.say(line)
            for line in report.finding_lines(self.context.triage, target):
                report.say(line)
            count = self.context.triage.count(target)
            total += count
            report.say(report.target_line(target, rows, count, self.walls.get(target, 0.0)))
        if every:
            execs = sum(row.execs for row in self.rows.values())
            spent = max(self.looked - self.began, 0.001) if self.began else 0.0
            never = self.never_ran()
            report.say(f"fuzz --all: {execs} execs, {report.rate(execs, spent)}/s, {len(targets) - len(never)} targets, "
                       f"{total} findings" + (f", never ran: {', '.join(never)}" if never else ""))
        return total

    def never_ran(self):
        """Targets of which no engine ran an input: the time was over before, or none could."""
        ran = {unit.target for unit, row in self.rows.items() if row.execs}
        return [target for target in self._targets() if target not in ran]

    def as_json(self):
        triage = self.context.triage
        return {
            "campaign": self.name, "seconds": self.seconds, "interrupted": self.context.processes.interrupted,
            "could_not_run": [str(unit) for unit in self.troubles], "never_ran": self.never_ran(),
            "not_shared": self.unshared,
            "rows": [row.as_json() for row in self.rows.values()],
            "findings": [report.finding_json(finding) for finding in triage.findings.values()],
            "unreproduced": [{"target": raw.target, "engine": raw.engine, "kind": raw.kind, "name": name}
                             for (_, name), raw in triage.unreproduced.items()],
        }

    def write_json(self, path):
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n", encoding="utf-8")
