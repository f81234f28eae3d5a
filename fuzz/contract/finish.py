#!/usr/bin/env python3
"""Makes what the translator printed fit to be linked with the other files of the core.

    finish.py OUT FUNCTIONS PUBLIC LOG WARNINGS

FUNCTIONS are those that this file defines, PUBLIC those of the core's headers, both separated by commas. Wrappers of
static functions become static. Calls of a public function that another file defines go to that file's wrapper. And no
wrapper is instrumented by a sanitizer: what it reads it has asked for first, and its code is most of the file.

WARNINGS gets the warnings in the translator's LOG, one a line: "FUNCTION: text", without the place, since lines move; and
a line for each clause of a contract that no check of the wrapper names.
"""
import pathlib
import re
import sys

WRAPPER = re.compile(r"^(?=[A-Za-z_][^;{}()=]*[ *]__gen_e_acsl_(\w+)\()", re.M)
PLAIN = '__attribute__((no_sanitize("address", "undefined")))'
WARNING = re.compile(r"^\[e-acsl\] (?:(\S+):(\d+): )?Warning:(.*)$")
CHECKED = re.compile(
    r"/\*@((?:(?!\*/).)*?)\*/\s*^[A-Za-z_][^;{}()=]*[ *]__gen_e_acsl_(\w+)\([^;{}]*?\)\s*^\{(.*?)^\}", re.M | re.S)
DECLARED = re.compile(r"^\w[\w *]*?\b(\w+)\(", re.M)


def finished(text, own, public):
    text = re.sub(r"/\*@.*?\*/", "", text, flags=re.S)
    elsewhere = [name for name in public if name not in own and re.search(rf"\b{name}\(", text)]
    renamed = "".join(f"#define {name} __gen_e_acsl_{name}\n" for name in elsewhere)

    def mark(match):
        return f"{PLAIN} " if match.group(1) in public else f"static {PLAIN} "

    found = set(WRAPPER.findall(text))
    without = [name for name in own if name not in found]
    return renamed + WRAPPER.sub(mark, text), without


def clauses(contract):
    """Labels of what a contract demands and promises, behind the name of their behaviour, as the translator names checks."""
    behavior = ""
    for kind, name in re.findall(r"\b(behavior|requires|ensures)\s+(\w+):", contract):
        if kind == "behavior":
            behavior = f"{name}/"
        else:
            yield behavior + name


def left_out(text):
    """The contract stands printed before its wrapper; each check sets the name of its clause."""
    for contract, name, body in CHECKED.findall(text):
        checked = set(re.findall(r'\.name = "([^"]*)"', body))
        yield from (f"{name}: {clause} is not checked" for clause in clauses(contract) if clause not in checked)


def function_at(path, line, cache={}):
    """The function whose contract or body a line of a file belongs to: the next one declared, from that line on."""
    if path not in cache:
        text = pathlib.Path(path).read_text()
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
    printed = path.read_text()
    text, without = finished(printed, own, set(public))
    path.write_text(text)
    pathlib.Path(kept).write_text("".join(f"{line}\n" for line in [*warnings(log), *left_out(printed)]))
    if without:
        sys.exit(f"no contract was translated for: {' '.join(without)}")


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2].split(","), sys.argv[3].split(","), sys.argv[4], sys.argv[5])
