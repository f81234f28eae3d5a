#!/usr/bin/env python3
"""Each example compiles without a warning and says what it is there to show. LIBRARIES SANITIZERS. Prints TAP."""
import sys

sys.dont_write_bytecode = True
from compiled import ROOT, Build, Failed, run, tap  # noqa: E402

BUILD = Build(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
C, CXX = BUILD.compilers(["gcc", "clang"]), BUILD.compilers(["g++", "clang++"])

# Source, compilers, standard, arguments, exactly what is printed.
HOLDS = "refused: the plugin still holds objects; host: 1 allocators,"
ROWS = [
    ("smallest_host.c", C, "c11", ["minimal"], [], "4096 bytes from minimal\n"),
    ("smallest_host.c", C, "c11", ["hostvmm"], [], "4096 bytes from hostvmm\n"),
    ("refused_unload.c", C, "c11", ["minimal"], [],
     f"one allocation: {HOLDS} 1 allocations; plugin: 1, 1\none allocator: {HOLDS} 0 allocations; plugin: 1, 0\nnothing: unmapped\n"),
    ("pmr_vector.cpp", CXX, "c++17", ["hostvmm"], ["hostvmm"],
     "sum 5000050000, 1 allocation, at least 800000 bytes mapped\nafterwards 0 allocations\n"),
]


def shows(source, compiler, standard, plugins, words, printed):
    def row():
        program = BUILD.compile(compiler, standard, ROOT / "examples" / source)
        said = run([program, *[BUILD.plugin(name) for name in plugins], *words])
        if said != printed:
            raise Failed(f"printed\n{said}needed\n{printed}")
    return row


def refuses():
    program = BUILD.compile(C[0], "c11", ROOT / "examples/smallest_host.c")
    run([program, ROOT / "README.md"], code=1)
    run([program], code=2)


def plugin_builds():
    """The smallest plugin, from its one file and the wire header, under the smallest host."""
    plugin = BUILD.compile("gcc", "c11", ROOT / "plugins/minimal/nxmem_minimal.c", "-shared", "-fPIC", "-fvisibility=hidden",
                           libraries=()) if not BUILD.sanitize else BUILD.plugin("minimal")
    said = run([BUILD.compile(C[0], "c11", ROOT / "examples/smallest_host.c"), plugin])
    if said != "4096 bytes from minimal\n":
        raise Failed(said)


sys.exit(tap([(f"{source} by {compiler} on {plugins[0]}", shows(source, compiler, standard, plugins, words, printed))
              for source, compilers, standard, plugins, words, printed in ROWS for compiler in compilers]
             + [("a file that is no plugin is refused", refuses), ("the smallest plugin under the smallest host", plugin_builds)]))
