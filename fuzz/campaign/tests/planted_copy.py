"""A copy of the repository, in which faults are planted; kept from run to run, so that little is built again."""
import filecmp
import os
import pathlib
import shutil
import subprocess
import sys

from campaign import places

APPLY = pathlib.Path("fuzz/planted/apply.py")
LEFT_OUT = {"build", ".git", "__pycache__"}


def files_of(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        yield from (pathlib.Path(folder, name).relative_to(root) for name in names)


class Copy:
    def __init__(self, root):
        self.root = pathlib.Path(root).absolute()
        self.root.mkdir(parents=True, exist_ok=True)
        self.restore()

    def restore(self):
        """As the repository is; what is the same already keeps its time, and is not built again."""
        wanted = set(files_of(places.ROOT))
        for path in set(files_of(self.root)) - wanted:
            (self.root / path).unlink()
        for path in wanted:
            self._take(places.ROOT / path, self.root / path)
        for made in ("fuzz", "sync"):
            shutil.rmtree(self.root / "build" / made, ignore_errors=True)

    @staticmethod
    def _take(source, to):
        if to.exists() and filecmp.cmp(source, to, shallow=False):
            return
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, to)
        shutil.copymode(source, to)

    def take_contracts(self, build):
        """What the repository's own build translated already; the builder sees what is to be done again."""
        if (build / "contract").is_dir() and not (self.root / "build/contract").exists():
            shutil.copytree(build / "contract", self.root / "build/contract")

    def plant(self, fault):
        subprocess.run([sys.executable, self.root / APPLY, "apply", fault, self.root], check=True)

    def replace(self, file, find, put):
        path = self.root / file
        text = path.read_text()
        if text.count(find) != 1:
            raise ValueError(f"{file}: stands {text.count(find)} times, not once: {find}")
        path.write_text(text.replace(find, put))

    def run(self, *words):
        """A campaign in the copy."""
        return subprocess.run(self.command(*words), capture_output=True, text=True, check=False, cwd=self.root)

    def command(self, *words):
        return [sys.executable, str(self.root / "fuzz/run.py"), *map(str, words)]

    def replay(self, target, *inputs):
        """The replay test's own command; returns its exit code, its failed rows, and how many rows there are."""
        subprocess.run(["cmake", "--build", self.root / "build/asan", "--target", f"fuzz_{target}", "-j2"], check=True,
                       stdout=subprocess.DEVNULL)
        done = subprocess.run([self.root / "build/asan/bin" / f"fuzz_{target}", *inputs], capture_output=True, text=True,
                              check=False, env={**os.environ, "ASAN_OPTIONS": "max_allocation_size_mb=2048"})
        rows = [line for line in done.stdout.splitlines() if line.startswith(("ok", "not ok"))]
        return done.returncode, [row.partition(" - ")[2] for row in rows if row.startswith("not ok")], len(rows)

    def found(self, target):
        return self.root / "fuzz/found" / target

    def processes(self):
        """Those that run a program of the copy."""
        alive = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(word.startswith(f"{self.root}/") for word in words):
                alive.append(f"{name} {' '.join(words)[:100]}")
        return alive
