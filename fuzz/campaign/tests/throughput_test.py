#!/usr/bin/env python3
"""fuzz/throughput.py where something is missing or fails, with programs of its own. Prints TAP."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from campaign import places  # noqa: E402
from campaign.tests.tap import same, tell  # noqa: E402

# As libFuzzer's programs end: FINE after as many inputs as it was asked for, CRASH with its input beside it.
FINE = "#!/bin/sh\necho Done 9 runs in 1 second\n"
CRASH = """#!/bin/sh
for word; do case $word in -artifact_prefix=*) printf 7 >"${word#*=}crash-9"; esac; done
echo "ORACLE books: charged 1 of 3"
exit 77
"""


def run(*words, path=None):
    command = [sys.executable, places.ROOT / "fuzz/throughput.py", *words]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False,
                          env={**os.environ, **({"PATH": path} if path else {})})


def put(folder, **texts):
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        path = folder / "bin" / f"fuzz_{name}"
        path.write_text(text)
        path.chmod(0o700)


def tools(folder, *names):
    """A PATH with these and no others."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(shutil.which(name))
    return str(folder)


def rows():
    with tempfile.TemporaryDirectory() as name:
        base = pathlib.Path(name)
        build = base / "libfuzzer"
        put(build, table=FINE)
        done = run("--build", build, "table", "status", "load")
        yield "all that a folder lacks is named, with one command", [] if done.returncode == 3 and done.stderr == (
            f"throughput: {build}/bin lacks fuzz_status, fuzz_load, fuzz_empty: cmake --preset libfuzzer && "
            "cmake --build build/libfuzzer --target fuzz_status fuzz_load fuzz_empty\n") else [done.stderr]
        put(build, empty=CRASH, table=CRASH)
        done = run("--build", build, "--profile", "table", path=tools(base / "tools", "sh"))
        yield "--profile without perf is told before anything is measured", [] if (
            done.returncode == 3 and "perf is not installed (Debian: linux-perf)" in done.stderr) else [done.stderr]
        done = run("--build", build, "--warm", "1", "table")
        kept = base / "fuzz/throughput/table-crash-9"
        yield "an input that fails is kept, and the words of the target are shown", [] if (
            done.returncode == 3 and kept.exists() and str(kept) in done.stderr and "ORACLE books" in done.stderr) else [
                done.stdout + done.stderr]
        done = run("table", path=str(base / "tools"))
        yield "in a clone without a build, one is made", [] if (
            done.returncode == 3 and "clang is not installed" in done.stderr) else [done.stderr]


if __name__ == "__main__":
    sys.exit(tell(rows()))
