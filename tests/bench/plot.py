#!/usr/bin/env python3
"""Cost of a pair of allocate and release against the number of other live allocations, and of free spans: plot.py BENCH.json OUT.png"""
import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

NAMES = {"direct": "slots called directly", "trusted": "host, overlap check off", "checked": "host, overlap check on (default)"}


def by_live(result, axes):
    points = result["cost_by_live"]
    for axis, order in zip(axes, ("last", "random")):
        for series, label in NAMES.items():
            there = [(max(p["live"], 1), p[order][series]) for p in points if series in p[order]]
            axis.plot([x for x, _ in there], [y for _, y in there], marker="o", label=label)
        axis.set_xlabel("other live allocations (1 stands for none)")
        axis.set_title("minimal plugin, last slot reused" if order == "last" else "minimal plugin, random order")
        axis.set_ylim(0, 1.05 * max(p[order][s] for p in points for s in p[order]))
    axes[0].legend()


def by_free_spans(result, axes):
    points = result["cost_by_free_spans"]
    axes[0].plot([p["free_spans"] for p in points], [p["pair_ns"] for p in points], marker="o")
    axes[0].set_xlabel("free spans too small for the block")
    axes[0].set_title("hostvmm, slots called directly")
    axes[0].set_ylim(0, 1.5 * max(p["pair_ns"] for p in points))


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    result = json.load(open(sys.argv[1]))
    parts = [(draw, width) for key, draw, width in (("cost_by_live", by_live, 2), ("cost_by_free_spans", by_free_spans, 1)) if key in result]
    count = sum(width for _, width in parts)
    figure, grid = plt.subplots(1, count, figsize=(5.5 * count, 4.5), squeeze=False)
    axes = list(grid[0])
    axes[0].set_ylabel("ns for allocate + release")
    for axis in axes:
        axis.set_xscale("log")
        axis.grid(True, alpha=0.3)
    for draw, width in parts:
        draw(result, axes[:width])
        axes = axes[width:]
    figure.suptitle(f"medians, revision {result['revision'][:12]}")
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=120)
    return 0


if __name__ == "__main__":
    sys.exit(main())
