"""What a run of the gate leaves behind: a JSON record that names exactly what was judged, and the floors it found."""
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys

import gate_run

JUDGED = ("abi/src", "abi/include", "proofs/targets.toml", "proofs/assumptions", "proofs/loads.h", "proofs/units")
FORMAT = 2


def normal(path, data):
    """Recording the floors is no change of what is claimed or proved."""
    return re.sub(rb"floor = \d+", b"floor", data) if path.endswith("targets.toml") else data


def content_hash(root):
    """SHA-256 over paths and bytes of all that a run judges, floors apart: a record whose hash differs is stale."""
    paths = []
    for name in JUDGED:
        full = os.path.join(root, name)
        if os.path.isdir(full):
            paths += [os.path.join(folder, file) for folder, _, files in os.walk(full) for file in files
                      if file.endswith((".c", ".h", ".toml"))]
        elif os.path.exists(full):
            paths.append(full)
    digest = hashlib.sha256()
    for path in sorted(paths):
        with open(path, "rb") as file:
            digest.update(os.path.relpath(path, root).encode() + b"\0" + hashlib.sha256(normal(path, file.read())).digest())
    return digest.hexdigest()


def versions():
    said = {}
    for command in (("frama-c", "-version"), ("why3", "--version"), *(v for _, _, v in gate_run.PROVERS.values())):
        try:
            said[command[0]] = gate_run.version_of(command)
        except gate_run.Missing as missing:
            said[command[0]] = str(missing)
    return said


def function_record(judged, name):
    votes = judged.votes[name]
    record = dict(zip(("goals", "proved", "smoke", "passed"), judged.counts(name)))
    record["provers"] = {prover: sum(1 for who in votes.values() if prover in who)
                         for prover in ("qed", *gate_run.PROVERS)}
    record["details"] = [{"name": goal, "valid": bool(who), "provers": sorted(who)}
                         for goal, who in sorted(votes.items())]
    return record


def target_record(judged):
    goals, proved, smoke, passed = judged.totals()
    return {
        "source": judged.target["source"], "defines": judged.target.get("defines", judged.target["source"]),
        "world": judged.target["world"], "goals": goals, "proved": proved, "smoke": smoke, "smoke_passed": passed,
        "seconds": round(judged.seconds, 1), "commands": judged.commands,
        "functions": {name: function_record(judged, name) for name in judged.target["names"]},
    }


def write(path, root, mode, results, problems, judged_hash, times):
    revision = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True)
    record = {
        "format": FORMAT,
        "command": [os.path.basename(sys.argv[0])] + sys.argv[1:],
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "seconds": round(times[0], 1),
        "processor_seconds": round(times[1], 1),
        "revision": revision.stdout.strip(),
        "judged": judged_hash,
        "mode": mode,
        "versions": versions(),
        "problems": problems,
        "targets": [target_record(judged) for judged in results],
    }
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)


def update_floors(root, results):
    """Rewrites the floor numbers in place; the table keeps one line per function for this."""
    path = f"{root}/proofs/targets.toml"
    with open(path, encoding="utf-8") as file:
        sections = re.split(r"(?m)^(?=\[\[target\]\])", file.read())
    for judged in results:
        source = f'source = "{judged.target["source"]}"\nworld = "{judged.target["world"]}"'
        for i, section in enumerate(sections):
            if source not in section:
                continue
            for name in judged.target["names"]:
                sections[i] = re.sub(rf'(name = "{name}", floor = )\d+', rf"\g<1>{judged.counts(name)[0]}", sections[i])
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(sections))
