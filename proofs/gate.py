#!/usr/bin/env python3
"""The proof gate: runs Frama-C's WP on every target of targets.toml and fails on anything that is not proved.

WP itself exits 0 on unproved goals, failed smoke tests and vacuous contracts; README.md lists what this script refuses.
Last line: proofs: P/P goals, S/S smoke, F functions, 0 open. Exit code: 0 no open point, 1 open points, 3 could not run.
"""
import argparse
import concurrent.futures
import datetime
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib

import gate_run
import gate_source

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
LOADS = "proofs/loads.h"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def load_targets(root, only, world):
    """The table's targets; with `only`, those whose source or function names match, reduced to them; with `world`, its own."""
    targets = tomllib.loads(read(f"{root}/proofs/targets.toml"))["target"]
    kept = []
    for target in targets:
        if target["world"] not in gate_run.WORLDS:
            raise ValueError(f"unknown world {target['world']}")
        base = os.path.basename(target["source"])
        chosen = [f for f in target["functions"]
                  if not only or any(fnmatch.fnmatch(f["name"], o) or o in (base, target["source"]) for o in only)]
        if chosen and world in (None, target["world"]):
            names = [f["name"] for f in chosen]
            kept.append(dict(target, functions=chosen, names=names, title=f"{base} {target['world']}"))
    return targets, kept


def load_ledger(root):
    """Every entry of the assumption ledger."""
    folder = f"{root}/proofs/assumptions"
    return [entry for name in sorted(os.listdir(folder)) if name.endswith(".toml")
            for entry in tomllib.loads(read(f"{folder}/{name}")).get("assumption", [])]


def core_files(root):
    """path -> text of the core's sources and of the headers that hold their contracts."""
    files = {}
    for folder in ("abi/src", "abi/include", "abi/include/nxmem", "proofs", "proofs/units"):
        full = os.path.join(root, folder)
        for name in sorted(os.listdir(full)) if os.path.isdir(full) else []:
            if name.endswith((".c", ".h")):
                files[f"{folder}/{name}"] = read(os.path.join(full, name))
    return files


def core_functions(files):
    """(path, name) -> (parameters, body, is_static) of every function of abi/src, and of the ledger of loads."""
    found = {}
    for path, text in files.items():
        if path.startswith("abi/src/") or path == LOADS:
            for name, parts in gate_source.functions(text).items():
                found[(path, name)] = parts
    return found


def check_table(targets, functions):
    """Every core function in the table, in every world it needs, with a claim; nothing in it that does not exist."""
    worlds, problems = {}, []
    for target in targets:
        home = target.get("defines", target["source"])
        for entry in target["functions"]:
            key = (home, entry["name"])
            worlds.setdefault(key, []).append(target["world"])
            if key not in functions:
                problems.append(f"table names a function that {home} does not define: {entry['name']}")
            if not entry.get("claim") or not entry.get("unproved"):
                problems.append(f"table says not what is claimed and what stays unproved: {entry['name']}")
    for key, (parameters, _, _) in functions.items():
        have = worlds.get(key, [])
        if len(have) != len(set(have)):
            problems.append(f"listed twice in one world: {key[1]}")
        if not have:
            problems.append(f"core function in no target: {key[0]}: {key[1]}")
        elif gate_source.untrusted_parameters(parameters) and not {"quiet", "racing"} <= set(have):
            problems.append(f"reader of plugin memory not proved in both worlds: {key[1]}")
    return problems


def check_loads(functions):
    return [f"plugin memory dereferenced outside NX_LOAD: {path}: {name}: {stray}"
            for (path, name), (parameters, body, _) in functions.items()
            for stray in gate_source.stray_loads(parameters, body)]


def covers(entry, function, label, clause):
    return (entry["kind"] == "requires" and entry["label"] == label and clause in entry["clauses"]
            and any(fnmatch.fnmatch(function or "", pattern) for pattern in entry.get("functions", ["*"])))


def check_ledger(files, functions, ledger):
    """Each boundary precondition, admit and axiom stands in the ledger, and nothing stands there that no longer exists."""
    internal = {name for (_, name), (_, _, is_static) in functions.items() if is_static}
    problems, used = [], set()
    for path, text in files.items():
        if not path.startswith("abi/"):
            continue
        for function, label, clause, line in gate_source.requires(text):
            hits = [e["id"] for e in ledger if covers(e, function, label, clause)]
            used.update(hits)
            if function not in internal and not hits:
                problems.append(f"boundary requires not in the ledger: {path}:{line}: {function}: {label}: {clause}")
    for path, text in files.items():
        for clause, line in gate_source.admitted(text):
            hits = [e["id"] for e in ledger if e["kind"] in ("admit", "axiom") and clause in e["clauses"]]
            used.update(hits)
            if not hits:
                problems.append(f"admit or axiom not in the ledger: {path}:{line}: {clause}")
        problems += [f"clause without a label: {path}:{line}: {clause}" for clause, line in gate_source.unlabelled(text)]
    for entry in ledger:
        missing = [k for k in ("id", "kind", "where", "text", "why", "check") if not entry.get(k)]
        if missing:
            problems.append(f"ledger entry {entry.get('id')} lacks {', '.join(missing)}")
        if entry["kind"] != "model" and entry["id"] not in used:
            problems.append(f"ledger entry that covers nothing any more: {entry['id']}")
    return problems


def check_floors(result):
    problems = []
    for entry in result.target["functions"]:
        goals = result.per_function.get(entry["name"], [0])[0]
        if goals == 0:
            problems.append(f"contracted function without goals: {entry['name']}")
        elif entry.get("floor", 0) < 1:
            problems.append(f"no floor recorded: {entry['name']} (has {goals} goals)")
        elif goals < entry["floor"]:
            problems.append(f"fewer goals than the floor: {entry['name']}: {goals} of {entry['floor']}")
    return problems


def update_floors(root, results):
    """Rewrites the floor numbers in place; the table keeps one line per function for this."""
    path = f"{root}/proofs/targets.toml"
    sections = re.split(r"(?m)^(?=\[\[target\]\])", read(path))
    for result in results:
        source = f'source = "{result.target["source"]}"\nworld = "{result.target["world"]}"'
        for i, section in enumerate(sections):
            if source not in section:
                continue
            for name, counts in result.per_function.items():
                sections[i] = re.sub(rf'(name = "{name}", floor = )\d+', rf"\g<1>{counts[0]}", sections[i])
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(sections))


def versions():
    said = {}
    for tool in (["frama-c", "-version"], ["why3", "--version"], ["z3", "--version"], ["cvc4", "--version"],
                 ["cvc5", "--version"]):
        try:
            said[tool[0]] = subprocess.run(tool, capture_output=True, text=True).stdout.strip().splitlines()[0]
        except (OSError, IndexError):
            said[tool[0]] = "missing"
    return said


def write_record(path, root, args, results, problems):
    revision = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True)
    record = {
        "command": [os.path.basename(sys.argv[0])] + sys.argv[1:],
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "revision": revision.stdout.strip(),
        "mode": "quick" if args.quick else "all provers" if args.all_provers else "full",
        "versions": versions(),
        "problems": problems,
        "targets": [{
            "source": r.target["source"], "world": r.target["world"], "goals": r.goals, "proved": r.proved,
            "smoke": r.smoke, "smoke_passed": r.passed, "seconds": round(r.seconds, 1), "command": r.command,
            "functions": {n: dict(zip(("goals", "proved", "smoke", "passed"), c)) for n, c in r.per_function.items()},
        } for r in results],
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)


def options_of(args):
    """A goal that proves does so within a second or two; a smoke test always takes its whole time with every prover."""
    return {
        "provers": "cvc4,z3,CVC5" if args.all_provers else "cvc4,z3",
        "timeout": args.timeout or (20 if args.quick else 60),
        "smoke_timeout": 1 if args.quick else 2,
        "par": 2,
        "quick": args.quick,
        "all_provers": args.all_provers,
    }


def run_all(root, targets, args, core):
    """Two targets at a time, the largest first, each reported as it ends."""
    results = []
    with tempfile.TemporaryDirectory(prefix="nxmem-why3-") as folder:
        config = gate_run.write_why3_config(folder, f"{HERE}/cvc5-for-why3" if args.all_provers else None)
        with concurrent.futures.ThreadPoolExecutor(max_workers=args.jobs) as pool:
            ordered = sorted(targets, key=lambda t: -sum(f.get("floor", 0) for f in t["functions"]))
            waiting = [pool.submit(gate_run.run_target, root, t, options_of(args), config, core) for t in ordered]
            for done in concurrent.futures.as_completed(waiting):
                result = done.result()
                results.append(result)
                print(f"{result.target['title']}: {result.proved}/{result.goals} goals, {result.passed}/{result.smoke} "
                      f"smoke, {len(result.target['names'])} functions, {result.seconds:.0f} s", flush=True)
                for problem in result.problems:
                    print(f"  {problem}", flush=True)
    return results


def judge_considered(results, ledger):
    """What Frama-C believed without proof, beyond the contracts of core functions that another target proves."""
    files = {os.path.basename(e["where"].split(":")[0]) for e in ledger if e["kind"] in ("admit", "axiom")}
    return sorted({f"believed without proof: {file}: {name}: {kind}: {text[:120]}"
                   for result in results for file, name, kind, text in result.considered
                   if os.path.basename(file) not in files})


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter times, smoke tests of contracts and loops only; the same goals")
    parser.add_argument("--all-provers", action="store_true", help="each goal Qed leaves open needs two of three provers")
    parser.add_argument("--only", action="append", metavar="FILE|FUNCTION", help="a source's base name or a function pattern")
    parser.add_argument("--world", choices=sorted(gate_run.WORLDS), help="only this world's targets")
    parser.add_argument("--json", metavar="FILE", help="write a record of the run")
    parser.add_argument("--update-floors", action="store_true", help="record this run's goal numbers in targets.toml")
    parser.add_argument("--timeout", type=int, help="prover seconds per goal")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time")
    parser.add_argument("--root", default=ROOT, help="project to judge (the alarm tests judge small ones)")
    parser.add_argument("--static", action="store_true", help="only what needs no prover: table, ledger, labels, loads")
    return parser.parse_args()


def main():
    args = parse_arguments()
    root = os.path.abspath(args.root)
    all_targets, targets = load_targets(root, args.only, args.world)
    if not targets:
        print(f"nothing in targets.toml matches {args.only}", file=sys.stderr)
        return 3
    files = core_files(root)
    functions = core_functions(files)
    ledger = load_ledger(root)

    problems = check_table(all_targets, functions) + check_loads(functions) + check_ledger(files, functions, ledger)
    if args.only:
        names = {n for t in targets for n in t["names"]}
        problems = [p for p in problems if names & set(re.findall(r"\w+", p))]
    for problem in problems:
        print(problem, flush=True)
    results = [] if args.static else run_all(root, targets, args, {name for _, name in functions})
    if args.update_floors:
        update_floors(root, results)
    late = judge_considered(results, ledger)
    for result in results:
        seen = result.defined - {name for _, name in functions} 
        late += [f"Frama-C sees a function that the gate does not: {name}" for name in sorted(seen)]
        late += [] if args.update_floors else [f"{result.target['title']}: {p}" for p in check_floors(result)]
    for problem in late:
        print(problem, flush=True)
    problems += late + [f"{r.target['title']}: {p}" for r in results for p in r.problems]
    if args.json:
        write_record(args.json, root, args, results, problems)

    named = {(t.get("defines", t["source"]), n) for t in targets for n in t["names"] if t.get("defines") != LOADS}
    print(f"proofs: {sum(r.proved for r in results)}/{sum(r.goals for r in results)} goals, "
          f"{sum(r.passed for r in results)}/{sum(r.smoke for r in results)} smoke, {len(named)} functions, "
          f"{len(problems)} open")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
