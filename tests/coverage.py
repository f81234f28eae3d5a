#!/usr/bin/env python3
"""Lines and branches that the tests and corpora executed: python3 tests/coverage.py BUILD_FOLDER

Reads what a run of the coverage preset left there through gcovr, lists the uncovered lines of abi/ and host/, writes BUILD_FOLDER/coverage.json
(with revision, command and tool version), says what the fuzz targets' inputs alone execute (corpus_coverage.py) and ends with
`coverage: abi L% lines B% branches; host L% B%`.
Exit 1 when abi/ is below 100 % of lines or 95 % of branches, or where corpus_coverage.py says so.
"""
import json
import subprocess
import sys

import corpus_coverage

ABI_LINES, ABI_BRANCHES = 100.0, 95.0
AREAS = {"abi": "abi/src/", "host": "host/src/"}


def gcovr(build):
    command = ["gcovr", "--root", ".", "--object-directory", build, "--filter", "abi/src/", "--filter", "host/src/", "--json"]
    return command, json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def code_lines(f):
    """gcovr lists comments and blank lines as well."""
    return [line for line in f["lines"] if not line.get("gcovr/noncode")]


def share(hit, all_of_them):
    return 100.0 if not all_of_them else 100.0 * hit / all_of_them


def measure(files):
    lines = [line for f in files for line in code_lines(f)]
    branches = [b for line in lines for b in line["branches"]]
    return (share(sum(line["count"] > 0 for line in lines), len(lines)),
            share(sum(b["count"] > 0 for b in branches), len(branches)))


def uncovered(f):
    return [line["line_number"] for line in code_lines(f) if line["count"] == 0]


def half_taken(f):
    return [line["line_number"] for line in code_lines(f) if line["count"] and any(b["count"] == 0 for b in line["branches"])]


def floor1(percent):
    """One decimal, never rounded up: 100.0 means all of them."""
    return int(percent * 10) / 10


def main(arguments):
    if len(arguments) != 2:
        print("usage: coverage.py BUILD_FOLDER", file=sys.stderr)
        return 2
    command, report = gcovr(arguments[1])
    figures = {}
    for area, prefix in AREAS.items():
        files = [f for f in report["files"] if f["file"].startswith(prefix)]
        figures[area] = measure(files)
        for f in files:
            if uncovered(f):
                print(f"{f['file']}: lines never executed: {', '.join(map(str, uncovered(f)))}")
            if half_taken(f):
                print(f"{f['file']}: branches never taken on lines: {', '.join(map(str, half_taken(f)))}")
    revision = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    version = subprocess.run(["gcovr", "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    record = {"command": command, "revision": revision, "tool": version, "preset": "coverage",
              "percent": {a: {"lines": l, "branches": b} for a, (l, b) in figures.items()}}
    with open(f"{arguments[1]}/coverage.json", "w", encoding="utf-8") as out:
        json.dump(record, out, indent=2)
    by_corpus = corpus_coverage.measure(arguments[1])
    (al, ab), (hl, hb) = figures["abi"], figures["host"]
    print(f"coverage: abi {floor1(al)}% lines {floor1(ab)}% branches; host {floor1(hl)}% {floor1(hb)}%")
    return 0 if al >= ABI_LINES and ab >= ABI_BRANCHES and by_corpus == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
