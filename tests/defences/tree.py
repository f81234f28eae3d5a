"""A copy of the sources with a build of its own, kept from run to run so that little is built anew. For run.py."""
import json
import os
import shutil
import subprocess

import watch

# Quick to build: nothing optimised, host and core not compiled as one, and a test is not linked anew because the library is. What stands idle where a
# defence is gone is no error.
IDLE = "-Wno-error=unused -Wno-error=unused-parameter"
OPTIONS = ("-DCMAKE_C_COMPILER=clang", "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_C_FLAGS=-O0 {IDLE}", "-DCMAKE_LINK_DEPENDS_NO_SHARED=ON")
BUILD_SECONDS = 1800

# Sources of the library, and what is built of them.
LIBRARY = ("abi/src/", "host/src/")
LIBRARY_TARGETS = ("nxmem", "nxmem_core")
# The same sources compiled once more, which some tests are linked from.
LIBRARY_OBJECTS = ("registry_stepped",)


class CannotRun(Exception):
    """What stands in the way, in one line."""


def same(first, second):
    if not os.path.exists(second):
        return False
    with open(first, "rb") as a, open(second, "rb") as b:
        return a.read() == b.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def properties_of(test):
    return {p["name"]: p["value"] for p in test.get("properties", [])}


class Tree:
    def __init__(self, root, place):
        self.root, self.source, self.build = root, f"{place}/source", f"{place}/build"
        self.tests, self.targets, self.links, self.processor = {}, set(), {}, 0.0
        self.copy()

    def copy(self):
        listed = subprocess.run(["git", "-C", self.root, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=True)
        names = {n.decode() for n in listed.stdout.split(b"\0") if n and os.path.isfile(os.path.join(self.root.encode(), n))}
        for folder, _, files in os.walk(self.source):
            for name in files:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.source) not in names:
                    os.remove(path)
        for name in names:
            if not same(f"{self.root}/{name}", f"{self.source}/{name}"):
                os.makedirs(os.path.dirname(f"{self.source}/{name}"), exist_ok=True)
                shutil.copy(f"{self.root}/{name}", f"{self.source}/{name}")

    def run(self, command, limit=BUILD_SECONDS, **more):
        ended = watch.run(command, limit, **more)
        self.processor += ended.processor
        return ended

    def configure(self):
        done = self.run(["cmake", "-G", "Ninja", "-S", self.source, "-B", self.build, *OPTIONS])
        if done.code:
            raise CannotRun(f"configuring failed:\n{done.output[-2000:]}")
        listed = subprocess.run(["ninja", "-C", self.build, "-t", "targets", "all"], capture_output=True, text=True, check=True)
        self.targets = {line.split(":", 1)[0] for line in listed.stdout.splitlines()}
        self.list_tests()

    def list_tests(self):
        """Of a test whose program is not built yet CTest does not know the command."""
        listed = subprocess.run(["ctest", "--test-dir", self.build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
        self.tests = {t["name"]: t for t in json.loads(listed.stdout)["tests"]}

    def targets_of(self, names):
        """The programs behind the tests; `all` where one is a script."""
        missing = [name for name in names if name not in self.tests]
        if missing:
            raise CannotRun(f"the table names tests that there are not: {', '.join(missing)}")
        programs = {f"test_{name}" for name in names}
        return sorted(programs) if programs <= self.targets else ["all"]

    def make(self, names):
        """"" or what the compiler says."""
        return self.ninja(self.targets_of(names))

    def ninja(self, targets):
        done = self.run(["ninja", "-C", self.build, "-j1", *targets])
        return "" if done.code == 0 else done.output[-2000:]

    def make_changed(self, names, paths):
        """As little as shows the change to these tests. Where it is in the library alone the plugins stay what they are: they carry a copy of the core, and
        theirs is not what is damaged."""
        programs = [f"test_{name}" for name in names]
        inside = all(path.startswith(LIBRARY) and path.endswith(".c") for path in paths)
        if not inside or not {*programs, *LIBRARY_TARGETS} <= self.targets:
            return self.make(names)
        failure = self.ninja([*LIBRARY_TARGETS, *(target for target in LIBRARY_OBJECTS if target in self.targets)])
        for program in programs:
            failure = failure or self.link(program)
        return failure

    def link(self, program):
        if program not in self.links:
            done = self.run(["ninja", "-C", self.build, "-t", "commands", "-s", f"bin/{program}"])
            self.links[program] = done.output.strip().splitlines()[-1]
        done = self.run(["sh", "-c", self.links[program]], folder=self.build)
        return "" if done.code == 0 else done.output[-2000:]

    def test(self, name, limit):
        test = self.tests[name]
        properties = properties_of(test)
        environment = dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []))
        return self.run(test["command"], limit, environment=environment, folder=properties.get("WORKING_DIRECTORY", self.build), tap=True)

    def reds(self, names, limit):
        """test -> its first failing row, of those that turned red; a hang is red too, and `limit` says of a test how long it may take."""
        red = {}
        for name in names:
            ended = self.test(name, limit(name))
            if ended.red:
                red[name] = ended.red
        return red

    def put(self, texts):
        """path -> text; returns what stood there."""
        before = {path: read(f"{self.source}/{path}") for path in texts}
        for path, text in texts.items():
            write(f"{self.source}/{path}", text)
        return before
