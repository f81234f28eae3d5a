"""The contract layer: the contracts compiled into the core, run on inputs. A kill is a clause violated by a concrete input."""
import os
import re
import subprocess
import tempfile

import schemata

INPUTS = 40000  # made from the seeds, beside the seeds themselves
SEED = 1
SECONDS = 20  # an input that never ends is no violation: the proof asks for the loop's variant
WITNESS_HEX_MAX = 512
VIOLATION = re.compile(r"^VIOLATION function=(\S+) clause=(\S+) input=(.*?) text=(.*)$", re.M)


class ContractLayer:
    name = "contract"

    def __init__(self, root, folder, mutants, jobs, inputs=INPUTS, seed=SEED):
        self.inputs, self.seed = inputs, seed
        self.seeds = f"{root}/fuzz/seeds/core"
        self.program = f"{folder}/out/contract_replay"
        self.numbers = schemata.make(root, f"{folder}/all", mutants)
        build = [f"{root}/fuzz/contract/build.sh", "--root", f"{folder}/all", "--out", f"{folder}/out", "--jobs", str(jobs)]
        done = subprocess.run(build, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("the contracts could not be compiled: " + (done.stdout + done.stderr)[-800:])
        control, said = self.replay(0)
        if control is not None or " 0 violations" not in said:
            raise RuntimeError(f"the undamaged core violates its contracts, or cannot be run: {control or said[-400:]}")

    def judge(self, _tree, mutant):
        """{function, clause, input, witness_hex, text}, or None."""
        return self.replay(self.numbers[mutant.id])[0] if mutant.id in self.numbers else None

    def replay(self, number):
        with tempfile.TemporaryDirectory(prefix="nxmem-witness-") as folder:
            saved = f"{folder}/input"
            command = [self.program, "--random", str(self.inputs), "--seed", str(self.seed), "--save", saved, self.seeds]
            try:
                done = subprocess.run(command, env=dict(os.environ, NX_MUTANT=str(number)), capture_output=True, text=True,
                                      errors="replace", timeout=SECONDS)
            except subprocess.TimeoutExpired:
                return None, f"no end within {SECONDS} s"
            violation = VIOLATION.search(done.stdout)
            if violation is None:
                return None, done.stdout + done.stderr
            function, clause, source, text = violation.groups()
            witness = b""
            if os.path.exists(saved):
                with open(saved, "rb") as file:
                    witness = file.read()
        source = source.replace(os.path.dirname(os.path.dirname(self.seeds)) + "/", "fuzz/")
        return {"function": function, "clause": clause, "input": source, "text": text[:400],
                "witness_hex_or_file": witness.hex() if len(witness) <= WITNESS_HEX_MAX else source}, done.stdout
