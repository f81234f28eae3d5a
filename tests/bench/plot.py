#!/usr/bin/env python3
"""Cost of a pair of allocate and release against the number of other live allocations: plot.py BENCH.json OUT.png"""
import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

NAMES = {"direct": "slots called directly", "trusted": "host, overlap check off", "checked": "host, overlap check on (default)"}


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    result = json.load(open(sys.argv[1]))
    points = result["cost_by_live"]
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5))
    for axis, order in zip(axes, ("last", "random")):
        for series, label in NAMES.items():
            there = [(max(p["live"], 1), p[order][series]) for p in points if series in p[order]]
            axis.plot([x for x, _ in there], [y for _, y in there], marker="o", label=label)
        axis.set_xscale("log")
        axis.set_xlabel("other live allocations (1 stands for none)")
        axis.set_title("last slot reused" if order == "last" else "random order")
        axis.grid(True, alpha=0.3)
        axis.set_ylim(0, 1.05 * max(p[order][s] for p in points for s in p[order]))
    axes[0].set_ylabel("ns for allocate + release of 64 bytes")
    axes[0].legend()
    figure.suptitle(f"minimal plugin, medians, revision {result['revision'][:12]}")
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=120)
    return 0


if __name__ == "__main__":
    sys.exit(main())
