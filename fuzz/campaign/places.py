"""Where things are: targets, engines, and the folders of a campaign."""
import dataclasses
import hashlib
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENGINES = ("libfuzzer", "afl", "contract")
WITH_CONTRACTS = ("core",)  # only the core has contracts

# The most bytes of an input: longer ones find no more and take longer. Texts end behind every limit, lives have some
# twenty steps.
MOST_BYTES = {"lifecycle": 400, "deferred": 400, "load": 400, "vmm": 400, "owners": 400, "table": 340, "status": 280,
              "elf": 2048, "policy": 1800}
OTHER_BYTES = 1040

# How much of the processors a target gets beside the others: a life is a sequence, and its states take long to reach;
# a table or a text is one step deep, and its corpus is complete within minutes.
SHARES = {"lifecycle": 6, "deferred": 4, "vmm": 6, "owners": 6, "load": 2, "core": 2}


def targets():
    return sorted(path.stem for path in (ROOT / "fuzz/targets").glob("*.c"))


def engines_of(target):
    return tuple(e for e in ENGINES if e != "contract" or target in WITH_CONTRACTS)


def most_bytes(target):
    return MOST_BYTES.get(target, OTHER_BYTES)


def share(target):
    return SHARES.get(target, 1)


def content_name(data):
    """What an input is called, whoever made it: libFuzzer names its own the same way."""
    return hashlib.sha1(data).hexdigest()


@dataclasses.dataclass(frozen=True)
class Places:
    build: pathlib.Path

    def corpus(self, target):
        """What all engines found for the target, beyond what is in the repository."""
        return self.build / "fuzz/corpus" / target

    def work(self, target, engine):
        return self.build / "fuzz" / engine / target

    def unreproduced(self, target):
        return self.build / "fuzz/unreproduced" / target

    def lock(self, name):
        return self.build / "fuzz" / f".{name}.lock"

    @staticmethod
    def found(target):
        return ROOT / "fuzz/found" / target

    @staticmethod
    def known(target):
        """The folders of inputs that the repository has."""
        folders = (ROOT / "fuzz" / kind / target for kind in ("seeds", "corpus", "found"))
        return [folder for folder in folders if folder.is_dir()]

    @staticmethod
    def dictionary(target):
        path = ROOT / "fuzz/dict" / f"{target}.dict"
        return path if path.exists() else None


def inputs_in(folder):
    """The inputs of a folder: neither notes beside them nor what begins with a dot."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir()
                  if path.is_file() and path.name[0] != "." and path.suffix not in (".toml", ".md"))
