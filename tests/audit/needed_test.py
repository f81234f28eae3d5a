#!/usr/bin/env python3
"""nxmem audit --static on what a file needs: found or missing, new enough, and how much of it is looked for. Prints TAP."""
import os
import resource
import struct

from common import clean, evidence, names, one, source
from crafted import NEEDED, plugin_that_names
from harness import Setting, compile_so, equal, main, scratch, write


def library(name, text, flags=()):
    return compile_so(name, [source(name, text)], list(flags))


def dependency(name, library_path, flags=()):
    text = "int asked(void); __attribute__((visibility(\"hidden\"))) int use(void); int use(void) { return asked(); }\n"
    return clean(name, ["-Wl,--no-as-needed", *flags, library_path], [source(name, text)])


ASKED = "__attribute__((visibility(\"default\"))) int asked(void); int asked(void) { return 1; }\n"


def dependency_missing():
    gone = library("libgone", ASKED, ["-Wl,-soname,libgone.so"])
    path = dependency("needs_gone", gone)
    equal(evidence(one("--static", path, code=1), "missing-dependency"), ["libgone.so"])
    found = one("--static", path, code=0, env={"LD_LIBRARY_PATH": Setting.scratch})
    assert "missing-dependency" not in names(found)
    row = next(r for r in found["facts"]["needed"] if r["name"] == "libgone.so")
    equal(row["found"], os.path.join(Setting.scratch, "libgone.so"))


def dependency_at_origin():
    path = dependency("needs_near", library("libnear", ASKED, ["-Wl,-soname,libnear.so"]), ["-Wl,-rpath,$ORIGIN"])
    assert "missing-dependency" not in names(one("--static", path, code=0))


def dependency_of_another_machine():
    """The loader passes over what it cannot map."""
    path = dependency("needs_other", library("libother", ASKED, ["-Wl,-soname,libother.so"]), ["-Wl,-rpath,$ORIGIN"])
    with open(scratch("libother.so"), "r+b") as file:
        file.seek(18)
        file.write(struct.pack("<H", 40))
    equal(evidence(one("--static", path, code=1), "missing-dependency"), ["libother.so"])


def dependency_by_relative_path():
    path = dependency("needs_here", os.path.relpath(library("libhere", ASKED), os.getcwd()))
    assert "relative-path" in names(one("--static", path, code=1))


def version_missing():
    maps = {n: os.fsdecode(write(f"v{n}.map", f"V_{n} {{ global: asked; local: *; }};\n".encode())) for n in (1, 2)}
    flags = lambda n: ["-Wl,-soname,libversioned.so", f"-Wl,--version-script={maps[n]}"]
    path = dependency("needs_version", library("libversioned", ASKED, flags(2)), ["-Wl,-rpath,$ORIGIN"])
    assert "missing-version" not in names(one("--static", path, code=0))
    library("libversioned", ASKED, flags(1))
    equal(evidence(one("--static", path, code=1), "missing-version"), ["libversioned.so lacks V_2"])


RUNPATH = 29


def dependencies_beyond_all(count):
    """What was not looked for is said to be that, and not to be missing."""
    def case():
        listed = [(NEEDED, b"libc.so.6")] * 5000 if count is None else [(NEEDED, b"lib%d.so" % i) for i in range(count)]
        file = one("--static", plugin_that_names(listed), code=1)
        rows = file["facts"]["needed"]
        if count is None:
            equal([bool(row["found"]) for row in rows], [True])
            assert "missing-dependency" not in names(file), names(file)
        else:
            equal(len(rows), min(count, 1024))
            equal([row["found"] for row in rows], [None] * len(rows))
        told = evidence(file, "many-dependencies")
        assert told == ([] if count == 1024 else [f"it names {count or 5000}, of which 1024 were looked for"]), told
    return case


def folders_beyond_all():
    file = one("--static", plugin_that_names([(RUNPATH, b":".join([b"/x"] * 257)), (NEEDED, b"libc.so.6")]), code=1)
    equal(evidence(file, "many-dependencies"), ["RUNPATH has 257 parts, of which 256 were looked into"])
    assert "many-dependencies" not in names(one("--static", plugin_that_names([(RUNPATH, b":".join([b"/x"] * 256))]), code=1))


def libraries_of_great_size():
    """Each is there and may not be read whole: sparse files of 200 MiB in the folders where they are looked for."""
    folders = [scratch(f"great{i}") for i in range(100)]
    for folder in folders:
        os.mkdir(folder)
        for name in (b"libgreat1.so", b"libgreat2.so", b"libc.so.6"):
            with open(os.path.join(folder, name), "wb") as file:
                file.truncate(200 << 20)
    path = plugin_that_names([(RUNPATH, b":".join(folders))] + [(NEEDED, name) for name in (b"libgreat1.so", b"libgreat2.so", b"libc.so.6")])
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    equal([bool(row["found"]) for row in one("--static", path, code=1)["facts"]["needed"]], [False, False, True])
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    assert used < 100, f"{used} s of processor time"  # half a gibibyte is read in a few, all 60 in hundreds


def make_rows():
    return [("a dependency that is missing", dependency_missing), ("a dependency beside the file", dependency_at_origin),
            ("a dependency of another machine", dependency_of_another_machine),
            ("a dependency by a relative path", dependency_by_relative_path), ("a version that is missing", version_missing),
            ("as many dependencies as are looked for", dependencies_beyond_all(1024)), ("more dependencies", dependencies_beyond_all(1025)),
            ("one dependency, often", dependencies_beyond_all(None)), ("more folders than are looked into", folders_beyond_all),
            ("libraries of great size", libraries_of_great_size)]


if __name__ == "__main__":
    main(make_rows)
