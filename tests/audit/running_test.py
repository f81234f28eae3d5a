#!/usr/bin/env python3
"""nxmem audit on plugins that run: ours are fine; files that change; two builds compared. Prints TAP."""
import os
import shutil
import subprocess
import threading
import time

from common import above_note, audit, clean, evidence, names, one, source
from harness import Setting, compile_so, environment, equal, main, nxmem, plugin, scratch

def plugin_of(name, text):
    return compile_so(name, [Setting.minimal, source(name, text)],
                      ["-I", Setting.include, "-Wl,-z,relro,-z,now,-z,noexecstack", "-fvisibility=hidden"])


def simulated():
    """The driver that the tests bring along."""
    folder = os.path.join(os.path.dirname(Setting.plugins), "fakecuda")
    assert os.path.exists(os.path.join(folder, "libcuda.so.1")), f"{folder} is not built"
    return {"LD_LIBRARY_PATH": folder}


def ours_is_fine(name, env=None):
    def case():
        file = one("--cycles", "100", plugin(name), code=0, env=env and env())
        assert not env or "no-mechanism" not in names(file), names(file)
        equal(above_note(file), [])
        assert file["running"]["conformance"]["passed"] > 0, file["running"]
        assert file["running"]["mechanisms"], "no mechanism was seen"
    return case


def no_device_is_a_note():
    file = one("--cycles", "10", plugin("cudavmm"), code=0, env={"LD_LIBRARY_PATH": "/nonexistent"})
    equal(above_note(file), [])
    assert "no-mechanism" in names(file) or file["running"]["allocators"], names(file)


def adapter_is_no_plugin():
    equal(one(plugin("torch"), code=4)["result"], "no-plugin")


def file_that_changes():
    """Another file takes its place again and again while it hangs."""
    path = plugin_of("changes", "#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { for (;;) pause(); }\n")
    with open(path, "rb") as file:
        content = file.read()
    running = subprocess.Popen([Setting.nxmem, "audit", "--cycles", "0", "--timeout", "3", path], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment())
    over = threading.Event()

    def replace():
        number = 0
        while not over.wait(0.02):
            number += 1
            with open(path + ".new", "wb") as file:
                file.write(content + bytes([number % 256]))
            os.replace(path + ".new", path)
    replacer = threading.Thread(target=replace)
    replacer.start()
    out = running.communicate(timeout=900)[0]
    over.set()
    replacer.join()
    equal(running.returncode, 1)
    assert b"NXA-043" in out, out


def file_that_comes_back():
    """Another file takes its place for a while; at the end it is there again, byte by byte and by its number."""
    path = plugin_of("returns", "#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { for (;;) pause(); }\n")
    running = subprocess.Popen([Setting.nxmem, "audit", "--cycles", "0", "--timeout", "3", path], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment())
    while not any(path in maps_of(pid) for pid in children_of(running.pid)):
        equal(running.poll(), None)
        time.sleep(0.02)
    os.rename(path, path + ".kept")
    shutil.copyfile(plugin("minimal"), path)
    os.rename(path + ".kept", path)
    out = running.communicate(timeout=900)[0]
    equal(running.returncode, 1)
    assert b"NXA-043" in out, out


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return file.read().split()
    except OSError:
        return []


def maps_of(pid):
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def without_code():
    path = plugin_of("crashes", "__attribute__((constructor)) static void crash(void) { __builtin_trap(); }\n")
    file = one("--static", path, code=0)
    assert "not-run" in names(file) and "running" not in file, names(file)
    assert "not-run" not in names(one("--cycles", "0", plugin("minimal"), code=0))


SHOWS = "#include <stdlib.h>\n__attribute__((visibility(\"default\"))) %s shown(void); %s shown(void) { return %s; }\n"
# kind, change, how its line begins; flags and more text of the old build; of the new one
DIFFERENCES = [
    ("rule", "new", "NXA-015 lazy-binding: ", [], "", ["-Wl,-z,lazy"], ""),
    ("rule", "gone", "NXA-020 nodelete: ", ["-Wl,-z,nodelete"], "", [], ""),
    ("rule", "new", "NXA-017 search-path: RUNPATH /b", ["-Wl,-rpath,/a"], "", ["-Wl,-rpath,/b"], ""),
    ("rule", "gone", "NXA-017 search-path: RUNPATH /a", ["-Wl,-rpath,/a"], "", ["-Wl,-rpath,/b"], ""),
    ("export", "new", "another_name", [], "", ["-DOTHER_EXPORT"], ""),
    ("export", "gone", "another_name", ["-DOTHER_EXPORT"], "", [], ""),
    ("export", "gone", "NxmemQueryUnloadReadiness", [], "", ["-DHIDDEN_EXPORT"], ""),
    ("import", "new", "getenv", [], "", [], SHOWS % ("char *", "char *", 'getenv("x")')),
    ("import", "gone", "rand", [], SHOWS % ("int", "int", "rand()"), [], SHOWS % ("int", "int", "1")),
    ("dependency", "new", "libm.so.6", [], "", ["-Wl,--no-as-needed", "-lm"], ""),
    ("dependency", "gone", "libm.so.6", ["-Wl,--no-as-needed", "-lm"], "", [], ""),
    ("filter", "new", "libm.so.6", [], "", ["-Wl,-f,libm.so.6"], ""),
    ("version", "new", "libc.so.6 GLIBC_", [], "", [], SHOWS % ("int", "int", "rand()")),
    ("layout", "new", "load rwx", [], "", ["-nostdlib", "-Wl,--omagic"], ""),
    ("layout", "new", "stack rwx", [], "", ["-Wl,-z,execstack"], ""),
    ("layout", "gone", "stack rw-", [], "", ["-Wl,-z,execstack"], ""),
    ("fact", "changed", "soname: liba.so, now libb.so", ["-Wl,-soname,liba.so"], "", ["-Wl,-soname,libb.so"], ""),
    ("fact", "changed", "build_id: 0123456789abcdef, now fedcba9876543210", [], "", ["-Wl,--build-id=0xfedcba9876543210"], ""),
    ("fact", "changed", "rpath: null, now /x", [], "", ["-Wl,--disable-new-dtags,-rpath,/x"], ""),
    ("fact", "changed", "bytes: ", [], "", ["-DOTHER_EXPORT"], ""),
    ("mark", "changed", "relro: partial, now full", ["-Wl,-z,lazy"], "", [], ""),
    ("mark", "changed", "stack: not executable, now executable", [], "", ["-Wl,-z,execstack"], ""),
    ("mark", "changed", "constructors: 1, now 3", [], "", ["-DCONSTRUCTORS"], ""),
    ("mark", "changed", "ifuncs: 0, now ", [], "", ["-DINNER_INDIRECT"], ""),
]


def build_of(name, flags, text):
    return clean(name, flags, [source(name, text)] if text else [])


def told(document):
    return {(row["kind"], row["change"], row["what"]) for row in document["changes"]}


def is_told(number, kind, change, line, *builds):
    """It is told, in the table as well; and the other way round it is told the other way round."""
    def case():
        old, now = build_of(f"old{number}", *builds[:2]), build_of(f"new{number}", *builds[2:])
        document, done = audit("--static", "--against", old, now)
        found = [row for row in told(document) if row[:2] == (kind, change) and row[2].startswith(line)]
        assert found, told(document)
        shown = [text.split(None, 2) for text in done.stdout.decode().splitlines()]
        assert [change, kind, found[0][2]] in shown, shown
        assert f"{len(document['changes'])} changes".encode() in done.stdout
        back = {row for row in told(audit("--static", "--against", now, old)[0]) if row[0] == kind}
        if change != "changed":
            assert {(kind, {"new": "gone", "gone": "new"}[change], row[2]) for row in found} <= back, back
    return case


def place_is_told():
    old, now = clean("place_old"), clean("place_new")
    os.chmod(now, 0o700)
    os.chmod(old, 0o755)
    assert ("place", "changed", "mode: 0755, now 0700") in told(audit("--static", "--against", old, now)[0])


def nothing_is_told():
    same = clean("same", ["-DOTHER_EXPORT", "-Wl,-z,lazy"])
    equal(audit("--static", "--against", same, same, code=0)[0]["changes"], [])
    equal(audit("--cycles", "0", "--against", plugin("minimal"), plugin("minimal"), code=0)[0]["changes"], [])


def old_that_is_none():
    """The old one is no plugin, or not there: said in one line; the new one is judged all the same."""
    for old, code in ((source("no_plugin", "x"), 4), (os.path.join(Setting.scratch, "gone"), 3)):
        document, done = audit("--static", "--against", old, clean("judged"), code=code)
        equal(document["files"][0]["result"], "ok")
        assert "changes" not in document and document["against"]["message"], document
        equal(len([line for line in (done.stdout + done.stderr).splitlines() if old.encode() in line]), 1)


def behaviour_compared():
    document, _ = audit("--cycles", "0", "--against", plugin("minimal"), plugin("hostvmm"), code=0)
    found = told(document)
    for row in (("mechanism", "gone", "minimal (host:0), level 1"), ("mechanism", "new", "hostvmm (host:0), level 1"),
                ("capability", "new", "module negotiates virtual-backing"), ("capability", "new", "hostvmm declared virtual-backing"),
                ("capability", "new", "hostvmm effective shared-mapping")):
        assert row in found, found


def make_rows():
    rows = [(f"ours is fine: {name}", ours_is_fine(name)) for name in ("minimal", "hostvmm")]
    rows += [("ours is fine: cudavmm, on the simulated driver", ours_is_fine("cudavmm", simulated)),
             ("a device that is not here is a note", no_device_is_a_note), ("the adapter is no plugin", adapter_is_no_plugin),
             ("a file that changes meanwhile", file_that_changes), ("a file that comes back", file_that_comes_back), ("--static runs nothing", without_code),
             ("two behaviours compared", behaviour_compared), ("a place compared", place_is_told),
             ("a build against itself", nothing_is_told), ("against what is no plugin", old_that_is_none)]
    rows += [(f"compared: {row[1]} {row[0]}: {row[2]}", is_told(i, *row)) for i, row in enumerate(DIFFERENCES)]
    return rows


if __name__ == "__main__":
    main(make_rows)
