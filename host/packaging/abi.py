#!/usr/bin/env python3
"""The interfaces of libnxmem and libnxmem_policy, as their debug information says them, beside the committed baselines host/packaging/*.abi.xz.

abi.py             compare: exit code 0 unchanged, 1 changed (what changed is printed), 3 could not run
abi.py --accept    make what there is now the baseline; commit it with the change that it is for
abi.py --root DIR  sources elsewhere

The libraries are compiled here without optimisation, so that neither a build type nor a compiler's inlining is part of the comparison.
"""
import argparse
import lzma
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Library: its sources, its version script, what it is linked with. What it takes of the other is left open.
LIBRARIES = {
    "libnxmem": (("host/src/*.c", "abi/src/*.c"), "host/src/nxmem.map", ("-ldl", "-lpthread")),
    "libnxmem_policy": (("host/policy/*.c", "host/src/error.c", "host/src/names.c", "abi/src/*.c"), "host/policy/policy.map",
                        ("-lsodium", "-ljansson", "-lelf")),
}


def baseline(name):
    return HERE / f"{name}.abi.xz"


def run(command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def public_headers(root, place):
    public = place / "include"
    public.mkdir()
    run(["cp", "-r", *[path for folder in (root / "host/include", root / "abi/include") for path in folder.iterdir()], public])
    return public


def dump(root, place, name, public):
    """What abidw says of a library of these sources; only types of public headers count."""
    patterns, script, libraries = LIBRARIES[name]
    library, out = place / f"{name}.so.1", place / f"{name}.abi"
    sources = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-O0", "-g", "-w", "-fPIC", "-fvisibility=hidden", "-shared", f"-I{public}",
         f"-I{root / 'host/src'}", f"-ffile-prefix-map={place}=.", f"-ffile-prefix-map={root}=.", f"-Wl,-soname,{name}.so.1",
         f"-Wl,--version-script={root / script}", *sources, *libraries, "-o", library])
    run(["abidw", "--headers-dir", public, "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--out-file", out, library])
    return out


def compare(now, place, name):
    before = place / f"{name}.before.abi"
    before.write_bytes(lzma.decompress(baseline(name).read_bytes()))
    done = subprocess.run(["abidiff", before, now], capture_output=True, text=True, check=False)
    if done.returncode & 3:
        raise OSError(done.stdout + done.stderr)
    print(f"{name}:\n{done.stdout}" if done.stdout else "", end="")
    return 1 if done.returncode else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accept", action="store_true", help="make what there is now the baseline")
    parser.add_argument("--root", type=Path, default=HERE.parents[1], metavar="DIR", help="sources elsewhere")
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            root, place = arguments.root.resolve(), Path(folder)
            public = public_headers(root, place)
            now = {name: dump(root, place, name, public) for name in LIBRARIES}
            if arguments.accept:
                for name, text in now.items():
                    baseline(name).write_bytes(lzma.compress(text.read_bytes(), preset=9))
                print("abi: accepted")
                return 0
            changed = max(compare(text, place, name) for name, text in now.items())
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"abi: could not run: {error} {getattr(error, 'stderr', '') or ''}", file=sys.stderr)
        return 3
    print("abi: changed; host/packaging/abi.py --accept makes this the baseline" if changed else "abi: unchanged")
    return changed


if __name__ == "__main__":
    sys.exit(main())
