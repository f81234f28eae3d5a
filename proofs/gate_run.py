"""One run of Frama-C's WP on one target, and what came out of it as data."""
import csv
import json
import os
import re
import subprocess
import tempfile
import time

# Warnings that say nothing about a proof. Each is a full-line pattern with its reason.
HARMLESS = (
    # A static function of an included header that this file never calls.
    r"\[kernel\].*Dropping",
)
ACCEPTED_STATUS = ("Valid", "Partially proven")
WORLDS = {
    "plain": "-DNXMEM_QUIET_WORLD",
    "quiet": "-DNXMEM_QUIET_WORLD",
    "racing": "-include {here}/loads.h",
}
SMOKE = "_wp_smoke_"


class Result:
    """What one run says. `problems` is empty only for a run that proves all it was asked to."""

    def __init__(self, target):
        self.target = target
        self.command = []
        self.goals = self.proved = self.smoke = self.passed = 0
        self.seconds = 0.0
        self.per_function = {}  # name -> [goals, proved, smoke, passed]
        self.defined = set()  # functions that Frama-C saw a body of
        self.considered = []  # (file, function, kind, text): believed without proof
        self.problems = []


def write_why3_config(folder, cvc5_wrapper):
    """A configuration of our own, so that nobody's home directory decides what is proved."""
    path = os.path.join(folder, "why3.conf")
    env = dict(os.environ, WHY3CONFIG=path)
    done = subprocess.run(["why3", "config", "detect"], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError("why3 config detect failed: " + done.stderr)
    if cvc5_wrapper:
        with open(path, "a", encoding="utf-8") as file:
            file.write('\n[prover]\nname = "CVC5"\nversion = "1.0.3"\ndriver = "cvc4_17"\nshortcut = "cvc5"\n'
                       f'command = "{cvc5_wrapper} %t000 %f"\n')
    return path


def command_for(root, target, options, folder):
    world = WORLDS[target["world"]].format(here=os.path.dirname(os.path.abspath(__file__)))
    include = f"-I{root}/abi/include -I{root}/abi/src"
    command = [
        "frama-c", "-machdep", "gcc_x86_64", f"-cpp-extra-args={include} {world}",
        "-wp", "-wp-rte", "-warn-unsigned-overflow", "-warn-unsigned-downcast",
        "-warn-signed-downcast", "-wp-smoke-tests", "-wp-check-memory-model", "-wp-cache", "none",
        "-wp-prover", options["provers"], "-wp-timeout", str(options["timeout"]),
        "-wp-smoke-timeout", str(options["smoke_timeout"]), "-wp-par", str(options["par"]),
        "-wp-fct", ",".join(target["names"]), "-wp-report-json", f"{folder}/report.json",
    ]
    if options["quick"]:
        command += ["-wp-no-smoke-dead-code", "-wp-no-smoke-dead-call"]
    if options["all_provers"]:
        command.append("-wp-run-all-provers")
    return command + [os.path.join(root, target["source"]), "-then", "-report-csv", f"{folder}/properties.csv"]


def warnings_in(output):
    """Each warning as one line; `wp` failures of goals and smoke tests are judged from the report instead."""
    found, current = [], None
    for line in output.splitlines():
        if re.match(r"\[[\w:-]+\].*\b(Warning|Error|User Error|Failure)\b", line):
            current = line.strip()
            found.append(current)
        elif line.startswith(" ") and current is not None:
            found[-1] = (found[-1] + " " + line.strip())[:300]
        else:
            current = None
    harmless = lambda text: any(re.match(pattern, text) for pattern in HARMLESS)
    return [text for text in found if not harmless(text) and "Failed smoke-test" not in text]


def read_report(result, path, all_provers):
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    for function, goals in report.get("wp:functions", {}).items():
        counts = result.per_function.setdefault(function, [0, 0, 0, 0])
        for goal, provers in goals.items():
            if goal == "wp:section":
                continue
            main = provers["wp:main"]
            total, valid = main["total"], main.get("valid", 0)
            first = 2 if SMOKE in goal else 0
            counts[first] += total
            counts[first + 1] += valid
            if valid < total:
                kind = "smoke test failed (contract or path cannot happen)" if first else "goal not proved"
                result.problems.append(f"{kind}: {function}: {goal}")
            elif all_provers and not first:
                check_agreement(result, function, goal, provers, total)


def check_agreement(result, function, goal, provers, total):
    """With every prover asked, a goal that Qed did not close needs two of them."""
    qed = provers.get("qed", {}).get("valid", 0)
    votes = sum(p.get("valid", 0) for name, p in provers.items() if name not in ("qed", "wp:main"))
    if votes < 2 * (total - qed):
        result.problems.append(f"only one prover agrees: {function}: {goal}")


def read_properties(result, path, names, core):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    clauses = {}
    for row in rows:
        name, kind, status = row["function"], row["property kind"], row["status"]
        clauses.setdefault(name, set()).add(kind)
        if name in names and status not in ACCEPTED_STATUS and kind != "precondition":
            result.problems.append(f"property {status}: {name}: {kind}: {row['property'][:160]}")
        elif status == "Considered valid" and "FRAMAC_SHARE" not in row["directory"] and name not in core:
            result.considered.append((row["file"], name, kind, row["property"]))
    for name in names:
        has = clauses.get(name, set())
        if "assigns clause" not in has or "postcondition" not in has:
            result.problems.append(f"no contract (assigns and ensures): {name}")


def run_target(root, target, options, why3_config, core):
    """Never raises for what Frama-C says; a crash of Frama-C is a problem like any other."""
    result = Result(target)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nxmem-wp-") as folder:
        result.command = command_for(root, target, options, folder)
        env = dict(os.environ, WHY3CONFIG=why3_config)
        done = subprocess.run(result.command, env=env, capture_output=True, text=True, cwd=root)
        output = done.stdout + done.stderr
        result.defined = set(re.findall(r"^\[rte:annot\] annotating function (\w+)$", output, re.M))
        result.problems += ["warning: " + text for text in warnings_in(output)]
        if done.returncode != 0 or not os.path.exists(f"{folder}/properties.csv"):
            result.problems.append(f"frama-c ended with {done.returncode}: " + output[-600:])
        else:
            read_report(result, f"{folder}/report.json", options["all_provers"])
            read_properties(result, f"{folder}/properties.csv", set(target["names"]), core)
    for goals, proved, smoke, passed in result.per_function.values():
        result.goals += goals
        result.proved += proved
        result.smoke += smoke
        result.passed += passed
    result.seconds = time.monotonic() - started
    return result
