#!/usr/bin/env python3
"""tests/gpu/run itself: a whole record on the simulated driver; `no GPU` and exit code 3 where there is no driver or no device."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run")


def script(build, *more, **environment):
    command = [sys.executable, RUN, "--build", build, "--repeats", "3", *more]
    return subprocess.run(command, env=dict(os.environ, **environment), capture_output=True, text=True, check=False)


def simulator_gives_a_record(build):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "record.json")
        done = script(build, "--simulator", "--json", path)
        if done.returncode != 0 or not done.stdout.endswith("gpu: ok\n"):
            return f"exit {done.returncode}: {done.stdout[-1500:]}{done.stderr[-500:]}"
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
    wanted = ["command", "revision", "preset", "compiler", "driver", "device"]
    lacks = [key for key in wanted if not record.get(key)]
    if lacks or not record["simulator"] or len(record["throughput"]["rows"]) < 5:
        return f"the record lacks {lacks or 'rows'}"
    return None


def without_driver(build):
    done = script(build, LD_LIBRARY_PATH=os.path.join(build, "fakecuda", "none"))
    return None if done.returncode == 3 and "no GPU" in done.stderr else f"exit {done.returncode}: {done.stderr}"


def without_device(build):
    done = script(build, LD_LIBRARY_PATH=os.path.join(build, "fakecuda"), FAKECUDA_SCHEDULE="devices=0")
    return None if done.returncode == 3 and "no GPU" in done.stderr else f"exit {done.returncode}: {done.stderr}"


def failure_is_told(build):
    with tempfile.TemporaryDirectory() as folder:
        done = script(build, "--simulator", "--json", os.path.join(folder, "record.json"),
                      FAKECUDA_SCHEDULE="fail=cuMemMap:1+:999")
    return None if done.returncode == 1 and "failed" in done.stdout else f"exit {done.returncode}: {done.stdout}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    build = os.path.abspath(parser.parse_args().build)
    rows = [simulator_gives_a_record, without_driver, without_device, failure_is_told]
    failed = 0
    for number, row in enumerate(rows, 1):
        why = row(build)
        failed += why is not None
        print(f"{'not ok' if why else 'ok'} {number} - {row.__name__}" + (f": {why}" if why else ""))
    print(f"1..{len(rows)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
