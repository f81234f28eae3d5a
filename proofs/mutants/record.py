"""What is written about mutants: the justifications that people wrote, the record that a run leaves."""
import datetime
import json
import os
import subprocess
import sys
import tomllib

import report_sources
from generate import shortened


def load_entries(root, name, key, needed):
    """The entries of proofs/mutants/NAME; problems for those that lack a field or stand twice."""
    path, problems, entries = f"{root}/proofs/mutants/{name}", [], {}
    if not os.path.exists(path):
        return {}, []
    with open(path, "rb") as file:
        found = tomllib.load(file).get(key, [])
    for entry in found:
        missing = [field for field in needed if not str(entry.get(field, "")).strip() and field != "after"]
        if missing:
            problems.append(f"{name}: entry {entry.get('id')} lacks {', '.join(missing)}")
        if entry.get("id") in entries:
            problems.append(f"{name}: stands twice: {entry['id']}")
        entries[entry.get("id")] = entry
    return entries, problems


def describes(entry, mutant):
    """Whether an entry is about this very damage: an id alone may have moved to another one."""
    return entry["before"] == mutant.before and entry["after"] == shortened(mutant.after)


def entry_of(mutant):
    """What a person copies into justified.toml, to write the reason behind it."""
    return (f'[[justified]]\nid = "{mutant.id}"\nbefore = {json.dumps(mutant.before, ensure_ascii=False)}\n'
            f'after = {json.dumps(shortened(mutant.after), ensure_ascii=False)}\nreason = ""\n')


def revision(root):
    done = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return done.stdout.strip()


def judged_before(path, root, layers, mutants):
    """What a record says of those of `mutants` that it speaks of: keyword arguments of a Result each. It must be of these sources and layers."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as error:
        raise RuntimeError(f"--resume: found no record to go on from ({error}); run without --resume") from error
    why = report_sources.staleness(root, found)
    if not why and found["layers"] != list(layers):
        why = f"it asked the layers {', '.join(found['layers'])}"
    if why:
        raise RuntimeError(f"--resume: {path} is of no use: {why}; run without --resume")
    by_id = {entry["id"]: entry for entry in found["mutants"]}
    for mutant in mutants:
        entry = by_id.get(mutant.id)
        if entry is None or not describes(entry, mutant):
            continue
        killed = entry["status"] == "killed"
        yield {"mutant": mutant, "status": "killed" if killed else "survived", "asked": entry["asked"],
               "kills": {name: kill for name, kill in entry["layers"].items() if kill},
               "reason": "" if entry["status"] == "justified" else entry["reason"]}


def write(path, revision, results, **facts):
    """One JSON record; written through a second file, so that a reader never sees half of it."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    record = {
        "command": [os.path.basename(sys.argv[0])] + sys.argv[1:],
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "revision": revision,
        **facts,
        "mutants": [{
            "id": r.mutant.id, "file": r.mutant.file, "line": r.mutant.line, "function": r.mutant.function,
            "operator": r.mutant.operator, "before": r.mutant.before, "after": shortened(r.mutant.after), "status": r.status,
            "asked": r.asked, "layers": {name: r.kills.get(name) for name in ("contract", "proof", "unit")}, "reason": r.reason,
        } for r in results],
    }
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1, ensure_ascii=False)
    os.replace(path + ".part", path)
