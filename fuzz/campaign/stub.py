"""A finding as a test: its input and, beside it, what it is, in fuzz/found/TARGET/."""
import json

from .corpus import whole
from .places import ROOT, inputs_in

AGAIN = {
    "replay": "cmake --preset asan && cmake --build build/asan --target fuzz_{target} && "
              "build/asan/bin/fuzz_{target} --in-process {path}",
    "libfuzzer": "cmake --preset libfuzzer && cmake --build build/libfuzzer --target fuzz_{target} && "
                 "build/libfuzzer/bin/fuzz_{target} -timeout=60 -rss_limit_mb=2048 {path}",
    "contract": "fuzz/contract/build.sh --root . --out build/contract --fuzzer && "
                "ASAN_OPTIONS=allocator_may_return_null=1 build/contract/contract_fuzz {path}",
    "dev": "cmake --preset dev && cmake --build build/dev --target fuzz_{target} && "
           "build/dev/bin/fuzz_{target} --in-process {path}",
    "afl": "cmake --preset afl && cmake --build build/afl --target fuzz_{target} && build/afl/bin/fuzz_{target} < {path}",
}
PRESETS = {"replay": "asan"}  # that is not called as the program that shows it


def again(finding, path):
    return AGAIN[finding.by].format(target=finding.target, path=path)


def _row(name, value):
    return f"{name} = {json.dumps(value, ensure_ascii=True)}\n"


def note(finding, path):
    return ("# Fails as long as the fault is there. Fix the kind of fault, give it an ordinary test, and say in\n"
            "# fuzz/found/README.md what was wrong; the input stays.\n"
            + _row("target", finding.target) + _row("engine", finding.engine) + _row("kind", finding.cause.kind)
            + _row("line", finding.cause.line) + _row("stack", [str(frame) for frame in finding.cause.stack])
            + _row("key", finding.cause.key) + _row("bytes", len(finding.data))
            + _row("bytes_as_found", finding.bytes_as_found) + _row("preset", PRESETS.get(finding.by, finding.by))
            + _row("again", again(finding, path)))


def write(finding, folder):
    """Returns the input's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{finding.name}.bin"
    for one, data in ((path, finding.data), (path.with_suffix(".toml"), note(finding, path.relative_to(ROOT)).encode())):
        with whole(one) as beside:
            beside.write_bytes(data)
    return path


def known(folder, key, data):
    """The file of the same cause, or of the same bytes, that is there already; None where there is none."""
    for path in inputs_in(folder):
        note = path.with_suffix(".toml")  # whatever somebody renamed it to
        if path.read_bytes() == data or note.exists() and f'key = "{key}"' in note.read_text():
            return path
    return None
