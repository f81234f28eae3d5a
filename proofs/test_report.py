#!/usr/bin/env python3
"""The report on small projects: what is missing, stale, open or broken must show. Prints TAP."""
import copy
import json
import os
import subprocess
import sys
import tempfile

import report_data
import report_sources

HERE = os.path.dirname(os.path.abspath(__file__))
TARGETS = """[[target]]
source = "abi/src/unit.c"
world = "quiet"
functions = [
  { name = "nxmem_twice", floor = 3, claim = "twice | the number", unproved = "nothing" },
]
"""
LEDGER = """[[assumption]]
id = "fixture-assumption"
kind = "model"
where = "fixture"
text = "taken <for> granted"
why = "believed"
check = "noticed"
"""
ONE_LAYER = """[[mutant]]
id = "unit:1:x"
layer = "proof"
why = "the others see no difference"
"""
COUNTS = {"goals": 5, "proved": 5, "smoke": 2, "passed": 2, "provers": {"qed": 3, "z3": 2, "cvc5": 0},
          "details": [{"name": "twice_ensures_doubled", "valid": True, "provers": ["qed"]}]}
MUTANT = {"id": "unit:1:x", "file": "abi/src/unit.c", "line": 7, "function": "nxmem_twice", "operator": "constant",
          "before": "2", "after": "3", "status": "killed", "reason": "",
          "layers": {"contract": None, "proof": {"world": "quiet", "goal": "ensures_doubled"}, "unit": None}}
RECORDS = {
    "prove.json": {"mode": "full", "problems": [],
                   "targets": [{"source": "abi/src/unit.c", "world": "quiet", "functions": {"nxmem_twice": COUNTS}}]},
    "mutants.json": {"complete": True, "problems": [], "mutants": [MUTANT]},
    "mutants-one-layer.json": {"complete": True, "problems": [], "mutants": [MUTANT]},
    "eva.json": {"entries": [{"name": "nxmem_twice", "worlds": ["quiet"], "alarms": [], "reached": {"quiet": [4, 4]}}]},
    "models.json": {"rows": [{"ok": True, "text": "gate: holds in all 12 states"}]},
}
SOURCES = {"eva.json": report_data.EVA_SOURCES, "models.json": report_data.MODEL_SOURCES}
# What `--fresh` runs: it leaves a good record and says that it ran.
RUNNER = """import shutil, sys
name = {{"gate.py": "prove.json", "check.py": "eva.json"}}.get("{script}") or (
    "mutants-one-layer.json" if "--one-layer" in sys.argv else "mutants.json")
shutil.copy(f"{root}/good/{{name}}", f"{root}/build/records/{{name}}")
print("ran", name, flush=True)
"""


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_records(root, folder, records):
    for name, record in records.items():
        stamp = {"date": "2020-01-01T00:00:00+00:00", "revision": "none", "seconds": 1,
                 "content": report_sources.content(root, SOURCES.get(name, report_sources.CORE))}
        write(f"{root}/{folder}/{name}", json.dumps(stamp | record))


def make_project(root):
    """A core of one function, and a record of each kind that speaks of it."""
    write(f"{root}/abi/src/unit.c", "int nxmem_twice(int number) { return 2 * number; }\n")
    write(f"{root}/proofs/targets.toml", TARGETS)
    write(f"{root}/proofs/assumptions/all.toml", LEDGER)
    write(f"{root}/proofs/mutants/one_layer.toml", ONE_LAYER)
    write(f"{root}/proofs/eva/unit.c", "\n")
    write(f"{root}/proofs/models/check.sh", "#!/bin/sh\necho '1..1'\necho 'ok 1 - gate: holds in all 12 states'\n")
    os.chmod(f"{root}/proofs/models/check.sh", 0o755)
    for script in ("eva/check.py", "gate.py", "mutants/run.py"):
        write(f"{root}/proofs/{script}", RUNNER.format(script=os.path.basename(script), root=root))
    write_records(root, "build/records", RECORDS)


def run(root, *options):
    done = subprocess.run([sys.executable, f"{HERE}/report.py", "--root", root, *options], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def written(root, name):
    with open(f"{root}/build/report/{name}", encoding="utf-8") as file:
        return file.read()


def change(root, name, edit):
    path = f"{root}/build/records/{name}"
    with open(path, encoding="utf-8") as file:
        record = json.load(file)
    edit(record)
    write(path, json.dumps(record))


def survivor(record):
    record["mutants"][0].update(status="survived", layers={})


def counts_of(record):
    return record["targets"][0]["functions"]["nxmem_twice"]


def rename_function(record):
    record["targets"][0]["functions"] = {"another": COUNTS}


# name, what is changed before the report, exit code, what stdout must hold, what report.md must hold.
ROWS = (
    ("everything_there", lambda root: None, 0, "report: 1 functions, 5 goals, 1 mutants, 0 open, 0 not run",
     "| nxmem_twice | quiet | twice \\| the number | 5/5 | 2/2 | qed 3, z3 2 | 1: 1 proof | 0 alarms, 4/4 statements | nothing |"),
    ("no_proofs", lambda root: os.remove(f"{root}/build/records/prove.json"), 1, "0 open, 1 not run", "| not run | not run | not run | 1: 1 proof |"),
    ("no_mutants", lambda root: os.remove(f"{root}/build/records/mutants.json"), 1, "mutants: not run", "| qed 3, z3 2 | not run |"),
    ("no_eva", lambda root: os.remove(f"{root}/build/records/eva.json"), 1, "eva: not run", "| 1: 1 proof | not run |"),
    ("no_models", lambda root: os.remove(f"{root}/build/records/models.json"), 1, "models: not run", "- models: not run"),
    ("source_changed_since_the_runs", lambda root: write(f"{root}/abi/src/unit.c", "int other;\n"), 1,
     "prove: stale: the sources changed since the run", "| stale (5/5) | stale (2/2) | stale (qed 3, z3 2) | stale (1: 1 proof) |"),
    ("floor_recorded_since_the_run", lambda root: write(f"{root}/proofs/targets.toml", TARGETS.replace("floor = 3", "floor = 5")), 0,
     "0 open, 0 not run", "| 5/5 |"),
    ("floor_not_reached", lambda root: write(f"{root}/proofs/targets.toml", TARGETS.replace("floor = 3", "floor = 9")), 1,
     "fewer goals than the floor: 5 of 9", "fewer goals than the floor"),
    ("model_changed_since_the_run", lambda root: write(f"{root}/proofs/models/new.pml", "\n"), 1, "models: stale", "- models: stale"),
    ("record_of_an_unknown_revision", lambda root: change(root, "mutants.json", lambda r: r.update(content="")), 1,
     "mutants: stale: the record's revision none is not known here", "stale (1: 1 proof)"),
    ("run_that_did_not_end", lambda root: change(root, "mutants.json", lambda r: r.update(complete=False)), 1,
     "mutants: stale: the run did not come to its end", "stale (1: 1 proof)"),
    ("function_that_the_run_does_not_have", lambda root: change(root, "prove.json", rename_function), 1,
     "prove: not run: nxmem_twice (quiet)", "- prove: not run: nxmem_twice"),
    ("open_goal", lambda root: change(root, "prove.json", lambda r: counts_of(r).update(
        proved=4, details=[{"name": "twice_ensures_doubled", "valid": False}])), 1,
     "1 goals not proved: twice_ensures_doubled", "| 4/5 |"),
    ("failed_smoke_test", lambda root: change(root, "prove.json", lambda r: counts_of(r).update(passed=1)), 1,
     "1 smoke tests failed", "| 1/2 |"),
    ("problem_of_the_gate", lambda root: change(root, "prove.json", lambda r: r["problems"].append("a clause without a label")), 1,
     "open: proof gate: a clause without a label", "- proof gate: a clause without a label"),
    ("surviving_mutant", lambda root: change(root, "mutants.json", survivor), 1,
     "abi/src/unit.c:7: mutant survived: unit:1:x: 2 => 3", "| 1: 1 survived |"),
    ("justified_without_a_reason", lambda root: change(root, "mutants.json", lambda r: r["mutants"][0].update(status="justified")), 1,
     "mutant justified without a reason: unit:1:x", "| 1: 1 justified |"),
    ("two_layers_kill_what_one_should", lambda root: change(root, "mutants-one-layer.json", lambda r: r["mutants"][0]["layers"].update(
        unit={"test": "twice_test"})), 1, "not only proof kills unit:1:x: proof, unit", "not only proof kills"),
    ("alarm_of_eva", lambda root: change(root, "eva.json", lambda r: r["entries"][0]["alarms"].append("quiet: unit.c:1: overflow")), 1,
     "eva: quiet: unit.c:1: overflow", "| 1 alarms, 4/4 statements |"),
    ("model_that_fails", lambda root: change(root, "models.json", lambda r: r["rows"].append({"ok": False, "text": "gate: errors: 1"})), 1,
     "open: model: gate: errors: 1", "| gate: errors: 1 | not ok |"),
    ("assumptions_are_listed", lambda root: None, 0, "0 open",
     "| fixture-assumption | model | fixture | taken &lt;for> granted | believed | noticed |"),
    ("quick_run_where_there_is_no_full_one", lambda root: os.rename(f"{root}/build/records/prove.json", f"{root}/build/records/prove-quick.json"),
     0, "0 not run", "prove-quick.json"),
)


def judge(edit, code, in_output, in_markdown):
    with tempfile.TemporaryDirectory(prefix="nxmem-report-") as root:
        make_project(root)
        edit(root)
        got, out, err = run(root)
        if err or got != code:
            return False, f"exit code {got}\n{out}{err}"
        said = written(root, "report.md")
        record = json.loads(written(root, "report.json"))
        whole = record["closing"] == out.splitlines()[-1] and "<!DOCTYPE html>" in written(root, "report.html")
        return in_output in out and in_markdown in said and whole, out + said


def judge_broken(name, text):
    """A record that cannot be read: one line, exit code 3."""
    with tempfile.TemporaryDirectory(prefix="nxmem-report-") as root:
        make_project(root)
        write(f"{root}/build/records/{name}", text)
        code, out, err = run(root)
        return code == 3 and err.startswith("report: ") and len(err.splitlines()) == 1 and not out, f"{code}\n{out}{err}"


def judge_escaped():
    """Text from records is text in the page, whatever it holds; nothing is loaded from elsewhere."""
    with tempfile.TemporaryDirectory(prefix="nxmem-report-") as root:
        make_project(root)
        change(root, "mutants.json", lambda r: (survivor(r), r["mutants"][0].update(before="<script>alert(1)</script>", after='"&')))
        run(root)
        page = written(root, "report.html")
        clean = "<script" not in page and "&lt;script&gt;" in page and "&quot;&amp;" in page
        return clean and "http" not in page and "src=" not in page, page


def judge_fresh():
    """--fresh runs what is missing or stale and nothing else."""
    with tempfile.TemporaryDirectory(prefix="nxmem-report-") as root:
        make_project(root)
        write_records(root, "good", RECORDS)
        os.remove(f"{root}/build/records/eva.json")
        os.remove(f"{root}/build/records/models.json")
        change(root, "mutants.json", lambda r: r.update(content="0"))
        code, out, err = run(root, "--fresh")
        ran = [line for line in out.splitlines() if line.startswith("ran ")]
        right = ran == ["ran eva.json", "ran mutants.json"] and "running proofs/models/check.sh" in out
        return code == 0 and right and out.strip().endswith("0 open, 0 not run"), out + err


def judge_revision():
    """A record without a hash is compared by its commit; one of a changed tree also by the time of the changes."""
    with tempfile.TemporaryDirectory(prefix="nxmem-report-") as root:
        make_project(root)
        git = ["git", "-C", root, "-c", "user.name=fixture", "-c", "user.email=fixture@example.org"]
        for command in (["init", "-q"], ["add", "abi", "proofs"], ["commit", "-q", "-m", "fixture"]):
            subprocess.run(git + command, check=True, capture_output=True)
        revision = report_sources.git(root, "rev-parse", "HEAD").decode().strip()
        record = {"revision": revision, "date": "2020-01-01T00:00:00+00:00"}
        committed = report_sources.staleness(root, record)
        dirty = report_sources.staleness(root, record | {"revision": revision + "-dirty"})
        later = report_sources.staleness(root, record | {"revision": revision + "-dirty", "date": "2999-01-01T00:00:00+00:00"})
        write(f"{root}/abi/src/unit.c", "int other;\n")
        changed = report_sources.staleness(root, record)
    said = [committed, dirty, later, changed]
    return committed == later == "" and "was written after the run" in dirty and "changed since revision" in changed, str(said)


def judge_usage():
    done = subprocess.run([sys.executable, f"{HERE}/report.py", "--nonsense"], capture_output=True, text=True)
    return done.returncode == 2, done.stdout + done.stderr


def main():
    special = (
        ("broken_json", lambda: judge_broken("prove.json", '{"targets": [')),
        ("record_that_is_no_object", lambda: judge_broken("mutants.json", "[]")),
        ("record_without_its_list", lambda: judge_broken("eva.json", "{}")),
        ("record_with_a_list_of_nonsense", lambda: judge_broken("mutants.json", '{"mutants": [7]}')),
        ("foreign_text_is_escaped", judge_escaped),
        ("fresh_runs_what_is_missing", judge_fresh),
        ("record_without_a_hash", judge_revision),
        ("unknown_option", judge_usage),
    )
    rows = [(name, lambda rest=copy.copy(rest): judge(*rest)) for name, *rest in ROWS] + list(special)
    print(f"1..{len(rows)}")
    failed = 0
    for number, (name, ask) in enumerate(rows, 1):
        passed, said = ask()
        failed += not passed
        print(f"{'ok' if passed else 'not ok'} {number} - {name}", flush=True)
        if not passed:
            print("".join(f"# {line}\n" for line in said.splitlines()), end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
