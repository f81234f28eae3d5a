#!/usr/bin/env python3
"""The interface of libnxmem, as its debug information says it, beside the committed baseline host/packaging/libnxmem.abi.xz.

abi.py             compare: exit code 0 unchanged, 1 changed (what changed is printed), 3 could not run
abi.py --accept    make what there is now the baseline; commit it with the change that it is for
abi.py --root DIR  sources elsewhere

The library is compiled here without optimisation, so that neither a build type nor a compiler's inlining is part of the comparison.
"""
import argparse
import lzma
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "libnxmem.abi.xz"


def run(command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def dump(root, place):
    """What abidw says of a library of these sources; only types of public headers count."""
    library, public, out = place / "libnxmem.so.1", place / "include", place / "now.abi"
    folders = [root / "host/include", root / "abi/include"]
    public.mkdir()
    run(["cp", "-r", *[path for folder in folders for path in folder.iterdir()], public])
    sources = sorted((root / "host/src").glob("*.c")) + sorted((root / "abi/src").glob("*.c"))
    run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-O0", "-g", "-w", "-fPIC", "-fvisibility=hidden", "-shared", f"-I{public}",
         f"-I{root / 'host/src'}", f"-ffile-prefix-map={place}=.", f"-ffile-prefix-map={root}=.", "-Wl,-soname,libnxmem.so.1",
         f"-Wl,--version-script={root / 'host/src/nxmem.map'}", *sources, "-ldl", "-lpthread", "-o", library])
    run(["abidw", "--headers-dir", public, "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--out-file", out, library])
    return out


def compare(now, place):
    before = place / "before.abi"
    before.write_bytes(lzma.decompress(BASELINE.read_bytes()))
    done = subprocess.run(["abidiff", before, now], capture_output=True, text=True, check=False)
    if done.returncode & 3:
        raise OSError(done.stdout + done.stderr)
    print(done.stdout, end="")
    return 1 if done.returncode else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accept", action="store_true", help="make what there is now the baseline")
    parser.add_argument("--root", type=Path, default=HERE.parents[1], metavar="DIR", help="sources elsewhere")
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            now = dump(arguments.root.resolve(), Path(folder))
            if arguments.accept:
                BASELINE.write_bytes(lzma.compress(now.read_bytes(), preset=9))
                print("abi: accepted")
                return 0
            changed = compare(now, Path(folder))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"abi: could not run: {error} {getattr(error, 'stderr', '') or ''}", file=sys.stderr)
        return 3
    print("abi: changed; host/packaging/abi.py --accept makes this the baseline" if changed else "abi: unchanged")
    return changed


if __name__ == "__main__":
    sys.exit(main())
