"""Seeds of the target elf: shared objects of this machine's kind in a few hundred bytes, whole and with one thing wrong."""
import struct

MACHINE = 62  # x86-64, where the checked-in seeds are read; elsewhere they are refused by their header
DT = {"null": 0, "needed": 1, "hash": 4, "strtab": 5, "symtab": 6, "rela": 7, "relasz": 8, "strsz": 10, "init": 12,
      "soname": 14, "rpath": 15, "textrel": 22, "jmprel": 23, "bind_now": 24, "init_arraysz": 27, "fini_arraysz": 28,
      "runpath": 29, "flags": 30, "preinit_arraysz": 33, "gnu_hash": 0x6FFFFEF5, "flags_1": 0x6FFFFFFB,
      "verdef": 0x6FFFFFFC, "verdefnum": 0x6FFFFFFD, "verneed": 0x6FFFFFFE, "verneednum": 0x6FFFFFFF,
      "auxiliary": 0x7FFFFFFD, "filter": 0x7FFFFFFF, "pltrel": 20, "pltrelsz": 2}
EXPORTS = ("NxmemNegotiate", "NxmemCreateAllocatorFactories", "NxmemQueryUnloadReadiness")
FUNCTION, OBJECT, IFUNC = 2, 1, 10
GLOBAL, WEAK, UNIQUE = 1, 2, 10


class Object:
    """A file that is mapped whole, from address 0: offsets are addresses."""

    def __init__(self, exports=EXPORTS, symbols=(), needed=("libc.so.6",), strings=(), entries=(), hash_style="sysv",
                 versions=True, stack=6, relro=True, build_id=True, segment_flags=5,
                 strings_last=False):
        self.strings = bytearray(b"\0")
        self.entries, self.hash_style = list(entries), hash_style
        self.symbols = [(0, 0, 0, 0, 0, 0)]
        for name in exports:
            self.symbol(name)
        for symbol in symbols:
            self.symbol(*symbol)
        self.needed = [self.string(name) for name in needed]
        self.entries += [(tag, self.string(text)) for tag, text in strings]
        self.versions = [self.string("libc.so.6"), self.string("GLIBC_2.2.5"), self.string("OWN_1")] if versions else None
        self.stack, self.relro, self.build_id, self.segment_flags = stack, relro, build_id, segment_flags
        self.strings_last = strings_last

    def string(self, text):
        at = len(self.strings)
        self.strings += (text if isinstance(text, bytes) else text.encode()) + b"\0"
        return at

    def symbol(self, name, kind=FUNCTION, bind=GLOBAL, section=1, visibility=0):
        self.symbols.append((self.string(name), bind << 4 | kind, visibility, section, 0x100, 8))

    def hash_table(self):
        count = len(self.symbols)
        if self.hash_style == "gnu":
            chain = [2 * (i + 1) for i in range(count - 1)]
            chain[-1] |= 1
            return struct.pack("<IIIIQI", 1, 1, 1, 0, 2**64 - 1, 1) + struct.pack(f"<{count - 1}I", *chain)
        return struct.pack("<III", 1, count, 1) + struct.pack(f"<{count}I", *[0] * count)

    def bytes(self):
        notes = struct.pack("<III4s8s", 4, 8, 3, b"GNU", bytes(range(8)))
        heads = [(1, self.segment_flags, None)] + [(2, 6, "dynamic")]
        heads += [(0x6474E551, self.stack, "")] if self.stack is not None else []
        heads += [(0x6474E552, 4, "dynamic")] if self.relro else []
        heads += [(4, 4, "notes")] if self.build_id else []
        parts, at = {}, 64 + 56 * len(heads)

        def place(name, content):
            nonlocal at
            at = (at + 7) & ~7
            parts[name] = (at, content)
            at += len(content)
            return parts[name][0]

        place("notes", notes)
        symbols = place("symbols", b"".join(struct.pack("<IBBHQQ", *s) for s in self.symbols))
        entries = [(DT["needed"], n) for n in self.needed] + self.entries
        entries += [(DT["symtab"], symbols), (DT["gnu_hash" if self.hash_style == "gnu" else "hash"],
                                              place("hash", self.hash_table()))]
        if not self.strings_last:
            entries += [(DT["strtab"], place("strings", bytes(self.strings))), (DT["strsz"], len(self.strings))]
        if self.versions:
            library, version, own = self.versions
            entries += [(DT["verneed"], place("verneed", struct.pack("<HHIII", 1, 1, library, 16, 0)
                                              + struct.pack("<IHHII", 0, 0, 2, version, 0))), (DT["verneednum"], 1)]
            entries += [(DT["verdef"], place("verdef", struct.pack("<HHHHIII", 1, 0, 2, 1, 0, 20, 0)
                                             + struct.pack("<II", own, 0))), (DT["verdefnum"], 1)]
        if self.strings_last:
            end = ((at + 7) & ~7) + 16 * (len(entries) + 3)
            entries += [(DT["strtab"], end), (DT["strsz"], len(self.strings))]
        dynamic = b"".join(struct.pack("<QQ", *e) for e in [*entries, (0, 0)])
        place("dynamic", dynamic)
        if self.strings_last:
            assert place("strings", bytes(self.strings)) == end
        size = at
        table = b""
        for kind, flags, name in heads:
            offset, content = (0, None) if name is None else parts.get(name, (0, b""))
            length = size if content is None else len(content)
            table += struct.pack("<IIQQQQQQ", kind, flags, offset, offset, offset, length, length, 8)
        out = bytearray(size)
        out[:64] = struct.pack("<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 3, MACHINE, 1, 0, 64, 0, 0, 64, 56,
                               len(heads), 64, 0, 0)
        out[64:64 + len(table)] = table
        for offset, content in parts.values():
            out[offset:offset + len(content)] = content
        return bytes(out)


def patched(at, form, value):
    out = bytearray(Object().bytes())
    struct.pack_into(form, out, at, value)
    return bytes(out)


def seeds():
    whole = Object().bytes()
    yield "whole", whole
    yield "gnu_hash", Object(hash_style="gnu").bytes()
    yield "no_versions", Object(versions=False).bytes()
    yield "no_exports", Object(exports=()).bytes()
    for i, name in enumerate(EXPORTS):
        yield f"without_{i}", Object(exports=[e for e in EXPORTS if e != name]).bytes()
    yield "ifunc_export", Object(EXPORTS[1:], [(EXPORTS[0], IFUNC)]).bytes()
    yield "data_export", Object(EXPORTS[1:], [(EXPORTS[0], OBJECT)]).bytes()
    yield "hidden_export", Object(EXPORTS[1:], [(EXPORTS[0], FUNCTION, GLOBAL, 1, 2)]).bytes()
    yield "mangled_export", Object(EXPORTS[1:], [("_Z14NxmemNegotiatev",)]).bytes()
    yield "interposer", Object(symbols=[("malloc",), ("cuMemAlloc",), ("_Znwm",)]).bytes()
    yield "outward", Object(symbols=[("socket", 0, GLOBAL, 0), ("dlopen", 0, WEAK, 0)]).bytes()
    yield "thread_destructor", Object(symbols=[("__cxa_thread_atexit", 0, GLOBAL, 0)]).bytes()
    yield "unique", Object(symbols=[("only_one", OBJECT, UNIQUE)]).bytes()
    yield "escape_in_a_name", Object(symbols=[(b"a\x1b[31m\xff",)], needed=[b"lib\x07.so"]).bytes()
    yield "long_name", Object(symbols=[("n" * 700,)]).bytes()
    yield "many_names", Object(symbols=[(f"symbol_{i}",) for i in range(12)]).bytes()
    for name in ("rpath", "runpath", "soname", "filter", "auxiliary"):
        yield name, Object(strings=[(DT[name], "$ORIGIN/x:lib")]).bytes()
    yield "relative_dependency", Object(needed=["sub/libx.so", "./liby.so"]).bytes()
    for name, value in (("flags", 0x1E), ("flags_1", 0x4CB), ("flags_1", 0x08000001), ("textrel", 0), ("bind_now", 0),
                        ("init", 0x100), ("init_arraysz", 24), ("fini_arraysz", 24), ("preinit_arraysz", 8)):
        yield f"{name}_{value:x}", Object(entries=[(DT[name], value)]).bytes()
    yield "relocations", Object(entries=[(DT["rela"], 64), (DT["relasz"], 48), (DT["jmprel"], 64), (DT["pltrel"], 7),
                                         (DT["pltrelsz"], 24)]).bytes()
    yield "executable_stack", Object(stack=7).bytes()
    yield "no_stack_mark", Object(stack=None).bytes()
    yield "no_relro", Object(relro=False, build_id=False).bytes()
    yield "writable_code", Object(segment_flags=7).bytes()
    yield "object_file", patched(16, "<H", 1)
    yield "executable", patched(16, "<H", 2)
    yield "class_32", patched(4, "B", 1)
    yield "big_endian", patched(5, "B", 2)
    yield "another_machine", patched(18, "<H", 40)
    yield "sections_outside", patched(40, "<Q", 2**64 - 64)
    yield "segments_outside", patched(32, "<Q", 2**40)
    yield "many_segments", patched(56, "<H", 0xFFFF)
    for name, length in (("empty", 0), ("magic", 4), ("header", 64), ("half", len(whole) // 2), ("one_short", len(whole) - 1)):
        yield f"cut_{name}", whole[:length]
    last = Object(strings_last=True).bytes()
    yield "strings_last", last
    yield "strings_without_an_end", last[:-1] + b"x"
    yield "text", b"#!/bin/sh\nexit 0\n"


def words():
    yield from ((f"dt_{name}", struct.pack("<Q", tag)) for name, tag in DT.items())
    yield from ((name.lower(), name.encode() + b"\0") for name in (*EXPORTS, "malloc", "socket", "_Z14NxmemNegotiatev"))
    yield from ((f"pt_{kind & 0xFF:x}_{kind >> 24:x}", struct.pack("<I", kind))
                for kind in (1, 2, 4, 7, 0x6474E550, 0x6474E551, 0x6474E552, 0x6474E553))
    yield "gnu_note", struct.pack("<III4s", 4, 8, 3, b"GNU")
    yield "elf", b"\x7fELF\x02\x01\x01\x00"
