"""The proof layer: WP on the damaged function alone, in each world that it is proved in.

A kill is a goal that is not proved and that the undamaged function proves under the same limits, in the same run. The limits are
processor time, so that whatever else the machine does makes a run longer and kills nothing.
"""
import os
import re
import subprocess
import sys
import tempfile
import threading
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
import gate_run  # noqa: E402

SECONDS = 3  # per goal and prover
PATIENCE = 900  # wall-clock seconds for one function in one world
UNPROVED = re.compile(r"^\[wp\] \[(?:Failed|Timeout|Unknown|Unsuccess|Stepout|Invalid)\] Goal (?:typed_)?(\w+)")
LOADED_AGAIN = ("re-read", "repeat-statement")


class Unjudged(Exception):
    """Frama-C could not judge; that is no kill."""


class Verdict:
    def __init__(self):
        self.scheduled = None
        self.proved = None
        self.unproved = {}  # goal -> what the provers said


def command_for(tree, target, config_folder):
    options = {"provers": "cvc4,z3", "timeout": SECONDS, "smoke_timeout": 1, "par": 1, "quick": True, "all_provers": False}
    command = gate_run.command_for(tree, target, options, config_folder)
    return [part for part in command[:command.index("-then")] if part != "-wp-smoke-tests"]


def by_processor_time(config, folder):
    """The provers' own limits are wall-clock time; without them the one that Why3 sets is left, which is processor time."""
    with open(config, encoding="utf-8") as file:
        text = file.read()
    for path in set(re.findall(r'(?m)^path = "(.*)"$', text)):
        wrapper = f"{folder}/{os.path.basename(path)}"
        with open(wrapper, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/bash\nkept=()\nfor part; do case $part in -T:* | --tlimit*) ;; *) kept+=("$part") ;; esac; done\n'
                       f'exec {path} "${{kept[@]}}"\n')
        os.chmod(wrapper, 0o755)
        text = text.replace(f'path = "{path}"', f'path = "{wrapper}"')
    with open(config, "w", encoding="utf-8") as file:
        file.write(text)


class ProofLayer:
    name = "proof"

    def __init__(self, root, folder):
        self.root = root
        self.config = gate_run.write_why3_config(folder, None)
        by_processor_time(self.config, folder)
        self.controls = {}  # (source, world, function) -> goals that the undamaged function leaves open
        self.locks = {}
        self.guard = threading.Lock()
        with open(f"{root}/proofs/targets.toml", "rb") as file:
            self.targets = tomllib.load(file)["target"]

    def targets_for(self, mutant):
        """(target reduced to one function) for each world; a macro is proved where its users are."""
        found, users = [], None
        for target in self.targets:
            home = target.get("defines", target["source"])
            names = [entry["name"] for entry in target["functions"]]
            if home == mutant.file and mutant.function in names:
                found.append(dict(target, names=[mutant.function]))
            elif mutant.function.isupper() and target["world"] != "racing":
                users = self.users_of(mutant.function) if users is None else users
                found += [dict(target, names=[name]) for name in names if (home, name) in users]
        # A second load is the racing world's business.
        return sorted(found, key=lambda t: (t["world"] == "racing") != (mutant.operator in LOADED_AGAIN))

    def users_of(self, macro):
        """(file, function) of each function whose body has the macro's name."""
        from source import Source, core_paths
        used = re.compile(rf"\b{macro}\b")
        return {(path, name) for path in core_paths(self.root) if path.endswith(".c")
                for source in [Source(self.root, path)] for name, node in source.functions()
                if used.search(source.text_of(node))}

    def prove(self, tree, target, expected_open=None):
        """All goals of the target's one function; with `expected_open`, ends at the first open goal that is not among them."""
        verdict, output, last = Verdict(), [], None
        with tempfile.TemporaryDirectory(prefix="nxmem-wp-") as folder:
            command = command_for(tree, target, folder)
            process = subprocess.Popen(command, env=dict(os.environ, WHY3CONFIG=self.config), cwd=tree, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
            timer = threading.Timer(PATIENCE, end_group, [process])
            timer.start()
            try:
                for line in process.stdout:
                    output.append(line)
                    unproved = UNPROVED.match(line)
                    if line.startswith("  ") and last is not None:
                        verdict.unproved[last] += line.strip() + "; "
                        continue
                    if last is not None and expected_open is not None and last not in expected_open:
                        end_group(process)
                        break
                    last = unproved.group(1) if unproved else None
                    if last is not None:
                        verdict.unproved[last] = ""
                    self.count(verdict, line)
            finally:
                process.stdout.close()
                code = process.wait()
                out_of_time = not timer.is_alive()
                timer.cancel()
        if not verdict.unproved and (code != 0 or verdict.proved is None):
            why = f"no end within {PATIENCE} s" if out_of_time else "".join(output)[-400:]
            raise Unjudged(f"frama-c ended with {code}: {why}")
        return verdict

    @staticmethod
    def count(verdict, line):
        numbers = re.match(r"\[wp\] Proved goals:\s+(\d+) / (\d+)", line)
        if numbers:
            verdict.proved = int(numbers.group(1))

    def control(self, target):
        """The goals that the undamaged function leaves open under these limits; none, where the limits are wide enough."""
        key = (target["source"], target["world"], target["names"][0])
        with self.guard:
            lock = self.locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self.controls:
                self.controls[key] = self.prove(self.root, target).unproved
            return self.controls[key]

    def judge(self, tree, mutant):
        """{world, goal, provers} of the first goal that is no longer proved, or None. Raises Unjudged."""
        for target in self.targets_for(mutant):
            found = self.prove(tree, target, self.control_if_known(target)).unproved
            if not found:
                continue
            control = self.control(target)
            new = [goal for goal in found if goal not in control]
            if not new:
                found = self.prove(tree, target, control).unproved
                new = [goal for goal in found if goal not in control]
            if new:
                return {"world": target["world"], "goal": new[0], "provers": found[new[0]].strip("; "),
                        "function": target["names"][0]}
        return None

    def control_if_known(self, target):
        """Before the control has run, a damaged function is expected to leave nothing open."""
        return self.controls.get((target["source"], target["world"], target["names"][0]), {})


def end_group(process):
    """Frama-C and the provers that it started."""
    try:
        os.killpg(process.pid, 15)
    except ProcessLookupError:
        pass
