#!/usr/bin/env python3
"""What is shipped is hardened, exports what it says, and each rule of that can be broken. BUILD: the packaging build. Prints TAP."""
import json
import os
import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import hardened  # noqa: E402
from tap import answer, main, run, want  # noqa: E402

BUILD = Path(sys.argv[1])
STAGE = BUILD / "stage"
CONTRACT = {"NxmemNegotiate", "NxmemCreateAllocatorFactories", "NxmemQueryUnloadReadiness"}
FLAGS = ["-fstack-protector-strong", "-fstack-clash-protection", "-fcf-protection", "-D_FORTIFY_SOURCE=2", "-fPI"]


def binaries():
    """ELF files that are loaded, by name."""
    files = [path for path in STAGE.rglob("*") if path.is_file() and not path.is_symlink()]
    return {path.name: path for path in files if path.read_bytes()[:4] == b"\x7fELF"}


def judged(name):
    return lambda: want(not (found := hardened.complaints(hardened.Facts(binaries()[name]))), "\n".join(found))


def all_there():
    found = sorted(name.split(".")[0] for name in binaries())
    want(found == ["libnxmem", "libnxmem_cudavmm", "libnxmem_hostvmm", "libnxmem_minimal", "libnxmem_policy", "libnxmem_torch", "nxmem"], f"{found}")


def compiled():
    """What no mark in a file shows: the flags that each source was compiled with."""
    if "x86_64" not in run(["uname", "-m"]):
        FLAGS.remove("-fcf-protection")
    for entry in json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8")):
        missing = [flag for flag in FLAGS if flag not in entry["command"]]
        want(not missing, f"{entry['file']}: without {missing}")


def library_exports():
    for name in [name for name in binaries() if name.startswith(("libnxmem.so.", "libnxmem_policy.so.", "libnxmem_torch.so"))]:
        facts = hardened.Facts(binaries()[name])
        foreign = [symbol for symbol in facts.exported if not symbol.startswith("nxmem_")]
        want(facts.exported and not foreign, f"{name} exports {foreign}")


def declared(headers):
    """Functions that the installed headers declare for others: name by name, without comments."""
    names = set()
    for header in headers:
        text = re.sub(r"/\*.*?\*/", "", (STAGE / "usr/include" / header).read_text(encoding="utf-8"), flags=re.DOTALL)
        names |= set(re.findall(r"\b(nxmem_\w+)\s*\((?!\*)[^;{]*?\)\s*;", text))
    return names


# Library: its soname, its version node, the headers that declare what it exports. What nxmem_policy.h declares is in both, by its own words.
INTERFACES = {"libnxmem": ("libnxmem.so.1", "NXMEM_1", ["nxmem.h", "nxmem_capabilities.h", "nxmem_registry.h", "nxmem_manager.h"]),
              "libnxmem_policy": ("libnxmem_policy.so.1", "NXMEM_POLICY_1", ["nxmem_policy.h"])}
IN_LIBNXMEM = {"nxmem_plugin_open_sealed"}


def exact_exports():
    for library, (_, _, headers) in INTERFACES.items():
        exported = hardened.Facts(next(path for name, path in binaries().items() if name.startswith(f"{library}.so."))).exported
        wanted = declared(headers)
        wanted = wanted | IN_LIBNXMEM if library == "libnxmem" else wanted - IN_LIBNXMEM
        want(len(wanted) >= 5 and exported == wanted, f"{library}: exported alone {sorted(exported - wanted)}, declared alone {sorted(wanted - exported)}")


def sonames():
    for library, (soname, node, _) in INTERFACES.items():
        path = next(path for name, path in binaries().items() if name.startswith(f"{library}.so."))
        want(f"Library soname: [{soname}]" in run(["readelf", "-dW", path]), f"{path.name}: another soname")
        rows = [line.split()[-1] for line in run(["nm", "-D", "--with-symbol-versions", "--defined-only", path]).splitlines()]
        strangers = [row for row in rows if not row.endswith(f"@@{node}") and row.split("@")[0] != node]
        want(rows and not strangers, f"{path.name}: without {node}: {strangers[:5]}")
        links = [name for name in (soname, f"{library}.so") if not (path.parent / name).is_symlink() or (path.parent / name).resolve() != path.resolve()]
        want(not links, f"{path.name}: no link {links}")


AUDITED = ("cudavmm", "hostvmm", "minimal")


def audited():
    """By the command that is shipped beside them, as it looks at anybody's plugins: all of the folder, and nothing above a note. The files themselves, not who owns the
    folder they were staged in."""
    folder = binaries()["libnxmem_minimal.so"].parent
    out = BUILD / "audit.json"
    code, words = answer([binaries()["nxmem"], "audit", f"--json={out}", *sorted(folder.glob("*.so"))],
                         env={**os.environ, "LD_LIBRARY_PATH": str(folder.parent)})
    files = json.loads(out.read_text(encoding="utf-8"))["files"]
    out.unlink()
    want([Path(row["file"]).name for row in files] == [f"libnxmem_{name}.so" for name in AUDITED], f"the folder holds {[row['file'] for row in files]}")
    found = [(row["result"], row["errors"], row["warnings"]) for row in files]
    want(code == 0 and set(found) == {("ok", 0, 0)}, f"exit code {code}: {found}: {words[-600:]}")


def plugin_exports():
    for name in ("libnxmem_minimal.so", "libnxmem_hostvmm.so", "libnxmem_cudavmm.so"):
        exported = hardened.Facts(binaries()[name]).exported
        want(CONTRACT <= exported and all(symbol.startswith("Nxmem") for symbol in exported), f"{name}: {exported}")


def fortified():
    names = [name for name in binaries() if name == "nxmem" or name.startswith("libnxmem.so.")]
    found = [hardened.fortified(hardened.Facts(binaries()[name])) for name in names]
    want(found == [None, None], f"{names}: {found}")


# Rule, how to build a file that breaks it and nothing else that matters here.
BROKEN = [
    ("stack", ["-shared", "-fPIC", "-Wl,-z,execstack"]), ("relro", ["-shared", "-fPIC", "-Wl,-z,norelro"]),
    ("bound", ["-shared", "-fPIC", "-Wl,-z,lazy"]), ("path", ["-shared", "-fPIC", "-Wl,-rpath,/somewhere"]),
    ("independent", ["-no-pie", "-fno-pie"]), ("branches", ["-shared", "-fPIC", "-fcf-protection=none"]),
    ("canary", ["-shared", "-fPIC", "-fno-stack-protector"]), ("build_id", ["-shared", "-fPIC", "-Wl,--build-id=none"]),
    ("stripped", ["-shared", "-fPIC", "-fvisibility=hidden"]),
    ("text", ["-shared", "-fno-pic", "-mcmodel=large", "-Wl,-z,notext"]),
    ("writable_code", ["-shared", "-fPIC", "-DWRITABLE_CODE"]),
]
SOURCE = r"""
#ifdef WRITABLE_CODE
__asm__(".section .both,\"awx\"\n.byte 0\n.text");
#endif
extern int puts(const char *);
int value = 1, *at = &value;
int main(void) { return puts("x") + *at; }
"""


def tripped(rule, options):
    def row():
        with tempfile.TemporaryDirectory() as folder:
            source, out = Path(folder) / "one.c", Path(folder) / "one"
            source.write_text(SOURCE, encoding="utf-8")
            run(["gcc", "-O1", *options, "-o", out, source])
            want(hardened.complaints(hardened.Facts(out), [getattr(hardened, rule)]), "no complaint")
    return row


sys.exit(main(
    [("seven files are loaded", all_there)]
    + [(f"{name} is hardened", judged(name)) for name in sorted(binaries())]
    + [("the library and the command call fortified functions", fortified),
       ("every source is compiled with every flag", compiled),
       ("libraries export nxmem_ alone", library_exports), ("plugins export the contract, and Nxmem beside it", plugin_exports),
       ("what the libraries export is what their headers declare", exact_exports), ("sonames, version nodes, links", sonames),
       ("the shipped plugins, by the shipped audit", audited)]
    + [(f"a file that breaks the rule `{rule}` is noticed", tripped(rule, options)) for rule, options in BROKEN]))
