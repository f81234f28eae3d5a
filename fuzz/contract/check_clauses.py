#!/usr/bin/env python3
"""TAP: is every clause of the core's contracts part of the translation, but for those of not_translated.txt?

    check_clauses.py [--root ROOT] [--list]

Translates each file of abi/src and compares the translator's warnings, and the clauses that no check names, with the
reviewed list beside this script. A line there that meets nothing any more fails as well, so does a
function of sampled.txt that the core does not have.
--list  print what was found, as the list would have it, and compare nothing
"""
import argparse
import concurrent.futures
import fnmatch
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LIST = HERE / "not_translated.txt"
SAMPLED = re.compile(r"^(\w+): \w+\n\s+=> \S", re.M)


def translated(root, source, folder):
    """What was left out, and the translator's words where it failed."""
    kept = folder / f"{source.stem}.warnings"
    done = subprocess.run(
        [HERE / "translate.sh", "--root", root, "--source", source.relative_to(root),
         "--out", folder / f"{source.stem}.e.c", "--warnings", kept], capture_output=True, text=True, check=False)
    return (kept.read_text().splitlines() if kept.exists() else []), (done.stderr if done.returncode else "")


def reviewed():
    """(pattern of a line, why it is right), in the file's order."""
    text = re.sub(r"^#.*\n", "", LIST.read_text(), flags=re.M)
    entries = re.sub(r"\n\s+", " ", text).splitlines()
    return [tuple(part.strip() for part in entry.partition(" => ")[::2]) for entry in entries if entry.strip()]


def meets(pattern, line):
    return fnmatch.fnmatchcase(line, pattern.replace("[", "[[]"))


def say(number, name, wrong):
    print(f"{'not ok' if wrong else 'ok'} {number} - {name}")
    for line in wrong:
        print(f"#   {line}")
    return bool(wrong)


def compare(found, failures, rules, sources):
    print(f"1..{len(sources) + 3}")
    failed = False
    for number, source in enumerate(sources, 1):
        new = [line for line in found[source] if not any(meets(pattern, line) for pattern, _ in rules)]
        new += failures[source].splitlines()
        failed |= say(number, f"{source.name}: every clause is translated or reviewed", new)
    lines = {line for of_source in found.values() for line in of_source}
    stale = [pattern for pattern, _ in rules if not any(meets(pattern, line) for line in lines)]
    failed |= say(len(sources) + 1, "each line of the list meets something", stale)
    failed |= say(len(sources) + 2, "each line of the list says why", [pattern for pattern, why in rules if not why])
    sampled = (HERE / "sampled.txt").read_text()
    names = re.findall(r"^(\w+):", sampled, re.M)
    text = "".join(source.read_text() for source in sources)
    astray = [name for name in names if not re.search(rf"\b{name}\([^;{{}}]*\)\s*\{{", text)]
    astray += sorted(set(names) - set(SAMPLED.findall(sampled)))
    failed |= say(len(sources) + 3, "each function of sampled.txt is the core's, with a reason", astray)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--root", type=pathlib.Path, default=HERE.parents[1])
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    sources = sorted((arguments.root / "abi" / "src").glob("*.c"))
    found, failures = {}, {}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda source: translated(arguments.root, source, pathlib.Path(folder)), sources)
        for source, (lines, words) in zip(sources, done):
            found[source], failures[source] = lines, words
            print(f"# {source.name}: {len(lines)} lines", flush=True)
    if arguments.list:
        print("\n".join(sorted({line for lines in found.values() for line in lines})))
        return 0
    return 1 if compare(found, failures, reviewed(), sources) else 0


if __name__ == "__main__":
    sys.exit(main())
