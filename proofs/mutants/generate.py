"""Every small damage that the operators below can do to the core: one replaced extent of one file each.

An id is file:function:operator:n, n counting within the function in source order, so that it survives edits elsewhere.
"""
import re
from dataclasses import dataclass

from source import EXPRESSION_WRAPPERS, LITERALS, CursorKind, Source, core_paths, unwrapped

LOOPS = (CursorKind.WHILE_STMT, CursorKind.FOR_STMT, CursorKind.DO_STMT)
CONDITIONED = (CursorKind.IF_STMT, CursorKind.WHILE_STMT, CursorKind.CONDITIONAL_OPERATOR)
ASSIGNMENTS = (CursorKind.COMPOUND_ASSIGNMENT_OPERATOR,)
# Each comparison becomes its neighbour (off by one) and its mirror; negate-condition gives the complement.
FLIPPED = {"<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",)}
LOGIC = {"&&": "||", "||": "&&"}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "&": "|", "|": "&", "+=": "-=", "-=": "+="}
UNTRUSTED_HEADER = "abi/include/nxmem/verdict.h"
VERDICT_MAKERS = ("nx_verdict", "nx_accept")
LARGEST = ("UINT32_MAX", "UINT64_MAX")
INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)$")
LOAD_USE = re.compile(r"NX_LOAD(_STATUS|_MESSAGE)?\((.*)\)$", re.S)

OPERATORS = {
    "drop-statement": "a statement is gone",
    "repeat-statement": "a statement that loads plugin memory stands twice",
    "re-read": "a value loaded before is loaded again where it is used",
    "drop-guard": "an if without else is gone, with what it guards",
    "hoist": "what is written or loaded behind a guard happens before it",
    "drop-case": "a case label is gone: its value takes the default",
    "skip-loop": "a loop's condition is 0",
    "negate-condition": "a condition is its opposite",
    "flip-comparison": "a comparison is its neighbour or its mirror",
    "swap-logic": "&& is ||, || is &&",
    "drop-operand": "one side of && or || is gone",
    "drop-not": "a ! is gone",
    "pick-branch": "a ?: is always its first or always its second branch",
    "constant": "a number is one more, or one less",
    "index": "a subscript is one more",
    "arithmetic": "+ is -, * is /, % is /, & is |, and the other way round",
    "swap-field": "a member is the next one of the same type",
    "swap-arguments": "two neighbouring arguments for parameters of the same type change places",
    "drop-cast": "a cast is gone",
    "drop-volatile": "memory that another may write is read as if it stood still",
    "constant-verdict": "a return is an acceptance; 1 or 0 where a number is returned",
}


@dataclass
class Mutant:
    id: str
    file: str
    line: int
    function: str
    operator: str
    start: int
    end: int
    before: str
    after: str

    def apply(self, original):
        return original[:self.start] + self.after.encode() + original[self.end:]


def shortened(text, limit=90):
    text = re.sub(r"\s+", " ", text).strip()
    return text if len(text) <= limit else text[:limit - 1] + "…"


def is_a_name(constant):
    """Names that are told apart, not counted: one wrong value is as good as two."""
    return constant.startswith(("NXMEM_REASON_", "NXMEM_STATUS_", "NXMEM_FATE_", "NXMEM_AXIS_"))\
        and not constant.startswith("NXMEM_STATUS_MESSAGE_")


def integer_typed(node):
    kind = node.type.get_canonical().kind.name
    return kind in ("UINT", "ULONG", "ULONGLONG", "INT", "LONG", "LONGLONG", "UCHAR", "USHORT", "ENUM", "CHAR_S", "BOOL")


def next_field(member):
    """The next member of the same type in the same record, round the end; None where there is no other."""
    field = member.referenced
    if field is None or field.kind != CursorKind.FIELD_DECL:
        return None
    same = [f.spelling for f in field.semantic_parent.get_children() if f.kind == CursorKind.FIELD_DECL
            and f.type.get_canonical().spelling == field.type.get_canonical().spelling]
    return same[(same.index(field.spelling) + 1) % len(same)] if len(same) > 1 else None


class FunctionMutator:
    """Walks one function's body; `found` holds (operator, start, end, replacement)."""

    def __init__(self, source, node):
        self.source = source
        self.node = node
        self.found = []
        self.returns = node.result_type
        self.untrusted = [p.spelling for p in node.get_arguments() if "volatile" in p.type.get_pointee().get_canonical().spelling]
        self.loaded = {}  # local -> the NX_LOAD that filled it

    def add(self, operator, start, end, after):
        if self.source.text(start, end) != after:
            self.found.append((operator, start, end, after))

    def run(self):
        body = [c for c in self.node.get_children() if c.kind == CursorKind.COMPOUND_STMT][0]
        self.statement(body)
        return self.found

    # Statements

    def statement(self, node):
        kind = node.kind
        if kind == CursorKind.COMPOUND_STMT:
            children = list(node.get_children())
            for before, after in zip(children, children[1:]):
                self.hoist(before, after)
            for child in children:
                self.statement(child)
        elif kind == CursorKind.IF_STMT:
            self.branch(node)
        elif kind in LOOPS:
            self.loop(node)
        elif kind == CursorKind.SWITCH_STMT:
            subject, body = list(node.get_children())
            self.expression(subject)
            self.statement(body)
        elif kind in (CursorKind.CASE_STMT, CursorKind.DEFAULT_STMT):
            self.case(node)
        elif kind == CursorKind.RETURN_STMT:
            self.returned(node)
        elif kind == CursorKind.DECL_STMT:
            for variable in node.get_children():
                self.declaration(variable)
        elif kind in (CursorKind.BREAK_STMT, CursorKind.CONTINUE_STMT):
            self.add("drop-statement", *self.source.extent(node), "")
        elif kind != CursorKind.NULL_STMT:
            self.effect(node)

    def hoist(self, guard, statement):
        """What is written or loaded directly behind a guard that leaves the function happens before it."""
        loads = statement.kind == CursorKind.DECL_STMT and "NX_LOAD" in self.source.text_of(statement)
        if guard.kind != CursorKind.IF_STMT or not (statement.kind.is_expression() or loads):
            return
        parts = list(guard.get_children())
        if len(parts) != 2 or not any(n.kind == CursorKind.RETURN_STMT for n in parts[1].walk_preorder()):
            return
        start, end = guard.extent.start.offset, statement.extent.end.offset
        end += self.source.text(end, end + 1) == ";"
        guard_end = guard.extent.end.offset
        guard_end += self.source.text(guard_end, guard_end + 1) == ";"
        self.add("hoist", start, end, f"{self.source.text(statement.extent.start.offset, end)} {self.source.text(start, guard_end)}")

    def effect(self, node):
        """An expression for its effect."""
        start, end = self.source.extent(node)
        self.add("drop-statement", start, end, "")
        text = self.source.text(start, end)
        if self.untrusted and ("NX_LOAD" in text or re.search(rf"\(&?({'|'.join(self.untrusted)})\b", text)):
            self.add("repeat-statement", start, end, f"{text}, {text}")
        self.expression(node, top=True)

    def branch(self, node):
        parts = list(node.get_children())
        if len(parts) == 2:
            start, end = self.source.extent(node)
            # The statement's own semicolon stays outside the extent where the body is no block.
            self.add("drop-guard", start, end, ";" if self.source.text(end - 1, end) in "};" else "")
        self.condition(parts[0])
        for part in parts[1:]:
            self.statement(part)

    def loop(self, node):
        parts = list(node.get_children())
        if node.kind == CursorKind.FOR_STMT:
            first, condition, step, body = parts
            self.statement(first)
            self.expression(step, top=True)
        else:
            condition, body = parts if node.kind == CursorKind.WHILE_STMT else reversed(parts)
        self.add("skip-loop", *self.source.extent(condition), "0")
        self.condition(condition)
        self.statement(body)

    def case(self, node):
        parts = list(node.get_children())
        inner = parts[-1]
        if node.kind == CursorKind.CASE_STMT:
            self.add("drop-case", node.extent.start.offset, inner.extent.start.offset, "")
        self.statement(inner)

    def returned(self, node):
        parts = list(node.get_children())
        if not parts:
            self.add("drop-statement", *self.source.extent(node), "")
            return
        extent = self.source.extent(parts[0])
        if self.returns.spelling == "nxmem_verdict" and self.node.spelling not in VERDICT_MAKERS:
            self.add("constant-verdict", *extent, "nx_accept()")
        elif integer_typed(parts[0]):
            self.add("constant-verdict", *extent, "0")
            if self.returns.spelling == "int":
                self.add("constant-verdict", *extent, "1")
        self.expression(parts[0])

    def declaration(self, variable):
        if variable.kind != CursorKind.VAR_DECL:
            return
        values = [c for c in variable.get_children() if c.kind.is_expression()]
        if not values:
            return
        text = self.source.text_of(values[-1])
        self.expression(values[-1])
        if LOAD_USE.match(text):
            self.loaded[variable.spelling] = text

    # Expressions

    def condition(self, node):
        start, end = self.source.extent(node)
        self.add("negate-condition", start, end, f"!({self.source.text(start, end)})")
        self.expression(node)

    def expression(self, node, top=False):
        while node.kind in EXPRESSION_WRAPPERS:
            use = self.source.macro_of(node)
            inner = list(node.get_children())
            if use is not None or len(inner) != 1:
                break
            node = inner[0]
        use = self.source.macro_of(node)
        if use is not None:
            self.macro(node, *use)
            return
        visit = {
            CursorKind.BINARY_OPERATOR: self.binary, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR: self.binary,
            CursorKind.UNARY_OPERATOR: self.unary, CursorKind.CONDITIONAL_OPERATOR: self.choice,
            CursorKind.CALL_EXPR: self.call, CursorKind.MEMBER_REF_EXPR: self.member,
            CursorKind.ARRAY_SUBSCRIPT_EXPR: self.subscript, CursorKind.CSTYLE_CAST_EXPR: self.cast,
            CursorKind.DECL_REF_EXPR: self.name,
        }.get(node.kind)
        if node.kind in LITERALS:
            self.literal(node)
        elif visit is not None:
            visit(node)
        else:
            for child in node.get_children():
                if child.kind.is_expression():
                    self.expression(child)

    def binary(self, node):
        left, right = node.get_children()
        (start, left_end), (right_start, end) = self.source.extent(left), self.source.extent(right)
        between = self.source.text(left_end, right_start)
        sign = between.strip()
        at = left_end + len(between) - len(between.lstrip())
        for other in FLIPPED.get(sign, ()):
            self.add("flip-comparison", at, at + len(sign), other)
        if sign in LOGIC:
            self.add("swap-logic", at, at + len(sign), LOGIC[sign])
            self.add("drop-operand", start, right_start, "")
            self.add("drop-operand", left_end, end, "")
        if sign in ARITHMETIC and integer_typed(left):
            self.add("arithmetic", at, at + len(sign), ARITHMETIC[sign])
        self.expression(left)
        self.expression(right)

    def unary(self, node):
        operand = list(node.get_children())[0]
        start, end = self.source.extent(node)
        text = self.source.text(start, end)
        for sign, other in (("++", "--"), ("--", "++")):
            if text.startswith(sign):
                self.add("arithmetic", start, start + 2, other)
            elif text.endswith(sign):
                self.add("arithmetic", end - 2, end, other)
        if text.startswith("!"):
            self.add("drop-not", start, start + 1, "")
        self.expression(operand)

    def choice(self, node):
        condition, first, second = node.get_children()
        extent = self.source.extent(node)
        self.add("pick-branch", *extent, self.source.text_of(first))
        self.add("pick-branch", *extent, self.source.text_of(second))
        self.condition(condition)
        self.expression(first)
        self.expression(second)

    def call(self, node):
        arguments = list(node.get_arguments())
        callee = node.referenced
        types = [p.type.get_canonical().spelling for p in callee.get_arguments()] if callee is not None else []
        for i, (left, right) in enumerate(zip(arguments, arguments[1:])):
            one, other = self.source.text_of(left), self.source.text_of(right)
            if i + 1 < len(types) and types[i] == types[i + 1] and one != other:
                start, end = left.extent.start.offset, right.extent.end.offset
                middle = self.source.text(left.extent.end.offset, right.extent.start.offset)
                self.add("swap-arguments", start, end, other + middle + one)
        for argument in arguments:
            self.expression(argument)

    def member(self, node):
        other = next_field(node)
        end = node.extent.end.offset
        if other is not None:
            self.add("swap-field", end - len(node.spelling), end, other)
        for child in node.get_children():
            self.expression(child)

    def subscript(self, node):
        base, index = node.get_children()
        start, end = self.source.extent(index)
        self.add("index", start, end, f"{self.source.text(start, end)} + 1")
        self.expression(base)
        if unwrapped(index).kind not in LITERALS:
            self.expression(index)

    def cast(self, node):
        value = [c for c in node.get_children() if c.kind.is_expression()][-1]
        self.add("drop-cast", node.extent.start.offset, value.extent.start.offset, "")
        self.expression(value)

    def name(self, node):
        start, end = self.source.extent(node)
        referenced = node.referenced
        if referenced is not None and referenced.kind == CursorKind.ENUM_CONSTANT_DECL:
            self.neighbours(start, end, 0 if is_a_name(node.spelling) else referenced.enum_value)
        elif node.spelling in self.loaded:
            self.add("re-read", start, end, self.loaded[node.spelling])

    def literal(self, node):
        start, end = self.source.extent(node)
        text = self.source.text(start, end)
        number = INTEGER.match(text)
        if number is None:
            self.neighbours(start, end, None)
            return
        value, suffix = int(number.group(1), 0), number.group(2)
        show = (lambda n: f"0x{n:X}{suffix}") if text[:2].lower() == "0x" else (lambda n: f"{n}{suffix}")
        self.add("constant", start, end, show(value + 1))
        if value > 0:
            self.add("constant", start, end, show(value - 1))

    def neighbours(self, start, end, value):
        text = self.source.text(start, end)
        if text not in LARGEST:
            self.add("constant", start, end, f"({text} + 1)")
        if value != 0:
            self.add("constant", start, end, f"({text} - 1)")

    def macro(self, node, start, end, name):
        text = self.source.text(start, end)
        load = LOAD_USE.match(text)
        if load is not None:
            self.load(node, start, end, load)
        elif "(" not in text and name != "NULL" and not self.defined_here(name):
            value = unwrapped(node)
            zero = value.kind in LITERALS and re.match(r"0[uUlL]*$", next((t.spelling for t in value.get_tokens()), ""))
            self.neighbours(start, end, 0 if zero or is_a_name(name) else None)

    def defined_here(self, name):
        """A constant of this file is damaged where it is defined."""
        return any(name == defined for defined, _, _ in self.source.macro_definitions)

    def load(self, node, start, end, load):
        """The field that an NX_LOAD names becomes the next of its type."""
        path = [part.strip() for part in load.group(2).split(",")]
        if load.group(1) == "_MESSAGE":
            self.add("index", start, end, f"NX_LOAD_MESSAGE({path[0]}, {path[1]} + 1)")
            return
        field = path[-1].split(".")[-1]
        member = next((n for n in node.walk_preorder() if n.kind == CursorKind.MEMBER_REF_EXPR and n.spelling == field), None)
        other = next_field(member) if member is not None else None
        if other is not None:
            at = start + self.source.text(start, end).rindex(field)
            self.add("swap-field", at, at + len(field), other)


def macro_mutants(source):
    """Macros that the core defines for itself: constants by one, and loads of plugin memory done twice or one further."""
    for name, start, end in source.macro_definitions:
        text = source.text(start, end)
        body = text[len(name):].strip()
        at = end - len(body)
        number = INTEGER.match(body)
        if number is not None:
            for value in (int(number.group(1), 0) + 1, int(number.group(1), 0) - 1):
                yield name, "constant", at, end, f"{value}{number.group(2)}"
        elif name == "NXMEM_UNTRUSTED" and "volatile" in body:
            yield name, "drop-volatile", at, end, body.replace("volatile", "").strip()
        elif name.startswith("NX_LOAD") and body.startswith("("):
            parameters, body = re.match(r"(\([^)]*\))\s*(.*)", body, re.S).groups()
            at = end - len(body)
            yield name, "re-read", at, end, f"((void){body}, {body})"
            if "[index]" in body:
                yield name, "index", at, end, body.replace("[index]", "[(index) + 1]")


def mutants_of_source(source):
    raw = [(name, *found) for name, node in source.functions() for found in FunctionMutator(source, node).run()]
    raw += macro_mutants(source)
    counts, seen, mutants = {}, set(), []
    for function, operator, start, end, after in sorted(raw, key=lambda m: (m[2], m[3], m[1], m[4])):
        if (start, end, after) in seen:
            continue
        seen.add((start, end, after))
        number = counts[function, operator] = counts.get((function, operator), 0) + 1
        mutants.append(Mutant(f"{source.path.split('/')[-1]}:{function}:{operator}:{number}", source.path, source.line(start),
                              function, operator, start, end, shortened(source.text(start, end)), after))
    return mutants


def damaged_paths(root):
    """abi/src, and the header that says how the core sees memory that another may write."""
    return core_paths(root) + [UNTRUSTED_HEADER]


def all_mutants(root):
    return [mutant for path in damaged_paths(root) for mutant in mutants_of_source(Source(root, path))]


