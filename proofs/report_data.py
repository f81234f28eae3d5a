"""What the report puts together: the table of claims, the ledger, and the records that the last runs left, as one tree of data."""
import json
import os
import tomllib

import report_sources

RECORDS = "build/records"
MISSING, STALE, FRESH = "not run", "stale", "fresh"
EVA_SOURCES = ("abi", "proofs/eva", "proofs/loads.h")
MODEL_SOURCES = ("proofs/models",)
LEDGER_OF_LOADS = "proofs/loads.h"
# Kind -> the records that may serve it, the strongest first, and what they speak of.
KINDS = {
    "prove": (("prove-all-provers.json", "prove.json", "prove-quick.json"), report_sources.CORE),
    "mutants": (("mutants.json",), report_sources.CORE),
    "one_layer": (("mutants-one-layer.json",), report_sources.CORE),
    "eva": (("eva.json",), EVA_SOURCES),
    "models": (("models.json",), MODEL_SOURCES),
}
MUST_HOLD = {"prove": "targets", "mutants": "mutants", "one_layer": "mutants", "eva": "entries", "models": "rows"}


class Broken(Exception):
    """A file that cannot be read as what it should be; the message is one line."""


def read_json(path, key):
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError) as error:
        raise Broken(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(record, dict) or not isinstance(record.get(key), list):
        raise Broken(f"{path}: no list \"{key}\"; run again what writes it")
    return record


def read_toml(path, key):
    try:
        with open(path, "rb") as file:
            return tomllib.load(file).get(key, [])
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise Broken(f"{path}: {' '.join(str(error).split())}") from None


def load_input(root, kind):
    """The record that serves a kind best: a fresh one, the strongest first; else the first stale one, with the reason."""
    names, paths = KINDS[kind]
    stale = None
    for name in names:
        path = f"{root}/{RECORDS}/{name}"
        if not os.path.exists(path):
            continue
        record = read_json(path, MUST_HOLD[kind])
        why = report_sources.staleness(root, record, paths)
        if not why and record.get("complete", True):
            return {"kind": kind, "state": FRESH, "why": "", "file": f"{RECORDS}/{name}", "record": record}
        why = why or "the run did not come to its end"
        stale = stale or {"kind": kind, "state": STALE, "why": why, "file": f"{RECORDS}/{name}", "record": record}
    return stale or {"kind": kind, "state": MISSING, "why": "no record", "file": f"{RECORDS}/{names[0]}", "record": None}


def load_claims(root):
    """One line per function and world, in the order of targets.toml."""
    lines = []
    for target in read_toml(f"{root}/proofs/targets.toml", "target"):
        file = target.get("defines", target["source"])
        for entry in target["functions"]:
            lines.append({"function": entry["name"], "file": file, "source": target["source"], "world": target["world"],
                          "claim": entry.get("claim", ""), "unproved": entry.get("unproved", ""),
                          "floor": entry.get("floor", 0)})
    if not lines:
        raise Broken(f"{root}/proofs/targets.toml: no function in it")
    return lines


def load_ledger(root):
    folder = f"{root}/proofs/assumptions"
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [entry for name in names if name.endswith(".toml") for entry in read_toml(f"{folder}/{name}", "assumption")]


def open_goals(counts):
    return [goal["name"] for goal in counts.get("details", []) if not goal.get("valid")]


def proof_of(line, source):
    """How one line of the table was proved, by the record."""
    if source["record"] is None:
        return {"state": MISSING}
    for target in source["record"]["targets"]:
        if (target["source"], target["world"]) == (line["source"], line["world"]):
            counts = target["functions"].get(line["function"])
            if counts is None:
                break
            return {"state": source["state"], "goals": counts["goals"], "proved": counts["proved"],
                    "smoke": counts["smoke"], "passed": counts["passed"], "provers": counts.get("provers", {}),
                    "open": open_goals(counts)}
    return {"state": MISSING}


def mutants_of(line, source, generated):
    """Who noticed the damages to one function."""
    if source["record"] is None:
        return {"state": MISSING}
    own = generated.get((line["file"], line["function"]), [])
    tally = {"state": source["state"], "total": len(own), "contract": 0, "proof": 0, "unit": 0, "justified": 0, "survived": 0}
    for mutant in own:
        layers = [name for name in ("contract", "proof", "unit") if (mutant.get("layers") or {}).get(name)]
        if mutant["status"] == "killed" and layers:
            tally[layers[0]] += 1
        elif mutant["status"] == "justified":
            tally["justified"] += 1
        elif mutant["status"] != "killed":
            tally["survived"] += 1
    return tally


def eva_of(line, source):
    """Eva judges public functions; it reaches the others through them."""
    if not line["function"].startswith("nxmem_"):
        return {"state": "through callers"}
    if source["record"] is None:
        return {"state": MISSING}
    world = "racing" if line["world"] == "racing" else "quiet"
    for entry in source["record"]["entries"]:
        if entry["name"] == line["function"] and world in entry["reached"]:
            reached, total = entry["reached"][world]
            return {"state": source["state"], "alarms": [a for a in entry["alarms"] if a.startswith(world)],
                    "reached": reached, "statements": total}
    return {"state": MISSING}


def one_layer_of(root, source):
    """Mutants of which somebody wrote that one layer alone kills them, and what the record says of each."""
    known = {m["id"]: m for m in (source["record"] or {}).get("mutants", [])}
    rows = []
    for entry in read_toml(f"{root}/proofs/mutants/one_layer.toml", "mutant"):
        mutant = known.get(entry["id"])
        layers = [] if mutant is None else [n for n, said in (mutant.get("layers") or {}).items() if said]
        state = MISSING if mutant is None else source["state"]
        rows.append({"id": entry["id"], "layer": entry["layer"], "why": entry["why"], "state": state, "killed_by": layers,
                     "before": (mutant or {}).get("before", ""), "after": (mutant or {}).get("after", ""),
                     "witness": witness_of(mutant, entry["layer"])})
    return rows


def witness_of(mutant, layer):
    said = ((mutant or {}).get("layers") or {}).get(layer) or {}
    return "; ".join(f"{key}: {value}" for key, value in said.items() if value and key != "text")


def gather(root):
    """Everything that the report shows, but for what is open."""
    inputs = {kind: load_input(root, kind) for kind in KINDS}
    generated = {}
    for mutant in (inputs["mutants"]["record"] or {}).get("mutants", []):
        generated.setdefault((mutant["file"], mutant["function"]), []).append(mutant)
    lines = load_claims(root)
    for line in lines:
        line["proof"] = proof_of(line, inputs["prove"])
        line["mutants"] = ({"state": "none"} if line["file"] == LEDGER_OF_LOADS else
                           mutants_of(line, inputs["mutants"], generated))
        line["eva"] = eva_of(line, inputs["eva"])
    return {"inputs": inputs, "lines": lines, "ledger": load_ledger(root), "one_layer": one_layer_of(root, inputs["one_layer"])}


def not_run(data):
    """Each piece of evidence that is missing or stale: one per input, and one per line that a fresh record lacks."""
    found = []
    for kind, source in data["inputs"].items():
        if kind == "one_layer" and not data["one_layer"]:
            continue
        if source["state"] != FRESH:
            found.append(f"{kind}: {source['state']}: {source['why']}")
    for line in data["lines"]:
        for kind, key in (("prove", "proof"), ("eva", "eva")):
            if data["inputs"][kind]["state"] == FRESH and line[key]["state"] == MISSING:
                found.append(f"{kind}: not run: {line['function']} ({line['world']})")
    return found


def open_points(data):
    """Everything that a fresh or stale record shows as not proved, not noticed or contradicted."""
    found = []
    for line in data["lines"]:
        where = f"{line['file']}: {line['function']} ({line['world']})"
        proof, eva = line["proof"], line["eva"]
        if proof.get("proved", 0) < proof.get("goals", 0):
            found.append(f"{where}: {proof['goals'] - proof['proved']} goals not proved: {', '.join(proof['open'][:5])}")
        if proof.get("passed", 0) < proof.get("smoke", 0):
            found.append(f"{where}: {proof['smoke'] - proof['passed']} smoke tests failed")
        if "goals" in proof and proof["goals"] < line["floor"]:
            found.append(f"{where}: fewer goals than the floor: {proof['goals']} of {line['floor']}")
        found += [f"{where}: eva: {alarm}" for alarm in eva.get("alarms", [])]
    records = {kind: source["record"] or {} for kind, source in data["inputs"].items()}
    found += [f"proof gate: {problem}" for problem in records["prove"].get("problems", [])]
    mutants = records["mutants"].get("mutants", [])
    told = {mutant["id"] for mutant in mutants if mutant["status"] not in ("killed", "justified")}
    found += [f"mutants: {problem}" for problem in records["mutants"].get("problems", [])
              if problem.rsplit(": ", 1)[-1] not in told]
    for mutant in mutants:
        if mutant["status"] not in ("killed", "justified"):
            found.append(f"{mutant['file']}:{mutant['line']}: mutant {mutant['status']}: {mutant['id']}: "
                         f"{mutant['before']} => {mutant['after'] or '(nothing)'}")
        elif mutant["status"] == "justified" and not mutant.get("reason"):
            found.append(f"mutant justified without a reason: {mutant['id']}")
    for row in data["one_layer"]:
        if row["state"] != MISSING and row["killed_by"] != [row["layer"]]:
            found.append(f"not only {row['layer']} kills {row['id']}: {', '.join(row['killed_by']) or 'nothing does'}")
    found += [f"model: {row['text']}" for row in records["models"].get("rows", []) if not row["ok"]]
    return list(dict.fromkeys(found))


def summary(data):
    functions = {(line["file"], line["function"]) for line in data["lines"] if line["file"] != LEDGER_OF_LOADS}
    mutants = (data["inputs"]["mutants"]["record"] or {}).get("mutants", [])
    return {"functions": len(functions), "goals": sum(line["proof"].get("goals", 0) for line in data["lines"]),
            "proved": sum(line["proof"].get("proved", 0) for line in data["lines"]), "mutants": len(mutants),
            "killed": sum(m["status"] == "killed" for m in mutants),
            "justified": sum(m["status"] == "justified" for m in mutants),
            "open": len(data["open"]), "not_run": len(data["not_run"])}
