"""What the tests of nxmem audit share."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness
from harness import Setting, compile_so, fits_a_terminal, nxmem, scratch

# A busy machine: the limit is for a hang, not for slowness.
harness.LIMIT_SECONDS = 900

FIXTURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli", "fixtures", "inspected.c")
CLEAN = ["-Wl,-z,relro,-z,now,-z,noexecstack", "-Wl,--build-id=0x0123456789abcdef"]


def clean(name, flags=(), sources=()):
    return compile_so(name, [FIXTURE, *sources], CLEAN + list(flags))


def source(name, text):
    return os.fsdecode(harness.write(name + ".c", text.encode()))


def audit(*args, code=None, env=None):
    """The document of a call, and how it went."""
    out = os.path.join(Setting.scratch, f"audit-{os.getpid()}-{abs(hash(args))}.json")
    options = {"env": {**harness.environment(), **env}} if env else {}
    done = nxmem("audit", "--json", out, *args, **options)
    fits_a_terminal(done.stdout)
    fits_a_terminal(done.stderr)
    if code is not None:
        assert done.returncode == code, f"exit {done.returncode}, need {code}: {done.stdout.decode()} {done.stderr.decode()}"
    with open(out, encoding="utf-8") as file:
        return json.load(file), done


def one(*args, **options):
    """The one file of a document."""
    return audit(*args, **options)[0]["files"][0]


def names(file):
    return {finding["name"] for finding in file["findings"]}


def evidence(file, name):
    return [finding["evidence"] for finding in file["findings"] if finding["name"] == name]


def above_note(file):
    return [f"{f['name']}: {f['evidence']}" for f in file["findings"] if f["level"] != "note"]
