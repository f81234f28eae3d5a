#!/usr/bin/env python3
"""Inputs stay small: fuzz/seeds, fuzz/corpus and fuzz/found together, and none is longer than libFuzzer takes unasked. Prints TAP."""
import pathlib
import sys

FUZZ = pathlib.Path(__file__).resolve().parent.parent
BYTES_MAX, INPUT_MAX = 2 << 20, 4096


def inputs():
    for folder in ("seeds", "corpus", "found"):
        for target in (FUZZ / folder).iterdir():
            if target.is_dir() and target.name != "__pycache__":
                yield from (p for p in target.iterdir() if p.is_file() and not p.name.startswith("."))


def say(number, holds, words):
    print(f"{'ok' if holds else 'not ok'} {number} - {words}")
    return 0 if holds else 1


def main():
    sizes = {p: p.stat().st_size for p in inputs()}
    long = sorted(str(p.relative_to(FUZZ)) for p, size in sizes.items() if size > INPUT_MAX)
    total = sum(sizes.values())
    print("1..2")
    failed = say(1, 0 < total < BYTES_MAX, f"{len(sizes)} inputs have {total} bytes, needed less than {BYTES_MAX}")
    failed += say(2, not long, f"no input is longer than {INPUT_MAX} bytes{': ' if long else ''}{', '.join(long[:5])}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
