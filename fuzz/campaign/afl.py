"""AFL++ in persistent mode with shared-memory input: one main and secondaries, each with a role of its own."""
import time

from .crew import Crew
from .places import inputs_in, most_bytes
from .processes import CouldNotRun

EXPORT_EVERY = 20  # seconds between two looks at the queues

# What a job is: the program's preset, options of its own. The main works through its queue in order and shares with
# other engines; then come sanitizers, comparisons, plain speed, and mutations chosen by their success, again and again
# under other power schedules. One in four is sanitized: it runs at a fraction of the speed, and what others find
# reaches it. MOpt and our mutator exclude each other, so that role does with AFL++'s own stages.
ROLES = (("afl-asan", ()), ("afl", ("-c", "afl-cmplog")), ("afl", ()), ("afl", ("-L", "0")))
SCHEDULES = ("explore", "fast", "coe", "exploit", "lin", "rare", "quad")

# The machine's settings are not asked for (containers cannot change them), nobody is told of a core dump, and the end
# waits for what the others found.
SETTINGS = {"AFL_NO_UI": "1", "AFL_SKIP_CPUFREQ": "1", "AFL_NO_AFFINITY": "1", "AFL_FORKSRV_INIT_TMOUT": "60000",
            "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1", "AFL_NO_CRASH_README": "1",
            "AFL_SYNC_TIME": "1", "AFL_CMPLOG_ONLY_NEW": "1", "AFL_SKIP_CRASHES": "1", "AFL_FAST_CAL": "1",
            "AFL_EXPAND_HAVOC_NOW": "1"}


def role(job):
    """Preset, options and name of a job."""
    if job == 0:
        return "afl", ("-p", "fast"), "main"
    preset, options = ROLES[(job - 1) % len(ROLES)]
    schedule = SCHEDULES[((job - 1) // len(ROLES) + job - 1) % len(SCHEDULES)]
    kind = "sanitized" if preset == "afl-asan" else {"-c": "cmplog", "-L": "mopt"}.get((*options, "")[0], "plain")
    return preset, ("-p", schedule, *options), f"{kind}{job}"


class Afl(Crew):
    engine = "afl"

    def __init__(self, context, target, jobs):
        super().__init__(context, target, jobs)
        self.out = self.folder / "out"
        self.exported = set()
        self.taken = set()
        self.next_export = 0.0
        self.of_job = {}

    def make_folders(self):
        self.out.mkdir()

    def presets(self):
        needed = {"asan", "afl"}
        for job in range(self.jobs):
            preset, options, _ = role(job)
            needed.update([preset, *(option for option in options if option.startswith("afl"))])
        return tuple(sorted(needed))

    def build(self):
        builds = self.context.builds
        self.mutator = builds.mutator(self.target)
        self.binaries = {preset: builds.program(preset, self.target) for preset in self.presets() if preset != "asan"}

    def launch(self, job):
        preset, options, name = role(job)
        options = [self.binaries.get(option, option) for option in options]
        dictionary = self.context.places.dictionary(self.target)
        place = ["-M", name, "-F", self.corpus.folder] if job == 0 else ["-S", name]
        command = ["afl-fuzz", *place, *options, "-i", self.start_folder, "-o", self.out, "-G", most_bytes(self.target),
                   *(["-x", dictionary] if dictionary else []), "-t", "5000", "-m", "none", "--", self.binaries[preset]]
        environment = {**SETTINGS, "NXMEM_FUZZ_COUNTER": str(self.counter(job))}
        if "-L" not in options:
            environment["AFL_CUSTOM_MUTATOR_LIBRARY"] = str(self.mutator)
        environment["AFL_HANG_TMOUT"] = str(1000 * self.context.alone)
        if job == 0:
            environment["AFL_FINAL_SYNC"] = "1"
        self.of_job[job] = self.processes.start(command, self.log / f"job.{job}", environment, self.folder)
        self.running.append(self.of_job[job])

    def poll(self):
        self._take_failures()
        if time.monotonic() >= self.next_export:
            self._export()
            self.next_export = time.monotonic() + EXPORT_EVERY
        for job, process in self.of_job.items():
            if process.poll() is not None and self.running:
                raise CouldNotRun(f"afl-fuzz ended with {process.returncode}:\n{self.last_words(job)}")
        return bool(self.running) and time.monotonic() < self.until

    def _stats(self):
        for path in sorted(self.out.glob("*/fuzzer_stats")):
            rows = (line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
            yield path.parent.name, {name.strip(): value.strip() for name, value in rows}

    def measure_edges(self):
        """AFL++ brings its statistics up to date once a minute and at the end. A sanitized build has more edges."""
        return max([0, *(int(stats.get("edges_found", 0)) for name, stats in self._stats()
                         if not name.startswith("sanitized"))])

    def idle(self):
        found = [int(stats.get("last_find", 0)) for _, stats in self._stats()]
        return max(0.0, time.time() - max(found)) if any(found) else super().idle()

    def extras(self):
        return {name: {"stability": stats.get("stability", ""), "execs": int(stats.get("execs_done", 0)),
                       "edges": int(stats.get("edges_found", 0)), "cycles": int(stats.get("cycles_done", 0))}
                for name, stats in self._stats()}

    def _export(self):
        """What the jobs found themselves, into the corpus of all engines; from there the main takes the others'."""
        for folder in self.out.glob("*/queue"):
            new = [path for path in inputs_in(folder) if (folder.parent.name, path.name) not in self.exported]
            self.exported.update((folder.parent.name, path.name) for path in new)
            self.corpus.add_files(path for path in new if ",orig:" not in path.name and ",sync:" not in path.name)

    def _take_failures(self):
        for kind, called in (("crashes", "crash"), ("hangs", "timeout")):
            for path in self.out.glob(f"*/{kind}/id*"):
                if path not in self.taken:
                    self.taken.add(path)
                    self.keep(called, path.read_bytes())

    def collect(self):
        self._take_failures()
        self._export()
