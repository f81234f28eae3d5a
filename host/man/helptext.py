"""What the command says of itself (--help), taken apart: the manual page and the shell's completion are made of it."""
import re
import subprocess

OPTION = re.compile(r"^(?:  (-\S)(?:, (--\S+))?|      (--\S+))(?:\s+(\S.*))?$")


class Option:
    """One line of options: short and long name, its argument, its text."""

    def __init__(self, short, spelled, text):
        self.short, self.text = short, text
        parts = re.match(r"(--[\w-]+)(\[?=?.*)$", spelled or "")
        self.long, self.argument = (parts.group(1), parts.group(2)) if parts else (None, "")

    def head(self):
        return ", ".join(filter(None, [self.short, self.long and self.long + self.argument]))


class Help:
    """One --help: usage line, text before the options, options, text behind them."""

    def __init__(self, words):
        lines = words.splitlines()
        self.usage = lines[0].removeprefix("Usage: ")
        self.options, self.before, self.behind = [], [], []
        for line in lines[1:]:
            found = OPTION.match(line)
            if found:
                self.options.append(Option(found.group(1), found.group(2) or found.group(3), found.group(4) or ""))
            elif self.options and re.match(r" {20,}\S", line):
                self.options[-1].text += " " + line.strip()
            else:
                (self.behind if self.options else self.before).append(line)


def ask(command, *words):
    done = subprocess.run([command, *words, "--help"], capture_output=True, text=True, check=True,
                          env={"COLUMNS": "80", "LC_ALL": "C.UTF-8", **_library_path()})
    return Help(done.stdout)


def _library_path():
    import os
    return {key: os.environ[key] for key in ("LD_LIBRARY_PATH", "PATH") if key in os.environ}


def subcommands(main):
    """Names that the main help lists, `  inspect FILE   what ...`."""
    return [found.group(1) for line in main.before if (found := re.match(r"  ([a-z]+) [A-Z.\[\]]+ {2,}\S", line))]
