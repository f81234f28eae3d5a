#!/usr/bin/env python3
"""What is installed is built as a packager builds it, packed, and laid out where a system looks. BUILD: where. Prints TAP."""
import os
import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from tap import ROOT, build_packages, main, run, want  # noqa: E402

BUILD = Path(sys.argv[1])
STAGE = BUILD / "stage"
LIB = f"usr/lib/{os.uname().machine}-linux-gnu"
DOC = "usr/share/doc/libnxmem-dev"

# Package, what must be in it. Each installed file is in exactly one.
HOLDS = {
    "libnxmem1": [f"{LIB}/libnxmem.so.1"],
    "libnxmem-dev": [f"{LIB}/libnxmem.so", f"{LIB}/libnxmem_core.a", f"{LIB}/pkgconfig/nxmem.pc",
                     f"{LIB}/pkgconfig/nxmem-plugin.pc", f"{LIB}/pkgconfig/nxmem-core.pc",
                     f"{LIB}/cmake/nxmem/nxmem-config.cmake", "usr/include/nxmem.h", "usr/include/nxmem_memory_abi.h",
                     "usr/include/nxmem_torch.h", "usr/include/nxmem/prefix.h",
                     f"{DOC}/examples/under_policy.c", f"{DOC}/examples/CMakeLists.txt", f"{DOC}/plugins/minimal/nxmem_minimal.c"],
    "nxmem-tools": ["usr/bin/nxmem"],
    "nxmem-plugins": [f"{LIB}/nxmem/libnxmem_{name}.so" for name in ("minimal", "hostvmm", "cudavmm")] + [f"{LIB}/nxmem/adapters/libnxmem_torch.so"],
}


def packages():
    return {path.name.split("_")[0]: path for path in sorted((BUILD / "packages").glob("*.deb"))}


def contents(package):
    """Files and links of a package, without ./ before them."""
    lines = run(["dpkg-deb", "--contents", package]).splitlines()
    return {line.split()[5][2:] for line in lines if not line.startswith("d")}


def staged():
    return {str(path.relative_to(STAGE)) for path in STAGE.rglob("*") if path.is_symlink() or path.is_file()}


def builds():
    build_packages(ROOT, BUILD)


def complete():
    found = packages()
    want(sorted(found) == sorted(HOLDS), f"packages: {sorted(found)}")
    for name, files in HOLDS.items():
        missing = set(files + [f"usr/share/doc/{name}/copyright"]) - contents(found[name])
        want(not missing, f"{name} lacks {sorted(missing)}")


def each_in_one():
    held = [path for package in packages().values() for path in contents(package)]
    want(len(held) == len(set(held)), "a file is in two packages")
    want(set(held) == staged(), f"packed or installed, not both: {sorted(set(held) ^ staged())[:10]}")


def same_bytes():
    """Whether by `cmake --install` or by a package: the packing installs a second time, to a prefix of its own."""
    for package in packages().values():
        with tempfile.TemporaryDirectory() as folder:
            run(["dpkg-deb", "--extract", package, folder])
            files = [path for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink()]
            other = [path.name for path in files if path.read_bytes() != (STAGE / path.relative_to(folder)).read_bytes()]
            want(files and not other, f"{package.name} packs another {other}")


def linked():
    """Documents that are installed, and what they send a reader to."""
    for page in STAGE.glob("usr/share/doc/*/**/*.md"):
        targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")) if "://" not in target]
        missing = [target for target in targets if not (page.parent / target).exists()]
        want(targets and not missing, f"{page.name} leads to {missing}")
    want((STAGE / DOC / "examples/README.md").is_file(), "no document is installed")


def public_headers():
    """Every public header is installed, under the name it is included by."""
    for folder in ("abi/include", "host/include", "plugins/vmm/include", "host/adapters/torch/include"):
        for header in (ROOT / folder).rglob("*.h*"):
            name = header.relative_to(ROOT / folder)
            want((STAGE / "usr/include" / name).read_bytes() == header.read_bytes(), f"{name} is not installed as it is")


def nothing_of_the_tests():
    strangers = [path for path in staged() if any(word in path for word in ("scripted", "_fault_", "test", "fuzz", "bench"))]
    want(not strangers, f"installed: {strangers}")


def no_build_paths():
    for path in staged():
        full = STAGE / path
        if full.is_symlink():
            continue
        for place in (str(ROOT), str(BUILD)):
            want(place.encode() not in full.read_bytes(), f"{path} names {place}")


def declared():
    """Whom a package needs, and who made it."""
    needs = {"libnxmem1": ["libc6"], "libnxmem-dev": ["libnxmem1 (= "], "nxmem-plugins": ["libnxmem1 (= ", "libc6"],
             "nxmem-tools": ["libnxmem1 (= ", "libelf1", "libjansson4", "libc6"]}
    for name, package in packages().items():
        depends = run(["dpkg-deb", "--field", package, "Depends"])
        want(all(word in depends for word in needs[name]), f"{name} depends on {depends}")
        want("copyright-format/1.0" in (STAGE / f"usr/share/doc/{name}/copyright").read_text(encoding="utf-8"), name)
    shlibs = run(["dpkg-deb", "--info", packages()["libnxmem1"], "shlibs"])
    want(shlibs.startswith("libnxmem 1 libnxmem1 "), shlibs)


sys.exit(main([
    ("built, staged and packed", builds),
    ("four packages, each with what it is for", complete),
    ("what is installed is packed once", each_in_one),
    ("what is packed is what is installed, byte for byte", same_bytes),
    ("what an installed document leads to is installed", linked),
    ("every public header is installed as it is", public_headers),
    ("nothing of the tests is installed", nothing_of_the_tests),
    ("no path of the build is in a file", no_build_paths),
    ("dependencies, licence, and the library's package", declared),
]))
