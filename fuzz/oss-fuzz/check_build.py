#!/usr/bin/env python3
"""Is what build.sh builds what OSS-Fuzz can run? python3 fuzz/oss-fuzz/check_build.py FLAVOUR...

FLAVOUR is one of: address, undefined, memory, coverage (libFuzzer), afl (AFL++ with its driver for libFuzzer's targets).
For each, build.sh runs on a copy of the sources with nothing in the environment but what the contract promises. Then sources and build are
moved away, the results to another folder, and each program is run from a third: with the inputs of its archive, its dictionary and its
options. Looked at besides: no target is missing, each is instrumented as its flavour says and no other way, and needs no shared library but the
C library's. Prints TAP. Exit 1 where something is wrong, 2 usage, 3 could not run.
"""
import configparser
import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FLAGS = "-O1 -fno-omit-frame-pointer -gline-tables-only -Wno-error -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION"
EDGES = "-fsanitize=fuzzer-no-link"
UNDEFINED = ("array-bounds,bool,builtin,enum,float-divide-by-zero,integer-divide-by-zero,null,object-size,return,returns-nonnull-attribute,"
             "shift,signed-integer-overflow,unreachable,vla-bound,vptr")
# The services link the C++ part of an engine statically; MemorySanitizer's runtime here does not stand that.
STATIC = "-static-libstdc++ -static-libgcc"
LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libresolv.so.2"}
AFL_DRIVER = "/usr/lib/afl/libAFLDriver.a"
SECONDS = 1800  # of a machine that has much else to do
CAMPAIGNS = ("table", "load")  # a target that is only itself, and one that loads its plugin, under afl-fuzz as well
FEWEST_CALLS = {"__asan": 20, "__msan": 20, "__ubsan": 5}


@dataclasses.dataclass
class Flavour:
    flags: str
    sanitizer: str
    calls: str  # what product code must call; None: nothing to see in it
    script: str = "fuzz/oss-fuzz/build.sh"
    compilers: tuple = ("clang", "clang++")
    engine: str = "-fsanitize=fuzzer"
    link: str = STATIC
    libraries: tuple = ()
    leaves_out: tuple = ()

    @property
    def service(self):
        """The engine, as the service calls it."""
        return "afl" if "afl" in self.engine.lower() else "libfuzzer"


FLAVOURS = {
    "address": Flavour(f"-fsanitize=address -fsanitize-address-use-after-scope {EDGES}", "address", "__asan", script=".clusterfuzzlite/build.sh"),
    "undefined": Flavour(f"-fsanitize={UNDEFINED},unsigned-integer-overflow -fno-sanitize-recover={UNDEFINED} {EDGES}", "undefined", "__ubsan"),
    "memory": Flavour(f"-fsanitize=memory -fsanitize-memory-track-origins {EDGES}", "memory", "__msan", link="", libraries=("libstdc++.so.6",),
                      leaves_out=("lifecycle", "deferred", "load", "owners", "strings", "elf", "policy")),
    "coverage": Flavour("-fprofile-instr-generate -fcoverage-mapping -pthread -Wl,--no-as-needed -Wl,-ldl -Wl,-lm "
                        "-Wno-unused-command-line-argument", "coverage", None),
    "afl": Flavour("-fsanitize=address -fsanitize-address-use-after-scope", "address", "__asan", compilers=("afl-clang-fast", "afl-clang-fast++"),
                   engine=AFL_DRIVER),
}

# What the service builds of what project.yaml offers: each engine with those sanitizers of the list that it supports.
SUPPORTED = {"libfuzzer": ("address", "undefined", "memory"), "afl": ("address",)}


class Wrong(Exception):
    """What a check says is wrong."""


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS, **options)


def need(holds, words):
    if not holds:
        raise Wrong(words)


def check_offer():
    """What project.yaml makes the service build is what is built here."""
    text = (ROOT / "fuzz/oss-fuzz/project.yaml").read_text()
    engines, sanitizers = (re.search(rf"^{name}:\n((?:  - .*\n)+)", text, re.M)[1].split()[1::2] for name in ("fuzzing_engines", "sanitizers"))
    need(set(engines) <= set(SUPPORTED), f"found engines {engines}, needed some of {list(SUPPORTED)}")
    offered = {(engine, sanitizer) for engine in engines for sanitizer in sanitizers if sanitizer in SUPPORTED[engine]}
    built = {(flavour.service, flavour.sanitizer) for flavour in FLAVOURS.values() if flavour.sanitizer != "coverage"}
    need(offered == built, f"found {sorted(offered)}, needed {sorted(built)}")
    unused = [sanitizer for sanitizer in sanitizers if not any(sanitizer in SUPPORTED[engine] for engine in engines)]
    need(not unused, f"found sanitizers {unused} that no engine supports, needed none")


# ---- The build -----------------------------------------------------------------------------------------------------------------------------


def copy_sources(to):
    """The working tree as it is, without what git leaves out."""
    names = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def build(flavour, place):
    """Runs build.sh as the contract has it; the folder with its results, moved, and the only one that is left."""
    for folder in ("src/nxmem", "work", "out"):
        (place / folder).mkdir(parents=True)
    copy_sources(place / "src/nxmem")
    script = place / "src/build.sh"
    shutil.copy2(place / "src/nxmem" / flavour.script, script)
    flags = f"{FLAGS} {flavour.flags}"
    environment = {"PATH": os.environ["PATH"], "HOME": str(place), "AFL_QUIET": "1", "CC": flavour.compilers[0], "CXX": flavour.compilers[1],
                   "CFLAGS": flags, "CXXFLAGS": f"{flags} {flavour.link}", "LIB_FUZZING_ENGINE": flavour.engine, "SRC": str(place / "src"),
                   "WORK": str(place / "work"), "OUT": str(place / "out"), "SANITIZER": flavour.sanitizer, "ARCHITECTURE": "x86_64",
                   "FUZZING_ENGINE": flavour.service, "FUZZING_LANGUAGE": "c"}
    done = subprocess.run(["bash", "-eu", str(script)], cwd=place / "src/nxmem", env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace")
    need(done.returncode == 0, f"build.sh ended with {done.returncode}\n{done.stdout[-3000:]}")
    (place / "out").rename(place / "results")
    shutil.rmtree(place / "src")
    shutil.rmtree(place / "work")
    return place / "results"


# ---- What a program is ---------------------------------------------------------------------------------------------------------------------


def check_needs(flavour, program):
    listed = run(["ldd", program]).stdout
    needed = {line.split()[0] for line in listed.splitlines()}
    extra = {n for n in needed if not n.startswith(("linux-vdso", "/lib64/ld-linux"))} - LIBRARIES - set(flavour.libraries)
    need(not extra, f"needs {', '.join(sorted(extra))}, which is not there where it runs")


def calls_in_product(program):
    """Calls of each sanitizer's runtime from functions of the product."""
    found = {"__asan": 0, "__ubsan": 0, "__msan": 0}
    ours = False
    for line in run(["objdump", "-d", "--no-show-raw-insn", program]).stdout.splitlines():
        if line.endswith(">:"):
            ours = re.search(r"<(nx_|nxmem_(?!fuzz))", line) is not None
        elif ours and (call := re.search(r"\b(?:call|jmp)q?\s+[0-9a-f]+ <(__asan|__ubsan|__msan)", line)):
            found[call[1]] += 1
    return found


def check_instrumented(flavour, program):
    found = calls_in_product(program)
    wanted = found.pop(flavour.calls, None)
    need(wanted is None or wanted >= FEWEST_CALLS[flavour.calls], f"{wanted} calls of {flavour.calls} in the product's own functions")
    mixed = [name for name, count in found.items() if count]
    need(not mixed, f"is instrumented for {', '.join(mixed)} as well")


# ---- Running it ----------------------------------------------------------------------------------------------------------------------------


def unpack(results, target, to):
    """The inputs of its archive: as many as there are in the sources."""
    sources = [p for folder in ("seeds", "corpus", "found") for p in (ROOT / "fuzz" / folder / target).glob("*") if p.is_file() and p.name[0] != "."]
    with zipfile.ZipFile(results / f"fuzz_{target}_seed_corpus.zip") as archive:
        archive.extractall(to)
    there = [p for p in to.iterdir() if p.is_file()]
    need(len(there) == len(sources), f"{len(there)} inputs in its archive, needed {len(sources)}")
    return len(there)


def options(results, target):
    parsed = configparser.ConfigParser()
    parsed.read(results / f"fuzz_{target}.options")
    return [f"-{name}={value}" for name, value in parsed["libfuzzer"].items()]


# The limit of all memory is kept by a thread of the engine. On a busy machine it may still be starting at the first look
# for leaks: what glibc then holds for it, on a stack that nobody knows yet, is reported as lost.
NO_THREAD = ["-rss_limit_mb=0", "-malloc_limit_mb=2560"]


def run_libfuzzer(flavour, results, target, place):
    inputs = unpack(results, target, place / "inputs")
    program = results / f"fuzz_{target}"
    counts_edges = flavour.sanitizer != "coverage"  # without, the engine only replays
    runs = inputs + 500 if counts_edges else 0
    environment = {**os.environ, "UBSAN_OPTIONS": "silence_unsigned_overflow=1", "LLVM_PROFILE_FILE": str(place / "profile")}
    done = run([program, *options(results, target), f"-dict={results}/fuzz_{target}.dict", "-seed=1337", f"-runs={runs}", *NO_THREAD,
                "-timeout=25", "inputs"], cwd=place, env=environment)
    ran = re.search(r"^Done (\d+) runs", done.stdout, re.M)
    need(done.returncode == 0 and ran and int(ran[1]) >= max(runs, inputs), f"ended with {done.returncode}\n{done.stdout[-2000:]}")
    need("found LLVMFuzzerCustomMutator" in done.stdout, "its mutator is not compiled in")
    edges = re.search(r"Loaded \d+ modules?\s+\((\d+) (?:inline 8-bit counters|guards)", done.stdout)
    need(not counts_edges or edges and int(edges[1]) >= 100, f"{edges and edges[1]} edges are counted")
    return f"{ran[1]} runs"


def run_afl(_, results, target, place):
    inputs = unpack(results, target, place / "inputs")
    environment = {**os.environ, "AFL_QUIET": "1", "AFL_NO_UI": "1", "AFL_SKIP_CPUFREQ": "1", "AFL_NO_AFFINITY": "1",
                   "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1", "AFL_FORKSRV_INIT_TMOUT": "30000"}
    done = run(["afl-showmap", "-C", "-m", "none", "-t", "10000", "-i", "inputs", "-o", "map", "--", results / f"fuzz_{target}"], cwd=place,
               env=environment)
    need(done.returncode == 0, f"afl-showmap ended with {done.returncode}\n{done.stdout[-2000:]}")
    edges = len((place / "map").read_text().splitlines())
    need(edges >= 100, f"{edges} edges are counted")
    if target not in CAMPAIGNS:
        return f"{inputs} inputs, {edges} edges"
    done = run(["afl-fuzz", "-m", "none", "-t", "10000", "-V", "2", "-i", "inputs", "-o", "found", "-x", results / f"fuzz_{target}.dict", "--",
                results / f"fuzz_{target}"], cwd=place, env=environment)
    need("All set and ready to roll" in done.stdout, f"afl-fuzz does not start\n{done.stdout[-2000:]}")
    need(not list(place.glob("found/default/crashes/id*")), "afl-fuzz finds a crash in two seconds")
    return f"{inputs} inputs, {edges} edges, a campaign"


def run_coverage(flavour, results, target, place):
    said = run_libfuzzer(flavour, results, target, place)
    merged = run(["llvm-profdata", "merge", "-sparse", place / "profile", "-o", place / "merged"])
    need(merged.returncode == 0, merged.stdout[-500:])
    report = run(["llvm-cov", "report", results / f"fuzz_{target}", f"-instr-profile={place / 'merged'}"]).stdout
    product = [line.split() for line in report.splitlines() if re.match(r"\S*(abi|host)/(src|cli)/\S+\.c\s", line)]
    need(any(float(columns[-1].rstrip("%")) > 0 or columns[-4] != "0.00%" for columns in product), f"counts no line of the product\n{report}")
    return f"{said}, {len(product)} files of the product"


RUNS = {"afl": run_afl, "coverage": run_coverage}


# ---- All of it -----------------------------------------------------------------------------------------------------------------------------


def check_target(name, flavour, results, target, place):
    place.mkdir()
    program = results / f"fuzz_{target}"
    need(os.access(program, os.X_OK), "is not there")
    need("x86-64" in run(["file", "-L", program]).stdout, "is no program of this machine")
    check_needs(flavour, program)
    check_instrumented(flavour, program)
    return RUNS.get(name, run_libfuzzer)(flavour, results, target, place)


def check_results(flavour, results, targets):
    """Whatever has no extension is taken for a target."""
    programs = {p.name for p in results.iterdir() if "." not in p.name}
    wanted = {f"fuzz_{t}" for t in targets}
    need(programs == wanted, f"found {sorted(programs)}, needed {sorted(wanted)}")


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def check(self, what, function, *arguments):
        self.count += 1
        said = None
        try:
            said = function(*arguments)
        except (Wrong, subprocess.TimeoutExpired, OSError, ValueError, KeyError, zipfile.BadZipFile) as wrong:
            self.failed += 1
            print(f"not ok {self.count} - {what}", *(f"# {line}" for line in str(wrong).splitlines()), sep="\n", flush=True)
            return None
        print(f"ok {self.count} - {what}" + (f" ({said})" if isinstance(said, str) else ""), flush=True)
        return said or True


def check_flavour(tap, name):
    flavour = FLAVOURS[name]
    targets = sorted(p.stem for p in (ROOT / "fuzz/targets").glob("*.c") if p.stem not in flavour.leaves_out)
    with tempfile.TemporaryDirectory(prefix="nxmem-oss-fuzz-") as folder:
        results = tap.check(f"{name}: build.sh builds", build, flavour, pathlib.Path(folder))
        if results is None:
            return
        tap.check(f"{name}: every target and nothing else", check_results, flavour, results, targets)
        for target in targets:
            tap.check(f"{name}: {target}", check_target, name, flavour, results, target, pathlib.Path(folder) / target)


def main(arguments):
    if not arguments or set(arguments) - set(FLAVOURS):
        print(__doc__, file=sys.stderr)
        return 0 if arguments and arguments[0] in ("--help", "-h") else 2
    missing = [tool for tool in ("clang", "cmake", "ninja", "objdump", "ldd", "file", "git") if shutil.which(tool) is None]
    if "afl" in arguments and not os.path.exists(AFL_DRIVER):
        missing.append(AFL_DRIVER)
    if missing:
        print(f"Bail out! not found: {' '.join(missing)}")
        return 3
    tap = Tap()
    tap.check("project.yaml offers what is built here", check_offer)
    with contextlib.suppress(KeyboardInterrupt):
        for name in arguments:
            check_flavour(tap, name)
    print(f"1..{tap.count}\n# {tap.count - tap.failed} passed, {tap.failed} failed")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
