#!/usr/bin/env python3
"""Manual pages of section 3 out of the public headers themselves: a page for each header, and a link to it for each function.

api.py --out FOLDER --day YYYY-MM-DD --version V --include FOLDER... HEADER...

A page is its header in reading order: the opening comment, then each declaration as it is written under the comment before it, with its contract
where it has one. So no page says anything that its header does not.
"""
import argparse
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.append("/usr/lib/python3/dist-packages")
from clang.cindex import Config, CursorKind, Index, TokenKind, TranslationUnit  # noqa: E402  (python3-clang-14)

import roff  # noqa: E402

# Only a build's own words, nothing for a reader.
MARKS = re.compile(r"\b(NXMEM_PUBLIC|NXMEM_MUST_CHECK)\s+")
QUIET_MACROS = re.compile(r".*_H$|NXMEM_PUBLIC|NXMEM_MUST_CHECK|NXMEM_UNTRUSTED|NX_")
SECTION = re.compile(r"/\* -{3,}\s*(.*?)\s*-{3,} \*/")
LIBRARY = Path("/usr/lib/llvm-14/lib/libclang-14.so.1")


def parse(header, includes):
    options = (TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD | TranslationUnit.PARSE_SKIP_FUNCTION_BODIES)
    arguments = ["-std=c11", "-fparse-all-comments", "-x", "c", *[f"-I{folder}" for folder in includes]]
    unit = Index.create().parse(str(header), args=arguments, options=options)
    errors = [str(found) for found in unit.diagnostics if found.severity >= 3]
    if errors:
        raise SystemExit(f"api.py: {header}: {errors[0]}")
    return unit


def plain(comment):
    """A comment without its marks."""
    text = re.sub(r"^/\*+\s?|\s*\*/$", "", comment)
    return "\n".join(re.sub(r"^\s*\* ?", "", line) for line in text.splitlines())


class Item:
    """A declaration: what it declares, its text, the comments before it."""

    def __init__(self, names, text, line, functions):
        self.names, self.text, self.line, self.functions = names, text, line, functions


def here(cursor, header):
    return cursor.location.file is not None and cursor.location.file.name == str(header)


def declarations(unit, header, source):
    """Items of a header in order; declarations of one statement, such as an enum and its typedef, are one."""
    spans = {}
    for cursor in unit.cursor.get_children():
        if not here(cursor, header) or cursor.kind in (CursorKind.INCLUSION_DIRECTIVE, CursorKind.MACRO_INSTANTIATION):
            continue
        if cursor.kind == CursorKind.MACRO_DEFINITION:
            if not QUIET_MACROS.match(cursor.spelling):
                start = source.rfind("\n", 0, cursor.extent.start.offset) + 1
                spans[start] = (cursor.extent.end.offset, [cursor.spelling], [])
            continue
        start, end = cursor.extent.start.offset, source.find(";", cursor.extent.end.offset) + 1
        inside = [begin for begin, (stop, _, _) in spans.items() if begin <= start < stop or start <= begin < end]
        names = [name for begin in inside for name in spans[begin][1]] + [cursor.spelling]
        functions = [name for begin in inside for name in spans[begin][2]]
        if cursor.kind == CursorKind.FUNCTION_DECL:
            functions.append(cursor.spelling)
        begin, stop = min([start, *inside]), max([end, *(spans[one][0] for one in inside)])
        for one in inside:
            del spans[one]
        spans[begin] = (stop, names, functions)
    return [Item(names, source[begin:end], begin, functions) for begin, (end, names, functions) in sorted(spans.items())]


def comments(unit):
    tokens = unit.get_tokens(extent=unit.cursor.extent)
    return [(token.extent.start.offset, token.spelling) for token in tokens if token.kind == TokenKind.COMMENT]


def code(text):
    return re.sub(r"[ \t]+$", "", MARKS.sub("", text), flags=re.MULTILINE)


def body(items, notes):
    """Sections, comments and declarations in reading order."""
    out = []
    inside = lambda at: any(item.line <= at < item.line + len(item.text) for item in items)  # noqa: E731
    stream = sorted([(at, text, None) for at, text in notes if not inside(at)] +
                    [(item.line, item.text, item) for item in items], key=lambda row: row[0])
    for _, text, item in stream:
        if item is not None:
            out += roff.verbatim(code(text))
        elif found := SECTION.match(text):
            out.append(".SS " + roff.escape(found.group(1)))
        elif text.startswith("/*@"):
            out += roff.verbatim(text)
        elif "clang-format" not in text and not re.match(r"/\* \w+_H \*/", text):
            out += roff.prose(plain(text))
    return out


def page_name(header):
    """nxmem_registry for nxmem_registry.h; nxmem-core-count for nxmem/count.h."""
    return f"nxmem-core-{header.stem}" if header.parent.name == "nxmem" else header.stem


def include_name(header):
    return f"nxmem/{header.name}" if header.parent.name == "nxmem" else header.name


def page(header, arguments):
    source = header.read_text(encoding="utf-8")
    if not source.isascii():
        raise SystemExit(f"api.py: {header}: not ASCII: offsets in it are bytes")
    unit = parse(header, arguments.include)
    items = declarations(unit, header, source)
    notes = comments(unit)
    opening = plain(notes[0][1])
    brief = re.sub(r"^\s*[\w/.]+:\s*", "", opening.strip("\n").split("\n\n")[0].replace("\n", " "))
    functions = [name for item in items for name in item.functions]
    name = page_name(header)
    out = roff.title(name, 3, arguments.day, arguments.version, "nxmem API")
    out += [".SH NAME", *roff.filled(", ".join([name, *functions])), "\\- " + roff.escape(brief.split(". ")[0].rstrip("."))]
    out += [".SH SYNOPSIS", ".nf", f".B #include <{include_name(header)}>", ".fi"]
    out += [".SH DESCRIPTION", *roff.prose(opening), *body(items, notes[1:])]
    out += [".SH SEE ALSO", ".BR nxmem (1)"]
    return name, functions, roff.joined(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--day", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("headers", type=Path, nargs="+")
    arguments = parser.parse_args()
    if LIBRARY.exists():
        Config.set_library_file(str(LIBRARY))
    arguments.out.mkdir(parents=True, exist_ok=True)
    for old in arguments.out.glob("*.3"):
        old.unlink()
    for header in arguments.headers:
        name, functions, text = page(header, arguments)
        (arguments.out / f"{name}.3").write_text(text, encoding="utf-8")
        for function in functions:
            if function != name:
                (arguments.out / f"{function}.3").write_text(f".so man3/{name}.3\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
