"""One run of Frama-C's WP on some functions of one target, and what came out of it as data.

A run asks one prover, or several until one succeeds, and says for each goal instance (a goal that Qed split has
several) who proved it.
"""
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
# The gate's limits are processor time; the wall-clock limits behind them are this much longer: machines are busy.
STRETCH = 10
HERE = os.path.dirname(os.path.abspath(__file__))
# Option of WP -> Why3's name, its driver, the command that says the version.
# Why3 1.5.1 knows no cvc5; cvc4's driver serves it.
PROVERS = {
    "cvc4": ("CVC4", "cvc4_17", ("cvc4", "--version")),
    "CVC5": ("CVC5", "cvc4_17", ("cvc5", "--version")),
    "z3": ("Z3", "z3_471", ("z3", "--version")),
}


class Run:
    """What one run says."""

    def __init__(self):
        self.command = []
        self.seconds = 0.0
        self.goals = {}  # function -> {instance: who proved it: "qed", a prover's option, or None}
        self.smoke = {}  # function -> {smoke test: passed}
        self.properties = []  # rows of Frama-C's own list of properties and their status
        self.defined = set()  # functions that Frama-C saw a body of
        self.problems = []


class Missing(Exception):
    """A tool that cannot be run."""


def version_of(command):
    """The version that a tool says it has."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise Missing(f"{command[0]} cannot be run: {error}") from error
    found = re.search(r"\d+\.\d+(\.\d+)?", done.stdout)
    if done.returncode != 0 or not found:
        said = (done.stdout + done.stderr)[:200]
        raise Missing(f"{' '.join(command)} ended with {done.returncode} and said no version: {said}")
    return found.group(0)


def write_why3_config(folder, _unused=None):
    """A configuration of our own, so that nobody's home directory decides what is proved. All provers, or Missing."""
    path = os.path.join(folder, "why3.conf")
    text = "[main]\nmagic = 14\nmemlimit = 1000\nrunning_provers_max = 2\ntimelimit = 5\n"
    for option, (name, driver, version) in PROVERS.items():
        text += (f'\n[prover]\nname = "{name}"\nversion = "{version_of(version)}"\ndriver = "{driver}"\n'
                 f'shortcut = "{option.lower()}"\ncommand = "{HERE}/prover-for-why3 %t {STRETCH} {version[0]} %f"\n')
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def command_for(root, target, options, folder):
    """options: provers, timeout and smoke_timeout (processor seconds), par; smoke: none, contracts or all."""
    world = WORLDS[target["world"]].format(here=HERE)
    include = f"-I{root}/abi/include -I{root}/abi/src"
    command = [
        "frama-c", "-machdep", "gcc_x86_64", f"-cpp-extra-args={include} {world}",
        "-wp", "-wp-rte", "-warn-unsigned-overflow", "-warn-unsigned-downcast",
        "-warn-signed-downcast", "-wp-check-memory-model", "-wp-cache", "none",
        "-wp-prover", options["provers"], "-wp-timeout", str(options["timeout"] * STRETCH),
        "-wp-smoke-timeout", str(options["smoke_timeout"] * STRETCH), "-wp-par", str(options["par"]),
        "-wp-fct", ",".join(target["names"]), "-wp-report-json", f"{folder}/report.json",
    ]
    smoke = options.get("smoke", "none")
    if smoke != "none":
        command.append("-wp-smoke-tests")
    if smoke == "contracts":
        command += ["-wp-no-smoke-dead-code", "-wp-no-smoke-dead-call"]
    return command + [os.path.join(root, target["source"]), "-then", "-report-csv", f"{folder}/properties.csv", "-metrics"]


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


def provers_in(output):
    """Goal instance -> who proved it (None: nobody), from WP's lines about each."""
    options = {name: option for option, (name, _, _) in PROVERS.items()}
    proved = {}
    for who, instance, verdict in re.findall(r"^\[wp\] \[([^\]]+)\] Goal typed_(\S+)(.*)$", output, re.M):
        name = "qed" if who == "Qed" else options.get(who.split()[0])
        proved[instance] = name if verdict.startswith(" : Valid") else None
    return proved


def read_report(run, path, output, names):
    """Smoke tests from WP's report; goals from its lines, which tell instances apart, in the report's numbers."""
    with open(path, encoding="utf-8") as file:
        report = json.load(file).get("wp:functions", {})
    longest_first = sorted(names, key=len, reverse=True)
    for instance, who in provers_in(output).items():
        function = next((n for n in longest_first if instance.startswith(n + "_")), "?")
        run.goals.setdefault(function, {})[instance] = who
    for function in {*report, *run.goals}:
        total = valid = 0
        for name, said in report.get(function, {}).items():
            main = said["wp:main"]
            if SMOKE in name:
                run.smoke.setdefault(function, {})[name] = main["total"] == main.get("valid", 0)
            elif name != "wp:section":
                total += main["total"]
                valid += main.get("valid", 0)
        own = run.goals.get(function, {})
        if (total, valid) != (len(own), sum(1 for who in own.values() if who)):
            run.problems.append(f"WP's report and its lines disagree: {function}: {valid} of {total}, {len(own)} lines")


def read_properties(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def run_wp(root, target, options, why3_config):
    """Never raises for what Frama-C says; a crash of Frama-C is a problem like any other."""
    run = Run()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nxmem-wp-") as folder:
        run.command = command_for(root, target, options, folder)
        env = dict(os.environ, WHY3CONFIG=why3_config)
        done = subprocess.run(run.command, env=env, capture_output=True, text=True, cwd=root)
        output = done.stdout + done.stderr
        defined = re.search(r"^\[metrics\] Defined functions.*?=\n(.*?)\n\s*\n", output, re.M | re.S)
        run.defined = set(re.findall(r"(\w+) \(\d+ calls?\)", defined.group(1) if defined else ""))
        run.problems += ["warning: " + text for text in warnings_in(output)]
        if done.returncode != 0 or not defined or not os.path.exists(f"{folder}/properties.csv"):
            run.problems.append(f"frama-c ended with {done.returncode}: " + output[-600:])
        else:
            read_report(run, f"{folder}/report.json", output, target["names"])
            run.properties = read_properties(f"{folder}/properties.csv")
    run.seconds = time.monotonic() - started
    return run
