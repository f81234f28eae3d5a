#!/usr/bin/env python3
"""Take the host's defences away, one at a time: each must be missed by a test.

    python3 tests/defences/run.py [--only NAME] [--list] [--jobs N] [--limit S] [--json FILE]

defences.toml names each defence, the one place in the source that it stands at, what stands there without it, and the tests that
must notice. A defence's text has to be found exactly once. The tests are green before the first removal and after the last one; a
removal must turn at least one of them red. Works on copies under build/defences; the sources are left alone.

Prints a matrix: defence, which tests turned red, the first row that did. Last line: `defences: K/N removals noticed`.
Exit codes: 0 all noticed, 1 a removal that no test noticed, 2 usage, 3 could not run (a text not found once, tests red without
any removal, a build that fails).
"""
import argparse
import concurrent.futures
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ROW = re.compile(r"^not ok \d+ (?:- )?(.*)$", re.MULTILINE)

# What is left over where a defence is gone.
UNUSED = "-Wno-unused-function -Wno-unused-parameter -Wno-unused-variable -Wno-unused-but-set-variable"


class CannotRun(Exception):
    """What stands in the way, in one line."""


def load(path, only):
    with open(path, "rb") as file:
        defences = tomllib.load(file)["defence"]
    names = [d["name"] for d in defences]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise CannotRun(f"{path}: found twice: {', '.join(sorted(doubled))}")
    unknown = [name for name in only if name not in names]
    if unknown:
        raise CannotRun(f"found no defence named {', '.join(unknown)}; --list shows what there is")
    return [d for d in defences if not only or d["name"] in only]


def edits_of(defence):
    """A removal may take several edits; each text stands exactly once in its file."""
    return defence.get("edit") or [defence]


def damaged(root, defence):
    """path -> text without the defence."""
    texts = {}
    for edit in edits_of(defence):
        path = edit["file"]
        if path not in texts:
            with open(f"{root}/{path}", encoding="utf-8") as file:
                texts[path] = file.read()
        count = texts[path].count(edit["find"])
        if count != 1:
            raise CannotRun(f"{defence['name']}: {path}: found its text {count} times, needed once: mend defences.toml")
        texts[path] = texts[path].replace(edit["find"], edit["put"])
    return texts


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def same(first, second):
    if not os.path.exists(second):
        return False
    with open(first, "rb") as a, open(second, "rb") as b:
        return a.read() == b.read()


class Tree:
    """A copy of the sources with a build of its own; kept between runs, so that little is built anew."""

    def __init__(self, root, place, limit):
        self.limit = limit
        self.source, self.build = f"{place}/source", f"{place}/build"
        listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=True)
        names = {n.decode() for n in listed.stdout.split(b"\0") if n and os.path.isfile(os.path.join(root.encode(), n))}
        self.remove_others(names)
        for name in names:
            if same(f"{root}/{name}", f"{self.source}/{name}"):
                continue
            os.makedirs(os.path.dirname(f"{self.source}/{name}"), exist_ok=True)
            shutil.copy(f"{root}/{name}", f"{self.source}/{name}")

    def remove_others(self, names):
        for folder, _, files in os.walk(self.source):
            for name in files:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.source) not in names:
                    os.remove(path)

    def run(self, *command, seconds=900):
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds)

    def configure(self):
        done = self.run("cmake", "-G", "Ninja", "-S", self.source, "-B", self.build, "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                        f"-DCMAKE_C_FLAGS={UNUSED}")
        if done.returncode:
            raise CannotRun(f"configuring failed: {done.stderr.strip().splitlines()[-1]}")

    def make(self, targets):
        done = self.run("ninja", "-C", self.build, "-j1", *targets)
        return "" if done.returncode == 0 else done.stdout[-2000:]

    def test(self, names):
        """Test -> first failing row, of those that turned red; a hang is red too."""
        expression = "^(" + "|".join(map(re.escape, names)) + ")$"
        done = self.run("ctest", "--test-dir", self.build, "-R", expression, "--timeout", str(self.limit), "--output-on-failure", "--no-tests=error")
        if "No tests were found" in done.stdout + done.stderr:
            raise CannotRun(f"no test matches {expression}")
        return read_failures(done.stdout)


def read_failures(text):
    red = {}
    parts = re.split(r"(?m)^ *\d+/\d+ Test +#\d+: ", text)
    for part in parts[1:]:
        first, _, rest = part.partition("\n")
        name = first.split(" ", 1)[0]
        if "Passed" in first:
            continue
        rows = ROW.findall(rest)
        red[name] = rows[0] if rows else first.split("***", 1)[-1].strip()
    return red


def targets_of(build, tests):
    """The programs behind the tests; `all` where one is a script."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    commands = {t["name"]: t.get("command", [""])[0] for t in json.loads(listed.stdout)["tests"]}
    missing = [name for name in tests if name not in commands]
    if missing:
        raise CannotRun(f"defences.toml names tests that there are not: {', '.join(missing)}")
    programs = [os.path.basename(commands[name]) for name in tests]
    return programs if all(p.startswith("test_") for p in programs) else ["all"]


def baseline(tree, tests, when):
    failure = tree.make(targets_of(tree.build, tests))
    if failure:
        raise CannotRun(f"{when}: the build fails:\n{failure}")
    red = tree.test(tests)
    if red:
        raise CannotRun(f"{when}: red without any removal: " + "; ".join(f"{t}: {row}" for t, row in red.items()))


def remove(tree, root, defence):
    """Which tests turned red, or why it could not be tried. The tree is as before afterwards."""
    texts = damaged(root, defence)
    originals = {}
    for path in texts:
        with open(f"{root}/{path}", encoding="utf-8") as file:
            originals[path] = file.read()
    try:
        for path, text in texts.items():
            write(f"{tree.source}/{path}", text)
        failure = tree.make(targets_of(tree.build, defence["tests"]))
        if failure:
            raise CannotRun(f"{defence['name']}: does not build without it:\n{failure}")
        return tree.test(defence["tests"])
    finally:
        for path, text in originals.items():
            write(f"{tree.source}/{path}", text)


def show(done, count, defence, red):
    if red:
        said = "; ".join(f"{test}: {row}" for test, row in sorted(red.items()))
    else:
        said = "NOT NOTICED by " + ", ".join(defence["tests"])
    print(f"[{done}/{count}] {defence['name']}: {said}", flush=True)


def try_all(root, defences, jobs, limit):
    for defence in defences:
        damaged(root, defence)  # all texts stand once, before an hour is spent
    trees = queue.Queue()
    everything = sorted({test for d in defences for test in d["tests"]})
    made = []
    for n in range(jobs):
        tree = Tree(root, f"{root}/build/defences/{n}", limit)
        tree.configure()
        made.append(tree)
        trees.put(tree)
    print(f"building, and {len(everything)} tests green without any removal", flush=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda tree: baseline(tree, everything, "before"), made))

    def one(defence):
        tree = trees.get()
        try:
            return defence, remove(tree, root, defence)
        finally:
            trees.put(tree)

    results = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for task in concurrent.futures.as_completed([pool.submit(one, d) for d in defences]):
            defence, red = task.result()
            results.append({"name": defence["name"], "guards": defence["guards"], "noticed": bool(red), "red": red})
            show(len(results), len(defences), defence, red)
    baseline(made[0], everything, "after")
    print("green again", flush=True)
    return sorted(results, key=lambda r: r["name"])


def matrix(results):
    width = max(len(r["name"]) for r in results)
    for r in results:
        print(f"{r['name']:<{width}}  {'yes' if r['noticed'] else 'NO '}  {', '.join(sorted(r['red'])) or '-'}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this defence (may be given again)")
    parser.add_argument("--list", action="store_true", help="show the defences and end")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="removals at a time (processors)")
    parser.add_argument("--limit", type=int, default=120, metavar="S", help="seconds for one test; longer is red (120)")
    parser.add_argument("--json", metavar="FILE", help="write the matrix")
    parser.add_argument("--root", default=ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--table", default=f"{HERE}/defences.toml", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse()
    try:
        defences = load(args.table, args.only)
        if args.list:
            for d in defences:
                print(f"{d['name']}: {d['guards']}")
            return 0
        started = time.monotonic()
        results = try_all(os.path.abspath(args.root), defences, max(1, min(args.jobs, len(defences))), args.limit)
    except (CannotRun, OSError, tomllib.TOMLDecodeError, subprocess.TimeoutExpired) as error:
        print(f"defences: {error}", file=sys.stderr)
        return 3
    matrix(results)
    noticed = sum(r["noticed"] for r in results)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"command": sys.argv, "seconds": round(time.monotonic() - started, 1), "defences": results}, file, indent=1)
    print(f"defences: {noticed}/{len(results)} removals noticed")
    return 0 if noticed == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
