#!/usr/bin/env python3
"""The proof gate: runs Frama-C's WP on every target of targets.toml and fails on anything that is not proved.

WP itself exits 0 on unproved goals, failed smoke tests and vacuous contracts; README.md lists what this script refuses.
Last line: proofs: P/P goals, S/S smoke, F functions, 0 open.
Exit code: 0 no open point, 1 open points, 2 usage, 3 could not run.
"""
import argparse
import os
import re
import resource
import sys
import time

import gate_loads
import gate_plan
import gate_record
import gate_run
import gate_source
import gate_static

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECORDS = {"quick": "prove-quick.json", "full": "prove.json", "all provers": "prove-all-provers.json"}


def check_floors(judged):
    problems = []
    for entry in judged.target["functions"]:
        goals = judged.counts(entry["name"])[0]
        if goals == 0:
            problems.append(f"contracted function without goals: {entry['name']}")
        elif entry.get("floor", 0) < 1:
            problems.append(f"no floor recorded: {entry['name']} (has {goals} goals)")
        elif goals < entry["floor"]:
            problems.append(f"fewer goals than the floor: {entry['name']}: {goals} of {entry['floor']}")
    return problems


def judge_considered(results, ledger):
    """What Frama-C believed without proof, beyond the contracts of core functions that another target proves."""
    files = {os.path.basename(e["where"].split(":")[0]) for e in ledger if e["kind"] in ("admit", "axiom")}
    return sorted({f"believed without proof: {file}: {name}: {kind}: {text[:120]}"
                   for judged in results for file, name, kind, text in judged.considered
                   if os.path.basename(file) not in files})


def judge_runs(results, core, ledger, with_floors):
    problems = judge_considered(results, ledger)
    ghosts = set(gate_source.functions(gate_static.read(f"{gate_run.HERE}/loads.h")))
    for judged in results:
        title = judged.target["title"]
        unseen = sorted(judged.defined - core - ghosts)
        problems += [f"Frama-C sees a function that the gate does not: {name}" for name in unseen]
        problems += [f"{title}: {p}" for p in (check_floors(judged) if with_floors else []) + judged.problems]
    return problems


def judge_sources(root, all_targets, targets, only):
    """(problems, names of the core's functions, the ledger)"""
    files = gate_static.core_files(root)
    functions = gate_static.core_functions(files)
    ledger = gate_static.load_ledger(root)
    problems = (gate_static.check_table(all_targets, functions) + gate_static.check_shapes(files)
                + gate_loads.check(root, files, functions)
                + gate_static.check_ledger(files, functions, ledger))
    if only:
        names = {name for target in targets for name in target["names"]}
        problems = [p for p in problems if names & set(re.findall(r"\w+", p))]
    return problems, {name for _, name in functions}, ledger


def record_paths(args, root):
    """Where the record goes: where it is asked for, and for a whole run the place where the report looks."""
    paths = [args.json] if args.json else []
    if not (args.only or args.world or args.static):
        paths.append(f"{root}/build/records/{RECORDS[mode_of(args)]}")
    return paths


def mode_of(args):
    return "quick" if args.quick else "all provers" if args.all_provers else "full"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--quick", action="store_true",
                      help="shorter times, smoke tests of contracts and loops only; the same goals")
    kind.add_argument("--all-provers", action="store_true",
                      help="each goal Qed leaves open needs two of three provers")
    parser.add_argument("--only", action="append", metavar="FILE|FUNCTION",
                        help="a source's base name or a function pattern")
    parser.add_argument("--world", choices=sorted(gate_run.WORLDS), help="only this world's targets")
    parser.add_argument("--json", metavar="FILE",
                        help="write a record of the run (a whole run also writes build/records/prove*.json)")
    parser.add_argument("--update-floors", action="store_true", help="record this run's goal numbers in targets.toml")
    parser.add_argument("--timeout", type=int, metavar="S",
                        help="processor seconds per goal and prover (60, quick: 20)")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1,
                        help="runs of Frama-C at a time (processors + 1)")
    parser.add_argument("--root", default=ROOT, help="project to judge (the alarm tests judge small ones)")
    parser.add_argument("--static", action="store_true",
                        help="only what needs no prover: table, ledger, labels, loads")
    return parser.parse_args()


def in_words(seconds):
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s" if seconds >= 60 else f"{seconds:.0f} s"


def judge(args, root):
    """Prints each problem and the closing line; the exit code."""
    started = time.monotonic()
    judged_hash = gate_record.content_hash(root)
    all_targets, targets = gate_static.load_targets(root, args.only, args.world)
    if not targets:
        raise ValueError(f"nothing in targets.toml matches {args.only or args.world}")
    problems, core, ledger = judge_sources(root, all_targets, targets, args.only)
    for problem in problems:
        print(problem, flush=True)
    results = []
    if not args.static:
        options = {"quick": args.quick, "all_provers": args.all_provers, "jobs": args.jobs, "core": core,
                   "seconds": args.timeout or (20 if args.quick else 60)}
        results = gate_plan.Plan(root, targets, options).run()
    changed = ["the sources changed during the run"] if gate_record.content_hash(root) != judged_hash else []
    if args.update_floors:
        gate_record.update_floors(root, results)
        judged_hash = gate_record.content_hash(root)
    late = changed + judge_runs(results, core, ledger, not args.update_floors)
    for problem in late:
        print(problem, flush=True)
    problems += late
    seconds = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime
    for path in record_paths(args, root):
        gate_record.write(path, root, mode_of(args), results, problems, judged_hash, (seconds, processor))

    goals, proved, smoke, passed = [sum(column) for column in zip(*(r.totals() for r in results))] or [0] * 4
    named = {(t.get("defines", t["source"]), n) for t in targets for n in t["names"]
             if t.get("defines") != gate_static.LOADS}
    print(f"in {in_words(seconds)}, {in_words(processor)} of processor time")
    print(f"proofs: {proved}/{goals} goals, {passed}/{smoke} smoke, {len(named)} functions, {len(problems)} open")
    return 1 if problems else 0


def main():
    args = parse_arguments()
    try:
        return judge(args, os.path.abspath(args.root))
    except (gate_run.Missing, ValueError, OSError) as error:
        print(f"gate: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
