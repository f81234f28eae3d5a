#!/usr/bin/env python3
"""The shipped plugin under every rule of `nxmem conform`: a TAP row for each rule."""
import argparse
import json
import os
import subprocess
import sys
import tempfile


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nxmem", required=True)
    parser.add_argument("--plugin", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "conform.json")
        done = subprocess.run([args.nxmem, "conform", "--timeout", "60", "--json", path, args.plugin],
                              capture_output=True, text=True, check=False)
        if not os.path.exists(path):
            print(f"1..1\nnot ok 1 - conform wrote its findings: {done.stderr.strip()}")
            return 1
        with open(path, encoding="utf-8") as file:
            results = json.load(file)["verdicts"]
    print(f"1..{len(results) + 2}")
    number = 0
    for number, result in enumerate(results, 1):
        good = result["verdict"] in ("pass", "not applicable")
        print(f"{'ok' if good else 'not ok'} {number} - {result['rule']} {result.get('evidence', '')}")
    absent = {r["rule"] for r in results if r["verdict"] == "not applicable"}
    # A plugin of every capability, and of one mechanism, leaves these two out and no others.
    good = absent <= {"NX-OPN-006", "NX-DEA-041", "NX-ALC-040"}
    print(f"{'ok' if good else 'not ok'} {number + 1} - every capability was tried: {sorted(absent)}")
    print(f"{'ok' if done.returncode == 0 else 'not ok'} {number + 2} - exit code {done.returncode}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
