"""What the gate reads from the sources themselves: functions, contracts, assumptions, loads.

Text, not an AST: the sources are clang-formatted C without tricks, and Frama-C's own list of functions is compared with this one.
"""
import re

CLAUSE = (r"(?:check\s+|admit\s+)?(?:requires|ensures|assigns|behavior|assumes|complete|disjoint|terminates|decreases|exits|"
          r"allocates|frees|loop|ghost|predicate|logic|lemma|axiom|assert)\b")
DEFINITION = re.compile(r"^(?!else|typedef|struct|enum)[A-Za-z_][\w \t\*]*?\b(\w+)\(([^;{}]*)\)\s*\{", re.M)


def without_comments(text):
    """Comments and preprocessor lines blanked, positions kept."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group(0))
    text = re.sub(r"/\*.*?\*/|//[^\n]*", blank, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", blank, text, flags=re.M)


def functions(text):
    """name -> (parameters, body, is_static) of every function that a file defines."""
    plain = without_comments(text)
    found = {}
    for match in DEFINITION.finditer(plain):
        depth, at = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(plain[at], 0)
            at += 1
        found[match.group(1)] = (match.group(2), plain[match.end():at - 1], match.group(0).startswith("static"))
    return found


def annotations(text):
    """(body, line, end position) of each ACSL comment."""
    for match in re.finditer(r"/\*@(.*?)\*/|//@([^\n]*)", text, re.S):
        body = match.group(1) if match.group(1) is not None else match.group(2)
        yield body, text.count("\n", 0, match.start()) + 1, match.end()


def clauses(annotation):
    """The clauses of one annotation, white space normalised."""
    flat = re.sub(r"\s+", " ", re.sub(r"\n\s*@", "\n", annotation)).strip()
    starts = [m.start() for m in re.finditer(r"(?:(?<=^)|(?<=; )|(?<=: )|(?<=;))" + CLAUSE, flat)]
    return [flat[a:b].strip() for a, b in zip(starts, starts[1:] + [len(flat)])]


def contracted_name(text, end):
    """The function that the contract ending at `end` stands before; None where it stands before something else."""
    rest = without_comments(text[end:])
    match = re.match(r"\s*(?:[A-Za-z_][\w \t\*]*?)\b(\w+)\s*\(", rest)
    return match.group(1) if match else None


def requires(text):
    """(function, label, clause text, line) of every precondition of a file."""
    for body, line, end in annotations(text):
        for clause in clauses(body):
            match = re.match(r"(?:check |admit )?requires (?:(\w+):(?!:) ?)?(.*?);?$", clause)
            if match:
                yield contracted_name(text, end), match.group(1) or "", match.group(2).strip(), line


def admitted(text):
    """(text, line) of everything a file asks to be believed: admit clauses and axioms."""
    for body, line, _ in annotations(text):
        flat = re.sub(r"\s+", " ", body)
        for match in re.finditer(r"\b(?:admit|axiom|axiomatic)\b[^;{]*", flat):
            yield match.group(0).strip(), line


def unlabelled(text):
    """(clause, line) of every clause that has no label."""
    for body, line, _ in annotations(text):
        for clause in clauses(body):
            head = re.sub(r"^(check|admit|loop) ", "", clause)
            if re.match(r"(requires|ensures|assumes|invariant)\b", head) and not re.match(r"\w+ \w+:(?!:)", head):
                yield clause, line


def untrusted_parameters(parameters):
    """Names of the parameters that point into the other side's memory."""
    return [re.findall(r"\w+", re.sub(r"\[[^\]]*\]", "", one))[-1] for one in parameters.split(",") if "NXMEM_UNTRUSTED" in one]


def odd_parameters(parameters):
    """Parameters that point into the other side's memory, or seem to, and are not written NXMEM_UNTRUSTED TYPE *NAME."""
    plain = r"\s*NXMEM_UNTRUSTED \w+ \*\s*\w+\s*"
    return [one.strip() for one in parameters.split(",")
            if re.search(r"\bNXMEM_UNTRUSTED\b|\bvolatile\b", one) and not re.fullmatch(plain, one)]
