"""What a failing run says about its cause: a kind, a line, a stack; and from those a key and a name."""
import dataclasses
import hashlib
import re

from .places import ROOT

FRAMES = 3  # of a stack, that tell causes apart
WORDS = 8  # of a line, that go into a name

# What decides, in the order in which it decides: kind, and the line that says so.
SIGNS = (
    ("oracle", re.compile(r"^ORACLE (?P<line>.*)$", re.MULTILINE)),
    ("driver", re.compile(r"^DRIVER (?P<line>.*)$", re.MULTILINE)),
    ("undefined", re.compile(r"^\S+: runtime error: (?P<line>.*)$", re.MULTILINE)),
    ("leak", re.compile(r"^==\d+==ERROR: Leak\w+: (?P<line>.*)$", re.MULTILINE)),
    ("memory", re.compile(r"^==\d+==\s*ERROR: libFuzzer: (?P<line>out-of-memory)", re.MULTILINE)),
    ("timeout", re.compile(r"^==\d+==\s*ERROR: libFuzzer: (?P<line>timeout)", re.MULTILINE)),
    ("address", re.compile(r"^==\d+==\s*ERROR: \w+Sanitizer: (?P<line>[\w-]+)", re.MULTILINE)),
    ("signal", re.compile(r"^==\d+==\s*ERROR: libFuzzer: (?P<line>.*)$", re.MULTILINE)),
)
FRAME = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ in (?P<function>\S+) (?P<file>/[^:\s]+)(?::(?P<row>\d+))?", re.MULTILINE)
NUMBER = re.compile(r"0x[0-9a-fA-F]+|\b\d+\b")
PRODUCT = ("abi/", "host/", "plugins/")
ORACLES = ("oracle", "driver")  # kinds whose line is the repository's own
NOT_TELLING = ("fuzz/support/harness.c", "fuzz/mains/")


@dataclasses.dataclass(frozen=True)
class Frame:
    function: str
    file: str  # as the repository names it
    row: str

    def __str__(self):
        return f"{self.function} {self.file}:{self.row}"


@dataclasses.dataclass(frozen=True)
class Cause:
    kind: str
    line: str
    stack: tuple  # of Frame, of the repository's code alone, the innermost first

    @property
    def telling(self):
        """The frames that tell causes apart: the product's, or where there are none the harness's."""
        product = [frame for frame in self.stack if frame.file.startswith(PRODUCT)]
        if self.kind == "timeout":  # where a loop was looked at is chance; what called it is not
            return tuple(product[-1:])
        if self.kind in ORACLES:
            return tuple(product[:FRAMES])
        return tuple((product or self.stack)[:FRAMES])

    @property
    def key(self):
        text = "|".join([self.kind, same(self.line), *(f"{f.function}@{f.file}" for f in self.telling)])
        return hashlib.sha1(text.encode()).hexdigest()[:8]

    def name(self, target):
        """As a file is called: target, kind, what happened, and what tells it from others of the same words."""
        words = re.findall(r"[a-zA-Z_]{2,}", NUMBER.sub(" ", self.line))
        if self.kind not in ORACLES and self.telling:
            words += ["in", self.telling[0].function]
        words = [word for word in words if word.lower() != target]
        slug = re.sub(r"[^a-z0-9]+", "-", " ".join([self.kind, *words[:WORDS]]).lower()).strip("-")
        return f"{target}-{slug[:80].rstrip('-')}-{self.key}"


def same(line):
    """The line without what differs between inputs of one cause: its numbers and what it quotes."""
    return re.sub(r"\s+", " ", re.sub(r"'[^']*'|\"[^\"]*\"", "", NUMBER.sub("N", line))).strip()


def _frames(text):
    for found in FRAME.finditer(text):
        path = found["file"]
        if path.startswith(f"{ROOT}/"):
            path = path[len(str(ROOT)) + 1:]
        if path.startswith((*PRODUCT, "fuzz/")) and not path.startswith(NOT_TELLING):
            yield Frame(found["function"], path, found["row"] or "?")


def _first_stack(text, at):
    """Behind the sign that decided; a second stack (who allocated, who freed) does not count."""
    stack = re.search(r"^\s*#0 .*?(?=^\s*$|\Z)", text[at:], re.MULTILINE | re.DOTALL)
    return tuple(_frames(stack[0])) if stack else ()


def cause_of(result):
    """Of a run that failed."""
    for kind, sign in SIGNS:
        found = sign.search(result.text)
        if found:
            return Cause("timeout" if result.timed_out else kind, found["line"].strip(),
                         _first_stack(result.text, found.start()))
    if result.timed_out:
        return Cause("timeout", "no end", ())
    what = f"signal {-result.code}" if result.code < 0 else f"exit code {result.code}"
    return Cause("ended", what, ())
