#!/usr/bin/env python3
"""nxmem audit --static: each rule is seen to fire on a file made for it, and none of them on a clean one. Prints TAP."""
import os
import shutil
import struct
import subprocess

from common import FIXTURE, above_note, audit, clean, evidence, fits_a_terminal, names, one, source
from harness import Setting, compile_so, equal, main, nxmem, plugin, refused_in_one_line, scratch, write

SOMEBODY = 12345
# A scratch folder lies below /tmp.
ALWAYS = {"not-run", "folder-shared"}

TAKES = "__attribute__((visibility(\"default\"))) void *%s(unsigned long n) { return (void *)n; }\n"
SOCKET = "#include <sys/socket.h>\n__attribute__((visibility(\"hidden\"))) int f(void); int f(void) { return socket(1, 1, 0); }\n"

# rule, flags, text of one more source
FIRES = [
    ("missing-export", ["-DMISSING_EXPORT"], ""), ("missing-export", ["-DHIDDEN_EXPORT"], ""),
    ("missing-export", ["-DDATA_EXPORT"], ""), ("indirect-export", ["-DINDIRECT_EXPORT"], ""),
    ("other-export", ["-DOTHER_EXPORT"], ""), ("interposer", [], TAKES % "malloc"),
    ("interposer", [], TAKES % "cuMemAlloc"), ("interposer", [], TAKES % "dlopen"), ("reaches-out", [], SOCKET),
    ("constructor", ["-DCONSTRUCTORS"], ""), ("destructor", ["-DDESTRUCTORS"], ""), ("ifunc", ["-DINNER_INDIRECT"], ""),
    ("text-relocation", ["-DTEXT_RELOCATION", "-Wl,-z,notext"], ""), ("executable-stack", ["-Wl,-z,execstack"], ""),
    ("writable-code", ["-nostdlib", "-Wl,--omagic"], ""), ("no-relro", ["-Wl,-z,norelro"], ""),
    ("partial-relro", ["-Wl,-z,lazy"], ""), ("lazy-binding", ["-Wl,-z,lazy"], ""),
    ("relative-path", ["-Wl,-rpath,lib"], ""), ("relative-path", ["-Wl,-rpath,/opt/x:"], ""),
    ("relative-path", ["-Wl,--disable-new-dtags,-rpath,."], ""), ("search-path", ["-Wl,-rpath,/opt/x"], ""),
    ("search-path", ["-Wl,-rpath,$ORIGIN/x"], ""), ("nodelete", ["-Wl,-z,nodelete"], ""),
    ("unique-symbol", ["-DUNIQUE_SYMBOL"], ""), ("noopen", ["-Wl,-z,nodlopen"], ""),
    ("global-scope", ["-Wl,-z,global"], ""), ("global-scope", ["-Wl,-z,interpose"], ""),
    ("filter", ["-Wl,-f,libm.so.6"], ""), ("filter", ["-Wl,-F,libm.so.6"], ""), ("static-tls", ["-DSTATIC_TLS"], ""),
    ("thread-destructor", ["-DTHREAD_DESTRUCTOR"], ""), ("no-build-id", ["-Wl,--build-id=none"], ""),
]
# Alike, and nothing to find.
SILENT = [
    ("interposer", [], TAKES % "customary"), ("relative-path", ["-Wl,-rpath,/opt/x:$ORIGIN"], ""),
    ("partial-relro", ["-Wl,-z,norelro"], ""), ("constructor", [], ""), ("reaches-out", [], TAKES % "mine"),
    ("missing-dependency", ["-Wl,--no-as-needed", "-lm"], ""), ("missing-version", ["-Wl,--no-as-needed", "-lm"], "")]


def made(name, flags, text):
    return clean(name, flags, [source(name, text)] if text else [])


def rule_fires(number, rule, flags, text):
    def case():
        found = names(one("--static", made(f"fires{number}", flags, text)))
        assert rule in found, f"{rule} is not among {found}"
    return case


def rule_is_silent(number, rule, flags, text):
    def case():
        found = names(one("--static", made(f"silent{number}", flags, text)))
        assert rule not in found, f"{rule} is among {found}"
    return case


def clean_file():
    file = one("--static", clean("clean"), code=0)
    assert names(file) <= ALWAYS, names(file)
    equal(file["facts"]["build_id"], "0123456789abcdef")
    equal(file["facts"]["exports"], ["NxmemCreateAllocatorFactories", "NxmemNegotiate", "NxmemQueryUnloadReadiness"])
    equal(file["facts"]["marks"]["relro"], "full")


# ---- Patched files


def patched(name, flags, change):
    path = clean(name, flags)
    with open(path, "r+b") as file:
        content = bytearray(file.read())
        change(content)
        file.seek(0)
        file.write(content)
    return path


def segments(content):
    """Offset of each program header, its type, offset and size."""
    start, = struct.unpack_from("<Q", content, 32)
    count, = struct.unpack_from("<H", content, 56)
    for i in range(count):
        at = start + 56 * i
        kind, = struct.unpack_from("<I", content, at)
        offset, = struct.unpack_from("<Q", content, at + 8)
        size, = struct.unpack_from("<Q", content, at + 32)
        yield at, kind, offset, size


def retag(old, new):
    def change(content):
        _, _, offset, size = next(s for s in segments(content) if s[1] == 2)
        for at in range(offset, offset + size, 16):
            if struct.unpack_from("<q", content, at)[0] == old:
                struct.pack_into("<q", content, at, new)
                return
        raise AssertionError(f"no dynamic entry {old}")
    return change


def without_stack_mark(content):
    at = next(s[0] for s in segments(content) if s[1] == 0x6474E551)
    struct.pack_into("<I", content, at, 0)


def preinit():
    def change(content):
        retag(26, 32)(content)
        retag(28, 33)(content)
    assert "preinit" in names(one("--static", patched("preinit", [], change)))


def stack_unstated():
    assert "executable-stack" in names(one("--static", patched("unstated", [], without_stack_mark), code=1))


# ---- Dependencies


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


# ---- Places


def placed(name, folder_mode=0o755, file_mode=0o755, folder_owner=(0, 0), file_owner=(0, 0), deeper=""):
    folder = scratch(name)
    os.makedirs(os.path.join(folder, os.fsencode(deeper)))
    path = os.path.join(folder, os.fsencode(deeper), b"plugin.so")
    shutil.copyfile(clean("placed"), path)
    os.chown(path, *file_owner)
    os.chmod(path, file_mode)
    os.chown(folder, *folder_owner)
    os.chmod(folder, folder_mode)
    return os.fsdecode(path)


# rule, whether it fires, how the file is placed; owners can be set by root alone
PLACES = [
    ("file-writable", 1, {"file_mode": 0o757}), ("file-writable", 1, {"file_mode": 0o775, "file_owner": (0, SOMEBODY)}),
    ("file-writable", 0, {"file_mode": 0o775}), ("file-owner", 1, {"file_owner": (SOMEBODY, 0)}), ("file-owner", 0, {}),
    ("set-id", 1, {"file_mode": 0o4755}), ("set-id", 0, {}), ("folder-writable", 1, {"folder_mode": 0o777}),
    ("folder-writable", 1, {"folder_mode": 0o777, "deeper": "a/b/c"}), ("folder-writable", 0, {"folder_mode": 0o1777}),
    ("folder-group-writable", 1, {"folder_mode": 0o775, "folder_owner": (0, SOMEBODY)}),
    ("folder-group-writable", 0, {"folder_mode": 0o775}), ("folder-owner", 1, {"folder_owner": (SOMEBODY, 0)}),
    ("folder-owner", 0, {"deeper": "a"})]


def place(number, rule, fires, how):
    def case():
        found = names(one("--static", placed(f"place{number}", **how)))
        equal(rule in found, bool(fires))
    return case


def shared_folder():
    path = placed("sticky", folder_mode=0o1777)
    assert any("sticky has mode 1777" in text for text in evidence(one("--static", path), "folder-shared"))


def links_are_followed():
    """The link's own folder is looked at, and the one it leads to."""
    path = placed("target", folder_mode=0o777)
    os.makedirs(scratch("links"))
    os.symlink("../target", scratch("links/inner"))
    link = os.path.join(Setting.scratch, "links", "inner", os.path.basename(path))
    file = one("--static", link)
    assert {"symbolic-link", "folder-writable"} <= names(file), names(file)
    os.chmod(scratch("target"), 0o755)
    os.chmod(scratch("links"), 0o777)
    assert any(text.startswith(os.path.join(Setting.scratch, "links ")) for text in evidence(one("--static", link), "folder-writable"))
    os.chmod(scratch("links"), 0o755)
    assert "folder-writable" not in names(one("--static", link))
    assert "symbolic-link" not in names(one("--static", path))


def link_in_a_circle():
    os.symlink("round2", scratch("round1"))
    os.symlink("round1", scratch("round2"))
    refused_in_one_line(nxmem("audit", scratch("round1")))


def large_file():
    path = clean("large")
    os.truncate(path, (64 << 20) + 1)
    assert "large-file" in names(one("--static", path))
    os.truncate(path, 64 << 20)
    assert "large-file" not in names(one("--static", path))
    os.truncate(path, 300 << 20)
    refused_in_one_line(nxmem("audit", path))


# ---- What is no plugin


def content():
    with open(plugin("minimal"), "rb") as file:
        return file.read()


def fifo():
    os.mkfifo(scratch("fifo"))
    return scratch("fifo")


def changed(name, at, form, value):
    bytes_ = bytearray(content())
    struct.pack_into(form, bytes_, at, value)
    return write(name, bytes_)


NO_PLUGINS = [
    ("text", lambda: write("text.so", b"not a plugin\n")), ("an empty file", lambda: write("empty.so", b"")),
    ("a FIFO", fifo), ("a folder", lambda: Setting.scratch), ("a device", lambda: "/dev/zero"),
    ("a script", lambda: write("script.so", b"#!/bin/sh\nexit 0\n")), ("an executable", lambda: Setting.nxmem),
    ("32-bit", lambda: changed("class.so", 4, "B", 1)), ("the other byte order", lambda: changed("order.so", 5, "B", 2)),
    ("another machine", lambda: changed("machine.so", 18, "<H", 40)),
    ("a section table outside", lambda: changed("sections.so", 40, "<Q", 1 << 40)),
    ("a section table that wraps", lambda: changed("wraps.so", 40, "<Q", 2**64 - 64)),
    ("a segment table outside", lambda: changed("segments.so", 32, "<Q", 1 << 40)),
    ("sections without a count", lambda: changed("count.so", 60, "<H", 0)),
    ("no segments", lambda: changed("none.so", 56, "<H", 0)),
    *[(f"cut to {n} of 64 parts", lambda n=n: write(f"cut{n}.so", content()[:len(content()) * n // 64])) for n in range(1, 64, 6)]]


def is_no_plugin(make):
    def case():
        document, done = audit(make(), code=4)
        file = document["files"][0]
        equal((file["result"], file["findings"]), ("no-plugin", []))
        lines = fits_a_terminal(done.stdout).splitlines()
        assert len(lines) == 2 and file["message"] in lines[0], lines
        equal(done.stderr, b"")
    return case


def system_libraries():
    folder = os.path.dirname(os.path.realpath(subprocess.run(
        [Setting.cc, "-print-file-name=libc.so.6"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()))
    found = sorted({os.path.realpath(entry.path) for entry in os.scandir(folder) if ".so" in entry.name and entry.is_file()})
    found = [path for path in found if open(path, "rb").read(4) == b"\x7fELF"][:20]
    equal(len(found), 20)
    document, done = audit(*found, code=4)
    equal([file["result"] for file in document["files"]], ["no-plugin"] * 20)
    lines = fits_a_terminal(done.stdout).splitlines()
    equal([line.split(":")[0] for line in lines[:-1]], [os.path.realpath(path) for path in found])
    equal(lines[-1], "audit: 20 files, 0 fine, 0 with findings, 20 no plugin, 0 could not run")


def exit_codes_of_several():
    text, fine, bad, gone = write("t.txt", b"x"), clean("f"), clean("b", ["-Wl,-z,execstack"]), scratch("gone")
    for files, code in (([text, fine], 4), ([text, bad], 1), ([bad, gone], 3), ([gone, text, fine], 3), ([fine], 0)):
        equal(nxmem("audit", "--static", *files).returncode, code)


def usage():
    for words in ([], ["--nonsense", "x"], ["--timeout", "0", "x"], ["--explain", "NXA-999"], ["--cycles", "-1", "x"],
                  ["--against", "x", "a", "b"], ["--timeout", "1e9", "x"]):
        equal(nxmem("audit", *words).returncode, 2)
    helped = nxmem("audit", "--help")
    equal(helped.returncode, 0)
    assert b"not a plugin" in helped.stdout and b"  4  " in helped.stdout, helped.stdout


def rules_explained():
    lines = fits_a_terminal(nxmem("audit", "--list").stdout).splitlines()
    ids = [line.split()[0] for line in lines[:-1]]
    equal(len(ids), len(set(ids)))
    for row in lines[:-1]:
        identity, level, name = row.split()[:3]
        assert level in ("note", "warning", "error"), row
        by_id, by_name = nxmem("audit", "--explain", identity), nxmem("audit", "--explain", name)
        equal((by_id.returncode, by_name.stdout), (0, by_id.stdout))
        assert len(by_id.stdout.splitlines()[-1]) > 80, by_id.stdout


def output_not_written():
    equal(nxmem("audit", "--static", "--json", scratch("no/such/folder"), clean("unwritten")).returncode, 3)
    with open("/dev/full", "wb") as full:
        equal(nxmem("audit", "--static", clean("full"), stdout=full).returncode, 3)


def table_and_json_agree():
    document, done = audit("--static", clean("agree", ["-Wl,-z,lazy", "-DOTHER_EXPORT", "-Wl,-z,execstack"]), code=1)
    found = [line.split()[:3] for line in done.stdout.decode().splitlines()[1:-2]]
    equal(found, [[row["level"], row["rule"], row["name"]] for row in document["files"][0]["findings"]])
    levels = [row[0] for row in found]
    equal(levels, sorted(levels, key=["error", "warning", "note"].index))


def hostile_names():
    path = clean("hostile", ["-Wl,-soname,a\x1b[31mb", "-Wl,-rpath,/x\x1b]0;t\x07"])
    file = one("--static", path, code=0)
    assert "\\x1b" in file["facts"]["soname"] and "\\x1b" in evidence(file, "search-path")[0]


def make_rows():
    rows = [("a clean file", clean_file)]
    rows += [(f"fires: {row[0]} {' '.join(row[1])}", rule_fires(i, *row)) for i, row in enumerate(FIRES)]
    rows += [(f"silent: {row[0]} {' '.join(row[1])}", rule_is_silent(i, *row)) for i, row in enumerate(SILENT)]
    rows += [("fires: preinit", preinit), ("fires: executable-stack where nothing is stated", stack_unstated),
             ("a dependency that is missing", dependency_missing), ("a dependency beside the file", dependency_at_origin),
             ("a dependency of another machine", dependency_of_another_machine),
             ("a dependency by a relative path", dependency_by_relative_path), ("a version that is missing", version_missing)]
    rows += [(f"{'fires' if row[1] else 'silent'}: {row[0]} {row[2]}", place(i, *row)) for i, row in enumerate(PLACES)]
    rows += [("a shared folder", shared_folder), ("links are followed", links_are_followed), ("links in a circle", link_in_a_circle),
             ("a large file", large_file)]
    rows += [(f"no plugin: {name}", is_no_plugin(make)) for name, make in NO_PLUGINS]
    rows += [("twenty libraries of the system", system_libraries), ("exit codes of several files", exit_codes_of_several),
             ("usage", usage), ("every rule is explained", rules_explained), ("output that is not written", output_not_written),
             ("table and JSON agree", table_and_json_agree), ("hostile names", hostile_names)]
    return rows


if __name__ == "__main__":
    main(make_rows)
