#!/usr/bin/env python3
"""The wire layout, checked three ways: the header's annotations, the hand-written numbers, and what each compiler
makes of it.

python3 check_layout.py ROOT     ROOT is the source tree. Prints TAP, one row per compiler and check. A missing
compiler fails.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import annotations  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
C11, CXX17, C99 = ["-x", "c", "-std=c11"], ["-x", "c++", "-std=c++17"], ["-x", "c", "-std=c99"]

# name, program, language: everything that must agree on the layout
LAYOUT_COMPILERS = [
    ("gcc", "gcc", C11), ("clang", "clang", C11), ("g++", "g++", CXX17), ("clang++", "clang++", CXX17),
    ("mingw-w64", "x86_64-w64-mingw32-gcc", C11),
]
# clang lays records out for targets whose libraries need not be here
DUMP_TARGETS = ["x86_64-linux-gnu", "aarch64-linux-gnu", "x86_64-w64-windows-gnu", "x86_64-pc-windows-msvc"]


class Tree:
    """Where the header and the hand-written numbers are read from; the alarms' test hands in altered ones."""

    def __init__(self, root, include=None, expected=None, constants=None):
        self.root = root
        self.include = include or os.path.join(root, "abi", "include")
        self.header = read(os.path.join(self.include, "nxmem_memory_abi.h"))
        self.expected = annotations.read_expected(expected or read(os.path.join(HERE, "expected.tsv")))
        self.constants = read_constants(constants or read(os.path.join(HERE, "constants.tsv")))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def read_constants(text):
    rows = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: (int(value), int(width)) for name, value, width in rows}


def run_compiler(program, options, source):
    """Empty, or the first complaint. `source` is the text of the unit."""
    with tempfile.TemporaryDirectory() as folder:
        unit = os.path.join(folder, "unit")
        with open(unit, "w", encoding="utf-8") as file:
            file.write(source)
        command = [program, *options, "-c", "-o", os.path.join(folder, "unit.o"), unit]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return f"{program} is not installed"
    if done.returncode == 0:
        return ""
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    return (errors or done.stderr.splitlines() or ["no message"])[0]


def constants_unit(constants):
    lines = [annotations.PREAMBLE]
    for name, (value, width) in constants.items():
        lines.append(f'ASSERT({name} == {value}u, "value of {name}");')
        lines.append(f'ASSERT(sizeof({name}) == {width}, "width of {name}");')
        lines.append(f'ASSERT(({name}) * 0 - 1 > 0, "{name} is unsigned");')
    return "\n".join(lines) + "\n"


def compiled_rows(tree, compilers):
    """Each compiler against the annotations, the hand-written numbers and the constants."""
    units = [("the header's annotations", lambda: annotations.write_unit(annotations.read_header(tree.header))),
             ("the hand-written numbers", lambda: annotations.write_unit(tree.expected)),
             ("the hand-written constants", lambda: constants_unit(tree.constants))]
    for name, program, language in compilers:
        for what, make in units:
            try:
                complaint = run_compiler(program, [*language, "-I", tree.include], make())
            except annotations.LayoutError as error:
                complaint = str(error)
            yield f"{name}: agrees with {what}", complaint


def signature_rows(tree, compilers):
    source = read(os.path.join(HERE, "signatures.c"))
    for name, program, language in compilers:
        if language is C11:
            complaint = run_compiler(program, [*language, "-I", tree.include], source)
            yield f"{name}: every slot has its hand-written type", complaint


def strip_width(record):
    return record._replace(fields={name: (offset, None) for name, (offset, _) in record.fields.items()})


def written_rows(tree):
    """The annotations against the hand-written numbers, record by record, and the lists of names of both."""
    try:
        annotated = annotations.read_header(tree.header)
    except annotations.LayoutError as error:
        yield "every struct and every field is annotated", str(error)
        return
    yield "every struct and every field is annotated", ""
    in_order = list(annotated) == list(tree.expected) and len(annotated) == 23
    yield "23 records, in the contract's order", "" if in_order else f"{len(annotated)}: {' '.join(annotated)}"
    for name, wanted in tree.expected.items():
        found = annotated.get(name)
        same = found is not None and found == strip_width(wanted) and list(found.fields) == list(wanted.fields)
        complaint = "" if same else f"{found} differs from {strip_width(wanted)}"
        yield f"{name}: annotations say what is written by hand", complaint


def macro_rows(tree):
    defined = re.findall(r"^#define (NXMEM_\w+) ", tree.header, re.MULTILINE)
    missing = sorted(set(tree.constants) ^ set(defined))
    yield "the header defines the contract's constants and no others", " ".join(missing)


DUMPED = re.compile(r"\s+0 \| struct (\w+)\n(.*?)\| \[sizeof=(\d+), align=(\d+)\]", re.DOTALL)
DUMPED_FIELD = re.compile(r"^\s*(\d+) \|   (\S.*)$", re.MULTILINE)


def dump(target, include):
    """What clang lays out for a target: its own list of fields, so that none can be forgotten."""
    command = ["clang", "-target", target, "-ffreestanding", "-x", "c", "-std=c11", "-I", include, "-fsyntax-only",
               "-Xclang", "-fdump-record-layouts-complete", "-"]
    done = subprocess.run(command, input='#include "nxmem_memory_abi.h"\n', capture_output=True, text=True, check=True)
    records = {}
    for name, body, size, align in DUMPED.findall(done.stdout):
        fields = {text.split()[-1]: (int(offset), None) for offset, text in DUMPED_FIELD.findall(body)}
        records[name] = annotations.Record(name, int(size), int(align), fields)
    return {name: record for name, record in records.items() if name.startswith("Nxmem")}


def dump_rows(tree, targets):
    for target in targets:
        name = f"clang for {target}: its own list of records and fields is the annotated one"
        try:
            found, annotated = dump(target, tree.include), annotations.read_header(tree.header)
            different = sorted(n for n in set(found) | set(annotated) if found.get(n) != annotated.get(n))
            yield name, " ".join(different)
        except (OSError, subprocess.CalledProcessError, annotations.LayoutError) as error:
            yield name, str(error)


def alone_rows(tree):
    """Each public header by itself, and twice, in each language and compiler it is meant for."""
    host = os.path.join(tree.root, "host", "include")
    c_family = [("gcc", "gcc", C11), ("clang", "clang", C11), ("g++", "g++", CXX17), ("clang++", "clang++", CXX17)]
    older = [("gcc", "gcc", C99), ("clang", "clang", C99), ("mingw-w64", "x86_64-w64-mingw32-gcc", C11)]
    topics = sorted(n for n in os.listdir(os.path.join(tree.include, "nxmem")) if n.endswith(".h"))
    headers = [("nxmem_memory_abi.h", older + c_family), ("nxmem.h", c_family)]
    headers += [(f"nxmem/{name}", c_family) for name in topics]
    for header, compilers in headers:
        for name, program, language in compilers:
            options = [*language, *WARNINGS, "-I", tree.include, "-I", host]
            # A unit needs a declaration of its own where a header brings only macros.
            source = f'#include "{header}"\n#include "{header}"\nextern int nx_declared;\n'
            yield f"{header} compiles alone with {name} as {language[-1][5:]}", run_compiler(program, options, source)


def all_rows(tree):
    yield from written_rows(tree)
    yield from macro_rows(tree)
    yield from compiled_rows(tree, LAYOUT_COMPILERS)
    yield from signature_rows(tree, LAYOUT_COMPILERS)
    yield from dump_rows(tree, DUMP_TARGETS)
    yield from alone_rows(tree)


def print_tap(rows):
    failed = count = 0
    for count, (name, complaint) in enumerate(rows, 1):
        print(f"{'not ok' if complaint else 'ok'} {count} - {name}")
        if complaint:
            failed += 1
            print(f"# {complaint}")
    print(f"1..{count}")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(print_tap(all_rows(Tree(sys.argv[1]))))
