#!/usr/bin/env python3
"""No leak is hidden: nothing in the tree suppresses what a leak checker finds, but for the narrow places named here.

A test that demands that something stays asserts it, and gives it back; none asks a checker to look away. Prints TAP;
exit code 1 where something is amiss."""
import argparse
import os
import re
import sys

sys.dont_write_bytecode = True
from check_layers import print_tap  # noqa: E402

# What hides leaks or errors from everything that runs: a pattern, and what it is.
HIDES = [
    (r"suppressions?\s*=|--suppressions|--gen-suppressions", "a suppression file is named"),
    (r"__(?:lsan|asan|tsan|msan|ubsan)_default_suppressions", "suppressions are compiled in"),
    (r"__(?:lsan|asan)_default_options", "a checker's options are compiled in"),
    (r"detect_leaks\s*=\s*(?:0|false|no)", "leaks are not looked for"),
    (r"LSAN_OPTIONS", "the leak checker's options are set"),
    (r"__lsan_(?:disable|enable|ignore_object|register_root_region)|LeakSanitizer|ScopedDisabler",
     "the leak checker is told to look away"),
    (r"--leak-check=(?:no|summary)|--show-leak-kinds=none|--errors-for-leak-kinds=none", "valgrind does not look"),
    (r"VALGRIND_(?:DISABLE|DO_|CREATE_|MAKE_MEM_DEFINED|DISCARD)|valgrind/(?:valgrind|memcheck)\.h",
     "valgrind is told to look away"),
    (r"(?:exitcode|halt_on_error|abort_on_error)\s*=\s*0", "a finding does not fail the run"),
    (r"no_sanitize|-fno-sanitize=(?:\w+,)*leak|-fsanitize-(?:ignore|black)list", "code is not looked at"),
]

# Where one of them stands all the same: file, text of the line, why. Each must still be there, once.
ALLOWED = [
    ("fuzz/campaign/programs.py", 'asan += ":allocator_may_return_null=1:detect_leaks=0"',
     "the contract engine alone: its runtime keeps its own books until the end"),
    ("fuzz/contract/contract_replay.c", "const char *__asan_default_options(void);", "the same, of one program"),
    ("fuzz/contract/contract_replay.c", "const char *__asan_default_options(void) {", "the same"),
    ("fuzz/contract/numbers.h", "#define CONTRACT_PLAIN", "functions of that runtime, which reads shadow memory"),
    ("fuzz/mains/libfuzzer_main.c", "const char *__asan_default_options(void);",
     "how much of what is freed is kept; leaks are looked for as ever"),
    ("fuzz/mains/libfuzzer_main.c", "const char *__asan_default_options(void) {", "the same"),
    ("fuzz/throughput.py", 'ASAN_OPTIONS="detect_leaks=0', "measures how fast inputs go by; others look what they leave"),
    ("tests/core/prefix_memory_test.c", "#define DELIBERATE_RACE", "one function that writes while another reads"),
]

# What a build looks for: file, text that must be in it.
LOOKS = [
    ("CMakePresets.json", "--error-exitcode=99"),
    ("CMakePresets.json", "--leak-check=full"),
    ("CMakePresets.json", "--errors-for-leak-kinds=definite"),
    ("CMakePresets.json", '"NXMEM_SANITIZE": "address,undefined"'),
]

# Functions whose edges no fuzzer counts: checked as ever, as long as every mention of the file says that it is only for the counting.
UNCOUNTED = "uncounted.txt"
COUNTING = "-fsanitize-coverage-ignorelist="

SUPPRESSION_FILE = re.compile(r"\.supp$|suppress", re.IGNORECASE)
SUPPRESSION_LINE = re.compile(r"^(?:leak|race|mutex|deadlock|interceptor_via_\w+|called_from_lib|thread|signal|alignment"
                              r"|vptr|unsigned-integer-overflow|obj|fun|Memcheck):\S", re.MULTILINE)
TEXT = (".c", ".h", ".py", ".sh", ".txt", ".cmake", ".json", ".toml", ".map", ".cfg", ".ini", "")
OWN = ("tests/structure/check_leaks.py", "tests/structure/leaks_test.py")


def hidden_in(path, text, allowed):
    """Lines that hide something and are not allowed; the allowances that are used are taken out of `allowed`."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, what in HIDES:
            if not re.search(pattern, line):
                continue
            used = next((a for a in allowed if a[0] == path and a[1] in line), None)
            if used is None:
                yield f"{path}:{number}: {what}: {line.strip()[:100]}"
            else:
                used[3].append(number)


def is_for_counting(path, tree):
    mentions = [line for text in tree.values() for line in text.splitlines() if UNCOUNTED in line]
    return os.path.basename(path) == UNCOUNTED and mentions != [] and all(COUNTING in line for line in mentions)


def all_rows(tree, allowed=None, looks=None):
    allowed = [(*a[:3], []) for a in (ALLOWED if allowed is None else allowed)]
    complaints = [c for path in sorted(tree) for c in hidden_in(path, tree[path], allowed)]
    yield "nothing hides a leak", complaints
    yield "there is no file of suppressions", [
        path for path in sorted(tree) if SUPPRESSION_FILE.search(os.path.basename(path))
        or (os.path.splitext(path)[1] == "" or path.endswith(".txt")) and SUPPRESSION_LINE.search(tree[path]) and not is_for_counting(path, tree)]
    yield "each exception is needed, on one line", [
        f"{path}: {text}: on {len(set(lines))} lines" for path, text, _, lines in allowed if len(set(lines)) != 1]
    yield "the checkers look", [
        f"{path}: {text} is missing" for path, text in (LOOKS if looks is None else looks)
        if text not in tree.get(path, "")]


def read_tree(root):
    tree = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in ("build", ".git", "__pycache__", "seeds", "corpus")]
        for name in files:
            path = os.path.relpath(os.path.join(folder, name), root)
            if path in OWN or os.path.splitext(name)[1] not in TEXT and not SUPPRESSION_FILE.search(name):
                continue
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
                tree[path] = file.read()
    return tree


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root")
    return print_tap(all_rows(read_tree(parser.parse_args().root)))


if __name__ == "__main__":
    sys.exit(main())
