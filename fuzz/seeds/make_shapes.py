#!/usr/bin/env python3
"""Makes mutator/shapes.c from the wire header: which fields an input begins with, and the sizes that tables may have.

    make_shapes.py            write fuzz/mutator/shapes.c
    make_shapes.py --check    print TAP: is what is checked in what this script makes?
"""
import sys

sys.dont_write_bytecode = True
from layout import FUZZ, RECORDS

LIFE = ([1, 1, 14], [1, 1, 1, 1, 1, 3, 8])
VMM = ([1, 1, 1, 1, 1, 1, 2, 8], [1, 1, 1, 1, 1, 3, 8])
HEADS = {  # as the heads of targets/*.c say
    "fetch": ([1, 1, 4, 8], []),
    "table": ([1, 8, 8], []), "negotiate": ([1, 1, 4, 4, 4, 4, 4, 8, *[4] * 8, 8], []), "status": ([4, 4, 2], []),
    "strings": ([1, 1, 4, 4, 2], []), "elf": ([16, 2, 2, 4, 8, 8, 8, 4, *[2] * 6], []), "policy": ([1, 1, 1], []),
    "core": ([1, 1], []), "lifecycle": LIFE, "deferred": LIFE, "load": LIFE,
    "vmm": VMM, "owners": LIFE}
TABLES = ("NxmemAllocatorVtable", "NxmemAllocatorFactoryVtable", "NxmemVirtualBackingVtable",
          "NxmemSharedMappingVtable", "NxmemNegotiateRequest")


def edges(target):
    if target in ("table", "fetch", "negotiate", "core"):
        ends = {offset for record in TABLES for offset in RECORDS[record][1].values()} | {RECORDS[r][0] for r in TABLES}
        return sorted(ends | {120})
    if target == "status":  # few are long: what a text costs is its length
        return [0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 252, 255, 256]
    return [0, 1, 4, 8, 252, 255, 256, 511, 512] if target == "strings" else [0, 8, 16, 40, 56, 64, 4096]


def block(values, end):
    return "{" + ", ".join(map(str, [*values, end])) + "}"


def text():
    lines = ["/*", " * shapes.c: how the inputs of each target are laid out. Made by fuzz/seeds/make_shapes.py from the wire header.",
             " * Attackers: none.", " * Promise: widths and sizes only; what a field means is the target's business.", " */",
             '#include "mutator.h"', "", "/* clang-format off */"]
    for target, (head, record) in HEADS.items():
        lines += [f"#ifdef FUZZ_TARGET_{target}", f"static const uint8_t head[] = {block(head, 0)};"]
        if record:
            lines.append(f"static const uint8_t record[] = {block(record, 0)};")
        lines += [f"static const uint16_t edges[] = {block(edges(target), '0xFFFF')};",
                  f"const fuzz_shape fuzz_target_shape = {{head, {'record' if record else 'NULL'}, edges}};", "#endif"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    path = FUZZ / "mutator" / "shapes.c"
    if sys.argv[1:] == ["--check"]:
        stale = not path.exists() or path.read_text() != text()
        print(f"1..1\n{'not ok' if stale else 'ok'} 1 - mutator/shapes.c is what make_shapes.py makes")
        sys.exit(1 if stale else 0)
    if sys.argv[1:]:
        sys.exit(__doc__)
    path.write_text(text())
