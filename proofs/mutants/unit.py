"""The unit layer: the core's test programs on a shared library of the core with the damaged file in it. A kill is a test row."""
import os
import re
import shlex
import subprocess
import tempfile

from objects import COMPILER, includers

SECONDS = 10  # a program that runs longer is a kill by time: the slowest takes about one
SUPPORT = ("support.c", "watch.c", "prefix_tables.c")
FAILED_ROW = re.compile(r"^not ok \d+ - (.*)$", re.M)
PASSED_ROW = re.compile(r"^ok \d+ - (.*)$", re.M)


def run_quietly(command, what):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{what}: {done.stderr[-400:]}")


class UnitLayer:
    name = "unit"

    def __init__(self, root, folder):
        self.root = root
        self.folder = folder
        self.tests = f"{root}/tests/core"
        self.sources = [f"abi/src/{n}" for n in sorted(os.listdir(f"{root}/abi/src")) if n.endswith(".c")]
        for source in self.sources:
            self.compile(root, source, self.object_of(folder, source))
        self.link(folder, {})
        flags = shlex.split(subprocess.run(["pkg-config", "--cflags", "--libs", "cmocka"], capture_output=True, text=True,
                                           check=True).stdout)
        self.programs = []
        for test in sorted(n for n in os.listdir(self.tests) if n.endswith("_test.c")):
            program = f"{folder}/{test[:-2]}"
            run_quietly(["gcc", "-std=c11", "-O1", "-g0", "-w", f"-I{root}/abi/include", f"-I{self.tests}", f"{self.tests}/{test}",
                         *(f"{self.tests}/{s}" for s in SUPPORT), "-o", program, f"-L{folder}", "-lnxmem_core", *flags,
                         "-lpthread"], f"{test} does not build")
            self.programs.append(program)
        control = self.run_programs(folder, "")
        if control is not None:
            raise RuntimeError(f"the unit tests fail undamaged: {control}")

    @staticmethod
    def object_of(folder, source):
        return f"{folder}/{os.path.basename(source)[:-2]}.o"

    def compile(self, tree, source, output):
        command = [*COMPILER, f"-I{tree}/abi/include", f"-I{tree}/abi/src", "-c", f"{tree}/{source}", "-o", output]
        run_quietly(command, f"{source} does not compile")

    def link(self, folder, replaced):
        objects = [replaced.get(source, self.object_of(self.folder, source)) for source in self.sources]
        run_quietly(["gcc", "-shared", *objects, "-o", f"{folder}/libnxmem_core.so"], "the core does not link")

    def judge(self, tree, mutant):
        """{test} of the first row that fails, or None."""
        with tempfile.TemporaryDirectory(prefix="nxmem-unit-") as folder:
            damaged = [mutant.file]
            if mutant.file.endswith(".h"):
                damaged = includers(self.root, mutant.file) if mutant.file.startswith("abi/src") else self.sources
            replaced = {source: self.object_of(folder, source) for source in damaged}
            for source, output in replaced.items():
                self.compile(tree, source, output)
            self.link(folder, replaced)
            failed = self.run_programs(folder, os.path.basename(mutant.file).split(".")[0])
            return None if failed is None else {"test": failed}

    def run_programs(self, library_folder, first):
        """The first failing row, the programs named after the file before the others."""
        environment = dict(os.environ, LD_LIBRARY_PATH=library_folder, CMOCKA_MESSAGE_OUTPUT="tap")
        for program in sorted(self.programs, key=lambda p: not os.path.basename(p).startswith(first or " ")):
            name = os.path.basename(program)
            try:
                done = subprocess.run([program], env=environment, capture_output=True, text=True, errors="replace", timeout=SECONDS)
            except subprocess.TimeoutExpired:
                return f"{name}: no end within {SECONDS} s"
            row = FAILED_ROW.search(done.stdout)
            if row:
                return f"{name}: {row.group(1)}"
            if done.returncode != 0:
                last = PASSED_ROW.findall(done.stdout)
                return f"{name}: ended with {done.returncode} after row: {last[-1] if last else 'none'}"
        return None
