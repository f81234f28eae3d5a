#!/usr/bin/env python3
"""nxmem inspect on real plugins, on files made to carry one mark each, and on what is no plugin. Prints TAP."""
import json
import os
import struct

from crafted import CRAFTED
from harness import (HERE, Setting, compile_so, document, equal, fits_a_terminal, main, nxmem, plugin,
                     refused_in_one_line, scratch, write)

SOURCE = os.path.join(HERE, "fixtures", "inspected.c")
CLEAN = ["-Wl,-z,relro,-z,now,-z,noexecstack", "-Wl,--build-id=0x0123456789abcdef"]
EXPORTS = ["NxmemNegotiate", "NxmemCreateAllocatorFactories", "NxmemQueryUnloadReadiness"]

# As g++ names it.
CPP_NAME = "_Z25NxmemQueryUnloadReadinessP17NxmemUnloadReport"
IN_NAMESPACE = "_ZN4mine25NxmemQueryUnloadReadinessEP17NxmemUnloadReport"


def named_as(name):
    return f'-DNAMED_AS="{name}"'


# name, extra flags, finding, value (None: not looked at), verdict, exit code
MARKS = [
    ("a clean file", [], "format", "ELF64 shared object", "ok", 0),
    ("build id", [], "build_id", "0123456789abcdef", "ok", 0),
    ("no build id", ["-Wl,--build-id=none"], "build_id", None, "note", 0),
    ("soname", ["-Wl,-soname,libx.so.3"], "soname", "libx.so.3", "ok", 0),
    ("soname with a terminal escape", ["-Wl,-soname,a\x1b[31mb"], "soname", "a\\x1b[31mb", "ok", 0),
    ("a missing export", ["-DMISSING_EXPORT"], EXPORTS[2], "missing", "warning", 1),
    ("a hidden export", ["-DHIDDEN_EXPORT"], EXPORTS[2], "hidden", "warning", 1),
    ("a hidden export of a stripped file", ["-DHIDDEN_EXPORT", "-s"], EXPORTS[2], "missing", "warning", 1),
    ("an export under a C++ name", [named_as(CPP_NAME)], EXPORTS[2], "mangled", "warning", 1),
    ("an export under a C++ name, stripped", [named_as(CPP_NAME), "-s"], EXPORTS[2], "mangled", "warning", 1),
    ("an export in a namespace", [named_as(IN_NAMESPACE)], EXPORTS[2], "mangled", "warning", 1),
    ("a hidden export under a C++ name", [named_as(CPP_NAME), "-DHIDDEN_EXPORT"], EXPORTS[2], "mangled", "warning", 1),
    ("a longer name is another", [named_as("_Z26NxmemQueryUnloadReadiness2v")], EXPORTS[2], "missing", "warning", 1),
    ("an export that is data", ["-DDATA_EXPORT"], EXPORTS[1], "no function", "warning", 1),
    ("an export that is only asked for", ["-DUNDEFINED_EXPORT"], EXPORTS[1], "undefined", "warning", 1),
    ("an indirect export", ["-DINDIRECT_EXPORT"], EXPORTS[1], "indirect function", "note", 0),
    ("an IFUNC is counted", ["-DINDIRECT_EXPORT"], "ifuncs", 1, "note", 0),
    ("an IFUNC that is not exported is counted", ["-DINNER_INDIRECT"], "ifuncs", 1, "note", 0),
    ("another export", ["-DOTHER_EXPORT"], "other_exports", ["another_name"], "note", 0),
    ("a dependency", ["-Wl,--no-as-needed", "-lm"], "needed", ["libm.so.6", "libc.so.6"], "ok", 0),
    ("constructors", ["-DCONSTRUCTORS"], "init_array", 3, "note", 0),
    ("destructors", ["-DDESTRUCTORS"], "fini_array", 3, "note", 0),
    ("the compiler's own constructor", [], "init_array", 1, "ok", 0),
    ("static TLS", ["-DSTATIC_TLS"], "static_tls", True, "note", 0),
    ("a thread-local destructor", ["-DTHREAD_DESTRUCTOR"], "thread_destructors", True, "note", 0),
    ("no thread-local destructor", [], "thread_destructors", False, "ok", 0),
    ("full RELRO", [], "relro", "full", "ok", 0),
    ("partial RELRO", ["-Wl,-z,lazy"], "relro", "partial", "note", 0),
    ("lazy binding", ["-Wl,-z,lazy"], "bind_now", False, "note", 0),
    ("no RELRO", ["-Wl,-z,norelro"], "relro", "none", "warning", 1),
    ("executable stack", ["-Wl,-z,execstack"], "stack", "executable", "warning", 1),
    ("text relocations", ["-DTEXT_RELOCATION", "-Wl,-z,notext"], "textrel", True, "warning", 1),
    ("absolute rpath", ["-Wl,--disable-new-dtags,-rpath,/opt/x"], "rpath", "/opt/x", "note", 0),
    ("rpath beside the file", ["-Wl,--disable-new-dtags,-rpath,$ORIGIN/x"], "rpath", "$ORIGIN/x", "note", 0),
    ("relative rpath", ["-Wl,--disable-new-dtags,-rpath,lib"], "rpath", "lib", "warning", 1),
    ("absolute runpath", ["-Wl,--enable-new-dtags,-rpath,/opt/x"], "runpath", "/opt/x", "note", 0),
    ("runpath with an empty part", ["-Wl,--enable-new-dtags,-rpath,/opt/x:"], "runpath", "/opt/x:", "warning", 1),
    ("nodelete", ["-Wl,-z,nodelete"], "nodelete", True, "warning", 1),
    ("noopen", ["-Wl,-z,nodlopen"], "noopen", True, "warning", 1),
    ("a unique symbol", ["-DUNIQUE_SYMBOL"], "unique_symbols", ["only_one"], "warning", 1),
    ("writable code", ["-nostdlib", "-Wl,--omagic"], "writable_code", 1, "warning", 1),
]


def finding(found, name):
    return next(row for row in found["findings"] if row["name"] == name)


def mark(number, flags, name, value, verdict, code):
    def case():
        path = compile_so(f"mark{number}", [SOURCE], CLEAN + flags)
        row = finding(document(nxmem("inspect", "--json", path), code), name)
        equal(row["verdict"], verdict)
        if value is not None:
            equal(row["value"], value)
    return case


def plugin_is_fine(name):
    def case():
        found = document(nxmem("inspect", "--json", plugin(name)), 0)
        equal(found["result"], "ok")
        for export in EXPORTS:
            equal(finding(found, export)["value"], "function")
    return case


def cpp_name_is_shown():
    path = compile_so("cpp_name", [SOURCE], CLEAN + [named_as(IN_NAMESPACE)])
    equal(finding(document(nxmem("inspect", "--json", path), 1), EXPORTS[2])["as"], IN_NAMESPACE)


def file_is_absolute():
    folder, name = os.path.split(plugin("minimal"))
    equal(document(nxmem("inspect", "--json", name, cwd=folder), 0)["file"], os.path.realpath(plugin("minimal")))


def missing_file_is_absolute():
    found = document(nxmem("inspect", "--json", "missing.so", cwd=Setting.scratch), 3)
    equal(found["file"], os.path.join(Setting.scratch, "missing.so"))


def lines_show_every_finding():
    found = document(nxmem("inspect", "--json", plugin("minimal")), 0)
    done = nxmem("inspect", plugin("minimal"))
    equal(done.returncode, 0)
    lines = fits_a_terminal(done.stdout).splitlines()
    equal([line.split()[:2] for line in lines[1:-1]], [[row["verdict"], row["name"]] for row in found["findings"]])


def none_of_its_code_runs():
    source = write("runs.c", b'#include <stdlib.h>\n__attribute__((constructor)) static void run(void) { exit(77); }\n')
    path = compile_so("runs", [os.fsdecode(source), SOURCE], CLEAN)
    document(nxmem("inspect", "--json", path), 0)


def name_that_is_no_utf8():
    with open(plugin("minimal"), "rb") as file:
        path = write(b"\xff\x1b\n.so", file.read())
    found = document(nxmem("inspect", "--json", path), 0)
    assert "\\x1b\\x0a" in found["file"], found["file"]
    fits_a_terminal(nxmem("inspect", path).stdout)


# ---- What is no plugin file


def elf_header(**change):
    """An ELF header alone, of this machine (read from the command itself) unless changed."""
    with open(Setting.nxmem, "rb") as file:
        header = bytearray(file.read(64))
    for at, form, value in change.values():
        struct.pack_into(form, header, at, value)
    return bytes(header)


def cut(share):
    def make():
        with open(plugin("minimal"), "rb") as file:
            content = file.read()
        return write("cut.so", content[: int(len(content) * share)])
    return make


def fifo():
    path = scratch("fifo")
    if not os.path.exists(path):
        os.mkfifo(path)
    return path


def object_file():
    return compile_so("object", [SOURCE], kind="-c")


# name, how to make it, the word that says what was found
NO_PLUGINS = [
    ("no such file", lambda: scratch("missing.so"), "No such file"),
    ("an empty name", lambda: b"", "No such file"),
    ("a file as a folder", lambda: os.fsencode(plugin("minimal")) + b"/x", "Not a directory"),
    ("a directory", lambda: Setting.scratch, "directory"),
    ("a FIFO", fifo, "FIFO"),
    ("the null device", lambda: "/dev/null", "device"),
    ("an endless device", lambda: "/dev/zero", "device"),
    ("an empty file", lambda: write("empty.so", b""), "empty"),
    ("text", lambda: write("text.so", b"not a plugin\n"), "0x6e"),
    ("three bytes of an ELF file", lambda: write("three.so", b"\x7fEL"), "0x7f"),
    ("63 bytes of an ELF header", lambda: write("short.so", elf_header()[:63]), "63"),
    ("an ELF header alone", lambda: write("header.so", elf_header()), "segment"),
    ("a 32-bit ELF header", lambda: write("class.so", elf_header(kind=(4, "B", 1))), "class 1"),
    ("another machine's header", lambda: write("machine.so", elf_header(machine=(18, "<H", 3))), "machine 3"),
    ("the other byte order", lambda: write("order.so", elf_header(order=(5, "B", 2))), "order 2"),
    ("half a plugin", cut(0.5), "outside the file"),
    ("a plugin without its last byte", cut(0.99999), "outside the file"),
    ("an executable", lambda: Setting.nxmem, "executable"),
    ("an object file", object_file, "object file"),
]


def is_no_plugin(make, word):
    def case():
        path = make()
        refused_in_one_line(nxmem("inspect", path))
        found = document(nxmem("inspect", "--json", path), 3)
        equal(found["findings"], [])
        assert word in found["message"], f"{found['message']!r} does not say {word!r}"
    return case


def document_in_a_file():
    into = os.fsdecode(scratch("document.json"))
    done = nxmem("inspect", "--json=" + into, plugin("minimal"))
    equal((done.returncode, done.stdout), (0, nxmem("inspect", plugin("minimal")).stdout))
    with open(into, encoding="utf-8") as file:
        equal(json.load(file), document(nxmem("inspect", "-j", plugin("minimal")), 0))
    refused_in_one_line(nxmem("inspect", "--json=/nonexistent/folder/x", plugin("minimal")))


def make_rows():
    rows = [(f"{name} is fine", plugin_is_fine(name)) for name in ("minimal", "scripted")]
    rows += [(row[0], mark(number, *row[1:])) for number, row in enumerate(MARKS)]
    rows.append(("lines and JSON show the same findings", lines_show_every_finding))
    rows.append(("the C++ name of an export is shown", cpp_name_is_shown))
    rows.append(("a document in a file", document_in_a_file))
    rows.append(("the file's path is absolute", file_is_absolute))
    rows.append(("a missing file's path is absolute", missing_file_is_absolute))
    rows.append(("none of its code runs", none_of_its_code_runs))
    rows.append(("a file name that is no UTF-8", name_that_is_no_utf8))
    rows += [("no plugin: " + name, is_no_plugin(make, word)) for name, make, word in NO_PLUGINS]
    rows += [("ends in time: " + name, is_no_plugin(make, word)) for name, make, word in CRAFTED]
    return rows


if __name__ == "__main__":
    main(make_rows)
