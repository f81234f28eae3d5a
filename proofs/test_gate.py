#!/usr/bin/env python3
"""The alarms of the proof gate, each tripped once: a small project per fixture, and what the gate must say about it. Prints TAP."""
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CLAIM = 'claim = "a fixture", unproved = "nothing"'

# fixture (fixtures/NAME.c), floors per function, worlds, a text that one problem must hold; None: no problem at all.
ROWS = (
    ("sound", {"twice": 1}, ("plain",), None),
    ("goal_not_proved", {"twice": 1}, ("plain",), "goal not proved: twice: twice_ensures_doubled"),
    ("contract_cannot_happen", {"twice": 1}, ("plain",), "smoke test failed"),
    ("without_contract", {"twice": 1}, ("plain",), "no contract (assigns and ensures): twice"),
    ("floor_too_high", {"twice": 500}, ("plain",), "fewer goals than the floor: twice"),
    ("function_not_in_table", {"twice": 1}, ("plain",), "core function in no target: abi/src/unit.c: thrice"),
    ("admitted_assertion", {"twice": 1}, ("plain",), "admit or axiom not in the ledger"),
    ("axiom", {"twice": 1}, ("plain",), "admit or axiom not in the ledger"),
    ("precondition_not_in_ledger", {"twice": 1}, ("plain",), "boundary requires not in the ledger"),
    ("memory_model_hypothesis", {"both": 1}, ("plain",), "Memory model hypotheses"),
    ("incompatible_cast", {"first": 1}, ("plain",), "Cast with incompatible pointers types"),
    ("indirect_call", {"ask": 1}, ("plain",), "Missing 'calls'"),
    ("overflow", {"sum": 1}, ("plain",), "goal not proved: sum: sum_assert_rte_unsigned_overflow"),
    ("unlabelled_clause", {"twice": 1}, ("plain",), "clause without a label"),
    ("one_world", {"size_of": 1}, ("quiet",), "reader of plugin memory not proved in both worlds: size_of"),
    ("stray_load", {"size_of": 1}, ("quiet", "racing"), "plugin memory dereferenced outside NX_LOAD"),
    ("loaded_twice", {"size_of": 1}, ("quiet", "racing"), "goal not proved: size_of: nx_count_load_requires_once"),
    ("clamp_deleted", {"level_of": 1}, ("quiet", "racing"), "goal not proved: level_of: level_of_ensures_clamped"),
)
LEDGER = """[[assumption]]
id = "fixture"
kind = "requires"
label = "readable"
clauses = ["\\\\valid_read(src)"]
where = "fixture"
text = "fixture"
why = "fixture"
check = "fixture"
[[assumption]]
id = "fresh"
kind = "requires"
label = "fresh"
clauses = ["NX_NOTHING_LOADED_FROM(0)"]
where = "fixture"
text = "fixture"
why = "fixture"
check = "fixture"
[[assumption]]
id = "apart"
kind = "requires"
label = "apart"
clauses = ["\\\\separated(src, &NX_LEDGER)"]
where = "fixture"
text = "fixture"
why = "fixture"
check = "fixture"
"""


def make_project(folder, name, floors, worlds):
    """A project whose whole core is one file."""
    for path in ("abi/src", "abi/include/nxmem", "proofs/assumptions"):
        os.makedirs(os.path.join(folder, path))
    shutil.copy(f"{HERE}/fixtures/{name}.c", f"{folder}/abi/src/unit.c")
    shutil.copy(f"{HERE}/../abi/include/nxmem/verdict.h", f"{folder}/abi/include/nxmem/")
    shutil.copy(f"{HERE}/../abi/src/load.h", f"{folder}/abi/src/")
    with open(f"{folder}/proofs/targets.toml", "w", encoding="utf-8") as table:
        for world in worlds:
            table.write(f'[[target]]\nsource = "abi/src/unit.c"\nworld = "{world}"\nfunctions = [\n')
            for function, floor in floors.items():
                table.write(f'  {{ name = "{function}", floor = {floor}, {CLAIM} }},\n')
            table.write("]\n")
    with open(f"{folder}/proofs/assumptions/fixture.toml", "w", encoding="utf-8") as ledger:
        ledger.write(LEDGER if "racing" in worlds or "quiet" in worlds else "")


def judge(name, floors, worlds, expected):
    """(passed, what was said)"""
    with tempfile.TemporaryDirectory(prefix="nxmem-gate-") as folder:
        make_project(folder, name, floors, worlds)
        done = subprocess.run([f"{HERE}/gate.py", "--root", folder, "--quick", "--timeout", "3"],
                              capture_output=True, text=True)
    said = done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    if expected is None:
        return done.returncode == 0 and last.endswith(" 0 open"), said
    red = done.returncode == 1 and last.startswith("proofs: ") and not last.endswith(" 0 open")
    return red and expected in said, said


def stale_entry():
    """A ledger entry that covers nothing any more."""
    with tempfile.TemporaryDirectory(prefix="nxmem-gate-") as folder:
        make_project(folder, "sound", {"twice": 1}, ("plain",))
        with open(f"{folder}/proofs/assumptions/fixture.toml", "w", encoding="utf-8") as ledger:
            ledger.write(LEDGER)
        done = subprocess.run([f"{HERE}/gate.py", "--root", folder, "--static"], capture_output=True, text=True)
    return done.returncode == 1 and "covers nothing any more: fixture" in done.stdout, done.stdout


def main():
    print(f"1..{len(ROWS) + 1}")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for number, (row, (passed, said)) in enumerate(zip(ROWS, pool.map(lambda row: judge(*row), ROWS)), 1):
            failed += report(number, row[0], passed, said)
    failed += report(len(ROWS) + 1, "ledger_entry_without_clause", *stale_entry())
    return 1 if failed else 0


def report(number, name, passed, said):
    print(f"{'ok' if passed else 'not ok'} {number} - {name}", flush=True)
    if not passed:
        print("".join(f"# {line}\n" for line in said.splitlines()), end="", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
