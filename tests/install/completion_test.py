#!/usr/bin/env python3
"""Completion in bash offers every subcommand and option of --help, files where one is wanted, and nothing else. BUILD: the packaging build. Prints TAP."""
import os
import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from tap import main, run, want  # noqa: E402

STAGE = Path(sys.argv[1]) / "stage/usr"
COMMAND = STAGE / "bin/nxmem"
SCRIPT = STAGE / "share/bash-completion/completions/nxmem"
os.environ["LD_LIBRARY_PATH"] = str(next((STAGE / "lib").glob("*-linux-gnu")))


def offered(*words, cwd=None):
    """What is offered for the last of these words."""
    ask = 'set -eu; source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _nxmem 2>/dev/null || true; printf "%s\\n" "${COMPREPLY[@]-}"'
    return run(["bash", "--norc", "--noprofile", "-c", ask, "bash", SCRIPT, "nxmem", *words], cwd=cwd).split()


def help_of(*words):
    return run([COMMAND, *words, "--help"], env={**os.environ, "COLUMNS": "80"})


def subcommands():
    return re.findall(r"^  ([a-z]+) FILE ", help_of(), re.MULTILINE)


def names():
    want(offered("") == subcommands() and len(subcommands()) >= 4, f"{offered('')}, not {subcommands()}")
    want(offered("in") == ["inspect"], f"in: {offered('in')}")


def options(*words):
    def row():
        text = help_of(*words)
        long = set(re.findall(r"^ .{0,5}(--[a-z-]+)", text, re.MULTILINE))
        short = set(re.findall(r"^  (-[a-zA-Z])\b", text, re.MULTILINE))
        found = {word.rstrip("=") for word in offered(*words, "-")}
        want(found == long | short, f"too few {(long | short) - found}, too many {found - long - short}")
        for name in re.findall(r"(--[a-z-]+)=", text):
            want(f"{name}=" in offered(*words, name), f"{name} takes an argument: {offered(*words, name)}")
    return row


def files():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("libone.so", "libother.so", "two words.so"):
            (Path(folder) / name).touch()
        want(sorted(offered("run", "lib", cwd=folder)) == ["libone.so", "libother.so"], f"{offered('run', 'lib', cwd=folder)}")
        want(offered("run", "--direct", "two", cwd=folder) == ["two", "words.so"], "a name with a space")


def nothing():
    want(offered("nonsense", "-") == [], f"{offered('nonsense', '-')}")


sys.exit(main([("subcommands", names), ("options of nxmem itself", options())]
              + [(f"options of {name}", options(name)) for name in subcommands()]
              + [("files where one is wanted", files), ("nothing behind a word that is no subcommand", nothing)]))
