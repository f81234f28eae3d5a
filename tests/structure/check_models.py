#!/usr/bin/env python3
"""The models (proofs/models/*.pml) and the code name each other's steps: this checks that both sides mean the same.

A model's head says which of its steps stands where, one row for each place:

  host/src/FILE.c  function, function   R1 what it does, R2 what it does
                   function             R3 what it does (words in brackets name no step)

Each named function must be in that file, each step marked in one of the functions of its row (a comment that begins
with it, /* R1 */ or /* R1, E1: why */), and in the model's own body; each mark of a source must be a step of a model
that names the source. Prints TAP; exit code 1 where something is amiss."""
import argparse
import glob
import os
import re
import sys

sys.dont_write_bytecode = True
from check_layers import print_tap  # noqa: E402

STEP = r"[A-Z]\d?"
NAMES = re.compile(r"[a-z_][a-z_0-9]*(, [a-z_][a-z_0-9]*)*")


def rows_of(head):
    """[path, functions, text] for each place that a model's head names."""
    rows = []
    for line in head.splitlines():
        match = re.match(r" \* (host/src/\S+)?\s{2,}(\S.*)", line) or re.match(r" \* (host/src/\S+) +(\S.*)", line)
        if not match:
            continue
        path, rest = match.groups()
        parts = re.split(r"\s{2,}", rest, maxsplit=1)
        if NAMES.fullmatch(parts[0]) and len(parts) == 2 and (path or rows):
            rows.append([path or rows[-1][0], parts[0].split(", "), parts[1]])
        elif rows and not path:
            rows[-1][2] += " " + rest
    return rows


def steps_of(text):
    return re.findall(rf"(?:^|[ ,;:(]\s*)({STEP})(?= )", re.sub(r"\([^)]*\)", "", text))


def functions_of(source):
    """The text of each function that is defined in a source; clang-format keeps them apart by their first column."""
    bodies, head, name = {}, "", None
    for line in source.splitlines():
        if name is None:
            head = head + " " + line if head or re.match(r"[A-Za-z_]", line) else ""
            match = re.search(r"\b(\w+)\([^;{}]*\) \{", head)
            name = match.group(1) if match else None
            if name:
                bodies[name] = bodies.get(name, "")
            if name or re.search(r"[;}]\s*(/\*.*)?$", line):
                head = ""
        if name is not None:
            bodies[name] += line + "\n"
            if line.startswith("}") or (bodies[name].count("\n") == 1 and line.rstrip().endswith("}")):
                name = None
    return bodies


def marks_of(text):
    """The steps that comments mark."""
    found = set()
    for match in re.finditer(rf"/\* ({STEP}(?:, {STEP})*)(?::[^*]*)? ?\*/", text):
        found |= set(match.group(1).split(", "))
    return found


def complaints_of_row(row, sources, body):
    path, names, text = row
    if path not in sources:
        yield f"{path} is not there"
        return
    functions = functions_of(sources[path])
    for name in names:
        if name not in functions:
            yield f"{path} has no {name}()"
    marked = set().union(*(marks_of(functions.get(name, "")) for name in names))
    steps = steps_of(text)
    if not steps:
        yield f"{path}: no step is named of {', '.join(names)}"
    for step in steps:
        if step not in marked:
            yield f"{path}: none of {', '.join(names)} marks {step}"
        if not re.search(rf"/\* {step}\b", body):
            yield f"step {step} is not in the model's body"


def complaints_of_model(model, sources):
    head, body = model.split("*/", 1)
    rows = rows_of(head)
    if not rows:
        yield "names no place in the code"
    for row in rows:
        yield from complaints_of_row(row, sources, body)


def complaints_of_source(path, source, models):
    named = set()
    for model in models.values():
        for place, _, text in rows_of(model.split("*/", 1)[0]):
            if place == path:
                named |= set(steps_of(text))
    for mark in sorted(marks_of(source) - named):
        yield f"{path} marks {mark}, which no model names of it"
    for model in re.findall(r"proofs/models/(\w+\.pml)", source):
        if model not in models:
            yield f"{path} names {model}, which is not there"


def all_rows(sources, models):
    yield "there are models", [] if models else ["none"]
    for name, model in sorted(models.items()):
        yield f"{name}: each step stands where it says", list(complaints_of_model(model, sources))
    complaints = [c for path in sorted(sources) for c in complaints_of_source(path, sources[path], models)]
    yield "each step that the host marks is one of a model", complaints


def read(root, pattern, name_of):
    found = {}
    for path in glob.glob(os.path.join(root, pattern)):
        with open(path, encoding="utf-8") as file:
            found[name_of(path)] = file.read()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root")
    root = parser.parse_args().root
    sources = read(root, "host/src/*.[ch]", lambda path: os.path.relpath(path, root))
    return print_tap(all_rows(sources, read(root, "proofs/models/*.pml", os.path.basename)))


if __name__ == "__main__":
    sys.exit(main())
