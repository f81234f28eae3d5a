#!/usr/bin/env python3
"""Makes what the translator printed fit to be linked with the other files of the core.

    finish.py OUT FUNCTIONS PUBLIC

FUNCTIONS are those that this file defines, PUBLIC those of the core's headers, both separated by commas. Wrappers of
static functions become static. Calls of a public function that another file defines go to that file's wrapper. And no
wrapper is instrumented by a sanitizer: what it reads it has asked for first, and its code is most of the file.
"""
import pathlib
import re
import sys

WRAPPER = re.compile(r"^(?=[A-Za-z_][^;{}()=]*[ *]__gen_e_acsl_(\w+)\()", re.M)
PLAIN = '__attribute__((no_sanitize("address", "undefined")))'


def finished(text, own, public):
    text = re.sub(r"/\*@.*?\*/", "", text, flags=re.S)
    elsewhere = [name for name in public if name not in own and re.search(rf"\b{name}\(", text)]
    renamed = "".join(f"#define {name} __gen_e_acsl_{name}\n" for name in elsewhere)

    def mark(match):
        return f"{PLAIN} " if match.group(1) in public else f"static {PLAIN} "

    found = set(WRAPPER.findall(text))
    without = [name for name in own if name not in found]
    return renamed + WRAPPER.sub(mark, text), without


def main(out, own, public):
    path = pathlib.Path(out)
    text, without = finished(path.read_text(), own, set(public))
    path.write_text(text)
    if without:
        sys.exit(f"no contract was translated for: {' '.join(without)}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2].split(","), sys.argv[3].split(","))
