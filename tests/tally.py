#!/usr/bin/env python3
"""Add up CTest runs: python3 tests/tally.py JUNIT.xml...   (the files that `ctest --output-junit` writes)

Every TAP row is one result. What a crash left out of the plan is failed, a failing test without a failing row is one
failure, and a
test that prints no TAP is one result. Rows marked `# SKIP` are listed by name and counted apart.
A run that left no test counts as one failure. The last line is `N passed, N failed`. Exit 1 when anything failed or nothing passed.
"""
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

ROW = re.compile(r"^(not ok|ok)\b[ \t]*(\d+)?[ \t]*(?:-[ \t]*)?(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)[ \t]*(?:#[ \t]*SKIP\b[ \t]*(.*))?$", re.IGNORECASE)
SKIP = re.compile(r"(?:^|[ \t])#[ \t]*SKIP\b[:\- \t]*(.*)$", re.IGNORECASE)
CUT = "test output was removed since it exceeds the threshold"


class Result:
    """What one CTest test amounts to."""

    def __init__(self, name):
        self.name = name
        self.passed = 0
        self.failures = []
        self.not_run = []

    def fail(self, why):
        self.failures.append(why)

    def skip(self, what, why):
        self.not_run.append((what, why or "no reason given"))


def take_row(result, match):
    verdict, _, text = match.groups()
    skip = SKIP.search(text)
    if skip:
        name = text[: skip.start()].strip()
        # A harness that puts the name behind the mark gives no reason of its own.
        result.skip(name or skip.group(1).strip() or result.name, skip.group(1).strip() if name else "")
    elif verdict == "ok":
        result.passed += 1
    else:
        result.fail(text.strip() or "unnamed row")


def read_tap(result, output):
    """Count the rows; returns (planned, seen), planned None where no plan was printed."""
    planned, seen = None, 0
    for line in output.splitlines():
        plan = PLAN.match(line.rstrip())
        row = ROW.match(line.rstrip())
        if plan:
            planned = (planned or 0) + int(plan.group(1))
            if plan.group(2) is not None:
                result.skip(result.name, plan.group(2).strip())
        elif row:
            seen += 1
            take_row(result, row)
        elif line.startswith("Bail out!"):
            result.fail(line.strip())
    return planned, seen


def judge_plan(result, planned, seen):
    if planned is None and seen:
        result.fail("rows without a plan")
    elif planned is not None and seen < planned:
        for number in range(seen + 1, planned + 1):
            result.fail(f"planned row {number} of {planned} never came")
    elif planned is not None and seen > planned:
        result.fail(f"{seen} rows where {planned} were planned")


def judge_test(case):
    """One <testcase> of the JUnit file."""
    result = Result(case.get("name", "unnamed"))
    output = case.findtext("system-out") or ""
    status = case.get("status", "run")
    skipped = case.find("skipped")
    if status == "disabled":
        result.skip(result.name, "disabled")
        return result
    planned, seen = read_tap(result, output)
    if CUT in output:
        result.fail("CTest cut the output: raise CTEST_CUSTOM_MAXIMUM_PASSED_TEST_OUTPUT_SIZE")
    else:
        judge_plan(result, planned, seen)
    broken = status not in ("run", "notrun") or case.find("failure") is not None
    if broken and not result.failures:
        result.fail("failed without a failing row")
    elif skipped is not None or status == "notrun":
        skip_or_fail(result, "" if skipped is None else skipped.get("message", ""))
    elif planned is None and not seen and not result.failures:
        result.passed += 1
    return result


def skip_or_fail(result, message):
    """CTest also calls a test skipped whose program or required file is missing; that is a failure."""
    if message.startswith(("SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION")):
        result.skip(result.name, message)
    else:
        result.fail("could not be run: " + (message or "no reason given"))


def read_run(path):
    """The results of one run; none where it left no file."""
    if not os.path.exists(path):
        return []
    return [judge_test(case) for case in ElementTree.parse(path).getroot().iter("testcase")]


def print_run(path, run):
    print(f"{path}:" if run else f"{path}: no test at all, which counts as one failed")
    for r in run:
        apart = f", {len(r.not_run)} not run" if r.not_run else ""
        print(f"  {r.name}: {r.passed} passed, {len(r.failures)} failed{apart}")
        for why in r.failures:
            print(f"    failed: {why}")


def main(arguments):
    if len(arguments) < 2:
        print("usage: tally.py JUNIT.xml...", file=sys.stderr)
        return 2
    runs = [read_run(path) for path in arguments[1:]]
    results = [result for run in runs for result in run]
    for path, run in zip(arguments[1:], runs):
        print_run(path, run)
    for r in results:
        for what, why in r.not_run:
            print(f"not run: {what} ({why})")
    passed = sum(r.passed for r in results)
    failed = sum(len(r.failures) for r in results) + sum(not run for run in runs)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
