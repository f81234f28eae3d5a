"""What the compiler makes of a mutant: nothing, the original's machine code, another mutant's, or something new.

All damaged versions of a file's functions are compiled at once, out of line and beside the original's, and their assembly is compared.
"""
import hashlib
import os
import re
import subprocess

import schemata
from source import Source

# As the core is built, without its warnings: a mutant that a warning would show is a mutant all the same.
COMPILER = ["gcc", "-std=c11", "-O2", "-ffreestanding", "-fPIC", "-w", "-Werror=return-type", "-Werror=incompatible-pointer-types",
            "-Werror=int-conversion", "-Werror=implicit-function-declaration"]
# Each version must stay a function of its own, compiled from its own text alone.
APART = ["-fno-ipa-icf", "-fno-ipa-cp", "-fno-ipa-ra", "-fno-asynchronous-unwind-tables", "-fno-reorder-functions"]
ATTRIBUTES = "__attribute__((noinline, noclone, used)) "
FUNCTION = re.compile(r"^(\w+)__(\d+):\n(.*?)^\t\.size\t\1__\2,", re.M | re.S)
NOISE = re.compile(r"^\t\.(?:p2align|align|globl|type|loc|file|local).*\n", re.M)
CONSTANT = r"(?:\.LC|CSWTCH\.)\d+"
ORIGINAL = 0


def includers(root, header):
    """The core's sources that include a header of the core."""
    name, found = os.path.basename(header), []
    for file in sorted(os.listdir(f"{root}/abi/src")):
        with open(f"{root}/abi/src/{file}", "rb") as source:
            if file.endswith(".c") and f'#include "{name}"'.encode() in source.read():
                found.append(f"abi/src/{file}")
    return found


def versions(root, path, numbered):
    """The file with every version of its damaged functions before the function itself."""
    source = Source(root, path)
    text = source.bytes
    places = []
    for name, node in source.functions():
        own = [(n, m) for n, m in numbered if m.function == name]
        if own:
            start, end = source.extent(node)
            bodies = [(ORIGINAL, text[start:end])]
            bodies += [(n, text[start:m.start] + m.after.encode() + text[m.end:end]) for n, m in own]
            out = "".join(ATTRIBUTES + schemata.renamed(body.decode(), name, number).lstrip() + "\n" for number, body in bodies)
            places.append((schemata.before_comments(text, start), out.encode()))
    for at, out in sorted(places, reverse=True):
        text = text[:at] + out + text[at:]
    return text


def constants_of(assembly):
    """Label -> what stands there, for the constants and tables that the compiler keeps outside the code."""
    found = {name: value for name, value in re.findall(rf"^\t\.set\t({CONSTANT}),(.*)$", assembly, re.M)}
    for name, values in re.findall(rf"^({CONSTANT}):\n((?:\t\.(?:byte|value|long|quad|zero|string|ascii)\t.*\n)+)", assembly, re.M):
        found[name] = re.sub(r"\s+", " ", values)
    for _ in found:
        if not any(re.search(CONSTANT, value) for value in found.values()):
            break
        found = {name: re.sub(CONSTANT, lambda m: found[m.group(0)], value) for name, value in found.items()}
    return found


def normalised(assembly, name, number, constants):
    """A function's assembly without its own name, with constants in the place of their labels, other labels numbered as they come."""
    labels = {}
    text = NOISE.sub("", assembly).replace(f"{name}__{number}", name)
    text = re.sub(CONSTANT, lambda m: f"[{constants[m.group(0)]}]", text)
    return re.sub(r"\.L\w*\d+", lambda m: labels.setdefault(m.group(0), f".L{len(labels)}"), text)


def assembled(root, path, numbered):
    """(number of each mutant that compiles -> digest, digests of the originals by name)"""
    wanted = list(numbered)
    for _ in range(20):
        command = [*COMPILER, *APART, f"-I{root}/abi/include", f"-I{root}/abi/src", "-S", "-x", "c", "-", "-o", "-"]
        done = subprocess.run(command, input=versions(root, path, wanted), capture_output=True)
        if done.returncode == 0:
            break
        broken = {int(n) for n in re.findall(r"In function .\w+?__(\d+)", done.stderr.decode())} - {ORIGINAL}
        if not broken:
            raise RuntimeError(f"{path} does not compile: {done.stderr.decode()[:400]}")
        wanted = [(n, m) for n, m in wanted if n not in broken]
    else:
        raise RuntimeError(f"{path}: no end of mutants that do not compile")
    digests, originals = {}, {}
    assembly = done.stdout.decode()
    constants = constants_of(assembly)
    for name, number, body in FUNCTION.findall(assembly):
        digest = hashlib.sha256(normalised(body, name, number, constants).encode()).digest()
        if int(number) == ORIGINAL:
            originals[name] = digest
        else:
            digests[int(number)] = digest
    missing = [m.id for n, m in wanted if n not in digests]
    if missing:
        raise RuntimeError(f"the compiler dropped {', '.join(missing)}")
    return digests, originals


def sift(root, mutants, pool):
    """(mutants that count, why the others do not). Macros are no functions: their mutants always count."""
    counts = {"not compiling": 0, "same machine code as the original": 0, "same machine code as another mutant": 0}
    macros = {m.id for m in mutants if m.function.isupper()}
    numbered = list(enumerate((m for m in mutants if m.id not in macros), 1))
    paths = sorted({m.file for _, m in numbered})
    per_file = pool.map(lambda path: assembled(root, path, [(n, m) for n, m in numbered if m.file == path]), paths)
    digests, originals = {}, {}
    for path, (some, whole) in zip(paths, per_file):
        digests.update(some)
        originals.update({(path, name): digest for name, digest in whole.items()})
    kept, seen = [m for m in mutants if m.id in macros], set()
    for number, mutant in numbered:
        key = (mutant.file, mutant.function, digests.get(number))
        if number not in digests:
            counts["not compiling"] += 1
        elif key[2] == originals[mutant.file, mutant.function]:
            counts["same machine code as the original"] += 1
        elif key in seen:
            counts["same machine code as another mutant"] += 1
        else:
            seen.add(key)
            kept.append(mutant)
    order = {mutant.id: i for i, mutant in enumerate(mutants)}
    return sorted(kept, key=lambda m: order[m.id]), counts
