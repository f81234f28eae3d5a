#!/usr/bin/env python3
"""The planted faults, one by one.

    apply.py list            print "NAME TARGET FILE", one fault a line
    apply.py apply NAME DIR  plant it in the copy at DIR; fails unless its line stands there exactly once
"""
import configparser
import pathlib
import sys


def read_faults():
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.read(pathlib.Path(__file__).with_name("faults.ini"))
    return parser


def apply(fault, tree):
    path = pathlib.Path(tree) / fault["file"]
    text = path.read_text()
    count = text.count(fault["find"])
    if count != 1:
        sys.exit(f"{fault.name}: its line stands {count} times in {fault['file']}, not once: {fault['find']}")
    path.write_text(text.replace(fault["find"], fault["put"]))


if __name__ == "__main__":
    faults = read_faults()
    if sys.argv[1:] == ["list"]:
        for name in faults.sections():
            print(name, faults[name]["target"], faults[name]["file"])
    elif len(sys.argv) == 4 and sys.argv[1] == "apply" and sys.argv[2] in faults:
        apply(faults[sys.argv[2]], sys.argv[3])
    else:
        sys.exit(__doc__)
