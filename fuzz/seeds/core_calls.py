"""How a seed of the target `core` names a function and lays out its arguments.

Topic and row of a function are read from the target's own tables; which arguments it takes stands in
fuzz/targets/core/*.c.
"""
import re
import struct

from layout import FUZZ


def read_places():
    """Function -> (topic, row)."""
    folder = FUZZ / "targets"
    topics = re.search(r"topics\[\] = \{(.*?)\};", (folder / "core.c").read_text(), re.S).group(1)
    found = {}
    for topic, name in enumerate(re.findall(r"&core_(\w+)", topics)):
        rows = re.findall(r"CORE_ROW\((\w+)\)", (folder / "core" / f"{name}.c").read_text())
        found.update({function: (topic, row) for row, function in enumerate(rows)})
    return found


PLACES = read_places()


def call(function, *arguments):
    return bytes(PLACES["nxmem_" + function]) + b"".join(arguments)


def u8(*numbers):
    return struct.pack(f"<{len(numbers)}B", *numbers)


def u16(*numbers):
    return struct.pack(f"<{len(numbers)}H", *numbers)


def u32(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def u64(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def text(bytes_):
    return u16(len(bytes_)) + bytes_


def numbered(function, pack, cases):
    """One seed a tuple of numbers, named by the numbers."""
    for case in cases:
        numbers = case if isinstance(case, tuple) else (case,)
        yield "_".join([function, *(f"{n:x}" for n in numbers)]), call(function, pack(*numbers))


def message(bytes_, claimed, code=5):
    return u32(code, claimed) + bytes_.ljust(256, b"\xEE")[:256]
