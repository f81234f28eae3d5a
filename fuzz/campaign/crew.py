"""What the engines have in common: one target, some jobs, a slice of time."""
import re
import shutil
import struct
import time

from . import programs
from .corpus import Corpus
from .places import content_name, inputs_in
from .processes import stop
from .triage import Raw

BATCH = 256  # inputs that are screened by one program
SCREENED = {}  # by engine kind and target: names of inputs that went through alone in this campaign


class Crew:
    """Subclasses start the jobs and read what their engine says."""
    engine = ""

    def __init__(self, context, target, jobs):
        self.context, self.target, self.jobs = context, target, jobs
        self.processes = context.processes
        self.folder = context.places.work(target, self.engine)
        self.start_folder = self.folder / "start"
        self.log = self.folder / "log"
        self.corpus = Corpus(context.places, target)
        self.running = []
        self.best_edges = 0
        self.edges_since = time.monotonic()
        self.raws = {}  # by content, what failed and was not yet judged
        self.until = 0.0

    # ---- Before --------------------------------------------------------------------------------------------------

    def prepare(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.log.mkdir(parents=True)
        self.make_folders()
        self.build()
        self.corpus.stage(self.start_folder)
        self._screen()

    def make_folders(self):
        """Beside those for words and what the jobs begin with."""

    def presets(self):
        """Of the programs of this target that are needed."""
        return ("asan",)

    def build(self):
        """The programs; nothing is done where they are up to date."""
        raise NotImplementedError

    def replayer(self):
        """The program that screens: a line "not ok N - NAME" for each input that fails."""
        return self.context.builds.program("asan", self.target)

    def _screen(self):
        """An engine that begins with an input that fails finds nothing else: such an input is a finding by itself."""
        screened = SCREENED.setdefault((self.engine == "contract", self.target), set())
        new = [path for path in inputs_in(self.start_folder) if path.name not in screened]
        for at in range(0, len(new), BATCH):
            batch = new[at:at + BATCH]
            for path, kind in self.failing(batch):
                self._failed(path, kind)
            screened.update(path.name for path in batch if path.exists())

    def failing(self, batch):
        """Those of `batch` that fail alone, and how."""
        result = self.processes.run([self.replayer(), *batch], self.context.alone, programs.environment(quick=True))
        if result.timed_out:
            return self._failing_one_by_one(batch)
        names = set(re.findall(r"^not ok \d+ - (\S+)$", result.text, re.MULTILINE))
        return [(path, "crash") for path in batch if path.name in names]

    def _failing_one_by_one(self, batch):
        for path in batch:
            result = self.processes.run([self.replayer(), "--in-process", path], self.context.alone,
                                        programs.environment(quick=True))
            if result.timed_out or result.code != 0:
                yield path, "timeout" if result.timed_out else "crash"

    def _failed(self, path, kind):
        data = path.read_bytes()
        self.keep(kind, data)
        path.unlink()
        self.corpus.drop(content_name(data))

    def keep(self, kind, data):
        """Something failed: to be judged when the slice is over."""
        self.raws.setdefault(content_name(data), Raw(self.target, self.engine, kind, data))

    # ---- While it runs -------------------------------------------------------------------------------------------

    def start(self, seconds):
        self.until = time.monotonic() + seconds
        for job in range(self.jobs):
            self.counter(job).write_bytes(bytes(8))
            self.launch(job)

    def counter(self, job):
        """The harness itself counts the inputs it runs, whatever drives it."""
        return self.folder / f"counter.{job}"

    def launch(self, job):
        raise NotImplementedError

    def poll(self):
        """Looks after the jobs; False once none runs any more."""
        raise NotImplementedError

    def measure_edges(self):
        raise NotImplementedError

    def measure(self):
        edges = self.measure_edges()
        if edges > self.best_edges:
            self.best_edges, self.edges_since = edges, time.monotonic()
        return edges

    def idle(self):
        """Seconds without a new edge."""
        return time.monotonic() - self.edges_since

    def execs(self):
        return sum(struct.unpack("Q", path.read_bytes())[0] for path in self.folder.glob("counter.*"))

    # ---- After ---------------------------------------------------------------------------------------------------

    def halt(self):
        stop(self.running)
        self.running = []

    def finish(self):
        self.halt()
        self.measure()
        self.collect()

    def collect(self):
        """Takes what the jobs left: inputs into the corpus, failures for triage."""
        raise NotImplementedError

    def extras(self):
        """What the engine alone has to say, for the summary."""
        return {}

    def last_words(self, job):
        path = self.log / f"job.{job}"
        return "\n".join(path.read_text(errors="replace").splitlines()[-20:]) if path.exists() else ""
