"""ELF files that hold almost nothing and claim a great deal: sparse, so that they cost no disk.

Each costs a reader that believes it hours; the command must refuse it within the limit of every call.
"""
import struct

from harness import Setting, scratch

DYNAMIC, TABLE = 0x20000, 0x21000
STRTAB, SYMTAB, STRSZ, NEEDED, GNU_HASH = 5, 6, 10, 1, 0x6FFFFEF5
ODD_NAME_BYTES, ODD_NAMES = 2 << 20, 1 << 20


def machine():
    with open(Setting.nxmem, "rb") as file:
        return struct.unpack_from("<H", file.read(64), 18)[0]


def build(name, size, parts, dynamic, segments=1, section_table=0):
    """`parts`: offset and content; one dynamic segment, and `segments` loaded ones that all cover the whole file, one behind the other."""
    path = scratch(name)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, machine(), 1, 0, 64, section_table, 0, 64, 56,
                         segments + 1, 64 if section_table else 0, 0, 0)
    entries = b"".join(struct.pack("<QQ", *entry) for entry in [*dynamic, (0, 0)])
    loaded = b"".join(struct.pack("<IIQQQQQQ", 1, 4, 0, i * size, 0, size, size, 4096) for i in range(segments))
    table = struct.pack("<IIQQQQQQ", 2, 4, DYNAMIC, DYNAMIC, DYNAMIC, len(entries), len(entries), 8)
    with open(path, "wb") as file:
        file.truncate(size)
        for offset, content in [(0, header + loaded + table), (DYNAMIC, entries), *parts]:
            file.seek(offset)
            file.write(content)
    return path


def endless_chain(size, segments):
    """One bucket whose chain of zeros has no end mark."""
    hash_table = struct.pack("<IIIIQI", 1, 1, 1, 0, 0, 1)
    return build("chain.so", size, [(TABLE, hash_table)], [(GNU_HASH, TABLE)], segments)


def endless_buckets(segments):
    hash_table = struct.pack("<IIIIQ", 2**32 - 1, 1, 1, 0, 0)
    return build("buckets.so", 1 << 43, [(TABLE, hash_table)], [(GNU_HASH, TABLE)], segments)


def one_long_name(start):
    return start + b"x" * (ODD_NAME_BYTES - len(start) - 1) + b"\0"


def many_symbols_of_one_name():
    """Each symbol is small and each has the same long name, which looks like a C++ one."""
    symbol = struct.pack("<IBBHQQ", 0, 0x12, 0, 1, 0, 0)
    hash_table = struct.pack("<IIIIQII", 1, ODD_NAMES - 1, 1, 0, 0, ODD_NAMES - 1, 1)
    strings, symbols = 1 << 20, 1 << 24
    return build("names.so", 1 << 30,
                 [(TABLE, hash_table), (strings, one_long_name(b"_Z")), (symbols, symbol * ODD_NAMES)],
                 [(GNU_HASH, TABLE), (STRTAB, strings), (STRSZ, ODD_NAME_BYTES), (SYMTAB, symbols)])


def many_dependencies_of_one_name():
    strings = 1 << 24
    return build("needed.so", 1 << 30, [(strings, one_long_name(b"lib"))],
                 [(STRTAB, strings), (STRSZ, ODD_NAME_BYTES)] + [(NEEDED, 0)] * 65000)


def plugin_that_names(tags_and_texts):
    """One export, and entries of these tags with these texts."""
    table, strings, symbols = 1 << 19, 1 << 20, 1 << 24
    hash_table = struct.pack("<IIIIQII", 1, 1, 1, 0, 0, 1, 1)
    symbol = struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0, 0)
    text, entries = bytearray(b"\0NxmemNegotiate\0"), []
    for tag, name in tags_and_texts:
        entries.append((tag, len(text)))
        text += name + b"\0"
    return build("names.so", 1 << 25, [(table, hash_table), (strings, bytes(text)), (symbols, bytes(24) + symbol)],
                 [(GNU_HASH, table), (STRTAB, strings), (STRSZ, len(text)), (SYMTAB, symbols), *entries])


def symbols_of_one_name(count, length):
    """A plugin whose symbols share one name of control characters: each takes four times its room to be shown."""
    table, strings, symbols = 1 << 19, 1 << 22, 1 << 23
    text = b"\0NxmemNegotiate\0" + b"\x01" * length + b"\0"
    symbol = lambda name: struct.pack("<IBBHQQ", name, 0x12, 0, 1, 0, 0)
    chain = struct.pack("<IIIIQI", 1, 1, 1, 0, 0, 1) + b"\0\0\0\0" * count + struct.pack("<I", 1)
    return build("shared.so", symbols + 24 * (count + 2), [(table, chain), (strings, text), (symbols, bytes(24) + symbol(1) + symbol(16) * count)],
                 [(GNU_HASH, table), (STRTAB, strings), (STRSZ, len(text)), (SYMTAB, symbols)])


def sections_without_a_count():
    """The first entry holds the count; whoever believes it makes room for that many."""
    first = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1 << 24, 0, 0, 0, 0)
    return build("sections.so", 1 << 40, [(TABLE, first)], [], section_table=TABLE)


CRAFTED = [
    ("a hash chain without an end", lambda: endless_chain(1 << 34, 1), "hash table"),
    ("a hash chain without an end under many segments", lambda: endless_chain(1 << 43, 1000), "hash table"),
    ("2^32-1 buckets", lambda: endless_buckets(1), "hash table"),
    ("2^32-1 buckets under many segments", lambda: endless_buckets(1000), "hash table"),
    ("a long name that all symbols share", many_symbols_of_one_name, "more than"),
    ("a long name that all dependencies share", many_dependencies_of_one_name, "more than"),
    ("a section table without a count", sections_without_a_count, "section table"),
]
