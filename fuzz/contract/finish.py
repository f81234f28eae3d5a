#!/usr/bin/env python3
"""Makes what the translator printed fit to be linked with the other files of the core.

    finish.py OUT FUNCTIONS PUBLIC LOG WARNINGS

FUNCTIONS are those that this file defines, PUBLIC those of the core's headers, both separated by commas. Wrappers of
static functions become static. Calls of a public function that another file defines go to that file's wrapper. No
wrapper is instrumented, neither by a sanitizer nor for coverage: what it reads it has asked for first, its code is
most of the file, and what is new is asked of the core, not of what checks it. What a check would say is put together
only where it fails: translated.h. Those of sampled.txt check some of their calls.

WARNINGS gets the warnings in the translator's LOG, one a line: "FUNCTION: text", without the place, since lines move;
and a line for each clause of a contract that no check of the wrapper names.
"""
import pathlib
import re
import sys

WRAPPER = re.compile(r"[A-Za-z_][^;{}()=]*[ *]__gen_e_acsl_(\w+)\(")
# The translator's own declarations of what translated.h defines.
DECLARATION = re.compile(
    r"^(?:extern )?\s*__attribute__\(\(__FC_BUILTIN__\)\)[^;{}]*?\b__(?:e_acsl|gmpz)_\w+\s*\([^;]*;", re.M)
NUMBER = re.compile(r"^struct __e_acsl_mpz_struct \{.*?^\};", re.M | re.S)
# A check is a record, filled in field by field, and a call with a truth value.
PIECE = re.compile(
    r"__e_acsl_assert_data_t\s+__gen_e_acsl_assert_data\w*\s*=\s*\{\.values = \(void \*\)0\};"
    r"|(?P<of>__gen_e_acsl_assert_data\w*)\.(?P<field>\w+) =\s*(?P<value>\"(?:[^\"\\]|\\.)*\"|\d+);"
    r"|__e_acsl_assert\((?P<holds>(?:[^;\"]|\"(?:[^\"\\]|\\.)*\")*?),\s*& (?P<data>__gen_e_acsl_assert_data\w*)\);")
WHOLE = {'"all behaviors complete"': '"complete"', '"all behaviors disjoint"': '"disjoint"'}
WARNING = re.compile(r"^\[e-acsl\] (?:(\S+):(\d+): )?Warning:(.*)$")
DECLARED = re.compile(r"^\w[\w *]*?\b(\w+)\(", re.M)
# As printed: a bound variable, its bounds, then anything but a negation.
EXISTS_CHAIN = re.compile(r"∃[^;]*;[^∧]*∧\s*(?!¬\()\S")
SAMPLED = dict(re.findall(r"^(\w+): (\w+)", (pathlib.Path(__file__).parent / "sampled.txt").read_text(), re.M))
CHECK = re.compile(r'\.name = "([^"]*)"')


def clauses(contract):
    """Labels of what a contract demands and promises, behind their behaviour's name, as the translator names checks."""
    behavior = ""
    for kind, name in re.findall(r"\b(behavior|requires|ensures)\s+(\w+):", contract):
        if kind == "behavior":
            behavior = f"{name}/"
        else:
            yield behavior + name


def check(holds, fields):
    """The code of a check. What the translator adds to \\separated, that both blocks are whole, is no clause of ours: a
    table may end early or not be there at all, and comparing addresses needs neither."""
    if fields.get("name") == '"separated_guard"':
        return ""
    text, kind = fields["pred_txt"], fields["kind"]
    if text in WHOLE:
        return f'CONTRACT_CHECK({holds}, {fields["fct"]}, {WHOLE[text]}, "Behaviors", {text});'
    return f'CONTRACT_CHECK({holds}, {fields["fct"]}, {fields.get("name", kind)}, {kind}, {text});'


def checks_rewritten(text):
    records = {}

    def piece(match):
        if match["holds"]:
            return check(match["holds"], records.pop(match["data"]))
        if match["field"]:
            records.setdefault(match["of"], {})[match["field"]] = match["value"]
        return ""

    text = DECLARATION.sub("", text).replace("__gmpz_", "number_")
    made = re.sub(r"\n[ \n]*\n", "\n", PIECE.sub(piece, NUMBER.sub("", text)))
    if records or "__gen_e_acsl_assert_data" in made or "__e_acsl_assert(" in made:
        sys.exit("a check is not written as finish.py knows it")
    return made


def sampled(text):
    """Before a wrapper of sampled.txt does anything, it asks whether this call is to be checked."""
    for name, size in SAMPLED.items():
        takes = re.search(
            rf"CONTRACT_PLAIN (?P<type>[^;{{}}()=]*?)__gen_e_acsl_{name}\((?P<takes>[^)]*)\)\s*\{{\n", text)
        if takes is None:
            continue
        names = ", ".join(re.search(r"(\w+)\s*$", one).group(1) for one in takes["takes"].split(","))
        plain = f"{name}({names});"
        unchecked = f"{{ {plain} return; }}" if takes["type"].strip() == "void" else f"return {plain}"
        text = f"{text[:takes.end()]}  if (contract_leaves_out({size})) {unchecked}\n{text[takes.end():]}"
    return text


class Printed:
    """What the translator printed, line by line: each contract before its wrapper, a function's last brace in the first
    column."""

    def __init__(self, lines, public):
        self.public = public
        self.lines = []       # without the contracts
        self.checked = {}     # wrapper -> (its contract, the names of its checks)
        self.contract = []
        self.inside = None    # the wrapper whose body this is, or which was only declared
        in_contract = False
        for line in lines:
            in_contract = in_contract or line.startswith("/*@")
            if in_contract:
                self.contract = [line] if line.startswith("/*@") else [*self.contract, line]
                in_contract = "*/" not in line
            else:
                self.take(line)

    def take(self, line):
        begins = WRAPPER.match(line)
        if begins:
            self.inside = begins.group(1)
            line = f"{'' if self.inside in self.public else 'static '}CONTRACT_PLAIN {line}"
            self.checked[self.inside] = ("".join(self.contract), set())
        elif line.startswith("}"):
            self.inside, self.contract = None, []
        elif self.inside and ".name" in line:
            self.checked[self.inside][1].update(CHECK.findall(line))
        self.lines.append(line)

    def left_out(self):
        for name, (contract, checks) in self.checked.items():
            if EXISTS_CHAIN.search(contract):
                yield f"{name}: of what is said to exist only the last part is checked, unless it is one negation"
            yield from (f"{name}: {clause} is not checked" for clause in clauses(contract) if clause not in checks)


def function_at(path, line, cache={}):
    """The function whose contract or body a line of a file belongs to: the next one declared, from that line on."""
    if path not in cache:
        file = pathlib.Path(path)
        text = file.read_text() if file.exists() else ""
        cache[path] = [(text.count("\n", 0, m.start()) + 1, m.group(1)) for m in DECLARED.finditer(text)]
    return next((name for at, name in cache[path] if at >= line), "?")


def warnings(log):
    """A warning is its first line and those under it that are indented."""
    found = []
    for line in pathlib.Path(log).read_text().splitlines():
        begins = WARNING.match(line)
        if begins:
            path, number, text = begins.groups()
            found.append([function_at(path, int(number)) if path else "-", text.strip()])
        elif line.startswith(" ") and found:
            found[-1][1] += " " + line.strip()
    return sorted({f"{name}: {text.strip()}" for name, text in found})


def main(out, own, public, log, kept):
    path = pathlib.Path(out)
    printed = Printed(path.read_text().splitlines(keepends=True), set(public))
    text = sampled(checks_rewritten("".join(printed.lines)))
    elsewhere = sorted(set(re.findall(r"\b(nxmem_\w+)\(", text)) & set(public) - set(own))
    path.write_text("".join(f"#define {name} __gen_e_acsl_{name}\n" for name in elsewhere) + text)
    pathlib.Path(kept).write_text("".join(f"{line}\n" for line in [*warnings(log), *printed.left_out()]))
    without = [name for name in own if name not in printed.checked]
    if without:
        sys.exit(f"no contract was translated for: {' '.join(without)}")


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2].split(","), sys.argv[3].split(","), sys.argv[4], sys.argv[5])
