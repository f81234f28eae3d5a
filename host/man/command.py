#!/usr/bin/env python3
"""nxmem(1) out of what the command says of itself, and of frame.txt for what --help has no room for.

command.py --nxmem FILE --day YYYY-MM-DD --version V --out FILE
"""
import argparse
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
import helptext  # noqa: E402
import roff  # noqa: E402

# Said once for all of them.
COMMON = ("--help", "--usage", "--version")
SAID_ELSEWHERE = re.compile(r"^(Mandatory or optional arguments|for any corresponding short)")


def option_rows(options):
    out = []
    for option in options:
        out += [".TP", ".B " + roff.escape(option.head()), *roff.filled(option.text)]
    return out


def subcommand(name, said):
    out = [".SS " + roff.escape(name), ".PP", ".B " + roff.escape(said.usage), *roff.prose("\n".join(said.before), wrapped=True)]
    out += option_rows([option for option in said.options if option.long not in COMMON])
    return out + roff.prose("\n".join(line for line in said.behind if not SAID_ELSEWHERE.match(line)), wrapped=True)


def frame():
    """Sections of frame.txt: a line in capitals begins one."""
    out = []
    for block in re.split(r"\n(?=[A-Z][A-Z ]+\n)", (Path(__file__).parent / "frame.txt").read_text(encoding="utf-8")):
        heading, _, text = block.partition("\n")
        out.append(".SH " + heading.strip())
        for part in re.split(r"\n\s*\n", text.strip("\n")):
            out += roff.verbatim(part) if all(line.startswith("nxmem ") for line in part.splitlines()) else roff.prose(part)
    return out


def page(arguments):
    main = helptext.ask(arguments.nxmem)
    names = helptext.subcommands(main)
    out = roff.title("nxmem", 1, arguments.day, arguments.version, "nxmem")
    out += [".SH NAME", "nxmem \\- look at memory plugins, and drive them from behind a boundary", ".SH SYNOPSIS",
            ".B nxmem", roff.escape(main.usage.removeprefix("nxmem ")), ".SH DESCRIPTION", *roff.prose("\n".join(main.before), wrapped=True),
            ".SH OPTIONS", *option_rows(main.options), ".SH SUBCOMMANDS"]
    for name in names:
        out += subcommand(name, helptext.ask(arguments.nxmem, name))
    return roff.joined(out + frame())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--nxmem", "--day", "--version", "--out"):
        parser.add_argument(name, required=True)
    arguments = parser.parse_args()
    Path(arguments.out).parent.mkdir(parents=True, exist_ok=True)
    Path(arguments.out).write_text(page(arguments), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
