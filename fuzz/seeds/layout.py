"""What the seeds are made from: constants and records of the wire header, and bytes laid out as a record says."""
import pathlib
import re

FUZZ = pathlib.Path(__file__).resolve().parent.parent
HEADER = FUZZ.parent / "abi" / "include" / "nxmem_memory_abi.h"
TEXT = HEADER.read_text()
MAX32 = 0xFFFFFFFF
MAX64 = 0xFFFFFFFFFFFFFFFF


# ---- The header ------------------------------------------------------------------------------------------------------


def read_constants():
    """Name -> (value, bytes on the wire): capabilities are 64 bits wide, everything else 32."""
    found = {}
    for name, plain, shift in re.findall(r"^#define (NXMEM_\w+) (?:(\d+)u|\(1ull << (\d+)\))", TEXT, re.M):
        found[name] = (1 << int(shift), 8) if shift else (int(plain), 4)
    return found


def read_records():
    """Record -> (size, {field: offset}), from `@record NAME SIZE ALIGN` and the `@OFFSET` behind each field."""
    found = {}
    record = r"@record (\w+) (\d+) \d+ \*/\ntypedef struct \w+ \{\n(.*?)\n\} \w+;"
    for name, size, body in re.findall(record, TEXT, re.S):
        fields = re.findall(r"(?:\(\*)?(\w+)(?:\)\([^;]*\)|\[\w+\])?;\s*/\* @(\d+)", body)
        found[name] = (int(size), {field: int(offset) for field, offset in fields})
    return found


CONSTANTS = read_constants()
RECORDS = read_records()
CAP = {n[len("NXMEM_CAP_"):].lower(): value for n, (value, _) in CONSTANTS.items() if n.startswith("NXMEM_CAP_")}
ALL_CAPS = sum(CAP.values())
MINOR_0_CAPS = ALL_CAPS - CAP["structured_release"]


def width(record, field):
    """Bytes up to the next field or the end."""
    size, fields = RECORDS[record]
    return min([offset for offset in fields.values() if offset > fields[field]] + [size]) - fields[field]


def whole(record, values, size=None):
    """The record's bytes: `values` by field name, the rest is zero. Where `size` is more, the bytes behind are not."""
    full, fields = RECORDS[record]
    bytes_ = bytearray(full)
    for field, offset in fields.items():
        named = values.get(field)
        if isinstance(named, bytes):
            bytes_[offset:offset + len(named)] = named
        elif named is not None:
            bytes_[offset:offset + width(record, field)] = named.to_bytes(width(record, field), "little")
    return bytes(bytes_ if size is None else bytes_[:size].ljust(size, b"\xEE"))
