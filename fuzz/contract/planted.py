#!/usr/bin/env python3
"""One fault in each function of the core, static ones too: do the contracts that run see it, on the seeds alone?

    planted.py [--root ROOT] [--only FUNCTION...] [--jobs N] [--json FILE] [--random N]

The fault is planted into the function's first statement that matters: one bit of what its first `return` answers, or,
where it returns nothing, its first assignment or call is dropped. The file is translated and compiled anew, everything
else is built once.
One line a function: the clause that saw it, and of which function. The last line is
"planted: S/N seen on the seeds alone, M more with N random inputs, U unseen".
Exit code: 0 all seen on the seeds, 1 some not, 2 usage, 3 could not build or run.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
DEFINITION = re.compile(r"^((?:static +)?(?:inline +)?(\w+) +\**(\w+)\([^;{}]*\)) *\{([^\n]*\}$|.*?^\})", re.M | re.S)
RETURN = re.compile(r"\breturn\s+([^;]+);")
# Of a function that answers nothing: an assignment, or a call of another; not one behind a condition.
STATEMENT = re.compile(r"^  (?:for \([^\n]*\) )?(?P<it>[\w\->.\[\]]+ = [^;]*;|\w+\([^;]*\);)", re.M)


class CouldNotRun(Exception):
    pass


def functions(path):
    """(name, result type, start and end of the body) of each function that a file defines."""
    blanked = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), path.read_text(), flags=re.S)
    return [(m.group(3), m.group(2), m.start(4), m.end(4)) for m in DEFINITION.finditer(blanked)]


def fault(body, result):
    """The body with its fault; None where there is no place for one."""
    if result == "void":
        place = STATEMENT.search(body)
        return place and f"{body[:place.start('it')]};{body[place.end('it'):]}"
    place = RETURN.search(body)
    if place is None:
        return None
    answer = place.group(1)
    if result == "nxmem_verdict":
        other = f"{{ nxmem_verdict other = {answer}; other.found ^= 1u; return other; }}"
    else:
        other = f"return ({result})(({answer}) ^ 1);"
    return body[:place.start()] + other + body[place.end():]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def plant(root, base, source, function, random):
    """What saw the fault in the function: a line of contract_replay, and whether the seeds sufficed."""
    name, result, start, end = function
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "tree"
        shutil.copytree(root / "abi", tree / "abi")
        text = source.read_text()
        damaged = fault(text[start:end], result)
        if damaged is None:
            raise CouldNotRun(f"{name}: no place for a fault")
        (tree / source.relative_to(root)).write_text(text[:start] + damaged + text[end:])
        # A static function of a header is in every file that includes it: one of them shows it.
        compiled = source.relative_to(root) if source.suffix == ".c" else pathlib.Path("abi/src/identity.c")
        code, _, words = run([HERE / "build.sh", "--root", tree, "--out", f"{folder}/out", "--only", compiled,
                              "--base", base])
        if code:
            raise CouldNotRun(f"{name}: {words.strip()[-400:]}")
        replay, seeds = f"{folder}/out/contract_replay", root / "fuzz" / "seeds" / "core"
        code, found, words = run([replay, seeds])
        if code == 0 and random:
            _, found, words = run([replay, "--random", str(random), seeds])
            return re.sub(r"input=\S+ ", "", found.strip()) if found.startswith("VIOLATION") else "", False
        if code not in (0, 1):
            raise CouldNotRun(f"{name}: contract_replay ended with {code}: {words.strip()[-400:]}")
        return (found.strip().splitlines() or [""])[-1] if code else "", bool(code)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0],
                                     epilog="Exit code: 0 all seen on the seeds, 1 some not, 2 usage, 3 could not run.")
    parser.add_argument("--root", type=pathlib.Path, default=HERE.parents[1], help="the project whose core is damaged")
    parser.add_argument("--only", nargs="+", default=[], metavar="FUNCTION", help="these functions and no others")
    parser.add_argument("--jobs", type=int, default=2, help="faults at a time (default 2)")
    parser.add_argument("--random", type=int, default=20000, metavar="N",
                        help="inputs made from the seeds where those did not suffice (default 20000)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write a record of the run")
    return parser.parse_args()


def chosen(root, only):
    sources = [*sorted((root / "abi" / "src").glob("*.c")), root / "abi" / "src" / "verdict_make.h"]
    every = [(source, function) for source in sources for function in functions(source)]
    return [(source, function) for source, function in every if not only or function[0] in only]


def main():
    given = arguments()
    root = given.root.resolve()
    work = chosen(root, given.only)
    if not work:
        print("planted: no such function", file=sys.stderr)
        return 2
    rows = []
    with tempfile.TemporaryDirectory() as base, concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        code, _, words = run([HERE / "build.sh", "--root", root, "--out", base, "--jobs", str(given.jobs)])
        if code:
            raise CouldNotRun(words)
        code, found, words = run([f"{base}/contract_replay", root / "fuzz" / "seeds" / "core"])
        if code:
            raise CouldNotRun(f"without any fault: {found}{words}")
        waiting = [pool.submit(plant, root, base, source, function, given.random) for source, function in work]
        for number, ((source, function), one) in enumerate(zip(work, waiting), 1):
            seen, by_seeds = one.result()
            clause = re.match(r"VIOLATION function=(\S+) clause=(\S+)", seen)
            row = {"file": source.name, "function": function[0], "seen": bool(seen), "by_seeds": by_seeds,
                   "violated": f"{clause[1]}: {clause[2]}" if clause else "", "line": seen}
            rows.append(row)
            print(f"[{number}/{len(work)}] {row['file']} {row['function']}: {row['violated'] or 'UNSEEN'}"
                  f"{'' if by_seeds or not seen else ' (random inputs)'}", flush=True)
    by_seeds = sum(row["by_seeds"] for row in rows)
    unseen = sum(not row["seen"] for row in rows)
    if given.json:
        given.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    print(f"planted: {by_seeds}/{len(rows)} seen on the seeds alone, {len(rows) - by_seeds - unseen} more with "
          f"{given.random} random inputs, {unseen} unseen")
    return 0 if by_seeds == len(rows) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CouldNotRun as problem:
        print(f"planted.py: {problem}", file=sys.stderr)
        sys.exit(3)
