"""The core's sources as libclang sees them: functions, expressions, the extents of macro uses, and the text behind an extent."""
import os
import sys

# Debian puts the bindings where only its own interpreter looks; they are plain Python and serve any other as well.
sys.path.append("/usr/lib/python3/dist-packages")
from clang.cindex import CursorKind, Index, TranslationUnit  # noqa: E402  (python3-clang-14)

EXPRESSION_WRAPPERS = (CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR)
LITERALS = (CursorKind.INTEGER_LITERAL, CursorKind.CHARACTER_LITERAL)


def core_paths(root):
    """Every file of abi/src, relative to the root, in a fixed order."""
    return [f"abi/src/{name}" for name in sorted(os.listdir(f"{root}/abi/src")) if name.endswith((".c", ".h"))]


def unwrapped(node):
    """The expression without its implicit conversions and parentheses."""
    while node.kind in EXPRESSION_WRAPPERS:
        inner = list(node.get_children())
        if len(inner) != 1:
            break
        node = inner[0]
    return node


class Source:
    """One parsed file. Offsets are bytes; a node that a macro produced has the extent of the macro's use."""

    def __init__(self, root, path):
        self.path = path
        self.full = f"{root}/{path}"
        with open(self.full, "rb") as file:
            self.bytes = file.read()
        arguments = ["-std=c11", "-x", "c", f"-I{root}/abi/include", f"-I{root}/abi/src"]
        self.unit = Index.create().parse(self.full, args=arguments,
                                         options=TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
        errors = [str(d) for d in self.unit.diagnostics if d.severity >= 3]
        if errors:
            raise RuntimeError(f"{path} does not parse: {errors[0]}")
        self.macro_uses = {}  # start offset -> (end offset, name), the outermost where uses nest
        self.macro_definitions = []  # (name, start, end)
        for node in self.unit.cursor.get_children():
            if node.location.file is None or node.location.file.name != self.full:
                continue
            start, end = node.extent.start.offset, node.extent.end.offset
            if node.kind == CursorKind.MACRO_INSTANTIATION and end > self.macro_uses.get(start, (0, ""))[0]:
                self.macro_uses[start] = (end, node.spelling)
            elif node.kind == CursorKind.MACRO_DEFINITION:
                self.macro_definitions.append((node.spelling, start, end))

    def functions(self):
        """(name, node) of each function that this file itself defines."""
        return [(node.spelling, node) for node in self.unit.cursor.get_children()
                if node.kind == CursorKind.FUNCTION_DECL and node.is_definition()
                and node.location.file is not None and node.location.file.name == self.full]

    def extent(self, node):
        return node.extent.start.offset, node.extent.end.offset

    def text(self, start, end):
        return self.bytes[start:end].decode()

    def text_of(self, node):
        return self.text(*self.extent(node))

    def line(self, offset):
        return self.bytes.count(b"\n", 0, offset) + 1

    def macro_of(self, node):
        """(start, end, name) of the macro use that produced the whole node, or None."""
        start, end = self.extent(node)
        use = self.macro_uses.get(start)
        return (start, use[0], use[1]) if use is not None and end <= use[0] else None
