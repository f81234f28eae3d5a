#!/usr/bin/env python3
"""The alarms of check.sh, each tripped once: a small model per row, and what must be said of it. Prints TAP."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = """/*
 * small.pml: two add to a number.
 *
 * Broken on purpose, each refuted by the assertion that is named beside it:
 *   SPLIT: init: count == 2
 */
byte count = 0;
byte done = 0;

proctype adder() {
  byte was;
#ifdef SPLIT
  was = count;
  count = was + 1;
#else
  atomic { was = count; count = was + 1 }
#endif
  assert(count != 0);
  done++
}

init {
  run adder(); run adder();
  done == 2;
  assert(count == 2)
}
"""
ROW = " *   SPLIT: init: count == 2\n"
ROWS = (
    ("sound", lambda m: m, None),
    ("a model that does not hold", lambda m: m.replace("count == 2)", "count == 3)"), "small: errors: 1"),
    ("a model that does not parse", lambda m: m.replace("init {", "init"), "errors: none"),
    ("a variant that breaks nothing", lambda m: m.replace("#ifdef SPLIT\n  was = count;", "#ifdef SPLIT\n  skip;").replace(
        "  count = was + 1;\n#else", "  atomic { was = count; count = was + 1 };\n#else"), "SPLIT breaks no assertion"),
    ("refuted by another assertion", lambda m: m.replace("was = count;\n  count = was + 1;", "count = 0;"),
     "SPLIT breaks adder: count != 0, not init: count == 2"),
    ("refuted by the same words elsewhere", lambda m: m.replace("init: count == 2", "adder: count == 2"),
     "SPLIT breaks init: count == 2, not adder: count == 2"),
    ("a variant that names no assertion", lambda m: m.replace("SPLIT: init: count == 2", "SPLIT"), "listed or asked for, not both"),
    ("a variant that is not listed", lambda m: m.replace(ROW, ""), "listed or asked for, not both, or twice: SPLIT"),
    ("a variant that is listed only", lambda m: m.replace(ROW, ROW + " *   OTHER: init: count == 2\n"),
     "listed or asked for, not both, or twice: OTHER"),
    ("a variant by #if that is not listed", lambda m: m.replace("  done++", "#if !defined(IDLE)\n  done++\n#endif"),
     "listed or asked for, not both, or twice: IDLE"),
    ("a variant by #ifndef that is not listed", lambda m: m.replace("  done++", "#ifndef IDLE\n  done++\n#endif"),
     "listed or asked for, not both, or twice: IDLE"),
)


def judge(change, expected):
    """(passed, what was said)"""
    with tempfile.TemporaryDirectory(prefix="nxmem-models-") as folder:
        with open(f"{folder}/small.pml", "w", encoding="utf-8") as file:
            file.write(change(MODEL))
        done = subprocess.run([f"{HERE}/check.sh", folder], capture_output=True, text=True)
    bad = [line for line in done.stdout.splitlines() if line.startswith("not ok")]
    if expected is None:
        return done.returncode == 0 and not bad, done.stdout + done.stderr
    return done.returncode == 1 and any(expected in line for line in bad), done.stdout + done.stderr


def main():
    print(f"1..{len(ROWS)}", flush=True)
    failed = 0
    for number, (name, change, expected) in enumerate(ROWS, 1):
        passed, said = judge(change, expected)
        failed += not passed
        print(f"{'ok' if passed else 'not ok'} {number} - {name}", flush=True)
        if not passed:
            print("".join(f"# {line}\n" for line in said.splitlines()), end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
