#!/usr/bin/env python3
"""TAP: has the fuzz target `core` a row for each public function of the core, seeds for each row, and no row too many?

    check_rows.py [--root ROOT]
"""
import argparse
import pathlib
import sys

sys.dont_write_bytecode = True
import public


def tables(root):
    """Function -> place, functions that have seeds, and one that has seeds but no row."""
    sys.path.insert(0, str(root / "fuzz" / "seeds"))
    import core_seeds

    try:
        return core_seeds.PLACES, {name.rsplit("_", 1)[0] for name, _ in core_seeds.seeds()}, set()
    except KeyError as without_row:
        return core_seeds.PLACES, set(), set(without_row.args)


def report(number, name, missing):
    print(f"{'not ok' if missing else 'ok'} {number} - {name}")
    for function in sorted(missing):
        print(f"#   {function}")
    return bool(missing)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    root = parser.parse_args().root
    functions = set(public.public(root))
    places, seeded, astray = tables(root)
    print("1..5")
    failed = report(1, "the headers of the core declare functions", set() if functions else {"none found"})
    failed |= report(2, "each public function of the core has a row in fuzz/targets/core", functions - places.keys())
    failed |= report(3, "each row is of a public function of the core", places.keys() - functions)
    failed |= report(4, "each row has seeds in fuzz/seeds/core_seeds.py",
                     set() if astray else {name for name in places if name.removeprefix("nxmem_") not in seeded})
    failed |= report(5, "all seeds are of a row", astray)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
