"""The alarms of check.py, each tripped once: a damaged copy of the core or of the drivers, and what must be said about it. Prints TAP."""
import os
import shutil
import subprocess
import sys
import tempfile

import check

# name, damaged file, what stands there, what stands there instead, entry point, what its row must say.
ROWS = (
    ("size_guard_deleted", "abi/src/prefix.c",
     "  if (size < NXMEM_HEADER_BYTES) return nx_verdict(NXMEM_REASON_SHORT_HEADER, 0u, size, NXMEM_HEADER_BYTES);\n", "",
     "nxmem_read_allocator_unvalidated", "quiet: prefix.c"),
    ("table_guard_one_off", "abi/src/negotiate.c", "if (size < NXMEM_REQUEST_BYTES)", "if (size < NXMEM_REQUEST_BYTES - 1)",
     "nxmem_request_take", "mem_access"),
    ("null_check_deleted", "abi/src/prefix.c",
     "  if (address == 0u) return nx_verdict(NXMEM_REASON_NULL_POINTER, 0u, 0u, 0u);\n", "", "nxmem_request_take", "mem_access"),
    ("read_behind_the_end", "abi/src/status.c", "if (available < 4u || ", "if (available < 3u || ", "nxmem_utf8_length",
     "mem_access"),
    ("index_behind_the_end", "abi/src/completion.c", "if (slot >= count)", "if (slot > count)", "nxmem_settle", "mem_access"),
    ("subtraction_wraps", "abi/src/range.c",
     "  if (offset > size) return nx_verdict(NXMEM_REASON_OFFSET_OUTSIDE, AT_RANGE_OFFSET, offset, size);\n", "",
     "nxmem_check_range", "overflow"),
    ("field_loaded_twice", "abi/src/prefix.c", "  out->struct_size = size;\n",
     "  out->struct_size = NX_LOAD(NxmemAllocatorVtable, src, struct_size);\n", "nxmem_read_allocator_unvalidated",
     "racing: precondition not valid: nxmem_read_allocator_unvalidated calls nx_count_load"),
    ("statement_that_no_path_reaches", "abi/src/prefix.c", "  if (address == 0u) return",
     "  if (address % 8u > 7u) return nx_accept();\n  if (address == 0u) return", "nxmem_check_table_address",
     "statements reached"),
    ("driver_breaks_a_precondition", "proofs/eva/handle.c", "if (slot < UINT32_MAX) (void)", "(void)", "nxmem_handle_make",
     "precondition not valid: eva_nxmem_handle_make calls nxmem_handle_make: nameable"),
    ("driver_deleted", "proofs/eva/range.c", "void eva_nxmem_is_power_of_two(void)", "void no_nxmem_is_power_of_two(void)",
     "nxmem_is_power_of_two", "public function without a driver: nxmem_is_power_of_two"),
    ("driver_silences", "proofs/eva/range.c", "/* eva: -eva-domains octagon */", "/* eva: -eva-stop-at-nth-alarm 1 */",
     "nxmem_check_range", "option that is not for precision alone: eva_nxmem_check_range: -eva-stop-at-nth-alarm"),
)


def damaged_copy(root, folder, path, before, after):
    """The parts of a project that the check reads, with one change; the text to change must be there."""
    shutil.copytree(f"{root}/abi", f"{folder}/abi")
    shutil.copytree(f"{root}/proofs/eva", f"{folder}/proofs/eva")
    with open(f"{folder}/{path}", encoding="utf-8") as file:
        text = file.read()
    if before not in text:
        raise LookupError(f"{path} no longer holds: {before.strip()}")
    with open(f"{folder}/{path}", "w", encoding="utf-8") as file:
        file.write(text.replace(before, after, 1))


def judge(root, jobs, path, before, after, entry, expected):
    """(passed, what was said)"""
    with tempfile.TemporaryDirectory(prefix="nxmem-eva-") as folder:
        try:
            damaged_copy(root, folder, path, before, after)
        except LookupError as error:
            return False, str(error)
        done = subprocess.run([sys.executable, f"{check.HERE}/check.py", "--root", folder, "--drivers", f"{folder}/proofs/eva",
                               "--only", entry, "--jobs", str(jobs)], capture_output=True, text=True)
    said = done.stdout + done.stderr
    return done.returncode == 1 and "not ok" in said and expected in said, said


def judge_exceptions():
    """An exception that nothing meets, and one without a reason."""
    with tempfile.TemporaryDirectory(prefix="nxmem-eva-") as folder:
        path = os.path.join(folder, "exceptions.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write('[[unreached]]\nfunction = "gone"\nstatements = 1\nwhy = ""\n')
        said = "\n".join(check.Exceptions(path).problems())
    return "that nothing meets any more" in said and "without a reason" in said, said


def main(root, jobs):
    tap = check.Tap(len(ROWS) + 1)
    for name, *rest in ROWS:
        passed, said = judge(root, jobs, *rest)
        tap.row(name, [] if passed else [said])
    passed, said = judge_exceptions()
    tap.row("exception_that_nothing_meets", [] if passed else [said])
    print(f"eva: {len(ROWS) + 1} alarms tried, {tap.failed} silent")
    return 1 if tap.failed else 0
