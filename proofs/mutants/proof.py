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
ONCE = "once"  # the label of "this offset was not loaded before" in loads.h
LOADED_AGAIN = ("re-read", "repeat-statement")


class Unjudged(RuntimeError):
    """Frama-C could not judge; that is no kill."""


class Verdict:
    def __init__(self):
        self.proved = None
        self.unproved = {}  # goal -> what the provers said


def command_for(tree, target, folder, label):
    options = {"provers": "cvc4,z3", "timeout": SECONDS, "smoke_timeout": 1, "par": 1, "smoke": "none"}
    command = gate_run.command_for(tree, target, options, folder)
    return command[:command.index("-then")] + ([f"-wp-prop={label}"] if label else [])


class ProofLayer:
    name = "proof"

    def __init__(self, root, folder, thorough=False):
        self.root = root
        self.thorough = thorough
        self.config = gate_run.write_why3_config(folder)
        self.controls = {}  # (source, world, function) -> goals that the undamaged function leaves open
        self.locks = {}
        self.guard = threading.Lock()
        with open(f"{root}/proofs/targets.toml", "rb") as file:
            self.targets = tomllib.load(file)["target"]

    def targets_for(self, mutant):
        """(target reduced to one function) for each world; a macro is proved where its users are."""
        if mutant.function.isupper() and mutant.operator in LOADED_AGAIN:
            return []  # where memory stands still a second load changes nothing, and the racing world replaces the macro
        if mutant.operator == "drop-volatile" and not self.thorough:
            return []  # what is proved for any value that a load may yield holds for one that stands still; a long way to see that
        found, users = [], None
        for target in self.targets:
            home = target.get("defines", target["source"])
            names = [entry["name"] for entry in target["functions"]]
            if home == mutant.file and mutant.function in names:
                found.append(dict(target, names=[mutant.function]))
            elif mutant.function.isupper() and (target["world"] == "racing") == (mutant.operator == "drop-volatile"):
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

    def prove(self, tree, target, label=None, expected_open=None):
        """All goals of the target's one function, or those of one label; with `expected_open`, until one is open that is not there."""
        verdict, output, last = Verdict(), [], None
        with tempfile.TemporaryDirectory(prefix="nxmem-wp-") as folder:
            command = command_for(tree, target, folder, label)
            process = subprocess.Popen(command, env=dict(os.environ, WHY3CONFIG=self.config), cwd=tree, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
            timer = threading.Timer(PATIENCE, end_group, [process])
            timer.start()
            for line in process.stdout:
                output.append(line)
                if line.startswith("  ") and last is not None:
                    verdict.unproved[last] += line.strip() + "; "
                    continue
                if last is not None and expected_open is not None and last not in expected_open:
                    end_group(process)
                    break
                unproved = UNPROVED.match(line)
                last = unproved.group(1) if unproved else None
                if last is not None:
                    verdict.unproved[last] = ""
                numbers = re.match(r"\[wp\] Proved goals:\s+(\d+) / (\d+)", line)
                verdict.proved = int(numbers.group(1)) if numbers else verdict.proved
            process.stdout.close()
            code = process.wait()
            timer.cancel()
        if not verdict.unproved and (code != 0 or verdict.proved is None):
            raise Unjudged(f"frama-c ended with {code}: {''.join(output)[-400:]}")
        return verdict

    def control(self, target, label):
        """The goals that the undamaged function leaves open under these limits; none, where the limits are wide enough."""
        key = (target["source"], target["world"], target["names"][0], label)
        with self.guard:
            lock = self.locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self.controls:
                self.controls[key] = self.prove(self.root, target, label).unproved
            return self.controls[key]

    def judge(self, tree, mutant):
        """{world, function, goal, provers} of the first goal that is no longer proved, or None. Raises Unjudged."""
        for target in self.targets_for(mutant):
            if target["world"] == "racing" and mutant.operator in LOADED_AGAIN:
                kill = self.judge_goals(tree, target, ONCE)
                if kill is not None:
                    return kill
            kill = self.judge_goals(tree, target, None)
            if kill is not None:
                return kill
        return None

    def judge_goals(self, tree, target, label):
        """A goal counts that the damaged function leaves open and the undamaged one does not."""
        expected = {}
        while True:
            found = self.prove(tree, target, label, expected).unproved
            new = [goal for goal in found if goal not in expected]
            if not new:
                return None
            control = self.control(target, label)
            new = [goal for goal in new if goal not in control]
            if new:
                return {"world": target["world"], "function": target["names"][0], "goal": new[0],
                        "provers": found[new[0]].strip("; ")}
            expected = control


def end_group(process):
    """Frama-C and the provers that it started."""
    try:
        os.killpg(process.pid, 15)
    except ProcessLookupError:
        pass
