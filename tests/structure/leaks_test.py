#!/usr/bin/env python3
"""The leak rules' own test: each row is a small tree with one thing in it, and whether it must be refused. Prints TAP."""
import sys

sys.dont_write_bytecode = True
import check_leaks  # noqa: E402
from check_layers import print_tap  # noqa: E402

PLACE = [("fuzz/run.py", "export ASAN_OPTIONS=detect_leaks=0", "one engine")]
BASE = {
    "fuzz/run.py": "export ASAN_OPTIONS=detect_leaks=0\n",
    "tests/host/one_test.c": "int main(void) { return 0; }\n",
    "CMakeLists.txt": "project(one)\nadd_test(NAME one COMMAND one)\n",
    "CMakePresets.json": "--leak-check=full\n",
}
UNCOUNTED = {"fuzz/uncounted.txt": "fun:f\n", "fuzz/CMakeLists.txt": "-fsanitize-coverage-ignorelist=uncounted.txt\n"}


def complaints(tree):
    rows = check_leaks.all_rows(tree, PLACE, [("CMakePresets.json", "--leak-check=full")])
    return [complaint for _, found in rows for complaint in found]


def with_file(path, text):
    return complaints({**BASE, path: text})


# name, complaints, whether there must be any
ROWS = [
    ("a tree that hides nothing", complaints(BASE), False),
    ("leaks are switched off elsewhere", with_file("tests/run.sh", "export ASAN_OPTIONS=detect_leaks=0\n"), True),
    ("leaks are switched off for all tests",
     with_file("tests/CMakeLists.txt", "set(ENV{ASAN_OPTIONS} detect_leaks=0)\n"), True),
    ("an exception stands twice", with_file("fuzz/run.py", BASE["fuzz/run.py"] * 2), True),
    ("an exception is not needed any more", with_file("fuzz/run.py", "true\n"), True),
    ("a file of suppressions", with_file("tests/lsan.supp", "leak:nx_\n"), True),
    ("a file of suppressions under another name", with_file("tests/known", "leak:nx_module_drop\n"), True),
    ("suppressions named", with_file("dev", 'export TSAN_OPTIONS="suppressions=tests/known.txt"\n'), True),
    ("suppressions compiled in", with_file("tests/host/leak.c",
                                           'const char *__lsan_default_suppressions(void) { return "leak:*"; }\n'), True),
    ("options compiled in", with_file("tests/host/leak.c", "const char *__asan_default_options(void);\n"), True),
    ("the checker told to look away", with_file("tests/host/leak.c", "  __lsan_ignore_object(block);\n"), True),
    ("the checker switched off around a call", with_file("tests/host/leak.c", "  __lsan_disable();\n"), True),
    ("valgrind without its leak check", with_file("CMakePresets.json", "--leak-check=no\n"), True),
    ("valgrind told to look away", with_file("tests/a.c", "#include <valgrind/memcheck.h>\n"), True),
    ("findings that fail nothing", with_file("dev", "export TSAN_OPTIONS=exitcode=0\n"), True),
    ("a function that is not instrumented",
     with_file("host/src/a.c", '__attribute__((no_sanitize("address"))) void f(void);\n'), True),
    ("files of functions that are not instrumented", with_file("CMakeLists.txt", "-fsanitize-ignorelist=a.txt\n"), True),
    ("functions whose edges are not counted", complaints({**BASE, **UNCOUNTED}), False),
    ("the same file for more than the counting",
     complaints({**BASE, **UNCOUNTED, "CMakeLists.txt": "-fsanitize-ignorelist=uncounted.txt\n"}), True),
    ("the same file, named nowhere", with_file("fuzz/uncounted.txt", "fun:f\n"), True),
    ("a checker asked for its findings", with_file("fuzz/life.c", "if (__lsan_do_recoverable_leak_check()) fail();\n"),
     False),
    ("an allocation that may fail", with_file("tests/CMakeLists.txt", "ASAN_OPTIONS=allocator_may_return_null=1\n"),
     False),
]


def test_rows():
    for name, found, must in ROWS:
        yield f"leaks: {name}", [] if bool(found) == must else found or ["stayed quiet"]


if __name__ == "__main__":
    sys.exit(print_tap(list(test_rows())))
