"""Programs of a user, compiled as one would compile them, against the library of this build, and run."""
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


class Failed(Exception):
    """A command that ended otherwise than it should."""


def run(command, code=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != code:
        raise Failed(f"{' '.join(map(str, command))[-400:]}: exit code {done.returncode}\n{done.stdout}{done.stderr}"[-3000:])
    return done.stdout


class Build:
    """A library folder and how its library is instrumented; programs go to a folder that is given up at the end."""

    def __init__(self, lib, sanitize):
        self.lib, self.sanitize = Path(lib), sanitize
        self.place = tempfile.TemporaryDirectory(prefix="nxmem-examples-")

    def compile(self, compiler, standard, source, *options, libraries=("-lnxmem",)):
        out = Path(self.place.name) / f"{len(os.listdir(self.place.name))}-{Path(source).stem}"
        sanitize = [f"-fsanitize={self.sanitize}", "-fno-sanitize-recover=all"] if self.sanitize else []
        run([compiler, f"-std={standard}", "-O1", "-g", *WARN, *sanitize, *options, f"-I{ROOT}/host/include", f"-I{ROOT}/abi/include",
             source, "-o", out, f"-L{self.lib}", *libraries, f"-Wl,-rpath,{self.lib}"])
        return out

    def compilers(self, names):
        """An instrumented library needs a program by the compiler that instruments it."""
        return [name for name in names if not self.sanitize or name.startswith("clang")]

    def plugin(self, name):
        return self.lib / f"libnxmem_{name}.so"


def tap(rows):
    failed = 0
    for number, (name, row) in enumerate(rows, 1):
        try:
            row()
            print(f"ok {number} - {name}", flush=True)
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            failed = 1
            print(f"not ok {number} - {name}")
            print("\n".join(f"# {line}" for line in str(error).splitlines()), flush=True)
    print(f"1..{len(rows)}")
    return failed
