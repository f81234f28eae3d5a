#!/usr/bin/env python3
"""Built again from a copy in another folder, under a longer path and with other settings of the user: the same bytes, installed and packed. BUILD: the
packaging build to compare with. Prints TAP."""
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from tap import ROOT, build_packages, main, run, want  # noqa: E402

FIRST = Path(sys.argv[1])


def copy_sources(where):
    """What git has or would take, as it lies there."""
    names = run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]).split("\0")
    for name in filter(None, names):
        if not (ROOT / name).exists():
            continue
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, where / name, follow_symlinks=False)
        os.utime(where / name, (1, 1), follow_symlinks=False)


def tree(stage):
    found = {}
    for path in stage.rglob("*"):
        name = str(path.relative_to(stage))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = (path.stat().st_mode & 0o7777, path.read_bytes())
    return found


def archives(build):
    return {path.name: path.read_bytes() for path in (build / "packages").glob("*") if path.is_file()}


def differing(one, other):
    return sorted(name for name in set(one) | set(other) if one.get(name) != other.get(name))


def rows(place):
    second = place / "built somewhere else entirely".replace(" ", "_")

    def again():
        copy_sources(place / "sources_of_the_second_build")
        os.environ.update({"TZ": "Pacific/Kiritimati", "USER": "someone", "HOME": str(place)})
        old = os.umask(0o027)
        try:
            build_packages(place / "sources_of_the_second_build", second)
        finally:
            os.umask(old)

    def installed():
        one, other = tree(FIRST / "stage"), tree(second / "stage")
        want(len(one) > 50, f"{len(one)} files are too few")
        want(not differing(one, other), f"these differ: {differing(one, other)[:20]}")

    def packed():
        one, other = archives(FIRST), archives(second)
        want(len(one) == 5, f"{len(one)} packages and bill")
        want(not differing(one, other), f"these differ: {differing(one, other)}")

    return [("built again, elsewhere", again), ("every installed file has the same bytes and mode", installed),
            ("every package, and the bill, has the same bytes", packed)]


with tempfile.TemporaryDirectory(prefix="nxmem-second-", dir=FIRST.parent) as folder:
    code = main(rows(Path(folder)))
sys.exit(code)
