"""The programs of a campaign: built when they are first needed, one builder at a time."""
import fcntl
import os
import re
import shutil
import time

from .places import ROOT
from .processes import CouldNotRun, Interrupted

# What a preset is for: `asan` replays alone, `dev` the same without sanitizers; the `afl-` ones are the same target
# instrumented otherwise.
PRESETS = ("asan", "dev", "libfuzzer", "afl", "afl-asan", "afl-cmplog")
NEEDED = {"afl": ("afl-fuzz", "afl-clang-fast"), "contract": ("frama-c",)}
BUILD_LIMIT = 3600
EVERY = 10  # seconds between two words about a build
MEMORY = 2048  # MiB that an input may take, in one piece or in all


def environment(contract=False, quick=False):
    """Reports name functions, and an oracle's abort tells where it stood; a quick one only says that there is one."""
    asan = "symbolize=0" if quick else "symbolize=1:handle_abort=1"
    if contract:  # neither the core nor its contracts keep memory: looking for leaks would only cost time
        asan += ":allocator_may_return_null=1:detect_leaks=0"
    else:
        asan += f":max_allocation_size_mb={MEMORY}"
    return {"ASAN_OPTIONS": asan, "UBSAN_OPTIONS": "symbolize=0" if quick else "print_stacktrace=1"}


class Progress:
    """What a build has done so far, as ninja counts it: the first builds take minutes."""

    def __init__(self, name, say):
        self.name, self.say = name, say
        self.began = time.monotonic()
        self.next = self.began + EVERY

    def __call__(self, log):
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + EVERY
        steps = re.findall(rb"^\[(\d+)/(\d+)\]", log.read_bytes(), re.MULTILINE)
        done = f", {int(steps[-1][0])} of {int(steps[-1][1])} steps" if steps else ""
        self.say(f"  {self.name}: building for {now - self.began:.0f} s{done}")


class Programs:
    def __init__(self, places, processes, say):
        self.places, self.processes, self.say = places, processes, say
        self.built = set()
        self.configured = set()

    def require(self, engine):
        tools = ("clang", "cmake", "ninja", "llvm-symbolizer", *NEEDED.get(engine, ()))
        missing = [tool for tool in tools if shutil.which(tool) is None]
        if missing:
            raise CouldNotRun(f"{missing[0]} is not installed (Debian: clang llvm libclang-rt-14-dev cmake ninja-build "
                              "afl++ frama-c-base libgmp-dev)")

    def program(self, preset, target):
        """The program fuzz_TARGET of a preset, up to date."""
        self.together(preset, [target])
        return self.places.build / preset / "bin" / f"fuzz_{target}"

    def together(self, preset, targets):
        """Brings the programs of several targets up to date, in one go."""
        missing = [target for target in targets if (preset, target) not in self.built]
        if missing:
            self._locked(preset, lambda log: self._build(preset, missing, log), " fuzz_".join(missing))
            self.built.update((preset, target) for target in missing)

    def mutator(self, target):
        self.program("afl", target)
        return self.places.build / "afl/bin" / f"fuzz_mutator_{target}.so"

    def contract(self):
        """The target core around the core with its contracts."""
        out = self.places.build / "contract"
        if ("contract", "core") not in self.built:
            script = ROOT / "fuzz/contract/build.sh"
            command = [script, "--root", ROOT, "--out", out, "--fuzzer", "--jobs", os.cpu_count()]
            self._locked("contract", lambda log: self._run(command, log, "contract"), "core")
            self.built.add(("contract", "core"))
        return out / "contract_fuzz"

    def _locked(self, name, build, what):
        self.say(f"building fuzz_{what} ({name})")
        log = self.places.build / "fuzz" / f"build-{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.places.lock(f"build-{name}"), "w", encoding="utf-8") as lock:
            self._wait_for(lock, name)
            build(log)

    def _wait_for(self, lock, name):
        """Another campaign, of other targets, may build meanwhile; Ctrl-C ends the wait."""
        said = False
        while True:
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not said:
                    self.say(f"  {name}: waiting for another campaign's build")
                said = True
            if self.processes.interrupted:
                raise Interrupted
            self.processes.pause()

    def _build(self, preset, targets, log):
        folder = self.places.build / preset
        programs = [f"fuzz_{target}" for target in targets]
        if preset not in self.configured:
            self._run(["cmake", "--preset", preset, "-B", folder], log, preset)
            self.configured.add(preset)
        self._run(["cmake", "--build", folder, "-j", os.cpu_count(), "--target", *programs], log, preset)

    def _run(self, command, log, name):
        result = self.processes.run(command, BUILD_LIMIT, {"AFL_QUIET": "1"}, cwd=ROOT, look=Progress(name, self.say))
        log.write_text(result.text)
        if result.code != 0:
            raise CouldNotRun("\n".join(result.text.splitlines()[-30:]) + f"\nthe build failed; all of it: {log}")
