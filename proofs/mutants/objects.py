"""What the compiler makes of a mutant: nothing, the original's object code, another mutant's, or something new."""
import hashlib
import os
import subprocess
import tempfile

# As the core is built, without its warnings: a mutant that a warning would show is a mutant all the same.
COMPILER = ["gcc", "-std=c11", "-O2", "-ffreestanding", "-fPIC", "-w", "-Werror=return-type", "-Werror=incompatible-pointer-types",
            "-Werror=int-conversion", "-Werror=implicit-function-declaration"]


def compiled(root, path, text):
    """The object code of `text` standing at `path`, or None where it does not compile."""
    if path.endswith(".h"):
        return compiled_header(root, path, text)
    with tempfile.NamedTemporaryFile(prefix="nxmem-object-", suffix=".o") as out:
        command = [*COMPILER, f"-I{root}/abi/include", f"-I{root}/abi/src", "-c", "-x", "c", "-", "-o", out.name]
        done = subprocess.run(command, input=text, capture_output=True)
        with open(out.name, "rb") as file:
            return file.read() if done.returncode == 0 else None


def includers(root, header):
    """The core's sources that include a header of the core."""
    name, found = os.path.basename(header), []
    for file in sorted(os.listdir(f"{root}/abi/src")):
        with open(f"{root}/abi/src/{file}", "rb") as source:
            if file.endswith(".c") and f'#include "{name}"'.encode() in source.read():
                found.append(f"abi/src/{file}")
    return found


def compiled_header(root, path, text):
    """A header's object code is that of every source that includes it: the header's text is put in the include's place."""
    whole, line = b"", f'#include "{os.path.basename(path)}"'.encode()
    for source in includers(root, path):
        with open(f"{root}/{source}", "rb") as file:
            one = compiled(root, source, file.read().replace(line, text))
        if one is None:
            return None
        whole += one
    return whole


class Sieve:
    """Keeps the mutants whose object code nothing before them had."""

    def __init__(self, root, originals):
        self.root = root
        self.originals = originals
        self.seen = {}
        for path, text in originals.items():
            code = compiled(root, path, text)
            if code is None:
                raise RuntimeError(f"{path} does not compile undamaged")
            self.seen[path, hashlib.sha256(code).digest()] = None

    def look(self, mutant):
        code = compiled(self.root, mutant.file, mutant.apply(self.originals[mutant.file]))
        return None if code is None else hashlib.sha256(code).digest()

    def keep(self, mutants, digests, counts):
        """The mutants that count; adds to `counts` why the others do not."""
        kept = []
        for mutant, digest in zip(mutants, digests):
            if digest is None:
                counts["not compiling"] += 1
            elif (mutant.file, digest) not in self.seen:
                self.seen[mutant.file, digest] = mutant.id
                kept.append(mutant)
            elif self.seen[mutant.file, digest] is None:
                counts["identical object code"] += 1
            else:
                counts["same object code as another mutant"] += 1
        return kept
