"""A copy of what the layers read, with one file damaged at a time."""
import os
import shutil

PARTS = ("abi", "proofs/units", "proofs/loads.h")


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
