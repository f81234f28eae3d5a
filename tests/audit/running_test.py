#!/usr/bin/env python3
"""nxmem audit on plugins that run: ours are fine, and what hostile code tries in the confined child fails. Prints TAP."""
import os
import subprocess
import threading

from common import above_note, audit, clean, evidence, names, one, source
from harness import Setting, compile_so, environment, equal, main, nxmem, plugin, scratch

TRIES = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <unistd.h>
static char *const none[] = {0};
__attribute__((constructor)) static void attempt(void) {
  if (%s) abort();
}
"""

# What must not succeed behind the fences, and does without them.
ATTEMPTS = [
    ("a TCP socket", "socket(AF_INET, SOCK_STREAM, 0) >= 0"),
    ("a UNIX socket", "socket(AF_UNIX, SOCK_STREAM, 0) >= 0"),
    ("making a file", 'open("%(scratch)s/made", O_CREAT | O_WRONLY, 0600) >= 0'),
    ("writing to a file", 'open("%(scratch)s/there", O_WRONLY) >= 0'),
    ("emptying a file", 'truncate("%(scratch)s/there", 0) == 0'),
    ("renaming a file", 'rename("%(scratch)s/there", "%(scratch)s/there2") == 0 || rename("%(scratch)s/there2", "%(scratch)s/there") == 0'),
    ("making a folder", '(rmdir("%(scratch)s/folder"), mkdir("%(scratch)s/folder", 0700) == 0)'),
    ("another program", '(execve("/bin/true", none, none), errno != EPERM)'),
    ("a signal to a process outside", "kill(%(outside)d, 0) == 0"),
    ("new privileges", "prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1"),
]


def plugin_of(name, text):
    return compile_so(name, [Setting.minimal, source(name, text)],
                      ["-I", Setting.include, "-Wl,-z,relro,-z,now,-z,noexecstack", "-fvisibility=hidden"])


def attempt_fails(number, condition):
    def case():
        with open(scratch("there"), "w", encoding="utf-8") as file:
            file.write("content")
        words = {"scratch": Setting.scratch, "outside": os.getpid()}
        path = plugin_of(f"attempt{number}", TRIES % (condition % words))
        free = nxmem("conform", "--rule", "NX-MOD-001", path)
        equal(free.returncode, 1)  # the attempt is one: without the fences it succeeds and ends the process
        equal(above_note(one("--cycles", "10", path, code=0)), [])
    return case


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


def fences_are_told():
    file = one("--cycles", "0", plugin("minimal"), code=0)
    fences = file["running"]["confinement"]
    missing = [fence["name"] for fence in fences if not fence["available"]]
    equal([text.split()[0] for text in evidence(file, "unconfined")], missing)
    assert {"no-new-privileges", "seccomp", "landlock-files"} <= {fence["name"] for fence in fences}


def judge_that_dies():
    """A constructor that ends the process which judges it."""
    path = plugin_of("kills", "#include <signal.h>\n#include <unistd.h>\n"
                     "__attribute__((constructor)) static void end(void) { kill(getppid(), SIGKILL); }\n")
    file = one("--cycles", "0", "--timeout", "30", path, code=1)
    assert "unjudged" in names(file), names(file)


def forged_result():
    """The result's descriptor is open in the plugin's process."""
    path = plugin_of("forges", "#include <unistd.h>\n"
                     "__attribute__((constructor)) static void forge(void) { if (write(3, \"\\x1b[31m{\", 6) != 6) _exit(0); }\n")
    one("--cycles", "0", path)


def nothing_stays():
    path = plugin_of("stays", "#include <unistd.h>\n__attribute__((constructor)) static void stay(void) {\n"
                     "  if (fork() == 0) { setsid(); if (fork() == 0) for (;;) pause(); _exit(0); }\n}\n")
    mark = f"NXMEM_AUDIT_MARK={os.getpid()}"
    name, value = mark.split("=")
    audit("--cycles", "0", path, env={name: value})
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() in file.read().split(b"\0"):
                    left.append(pid)
        except OSError:
            pass
    equal(left, [])


def hang_ends():
    path = plugin_of("hangs", "#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { for (;;) pause(); }\n")
    file = one("--cycles", "0", "--timeout", "2", path, code=1)
    assert "refused" in names(file), names(file)


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
             ("the fences are told, each", fences_are_told)]
    rows += [(f"confined: {name}", attempt_fails(i, condition)) for i, (name, condition) in enumerate(ATTEMPTS)]
    rows += [("a plugin that ends its judge", judge_that_dies), ("a plugin that writes its own result", forged_result),
             ("no process of a plugin stays", nothing_stays), ("a plugin that hangs", hang_ends),
             ("a file that changes meanwhile", file_that_changes), ("--static runs nothing", without_code),
             ("two builds compared", builds_compared), ("two behaviours compared", behaviour_compared)]
    return rows


if __name__ == "__main__":
    main(make_rows)
