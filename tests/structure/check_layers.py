#!/usr/bin/env python3
"""The tree's rules, checked. Prints TAP.

check_layers.py ROOT [--build FOLDER] [--core libnxmem_core.a] [--host libnxmem.so]...

--build   A configured build: its compile commands and its list of tests are the manifest.
--core    Given where nothing instruments the build; the core is also compiled here by itself.
--host    A shared library of ours: libnxmem, or that of an adapter.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import layers  # noqa: E402

CORE_BUILDS = [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O0"), ("clang", "-O2")]
NO_EXTENSIONS = {"gcc": ["-pedantic-errors"], "clang": ["-pedantic-errors", "-Wgnu", "-Wno-gnu-folding-constant"]}


def read_symbols(files, options=()):
    done = subprocess.run(["nm", *options, *files], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return [(row[-2], row[-1].split("@")[0]) for row in rows if len(row) >= 2 and len(row[-2]) == 1]


def compile_core(root, folder, compiler, options):
    """Object files of the core, or CalledProcessError with the compiler's words."""
    objects = []
    for source in sorted(glob.glob(os.path.join(root, "abi", "src", "*.c"))):
        objects.append(os.path.join(folder, os.path.basename(source) + ".o"))
        command = [compiler, "-std=c11", "-ffreestanding", "-Werror", *options,
                   "-I", os.path.join(root, "abi", "include"), "-c", "-o", objects[-1], source]
        subprocess.run(command, capture_output=True, text=True, check=True)
    return objects


def guarded(name, rule):
    """A rule that cannot be asked is a failure: a tool is missing, or the core does not compile."""
    try:
        return name, list(rule())
    except FileNotFoundError as error:
        return name, [f"{error.filename} is not installed"]
    except subprocess.CalledProcessError as error:
        return name, (error.stderr or "no message").splitlines()[:3]


def include_rows(tree):
    for area in sorted(layers.MAY_SEE):
        yield f"{area} includes nothing it must not see", list(layers.backward_includes(tree, {area}))
    yield "abi includes no system header but stdint.h and stddef.h", list(layers.core_system_includes(tree))
    yield "no plugin includes another's files", list(layers.foreign_plugin_includes(tree))
    yield "the plugin without header includes nothing of ours", list(layers.headerless_plugin_includes(tree))
    yield "every quoted include names a file", list(layers.unresolved_includes(tree))
    yield f"no file is longer than {layers.LINES_MAX} lines", list(layers.long_files(tree))


def core_rows(root):
    for compiler, level in CORE_BUILDS:
        with tempfile.TemporaryDirectory() as folder:
            def symbols(compiler=compiler, level=level, folder=folder):
                return read_symbols(compile_core(root, folder, compiler, [level]))
            yield guarded(f"core by {compiler} {level} calls no library", lambda: layers.missing_symbols(symbols()))
            yield guarded(f"core by {compiler} {level} has no mutable data", lambda: layers.mutable_symbols(symbols()))
    for compiler, options in NO_EXTENSIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            yield guarded(f"core by {compiler} needs no extension", lambda: [] if compile_core(
                root, folder, compiler, options) else ["nothing was compiled"])


def library_rows(core, host):
    if core:
        yield guarded("libnxmem_core.a calls no library", lambda: layers.missing_symbols(read_symbols([core])))
        yield guarded("libnxmem_core.a has no mutable data", lambda: layers.mutable_symbols(read_symbols([core])))
    for library in host:
        yield guarded(f"{os.path.basename(library)} exports only nxmem_ names",
                      lambda library=library: layers.foreign_exports(read_symbols([library], ["-D", "--defined-only"])))


def relative(root, path):
    return os.path.relpath(os.path.realpath(path), os.path.realpath(root))


def compile_commands(build):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        return json.load(file)


def read_compiled(root, build):
    """Sources that the build's targets take."""
    return {relative(root, os.path.join(entry["directory"], entry["file"])) for entry in compile_commands(build)}


def built_programs(build):
    """Names of the test programs and fuzz targets, by the folders that their objects go to."""
    targets = re.findall(r"/CMakeFiles/(\w+)\.dir/", "\n".join(entry["command"] for entry in compile_commands(build)))
    return {target for target in targets if target.startswith(("test_", "fuzz_"))}


def read_tests(build):
    """Every word of every test's command, whether or not the program is built yet."""
    words = []
    for path in glob.glob(os.path.join(build, "**", "CTestTestfile.cmake"), recursive=True):
        with open(path, encoding="utf-8") as file:
            words += [word for line in file if line.startswith("add_test(") for word in re.findall(r'"([^"]*)"', line)]
    return words


def manifest_rows(root, build, tree):
    yield guarded("every source of product, tests and fuzz targets is built",
                  lambda: layers.uncompiled_sources(tree, read_compiled(root, build)))
    yield guarded("every test script is started by CTest", lambda: layers.unregistered_scripts(tree, read_tests(build)))
    yield guarded("every test program and fuzz target is started by CTest",
                  lambda: layers.unregistered_programs(built_programs(build), read_tests(build)))
    yield "every source of the core is in a proof target", list(layers.unproved_sources(tree))


def all_rows(arguments):
    tree = layers.load_tree(arguments.root)
    yield from include_rows(tree)
    yield from core_rows(arguments.root)
    yield from library_rows(arguments.core, arguments.host)
    if arguments.build:
        yield from manifest_rows(arguments.root, arguments.build, tree)


def print_tap(rows):
    failed = count = 0
    for count, (name, complaints) in enumerate(rows, 1):
        print(f"{'not ok' if complaints else 'ok'} {count} - {name}")
        failed += 1 if complaints else 0
        for complaint in complaints:
            print(f"# {complaint}")
    print(f"1..{count}")
    return 1 if failed or not count else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    for option in ("--build", "--core"):
        parser.add_argument(option)
    parser.add_argument("--host", action="append", default=[])
    return print_tap(all_rows(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
