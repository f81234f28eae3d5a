"""A copy of what the layers read, with one file damaged at a time."""
import os
import shutil

PARTS = ("abi", "proofs/units", "proofs/loads.h")
# What a run reads beside them. It copies all of it first: who edits meanwhile does not change what is judged.
FROZEN = ("abi", "proofs", "fuzz", "tests/core")


def freeze(root, folder):
    for part in FROZEN:
        if os.path.isdir(f"{root}/{part}"):
            shutil.copytree(f"{root}/{part}", f"{folder}/{part}", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


class Tree:
    def __init__(self, root, folder, originals):
        self.path = folder
        self.originals = originals
        for part in PARTS:
            source, target = f"{root}/{part}", f"{folder}/{part}"
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.isdir(source):
                shutil.copytree(source, target)
            elif os.path.exists(source):
                shutil.copy(source, target)

    def damage(self, mutant):
        self.write(mutant.file, mutant.apply(self.originals[mutant.file]))

    def restore(self, mutant):
        self.write(mutant.file, self.originals[mutant.file])

    def write(self, path, text):
        with open(f"{self.path}/{path}", "wb") as file:
            file.write(text)
