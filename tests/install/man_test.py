#!/usr/bin/env python3
"""Manual pages: well formed, and nothing public is without one. What must be there is read from the headers, the library and the command, not from what made the
pages. BUILD: the packaging build. Prints TAP."""
import os
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from tap import answer, main, run, want  # noqa: E402

STAGE = Path(sys.argv[1]) / "stage/usr"
MAN = STAGE / "share/man"
LIB = next((STAGE / "lib").glob("*-linux-gnu"))
COMMAND = [STAGE / "bin/nxmem"]
os.environ["LD_LIBRARY_PATH"] = str(LIB)


def links():
    return {path.name: text for path in (MAN / "man3").iterdir() if (text := path.read_text(encoding="utf-8")).startswith(".so ")}


def pages():
    return [path for path in sorted(MAN.glob("man*/*")) if path.name not in links()]


def shown(page):
    """As a reader sees it, without overstrikes."""
    return re.sub(r".\x08", "", run(["mandoc", "-T", "utf8", "-O", "width=400", page]))


def lint():
    want(len(pages()) > 30, f"{len(pages())} pages are too few")
    for page in pages():
        code, words = answer(["mandoc", "-T", "lint", "-W", "warning", page])
        want(code == 0 and not words, words[:600])


def lint_alarm():
    broken = Path(sys.argv[1]) / "broken.3"
    broken.write_text(".TH X 3 2026-01-01\n.SH NAME\n.PP\n.PP\n", encoding="utf-8")
    code, words = answer(["mandoc", "-T", "lint", "-W", "warning", broken])
    broken.unlink()
    want(code != 0 and words, "no warning")


def whole_links():
    for name, text in links().items():
        target = MAN / text.split()[1]
        want(target.is_file() and f"{name[:-2]}(" in shown(target), f"{name} leads to {target.name}, which does not name it")


def library_functions():
    """Everything that the libraries export: each by a name of its own, and its prototype on the page."""
    for library in sorted(LIB.glob("libnxmem*.so")) + [LIB / "nxmem/adapters/libnxmem_torch.so"]:
        rows = [line.split() for line in run(["nm", "-D", "--defined-only", library]).splitlines()]
        names = [row[2].split("@")[0] for row in rows if row[1] == "T"]
        want(names, f"{library.name} exports nothing")
        missing = [name for name in names if not (MAN / f"man3/{name}.3").is_file()]
        want(not missing, f"{library.name}: no page for {missing}")


def core_functions():
    rows = [line.split() for line in run(["nm", LIB / "libnxmem_core.a"]).splitlines()]
    names = {row[2] for row in rows if len(row) == 3 and row[1] == "T" and row[2].startswith("nxmem_")}
    missing = sorted(name for name in names if not (MAN / f"man3/{name}.3").is_file())
    want(len(names) > 100 and not missing, f"of {len(names)} functions, no page for {missing}")


def header_text():
    """Each documented line of a header is on its page: nothing was lost on the way."""
    for header, page in (("nxmem.h", "nxmem"), ("nxmem_registry.h", "nxmem_registry"), ("nxmem/count.h", "nxmem-core-count")):
        words = re.sub(r"\s+", " ", shown(MAN / f"man3/{page}.3"))
        text = (STAGE / "include" / header).read_text(encoding="utf-8")
        for comment in re.findall(r"^/\*(?!@)(.*?)\*/", text, re.DOTALL | re.MULTILINE):
            for word in re.findall(r"[A-Za-z_]{5,}", re.sub(r"-{3,}|clang-format \w+|\w+_H\b", "", comment)):
                want(word in words, f"{page}.3 lacks `{word}` of {header}")


def help_of(*words):
    return run([*COMMAND, *words, "--help"], env={**os.environ, "COLUMNS": "80"})


def subcommand_names():
    return re.findall(r"^  ([a-z]+) FILE ", help_of(), re.MULTILINE)


def help_options(*words):
    """Options of --help with their arguments: {"--json[=FILE]", "-j"}."""
    found = set()
    for line in help_of(*words).splitlines():
        match = re.match(r"^  (?:(-\w)(?:, )?|    )(--\S+)?(?:\s|$)", line)
        found |= set(filter(None, match.groups())) if match else set()
    return found


def page_options(text):
    """The same of a section of the page: lines that begin with options, and nothing that is said about them."""
    found = set()
    for line in text.splitlines():
        match = re.match(r"^ {7}(?:(-\w)(?:, |(?=\s|$)))?(--\S+)?(?:\s|$)", line)
        found |= set(filter(None, match.groups())) if match else set()
    return found


SAID_ONCE = {"-?", "-V", "--help", "--usage", "--version"}


def sections():
    """Of each subcommand, as the page has it; and OPTIONS under the name of none."""
    page = shown(MAN / "man1/nxmem.1")
    found = {"": re.search(r"^OPTIONS\n(.*?)^[A-Z]", page, re.DOTALL | re.MULTILINE).group(1)}
    inside = re.search(r"^SUBCOMMANDS\n(.*?)^[A-Z]", page, re.DOTALL | re.MULTILINE).group(1)
    parts = re.split(r"^   (\S+)$", inside, flags=re.MULTILINE)
    return found | dict(zip(parts[1::2], parts[2::2]))


def command_options():
    """What --help lists is on the page, under its subcommand, and the page lists nothing else."""
    there = sections()
    want(sorted(there) == sorted(["", *subcommand_names()]) and len(there) >= 6, f"sections {sorted(there)}, subcommands {subcommand_names()}")
    for name, text in there.items():
        said, listed = help_options(*[name][: bool(name)]), page_options(text)
        said, listed = (said - SAID_ONCE, listed - SAID_ONCE) if name else (said - {"-?"}, listed - {"-?"})
        want(said == listed, f"nxmem {name}: --help alone {sorted(said - listed)}, the page alone {sorted(listed - said)}")
        want(said or name == "", f"nxmem {name} has no option")


def command_option_alarm():
    """An option that is on one side alone is noticed."""
    text = sections()["run"]
    want("--policy=FILE" in help_options("run") and "--policy=FILE" in page_options(text), "no --policy=FILE")
    want("--policy=FILE" not in page_options(text.replace("--policy=FILE", "--polizy=FILE")), "it is not looked at")


def groff():
    """As man itself formats them: no complaint."""
    for page in pages():
        code, words = answer(["sh", "-c", 'exec man --warnings -E UTF-8 -l -Tutf8 -Z "$0" >/dev/null', page], env={**os.environ, "MANROFFSEQ": "", "LC_ALL": "C.UTF-8"})
        want(code == 0 and not words, f"{page.name}: {code} {words[:600]}")


PUBLIC = ["nxmem.h", "nxmem_capabilities.h", "nxmem_manager.h", "nxmem_policy.h", "nxmem_registry.h", "nxmem_torch.h"]


def documented():
    """Each function of a public header has a comment right above it, or is one of a group that has: declarations without an empty line between them."""
    count = 0
    for header in PUBLIC:
        text = (STAGE / "include" / header).read_text(encoding="utf-8")
        text = re.sub(r"/\*.*?\*/", lambda found: "/**/" if found.group().count(" ") > 1 else "", text, flags=re.DOTALL)
        for block in re.split(r"\n\s*\n", text):
            names = re.findall(r"^NXMEM_PUBLIC[^(]*?\b(nxmem_\w+)\(", block, re.MULTILINE)
            count += len(names)
            want(not names or "/**/" in block.split("NXMEM_PUBLIC")[0], f"{header}: {names} without a word")
    want(count > 90, f"{count} functions are too few")


def command_sections():
    page = shown(MAN / "man1/nxmem.1")
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SUBCOMMANDS", "EXIT STATUS", "FILES", "ENVIRONMENT", "EXAMPLES"):
        want(re.search(rf"^{heading}$", page, re.MULTILINE), f"no {heading}")
    for word in ("--help", "--usage", "--version", "Could not run", "LD_LIBRARY_PATH"):
        want(word in page, f"no {word}")
    ends = set(re.findall(r"^ +(\d)  ", re.search(r"^EXIT STATUS\n(.*?)^[A-Z]", page, re.DOTALL | re.MULTILINE).group(1), re.MULTILINE))
    for name in ["", *subcommand_names()]:
        said = set(re.findall(r"^  (\d)  ", help_of(*[name][: bool(name)]), re.MULTILINE))
        want(said and said <= ends, f"nxmem {name} may end with {sorted(said - ends)}, which EXIT STATUS does not have")
    examples = re.search(r"^EXAMPLES\n(.*?)^[A-Z]", page, re.DOTALL | re.MULTILINE).group(1)
    lines = re.findall(r"^ {7}nxmem (\w+) \S.*$", examples, re.MULTILINE)
    want(len(lines) >= 5 and lines == re.findall(r"\bnxmem (\w+) [-./]", examples), f"a line to each command: {lines}")
    others = re.findall(r"(\w+)\((\d)\)", re.search(r"^SEE ALSO\n(.*?)^\S*nxmem", page, re.DOTALL | re.MULTILINE).group(1))
    missing = [f"{name}({section})" for name, section in others if not (MAN / f"man{section}/{name}.{section}").is_file()]
    want(len(others) >= 5 and not missing, f"SEE ALSO leads to {missing} of {others}")


sys.exit(main([
    ("every page is well formed", lint), ("and a malformed one is noticed", lint_alarm),
    ("every link leads to a page that names it", whole_links),
    ("every function that a library exports has a page", library_functions),
    ("every function of the core has a page", core_functions), ("no word of a header's comments is lost", header_text),
    ("no complaint of man about any page", groff), ("every public function has words of its own or its group's", documented),
    ("nxmem.1 has each subcommand and option of --help, and no other", command_options), ("and one that differs is noticed", command_option_alarm),
    ("nxmem.1 says how it ends, what it reads, and what it is told by", command_sections)]))
