#!/usr/bin/env python3
"""The library's interface is the committed one; a struct that grows in the middle, and a function that goes, are noticed. Prints TAP."""
import shutil
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from tap import ROOT, answer, main, want  # noqa: E402

TOOL = ROOT / "host/packaging/abi.py"


def compare(root):
    return answer([sys.executable, TOOL, "--root", root], timeout=900)


def unchanged():
    code, words = compare(ROOT)
    want(code == 0 and words.endswith("abi: unchanged\n"), words[-3000:])


def altered(path, old, new, named):
    """A copy with one place altered: the comparison says so, and names what it is."""
    def row():
        with tempfile.TemporaryDirectory() as folder:
            for part in ("host/src", "host/policy", "host/include", "abi"):
                shutil.copytree(ROOT / part, Path(folder) / part)
            text = (Path(folder) / path).read_text(encoding="utf-8")
            want(text.count(old) == 1, f"{path} has `{old}` {text.count(old)} times")
            (Path(folder) / path).write_text(text.replace(old, new), encoding="utf-8")
            code, words = compare(folder)
            want(code == 1 and named in words, f"exit code {code}: {words[-2000:]}")
    return row


sys.exit(main([
    ("unchanged against the baseline", unchanged),
    ("a public struct that grows in the middle", altered(
        "host/include/nxmem.h", "  uint64_t live_prefixes;\n", "  uint64_t more;\n  uint64_t live_prefixes;\n", "nxmem_host_counts")),
    ("one of the policy library", altered(
        "host/include/nxmem_policy.h", "  uint64_t file_bytes;\n", "  uint64_t more;\n  uint64_t file_bytes;\n", "nxmem_policy_report")),
    ("a function that is exported no more", altered("host/src/nxmem.map", " nxmem_drain_releases;", "", "nxmem_drain_releases")),
]))
