"""What the tests of installing share: rows of TAP, commands that must succeed, the folders of one packaging build."""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Missing(Exception):
    """A tool, the network or a right that a row needs is not there: the row fails and says which."""


def run(command, timeout=900, **more):
    """Standard output of a command that must succeed; AssertionError with its last words otherwise."""
    command = [str(part) for part in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **more)
    except FileNotFoundError as error:
        raise Missing(f"{error.filename} is not there") from error
    if done.returncode:
        words = (done.stdout[-2000:] + done.stderr[-2000:]).strip()
        raise AssertionError(f"{command[0]} ... {command[-1][-300:]}: exit code {done.returncode}\n{words}")
    return done.stdout


def answer(command, timeout=300, **more):
    """Exit code and both outputs of a command whose end is judged by the caller."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout, check=False,
                              **more)
    except FileNotFoundError as error:
        raise Missing(f"{error.filename} is not there") from error
    return done.returncode, done.stdout + done.stderr


def package_environment():
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def build_packages(source, build, jobs=2):
    """Everything that is installed, and the packages, from `source` in the folder `build`; staged under build/stage."""
    environment = package_environment()
    run(["cmake", "--preset", "package", "-B", build], cwd=source, env=environment)
    run(["cmake", "--build", build, "-j", jobs], env=environment, timeout=1800)
    stage = Path(build) / "stage"
    run(["rm", "-rf", stage, Path(build) / "packages"])
    run(["cmake", "--build", build, "--target", "packages"], env=environment)
    run(["cmake", "--install", build], env={**environment, "DESTDIR": str(stage)})
    return stage


def want(held, complaint):
    if not held:
        raise AssertionError(complaint)


def main(rows):
    """Run rows (name, function), print TAP, return the exit code. A row that raises is a failure with its words."""
    failed = 0
    for number, (name, row) in enumerate(rows, 1):
        try:
            row()
            print(f"ok {number} - {name}", flush=True)
        except (AssertionError, Missing, OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
            failed = 1
            print(f"not ok {number} - {name}")
            for line in f"{type(error).__name__}: {error}".splitlines()[-40:]:
                print(f"# {line}", flush=True)
    print(f"1..{len(rows)}")
    return failed if rows else 1


if __name__ == "__main__":
    sys.exit("tap.py is used by the tests beside it")
