"""Seeds of the target policy: policies, signature files, public keys and ELF files (targets/policy.c), whole and with one thing wrong."""
import base64
import json
import struct

import elf_seeds

POLICY, SIGNATURE, KEY, ELF = range(4)
HASH = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"
LINE = base64.b64encode(b"Ed" + bytes(range(40))).decode()
ROW = {"path": "/lib/p.so", "sha256": HASH, "capabilities": ["allocator"], "max_owned_bytes": 4096, "max_mapped_bytes": "unlimited", "isolation": "none"}
SIGNED = {"file": "/lib/p.so.minisig", "public_key": LINE}
ALL = ["allocator", "virtual-backing", "shared-mapping", "deferred-release", "structured-release"]


def document(*rows, **more):
    return {"version": 1, "plugins": list(rows), **more}


def row(without=(), **changes):
    return {key: value for key, value in {**ROW, **changes}.items() if key not in without}


def policies():
    """Name, what is written as JSON, or the text itself."""
    yield "empty_list", document()
    yield "one_row", document(ROW)
    yield "file_bytes", document(ROW, max_file_bytes=1 << 30)
    yield "file_bytes_beyond", document(ROW, max_file_bytes=(1 << 30) + 1)
    yield "signed", document(row(signature=SIGNED))
    yield "all_capabilities", document(row(capabilities=ALL))
    yield "build_id", document(row(without=["path"], build_id="0a1b"))
    yield "build_id_of_64", document(row(build_id="ab" * 64))
    yield "build_id_of_65", document(row(build_id="ab" * 65))
    yield "build_id_odd", document(row(build_id="abc"))
    yield "build_id_twice", document(*[row(without=["path"], build_id="0a")] * 2)
    yield "two_rows", document(ROW, row(path="/lib/q.so", isolation="seccomp"), row(without=["path"], build_id="77", isolation="no-new-privs"))
    yield "path_twice", document(ROW, ROW)
    yield "neither_name", document(row(without=["path"]))
    for key in ROW:
        yield f"without_{key}", document(row(without=[key]))
    for name, path in (("relative", "p.so"), ("root", "/"), ("dots", "/a/../b"), ("dot", "/a/./b"), ("two_slashes", "/a//b"), ("slash_behind", "/a/"),
                       ("hidden", "/a/.b"), ("three_dots", "/.../b"), ("umlaut", "/\u00e4/\U0001F600.so"), ("quote", "/a\"b\\c"), ("control", "/a\tb")):
        yield f"path_{name}", document(row(path=path))
    for name, limit in (("largest", 2**63 - 1), ("beyond", 2**63), ("zero", 0), ("negative", -1), ("real", 4096.0), ("true", True), ("null", None),
                        ("word", "none"), ("list", [])):
        yield f"limit_{name}", document(row(max_owned_bytes=limit))
    for name, words in (("none", []), ("twice", ["allocator", "allocator"]), ("unknown", ["allocator", "all"]), ("text", "allocator"), ("without", ALL[1:]),
                        ("number", ["allocator", 1])):
        yield f"capabilities_{name}", document(row(capabilities=words))
    yield "signature_without_key", document(row(signature={"file": "/s"}))
    yield "signature_without_file", document(row(signature={"public_key": LINE}))
    yield "signature_key_cut", document(row(signature={**SIGNED, "public_key": LINE[:-4]}))
    yield "signature_key_kind", document(row(signature={**SIGNED, "public_key": "A" + LINE[1:]}))
    yield "hash_short", document(row(sha256=HASH[2:]))
    yield "hash_letter", document(row(sha256="g" + HASH[1:]))
    yield "unknown_key", document(ROW, comment="\u001b[2J")
    yield "unknown_long_key", document(ROW, **{"\u20ac" * 90: 1})
    yield "version_2", {"version": 2, "plugins": []}
    yield "version_real", {"version": 1.0, "plugins": []}
    yield "rows_object", {"version": 1, "plugins": {}}
    yield "a_list", [1, 2.5e300, {"a": [None, True, False]}]
    text = json.dumps(document(ROW))
    yield "key_twice", text[:-1] + ', "version": 1}'
    yield "key_twice_escaped", text[:-1] + ', "\\u0076ersion": 1}'
    yield "escaped", text.replace("path", "\\u0070ath").replace("/lib", "\\/lib")
    yield "pair", text.replace("/lib", "/\\ud83d\\ude00")
    yield "half_a_pair", text.replace("/lib", "/\\ud83d")
    yield "zero_escaped", text.replace("/lib", "/\\u0000")
    yield "escapes", text.replace("/lib", "/\\b\\f\\n\\r\\t\\\"\\\\")
    yield "wrong_escape", text.replace("/lib", "/\\x41")
    yield "behind", text + " x"
    yield "space_behind", text + " \t\r\n"
    yield "comma", text[:-1] + ",}"
    yield "number_nan", text.replace("4096", "NaN")
    yield "number_endless", text.replace("4096", "1e999")
    yield "number_leading_zero", text.replace("4096", "04096")
    yield "number_long", text.replace("4096", "9" * 40)
    yield "nested", "[" * 200
    yield "nothing", ""


def raw():
    text = json.dumps(document(ROW)).encode()
    yield "not_utf8", text.replace(b"/lib", b"/\xff")
    yield "overlong", text.replace(b"/lib", b"/\xc0\xaf")
    yield "surrogate", text.replace(b"/lib", b"/\xed\xa0\x80")
    yield "zero", text.replace(b"/lib", b"/\0")
    yield "zero_behind", text + b"\0"
    yield "byte_order_mark", b"\xef\xbb\xbf" + text
    yield "del", text.replace(b"/lib", b"/\x7f")


def signature(flags, comment=b"made for a test", signed=b"bytes", edits=()):
    return struct.pack("<BBB", SIGNATURE, flags, len(signed)) + signed + struct.pack("<B", len(edits)) + b"".join(
        struct.pack("<HBB", *edit) for edit in edits) + comment


def signatures():
    for prehashed in (0, 1):
        yield f"good_{prehashed}", signature(prehashed)
        yield f"nothing_signed_{prehashed}", signature(prehashed, signed=b"")
        for name, at in (("first_line", 0), ("kind", 22), ("id", 26), ("bytes", 60), ("padding", 119), ("comment_mark", 122), ("comment", 140), ("last", 200)):
            for kind in range(3):
                yield f"edit_{name}_{kind}_{prehashed}", signature(prehashed, edits=[(at, kind, ord("B"))])
    yield "kind_flipped", signature(0, edits=[(22, 0, ord("U"))])
    yield "carriage_returns", signature(1, edits=[(20, 1, 13)])
    yield "feed_behind", signature(1, edits=[(65535, 1, 10)])
    yield "comment_empty", signature(1, comment=b"")
    yield "comment_of_two_lines", signature(1, comment=b"one\ntwo")
    yield "comment_carriage_return", signature(1, comment=b"one\r")
    yield "comment_controls", signature(1, comment=b"\x1b[2J\xff\xc2\x9b")
    yield "comment_long", signature(1, comment=b"\xe2\x82\xac" * 150)
    yield "own_text", signature(2, comment=b"untrusted comment: \n" + base64.b64encode(bytes(74)) + b"\ntrusted comment: \n" + base64.b64encode(bytes(64)))
    yield "own_nothing", signature(2, comment=b"")


def build_id_of(length):
    """The note says that it is this long, and its segment is long enough."""
    image = bytearray(elf_seeds.Object().bytes())
    at = image.index(struct.pack("<III4s", 4, 8, 3, b"GNU"))
    struct.pack_into("<I", image, at + 4, length)
    for head in range(64, 64 + 56 * struct.unpack_from("<H", image, 56)[0], 56):
        if struct.unpack_from("<I", image, head)[0] == 4:
            struct.pack_into("<QQ", image, head + 32, 16 + length, 16 + length)
    return bytes(image)


def seeds():
    for name, what in policies():
        yield f"policy_{name}", bytes([POLICY]) + (what if isinstance(what, str) else json.dumps(what, ensure_ascii=False)).encode()
    for name, text in raw():
        yield f"policy_{name}", bytes([POLICY]) + text
    yield from ((f"signature_{name}", text) for name, text in signatures())
    line = LINE.encode()
    for name, text in (("good", line), ("cut", line[:-1]), ("more", line + b"A"), ("padded", line + b"===="), ("kind", b"A" + line[1:]), ("zero", line[:20] + b"\0"),
                       ("letter", line[:20] + b"*" + line[21:]), ("space", line[:20] + b" " + line[20:])):
        yield f"key_{name}", bytes([KEY]) + text
    for name, text in elf_seeds.seeds():
        if name in ("whole", "runpath", "rpath", "soname", "cut_half", "cut_header", "segments_outside", "strings_last", "escape_in_a_name", "many_names", "long_name"):
            yield f"elf_{name}", bytes([ELF]) + text
    yield "elf_both_paths", bytes([ELF]) + elf_seeds.Object(strings=[(elf_seeds.DT["runpath"], "/run"), (elf_seeds.DT["rpath"], "/r")]).bytes()
    yield "elf_nothing", bytes([ELF])
    for length in (64, 65, 200):
        yield f"elf_build_id_of_{length}", bytes([ELF]) + build_id_of(length)


def words():
    for number, word in enumerate([*ROW, "build_id", "signature", "file", "public_key", "version", "plugins", "max_file_bytes", *ALL, "unlimited", "none",
                                   "no-new-privs", "seccomp"]):
        yield f"word_{number}", f'"{word}"'.encode()
    yield "hash", f'"{HASH}"'.encode()
    yield "key", f'"{LINE}"'.encode()
    yield "row", json.dumps(ROW).encode()
    for name, text in (("one", "1"), ("largest", "9223372036854775807"), ("beyond", "9223372036854775808"), ("real", "1e400"), ("escape", "\\u0000"),
                       ("pair", "\\ud83d\\ude00"), ("half", "\\ud83d"), ("untrusted", "untrusted comment: "), ("trusted", "trusted comment: "),
                       ("dots", "/../"), ("dot", "/./")):
        yield name, text.encode()
    yield "overlong", b"\xc0\xaf"
    yield "mark", b"\xef\xbb\xbf"
