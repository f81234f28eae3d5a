#!/usr/bin/env python3
"""What the documents send a reader to is there: every test that they name is one that CTest knows. Prints TAP.

check_documents.py ROOT --build FOLDER
"""
import argparse
import glob
import os
import re
import sys

sys.dont_write_bytecode = True
from check_layers import print_tap  # noqa: E402

# Folders' prefixes: a word in backticks that begins with one of them and an underscore is the name of a test, here.
AREAS = ("adapters", "audit", "bench", "cli", "core", "cuda", "fuzz", "gpu", "host", "install", "layout", "manager", "plugins", "policy", "registry", "user", "vmm")
TABLES = "tests/README.md"


def tests_of(build):
    """Names in CTest's own files: no program needs to be built."""
    names = set()
    for path in glob.glob(os.path.join(build, "**", "CTestTestfile.cmake"), recursive=True):
        with open(path, encoding="utf-8") as file:
            names |= set(re.findall(r'^add_test\((?:\[=\[)?"?([\w.+-]+)', file.read(), re.MULTILINE))
    return names


def documents(root):
    found = sorted(glob.glob(os.path.join(root, "*.md"))) + [os.path.join(root, TABLES), os.path.join(root, "fuzz/README.md")]
    return {os.path.relpath(path, root): open(path, encoding="utf-8").read() for path in found}


def asked(text):
    """Patterns that a reader is told to give to ctest -R."""
    return re.findall(r"ctest\b[^`\n]*? -R '?([^\s'`]+)'?", text)


def unknown_patterns(text, tests):
    return [f"-R {pattern}: no test" for pattern in asked(text) if not any(re.search(pattern, name) for name in tests)]


def named(text):
    return re.findall(rf"`((?:{'|'.join(AREAS)})_[a-z0-9_]+\*?)`", text)


def unknown_names(text, tests):
    """A word with a star is a family; `core_prefix` beside a row's name is the test itself."""
    missing = []
    for name in sorted(set(named(text))):
        good = any(test.startswith(name[:-1]) for test in tests) if name.endswith("*") else name in tests
        missing += [] if good else [f"`{name}`: no test"]
    return missing


def rows(root, tests):
    texts = documents(root)
    yield "CTest knows tests", [] if len(tests) > 100 else [f"{len(tests)} are too few"]
    yield "the documents name tests", [] if len(named(texts[TABLES])) > 50 and asked(texts["THREATS.md"]) else ["too few: is the pattern still theirs?"]
    for path, text in texts.items():
        yield f"{path}: every pattern for ctest fits a test", unknown_patterns(text, tests)
    yield f"{TABLES}: every test that is named exists", unknown_names(texts[TABLES], tests)
    yield "a test that does not exist is noticed", [] if unknown_names("`host_nothing_of_that_name`", tests) and unknown_patterns(
        "`ctest --preset dev -R host_nothing`", tests) else ["it is not"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--build", required=True)
    arguments = parser.parse_args()
    return print_tap(rows(arguments.root, tests_of(arguments.build)))


if __name__ == "__main__":
    sys.exit(main())
