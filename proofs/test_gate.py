#!/usr/bin/env python3
"""The alarms of the proof gate, each tripped once: a small project per row, and what the gate must say about it.

Prints TAP.
"""
import argparse
import collections
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

import test_gate_forms

HERE = os.path.dirname(os.path.abspath(__file__))
CLAIM = 'claim = "a fixture", unproved = "nothing"'
Case = collections.namedtuple("Case", "name fixture functions worlds expected options tools code")
FINDINGS, COULD_NOT_RUN = 1, 3


def case(name, functions, expected, worlds=("plain",), fixture=None, options=("--quick",), tools=None, code=FINDINGS):
    """functions: name -> floor. expected: a text that must be said; None: no open point. tools: programs that stand
    before the real ones in PATH, name -> shell script, where REAL is the real one."""
    return Case(name, fixture or name, functions, worlds, expected, options, tools or {}, code)


def answers(version, answer):
    """A prover that has a version and always the same answer."""
    return f'case "$*" in --version|-version) echo "version {version}";; *) echo {answer};; esac'


TWICE = {"twice": 1}
SIZE_OF = {"size_of": 1}
BOTH = ("quiet", "racing")
ROWS = (
    case("sound", TWICE, None),
    # 1. Not proved.
    case("goal_not_proved", TWICE, "goal not proved: twice: twice_ensures_doubled"),
    case("out_of_time", {"sum": 1}, "goal not proved: sum: sum_ensures_fermat"),
    case("overflow", {"sum": 1}, "goal not proved: sum: sum_assert_rte_unsigned_overflow"),
    case("property_without_proof", TWICE, "property Considered valid: twice: user hypothesis",
         fixture="admitted_assertion"),
    case("clamp_deleted", {"level_of": 1}, "goal not proved: level_of: level_of_ensures_clamped", BOTH),
    case("loaded_twice", SIZE_OF, "goal not proved: size_of: size_of_call_nx_count_load_2_requires_once", BOTH),
    # 2. Vacuous, or not understood.
    case("contract_cannot_happen", TWICE, "smoke test failed"),
    case("dead_branch", TWICE, "smoke test failed (contract or path cannot happen): twice: twice_wp_smoke_dead_code",
         options=()),
    case("incompatible_cast", {"first": 1}, "Cast with incompatible pointers types"),
    case("indirect_call", {"ask": 1}, "Missing 'calls'"),
    case("not_implemented", {"ask": 1}, "not yet implemented"),
    case("loop_without_assigns", {"count": 1}, "Missing assigns clause"),
    # 3. Memory model hypotheses.
    case("memory_model_hypothesis", {"both": 1}, "Memory model hypotheses"),
    # 4. Floors, contracts, the table.
    case("floor_too_high", {"twice": 500}, "fewer goals than the floor: twice"),
    case("floor_not_recorded", {"twice": 0}, "no floor recorded: twice", fixture="sound"),
    case("without_contract", TWICE, "no contract (assigns and ensures): twice"),
    case("without_goals", {"twice": 1, "thrice": 1}, "contracted function without goals: thrice", fixture="sound"),
    case("function_not_in_table", TWICE, "core function in no target: abi/src/unit.c: thrice"),
    case("function_not_in_core", {"twice": 1, "thrice": 1},
         "table names a function that abi/src/unit.c does not define: thrice",
         fixture="sound", options=("--static",)),
    case("listed_twice", TWICE, "listed twice in one world: twice", ("plain", "plain"), "sound", ("--static",)),
    case("hidden_by_macro", TWICE, "Frama-C sees a function that the gate does not: thrice"),
    case("one_world", SIZE_OF, "reader of plugin memory not proved in both worlds: size_of", ("quiet",)),
    # 5. Taken for granted.
    case("admitted_assertion", TWICE, "admit or axiom not in the ledger"),
    case("axiom", TWICE, "admit or axiom not in the ledger"),
    case("precondition_not_in_ledger", TWICE, "boundary requires not in the ledger"),
    case("body_elsewhere", TWICE, "believed without proof: unit.c: next: postcondition"),
    # The rules of this project.
    case("unlabelled_clause", TWICE, "clause without a label"),
    case("stray_load", SIZE_OF, "plugin memory dereferenced outside NX_LOAD", BOTH),
    case("alias", SIZE_OF, "plugin memory dereferenced outside NX_LOAD: abi/src/unit.c:24: size_of: src", BOTH,
         options=("--static",)),
    # The provers and Frama-C.
    case("one_prover_alone", TWICE, "only one prover agrees: twice: twice_assert_rte_unsigned_overflow_2: cvc4",
         fixture="sound",
         options=("--all-provers",), tools={"z3": answers("4.8.12", "unknown"), "cvc5": answers("1.0.3", "unknown")}),
    case("two_of_three", TWICE, None, fixture="sound", options=("--all-provers",), tools={"cvc5": answers("1.0.3",
         "unknown")}),
    case("prover_says_yes_to_all", TWICE, "smoke test failed", fixture="dead_branch", tools={"cvc4": answers("1.8",
         "unsat")}),
    case("prover_missing", TWICE, "gate: cvc5 --version ended with 127", fixture="sound", tools={"cvc5": "exit 127"},
         code=COULD_NOT_RUN),
    case("frama_c_crashes", TWICE, "frama-c ended with 4: a crash", fixture="sound", tools={"frama-c":
         "echo a crash; exit 4"}),
    case("does_not_parse", TWICE, "frama-c ended with 1"),
    case("verdict_lost", TWICE, "WP's report and its lines disagree: twice: 4 of 4, 3 lines", fixture="sound",
         tools={"frama-c": 'REAL "$@" | grep -v "Goal typed_twice_assigns"'}),
    case("goals_change", TWICE, "two runs have different goals: twice", fixture="sound",
         options=("--all-provers", "--jobs", "1"),
         tools={"frama-c": 'case "$*" in *CVC5*) sed -i "s,return,//@ assert more: number >= 0;\\nreturn," '
                           'abi/src/unit.c;; esac\nREAL "$@"'}),
    case("sources_change", TWICE, "the sources changed during the run", fixture="sound",
         tools={"frama-c": 'case "$*" in *-wp-rte*) echo "// later" >> abi/src/unit.c;; esac\nREAL "$@"'}),
    # What is asked for.
    case("unknown_world", TWICE, "found world elsewhere, needed one of", ("elsewhere",), "sound", code=COULD_NOT_RUN),
    case("nothing_matches", TWICE, "nothing in targets.toml matches ['thrice']", fixture="sound", options=("--only",
         "thrice"), code=COULD_NOT_RUN),
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


def make_project(folder, row):
    """A project whose whole core is one file."""
    for path in ("abi/src", "abi/include/nxmem", "proofs/assumptions"):
        os.makedirs(os.path.join(folder, path))
    shutil.copy(f"{HERE}/fixtures/{row.fixture}.c", f"{folder}/abi/src/unit.c")
    shutil.copy(f"{HERE}/../abi/include/nxmem/verdict.h", f"{folder}/abi/include/nxmem/")
    shutil.copy(f"{HERE}/../abi/src/load.h", f"{folder}/abi/src/")
    with open(f"{folder}/proofs/targets.toml", "w", encoding="utf-8") as table:
        for world in row.worlds:
            table.write(f'[[target]]\nsource = "abi/src/unit.c"\nworld = "{world}"\nfunctions = [\n')
            for function, floor in row.functions.items():
                table.write(f'  {{ name = "{function}", floor = {floor}, {CLAIM} }},\n')
            table.write("]\n")
    with open(f"{folder}/proofs/assumptions/fixture.toml", "w", encoding="utf-8") as ledger:
        ledger.write(LEDGER if "racing" in row.worlds or "quiet" in row.worlds else "")


def put_before(folder, tools):
    """The environment with the row's own programs first in PATH."""
    if not tools:
        return None
    os.mkdir(folder)
    for name, script in tools.items():
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + script.replace("REAL", shutil.which(name)) + "\n")
        os.chmod(path, 0o755)
    return dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")


def judge(row, change=lambda folder: None):
    """(passed, what was said)"""
    with tempfile.TemporaryDirectory(prefix="nxmem-gate-") as folder:
        make_project(folder, row)
        change(folder)
        command = [f"{HERE}/gate.py", "--root", folder, "--timeout", "3", *row.options]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder,
                              env=put_before(f"{folder}/bin", row.tools))
    said = done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    if row.expected is None:
        return done.returncode == 0 and last.endswith(" 0 open"), said
    closed = row.code != FINDINGS or last.startswith("proofs: ") and not last.endswith(" 0 open")
    return done.returncode == row.code and closed and row.expected in said, said


def ledger_of(text):
    """A change that makes `text` the project's ledger."""
    def change(folder):
        with open(f"{folder}/proofs/assumptions/fixture.toml", "w", encoding="utf-8") as ledger:
            ledger.write(text)
    return change


def table_without_claim(folder):
    path = f"{folder}/proofs/targets.toml"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace('claim = "a fixture"', 'claim = ""'))


CHANGED = (
    (case("ledger_entry_without_clause", TWICE, "covers nothing any more: fixture", fixture="sound",
          options=("--static",)),
     ledger_of(LEDGER)),
    (case("ledger_entry_without_reason", TWICE, "ledger entry fixture lacks why", fixture="sound",
          options=("--static",)),
     ledger_of(LEDGER.replace('why = "fixture"', 'why = ""'))),
    (case("line_without_claim", TWICE, "table says not what is claimed and what stays unproved: twice", fixture="sound",
          options=("--static",)), table_without_claim),
)

def with_annotation(text):
    """A change that adds an annotation to the core."""
    def change(folder):
        with open(f"{folder}/abi/src/unit.c", "a", encoding="utf-8") as unit:
            unit.write(f"/*@ {text} */\n")
    return change


TWO = "behavior one: assumes first: \\true; behavior two: assumes second: \\false; "
CHANGED += tuple(
    (case(name, TWICE, expected, fixture="sound", options=("--static",)), with_annotation(text)) for name, expected, text in (
        ("not_complete", "behaviours that are not said to be complete", TWO + "disjoint behaviors;"),
        ("not_disjoint", "behaviours that are not said to be disjoint", TWO + "complete behaviors;"),
        ("without_variant", "loop without a variant", "loop invariant kept: 0 <= 1; loop assigns number;"),
    ))
CHANGED += tuple(test_gate_forms.rows(case))


def report(number, name, passed, said):
    print(f"{'ok' if passed else 'not ok'} {number} - {name}", flush=True)
    if not passed:
        print("".join(f"# {line}\n" for line in said.splitlines()), end="", flush=True)
    return 0 if passed else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="ROW", help="only rows whose name begins so")
    only = parser.parse_args().only
    rows = [pair for pair in (*((row, lambda folder: None) for row in ROWS), *CHANGED)
            if not only or pair[0].name.startswith(tuple(only))]
    print(f"1..{len(rows)}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(max_workers=(os.cpu_count() or 1) + 1) as pool:
        verdicts = pool.map(lambda pair: judge(*pair), rows)
        failed = sum(report(number, row.name, *verdict)
                     for number, ((row, _), verdict) in enumerate(zip(rows, verdicts), 1))
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
