#!/usr/bin/env python3
"""What is shipped is hardened, exports what it says, and each rule of that can be broken. BUILD: the packaging build. Prints TAP."""
import json
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import hardened  # noqa: E402
from tap import main, run, want  # noqa: E402

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
       ("libraries export nxmem_ alone", library_exports), ("plugins export the contract, and Nxmem beside it", plugin_exports)]
    + [(f"a file that breaks the rule `{rule}` is noticed", tripped(rule, options)) for rule, options in BROKEN]))
