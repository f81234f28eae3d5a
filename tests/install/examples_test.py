#!/usr/bin/env python3
"""The examples as a stranger builds them: by their own CMakeLists.txt against a prefix that nxmem was installed to, and each is run; and what pkg-config says of that
prefix, for shared and for static linking. BUILD: the packaging build. Prints TAP."""
import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from tap import ROOT, answer, main, run, want  # noqa: E402

BUILD = Path(sys.argv[1])
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.c*"))
here = {}
# What the developer's own shell says must not help.
CLEAN = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}


def place(name):
    return Path(here["folder"].name).resolve() / name


def lib():
    return next(path.parent for path in place("prefix").rglob("libnxmem.so"))


def plugin(name):
    return lib() / f"nxmem/libnxmem_{name}.so"


def installed():
    here["folder"] = tempfile.TemporaryDirectory(prefix="nxmem-prefix-")
    run(["cmake", "--install", BUILD, "--prefix", place("prefix")])
    want(plugin("minimal").is_file() and (place("prefix") / "bin/nxmem").is_file(), "not under the prefix")


def configured():
    """Outside of our tree, or it might find what is not installed."""
    shutil.copytree(ROOT / "examples", place("examples"))
    run(["cmake", "-S", place("examples"), "-B", place("built"), f"-DCMAKE_PREFIX_PATH={place('prefix')}", "-DCMAKE_BUILD_TYPE=Release",
         "-DCMAKE_C_FLAGS=-Wall -Wextra -Wpedantic -Werror", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror"], env=CLEAN)
    run(["cmake", "--build", place("built")], env=CLEAN)
    made = sorted(name for name in EXAMPLES if os.access(place("built") / name, os.X_OK))
    want(made == EXAMPLES and len(made) >= 4, f"built {made} of {EXAMPLES}")


def says(name, words, part):
    return lambda: want(part in run([place("built") / name, *[word() if callable(word) else word for word in words]], env=CLEAN), f"no `{part}`")


def under_policy():
    """Where nobody else can write, with the plugin as it was installed."""
    mine, policy = place("pinned.so"), place("policy.json")
    shutil.copyfile(plugin("minimal"), mine)
    mine.chmod(0o644)
    policy.write_text(json.dumps({"version": 1, "plugins": [
        {"path": str(mine), "sha256": hashlib.sha256(mine.read_bytes()).hexdigest(), "capabilities": ["allocator"], "max_owned_bytes": 4096,
         "max_mapped_bytes": "unlimited", "isolation": "none"}]}), encoding="utf-8")
    policy.chmod(0o644)
    want(run([place("built/under_policy"), policy, mine], env=CLEAN).endswith("4097 bytes: refused\n"), "it says something else")


def each_run():
    """No example without a row here."""
    want({name for name, *_ in SAYS} | {"under_policy"} == set(EXAMPLES), f"{EXAMPLES}")


SAYS = [("smallest_host", [lambda: plugin("hostvmm")], "4096 bytes from hostvmm\n"),
        ("refused_unload", [lambda: plugin("minimal")], "nothing: unmapped\n"),
        ("pmr_vector", [lambda: plugin("hostvmm"), "hostvmm"], "afterwards 0 allocations\n")]


# ---- pkg-config ------------------------------------------------------------------------------------------------------


def flags(*words):
    return run(["pkg-config", *words], env={**CLEAN, "PKG_CONFIG_PATH": str(lib() / "pkgconfig")}).split()


def compiled(source, out, *options):
    run(["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", source, "-o", place(out), *options], env=CLEAN)
    return place(out)


def found_there():
    """Every file leads into the prefix, and names a version."""
    for path in sorted((lib() / "pkgconfig").glob("*.pc")):
        want(flags("--modversion", path.stem)[0][0].isdigit(), f"{path.stem}: no version")
        for word in flags("--cflags", "--libs", path.stem):
            want(not word.startswith(("-I", "-L")) or str(place("prefix")) in os.path.realpath(word[2:]), f"{path.stem}: {word}")


def shared():
    rpath = f"-Wl,-rpath,{lib()}"
    host = compiled(ROOT / "examples/smallest_host.c", "by_pc", *flags("--cflags", "--libs", "nxmem"), rpath)
    want(run([host, plugin("minimal")], env=CLEAN) == "4096 bytes from minimal\n", "it says something else")
    compiled(ROOT / "examples/under_policy.c", "policy_by_pc", *flags("--cflags", "--libs", "nxmem-policy"), rpath)


def static():
    """The core is an archive: a program with nothing shared in it at all. What is shared alone says so: no archive, so nothing private to link."""
    judge = compiled(ROOT / "tests/install/consumer/judge.c", "judge", "-static", *flags("--static", "--cflags", "--libs", "nxmem-core"))
    want(run([judge], env=CLEAN) == "3\n", "the core adds otherwise")
    want("NEEDED" not in run(["readelf", "-dW", judge]), "it needs a library")
    for name in ("nxmem", "nxmem-policy"):
        want(flags("--static", "--libs", name) == flags("--libs", name), f"{name}: more is linked than there is")
        host = compiled(ROOT / "examples/smallest_host.c", f"static_{name}", *flags("--static", "--cflags", "--libs", name), f"-Wl,-rpath,{lib()}")
        want(run([host, plugin("minimal")], env=CLEAN) == "4096 bytes from minimal\n", "it says something else")


def versions():
    """A host that asks for another minor version is refused when it is configured, not when it runs."""
    consumer = place("asks")
    consumer.mkdir()
    for version, good in (("0.1", True), ("0.2", False), ("1.0", False)):
        (consumer / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.25)\nproject(asks LANGUAGES C)\nfind_package(nxmem {version} REQUIRED)\n", encoding="utf-8")
        code, words = answer(["cmake", "-S", consumer, "-B", place(f"asked-{version}"), f"-DCMAKE_PREFIX_PATH={place('prefix')}"], env=CLEAN)
        want((code == 0) == good, f"{version}: exit code {code}: {words[-400:]}")


def leave():
    if "folder" in here:
        here.pop("folder").cleanup()


try:
    result = main([("installed to a prefix", installed), ("the examples configure and build against it", configured)]
                  + [(f"{name} says what it is there to show", says(name, words, part)) for name, words, part in SAYS]
                  + [("under_policy says what it is there to show", under_policy), ("every example is run", each_run),
                     ("pkg-config leads into the prefix", found_there), ("pkg-config, shared", shared), ("pkg-config, static", static),
                     ("find_package looks at the version", versions)])
finally:
    leave()
sys.exit(result)
