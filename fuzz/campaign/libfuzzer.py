"""libFuzzer, one process a job; and the same around the core with its contracts compiled in."""
import re
import time

from . import programs
from .crew import Crew
from .places import most_bytes
from .processes import CouldNotRun

RESTARTS = 50  # of a job that finds and finds: most findings stop only the input they were found with
INTERRUPTED = 72
TAIL = 1 << 16
KINDS = ("crash", "timeout", "oom", "leak")  # as the names of artifacts begin


class LibFuzzer(Crew):
    engine = "libfuzzer"

    def __init__(self, context, target, jobs):
        super().__init__(context, target, jobs)
        self.artifacts = self.folder / "artifacts"
        self.of_job = {}
        self.restarts = {}
        self.taken = set()

    def make_folders(self):
        self.artifacts.mkdir()

    def presets(self):
        return ("asan", "libfuzzer")

    def build(self):
        self.program = self.context.builds.program("libfuzzer", self.target)

    def environment(self, job):
        return {**programs.environment(), "NXMEM_FUZZ_COUNTER": str(self.counter(job))}

    def launch(self, job):
        left = max(1, round(self.until - time.monotonic()))
        dictionary = self.context.places.dictionary(self.target)
        # Smaller inputs for what is known are not looked for. Of `lifecycle`, from nothing, five seeds of 30,000 inputs: edges 2440, 2564, 2561, 2529,
        # 2522 without and 2400, 2478, 2481, 2477, 2551 with it, 13.1 and 15.7 s of processor time; one of 80,000: 2639 and 2713.
        command = [self.program, f"-max_total_time={left}", "-entropic=0", "-reduce_inputs=0", "-print_funcs=0",
                   f"-timeout={self.context.alone}",
                   f"-max_len={most_bytes(self.target)}", f"-rss_limit_mb={programs.MEMORY}", "-reload=1", "-print_final_stats=1",
                   f"-artifact_prefix={self.artifacts}/", *([f"-dict={dictionary}"] if dictionary else []),
                   self.corpus.folder, self.start_folder]
        self.of_job[job] = self.processes.start(command, self.log / f"job.{job}", self.environment(job), self.folder)
        self.running.append(self.of_job[job])

    def poll(self):
        self._take_artifacts()
        for job, process in list(self.of_job.items()):
            if process.poll() is None:
                continue
            self.running.remove(process)
            del self.of_job[job]
            self._ended(job, process.returncode)
        return bool(self.running)

    def _ended(self, job, code):
        if code in (0, INTERRUPTED):
            return
        if not self._take_artifacts() and not self.raws:
            raise CouldNotRun(f"{self.engine} ended with {code}:\n{self.last_words(job)}")
        self.restarts[job] = self.restarts.get(job, 0) + 1
        if self.restarts[job] < RESTARTS and self.until - time.monotonic() > 1 and not self.processes.interrupted:
            self.launch(job)

    def _take_artifacts(self):
        """Returns how many are new. What failed is taken out of what the jobs begin with."""
        new = [path for path in self.artifacts.iterdir() if path.name not in self.taken]
        for path in new:
            kind, _, name = path.name.partition("-")
            if kind in KINDS:
                self.keep(kind, path.read_bytes())
                (self.start_folder / name).unlink(missing_ok=True)
                self.corpus.drop(name)
            self.taken.add(path.name)
        return len(new)

    def measure_edges(self):
        most = self.best_edges
        for path in self.log.glob("job.*"):
            with open(path, "rb") as file:
                file.seek(max(0, path.stat().st_size - TAIL))
                counts = re.findall(rb" cov: (\d+) ", file.read())
            most = max([most, *(int(count) for count in counts[-1:])])
        return most

    def collect(self):
        self._take_artifacts()


class Contract(LibFuzzer):
    engine = "contract"

    def presets(self):
        return ()

    def build(self):
        self.program = self.context.builds.contract()

    def environment(self, job):
        return {**programs.environment(contract=True), "NXMEM_FUZZ_COUNTER": str(self.counter(job))}

    def failing(self, batch):
        """One process as far as it comes; behind the input at which it ends, the next."""
        while batch:
            result = self.processes.run([self.program, f"-timeout={self.context.alone}", *batch],
                                        len(batch) + 10 * self.context.alone, programs.environment(contract=True, quick=True), cwd=self.folder)
            if result.code == 0:
                return
            begun = re.findall(r"^Running: (.*)$", result.text, re.MULTILINE)
            if not begun:
                raise CouldNotRun(f"contract_fuzz ended with {result.code}:\n{result.text[-2000:]}")
            at = [str(path) for path in batch].index(begun[-1])
            yield batch[at], "timeout" if result.timed_out else "crash"
            batch = batch[at + 1:]
