"""The layers that may see a planted fault, each asked in a copy of the project in which the fault stands. For matrix.py.

Each answers {"seen": true or false, "by": what saw it, "seconds": of processor time until then, ...}, or None where it has
nothing to say of the faulty file.
"""
import importlib.util
import os
import re
import subprocess
import sys
import types

import hunt

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(f"{ROOT}/tests/defences")
import tree as defences_tree  # noqa: E402
from hunt import CouldNotRun  # noqa: E402

CORE = "abi/src/"
CONTRACT_RANDOM = 1000000


def tail(text, lines=12):
    return "\n".join(text.strip().splitlines()[-lines:])


class Copy:
    """A copy of the sources and its builds, kept from run to run so that little is built anew."""

    def __init__(self, root, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.tree = defences_tree.Tree(root, folder)
        self.source = self.tree.source
        self.linked = {}

    def run(self, command, what):
        ended = self.tree.run(command, folder=self.source)
        if ended.code:
            raise CouldNotRun(f"{what}:\n{tail(ended.output)}")
        return ended.output

    def build_of(self, engine):
        return f"{self.folder}/{engine}"

    def configure(self, engine):
        # A fault may leave something idle; that is not what is tried.
        self.run(["cmake", "--preset", engine, "-B", self.build_of(engine), f"-DCMAKE_C_FLAGS={defences_tree.IDLE}"],
                 f"{engine} cannot be configured")

    def build(self, engine, target, what):
        self.run(["ninja", "-C", self.build_of(engine), "-j1", f"fuzz_{target}"], f"{what}: {engine} does not build")

    def targets_linked_with(self, engine, path, targets):
        """Those whose program has the file in it."""
        for target in targets:
            if target not in self.linked:
                self.linked[target] = self.run(["ninja", "-C", self.build_of(engine), "-t", "inputs", f"fuzz_{target}"],
                                               "the build's inputs").splitlines()
        return [t for t in targets if any(line.endswith(path) for line in self.linked[t])]

    def plant(self, texts):
        return self.tree.put(texts)


def applies(layer, path):
    """Whether a layer has anything to say of a file."""
    if layer in ("proof", "contract"):
        return path.startswith(CORE) and (layer == "proof" or path.endswith(".c"))
    return layer != "unit" or bool(tests_named(path))


# ---- Fuzzers ----------------------------------------------------------------------------------------------------------


def median(values):
    return sorted(values)[len(values) // 2]


GLANCE_SECONDS = 5
FAR = ("-", "reached", "triggered")


class Fuzzer:
    """Runs with several seeds of the engine's. The time is their median; a run that found nothing counts as longer than any."""

    canary = True

    def __init__(self, engine, options):
        self.name, self.options = engine, options
        self.tries = options.afl_tries if engine == "afl" else options.tries

    @property
    def settings(self):
        return [self.options.budget, self.tries, self.options.seed, self.options.targets, *(["bare"] if self.options.bare else [])]

    def prepare(self, copy):
        copy.configure(self.name)

    def hunt_often(self, copy, target, tries):
        runs, missed = [], 0
        for number in range(tries):
            run = self.run_once(copy, target, self.options.seed + number, self.options.budget)
            runs.append(run)
            missed += not run.found
            if missed > tries // 2:
                break
        alarms = list(dict.fromkeys(run.alarm for run in runs if run.found))
        return {"target": target, "seen": missed <= tries // 2, "by": alarms[0] if alarms else "", "alarms": alarms,
                "seconds": round(median([run.seconds if run.found else float("inf") for run in runs]), 2)
                if missed <= tries // 2 else None,
                "tries": [round(run.seconds, 2) if run.found else None for run in runs],
                "far": "detected" if alarms else max((run.far for run in runs), key=FAR.index)}

    def run_once(self, copy, target, seed, budget):
        return hunt.ENGINES[self.name](copy.source, copy.build_of(self.name), target, f"{copy.folder}/hunt-{self.name}", seed, budget,
                                       self.options.bare)

    def gets_there(self, copy, target):
        """A target that never reaches the place, by what is known already, is not worth a whole budget."""
        run = self.run_once(copy, target, self.options.seed, min(self.options.budget, GLANCE_SECONDS))
        return run.found or run.far != "-"

    def judge(self, copy, fault):
        main = fault["target"]
        every = copy.targets_linked_with(self.name, fault["file"], self.options.every_target)
        results = []
        for target in [main, *(t for t in every if t != main)]:
            copy.build(self.name, target, fault.name)
            if target == main or self.options.targets == "all" or self.gets_there(copy, target):
                results.append(self.hunt_often(copy, target, self.tries))
            if results[-1]["seen"] and self.options.targets == "needed":
                break
        best = min(results, key=lambda r: (not r["seen"], r["seconds"] or 0.0))
        return {**best, "main": results[0]["seen"], "targets": {r["target"]: r["seconds"] for r in results}}

    def unchanged(self, copy, target):
        """The product without a fault has to stay silent."""
        copy.build(self.name, target, "the unchanged product")
        return self.hunt_often(copy, target, 1)


# ---- The contracts, run -----------------------------------------------------------------------------------------------


class Contract:
    """The core with its contracts compiled in: its seeds, then inputs made from them."""

    name, canary, settings = "contract", False, [CONTRACT_RANDOM]

    def __init__(self, options):
        self.options = options

    def builder(self, copy, out, *more):
        copy.run([f"{copy.source}/fuzz/contract/build.sh", "--root", copy.source, "--out", out, "--jobs", "1", *more],
                 "the contracts cannot be compiled in")

    def prepare(self, copy):
        self.builder(copy, f"{copy.folder}/contract")

    def replay(self, copy, out, *inputs):
        folder = f"{copy.folder}/hunt-contract"
        hunt.fresh(folder)
        code, seconds = hunt.watch([f"{out}/contract_replay", *inputs], self.options.budget, {}, f"{folder}/log", folder)
        with open(f"{folder}/log", encoding="utf-8", errors="replace") as file:
            words = file.read()
        violation = re.search(r"^VIOLATION .*", words, re.M)
        if code not in (None, 0, 1) or (code == 1 and not violation):
            raise CouldNotRun(f"contract_replay ended with {code}: {tail(words, 4)}")
        return (violation.group(0)[len("VIOLATION "):] if violation else ""), seconds

    def inputs(self, copy):
        return [folder for folder in hunt.known_inputs(copy.source, "core") if os.listdir(folder)]

    def judge(self, copy, fault):
        out = f"{copy.folder}/contract-fault"
        self.builder(copy, out, "--only", fault["file"], "--base", f"{copy.folder}/contract")
        by, seconds = self.replay(copy, out, "--random", str(CONTRACT_RANDOM), *self.inputs(copy))
        return {"seen": bool(by), "by": by, "seconds": round(seconds, 1) if by else None}

    def unchanged(self, copy, target):
        by, _ = self.replay(copy, f"{copy.folder}/contract", "--random", "20000", *self.inputs(copy))
        return {"target": target, "seen": bool(by), "by": by}


# ---- Tests ------------------------------------------------------------------------------------------------------------

# Which tests look at a folder.
LOOKED_AT = {"abi/src/": ("core_", "host_"), "host/src/": ("host_", "registry_", "manager_"), "host/cli/": ("cli_",), "host/policy/": ("policy_",), "plugins/vmm/": ("vmm_", "cuda_")}
SLOW_SECONDS = 200  # a test that may take longer comes last


def tests_named(path):
    """What the names of these tests begin with."""
    return next((names for folder, names in LOOKED_AT.items() if path.startswith(folder)), ())


class Unit:
    """The tests of the faulty file, the nearest first, until one turns red."""

    name, canary, settings = "unit", False, []

    def __init__(self, options):
        self.options = options
        self.green = set()

    def prepare(self, copy):
        """The modules that tests load are built here: where a fault is in the library, they stay as they are without it."""
        tree = copy.tree
        tree.configure()
        failure = tree.make(sorted({name for path in self.options.files for name in self.names_for(tree, path)}))
        if failure:
            raise CouldNotRun(f"the tests do not build:\n{tail(failure)}")
        tree.list_tests()

    def names_for(self, tree, path):
        return [name for name in tree.tests if name.startswith(tests_named(path)) and f"test_{name}" in tree.targets]

    def tests_for(self, tree, path):
        stem = os.path.splitext(os.path.basename(path))[0]

        def distance(name):
            area, _, rest = name.partition("_")
            slow = float(defences_tree.properties_of(tree.tests[name]).get("TIMEOUT", 0)) > SLOW_SECONDS
            return (rest != stem, not rest.startswith(stem) and stem not in rest, slow, area not in path, name)

        return sorted(self.names_for(tree, path), key=distance)

    def red(self, tree, path, name):
        """"" or the first row of the test that is not green."""
        failure = tree.make_changed([name], [path])
        if failure:
            raise CouldNotRun(f"{name} does not build:\n{tail(failure)}")
        return tree.test(name, 300).red

    def judge(self, copy, fault):
        tree, path = copy.tree, fault["file"]
        before = tree.processor
        for name in self.tests_for(tree, path):
            row = self.red(tree, path, name)
            if not row:
                continue
            seconds = round(tree.processor - before, 1)
            self.must_be_green(copy, fault, name)
            return {"seen": True, "by": f"{name}: {row}", "seconds": seconds}
        return {"seen": False, "by": "", "seconds": None}

    def must_be_green(self, copy, fault, name):
        """A test that is red without the fault sees nothing."""
        if name in self.green:
            return
        planted = copy.plant({fault["file"]: fault["unchanged"]})
        red = self.red(copy.tree, fault["file"], name)
        copy.plant(planted)
        if red:
            raise CouldNotRun(f"{name} is red without any fault: {red}")
        self.green.add(name)

    def unchanged(self, copy, target):
        return None


# ---- Proofs -----------------------------------------------------------------------------------------------------------


def module_at(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def function_at(text, offset):
    """The function in whose body the place is."""
    heads = re.finditer(r"^[A-Za-z][\w \t*]*?\b(\w+)\([^;{}]*\)\s*\{", re.sub(r"/\*.*?\*/", lambda m: " " * len(m[0]), text, flags=re.S),
                        re.M)
    return [head.group(1) for head in heads if head.start() <= offset][-1]


class Proof:
    """A goal of the faulty function that is proved without the fault, under the same limits, and is no longer."""

    name, canary, settings = "proof", False, []

    def __init__(self, options):
        proof = module_at(f"{ROOT}/proofs/mutants/proof.py", "mutants_proof")
        self.unjudged = proof.Unjudged
        # What is compared with stands still, whatever is edited meanwhile.
        self.pristine = Copy(options.root, f"{options.place}/pristine").source
        os.makedirs(f"{options.place}/why3", exist_ok=True)
        self.layer = proof.ProofLayer(self.pristine, f"{options.place}/why3")

    def prepare(self, copy):
        pass

    def judge(self, copy, fault):
        text = fault["unchanged"]
        mutant = types.SimpleNamespace(file=fault["file"], function=function_at(text, text.index(fault["find"])),
                                       operator="re-read" if fault.get("kind") == "fetch" else "planted")
        if not self.layer.targets_for(mutant):
            raise CouldNotRun(f"proofs/targets.toml has no {mutant.function}")
        try:
            kill = self.layer.judge(copy.source, mutant)
        except self.unjudged as problem:
            raise CouldNotRun(f"{mutant.function}: {problem}") from problem
        by = f"{kill['function']} ({kill['world']}): {kill['goal']}" if kill else ""
        return {"seen": bool(kill), "by": by, "seconds": None}

    def unchanged(self, copy, target):
        return None
