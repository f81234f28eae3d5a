#!/usr/bin/env python3
"""nxmem audit --static: each rule is seen to fire on a file made for it, and none of them on a clean one. Prints TAP."""
import os
import shutil
import socket
import struct
import subprocess

from common import FIXTURE, above_note, audit, clean, evidence, fits_a_terminal, names, one, source
from crafted import symbols_of_one_name
from harness import Setting, compile_so, equal, main, nxmem, plugin, refused_in_one_line, scratch, write

SOMEBODY = 12345
# A scratch folder lies below /tmp.
ALWAYS = {"not-run", "folder-shared"}

TAKES = "__attribute__((visibility(\"default\"))) void *%s(unsigned long n) { return (void *)n; }\n"
SOCKET = "#include <sys/socket.h>\n__attribute__((visibility(\"hidden\"))) int f(void); int f(void) { return socket(1, 1, 0); }\n"

AT_LOAD = "static volatile int v; __attribute__((visibility(\"hidden\"))) void f(void); %s void f(void) { v = 1; }\n"
FUNCTION, FIRST, LAST = (AT_LOAD % how for how in ("", "__attribute__((constructor))", "__attribute__((destructor))"))
# Bytes as the compiler has them, and another function behind the jump; or its name, and a body in the file.
LOOKS_LIKE = FUNCTION + '__asm__(".section .init_array,\\"aw\\"; .quad looks; .text; looks: endbr64; .byte 0xe9; .long f - . - 4");\n'
TAKES_NAME = "__attribute__((visibility(\"default\"))) void __gmon_start__(void); void __gmon_start__(void) {}\n"

# Of the C library, and on no list.
TAKEN = ("accept", "sendmsg", "snprintf", "strtol", "qsort", "posix_spawn", "pwrite64", "lseek", "sem_wait", "__errno_location",
         "__memcpy_chk", "sigaltstack")

# rule, flags, text of one more source
FIRES = [
    *[("interposer", [], TAKES % name) for name in TAKEN], ("interposer", ["-nostdlib"], TAKES % "accept"),

    ("missing-export", ["-DMISSING_EXPORT"], ""), ("missing-export", ["-DHIDDEN_EXPORT"], ""),
    ("missing-export", ["-DDATA_EXPORT"], ""), ("indirect-export", ["-DINDIRECT_EXPORT"], ""),
    ("other-export", ["-DOTHER_EXPORT"], ""), ("interposer", [], TAKES % "malloc"),
    ("interposer", [], TAKES % "cuMemAlloc"), ("interposer", [], TAKES % "dlopen"), ("reaches-out", [], SOCKET),
    ("constructor", ["-DCONSTRUCTORS"], ""), ("destructor", ["-DDESTRUCTORS"], ""),
    ("constructor", ["-Wl,-init=f"], FUNCTION), ("destructor", ["-Wl,-fini=f"], FUNCTION),
    ("constructor", ["-nostartfiles"], FIRST), ("destructor", ["-nostartfiles"], LAST),
    ("constructor", ["-nostartfiles", "-fuse-ld=lld"], FIRST), ("constructor", ["-nostartfiles"], LOOKS_LIKE),
    ("constructor", [], TAKES_NAME), ("constructor", ["-nostartfiles", "-Wl,-z,pack-relative-relocs"], FIRST), ("ifunc", ["-DINNER_INDIRECT"], ""),
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
    ("interposer", [], TAKES % "customary"), ("interposer", [], TAKES % "_init_here"),
    *[("other-export", [], TAKES % name) for name in TAKEN], ("relative-path", ["-Wl,-rpath,/opt/x:$ORIGIN"], ""),
    ("partial-relro", ["-Wl,-z,norelro"], ""), *[(rule, flags, text) for rule, text in (("constructor", LAST), ("destructor", FIRST)) for flags in (
        [], ["-fuse-ld=lld"], ["-Wl,-z,lazy"], ["-Wl,-z,ibtplt"], ["-Wl,-z,pack-relative-relocs"], ["-nostartfiles"])],
    ("reaches-out", [], TAKES % "mine"),
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


def at_load_by_address():
    """Evidence says where to look; what the compiler added is not among it."""
    path = clean("by_address", ["-Wl,-init=f"], [source("by_address", FUNCTION)])
    symbols = subprocess.run(["nm", path], stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")
    address = next(int(line.split()[0], 16) for line in symbols if line.endswith(" f"))
    equal(evidence(one("--static", path), "constructor"), [f"calls 0x{address:x} by DT_INIT"])


def is_instrumented(path, facts):
    """By a sanitizer, or with counters of lines."""
    with open(path, "rb") as file:
        return b".gcda" in file.read() or any(name.startswith("__asan_") for name in facts["imports"])


def ours_are_silent():
    """The engine of hostvmm has a destructor of its own. What a compiler instruments a module with is told like anybody's."""
    minimal, hostvmm = one("--static", plugin("minimal")), one("--static", plugin("hostvmm"))
    told = is_instrumented(plugin("minimal"), minimal["facts"])
    equal(names(minimal) & {"constructor", "destructor"}, {"constructor", "destructor"} if told else set())
    equal("constructor" in names(hostvmm), told)


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


def unreadable():
    """As somebody who may not."""
    path = clean("secret")
    os.chmod(path, 0)
    somebody = {"user": SOMEBODY, "group": SOMEBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    with open(os.path.join(Setting.scratch, "listing"), "wb") as out:
        os.chmod(Setting.scratch, 0o755)
        done = subprocess.run([Setting.nxmem, "audit", path], stdout=out, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False, **somebody)
    refused_in_one_line(done)


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


def special(kind):
    """What a name may be that is no file."""
    path = scratch(kind)
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path)
    elif kind == "link":
        os.symlink(Setting.scratch, path)
    return path


def built(name, kind):
    return compile_so(name, [source(name, "int main(void) { return 0; }\n")], kind=kind)


def core_file():
    return changed("core.so", 16, "<H", 4)


def segment_table(name, change):
    """`change` is given the content and the offset of each program header with its type."""
    bytes_ = bytearray(content())
    change(bytes_, [(at, kind) for at, kind, _, _ in segments(bytes_)])
    return write(name, bytes_)


def loads_overlap(bytes_, headers):
    loads = [at for at, kind in headers if kind == 1]
    struct.pack_into("<Q", bytes_, loads[1] + 16, struct.unpack_from("<Q", bytes_, loads[0] + 16)[0])


def dynamic_twice(bytes_, headers):
    dynamic = next(at for at, kind in headers if kind == 2)
    other = next(at for at, kind in headers if kind not in (1, 2))
    bytes_[other:other + 56] = bytes_[dynamic:dynamic + 56]


def dynamic_outside(bytes_, headers):
    struct.pack_into("<Q", bytes_, next(at for at, kind in headers if kind == 2) + 16, 1 << 40)


def note_of_all(bytes_, headers):
    """No plugin needs notes: what is huge is passed over, and the file is a plugin still."""
    at = next(at for at, kind in headers if kind == 4)
    struct.pack_into("<QQQQQ", bytes_, at + 8, 0, 0, 0, len(bytes_), len(bytes_))


def huge_note():
    path = segment_table("note.so", note_of_all)
    assert "missing-export" not in names(one("--static", path))


def empty_notes():
    """A note of 2^32-1 bytes, and one of no bytes after the other."""
    def change(bytes_, headers):
        at = next(at for at, kind in headers if kind == 4)
        offset, = struct.unpack_from("<Q", bytes_, at + 8)
        struct.pack_into("<III", bytes_, offset, 2**32 - 1, 2**32 - 1, 3)
    equal(one("--static", segment_table("endless_note.so", change))["facts"]["build_id"], None)


NO_PLUGINS = [
    ("a socket", lambda: special("socket")), ("a link to a folder", lambda: special("link")),
    ("a null device", lambda: "/dev/null"), ("a terminal's device", lambda: "/dev/ptmx"), ("a file of /proc", lambda: "/proc/self/maps"),
    ("an object file", lambda: built("object", "-c")), ("a static executable", lambda: built("static", "-static")),
    ("an executable at its address", lambda: built("fixed", "-no-pie")), ("a core dump", core_file),
    ("loaded segments over each other", lambda: segment_table("over.so", loads_overlap)),
    ("two dynamic segments", lambda: segment_table("twice.so", dynamic_twice)),
    ("a dynamic segment outside", lambda: segment_table("dynamic.so", dynamic_outside)),
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


def names_of_great_weight():
    """600 MB of names in a file of 20: to show them takes gigabytes."""
    process = subprocess.Popen([Setting.nxmem, "audit", "--static", symbols_of_one_name(600000, 1000)], stdout=subprocess.PIPE)
    lines = process.stdout.read().decode().splitlines()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    equal((process.returncode, len(lines)), (4, 2))
    assert usage.ru_maxrss < 1 << 20, f"{usage.ru_maxrss} KiB"
    assert "missing-export" in names(one("--static", symbols_of_one_name(1000, 1000), code=1))


def every_rule_has_a_row():
    """What --list shows is named by a test beside this one."""
    here = os.path.dirname(os.path.abspath(__file__))
    text = "".join(open(os.path.join(here, name), encoding="utf-8").read() for name in os.listdir(here) if name.endswith(".py"))
    listed = [line.split()[::2][:2] for line in nxmem("audit", "--list").stdout.decode().splitlines()[:-1]]
    equal([rule for rule in listed if not any(f'"{word}"' in text or word in text.split() for word in rule)], [])


def names_that_are_no_paths():
    for path in ("a" * 300, "/".join(["a" * 200] * 30), "", "/proc/self/fd/999", "/dev/null/x", b"\xff\xfe"):
        refused_in_one_line(nxmem("audit", path))


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
    found = [line.split()[:3] for line in done.stdout.decode().splitlines()[1:-3]]
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
    rows += [("code at load by its address", at_load_by_address), ("our own have no code at load", ours_are_silent)]
    rows += [("fires: preinit", preinit), ("fires: executable-stack where nothing is stated", stack_unstated)]
    rows += [(f"{'fires' if row[1] else 'silent'}: {row[0]} {row[2]}", place(i, *row)) for i, row in enumerate(PLACES)]
    rows += [("a shared folder", shared_folder), ("links are followed", links_are_followed), ("links in a circle", link_in_a_circle), ("a huge note", huge_note), ("a note without end", empty_notes),
             ("what cannot be read", unreadable), ("names of great weight", names_of_great_weight),
             ("every rule has a row", every_rule_has_a_row), ("names that are no paths", names_that_are_no_paths),
             ("a large file", large_file)]
    rows += [(f"no plugin: {name}", is_no_plugin(make)) for name, make in NO_PLUGINS]
    rows += [("twenty libraries of the system", system_libraries), ("exit codes of several files", exit_codes_of_several),
             ("usage", usage), ("every rule is explained", rules_explained), ("output that is not written", output_not_written),
             ("table and JSON agree", table_and_json_agree), ("hostile names", hostile_names)]
    return rows


if __name__ == "__main__":
    main(make_rows)
