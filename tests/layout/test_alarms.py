#!/usr/bin/env python3
"""The layout check's own test: each row breaks one thing in a copy and names the rows of the check that must turn
red. Prints TAP.

python3 test_alarms.py ROOT
"""
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
import check_layout  # noqa: E402

GCC = [c for c in check_layout.LAYOUT_COMPILERS if c[0] == "gcc"]
MINGW = [c for c in check_layout.LAYOUT_COMPILERS if c[0] == "mingw-w64"]
NATIVE = check_layout.DUMP_TARGETS[:1]

ANNOTATED = "gcc: agrees with the header's annotations"
BY_HAND = "gcc: agrees with the hand-written numbers"
CONSTANTS = "gcc: agrees with the hand-written constants"
SLOTS = "gcc: every slot has its hand-written type"
OWN_LIST = f"clang for {NATIVE[0]}: its own list of records and fields is the annotated one"
COMPLETE = "every struct and every field is annotated"
NO_OTHERS = "the header defines the contract's constants and no others"


def agree(record):
    return f"{record}: annotations say what is written by hand"


# name, file that is altered, old text, new text, rows that must be red (at least these)
ALARMS = [
    ("nothing altered", "header", "", "", ()),
    ("an annotated offset", "header", "*ptr;           /* @32 */", "*ptr;           /* @40 */",
     (ANNOTATED, OWN_LIST, agree("NxmemAllocation"))),
    ("an annotated size", "header", "@record NxmemAllocation 56 8", "@record NxmemAllocation 64 8",
     (ANNOTATED, OWN_LIST, agree("NxmemAllocation"))),
    ("an annotated alignment", "header", "@record NxmemStatus 264 4", "@record NxmemStatus 264 8",
     (ANNOTATED, OWN_LIST, agree("NxmemStatus"))),
    ("two fields swapped with their annotations", "header",
     "  uint32_t tier;  /* @0 */\n  uint32_t index; /* @4 */", "  uint32_t index; /* @0 */\n  uint32_t tier;  /* @4 */",
     (BY_HAND, agree("NxmemDeviceId"))),
    ("two fields swapped under their annotations", "header",
     "  uint32_t tier;  /* @0 */\n  uint32_t index; /* @4 */", "  uint32_t index; /* @4 */\n  uint32_t tier;  /* @0 */",
     (ANNOTATED, BY_HAND, OWN_LIST)),
    ("a field that grew", "header",
     "uint32_t reserved;              /* @12 */", "uint64_t reserved;              /* @12 */",
     (ANNOTATED, BY_HAND, OWN_LIST)),
    ("an expected offset", "expected", "field\tdrain_releases\t104\t8", "field\tdrain_releases\t112\t8",
     (BY_HAND, agree("NxmemAllocatorVtable"))),
    ("an expected size", "expected", "record\tNxmemNegotiateResponse\t40\t8", "record\tNxmemNegotiateResponse\t48\t8",
     (BY_HAND, agree("NxmemNegotiateResponse"))),
    ("an expected width", "expected", "field\tmessage\t8\t256", "field\tmessage\t8\t255", (BY_HAND,)),
    ("a field without annotation", "header", "uint64_t granules;               /* @24 */", "uint64_t granules;",
     (COMPLETE, ANNOTATED, OWN_LIST)),
    ("a record without annotation", "header", "/* @record NxmemByteRange 16 8 */\n", "",
     (COMPLETE, ANNOTATED, OWN_LIST)),
    ("a field nobody wrote down", "expected", "field\tgranules\t24\t8\n", "", (agree("NxmemSharedPrefixCommitInfo"),)),
    ("a constant's value", "header", "#define NXMEM_STATUS_BUSY 14u", "#define NXMEM_STATUS_BUSY 15u", (CONSTANTS,)),
    ("a constant's type", "header", "#define NXMEM_TIER_DISK 2u", "#define NXMEM_TIER_DISK 2", (CONSTANTS,)),
    ("a constant's width", "header", "(1ull << 3)", "(1u << 3)", (CONSTANTS,)),
    ("a constant too many", "header",
     "#define NXMEM_TIER_DISK 2u", "#define NXMEM_TIER_DISK 2u\n#define NXMEM_TIER_TAPE 3u",
     (NO_OTHERS,)),
    ("a slot's parameter", "header",
     "(*drain_releases)(void *ctx, uint64_t max,", "(*drain_releases)(void *ctx, uint32_t max,",
     (SLOTS,)),
    ("a slot's result", "header", "void (*retain)(void *ctx);", "int (*retain)(void *ctx);", (SLOTS,)),
]


def red_rows(tree):
    rows = list(check_layout.written_rows(tree)) + list(check_layout.macro_rows(tree))
    rows += check_layout.compiled_rows(tree, GCC)
    rows += check_layout.signature_rows(tree, GCC)
    rows += check_layout.dump_rows(tree, NATIVE)
    return {name for name, complaint in rows if complaint}


def alter(text, old, new):
    if old and text.count(old) != 1:
        raise ValueError(f"{old!r} stands {text.count(old)} times")
    return text.replace(old, new) if old else text


def altered_tree(root, folder, kind, old, new):
    include = os.path.join(folder, "include")
    shutil.copytree(os.path.join(root, "abi", "include"), include)
    header = os.path.join(include, "nxmem_memory_abi.h")
    by_hand = os.path.join(check_layout.HERE, "expected.tsv")
    texts = {"header": check_layout.read(header), "expected": check_layout.read(by_hand)}
    texts[kind] = alter(texts[kind], old, new)
    with open(header, "w", encoding="utf-8") as file:
        file.write(texts["header"])
    return check_layout.Tree(root, include=include, expected=texts["expected"])


def alarm_rows(root):
    for name, kind, old, new, wanted in ALARMS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                red = red_rows(altered_tree(root, folder, kind, old, new))
                quiet = sorted(set(wanted) - red)
                complaint = f"stayed green: {quiet}" if quiet else f"red: {sorted(red)}" if red and not wanted else ""
            except ValueError as error:
                complaint = str(error)
        yield f"alarm: {name}", complaint


def missing_compiler_row(root):
    """With nothing on the path, every compiler's rows are red and say so."""
    path = os.environ["PATH"]
    os.environ["PATH"] = "/nonexistent"
    try:
        tree = check_layout.Tree(root)
        rows = list(check_layout.compiled_rows(tree, GCC + MINGW)) + list(check_layout.dump_rows(tree, NATIVE))
    finally:
        os.environ["PATH"] = path
    quiet = [name for name, complaint in rows if not complaint]
    yield "alarm: a missing compiler is red, never skipped", f"stayed green: {quiet}" if quiet else ""


if __name__ == "__main__":
    ROOT = sys.argv[1]
    sys.exit(check_layout.print_tap(list(alarm_rows(ROOT)) + list(missing_compiler_row(ROOT))))
