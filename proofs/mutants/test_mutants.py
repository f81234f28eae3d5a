#!/usr/bin/env python3
"""The alarms of the mutants, each tripped once, on small projects whose core is one fixture. Prints TAP."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from generate import OPERATORS  # noqa: E402

ALIVE = "unit.c:twice:constant-verdict:1"
EQUAL = "unit.c:twice:flip-comparison:1"


def entry(name, before, after, reason):
    return f'[[justified]]\nid = "{name}"\nbefore = "{before}"\nafter = "{after}"\nreason = "{reason}"\n'


ALIVE_ENTRY = entry(ALIVE, "2u * (number % 100u)", "0", "a fixture")
EQUAL_ENTRY = entry(EQUAL, "<", "<=", "equal numbers are the same number")

# name, fixture, justified.toml, options, exit code, a text that must be said
ROWS = (
    ("a contract that says it all kills each", "strong", "", ("--only", "twice"), 0, r"mutants: (\d+)/\1 killed, 0 justified$"),
    ("a survivor that nobody justified", "weak", "", (), 1, f"survives, not justified: {ALIVE}"),
    ("a survivor that is justified", "equal", EQUAL_ENTRY, ("--only", EQUAL), 0, "mutants: 0/1 killed, 1 justified$"),
    ("a justification without a reason", "equal", entry(EQUAL, "<", "<=", " "), ("--only", EQUAL), 1,
     f"justified.toml: entry {EQUAL} lacks reason"),
    ("a justification of what is killed", "strong", ALIVE_ENTRY, ("--only", ALIVE), 1, f"killed, so not to be justified: {ALIVE}"),
    ("a justification of what is no mutant", "strong", entry("unit.c:thrice:constant:1", "3", "4", "gone"), ("--only", ALIVE), 1,
     "no such mutant any more: unit.c:thrice:constant:1"),
    ("a justification of another damage under the same id", "equal", entry(EQUAL, ">", ">=", "moved"), ("--only", EQUAL), 1,
     f"no such mutant any more: {EQUAL}"),
    ("a justification that stands twice", "equal", EQUAL_ENTRY + EQUAL_ENTRY, ("--only", EQUAL), 1, "stands twice"),
    ("more than one in twenty justified", "weak", ALIVE_ENTRY, ("--sample", "8"), 1, "justified: more than 5%"),
    ("a goal open before the damage kills nothing", "unproved", "", ("--only", "unit.c:twice:constant:1"), 1,
     "mutants: 0/1 killed, 0 justified$"),
    ("nothing matches", "strong", "", ("--only", "thrice"), 3, "no mutant matches"),
    ("an unknown layer", "strong", "", ("--layers", "hope"), 2, "--layers takes"),
)
# Damages that the operators must find in fixtures/operators.c: operator, before, after.
DAMAGES = (
    ("drop-statement", "out->size = size", "(nothing)"),
    ("repeat-statement", "out->level = NX_LOAD(record, src, level)",
     "out->level = NX_LOAD(record, src, level), out->level = NX_LOAD(record, src, level)"),
    ("re-read", "size", "NX_LOAD(record, src, size)"),
    ("drop-guard", "if (size < 8u) return nx_verdict(NXMEM_REASON_SHORT_HEADER, 0u, size, 8u)", "(nothing)"),
    ("hoist", "if (size < 8u) return nx_verdict(NXMEM_REASON_SHORT_HEADER, 0u, size, 8u); out->size = si…",
     "out->size = size; if (size < 8u) return nx_verdict(NXMEM_REASON_SHORT_HEADER, 0u, size, 8…"),
    ("drop-case", "case 7u:", "(nothing)"),
    ("skip-loop", "n < available && bytes[n] != 0u", "0"),
    ("negate-condition", "size < 8u", "!(size < 8u)"),
    ("flip-comparison", "<", "<="),
    ("flip-comparison", "!=", "=="),
    ("swap-logic", "&&", "||"),
    ("drop-operand", "n < available &&", "(nothing)"),
    ("drop-operand", "&& bytes[n] != 0u", "(nothing)"),
    ("drop-not", "!", "(nothing)"),
    ("pick-branch", "a < b ? a : b", "b"),
    ("constant", "8u", "9u"),
    ("constant", "8u", "7u"),
    ("constant", "NXMEM_REASON_SHORT_HEADER", "(NXMEM_REASON_SHORT_HEADER + 1)"),
    ("index", "n", "n + 1"),
    ("arithmetic", "-", "+"),
    ("swap-field", "size", "level"),
    ("swap-field", "level", "size"),
    ("swap-arguments", "size, 8u", "8u, size"),
    ("drop-cast", "(uint32_t)", "(nothing)"),
    ("drop-volatile", "const volatile", "const"),
    ("constant-verdict", "nx_verdict(NXMEM_REASON_SHORT_HEADER, 0u, size, 8u)", "nx_accept()"),
    ("constant-verdict", "!(number - 9u)", "1"),
)


def make_project(folder, fixture, justified):
    for path in ("abi/src", "abi/include/nxmem", "proofs/mutants"):
        os.makedirs(f"{folder}/{path}")
    shutil.copy(f"{HERE}/fixtures/{fixture}.c", f"{folder}/abi/src/unit.c")
    root = os.path.dirname(os.path.dirname(HERE))
    shutil.copy(f"{root}/abi/include/nxmem/verdict.h", f"{folder}/abi/include/nxmem/")
    for header in ("load.h", "verdict_make.h"):
        shutil.copy(f"{root}/abi/src/{header}", f"{folder}/{'abi/src' if fixture == 'operators' else 'abi/include'}/")
    with open(f"{folder}/proofs/targets.toml", "w", encoding="utf-8") as table:
        table.write('[[target]]\nsource = "abi/src/unit.c"\nworld = "plain"\nfunctions = [ { name = "twice", floor = 1 } ]\n')
    with open(f"{folder}/proofs/mutants/justified.toml", "w", encoding="utf-8") as file:
        file.write(justified)


def run(fixture, justified, options):
    with tempfile.TemporaryDirectory(prefix="nxmem-mutants-") as folder:
        make_project(folder, fixture, justified)
        done = subprocess.run([sys.executable, f"{HERE}/run.py", "--root", folder, "--layers", "proof", *options],
                              capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def change(path, before, after):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(before, after) if before else text + after)


def resumes():
    """A run is gone on from: a survivor that has been justified since is not asked about again; another source, and no record, refuse."""
    with tempfile.TemporaryDirectory(prefix="nxmem-mutants-") as folder:
        make_project(folder, "equal", "")

        def go(*options):
            done = subprocess.run([sys.executable, f"{HERE}/run.py", "--root", folder, "--layers", "proof", "--only", "flip-comparison",
                                   "--json", f"{folder}/record.json", *options], capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

        none = go("--resume")
        yield "no record to go on from", none[0] == 3 and "found no record" in none[1], none[1]
        first = go()
        yield "a survivor in the record", first[0] == 1 and f"survives, not justified: {EQUAL}" in first[1], first[1]
        change(f"{folder}/proofs/mutants/justified.toml", "", EQUAL_ENTRY)
        again = go("--resume")
        yield "gone on from", "2 judged before, 0 to judge" in again[1] and "preparing" not in again[1], again[1]
        yield "justified since", again[1].endswith("mutants: 1/2 killed, 1 justified\n") and again[0] == 0, again[1]
        change(f"{folder}/abi/src/unit.c", "", "typedef uint32_t other;\n")
        stale = go("--resume")
        yield "a record of other sources", stale[0] == 3 and "the sources changed since the run" in stale[1], stale[1]


def report(number, name, passed, said):
    print(f"{'ok' if passed else 'not ok'} {number} - {name}", flush=True)
    if not passed:
        print("".join(f"# {line}\n" for line in said.splitlines()), end="", flush=True)
    return 0 if passed else 1


def main():
    resumed = list(resumes())
    print(f"1..{len(ROWS) + len(DAMAGES) + 1 + len(resumed)}", flush=True)
    failed = 0
    for number, (name, fixture, justified, options, code, text) in enumerate(ROWS, 1):
        got, said = run(fixture, justified, options)
        failed += report(number, name, got == code and re.search(text, said, re.M) is not None, f"exit code {got}\n{said}")
    _, said = run("operators", "", ("--list",))
    for number, (operator, before, after) in enumerate(DAMAGES, len(ROWS) + 1):
        found = re.search(rf":{operator}:\d+ \(line \d+\): {re.escape(before)} => {re.escape(after)}$", said, re.M)
        failed += report(number, f"{operator}: {before} => {after}", found is not None, said)
    missing = set(OPERATORS) - {operator for operator, _, _ in DAMAGES}
    failed += report(len(ROWS) + len(DAMAGES) + 1, "each operator is asked for", not missing, str(missing))
    for number, (name, passed, said) in enumerate(resumed, len(ROWS) + len(DAMAGES) + 2):
        failed += report(number, name, passed, said)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
