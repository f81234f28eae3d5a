#!/usr/bin/env python3
"""tests/gpu/run on the machine's own driver and device, as one row; without a device it is not run."""
import argparse
import os
import subprocess
import sys

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    build = parser.parse_args().build
    record = os.path.join(build, "gpu-record.json")
    done = subprocess.run([sys.executable, RUN, "--build", build, "--json", record], capture_output=True, text=True, check=False)
    print("1..1")
    if done.returncode == 3 and "no GPU" in done.stderr:
        print(f"ok 1 - tests/gpu/run on a device # SKIP {done.stderr.strip().splitlines()[-1]}")
        return 0
    print(f"{'ok' if done.returncode == 0 else 'not ok'} 1 - tests/gpu/run on a device")
    print("\n".join("# " + line for line in (done.stdout + done.stderr).splitlines()))
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
