"""What a shipped ELF file must have, by readelf: each rule is a function that says what is amiss with the facts of one file, or None."""
import re

from tap import run

# At most so many marks are in what the C library and the compiler start and end a file with.
CRT_MARKS = 2


class Facts:
    """One file, as readelf shows it."""

    def __init__(self, path):
        self.name, self.path = path.name, path
        self.header = run(["readelf", "-hW", path])
        self.segments = run(["readelf", "-lW", path])
        self.dynamic = run(["readelf", "-dW", path])
        self.notes = run(["readelf", "-nW", path])
        rows = [line.split() for line in run(["readelf", "--dyn-syms", "-W", path]).splitlines()]
        rows = [row for row in rows if len(row) > 7 and re.fullmatch(r"\d+:", row[0])]
        self.undefined = {row[7].split("@")[0] for row in rows if row[6] == "UND"}
        self.exported = {row[7].split("@")[0] for row in rows if row[6] not in ("UND", "ABS")}
        self.entries = {int(row[1], 16) for row in rows if row[6] not in ("UND", "ABS") and row[3] == "FUNC"}
        self.sections = run(["readelf", "-SW", path])


def stack(facts):
    line = re.search(r"GNU_STACK.* (R\s?W?\s?E?)\s+0x", facts.segments)
    return None if line and "E" not in line.group(1) else "its stack may be executed"


def relro(facts):
    return None if "GNU_RELRO" in facts.segments else "no RELRO"


def bound(facts):
    return None if re.search(r"FLAGS_1.*\bNOW\b", facts.dynamic) else "bound lazily"


def text(facts):
    return "relocates its text" if "TEXTREL" in facts.dynamic else None


def writable_code(facts):
    return "a segment is writable and executable" if re.search(r"LOAD .* RWE ", facts.segments) else None


def path(facts):
    return "has a search path" if re.search(r"\((RPATH|RUNPATH)\)", facts.dynamic) else None


def independent(facts):
    return None if re.search(r"Type:\s+DYN", facts.header) else "not position independent"


def branches(facts):
    """Indirect branches land on marks: x86 only. Not the note for all of a file: the C library's own start files may lack it."""
    if "X86-64" not in facts.header:
        return None
    code = run(["objdump", "-d", "--no-show-raw-insn", facts.path])
    marked = {int(address, 16) for address in re.findall(r"^\s*([0-9a-f]+):\s+endbr64", code, re.MULTILINE)}
    return None if len(marked) > CRT_MARKS and facts.entries <= marked else f"{len(marked)} branch targets are marked"


def canary(facts):
    return None if "__stack_chk_fail" in facts.undefined else "no stack protector"


def fortified(facts):
    return None if any(name.endswith("_chk") and name != "__stack_chk_fail" for name in facts.undefined) \
        else "no call is fortified"


def build_id(facts):
    return None if "Build ID" in facts.notes else "no build-id"


def stripped(facts):
    return "holds a symbol table for debuggers" if ".symtab" in facts.sections else None


RULES = [stack, relro, bound, text, writable_code, path, independent, branches, canary, build_id, stripped]


def complaints(facts, rules=None):
    return [f"{facts.name}: {found}" for found in (rule(facts) for rule in rules or RULES) if found]
