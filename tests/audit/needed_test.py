#!/usr/bin/env python3
"""nxmem audit --static on what a file needs: found or missing, new enough, and how much of it is looked for. Prints TAP."""
import os
import resource
import struct

from common import audit, clean, evidence, names, one, source
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


# ---- Libraries of libraries


def chain(folder, own=(), middle=()):
    """A plugin that needs libmiddle.so, which needs libdeep.so; all in one folder."""
    os.mkdir(scratch(folder))
    deep = library(folder + "/libdeep", ASKED, ["-Wl,-soname,libdeep.so"])
    text = ASKED.replace("asked", "middle")
    between = library(folder + "/libmiddle", text, ["-Wl,-soname,libmiddle.so", "-Wl,--no-as-needed", deep, *middle])
    return dependency(folder + "/plugin", between, [*own, "-Wl,--allow-shlib-undefined", "-Wl,-rpath,$ORIGIN"]), deep


def library_of_a_library_missing():
    """RUNPATH is of the file alone: what its library needs is not looked for there."""
    path, deep = chain("further")
    equal(evidence(one("--static", path, code=1), "missing-dependency"), ["libdeep.so of libmiddle.so"])
    found = one("--static", path, code=0, env={"LD_LIBRARY_PATH": os.path.dirname(deep)})
    row = next(r for r in found["facts"]["needed_by_libraries"] if r["name"] == "libdeep.so")
    equal((row["found"], row["needed_by"]), (os.path.realpath(deep), "libmiddle.so"))


def library_of_a_library_found():
    """By the file's RPATH, which holds for its libraries; by the library's own RUNPATH."""
    path, deep = chain("inherited", own=["-Wl,--disable-new-dtags"])
    equal(evidence(one("--static", path, code=0), "missing-dependency"), [])
    os.remove(deep)
    equal(evidence(one("--static", path, code=1), "missing-dependency"), ["libdeep.so of libmiddle.so"])
    path, _ = chain("by_itself", middle=["-Wl,-rpath,$ORIGIN"])
    equal(evidence(one("--static", path, code=0), "missing-dependency"), [])


def libraries_in_a_circle():
    first = library("libcircle1", ASKED, ["-Wl,-soname,libcircle1.so"])
    second = library("libcircle2", ASKED.replace("asked", "other"), ["-Wl,-soname,libcircle2.so", "-Wl,--no-as-needed", first, "-Wl,-rpath,$ORIGIN"])
    first = library("libcircle1", ASKED, ["-Wl,-soname,libcircle1.so", "-Wl,--no-as-needed", second, "-Wl,-rpath,$ORIGIN"])
    file = one("--static", dependency("needs_circle", first, ["-Wl,-rpath,$ORIGIN"]), code=0)
    equal([r["name"] for r in file["facts"]["needed_by_libraries"]].count("libcircle2.so"), 1)
    assert "libcircle1.so" not in [r["name"] for r in file["facts"]["needed_by_libraries"]]


# ---- Names that a library has


def name_of_a_library():
    """Of one that the file needs, and of one that this needs; not of one that nobody needs."""
    path = dependency("takes_deep", library("libnamed", ASKED.replace("int asked", "int taken_name") + ASKED, ["-Wl,-soname,libnamed.so"]),
                      ["-Wl,-rpath,$ORIGIN", source("taken", ASKED.replace("asked", "taken_name"))])
    file = one("--static", path, code=1)
    equal(evidence(file, "interposer"), ["exports, as libnamed.so does, taken_name"])
    assert "other-export" not in names(file), names(file)
    path = clean("takes_none", [], [source("taken_alone", ASKED.replace("asked", "taken_name"))])
    equal(evidence(one("--static", path, code=0), "other-export"), ["exports taken_name"])


def name_that_is_everybodys():
    """What C++ defines in each file that needs it, weakly."""
    text = "__attribute__((weak, visibility(\"default\"))) int _Z3askv(void); int _Z3askv(void) { return 1; }\n"
    path = dependency("weak_too", library("libweak", ASKED + text, ["-Wl,-soname,libweak.so"]), ["-Wl,-rpath,$ORIGIN", source("weak", text)])
    file = one("--static", path, code=0)
    equal((evidence(file, "interposer"), evidence(file, "other-export")), ([], ["exports _Z3askv"]))


# ---- Who may put another in its place


def kept(folder, mode=0o755, file_mode=0o755):
    """A plugin whose library lies in a folder of RUNPATH."""
    os.mkdir(scratch(folder))
    path = dependency(folder + "_plugin", library(f"{folder}/lib{folder}", ASKED, [f"-Wl,-soname,lib{folder}.so"]), [f"-Wl,-rpath,$ORIGIN/{folder}"])
    os.chmod(scratch(f"{folder}/lib{folder}.so"), file_mode)
    os.chmod(scratch(folder), mode)
    return path


def folder_of_a_library():
    where = os.path.join(os.path.realpath(Setting.scratch), "")
    equal(evidence(one("--static", kept("kept"), code=0), "folder-writable"), [])
    equal(evidence(one("--static", kept("open", mode=0o777), code=1), "folder-writable"),
          [f"{where}open has mode 0777, above the library {where}open/libopen.so"])
    equal(evidence(one("--static", kept("loose", file_mode=0o666), code=1), "file-writable"),
          [f"the library {where}loose/libloose.so has mode 0666 and group 0"])


def folder_of_the_search_path():
    """Empty, or not there: whoever may make it is asked before the system."""
    for folder, mode in (("empty", 0o777), ("around", 0o1777)):
        os.mkdir(scratch(folder))
        os.chmod(scratch(folder), mode)
    where = os.path.join(os.path.realpath(Setting.scratch), "")
    path = clean("leads_empty", ["-Wl,-rpath,$ORIGIN/empty"])
    equal(evidence(one("--static", path, code=1), "folder-writable"), [f"{where}empty has mode 0777, where RUNPATH leads"])
    path = clean("leads_nowhere", ["-Wl,--disable-new-dtags,-rpath,$ORIGIN/around/none"])
    equal(evidence(one("--static", path, code=1), "folder-writable"),
          [f"{where}around has mode 1777, so {where}around/none can be made by anybody, where RPATH leads"])


def folders_are_listed():
    """All above the file, in JSON and in the table; another owner or mode is told against another build."""
    paths = []
    for folder, mode in (("one_place", 0o755), ("other_place", 0o750)):
        os.mkdir(scratch(folder))
        paths.append(os.path.realpath(clean(folder + "/placed")))
        os.chmod(scratch(folder), mode)
    document, done = audit("--static", "--against", *paths, code=0)
    rows = document["files"][0]["facts"]["place"]["folders"]
    above = [os.path.dirname(paths[1])]
    while above[0] != "/":
        above.insert(0, os.path.dirname(above[0]))
    equal([row["path"] for row in rows], above)
    for row in rows:
        found = os.stat(row["path"])
        equal((row["owner"], row["group"], int(row["mode"], 8)), (found.st_uid, found.st_gid, found.st_mode & 0o7777))
    assert f"{above[-1]} {os.getuid()}:{os.getgid()} 0750\n" in done.stdout.decode(), done.stdout
    told = [row["what"] for row in document["changes"] if row["kind"] == "place"]
    assert f"folder {above[-1]}: owner {os.getuid()}, group {os.getgid()}, mode 0750" in told, told
    assert not [what for what in told if what.startswith("folder /:")], told


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
            ("libraries of great size", libraries_of_great_size),
            ("a library of a library that is missing", library_of_a_library_missing), ("a library of a library", library_of_a_library_found),
            ("libraries in a circle", libraries_in_a_circle), ("a name of a library", name_of_a_library),
            ("a name that is everybody's", name_that_is_everybodys), ("the folder of a library", folder_of_a_library),
            ("a folder of the search path", folder_of_the_search_path), ("folders are listed", folders_are_listed)]


if __name__ == "__main__":
    main(make_rows)
