"""One corpus a target, shared by all engines, bounded, and exchanged with other machines through a plain folder."""
import contextlib
import os
import shutil

from . import programs
from .places import content_name, inputs_in, most_bytes

ROOM = 400  # below this many inputs nothing is minimised
MERGE_LIMIT = 900  # seconds


@contextlib.contextmanager
def whole(path):
    """A file to write beside `path`, which becomes it; nothing of it stays where that fails (a full disk)."""
    beside = path.parent / f".{path.name}.{os.getpid()}"
    try:
        yield beside
        beside.rename(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def put(folder, data):
    """Keeps an input under its content's name; readers never see half of one. Returns 1 where it is new."""
    path = folder / content_name(data)
    if path.exists():
        return 0
    with whole(path) as beside:
        beside.write_bytes(data)
    return 1


class Corpus:
    def __init__(self, places, target):
        self.places, self.target = places, target
        self.folder = places.corpus(target)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._kept = self.folder / ".kept"  # how many were left by the last minimising
        self._taken = self.folder / ".taken"  # names that came from other machines, so that none comes twice

    def add(self, data):
        return put(self.folder, data) if 0 < len(data) <= most_bytes(self.target) else 0

    def add_files(self, paths):
        count = 0
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # the engine may have dropped it meanwhile
                count += self.add(path.read_bytes())
        return count

    def drop(self, name):
        (self.folder / name).unlink(missing_ok=True)

    def stage(self, folder):
        """All inputs there are, the repository's and the shared ones, by content, in a folder of their own."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for source in (*self.places.known(self.target), self.folder):
            for path in inputs_in(source):
                with contextlib.suppress(FileNotFoundError):
                    put_if_any(folder, path.read_bytes())
        return folder

    # ---- Bounded ------------------------------------------------------------------------------------------------

    def wants_less(self):
        kept = int(self._kept.read_text()) if self._kept.exists() else 0
        return len(inputs_in(self.folder)) > max(ROOM, 2 * kept)

    def minimise(self, program, processes, start):
        """Leaves the inputs that add something to the repository's. Returns how many went."""
        before = inputs_in(self.folder)
        merged = start.parent / "merged"
        shutil.rmtree(merged, ignore_errors=True)
        merged.mkdir(parents=True)
        for source in self.places.known(self.target):
            for path in inputs_in(source):
                put_if_any(merged, path.read_bytes())
        known = {path.name for path in inputs_in(merged)}
        result = processes.run([program, "-set_cover_merge=1", "-timeout=60", f"-max_len={most_bytes(self.target)}",
                                f"-artifact_prefix={start.parent}/merge-", merged, self.folder],
                               MERGE_LIMIT, programs.environment())
        if result.code != 0 or result.timed_out:
            return 0
        needed = {path.name for path in inputs_in(merged)} - known
        gone = [path for path in before if path.name not in needed]
        for path in gone:
            path.unlink(missing_ok=True)
        self._kept.write_text(str(len(before) - len(gone)))
        return len(gone)

    # ---- Other machines -----------------------------------------------------------------------------------------

    def exchange(self, folder, machine):
        """Mirrors our inputs in FOLDER/TARGET/MACHINE and takes what the other machines' folders have. Returns how
        many were taken. A mirror is as small as its corpus, so FOLDER does not grow without bound."""
        shared = folder / self.target
        mirror = shared / machine
        mirror.mkdir(parents=True, exist_ok=True)
        there = {path.name: path for other in sorted(shared.iterdir()) if other.is_dir() and other != mirror
                 for path in inputs_in(other)}
        taken = set(self._taken.read_text().split()) if self._taken.exists() else set()
        ours = {path.name for path in inputs_in(self.folder)}
        new = [name for name in there if name not in taken and name not in ours]
        count = self.add_files(there[name] for name in new)
        taken = (taken | set(new)) & set(there)
        self._taken.write_text("".join(f"{name}\n" for name in sorted(taken)))
        self._mirror(mirror, taken)
        return count

    def _mirror(self, mirror, taken):
        """What was found here: what came from others stands in their folders."""
        ours = {path.name: path for path in inputs_in(self.folder) if path.name not in taken}
        for path in inputs_in(mirror):
            if path.name not in ours:
                path.unlink(missing_ok=True)
        for path in ours.values():
            with contextlib.suppress(FileNotFoundError):
                put(mirror, path.read_bytes())


def put_if_any(folder, data):
    """AFL++ takes no empty input, and every engine tries that one anyway."""
    return put(folder, data) if data else 0


def copy_new(paths, folder):
    """Those that are there, under their own names, into a folder that may be watched or copied meanwhile."""
    for path in paths:
        if path.exists() and not (folder / path.name).exists():
            folder.mkdir(parents=True, exist_ok=True)
            with whole(folder / path.name) as beside:
                shutil.copyfile(path, beside)
