"""What the gate refuses without asking a prover: the table, the ledger of assumptions, labels, loads."""
import fnmatch
import os
import tomllib

import gate_run
import gate_source

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
            raise ValueError(f"targets.toml: {target['source']}: found world {target['world']}, needed one of "
                             f"{', '.join(sorted(gate_run.WORLDS))}")
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


def check_shapes(files):
    """Behaviours say that they are complete and disjoint, and a loop what makes it end: a dropped line would only cost goals."""
    problems = []
    for path, text in files.items():
        for body, line, _ in gate_source.annotations(text):
            clauses = gate_source.clauses(body)
            has = lambda head: any(clause.startswith(head) for clause in clauses)
            problems += [f"behaviours that are not said to be {kind}: {path}:{line}" for kind in ("complete", "disjoint")
                         if has("behavior ") and not has(f"{kind} behaviors")]
            if has("loop ") and not has("loop variant"):
                problems.append(f"loop without a variant: {path}:{line}")
    return problems


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
