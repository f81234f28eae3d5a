#!/usr/bin/env python3
"""The models' rules' own test: each row is a small model and source, and what must be said of it. Prints TAP."""
import sys

sys.dont_write_bytecode = True
import check_models  # noqa: E402
from check_layers import print_tap  # noqa: E402

SOURCE = """/*
 * gate.c: G1 and G2 are steps of proofs/models/gate.pml.
 */
static int shut(int *state) { return (*state = 1); /* G1 */ }

/* Not a step. */
int nx_gate_ask(int *state,
                int *count) {
  if (!shut(state)) return 0;
  return *count == 0; /* G2: the count */
}
"""
MODEL = """/*
 * gate.pml: a gate.
 *
 * host/src/gate.c  shut          G1 shut it (one store)
 *                  nx_gate_ask   G2 take the count,
 *                                and go on (G9 lies elsewhere)
 */
active proctype closer() { state = 1; /* G1 */ seen = count /* G2 */ }
"""


def said(source=SOURCE, model=MODEL, path="host/src/gate.c", name="gate.pml"):
    rows = check_models.all_rows({path: source}, {name: model} if model else {})
    return [complaint for _, complaints in rows for complaint in complaints]


def without(text, old, new=""):
    assert old in text, old
    return text.replace(old, new)


# name, complaints, a word of the one that must be there; None: there must be none
ROWS = [
    ("a model and its source agree", said(), None),
    ("no model at all", said(model=None, source=without(SOURCE, "proofs/models/gate.pml")), "none"),
    ("the source has another name", said(path="host/src/door.c"), "not there"),
    ("the model has another name", said(name="door.pml"), "names gate.pml"),
    ("a function has another name", said(without(SOURCE, "nx_gate_ask", "nx_gate_look")), "no nx_gate_ask()"),
    ("a step is not marked", said(without(SOURCE, " /* G2: the count */")), "marks G2"),
    ("a step is marked in another function", said(without(SOURCE, "/* Not a step. */", "").replace(
        "(*state = 1); /* G1 */ }", "(*state = 1); }").replace("return 0;", "return 0; /* G1 */")), "marks G1"),
    ("a mark is of no model", said(without(SOURCE, "/* G1 */", "/* G1, G7 */")), "marks G7"),
    ("a step is not in the model's body", said(model=without(MODEL, " /* G2 */")), "model's body"),
    ("a row without steps", said(model=without(MODEL, "G1 shut it (one store)", "shuts it")), "no step is named"),
    ("a model that names no place", said(model=MODEL.replace("host/src/", "")), "names no place"),
]


def test_rows():
    for name, complaints, must in ROWS:
        right = any(must in complaint for complaint in complaints) if must else not complaints
        yield f"models: {name}", [] if right else complaints or ["stayed quiet"]


if __name__ == "__main__":
    sys.exit(print_tap(list(test_rows())))
