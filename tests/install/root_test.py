#!/usr/bin/env python3
"""The packages in a clean root: installed, built against by find_package and by pkg-config, run, removed. BUILD: the packaging build; CACHE: where the root
is kept. Prints TAP."""
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from root import Root, tarball  # noqa: E402
from tap import ROOT, answer, main, run, want  # noqa: E402

BUILD, CACHE = Path(sys.argv[1]), Path(sys.argv[2])
LIB = f"/usr/lib/{os.uname().machine}-linux-gnu"
SAID = "4096 bytes, unmapped: yes\n"
OURS = ("libnxmem1", "libnxmem-dev", "nxmem-tools", "nxmem-plugins")
here = {}


def debs(*names):
    return " ".join(f"/src/debs/{path.name}" for path in sorted((BUILD / "packages").glob("*.deb"))
                    if not names or path.name.split("_")[0] in names)


def foreign_dependencies():
    """What the packages need of the distribution: found in them, so a new one makes a new root."""
    needed = set()
    for package in sorted((BUILD / "packages").glob("*.deb")):
        for word in run(["dpkg-deb", "--field", package, "Depends"]).split(","):
            needed.add(word.split()[0])
    return sorted(needed - set(OURS))


def make_root():
    CACHE.mkdir(parents=True, exist_ok=True)
    here["root"] = Root(tarball(CACHE, foreign_dependencies()), CACHE)
    for package in (BUILD / "packages").glob("*.deb"):
        here["root"].copy(package, f"debs/{package.name}")
    here["root"].copy(ROOT / "tests/install/consumer", "consumer")
    here["root"].copy(ROOT / "plugins/minimal/nxmem_minimal.c", "nxmem_minimal.c")


def inside(line):
    return run(here["root"].command(line))


def fails(line):
    code, words = answer(here["root"].command(line))
    want(code != 0, f"ended with 0: {words}")
    return words


def nothing_yet():
    fails("command -v nxmem")
    fails("test -e /usr/include/nxmem.h")


def tools_alone():
    want("libnxmem1" in fails(f"dpkg --install {debs('nxmem-tools')} && nxmem --version"), "the dependency is not named")
    inside("dpkg --purge --force-all nxmem-tools")


def install():
    inside(f"dpkg --install {debs()} && dpkg --audit && dpkg --verify {' '.join(OURS)}")


def version():
    want(inside("nxmem --version").startswith("nxmem "), "no version")


def command_runs():
    for plugin in ("minimal", "hostvmm"):
        inside(f"nxmem inspect {LIB}/nxmem/libnxmem_{plugin}.so; nxmem run {LIB}/nxmem/libnxmem_{plugin}.so")


def find_package():
    inside("cmake -S /src/consumer -B /src/built -DNXMEM_MINIMAL=/src/nxmem_minimal.c && cmake --build /src/built")
    want(inside(f"/src/built/consumer_host {LIB}/nxmem/libnxmem_hostvmm.so hostvmm") == SAID, "the host says something else")


def pkg_config():
    inside("cc -std=c11 -Wall -Wextra -Wpedantic -Werror /src/consumer/host.c -o /src/by_pkg_config $(pkg-config --cflags --libs nxmem)")
    plugin = f"$(pkg-config --variable=plugindir nxmem)/libnxmem_minimal.so"
    want(inside(f"/src/by_pkg_config $(realpath {plugin}) minimal") == SAID, "the host says something else")


def own_plugin():
    """A plugin that is built here, against the wire header alone."""
    inside("nxmem run $(find /src/built -name 'libconsumer_plugin.so')")
    inside("cc -std=c11 -shared -fPIC -fvisibility=hidden -Wl,-z,now -o /src/libmine.so /src/nxmem_minimal.c "
           "$(pkg-config --cflags nxmem-plugin) && nxmem conform /src/libmine.so")


def audit():
    """Every file of the plugins' folder is a plugin, and nothing above a note is said of any."""
    words = inside(f"nxmem audit {LIB}/nxmem/*.so")
    want(all(f"libnxmem_{name}.so" in words for name in ("cudavmm", "hostvmm", "minimal")), f"looked at something else: {words[-400:]}")


def policy():
    """As a deployer writes it, where the library looks for it; then by the command, and by a program that is built against the library of policies."""
    plugin, example = f"{LIB}/nxmem/libnxmem_minimal.so", "/usr/share/doc/libnxmem-dev/examples/under_policy.c"
    row = f'{{"path": "{plugin}", "sha256": "\'$(sha256sum <{plugin} | cut -c1-64)\'", "capabilities": ["allocator"], ' \
          '"max_owned_bytes": 1048576, "max_mapped_bytes": "unlimited", "isolation": "none"}'
    inside(f"mkdir -p /etc/nxmem; echo '{{\"version\": 1, \"plugins\": [{row}]}}' >/etc/nxmem/policy.json")
    inside(f"nxmem run --policy /etc/nxmem/policy.json {plugin}")
    want("no row names it" in fails(f"nxmem run --policy /etc/nxmem/policy.json {LIB}/nxmem/libnxmem_hostvmm.so"), "refused for another reason")
    inside(f"cc -std=c11 {example} -o /src/under_policy $(pkg-config --cflags --libs nxmem-policy)")
    for program in ("/src/under_policy", "/src/built/consumer_policy"):
        want(inside(f"{program} /etc/nxmem/policy.json {plugin}").endswith("1048577 bytes: refused\n"), f"{program} says something else")
    inside("rm -r /etc/nxmem")


def cxx():
    want(inside(f"/src/built/consumer_cxx {LIB}/nxmem/libnxmem_hostvmm.so hostvmm").startswith("sum 5000050000, 1 allocation"), "it says something else")


def pages_and_completion():
    """This root has no man: what man looks for. Bash sources the completion, and is offered what the command has."""
    inside("for page in man1/nxmem.1 man3/nxmem.3 man3/nxmem_policy.3 man3/nxmem_policy_load.3 man3/nxmem_host_create.3; do "
           "test -s /usr/share/man/$page || test -s /usr/share/man/$page.gz; done")
    said = inside("bash --norc -euc '. /usr/share/bash-completion/completions/nxmem; COMP_WORDS=(nxmem co); COMP_CWORD=1; _nxmem; echo ${COMPREPLY[@]}; complete -p nxmem'")
    want(said.startswith("conform\n") and "_nxmem" in said, f"offered {said}")


def core_alone():
    want(inside("/src/built/consumer_judge") == "3\n", "the core adds otherwise")
    want("libnxmem.so" not in inside("ldd /src/built/consumer_judge"), "the core needs the library")
    inside("cc -std=c11 /src/consumer/judge.c -o /src/judge $(pkg-config --cflags --libs nxmem-core) && /src/judge")


def remove():
    inside(f"dpkg --purge {' '.join(OURS)}")
    want(inside("find /usr /etc /var/lib -name '*nxmem*' -not -path '/var/lib/dpkg/*'") == "", "something stays")
    nothing_yet()
    fails(f"/src/by_pkg_config {LIB}/nxmem/libnxmem_minimal.so minimal")


def leave():
    if "root" in here:
        here.pop("root").__exit__()


code = 1
try:
    code = main([
        ("a clean root", make_root), ("nothing of ours is in it", nothing_yet),
        ("the command's package without the library's is refused", tools_alone), ("all four install", install),
        ("the command runs", version), ("and drives the installed plugins", command_runs),
        ("a host builds by find_package and runs with an installed plugin", find_package),
        ("a host builds by pkg-config and runs with an installed plugin", pkg_config),
        ("a plugin builds against the wire header and conforms", own_plugin),
        ("the audit of the installed plugins' folder has nothing to say", audit),
        ("a policy in its place: by the command, and by programs against the installed library", policy),
        ("nxmem.hpp under the installed library", cxx), ("manual pages are there, and completion is offered", pages_and_completion),
        ("the core links alone", core_alone), ("purged, nothing stays", remove)])
finally:
    leave()
sys.exit(code)
