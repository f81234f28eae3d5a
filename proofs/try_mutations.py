#!/usr/bin/env python3
"""Damages one check of abi/src/prefix.c at a time, in a copy, and runs the proof gate on the damaged function: it must go red.

try_mutations.py [NAME...]    Prints one line per mutation with the goal that noticed; exit code 1 when one survives.
Each damaged function is first judged undamaged with the same options, so that a red line is not a prover out of time.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SOURCE = "abi/src/prefix.c"
ALLOCATOR = "nxmem_read_allocator_unvalidated"
LOAD = "NX_LOAD(NxmemAllocatorVtable, src, "

# name, world, the function damaged, text in it, what it becomes
MUTATIONS = (
    ("null_check_deleted", "quiet", "nxmem_check_table_address",
     "if (address == 0u) return nx_verdict(NXMEM_REASON_NULL_POINTER, 0u, 0u, 0u);", ""),
    ("alignment_check_deleted", "quiet", "nxmem_check_table_address",
     "if (address % 8u != 0u) return nx_verdict(NXMEM_REASON_MISALIGNED, 0u, address % 8u, 8u);", ""),
    ("address_verdict_ignored", "quiet", ALLOCATOR, "if (address.reason != NXMEM_REASON_NONE) return address;", ""),
    ("header_floor_deleted", "quiet", ALLOCATOR,
     "if (size < NXMEM_HEADER_BYTES) return nx_verdict(NXMEM_REASON_SHORT_HEADER, 0u, size, NXMEM_HEADER_BYTES);", ""),
    ("size_floor_deleted", "quiet", ALLOCATOR,
     "if (size < needed) return nx_verdict(NXMEM_REASON_SHORT_TABLE, 0u, size, needed);", ""),
    ("size_floor_one_off", "quiet", ALLOCATOR, "if (size < needed)", "if (size <= needed)"),
    ("size_floor_of_minor_0", "quiet", "nxmem_allocator_bytes_at", "(uint32_t)NXMEM_ALLOCATOR_BYTES_1",
     "(uint32_t)NXMEM_ALLOCATOR_BYTES_0"),
    ("ceiling_clamp_deleted", "quiet", ALLOCATOR, "smaller(declared, ceiling)", "declared"),
    ("slot_above_level_kept", "quiet", ALLOCATOR, "if (level >= 1u) out->release_allocation", "out->release_allocation"),
    ("name_not_copied", "quiet", ALLOCATOR, f"out->name = {LOAD}name);", ""),
    ("slots_swapped", "quiet", ALLOCATOR, f"out->retain = {LOAD}retain);", f"out->retain = {LOAD}release);"),
    ("size_loaded_twice", "racing", ALLOCATOR, "out->struct_size = size;", f"out->struct_size = {LOAD}struct_size);"),
    ("minor_loaded_twice", "racing", ALLOCATOR, "*declared_minor = declared;", f"*declared_minor = {LOAD}abi_minor);"),
    ("name_loaded_twice", "racing", ALLOCATOR, f"out->name = {LOAD}name);",
     f"out->name = {LOAD}name);\n  out->name = {LOAD}name);"),
    ("minor_loaded_before_floor", "racing", ALLOCATOR, f"const uint32_t size = {LOAD}struct_size);",
     f"const uint32_t early = {LOAD}abi_minor);\n  (void)early;\n  const uint32_t size = {LOAD}struct_size);"),
    ("mechanism_check_deleted", "quiet", "nxmem_check_allocator",
     "if (table->mechanism_id == 0u) return nx_verdict(NXMEM_REASON_ZERO_MECHANISM, AT_MECHANISM, 0u, 0u);", ""),
    ("release_check_deleted", "quiet", "nxmem_check_allocator",
     "if (table->release == NULL) return missing_slot(AT_RELEASE);", ""),
    ("slot_offset_wrong", "quiet", "nxmem_check_allocator", "missing_slot(AT_RETAIN)", "missing_slot(AT_RELEASE)"),
    ("foreign_mechanism_let_through", "quiet", "check_mechanism",
     "if (found != needed) return nx_verdict(NXMEM_REASON_OTHER_MECHANISM, AT_MECHANISM, found, needed);", ""),
    ("written_before_judged", "quiet", "nxmem_read_factory",
     "const nxmem_verdict checked", "*out = table;\n  const nxmem_verdict checked"),
    ("factory_size_floor_deleted", "quiet", "nxmem_read_factory_unvalidated",
     "if (size < NXMEM_FACTORY_BYTES) return nx_verdict(NXMEM_REASON_SHORT_TABLE, 0u, size, NXMEM_FACTORY_BYTES);", ""),
    ("backing_clamp_deleted", "racing", "nxmem_read_backing_unvalidated", "smaller(declared, ceiling)", "declared"),
    ("sharing_last_slot_not_copied", "quiet", "nxmem_read_sharing_unvalidated",
     "out->commit_shared_prefix = NX_LOAD(NxmemSharedMappingVtable, src, commit_shared_prefix);", ""),
)


def damaged(text, function, old, new):
    """The source with the first `old` inside `function` replaced; layout does not matter."""
    start = re.search(rf"(?m)^[\w \*]+\b{function}\(", text).start()
    pattern = r"\s+".join(re.escape(word) for word in old.split())
    body, hits = re.subn(pattern, lambda _: new, text[start:], count=1)
    if hits != 1:
        raise ValueError(f"nothing to damage in {function}: {old}")
    return text[:start] + body


def judge(function, world, damage):
    """(what noticed it or None, the gate's last line) for the function in a copy whose source `damage` rewrote."""
    with tempfile.TemporaryDirectory(prefix="nxmem-mutant-") as folder:
        for part in ("abi", "proofs"):
            shutil.copytree(f"{ROOT}/{part}", f"{folder}/{part}", ignore=shutil.ignore_patterns("__pycache__"))
        with open(f"{ROOT}/{SOURCE}", encoding="utf-8") as file:
            text = damage(file.read())
        with open(f"{folder}/{SOURCE}", "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([f"{HERE}/gate.py", "--root", folder, "--quick", "--timeout", "5", "--jobs", "1",
                               "--only", function, "--world", world], capture_output=True, text=True)
    noticed = re.findall(r"goal not proved: (.*)", done.stdout) or re.findall(r"(?m)^  (.*)", done.stdout)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr.strip()[-200:]
    red = done.returncode == 1 and last.startswith("proofs: ")
    return (noticed[0] if red and noticed else None), last


def try_control(pair):
    function, world = pair
    return pair, judge(function, world, lambda text: text)


def try_mutation(mutation):
    name, world, function, old, new = mutation
    return mutation, judge(function, world, lambda text: damaged(text, function, old, new))


def main():
    chosen = [m for m in MUTATIONS if not sys.argv[1:] or m[0] in sys.argv[1:]]
    wrong = survivors = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for (function, world), (noticed, last) in pool.map(try_control, sorted({(m[2], m[1]) for m in chosen})):
            wrong += not last.endswith(" 0 open")
            print(f"{'green   ' if last.endswith(' 0 open') else 'WRONG   '} undamaged ({function}, {world}): {last}", flush=True)
        for (name, world, function, _, _), (noticed, last) in pool.map(try_mutation, chosen):
            survivors += noticed is None
            print(f"{'red     ' if noticed else 'SURVIVED'} {name} ({function}, {world}): {noticed or last}", flush=True)
    print(f"mutations: {len(chosen) - survivors}/{len(chosen)} red, {wrong} undamaged functions not proved")
    return 1 if survivors or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
