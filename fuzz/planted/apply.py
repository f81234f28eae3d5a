#!/usr/bin/env python3
"""The planted faults, one by one.

    apply.py list            print "NAME TARGET FILE", one fault a line
    apply.py check           print TAP: does each fault's line stand where it is to be planted, once, with its canary?
    apply.py apply NAME DIR  plant it in the copy at DIR, with its canary; fails unless its line stands there exactly once

A fault's canary says that its place was reached, and whether the fault makes a difference there (`when`). It stands before
the fault's line or, where that is the middle of a statement, before the line `at`.

faults*.ini are the benchmark; alarms*.ini make each place in the harness speak.
"""
import configparser
import pathlib
import re
import sys

CANARY = "int nxmem_fuzz_canary(int triggered);"
ROOT = pathlib.Path(__file__).resolve().parents[2]


def read_faults(names=("faults*.ini",)):
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.read([path for name in names for path in sorted(pathlib.Path(__file__).parent.glob(name))])
    return parser


def read_all():
    return read_faults(("faults*.ini", "alarms*.ini"))


def is_statement(text):
    return re.sub(r"\s*/\*.*?\*/\s*$", "", text).endswith(";")


def with_canary(text, fault):
    """A whole statement becomes a block; before the head of one comes the canary."""
    canary = f"(void)nxmem_fuzz_canary({fault['when']});"
    put, start = fault["put"], text.index(fault["find"])
    place = text.index(fault["at"]) if "at" in fault else start
    if "at" not in fault and is_statement(fault["find"]):
        put = f"{{ {canary} {put} }}"
    elif place == start:
        put = f"{canary} {put}"
    planted_there = text[:start] + put + text[start + len(fault["find"]):]
    if place != start:
        place += len(put) - len(fault["find"]) if place > start else 0
        planted_there = f"{planted_there[:place]}{canary} {planted_there[place:]}"
    end = planted_there.index("*/") + 2  # of the comment that the file opens with
    return f"{planted_there[:end]}\n{CANARY}{planted_there[end:]}"


def planted(text, fault, canary=True):
    """The file with the fault; provers and translators take it without the canary."""
    if canary and "when" in fault:
        return with_canary(text, fault)
    return text.replace(fault["find"], fault["put"])


def wrong_place(fault, tree):
    """"" or why the fault cannot be planted."""
    path = pathlib.Path(tree) / fault["file"]
    if not path.is_file():
        return f"there is no {fault['file']}"
    text = path.read_text()
    for key in ("find", "at"):
        if key in fault and text.count(fault[key]) != 1:
            return f"its line stands {text.count(fault[key])} times in {fault['file']}, not once: {fault[key]}"
    return ""


def apply(fault, tree):
    problem = wrong_place(fault, tree)
    if problem:
        sys.exit(f"{fault.name}: {problem}")
    path = pathlib.Path(tree) / fault["file"]
    path.write_text(planted(path.read_text(), fault))


def wrong_entry(fault):
    if "when" not in fault:
        return "it has no canary: `when`"
    if not (ROOT / "fuzz" / "targets" / f"{fault['target']}.c").is_file():
        return f"there is no target {fault['target']}"
    return wrong_place(fault, ROOT)


def check(faults):
    print(f"1..{len(faults.sections())}")
    failed = 0
    for number, name in enumerate(faults.sections(), 1):
        problem = wrong_entry(faults[name])
        failed += bool(problem)
        print(f"{'not ok' if problem else 'ok'} {number} - {name} stands once in {faults[name]['file']}")
        if problem:
            print(f"# {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    faults = read_all()
    if sys.argv[1:] == ["list"]:
        for name in faults.sections():
            print(name, faults[name]["target"], faults[name]["file"])
    elif sys.argv[1:] == ["check"]:
        sys.exit(check(faults))
    elif len(sys.argv) == 4 and sys.argv[1] == "apply" and sys.argv[2] in faults:
        apply(faults[sys.argv[2]], sys.argv[3])
    else:
        sys.exit(__doc__)
