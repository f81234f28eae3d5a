#!/usr/bin/env python3
"""The core's public functions, as its headers declare them.

    public.py --names ROOT         their names, separated by commas
    public.py --wrapped ROOT OUT   a header that puts each name's contract-checking wrapper in its place
"""
import pathlib
import re
import sys

PROTOTYPE = re.compile(r"^\w+ +\**(nxmem_\w+)\([^;{}]*\);", re.M)


def public(root):
    folder = pathlib.Path(root) / "abi" / "include" / "nxmem"
    names = []
    for header in sorted(folder.glob("*.h")):
        names += PROTOTYPE.findall(re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S))
    return names


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--names":
        print(",".join(public(arguments[1])))
    elif len(arguments) == 3 and arguments[0] == "--wrapped":
        lines = [f"#define {name} __gen_e_acsl_{name}\n" for name in public(arguments[1])]
        pathlib.Path(arguments[2]).write_text("/* Made by public.py. */\n" + "".join(lines))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
