#!/usr/bin/env python3
"""Each example compiles without a warning and says what it is there to show. LIBRARIES SANITIZERS. Prints TAP."""
import hashlib
import json
import shutil
import sys
from pathlib import Path

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


def under_policy(compiler):
    """A plugin and a policy of their own; what the policy names, then the same file with one byte more."""
    def row():
        program = BUILD.compile(compiler, "c11", ROOT / "examples/under_policy.c", libraries=("-lnxmem_policy", "-lnxmem"))
        place = Path(BUILD.place.name).resolve()
        plugin, policy = place / "pinned.so", place / "policy.json"
        shutil.copyfile(BUILD.plugin("minimal"), plugin)
        sha256 = hashlib.sha256(plugin.read_bytes()).hexdigest()
        policy.write_text(json.dumps({"version": 1, "plugins": [
            {"path": str(plugin), "sha256": sha256, "capabilities": ["allocator"], "max_owned_bytes": 4096,
             "max_mapped_bytes": "unlimited", "isolation": "none"}]}), encoding="utf-8")
        plugin.chmod(0o644)
        policy.chmod(0o644)
        said = run([program, policy, plugin]).splitlines()
        if said[:2] + said[-1:] != [f"verified: sha256 {sha256}", "granted: 4096 owned bytes", "4097 bytes: refused"]:
            raise Failed("\n".join(said))
        if not any(line.startswith("not pinned: libc.so") for line in said):
            raise Failed("\n".join(said))
        with plugin.open("ab") as file:
            file.write(b"x")
        if run([program, policy, plugin], code=1):
            raise Failed("something was printed of a plugin that is not allowed")
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
             + [(f"under_policy.c by {compiler}", under_policy(compiler)) for compiler in C]
             + [("a file that is no plugin is refused", refuses), ("the smallest plugin under the smallest host", plugin_builds)]))
