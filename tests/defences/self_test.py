#!/usr/bin/env python3
"""run.py on a small project: each way a removal may end, with its exit code and its words. Prints TAP."""
import fcntl
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = {
    ".gitignore": "build\n",
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.25)
project(small C)
enable_testing()
add_executable(test_small small.c)
add_test(NAME small COMMAND test_small)
""",
    "small.c": """#include <stdio.h>
static int is_small(int n) { return n < 10; }
static int is_even(int n) { return n % 2 == 0; }
int main(void) {
  const int good = is_small(3) && !is_small(11) && is_even(2) != 2;
  printf("1..1\\n%s 1 - both ends\\n", good ? "ok" : "not ok");
  return !good;
}
""",
}


def entry(find, put, tests='["small"]', name="one"):
    return f"[[defence]]\nname = '{name}'\nguards = 'x'\nfile = 'small.c'\nfind = '''{find}'''\nput = '''{put}'''\ntests = {tests}\n"


NOTICED = entry("n < 10", "n < 100")
CASES = [
    ("noticed", NOTICED, [], 0, "defences: 1/1 removals noticed"),
    ("not_noticed", entry("n % 2 == 0", "n % 2 == 1"), [], 1, "NOT NOTICED by small"),
    ("one_of_two", NOTICED + entry("n % 2 == 0", "1", name="two"), [], 1, "defences: 1/2 removals noticed"),
    ("only_the_one", NOTICED + entry("n % 2 == 0", "1", name="two"), ["--only", "one"], 0, "defences: 1/1 removals noticed"),
    ("a_hang_is_noticed", entry("return n < 10;", "for (;;) (void)n;"), [], 0, "not done in 3 s"),
    ("a_crash_is_noticed", entry("return n < 10;", "return *(volatile int *)(long)n;"), [], 0, "ended by SIGSEGV"),
    ("an_early_end_is_noticed", entry("int main(void) {", "int main(void) {\n  if (!is_even(3)) return puts(\"1..1\") < 0;"), [], 0,
     "ended with code 0 after row 0 of 1"),
    ("a_code_alone_is_noticed", entry("return !good;", "return 4;"), [], 0, "exit code 4"),
    ("what_nothing_uses_builds", entry("is_small(3) && !is_small(11) && ", "0 && "), [], 0, "small: both ends"),
    ("text_is_gone", entry("n < 11", "n"), [], 3, "found its text 0 times, needed once"),
    ("text_stands_twice", entry("is_even", "is_odd"), [], 3, "found its text 2 times, needed once"),
    ("does_not_build", entry("n < 10", "n <"), [], 3, "does not build without it"),
    ("no_such_test", entry("n < 10", "1", '["large"]'), [], 3, "tests that there are not: large"),
    ("no_such_defence", NOTICED, ["--only", "none"], 3, "found no defence named none"),
    ("named_twice", NOTICED + NOTICED, [], 3, "found twice: one"),
    ("no_such_file", NOTICED.replace("small.c", "smaller.c"), [], 3, "smaller.c: no such file: mend table.toml"),
    ("tap", NOTICED + entry("n % 2 == 0", "1", name="two"), ["--tap"], 1, "not ok 3 - without two: NOT NOTICED by small"),
    ("tap_when_all_is_noticed", NOTICED, ["--tap"], 0, "1..3\n# building"),
    ("tap_of_one_not_tried", entry("n < 10", "n <"), ["--tap"], 3, "not ok 2 - without one: NOT TRIED: one: does not build without it"),
    ("others_are_tried", entry("n < 11", "n") + entry("n % 2 == 0", "1", name="two"), [], 3, "NOT NOTICED by small"),
    ("tap_that_cannot_run", entry("n < 10", "1", '["large"]'), ["--tap"], 3, "Bail out! the table names tests that there are not: large"),
    ("list", NOTICED, ["--list"], 0, "one: x"),
    ("texts_that_stand", NOTICED, ["--texts"], 0, "defences: 1/1 texts stand once"),
    ("texts_that_are_gone", NOTICED + entry("n < 11", "n", name="two"), ["--texts"], 3, "defences: 1/2 texts stand once"),
    ("unknown_option", NOTICED, ["--nonsense"], 2, "unrecognized arguments"),
]


def run(folder, table, options):
    path = os.path.join(folder, "table.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(table)
    command = [sys.executable, f"{HERE}/run.py", "--root", folder, "--table", path, "--jobs", "1", "--limit", "3", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def project(folder, files):
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def run_beside_another(folder):
    """Two at work in one place would build each other's damage."""
    place = f"{folder}/build/defences"
    os.makedirs(place, exist_ok=True)
    with open(f"{place}/lock", "w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        return run(folder, NOTICED, [])


def main():
    print(f"1..{len(CASES) + 2}")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        project(folder, FILES)
        rows = [(name, run(folder, table, options), code, said) for name, table, options, code, said in CASES]
        rows.append(("another_run_at_work", run_beside_another(folder), 3, "another run is at work"))
        project(folder, {"small.c": FILES["small.c"].replace("is_small(3)", "is_small(30)")})
        rows.append(("red_before", run(folder, NOTICED, []), 3, "red without any removal: small: both ends"))
    for number, (name, done, code, said) in enumerate(rows, 1):
        good = done.returncode == code and said in done.stdout + done.stderr
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            print(f"# found exit {done.returncode}, needed {code} and '{said}'\n# " + (done.stdout + done.stderr).replace("\n", "\n# "))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
