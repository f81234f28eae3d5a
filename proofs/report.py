#!/usr/bin/env python3
"""Puts together what is claimed, proved, noticed by mutants and open: one line per function and world of the core.

Reads the claims of targets.toml, the ledger, and the records that the last runs left in build/records. Nothing that is
missing or older than the sources passes in silence: it says "not run" or "stale", and counts.
Writes build/report/report.md, report.json and report.html.
Last line: report: F functions, G goals, M mutants, O open, N not run
Exit code: 0 nothing open and nothing missing, 1 otherwise, 2 usage, 3 could not run (a record that cannot be read).
"""
import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import time

import report_data
import report_sources
import report_write

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
# What leaves which record; in this order, because the longest come last.
RUNS = {
    "eva": ("eva/check.py",),
    "prove": ("gate.py",),
    "one_layer": ("mutants/run.py", "--one-layer"),
    "mutants": ("mutants/run.py",),
}
SHOWN_POINTS = 10


def run_models(root):
    """Runs the models and leaves their record: every row of their TAP, with the state counts that it holds."""
    started = time.monotonic()
    print("report: running proofs/models/check.sh", flush=True)
    done = subprocess.run([f"{root}/proofs/models/check.sh"], capture_output=True, text=True)
    print(done.stdout, end="", flush=True)
    rows = [{"ok": not bad, "text": text} for bad, text in re.findall(r"^(not )?ok \d+ - (.*)$", done.stdout, re.M)]
    revision = report_sources.git(root, "describe", "--always", "--dirty") or b""
    record = {"command": ["check.sh"], "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "revision": revision.decode().strip(), "seconds": round(time.monotonic() - started, 1), "complete": bool(rows),
              "content": report_sources.content(root, report_data.MODEL_SOURCES), "rows": rows}
    os.makedirs(f"{root}/{report_data.RECORDS}", exist_ok=True)
    with open(f"{root}/{report_data.RECORDS}/models.json", "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)


def run_missing(root, data):
    """Runs what left no record, or one that is older than the sources. Their findings stand in their records."""
    for kind, command in RUNS.items():
        if data["inputs"][kind]["state"] == report_data.FRESH or (kind == "one_layer" and not data["one_layer"]):
            continue
        print(f"report: running proofs/{' '.join(command)}", flush=True)
        done = subprocess.run([sys.executable, f"{root}/proofs/{command[0]}", *command[1:]], cwd=root)
        if done.returncode not in (0, 1):
            print(f"report: proofs/{command[0]} ended with {done.returncode}", flush=True)
    if data["inputs"]["models"]["state"] != report_data.FRESH:
        run_models(root)


def complete(data):
    """Adds what follows from the rest: what is open, what is missing, the closing line."""
    data["open"] = report_data.open_points(data)
    data["not_run"] = report_data.not_run(data)
    data["summary"] = counts = report_data.summary(data)
    data["closing"] = (f"report: {counts['functions']} functions, {counts['goals']} goals, {counts['mutants']} mutants, "
                       f"{counts['open']} open, {counts['not_run']} not run")
    return data


def as_record(root, data):
    """report.json: the same tree, without the records' own bulk."""
    inputs = {kind: {key: value for key, value in source.items() if key != "record"} |
              {key: (source["record"] or {}).get(key) for key in ("mode", "date", "revision", "seconds", "command")}
              for kind, source in data["inputs"].items()}
    revision = report_sources.git(root, "describe", "--always", "--dirty") or b""
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "revision": revision.decode().strip(), "content": report_sources.content(root), **data, "inputs": inputs}


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_all(root, folder, data, extra):
    os.makedirs(folder, exist_ok=True)
    record = json.dumps(as_record(root, data), indent=1, ensure_ascii=False)
    write(f"{folder}/report.json", record)
    write(f"{folder}/report.md", report_write.markdown(data))
    write(f"{folder}/report.html", report_write.page(data))
    if extra:
        write(extra, record)


def show(data, folder):
    """What a person wants first; the files hold the rest."""
    for kind, source in data["inputs"].items():
        record = source["record"] or {}
        print(f"{kind:9} {source['state']:8} {source['why'] or record.get('date', '')}")
    counts = data["summary"]
    print(f"proved    {counts['proved']}/{counts['goals']} goals; mutants: {counts['killed']} killed, "
          f"{counts['justified']} justified")
    for title, points in (("open", data["open"]), ("not run", data["not_run"])):
        for point in points[:SHOWN_POINTS]:
            print(f"{title}: {point}")
        if len(points) > SHOWN_POINTS:
            print(f"{title}: and {len(points) - SHOWN_POINTS} more")
    print(f"written: {os.path.relpath(folder)}/report.md, report.html, report.json")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="first run what is missing or stale: Eva, proofs, mutants, models")
    parser.add_argument("--json", metavar="FILE", help="write report.json here as well")
    parser.add_argument("--output", metavar="FOLDER", help="where the three files go (default build/report)")
    parser.add_argument("--root", default=ROOT, help="project to report on (the tests use small ones)")
    return parser.parse_args()


def main():
    args = parse_arguments()
    root = os.path.abspath(args.root)
    folder = os.path.abspath(args.output or f"{root}/build/report")
    try:
        data = report_data.gather(root)
        if args.fresh:
            run_missing(root, data)
            data = report_data.gather(root)
        complete(data)
        write_all(root, folder, data, args.json)
    except (report_data.Broken, OSError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 3
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        print(f"report: a record lacks what it should hold: {type(error).__name__}: {error}", file=sys.stderr)
        return 3
    show(data, folder)
    print(data["closing"])
    return 1 if data["open"] or data["not_run"] else 0


if __name__ == "__main__":
    sys.exit(main())
