"""The core with every mutant in it at once: the contracts are then compiled one time, and a number chooses the damage.

A damaged function stands beside the undamaged one under a name of its own, and the undamaged one, which keeps its contract, hands its
arguments over where the number is that mutant's. A damaged macro is a choice between two expressions.
"""
import os
import re
import shutil

from source import Source

CHOICE = "extern volatile int nx_mutant; "
DEFINITION = """
#include <stdlib.h>
volatile int nx_mutant;
__attribute__((constructor)) static void nx_choose_mutant(void) {
  const char *chosen = getenv("NX_MUTANT");
  if (chosen != NULL) nx_mutant = atoi(chosen);
}
"""


def before_comments(text, at):
    """Where the comments that stand directly before `at` begin."""
    while True:
        head = text[:at].rstrip()
        if not head.endswith(b"*/"):
            return at
        at = head.rindex(b"/*")


def renamed(text, name, number):
    """The function's text under a name of its own. Indented: it has no contract and is not looked for."""
    new, hits = re.subn(rf"\b{name}\(", f"{name}__{number}(", text, count=1)
    if hits != 1:
        raise RuntimeError(f"{name} does not name itself")
    return "  " + new if new.startswith("static") else "  static " + new


def with_functions(source, text_of, numbered):
    """Insertions (offset, text) for the mutants of functions; `numbered` holds (number, mutant)."""
    insertions = []
    for name, node in source.functions():
        own = [(n, m) for n, m in numbered if m.function == name]
        if not own:
            continue
        start, end = source.extent(node)
        body = next(c for c in node.get_children() if c.kind.name == "COMPOUND_STMT").extent.start.offset
        variants = CHOICE + "\n"
        for number, mutant in own:
            damaged = text_of[start:mutant.start] + mutant.after.encode() + text_of[mutant.end:end]
            variants += renamed(damaged.decode(), name, number) + "\n"
        arguments = ", ".join(p.spelling for p in node.get_arguments())
        call = "{name}__{number}({arguments});"
        if node.result_type.spelling == "void":
            call = f"{{{{ {call} return; }}}}"
        else:
            call = f"return {call}"
        cases = "".join(f" if (nx_mutant == {number}) " + call.format(name=name, number=number, arguments=arguments)
                        for number, _ in own)
        insertions.append((before_comments(text_of, start), variants.encode()))
        insertions.append((body + 1, cases.encode()))
    return insertions


def with_macros(source, numbered):
    """Replacements (start, end, text) for the mutants of macros that the core defines."""
    replacements = []
    for name, _, end in source.macro_definitions:
        own = [(n, m) for n, m in numbered if m.function == name]
        if own:
            start = own[0][1].start
            text = source.text(start, end)
            for number, mutant in own:
                text = f"(nx_mutant == {number} ? {mutant.after} : {text})"
            replacements.append((start, end, text.encode()))
    return replacements


def file_with_all(root, path, numbered):
    source = Source(root, path)
    macros = with_macros(source, numbered)
    text = source.bytes
    edits = [(at, at, new) for at, new in with_functions(source, text, numbered)] + macros
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return CHOICE.encode() + text if macros else text


def make(root, folder, mutants):
    """A project in `folder` whose core holds all mutants that can be told apart there; returns id -> number."""
    # The contracts run in the quiet world, where nothing is volatile.
    mutants = [m for m in mutants if m.operator != "drop-volatile"]
    for part in ("abi", "fuzz"):
        shutil.copytree(f"{root}/{part}", f"{folder}/{part}", ignore=shutil.ignore_patterns("__pycache__"))
    numbers = {mutant.id: number for number, mutant in enumerate(mutants, 1)}
    for path in sorted({m.file for m in mutants}):
        numbered = [(numbers[m.id], m) for m in mutants if m.file == path]
        with open(f"{folder}/{path}", "wb") as file:
            file.write(file_with_all(root, path, numbered))
    with open(f"{folder}/fuzz/support/harness.c", "a", encoding="utf-8") as file:
        file.write(DEFINITION)
    return numbers


def seeds_folder(root):
    return os.path.join(root, "fuzz", "seeds", "core")
