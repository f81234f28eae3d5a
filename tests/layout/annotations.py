#!/usr/bin/env python3
"""Read the layout annotations of the wire header, and write them as a unit of static assertions.

    /* @record NAME SIZE ALIGN */   before each struct
    /* @OFFSET ... */               behind each field

python3 annotations.py HEADER       prints the unit: C11 and C++17, every size, alignment and field offset.
"""
import re
import sys
from collections import namedtuple

# fields: name -> (offset, bytes); bytes None where the source of the numbers does not say
Record = namedtuple("Record", "name size align fields")

RECORD = re.compile(r"/\*\s*@record\s+(\w+)\s+(\d+)\s+(\d+)\s*\*/\s*"
                    r"typedef\s+struct\s+(\w+)\s*\{(.*?)\n\}\s*(\w+);", re.DOTALL)
STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{")
FIELD = re.compile(r"([^;]+);[ \t]*(?:/\*\s*@(\d+)\b[^\n]*?\*/)?")
COMMENT = re.compile(r"/\*(?!\s*@\d).*?\*/", re.DOTALL)


class LayoutError(Exception):
    """The header's annotations do not say what they must."""


def field_name(declaration):
    slot = re.search(r"\(\s*\*\s*(\w+)\s*\)", declaration)
    plain = re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*$", declaration)
    return (slot or plain).group(1)


def read_fields(record, body):
    fields = {}
    for declaration, offset in FIELD.findall(COMMENT.sub("", body)):
        name = field_name(declaration.strip())
        if not offset:
            raise LayoutError(f"{record}.{name} has no annotation")
        if name in fields:
            raise LayoutError(f"{record}.{name} stands twice")
        fields[name] = (int(offset), None)
    return fields


def read_header(text):
    """name -> Record, in the header's order."""
    records = {}
    for named, size, align, tag, body, alias in RECORD.findall(text):
        if not named == tag == alias:
            raise LayoutError(f"@record {named} stands before struct {tag}, typedef {alias}")
        records[named] = Record(named, int(size), int(align), read_fields(named, body))
    for tag in STRUCT.findall(text):
        if tag not in records:
            raise LayoutError(f"struct {tag} has no @record")
    return records


def read_expected(text):
    """The hand-written table, in the same form."""
    records = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        kind, name, first, second = line.split("\t")
        if kind == "record":
            current = records[name] = Record(name, int(first), int(second), {})
        else:
            current.fields[name] = (int(first), int(second))
    return records


PREAMBLE = """#include <stddef.h>
#include "nxmem_memory_abi.h"
#ifdef __cplusplus
#define ASSERT static_assert
#define ALIGN_OF alignof
#else
#define ASSERT _Static_assert
#define ALIGN_OF _Alignof
#endif
"""


def write_unit(records):
    lines = [PREAMBLE]
    for record in records.values():
        lines.append(f'ASSERT(sizeof({record.name}) == {record.size}, "size of {record.name}");')
        lines.append(f'ASSERT(ALIGN_OF({record.name}) == {record.align}, "alignment of {record.name}");')
        for name, (offset, width) in record.fields.items():
            place = f"{record.name}.{name}"
            lines.append(f'ASSERT(offsetof({record.name}, {name}) == {offset}, "offset of {place}");')
            if width is not None:
                lines.append(f'ASSERT(sizeof((({record.name} *)0)->{name}) == {width}, "bytes of {place}");')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        sys.stdout.write(write_unit(read_header(header.read())))
