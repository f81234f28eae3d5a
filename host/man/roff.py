"""Text as man(7) macros: what the generators of pages share."""
import re
import textwrap

WIDTH = 76


def escape(text):
    """Characters that roff would read otherwise."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace("^", "\\(ha").replace("~", "\\(ti")
    return "\\&" + text if text.startswith(".") else text


def filled(text):
    # Wrapped before it is escaped; a line that begins with a dot is escaped by itself.
    return [escape(line) for line in textwrap.wrap(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)]


def verbatim(text):
    return [".PP", ".nf", *[escape(line) if line.strip() else "\\&" for line in text.splitlines()], ".fi"]


def is_tagged(line):
    """`WORD  what it means`: the word, the meaning."""
    return re.match(r"\s*(\S+(?: \S+)*?),?\s{2,}(\S.*)$", line)


def paragraph(lines, wrapped):
    """One paragraph: lines with a word, a gap and its meaning become a list; what is indented below goes on with it, and where lines were wrapped without
    indentation, so does every other line."""
    out, text, tag = [], [], None

    def flush():
        if tag is not None:
            out.extend([".TP", ".B " + escape(tag), *filled(" ".join(text))])
        elif text:
            out.extend([".PP", *filled(" ".join(text))])

    for line in lines:
        found = is_tagged(line)
        if found or (tag is not None and not wrapped and not line.startswith(" ")):
            flush()
            tag, text = (found.group(1), [found.group(2)]) if found else (None, [line])
        else:
            text.append(line)
    flush()
    return out


def prose(text, wrapped=False):
    """Paragraphs between empty lines; who attacks and what is promised begin their own."""
    out = []
    text = re.sub(r"^(?=(?:Attackers|Promise): )", "\n", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if block.strip():
            out += paragraph(block.splitlines(), wrapped)
    return out


def joined(lines):
    """No paragraph begins twice: a heading begins one by itself."""
    return "\n".join(line for at, line in enumerate(lines)
                     if line != ".PP" or not lines[at - 1].startswith((".SH", ".SS"))) + "\n"


def title(name, section, day, version, what):
    return [f'.TH {name.upper()} {section} "{day}" "nxmem {version}" "{what}"']
