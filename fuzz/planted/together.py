#!/usr/bin/env python3
"""Has every oracle been seen to speak? Many faults in one build, one of them on at a time, on the inputs that the repository has.

    together.py [TABLE…] [--only NAME] [--json FILE] [--jobs N]

A table, fuzz/planted/together_TARGET*.ini, has a section for each file of the product and a line for each fault:

    name = what stands there => what is wrong

where what stands there is an expression or a whole statement, once in its file, and $$ in what is wrong stands for it. Each input is replayed by itself, so that of one
fault every oracle that sees it speaks. The record is for `matrix.py --oracles`.

Last line: "together: N faults, S seen". Exit codes: 0 fine; 1 a fault that nobody saw, or an alarm without a fault; 2 usage;
3 could not run.
"""
import argparse
import concurrent.futures
import configparser
import os
import pathlib
import re
import resource
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import layers as layers_of  # noqa: E402
import record as records  # noqa: E402
from hunt import ALARM, CouldNotRun, known_inputs  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CALL = "int nxmem_fuzz_planted(int number);"
SECONDS = 120  # of the clock, for all inputs of a fault: one that never ends is seen, too
LAYER = "replay"


def read_table(path):
    """[(name, target, file, find, put)] in order."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",), strict=True)
    parser.optionxform = str
    parser.read(path, encoding="utf-8")
    target = re.match(r"together_([a-z]+)", path.stem)[1]
    rows = []
    for file in parser.sections():
        for name, text in parser[file].items():
            find, arrow, put = text.partition(" =>")
            if not arrow:
                raise ValueError(f"{path.name}: {name} has no =>")
            find = find.strip()
            rows.append((f"{target}_{pathlib.Path(file).stem}_{name}", target, file, find, put.strip().replace("$$", find)))
    return rows


def read_tables(names=()):
    paths = [HERE / name for name in names] if names else sorted(HERE.glob("together_*.ini"))
    return [row for path in paths for row in read_table(path)]


def wrong_place(row, root):
    """"" or why the fault cannot be planted."""
    name, _, file, find, _ = row
    path = pathlib.Path(root) / file
    if not path.is_file():
        return f"{name}: there is no {file}"
    count = path.read_text(encoding="utf-8").count(find)
    return "" if count == 1 else f"{name}: its text stands {count} times in {file}, not once: {find}"


def planted(text, rows):
    """All of a file's faults, each behind its number. Where two have one place, the later is inside what the earlier leaves as it is."""
    for number, find, put in rows:
        on = f"nxmem_fuzz_planted({number})"
        both = f"if ({on}) {{ {put} }} else {{ {find} }}" if find.endswith(";") else f"({on} ? ({put}) : ({find}))"
        at = text.rindex(find)
        text = text[:at] + both + text[at + len(find):]
    end = text.index("*/") + 2  # of the comment that the file opens with
    return f"{text[:end]}\n{CALL}{text[end:]}"


def plant(copy, rows):
    texts = {}
    for file in {row[2] for row in rows}:
        own = [(number, find, put) for number, (_, _, of, find, put) in enumerate(rows, 1) if of == file]
        texts[file] = planted((pathlib.Path(copy.source) / file).read_text(encoding="utf-8"), own)
    return copy.plant(texts)


def replay(copy, build, target, number):
    """What the oracles said, each once."""
    command = [f"{build}/bin/fuzz_{target}", *known_inputs(copy.source, target)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
                               env={**os.environ, "NXMEM_FUZZ_PLANTED": str(number)},
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
    try:
        said = process.communicate(timeout=SECONDS)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        said = process.communicate()[1] + b"\nERROR: libFuzzer: timeout (the inputs of a replay)\n"
    alarms = [found.group(0).decode(errors="replace").strip()[:300] for found in ALARM.finditer(said)]
    if not alarms and process.returncode not in (0, None):
        alarms = [f"ended with {process.returncode}"]
    return list({re.sub(r"0x[0-9a-f]+|\d+", "N", alarm): alarm for alarm in reversed(alarms)}.values())[::-1]


def run(options, rows):
    copy = layers_of.Copy(options.root, f"{options.place}/copy")
    build = f"{options.place}/build"
    wrong = [problem for row in rows if (problem := wrong_place(row, copy.source))]
    if wrong:
        raise CouldNotRun("\n".join(wrong))
    before = plant(copy, rows)
    try:
        copy.run(["cmake", "-G", "Ninja", "-S", copy.source, "-B", build, "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                  "-DCMAKE_C_FLAGS=-w"], "the copy cannot be configured")
        targets = sorted({row[1] for row in rows})
        copy.run(["ninja", "-C", build, "-j", str(options.jobs), *(f"fuzz_{t}" for t in targets)], "the copy does not build")
    finally:
        copy.plant(before)
    kept = records.Record(options.json, not options.only)
    silent = {target: replay(copy, build, target, 0) for target in targets}
    asked = [(number, row) for number, row in enumerate(rows, 1) if not options.only or re.search(options.only, row[0])]
    seen = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        answers = pool.map(lambda pair: replay(copy, build, pair[1][1], pair[0]), asked)
        for done, ((_, row), alarms) in enumerate(zip(asked, answers), 1):
            seen += bool(alarms)
            kept.put("faults", row[0], LAYER, {"seen": bool(alarms), "by": alarms[0] if alarms else "", "alarms": alarms,
                                               "seconds": None, "key": ""}, {"target": row[1], "file": row[2]})
            print(f"[{done}/{len(asked)}] {row[0]}: " + ("; ".join(a.removeprefix("ORACLE ")[:70] for a in alarms) or "silent"),
                  flush=True)
    for target, alarms in silent.items():
        if alarms:
            print(f"without a fault {target} says: {alarms[0]}")
    print(f"together: {len(asked)} faults, {seen} seen")
    return int(seen != len(asked) or any(silent.values()))


def check(rows, root):
    problems = [problem for row in rows if (problem := wrong_place(row, root))]
    print("1..1\n" + ("not ok" if problems else "ok") + f" 1 - {len(rows)} faults that are planted together stand once each")
    for problem in problems:
        print(f"# {problem}")
    return int(bool(problems))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="files beside this one (all)")
    parser.add_argument("--only", metavar="NAME", help="faults whose name has this in it (a regular expression); all are built, and the others stay as the record has them")
    parser.add_argument("--check", action="store_true", help="print TAP: does the text of each fault stand once in its file? and end")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="faults at a time (processors)")
    parser.add_argument("--json", metavar="FILE", help="the record (build/records/planted_together.json)")
    parser.add_argument("--place", metavar="FOLDER", help="where the copy and its build are kept (build/planted_together)")
    parser.add_argument("--root", default=str(HERE.parents[1]), help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.place = os.path.abspath(options.place or f"{options.root}/build/planted_together")
    options.json = os.path.abspath(options.json or f"{options.root}/build/records/planted_together.json")
    try:
        rows = read_tables(options.tables)
        if options.check:
            return check(rows, options.root)
        return run(options, rows)
    except (ValueError, configparser.Error) as problem:
        print(f"together: {problem}", file=sys.stderr)
        return 2
    except (CouldNotRun, layers_of.defences_tree.CannotRun, OSError) as problem:
        print(f"together: {problem}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
