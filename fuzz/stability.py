#!/usr/bin/env python3
"""Does an input take the same path each time? AFL++ keeps one process for many inputs; what an earlier one left behind
shows as edges whose count varies.

Each target runs a while under afl-fuzz, from its seeds; its own calibration says which edges vary. They are listed as
functions with source lines. What is known to vary, and why, says unstable.txt beside this script: one name of a function
or a file a line, then the reason.

Last line: "stability: T targets, lowest S %", and which of them are below 97 % and not explained. Exit code: 0 each target
has 97 % or more, or varies only where unstable.txt explains it; 1 one does not; 2 usage; 3 could not run. --self builds a
target that keeps what it must not, and looks whether that is told, and where (TAP).
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from campaign.places import most_bytes
from campaign.places import targets as known_targets

ROOT = pathlib.Path(__file__).resolve().parents[1]
BAR = 97.0  # per cent
FIRST_EDGE = 1  # the first guard: AFL++ counts them from there
QUIET = {"AFL_QUIET": "1", "AFL_NO_UI": "1", "AFL_SKIP_CPUFREQ": "1", "AFL_NO_AFFINITY": "1",
         "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1", "AFL_DEBUG": "0"}  # the last: which edges vary, in its statistics


def fail(text):
    print(f"stability: {text}", file=sys.stderr)
    sys.exit(3)


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def guard_addresses(binary):
    """From where each edge's guard lies to an instruction that uses it."""
    symbols = {name: int(address, 16) for address, _, name in
               (line.split() for line in output_of("nm", binary).splitlines() if len(line.split()) == 3)}
    start, stop = symbols["__start___sancov_guards"], symbols["__stop___sancov_guards"]
    places = {}
    for line in output_of("objdump", "-d", "--no-show-raw-insn", binary).splitlines():
        found = re.match(r"\s*([0-9a-f]+):.*# ([0-9a-f]+) <", line)
        if found is None or not start <= int(found[2], 16) < stop:
            continue
        places.setdefault((int(found[2], 16) - start) // 4 + FIRST_EDGE, int(found[1], 16))
    return places


def home_of(binary):
    """What the paths of a build are relative to."""
    cache = (binary.parent.parent / "CMakeCache.txt").read_text()
    return re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache, re.M)[1]


def source_of(binary, edges):
    """For each edge (function, file, line), of the function that it was compiled from."""
    home = home_of(binary)
    places = guard_addresses(binary)
    known = [edge for edge in edges if edge in places]
    asked = "\n".join(hex(places[edge]) for edge in known)
    answer = subprocess.run(["llvm-symbolizer", "--no-inlines", "-e", binary], input=asked, capture_output=True, text=True,
                            check=True).stdout.strip().split("\n\n")
    where = {}
    for edge, block in zip(known, answer):
        function, place = block.splitlines()[:2]
        file, line = place.rsplit(":", 2)[:2]
        where[edge] = (function, os.path.relpath(file, home) if file.startswith("/") else file, int(line))
    return where


def inputs_of(target, folder, most):
    folder.mkdir(parents=True)
    if not (ROOT / "fuzz/seeds" / target).is_dir():
        (folder / "some").write_bytes(b"some")
    sources = [p for kind in ("seeds", "corpus") for p in sorted((ROOT / "fuzz" / kind / target).glob("*"))
               if p.is_file() and 0 < p.stat().st_size <= most_bytes(target)]
    for path in sources[::max(1, len(sources) // most)]:
        shutil.copy(path, folder)
    return len(list(folder.iterdir()))


def measure(binaries, target, arguments, folder):
    """Returns what afl-fuzz says at the end."""
    count = inputs_of(target, folder / "in", arguments.inputs)
    if count == 0:
        fail(f"{target} has no seeds")
    print(f"  {target}: {count} inputs, {arguments.seconds} s", file=sys.stderr, flush=True)
    with open(folder / "log", "wb") as log:
        subprocess.run(["afl-fuzz", "-i", folder / "in", "-o", folder / "out", "-V", str(arguments.seconds), "-t", "2000",
                        "-m", "none", "--", binaries / f"fuzz_{target}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                       env={**os.environ, **QUIET}, check=False)
    stats = folder / "out/default/fuzzer_stats"
    if not stats.exists():
        fail(f"afl-fuzz did not run {target}:\n" + (folder / "log").read_text(errors="replace")[-2000:])
    return dict(re.split(r"\s*:\s*", line, maxsplit=1) for line in stats.read_text().splitlines() if ":" in line)


def explanations():
    path = ROOT / "fuzz/unstable.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))


def row_of(binary, stats):
    edges = [int(edge) for edge in stats.get("var_bytes", "").split()]
    reasons = explanations()
    where = source_of(binary, edges) if edges else {}
    groups = collections.defaultdict(list)
    for function, file, line in where.values():
        groups[function, file].append(line)
    listed = [{"function": function, "file": file, "lines": sorted(set(lines)),
               "reason": reasons.get(function) or reasons.get(file, "")} for (function, file), lines in groups.items()]
    return {"stability": float(stats["stability"].rstrip("%")), "edges": int(stats["edges_found"]), "unstable": len(edges),
            "execs": int(stats["execs_done"]), "where": sorted(listed, key=lambda row: (row["file"], row["lines"])),
            "explained": len(where) == len(edges) and all(row["reason"] for row in listed)}


def tell(target, row):
    print(f"{target}: stability {row['stability']:.2f} %, {row['unstable']} of {row['edges']} edges vary, "
          f"{row['execs']:,} inputs", flush=True)
    for place in row["where"]:
        lines = ",".join(map(str, place["lines"]))
        print(f"    {place['file']}:{lines}  {place['function']}  {place['reason'] or 'not explained'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="default: all that are built")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/afl", help="an AFL++ build folder")
    parser.add_argument("--seconds", type=int, default=20, help="for each target")
    parser.add_argument("--inputs", type=int, default=200, help="to begin with, at most")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--self", dest="itself", action="store_true", help="does this see what varies? Needs no build folder")
    arguments = parser.parse_args()
    unknown = [t for t in arguments.targets if t not in known_targets()]
    if unknown:
        parser.error(f"no target '{unknown[0]}'; there are: {', '.join(known_targets())}")
    for tool in ("afl-fuzz", "afl-clang-fast", "objdump", "nm", "llvm-symbolizer"):
        if shutil.which(tool) is None:
            fail(f"{tool} is missing")
    if arguments.itself:
        return look_at_itself(arguments)
    binaries = (arguments.build / "bin").resolve()
    targets = arguments.targets or sorted(p.name[5:] for p in binaries.glob("fuzz_*") if p.suffix == "")
    missing = [t for t in targets if not (binaries / f"fuzz_{t}").exists()]
    if missing or not targets:
        fail(f"{binaries} lacks {'fuzz_' + missing[0] if missing else 'targets'}: cmake --preset afl && "
             "cmake --build build/afl --target fuzz_all")
    rows = {}
    for target in targets:
        with tempfile.TemporaryDirectory() as name:
            stats = measure(binaries, target, arguments, pathlib.Path(name))
            rows[target] = row_of(binaries / f"fuzz_{target}", stats)
        tell(target, rows[target])
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    return close(rows)


def close(rows):
    """Prints the last line; the exit code."""
    missed = [target for target, row in rows.items() if row["stability"] < BAR and not row["explained"]]
    print(f"stability: {len(rows)} targets, lowest {min(row['stability'] for row in rows.values()):.2f} %" +
          (f", below {BAR:g} % and not explained: {', '.join(missed)}" if missed else ""))
    return int(bool(missed))


# ---- Itself --------------------------------------------------------------------------------------------------------

# Takes its path by how often it was called, in so many places that they are more than what may vary.
KEEPS = """
#include <stdint.h>
#include <stddef.h>
static volatile unsigned int calls, sum;
__attribute__((noinline)) static void as_before(unsigned int n) {
%s
}
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  as_before(KEPT ? calls++ : size > 0 ? data[0] : 0u);
  return 0;
}
void fuzz_start(void) {}
"""


def build_itself(folder, kept):
    branches = "\n".join(f"  if (n / {n + 1}u % 2u != 0u) sum += {n + 1}u;" for n in range(40))
    (folder / "bin").mkdir(parents=True)
    (folder / "target.c").write_text(KEEPS % branches)
    (folder / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={folder}\n")
    done = subprocess.run(["afl-clang-fast", "-g", "-O1", f"-DKEPT={kept}", f"-I{ROOT}/fuzz/support", f"-I{ROOT}/abi/include",
                           f"{folder}/target.c", f"{ROOT}/fuzz/mains/afl_main.c", "-o", f"{folder}/bin/fuzz_itself"],
                          capture_output=True, text=True, env={**os.environ, **QUIET}, check=False)
    if done.returncode != 0:
        fail("the target of --self cannot be built:\n" + done.stderr)


def look_at_itself(arguments):
    """Whether what is kept is seen and named, whether what keeps nothing passes, and whether reasons are heeded."""
    results = []
    for kept in (1, 0):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            build_itself(folder, kept)
            row = row_of(folder / "bin/fuzz_itself", measure(folder / "bin", "itself", arguments, folder / "run"))
        tell("itself", row)
        code = close({"itself": row})
        named = any(place["function"] == "as_before" and place["file"] == "target.c" for place in row["where"])
        results += [(f"a target that keeps {'its calls' if kept else 'nothing'} ends with {kept}", code == kept)]
        results += [("the function that varies is named", named),
                    ("explained, it ends with 0", close({"itself": {**row, "explained": True}}) == 0)] if kept else []
    for number, (what, good) in enumerate(results, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {what}")
    print(f"1..{len(results)}")
    return int(not all(good for _, good in results))


if __name__ == "__main__":
    sys.exit(main())
