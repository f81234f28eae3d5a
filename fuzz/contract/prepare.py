#!/usr/bin/env python3
"""Makes one source file of the core ready for the translation of its contracts into C.

    prepare.py SOURCE OUT    writes OUT; prints the functions that SOURCE and what it includes from its folder define

Annotations inside bodies (loop contracts, assertions, ghost code) are hints for the provers and leave; the contracts
stay as they are. A predicate with a label, which the translator does not know, becomes a macro of the same name: its
definition is put in its place wherever it is used. No line moves.
"""
import pathlib
import re
import sys

COMMENT = re.compile(r"/\*@(?P<block>.*?)\*/|//@(?P<line>[^\n]*)", re.S)
PREDICATE = re.compile(r"\s*predicate\s+(\w+)\{L\}\(([^()]*)\)\s*=\s*([^;]*);\s*$")
IN_BODY = re.compile(r"\s*(loop|assert|check|ghost|calls|for|invariant|variant)\b")
DEFINITION = re.compile(r"^(?:static +)?(?:inline +)?\w+ +\**(\w+)\((?:[^;{}]*?)\)\s*\{", re.M)
INCLUDED = re.compile(r'^#include "(\w+\.h)"', re.M)


def parameters(text):
    return ", ".join(re.search(r"(\w+)\s*$", one).group(1) for one in text.split(","))


def replaced(match):
    text = match.group("block") if match.group("block") is not None else match.group("line")
    lines = "\n" * match.group(0).count("\n")
    named = PREDICATE.match(text)
    if named:
        name, takes, means = named.groups()
        return f"#define {name}({parameters(takes)}) ({' '.join(means.split())}){lines}"
    if IN_BODY.match(text):
        return lines
    return match.group(0)


def defined(path):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    names = DEFINITION.findall(text)
    for header in INCLUDED.findall(text):
        beside = path.parent / header
        if beside.exists():
            names += defined(beside)
    return names


def main(source, out):
    path = pathlib.Path(source)
    pathlib.Path(out).write_text(COMMENT.sub(replaced, path.read_text()))
    print(",".join(dict.fromkeys(defined(path))))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
