#!/usr/bin/env python3
"""What the fuzz targets' inputs alone execute: python3 tests/corpus_coverage.py [--build] BUILD_FOLDER

Replays the seeds, the corpus and the earlier finds of each target in a build of the preset coverage, counts apart from the tests' runs, and
prints lines and branches of abi/src, of host/src (what pins a file apart), of host/policy and of plugins/vmm: by target, then of all together.
Lines of abi/src and host/src that no input executes are listed, each with its reason from tests/coverage_reasons.toml. --build configures and
builds what it needs in that folder first. The last line is
`coverage by corpus: abi L% lines B% branches; host L% B%; N lines never run, M without a reason`.
Exit 1 below a bar, where a line has no reason, or a reason no line; 2 usage; 3 could not build.
"""
import collections
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
REASONS = ROOT / "tests/coverage_reasons.toml"
# The first that fits; the command and the adapters are no part of the library and are not counted.
AREAS = {"abi": r"abi/src/", "pinned": r"host/src/(pinned|grant)", "host": r"host/src/", "policy": r"host/policy/", "vmm": r"plugins/vmm/"}
BARS = {"abi": (100.0, 98.0), "host": (90.0, 0.0)}
NEEDS_REASON = ("abi", "host", "pinned")


class File:
    """Counts of one source file, summed over whoever compiled it."""

    def __init__(self):
        self.lines = collections.Counter()
        self.branches = {}  # line: counts in the compiler's order
        self.functions = {}  # name: first and last line

    def add(self, number, count, branches):
        self.lines[number] += count
        mine = self.branches.setdefault(number, [0] * len(branches))
        mine.extend([0] * (len(branches) - len(mine)))
        for i, branch in enumerate(branches):
            mine[i] += branch

    def merge(self, other):
        for number, count in other.lines.items():
            self.add(number, count, other.branches[number])
        self.functions.update(other.functions)

    def function_of(self, number):
        return next((name for name, (first, last) in self.functions.items() if first <= number <= last), None)

    def never_run(self):
        return sorted(number for number, count in self.lines.items() if count == 0)


def fuzz_tests(build):
    """Target: command of its replay, as CTest has it."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", "-R", "^fuzz_replay_"], check=True, capture_output=True, text=True)
    found = {t["name"].removeprefix("fuzz_replay_"): t.get("command") for t in json.loads(listed.stdout)["tests"]}
    if not found or not all(found.values()):
        raise SystemExit(f"corpus_coverage: {build} has no fuzz targets built: cmake --preset coverage && cmake --build --preset coverage")
    return found


def replay(build, target, command, complaints):
    """Runs the target with counters of its own; a folder like the build's, with notes and counts of its objects."""
    prefix = pathlib.Path(build).resolve() / "corpus" / target
    shutil.rmtree(prefix, ignore_errors=True)
    ran = subprocess.run(command, env={**os.environ, "GCOV_PREFIX": str(prefix)}, capture_output=True, text=True)
    if ran.returncode != 0:
        complaints.append(f"{target}: fails on its own inputs (ctest -R fuzz_replay_{target}); what it counted until then counts")
    return prefix


def counted_objects(prefix):
    """Counter files of product code, each with the compiler's notes beside it."""
    found = []
    for counts in prefix.rglob("*.gcda"):
        notes = pathlib.Path("/") / counts.relative_to(prefix).with_suffix(".gcno")
        if "/fuzz_" in str(notes) or "nxmem_fuzz_" in str(notes) and not re.search("nxmem_fuzz_(cli|policy)", str(notes)):
            continue
        beside = counts.with_suffix(".gcno")
        beside.unlink(missing_ok=True)
        beside.symlink_to(notes)
        found.append(str(counts))
    return sorted(found)


def area_of(path):
    return next((area for area, pattern in AREAS.items() if re.match(pattern, path)), None)


def read_counts(objects):
    """Path below the root: File."""
    if not objects:
        return {}
    out = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout", *objects], check=True, capture_output=True, text=True)
    files = collections.defaultdict(File)
    for report in map(json.loads, out.stdout.splitlines()):
        for source in report["files"]:
            path = os.path.relpath(os.path.join(report["current_working_directory"], source["file"]), ROOT)
            if area_of(path):
                take(files[path], source, (ROOT / path).read_text(encoding="utf-8").splitlines())
    return files


def take(file, source, text):
    file.functions.update((f["name"], (f["start_line"], f["end_line"])) for f in source["functions"])
    for line in source["lines"]:
        if re.search(r"\w", text[line["line_number"] - 1]):  # a closing brace alone is no code
            file.add(line["line_number"], line["count"], [b["count"] for b in line["branches"]])


def share(files, area):
    """Per cent of lines and branches, and of how many lines."""
    mine = [f for path, f in files.items() if area_of(path) == area]
    lines = [count for f in mine for count in f.lines.values()]
    branches = [count for f in mine for counts in f.branches.values() for count in counts]
    per_cent = [100.0 * sum(c > 0 for c in counts) / len(counts) if counts else 100.0 for counts in (lines, branches)]
    return (*per_cent, len(lines))


def floor1(percent):
    """One decimal, never rounded up: 100.0 means all of them."""
    return int(percent * 10) / 10


def whole(of_targets):
    """All targets together; what one does not link another may, and what none links is seen by name."""
    together = collections.defaultdict(File)
    for files in of_targets.values():
        for path, file in files.items():
            together[path].merge(file)
    return together


def not_linked(together):
    sources = [str(p.relative_to(ROOT)) for folder in ("abi/src", "host/src") for p in (ROOT / folder).glob("*.c")]
    return sorted(set(sources) - set(together))


def print_table(of_targets, together):
    print(" " * 12 + "".join(f"{area + ' lines':>16} {'branches':>9}" for area in AREAS))
    for name, files in (*of_targets.items(), ("all", together)):
        print(f"{name:12}" + "".join(cells(with_others(files, together, area), area) for area in AREAS))


def cells(known, area):
    if not any(map(any_run, known.values())):
        return f"{'-':>16} {'-':>9}"
    lines, branches, _ = share(known, area)
    return f"{floor1(lines):15}% {floor1(branches):8}%"


def any_run(file):
    return any(file.lines.values())


def with_others(files, together, area):
    """A target's counts, and zeros for what only others link: shares are of the whole area."""
    known = {}
    for path, file in together.items():
        if area_of(path) != area:
            continue
        known[path] = File()
        for number in file.lines:
            known[path].add(number, 0, [0] * len(file.branches[number]))
        if path in files:
            known[path].merge(files[path])
    return known


# ---- Reasons -------------------------------------------------------------------------------------------------------------------------------


def lines_of_place(place, together, open_lines):
    """The lines that a place of a reason explains, and what is wrong with it: "FILE:FUNCTION COUNT" (or LEAST-MOST), or "FILE" alone."""
    where, _, count = place.partition(" ")
    pattern, _, function = where.partition(":")
    found = [(path, n) for path, n in open_lines
             if fnmatch.fnmatch(path, pattern) and (not function or together[path].function_of(n) == function)]
    least, _, most = count.partition("-")
    if not found and least != "0":
        return [], f"{place}: no line there that never runs; the reason goes"
    if count and not int(least) <= len(found) <= int(most or least):
        return [], f"{place}: {len(found)} lines there never run"
    return found, None


def explain(together, reasons):
    """{(path, line): why} of what never ran, and complaints about reasons that do not fit."""
    open_lines = {(path, n): None for path, f in sorted(together.items()) if area_of(path) in NEEDS_REASON for n in f.never_run()}
    complaints = []
    for reason in reasons:
        for place in reason["at"]:
            found, wrong = lines_of_place(place, together, open_lines)
            complaints += [wrong] if wrong else []
            open_lines.update(dict.fromkeys(found, reason["why"]))
    return open_lines, complaints


def print_lines(open_lines):
    last = None
    for (path, number), why in open_lines.items():
        if (path, why) != last:
            print(f"{path}: {why or 'NO REASON'}")
        last = (path, why)
        print(f"  {number:4}  {(ROOT / path).read_text(encoding='utf-8').splitlines()[number - 1].strip()}")


def measure(build):
    """Prints everything; 0 where every bar holds."""
    complaints = []
    of_targets = {t: read_counts(counted_objects(replay(build, t, command, complaints))) for t, command in sorted(fuzz_tests(build).items())}
    together = whole(of_targets)
    open_lines, stale = explain(together, tomllib.loads(REASONS.read_text(encoding="utf-8")).get("reason", []))
    complaints += stale + [f"{path}: no fuzz target links it" for path in not_linked(together)]
    print_lines(open_lines)
    print_table(of_targets, together)
    for complaint in complaints:
        print(complaint)
    figures = {area: share(together, area) for area in AREAS}
    for area, bars in BARS.items():
        for what, found, needed in zip(("lines", "branches"), figures[area], bars):
            if found < needed:
                complaints.append(area)
                print(f"{area}: {floor1(found)}% of {what}, needed {needed}%")
    unexplained = sum(why is None for why in open_lines.values())
    words = "; ".join(f"{area} {floor1(figures[area][0])}% lines {floor1(figures[area][1])}% branches" for area in BARS)
    print(f"coverage by corpus: {words}; {len(open_lines)} lines never run, {unexplained} without a reason")
    return 1 if complaints or unexplained else 0


def build_targets(build):
    """The preset's settings, in whichever folder."""
    for command in (["cmake", "--preset", "coverage", "-B", build], ["cmake", "--build", build, "--target", "fuzz_all"]):
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            print(done.stdout[-3000:], file=sys.stderr)
            raise SystemExit(3)


def main(arguments):
    if arguments in (["--help"], ["-h"]):
        print(__doc__)
        return 0
    build_first = arguments[:1] == ["--build"]
    folders = arguments[1:] if build_first else arguments
    if len(folders) != 1 or folders[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    if build_first:
        build_targets(os.path.abspath(folders[0]))
    return measure(folders[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
