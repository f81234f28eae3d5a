#!/usr/bin/env python3
"""nxmem.hpp under each compiler, with and without exceptions: no warning, and every row of hpp.cpp. LIBRARIES SANITIZERS. Prints TAP."""
import functools
import hashlib
import shutil
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from compiled import ROOT, Build, Failed, run, tap  # noqa: E402

BUILD = Build(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
SOURCE = Path(__file__).with_name("hpp.cpp")


@functools.cache
def device_plugin():
    """The smallest plugin, which says that its memory is a device's."""
    text = (ROOT / "plugins/minimal/nxmem_minimal.c").read_text(encoding="utf-8")
    source = Path(BUILD.place.name) / "device.c"
    source.write_text(text.replace("NXMEM_TIER_HOST", "NXMEM_TIER_DEVICE"), encoding="utf-8")
    if "NXMEM_TIER_DEVICE" not in source.read_text(encoding="utf-8"):
        raise Failed("the smallest plugin names no tier")
    return BUILD.compile(BUILD.compilers(["gcc", "clang"])[0], "c11", source, "-shared", "-fPIC", "-fvisibility=hidden", libraries=())


@functools.cache
def pinned():
    """A plugin where nobody else can write, and its hash."""
    file = Path(BUILD.place.name).resolve() / "pinned.so"
    shutil.copyfile(BUILD.plugin("minimal"), file)
    file.chmod(0o644)
    return file, hashlib.sha256(file.read_bytes()).hexdigest()


def runs(compiler, standard, options):
    def row():
        said = run([BUILD.compile(compiler, standard, SOURCE, *options, libraries=("-lnxmem_policy", "-lnxmem")), BUILD.plugin("minimal"), device_plugin(), *pinned()])
        if "not ok" in said or said.count("\nok ") < 52:
            raise Failed(said)
    return row


sys.exit(tap([(f"{compiler} {standard} {' '.join(options)}".strip(), runs(compiler, standard, options))
              for compiler in BUILD.compilers(["g++", "clang++"]) for standard, options in
              (("c++17", []), ("c++17", ["-fno-exceptions"]), ("c++17", ["-fno-rtti"]), ("c++17", ["-fno-exceptions", "-fno-rtti", "-Wconversion", "-Wold-style-cast"]),
               ("c++20", []))]))
