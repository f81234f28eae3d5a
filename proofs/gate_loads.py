"""Where the core may touch plugin memory, judged on libclang's AST: a pointer into it may stand in four places only.

They are: an accessor of abi/src/load.h, an address asked for by a cast to uintptr_t, and the argument of another reader
of the core, whole or as the address of one member. Every other mention of it is stray, whatever it looks like: a second
name, a cast, an index, a macro that hides one of them.
"""
import os
import re
import sys

import gate_run
import gate_source

ACCESSOR = "nx_gate_accessor"
# In the place of abi/src/load.h: each accessor names the pointer it was handed, the type it was told and the member in one call. The
# member is looked up elsewhere, so that a pointer hidden in its name is a mention like any other.
ACCESSORS = f"""
void {ACCESSOR}(const volatile void *src, const volatile void *type, ...);
extern void *nx_gate_elsewhere;
#define NX_AT(type, field) (((const volatile type *)nx_gate_elsewhere)->field)
#define NX_LOAD(type, src, field) ({ACCESSOR}(src, (type *)0, NX_AT(type, field)), NX_AT(type, field))
#define NX_LOAD_STATUS(src, field) NX_LOAD(NxmemStatus, src, field)
#define NX_LOAD_MESSAGE(src, index) NX_LOAD(NxmemStatus, src, message[index])
"""
# The only files that say what an accessor is.
ACCESSOR_FILES = ("abi/src/load.h", "proofs/loads.h")


def bindings():
    """libclang's bindings, or Missing. Debian puts them where only its own interpreter looks; any other can use them."""
    sys.path.append("/usr/lib/python3/dist-packages")
    try:
        from clang import cindex  # python3-clang-14
        cindex.Index.create()
        return cindex
    except Exception as error:  # no bindings, or bindings without their library
        raise gate_run.Missing(f"libclang cannot be loaded (python3-clang-14): {error}") from error


def parsed(cindex, root, path):
    """(unit, first error or None) of one file, its accessors replaced."""
    before = os.path.join(root, "proofs", "gate-accessors.h")
    arguments = ["-std=c11", "-x", "c", "-ferror-limit=1", f"-I{root}/abi/include", f"-I{root}/abi/src", "-include", before]
    unit = cindex.Index.create().parse(os.path.join(root, path), args=arguments, unsaved_files=[(before, ACCESSORS)])
    return unit, next((d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error), None)


class File:
    """One parsed source of the core; `readers` are the names that may take a pointer into plugin memory."""

    def __init__(self, cindex, unit, readers):
        self.cindex, self.kinds, self.unit, self.readers = cindex, cindex.CursorKind, unit, readers

    def own(self, path):
        return [node for node in self.unit.cursor.get_children()
                if node.kind == self.kinds.FUNCTION_DECL and node.is_definition()
                and node.location.file is not None and node.location.file.name == path]

    def strays(self, function):
        """(line, parameter) of each mention that is none of the four."""
        watched = {p.get_usr() or p.hash: p.spelling for p in function.get_arguments() if into_plugin_memory(p.type)}
        return [(node.location.line, node.spelling) for node, above in self.mentions(function, [])
                if node.referenced is not None and (node.referenced.get_usr() or node.referenced.hash) in watched
                and not self.allowed(node, above)]

    def forged(self, function):
        """(line, type) of each pointer that a cast makes of a number: an address asked for must not come back as a pointer."""
        return [(node.location.line, node.type.spelling) for node in function.walk_preorder()
                if node.kind == self.kinds.CSTYLE_CAST_EXPR and node.type.get_canonical().get_pointee().spelling
                and self.is_number(list(node.get_children())[-1])]

    def is_number(self, node):
        node = self.as_written(node)
        return not node.type.get_canonical().get_pointee().spelling and node.type.get_array_size() < 0 \
            and node.kind != self.kinds.INTEGER_LITERAL

    def wide(self, function):
        """(line, type) of each load that is not one scalar: it would load bytes that the ledger of loads does not count."""
        calls = [node for node in function.walk_preorder() if node.kind == self.kinds.CALL_EXPR and node.spelling == ACCESSOR]
        fields = [(node.location.line, self.as_written(list(node.get_arguments())[2])) for node in calls]
        return [(line, field.type.spelling) for line, field in fields if not self.is_scalar_member(field)]

    def as_written(self, node):
        """The expression without the conversions that nobody wrote, and without parentheses."""
        while node.kind in (self.kinds.UNEXPOSED_EXPR, self.kinds.PAREN_EXPR):
            node = next(node.get_children())
        return node

    def is_scalar_member(self, field):
        """One number or pointer, in no union and no bit-field."""
        kinds = (self.cindex.TypeKind.RECORD, self.cindex.TypeKind.CONSTANTARRAY, self.cindex.TypeKind.INCOMPLETEARRAY)
        nodes = list(field.walk_preorder())
        return field.type.get_canonical().kind not in kinds and not any(
            node.referenced is not None and node.kind == self.kinds.MEMBER_REF_EXPR
            and (node.referenced.is_bitfield() or node.referenced.semantic_parent.kind == self.kinds.UNION_DECL) for node in nodes)

    def mentions(self, node, above):
        if node.kind == self.kinds.DECL_REF_EXPR:
            yield node, above
        for child in node.get_children():
            yield from self.mentions(child, above + [node])

    def allowed(self, node, above):
        at, outer = self.outwards(node, above)
        if outer is None:
            return False
        if outer.kind == self.kinds.CSTYLE_CAST_EXPR:
            return at == node and outer.type.spelling == "uintptr_t"
        if outer.kind != self.kinds.CALL_EXPR:
            return False
        arguments = list(outer.get_arguments())
        if outer.spelling == ACCESSOR:
            return at == node and pointee(arguments[0]) == pointee(arguments[1]) and self.is_argument(at, arguments[0])
        return outer.spelling in self.readers and any(
            self.is_argument(at, argument) and into_plugin_memory(parameter.type)
            for argument, parameter in zip(arguments, outer.referenced.get_arguments()))

    def is_argument(self, node, argument):
        """Whether the argument is this expression, but for conversions that nobody wrote."""
        while argument != node and argument.kind == self.kinds.UNEXPOSED_EXPR:
            argument = next(argument.get_children())
        return argument == node

    def outwards(self, node, above):
        """(the mention, or the address of one member of what it points to; what stands around it)"""
        around = [n for n in reversed(above) if n.kind != self.kinds.UNEXPOSED_EXPR]
        at, member = node, False
        while around and around[0].kind == self.kinds.MEMBER_REF_EXPR and "[" not in around[0].type.spelling:
            at, member = around.pop(0), True
        if member:
            if not around or around[0].kind != self.kinds.UNARY_OPERATOR or next(around[0].get_tokens()).spelling != "&":
                return node, None
            at = around.pop(0)
        return at, around[0] if around else None


def into_plugin_memory(kind):
    """Whether a parameter of this type points to volatile: what NXMEM_UNTRUSTED makes of it."""
    canonical = kind.get_canonical()
    target = canonical.element_type if canonical.get_array_size() >= 0 else canonical.get_pointee()
    return target.is_volatile_qualified()


def pointee(argument):
    """The record that an argument of the accessor points to, conversions that nobody wrote left out."""
    node = argument
    while node.type.get_canonical().get_pointee().get_canonical().spelling.endswith("void"):
        node = next(node.get_children(), None)
        if node is None:
            return None
    return re.sub(r"\b(const|volatile) ", "", node.type.get_canonical().get_pointee().spelling)


def check_mentions(root, files, functions):
    """Every mention of a pointer into plugin memory, in every function of the core that takes one."""
    cindex = bindings()
    readers = {name for (path, name), (parameters, _, _) in functions.items()
               if gate_source.untrusted_parameters(parameters)}
    problems = []
    for path in sorted(p for p in files if p.startswith("abi/src/")):
        unit, error = parsed(cindex, root, path)
        if error is not None:
            problems.append(f"does not parse: {path}: {error.spelling}")
            continue
        file = File(cindex, unit, readers)
        own = file.own(os.path.join(root, path))
        problems += [f"load of more than one scalar, which the ledger of loads counts as one: {path}:{line}: {function.spelling}: {kind}"
                     for function in own for line, kind in file.wide(function)]
        problems += [f"pointer made of a number: {path}:{line}: {function.spelling}: ({kind})"
                     for function in own for line, kind in file.forged(function)]
        problems += [f"plugin memory dereferenced outside NX_LOAD: {path}:{line}: {function.spelling}: {name}"
                     for function in own for line, name in file.strays(function)]
    return problems


def check_parameters(functions):
    """A pointer into plugin memory is declared in one way, which every other check can read."""
    return [f"pointer into plugin memory declared otherwise than NXMEM_UNTRUSTED TYPE *NAME: {path}: {name}: {text}"
            for (path, name), (parameters, _, _) in functions.items()
            for text in gate_source.odd_parameters(parameters)]


def check_accessors(files):
    """Nobody else may say what an accessor is."""
    return [f"accessor defined outside {ACCESSOR_FILES[0]}: {path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(0)}"
            for path, text in files.items() if path not in ACCESSOR_FILES
            for match in re.finditer(r"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(?:NX_LOAD\w*|nx_count_load|NXMEM_UNTRUSTED)\b", text, re.M)
            if not (path.endswith("verdict.h") and "NXMEM_UNTRUSTED" in match.group(0))]


def check(root, files, functions):
    return check_parameters(functions) + check_accessors(files) + check_mentions(root, files, functions)
