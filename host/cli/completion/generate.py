#!/usr/bin/env python3
"""Completion for bash out of what the command says of itself, so that it offers what there is.

generate.py --nxmem FILE --man FOLDER_OF_HELPTEXT --out FILE
"""
import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True

FUNCTION = """
# Words that --help lists, and files where one is wanted. Nothing of the command is run.
_nxmem() {
  local word=${COMP_WORDS[COMP_CWORD]} at=1 subcommand= options
  while [ "$at" -lt "$COMP_CWORD" ]; do
    case ${COMP_WORDS[at]} in
      -*) ;;
      *)
        subcommand=${COMP_WORDS[at]}
        break
        ;;
    esac
    at=$((at + 1))
  done
  case $subcommand in
@CASES@
    *) return ;;
  esac
  COMPREPLY=()
  case $word in
    -*)
      local offered
      while IFS= read -r offered; do COMPREPLY+=("$offered"); done < <(compgen -W "$options" -- "$word")
      # An option with an argument goes on behind its sign.
      case ${COMPREPLY[0]-} in *=) compopt -o nospace 2>/dev/null ;; esac
      ;;
    *)
      if [ -z "$subcommand" ]; then
        COMPREPLY=($(compgen -W "@SUBCOMMANDS@" -- "$word"))
      else
        while IFS= read -r offered; do COMPREPLY+=("$offered"); done < <(compgen -f -- "$word")
        compopt -o filenames 2>/dev/null
      fi
      ;;
  esac
}
complete -F _nxmem nxmem
"""


def offered(options):
    """An option whose argument must be given ends in its sign; one whose argument may be left out stands both ways."""
    words = []
    for option in options:
        if option.short and option.short != "-?":
            words.append(option.short)
        if option.long:
            words += [option.long] if not option.argument.startswith("=") else []
            words += [option.long + "="] if option.argument else []
    return " ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--nxmem", "--man", "--out"):
        parser.add_argument(name, required=True)
    arguments = parser.parse_args()
    sys.path.insert(0, arguments.man)
    import helptext  # noqa: E402
    own = helptext.ask(arguments.nxmem)
    names = helptext.subcommands(own)
    rows = [(name, helptext.ask(arguments.nxmem, name)) for name in names] + [('""', own)]
    cases = "\n".join(f"    {name}) options='{offered(said.options)}' ;;" for name, said in rows)
    text = "# bash completion for nxmem, made from its --help." + FUNCTION
    text = text.replace("@CASES@", cases).replace("@SUBCOMMANDS@", " ".join(names))
    Path(arguments.out).parent.mkdir(parents=True, exist_ok=True)
    Path(arguments.out).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
