#!/usr/bin/env python3
"""The planted faults, one by one.

    apply.py list            print "NAME TARGET FILE", one fault a line
    apply.py check           print TAP: does each fault's line stand where it is to be planted, once?
    apply.py apply NAME DIR  plant it in the copy at DIR, with its canary; fails unless its line stands there exactly once

A fault with `when` has a canary: it says that its place was reached, and whether the fault makes a difference there.
"""
import configparser
import pathlib
import re
import sys

CANARY = "int nxmem_fuzz_canary(int triggered);"
ROOT = pathlib.Path(__file__).resolve().parents[2]


def read_faults():
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.read(sorted(pathlib.Path(__file__).parent.glob("faults*.ini")))
    return parser


def is_statement(text):
    return re.sub(r"\s*/\*.*?\*/\s*$", "", text).endswith(";")


def planted(text, fault):
    """The file with the fault: a whole statement becomes a block, before the head of one comes the canary."""
    put = fault["put"]
    if "when" not in fault:
        return text.replace(fault["find"], put)
    canary = f"(void)nxmem_fuzz_canary({fault['when']});"
    if is_statement(fault["find"]):
        text = text.replace(fault["find"], f"{{ {canary} {put} }}")
    else:
        text = text.replace(fault["find"], f"{canary} {put}")
    end = text.index("*/") + 2  # of the comment that the file opens with
    return f"{text[:end]}\n{CANARY}{text[end:]}"


def times_there(fault, tree):
    return (pathlib.Path(tree) / fault["file"]).read_text().count(fault["find"])


def apply(fault, tree):
    path = pathlib.Path(tree) / fault["file"]
    count = times_there(fault, tree)
    if count != 1:
        sys.exit(f"{fault.name}: its line stands {count} times in {fault['file']}, not once: {fault['find']}")
    path.write_text(planted(path.read_text(), fault))


def check(faults):
    print(f"1..{len(faults.sections())}")
    failed = 0
    for number, name in enumerate(faults.sections(), 1):
        count = times_there(faults[name], ROOT)
        failed += count != 1
        print(f"{'ok' if count == 1 else 'not ok'} {number} - {name} stands once in {faults[name]['file']}")
    return 1 if failed else 0


if __name__ == "__main__":
    faults = read_faults()
    if sys.argv[1:] == ["list"]:
        for name in faults.sections():
            print(name, faults[name]["target"], faults[name]["file"])
    elif sys.argv[1:] == ["check"]:
        sys.exit(check(faults))
    elif len(sys.argv) == 4 and sys.argv[1] == "apply" and sys.argv[2] in faults:
        apply(faults[sys.argv[2]], sys.argv[3])
    else:
        sys.exit(__doc__)
