#!/usr/bin/env python3
"""cuda_api.h against the toolkit's cuda.h: equal as it is, and any line of it spoiled is noticed. Without a cuda.h its rows are not run."""
import argparse
import os
import re
import subprocess
import sys
import tempfile

SPOILS = [
    ("a code", "NX_CUDA_NOT_READY = 600", "NX_CUDA_NOT_READY = 601"),
    ("an attribute", "NX_CUDA_ATTRIBUTE_VMM = 102", "NX_CUDA_ATTRIBUTE_VMM = 103"),
    ("an access flag", "NX_CUDA_ACCESS_READ = 1", "NX_CUDA_ACCESS_READ = 2"),
    ("a field's size", "unsigned short usage;", "unsigned char usage;"),
    ("a field's place", "unsigned int requested_handle_types;\n  nx_cuda_location location;",
     "nx_cuda_location location;\n  unsigned int requested_handle_types;"),
    ("a record's size", "unsigned char reserved[4];", "unsigned char reserved[12];"),
    ("a parameter's type", "cuMemRelease, (nx_cuda_handle handle)", "cuMemRelease, (unsigned int handle)"),
    ("a parameter too few", "(nx_cuda_ptr address, size_t bytes, size_t offset,", "(nx_cuda_ptr address, size_t bytes,"),
    ("a status of cuGetProcAddress", "int version, uint64_t flags,\n", "int version, uint32_t flags,\n"),
]


def compiles(compiler, include, folder, header):
    check = os.path.join(folder, "cuda_check.c")
    with open(os.path.join(folder, "cuda_api.h"), "w", encoding="utf-8") as file:
        file.write(header)
    command = compiler.split() + ["-std=c11", "-Wall", "-Wextra", "-Werror", "-isystem", include, "-fsyntax-only", check]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True, help="folder of cuda_api.h and cuda_check.c")
    parser.add_argument("--include", default="", help="folder of cuda.h")
    options = parser.parse_args()
    if not os.path.exists(os.path.join(options.include, "cuda.h")) or not options.include:
        print("1..1\nok 1 - cuda_api.h against the toolkit's cuda.h # SKIP no cuda.h on this machine")
        return 0
    with open(os.path.join(options.source, "cuda_api.h"), encoding="utf-8") as file:
        header = file.read()
    with open(os.path.join(options.source, "cuda_check.c"), encoding="utf-8") as file:
        check = file.read()
    rows, failed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "cuda_check.c"), "w", encoding="utf-8") as file:
            file.write(check)
        for compiler in ("gcc", "clang"):
            done = compiles(compiler, options.include, folder, header)
            rows.append((f"{compiler}: equal", done.returncode == 0, done.stderr[-400:]))
            for name, line, spoiled in SPOILS:
                if not re.search(re.escape(line), header):
                    rows.append((f"{compiler}: {name}", False, "the line is not there any more"))
                    continue
                done = compiles(compiler, options.include, folder, header.replace(line, spoiled))
                rows.append((f"{compiler}: {name} spoiled is noticed", done.returncode != 0, "it compiles"))
    for number, (name, holds, why) in enumerate(rows, 1):
        failed += not holds
        print(f"{'ok' if holds else 'not ok'} {number} - {name}" + ("" if holds else f": {why}"))
    print(f"1..{len(rows)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
