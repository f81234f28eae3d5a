#!/usr/bin/env python3
"""One fault in each function of the core, static ones too: do the contracts that run see it, on the seeds alone?

    planted.py [--root ROOT] [--only FUNCTION...] [--jobs N] [--json FILE] [--random N]

The fault is planted into the function's first statement that matters: one bit of what its first `return` answers, or,
where it returns nothing, its first assignment or call is dropped. All faults are in one build, each behind its number:
contract_replay --fault N makes one of them happen.
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
STATEMENT = re.compile(r"^ {1,2}(?:for \([^\n]*\) )?(?P<it>[\w\->.\[\]]+ [-+|&^]?= [^;]*;|\w+\([^;]*\);)", re.M)


class CouldNotRun(Exception):
    pass


def functions(path):
    """(name, result type, start and end of the body) of each function that a file defines."""
    blanked = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), path.read_text(), flags=re.S)
    return [(m.group(3), m.group(2), m.start(4), m.end(4)) for m in DEFINITION.finditer(blanked)]


def fault(body, result, number):
    """The body with its fault behind its number; None where there is no place for one."""
    if result == "void":
        place = STATEMENT.search(body)
        return place and f"{body[:place.start('it')]}if (contract_fault != {number}) {body[place.start('it'):]}"
    place = RETURN.search(body)
    if place is None:
        return None
    answer, bit = place.group(1), f"(contract_fault == {number})"
    if result == "nxmem_verdict":
        other = f"{{ nxmem_verdict other = {answer}; other.found ^= (uint64_t){bit}; return other; }}"
    else:
        other = f"return ({result})(({answer}) ^ {bit});"
    return body[:place.start()] + other + body[place.end():]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def plant(root, tree, work):
    """A copy of the project with a fault in each of the functions; its numbers begin with 1."""
    shutil.copytree(root / "abi", tree / "abi")
    (tree / "fuzz").symlink_to(root / "fuzz")
    for source in {source for source, _ in work}:
        text = source.read_text()
        # From the last on, so that the places of those before stay.
        of_file = [(number, function) for number, (where, function) in enumerate(work, 1) if where == source]
        for number, (name, result, start, end) in reversed(of_file):
            damaged = fault(text[start:end], result, number)
            if damaged is None:
                raise CouldNotRun(f"{name}: no place for a fault")
            text = text[:start] + damaged + text[end:]
        (tree / source.relative_to(root)).write_text("extern int contract_fault; " + text)  # no line moves


def seen(replay, seeds, number, random):
    """What saw a fault: a line of contract_replay, and whether the seeds sufficed."""
    code, found, words = run([replay, "--fault", str(number), seeds])
    if code == 0 and random:
        _, found, words = run([replay, "--fault", str(number), "--random", str(random), seeds])
        return re.sub(r"input=\S+ ", "", found.strip()) if found.startswith("VIOLATION") else "", False
    if code not in (0, 1):
        raise CouldNotRun(f"fault {number}: contract_replay ended with {code}: {words.strip()[-400:]}")
    return (found.strip().splitlines() or [""])[-1] if code else "", bool(code)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0],
                                     epilog="Exit code: 0 all seen on the seeds, 1 some not, 2 usage, 3 could not run.")
    parser.add_argument("--root", type=pathlib.Path, default=HERE.parents[1], help="the project whose core is damaged")
    parser.add_argument("--only", nargs="+", default=[], metavar="FUNCTION", help="these functions and no others")
    parser.add_argument("--jobs", type=int, default=2, help="compilers, then faults, at a time (default 2)")
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
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        tree, base = pathlib.Path(folder) / "tree", pathlib.Path(folder) / "out"
        plant(root, tree, work)
        print(f"planted: {len(work)} faults, building", flush=True)
        code, _, words = run([HERE / "build.sh", "--quick", "--root", tree, "--out", base, "--jobs", str(given.jobs)])
        if code:
            raise CouldNotRun(words)
        replay, seeds = base / "contract_replay", root / "fuzz" / "seeds" / "core"
        code, found, words = run([replay, seeds])
        if code:
            raise CouldNotRun(f"without any fault: {found}{words}")
        waiting = [pool.submit(seen, replay, seeds, number, given.random) for number in range(1, len(work) + 1)]
        for number, ((source, function), one) in enumerate(zip(work, waiting), 1):
            line, by_seeds = one.result()
            clause = re.match(r"VIOLATION function=(\S+) clause=(\S+)", line)
            row = {"file": source.name, "function": function[0], "seen": bool(line), "by_seeds": by_seeds,
                   "violated": f"{clause[1]}: {clause[2]}" if clause else "", "line": line}
            rows.append(row)
            print(f"[{number}/{len(work)}] {row['file']} {row['function']}: {row['violated'] or 'UNSEEN'}"
                  f"{'' if by_seeds or not line else ' (random inputs)'}", flush=True)
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
