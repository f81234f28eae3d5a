#!/usr/bin/env python3
"""nxmem audit on plugins that run: ours are fine; files that change; two builds compared. Prints TAP."""
import os
import subprocess
import threading

from common import above_note, audit, clean, evidence, names, one, source
from harness import Setting, compile_so, environment, equal, main, nxmem, plugin, scratch

def plugin_of(name, text):
    return compile_so(name, [Setting.minimal, source(name, text)],
                      ["-I", Setting.include, "-Wl,-z,relro,-z,now,-z,noexecstack", "-fvisibility=hidden"])


def ours_is_fine(name):
    def case():
        file = one("--cycles", "100", plugin(name), code=0)
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


def without_code():
    path = plugin_of("crashes", "__attribute__((constructor)) static void crash(void) { __builtin_trap(); }\n")
    file = one("--static", path, code=0)
    assert "not-run" in names(file) and "running" not in file, names(file)
    assert "not-run" not in names(one("--cycles", "0", plugin("minimal"), code=0))


def builds_compared():
    old = clean("compared_old", ["-Wl,-z,lazy", "-DOTHER_EXPORT"])
    document, done = audit("--static", "--against", old, clean("compared_new", ["-Wl,--no-as-needed", "-lm"]), code=0)
    told = {(row["kind"], row["change"], row["what"]) for row in document["changes"]}
    assert ("export", "gone", "another_name") in told, told
    assert ("dependency", "new", "libm.so.6") in told, told
    assert any(kind == "rule" and change == "gone" and "lazy-binding" in what for kind, change, what in told), told
    assert any(kind == "mark" and what == "relro: partial, now full" for kind, _, what in told), told
    assert any(kind == "layout" for kind, _, _ in told), told
    assert f"{len(document['changes'])} changes".encode() in done.stdout
    equal(audit("--static", "--against", old, old, code=0)[0]["changes"], [])


def behaviour_compared():
    document, _ = audit("--cycles", "0", "--against", plugin("minimal"), plugin("hostvmm"), code=0)
    kinds = {(row["kind"], row["change"]) for row in document["changes"]}
    assert {("mechanism", "gone"), ("mechanism", "new"), ("capability", "new")} <= kinds, kinds


def make_rows():
    rows = [(f"ours is fine: {name}", ours_is_fine(name)) for name in ("minimal", "hostvmm")]
    rows += [("a device that is not here is a note", no_device_is_a_note), ("the adapter is no plugin", adapter_is_no_plugin),
             ("a file that changes meanwhile", file_that_changes), ("--static runs nothing", without_code),
             ("two builds compared", builds_compared), ("two behaviours compared", behaviour_compared)]
    return rows


if __name__ == "__main__":
    main(make_rows)
