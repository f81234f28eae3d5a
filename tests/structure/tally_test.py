#!/usr/bin/env python3
"""The tally's own test: small JUnit files of every shape CTest writes, and what must be said of each. Prints TAP."""
import os
import subprocess
import sys
import tempfile
from xml.sax.saxutils import escape

TALLY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tally.py")


def case(output, status="run", inner="", name="t"):
    return f'<testcase name="{name}" status="{status}">{inner}<system-out>{escape(output)}</system-out></testcase>'


FAILED = '<failure message=""/>'
CUT = "ok 1 - a\n...\n[This part of the test output was removed since it exceeds the threshold of 1024 bytes.]\n1..1\n"

# name, test cases, last line, "not run" lines, exit code
FIXTURES = [
    ("no test at all", [], "0 passed, 1 failed", [], 1),
    ("rows are counted one by one", [case("1..3\nok 1 - a\nok 2 - b\nok 3 - c\n")], "3 passed, 0 failed", [], 0),
    ("a plan at the end counts too", [case("ok 1 - a\nok 2 - b\n1..2\n")], "2 passed, 0 failed", [], 0),
    ("a failing row in a failing test is one failure",
     [case("1..2\nok 1 - a\nnot ok 2 - b\n", "fail", FAILED)], "1 passed, 1 failed", [], 1),
    ("a failing row fails even where the program exits 0",
     [case("1..2\nok 1 - a\nnot ok 2 - b\n")], "1 passed, 1 failed", [], 1),
    ("rows that never came after a crash", [case("1..4\nok 1 - a\n", "fail", FAILED)], "1 passed, 3 failed", [], 1),
    ("rows that never came though the program exits 0", [case("1..4\nok 1 - a\n")], "1 passed, 3 failed", [], 1),
    ("all rows fine, then a failing exit", [case("1..1\nok 1 - a\n", "fail", FAILED)], "1 passed, 1 failed", [], 1),
    ("a failing test without TAP is one failure", [case("boom", "fail", FAILED)], "0 passed, 1 failed", [], 1),
    ("a passing test without TAP is one pass", [case("fine")], "1 passed, 0 failed", [], 0),
    ("rows without a plan", [case("ok 1 - a\n")], "1 passed, 1 failed", [], 1),
    ("more rows than planned", [case("1..1\nok 1 - a\nok 2 - b\n")], "2 passed, 1 failed", [], 1),
    ("two groups in one program", [case("1..1\nok 1 - a\n1..2\nok 1 - b\nok 2 - c\n")], "3 passed, 0 failed", [], 0),
    ("a skipped row is named and counted apart",
     [case("1..2\nok 1 - a\nok 2 - gpu # SKIP no device\n")], "1 passed, 0 failed", ["not run: gpu (no device)"], 0),
    ("a skipped row with its name behind the mark",
     [case("1..2\nok 1 - a\nnot ok 2 # SKIP gpu\n")], "1 passed, 0 failed", ["not run: gpu (no reason given)"], 0),
    ("a whole test skipped by its plan",
     [case("1..0 # SKIP no cuda.h\n"), case("fine")], "1 passed, 0 failed", ["not run: t (no cuda.h)"], 0),
    ("only skipped rows is no test at all",
     [case("1..1\nok 1 - gpu # SKIP no device\n")], "0 passed, 0 failed", ["not run: gpu (no device)"], 1),
    ("a missing program is a failure",
     [case("", "notrun", '<skipped message="Unable to find executable"/>')], "0 passed, 1 failed", [], 1),
    ("a missing required file is a failure",
     [case("", "notrun", '<skipped message="Required Files Missing"/>')], "0 passed, 1 failed", [], 1),
    ("a skip return code is listed",
     [case("", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>'), case("fine")],
     "1 passed, 0 failed", ["not run: t (SKIP_RETURN_CODE=77)"], 0),
    ("a disabled test is listed", [case("Disabled", "disabled"), case("fine")],
     "1 passed, 0 failed", ["not run: t (disabled)"], 0),
    ("output that CTest cut is a failure", [case(CUT)], "1 passed, 1 failed", [], 1),
    ("a bail-out is a failure", [case("1..1\nok 1 - a\nBail out! no memory\n")], "1 passed, 1 failed", [], 1),
    ("words that begin like a row are none", [case("1..1\nokay then\nok 1 - a\n")], "1 passed, 0 failed", [], 0),
    ("several tests add up",
     [case("1..2\nok 1 - a\nok 2 - b\n"), case("1..2\nok 1 - a\nnot ok 2 - b\n", "fail", FAILED), case("fine")],
     "4 passed, 1 failed", [], 1),
]


def complaint(cases, last, not_run, code):
    """Empty, or what the tally said instead."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "junit.xml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'<?xml version="1.0" encoding="UTF-8"?><testsuite>{"".join(cases)}</testsuite>')
        run = subprocess.run([sys.executable, TALLY, path], capture_output=True, text=True, check=False)
    lines = run.stdout.splitlines()
    said = [line for line in lines if line.startswith("not run: ")]
    if (lines[-1:], said, run.returncode) != ([last], not_run, code):
        return f"said {lines[-1:]} {said}, exit {run.returncode}; {run.stderr.strip()}"
    return ""


def add_up(present):
    """The last line and exit code for two runs, of which the second may have left nothing."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("one.xml", "two.xml")]
        for path in paths[: 2 if present else 1]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"<testsuite>{case('1..2' + chr(10) + 'ok 1 - a' + chr(10) + 'ok 2 - b' + chr(10))}</testsuite>")
        run = subprocess.run([sys.executable, TALLY, *paths], capture_output=True, text=True, check=False)
    return run.stdout.splitlines()[-1:], run.returncode


def main():
    runs = [("two runs add up", True, "4 passed, 0 failed", 0), ("a run that left nothing", False, "2 passed, 1 failed", 1)]
    print(f"1..{len(FIXTURES) + len(runs)}")
    failed = 0
    for number, (name, cases, last, not_run, code) in enumerate(FIXTURES, 1):
        why = complaint(cases, last, not_run, code)
        print(f"{'not ok' if why else 'ok'} {number} - {name}")
        if why:
            failed += 1
            print(f"# {why}")
    for number, (name, present, last, code) in enumerate(runs, len(FIXTURES) + 1):
        right = add_up(present) == ([last], code)
        failed += not right
        print(f"{'ok' if right else 'not ok'} {number} - {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
