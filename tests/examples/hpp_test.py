#!/usr/bin/env python3
"""nxmem.hpp under each compiler, with and without exceptions: no warning, and every row of hpp.cpp. LIBRARIES SANITIZERS. Prints TAP."""
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from compiled import Build, Failed, run, tap  # noqa: E402

BUILD = Build(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
SOURCE = Path(__file__).with_name("hpp.cpp")


def runs(compiler, standard, options):
    def row():
        said = run([BUILD.compile(compiler, standard, SOURCE, *options), BUILD.plugin("minimal")])
        if "not ok" in said or said.count("\nok ") < 30:
            raise Failed(said)
    return row


sys.exit(tap([(f"{compiler} {standard} {' '.join(options)}".strip(), runs(compiler, standard, options))
              for compiler in BUILD.compilers(["g++", "clang++"]) for standard, options in
              (("c++17", []), ("c++17", ["-fno-exceptions"]), ("c++17", ["-fno-rtti"]), ("c++17", ["-fno-exceptions", "-fno-rtti", "-Wconversion", "-Wold-style-cast"]),
               ("c++20", []))]))
