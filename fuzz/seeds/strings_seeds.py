"""Seeds of the target strings: repeats, result, status code, claimed length, split, then the text (targets/strings.c)."""
import pathlib
import re
import struct

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

PIECES = {
    "plain": b"/lib/libplugin.so", "escape": b"\x1b[2J\x1b]0;title\x07", "controls": bytes(range(1, 32)) + b"\x7f",
    "c1": "\u0080\u009b\u009f\u00a0".encode(), "backslash": b"\\x41\\\\n", "overlong": b"\xc0\xaf\xe0\x80\xaf",
    "surrogate": b"\xed\xa0\x80", "above_last": b"\xf4\x90\x80\x80\xff", "umlaut": "\u00e4\u00f6".encode(),
    "euro": "\u20ac".encode(), "smile": "\U0001F600".encode(), "cut": b"a\xf0\x9f\x98", "replacement": "\ufffd".encode(),
    "nul": b"before\0behind", "dollar": b"/lib/$ORIGIN/x", "percent": b"%s%n%d", "lines": b"one\r\ntwo\tthree\n", "empty": b"",
}


def case(text, repeats=1, result=0, code=0, claimed=0, split=None):
    return struct.pack("<BBIIH", repeats, result, code, claimed, len(text) if split is None else split) + text


def seeds():
    for name, piece in PIECES.items():
        yield f"path_{name}", case(piece)
        yield f"message_{name}", case(b"/p" + piece, code=8, claimed=len(piece), split=2)
        yield f"long_{name}", case((piece * 700)[:700], repeats=15)
    for result in range(16):
        yield f"result_{result}", case(b"x" * 600 + b"m" * 90, result=result, code=result, claimed=2**32 - 1, split=600)
    for length in (509, 510, 511, 512, 513):
        yield f"half_a_line_{length}", case("z".encode() * (length - 2) + "\u00e4".encode() + b"tail", code=1, claimed=9)
    for repeats, length in ((6, 682), (6, 683), (8, 512), (10, 410)):
        yield f"around_the_cut_{repeats}_{length}", case(b"\x1bab"[: 3] * (length // 3) + b"c" * (length % 3), repeats=repeats)
    yield "tier_without_a_name", case(b"", code=3, claimed=2**32 - 1)
    yield from verdicts()


def constants(header, prefix):
    """Name: number, of an enumeration whose numbers are given or follow each other."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / header).read_text(encoding="utf-8"), flags=re.S)
    number = -1
    for name, given in re.findall(rf"\b({prefix}\w+)\s*(?:=\s*(\d+))?u?\s*[,}}]", text):
        number = int(given) if given else number + 1
        yield name.removeprefix(prefix).lower(), number


def verdict(reason, record=0, field=0, found=5, needed=7, result=0):
    return case(struct.pack("<QQ", found, needed) + b" p", code=reason, claimed=field << 16 | below(record, field), split=18, result=result)


def below(record, field):
    """The low half that, with this field in the high one, means this record."""
    return next(low for low in range(RECORDS) if (field << 16 | low) % RECORDS == record)


RECORDS = 11


def verdicts():
    """Each reason by its own name; each record's fields by where they are; each result that there is a name for."""
    for name, reason in constants("abi/include/nxmem/verdict.h", "NXMEM_REASON_"):
        yield f"reason_{name}", verdict(reason)
    axes = dict(constants("abi/include/nxmem/verdict.h", "NXMEM_REASON_"))["host_holds"]
    yield "axis_of_the_host", verdict(axes, RECORDS - 1, 3)
    for record in range(RECORDS):
        for field in (1, 2, 8, 16, 24, 32, 40, 48, 64):
            yield f"record_{record}_field_{field}", verdict(40 + record, record, field)
    for result in range(16, 32):
        yield f"result_{result}", case(b"", result=result, code=result)
    yield "bound_unwritten", verdict(dict(constants("abi/include/nxmem/verdict.h", "NXMEM_REASON_"))["total_too_large"], found=2**64 - 1)
    yield "devices_far", verdict(dict(constants("abi/include/nxmem/verdict.h", "NXMEM_REASON_"))["other_device"], found=2**64 - 1, needed=1 << 32)
