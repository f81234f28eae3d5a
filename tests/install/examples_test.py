#!/usr/bin/env python3
"""The examples as a stranger builds them: by their own CMakeLists.txt against a prefix that nxmem was installed to, and each is run; and what pkg-config says of that
prefix, for shared and for static linking. BUILD: the packaging build. Prints TAP."""
import hashlib
import json
import os
import re
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
    """As they are installed, and outside of our tree, or it might find what is not installed."""
    shutil.copytree(place("prefix") / "share/doc/libnxmem-dev", place("documents"))
    run(["cmake", "-S", place("documents/examples"), "-B", place("built"), f"-DCMAKE_PREFIX_PATH={place('prefix')}", "-DCMAKE_BUILD_TYPE=Release",
         "-DCMAKE_C_FLAGS=-Wall -Wextra -Wpedantic -Werror", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror"], env=CLEAN)
    run(["cmake", "--build", place("built")], env=CLEAN)
    made = sorted(name for name in EXAMPLES if os.access(place("built") / name, os.X_OK))
    want(made == EXAMPLES and len(made) >= 4, f"built {made} of {EXAMPLES}")


def own_plugin():
    """The smallest plugin, from the source that is installed beside the examples."""
    built = next(place("built").glob("*nxmem_minimal.so"))
    want(run([place("built/smallest_host"), built], env=CLEAN) == "4096 bytes from minimal\n", "it says something else")


def command():
    """In a prefix that no loader knows: the command, the adapter, and what each needs, with nothing in the environment."""
    want(run([place("prefix/bin/nxmem"), "--version"], env=CLEAN).startswith("nxmem "), "no version")
    run([place("prefix/bin/nxmem"), "run", plugin("hostvmm")], env=CLEAN)
    for path in (place("prefix/bin/nxmem"), next(lib().glob("libnxmem_policy.so.1")), lib() / "nxmem/adapters/libnxmem_torch.so"):
        found = [line.split()[2] for line in run(["ldd", path], env=CLEAN).splitlines() if line.split()[0].startswith("libnxmem")]
        want(found and all(os.path.realpath(file).startswith(str(lib())) for file in found), f"{path.name} finds {found}")


def search_paths():
    """Relative to each file, one part, never an empty one; and the plugins need none. What a prefix /usr, or its picture elsewhere, gets has none at all."""
    run(["cmake", "--install", BUILD, "--prefix", place("picture/usr")])
    for folder, allowed in (("prefix", r"\$ORIGIN(/[^:]+)?"), ("picture/usr", "none")):
        files = [path for path in place(folder).rglob("*") if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"]
        paths = {path.name: word for path in files for word in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", run(["readelf", "-dW", path]))}
        want(len(files) >= 7 and all(re.fullmatch(allowed, word) for word in paths.values()), f"{folder}: {paths}")
        want(len(paths) == (3 if folder == "prefix" else 0), f"{folder}: {paths}")


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
    rpath = f"-Wl,-rpath,{flags('--variable=libdir', 'nxmem')[0]}"
    host = compiled(ROOT / "examples/smallest_host.c", "by_pc", *flags("--cflags", "--libs", "nxmem"), rpath)
    want(run([host, plugin("minimal")], env=CLEAN) == "4096 bytes from minimal\n", "it says something else")
    policy = compiled(ROOT / "examples/under_policy.c", "policy_by_pc", *flags("--cflags", "--libs", "nxmem-policy"), rpath)
    want(answer([policy], env=CLEAN)[0] == 2, "it does not start")
    for name in ("plugindir", "adapterdir"):
        want(Path(flags(f"--variable={name}", "nxmem")[0]).is_dir(), f"{name} leads nowhere")


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
    result = main([("installed to a prefix", installed), ("its command and libraries find each other", command),
                   ("by paths relative to themselves, and by none in a system's prefix", search_paths),
                   ("the examples configure and build against it", configured), ("the smallest plugin among them, under the smallest host", own_plugin)]
                  + [(f"{name} says what it is there to show", says(name, words, part)) for name, words, part in SAYS]
                  + [("under_policy says what it is there to show", under_policy), ("every example is run", each_run),
                     ("pkg-config leads into the prefix", found_there), ("pkg-config, shared", shared), ("pkg-config, static", static),
                     ("find_package looks at the version", versions)])
finally:
    leave()
sys.exit(result)
