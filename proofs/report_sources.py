"""Which sources a record speaks of: a hash of their content, and whether a record still speaks of the sources that are there.

A commit says too little: it changes with every word of a document, and a run may have seen uncommitted sources.
"""
import datetime
import hashlib
import os
import re
import subprocess

import gate_record

# What each kind of record depends on, as paths from the project's root.
CORE = ("abi", "proofs/targets.toml")
CHANGED = "the sources changed since the run"


def files_under(root, paths):
    """Every source file under the given paths, as sorted relative paths."""
    found = []
    for path in paths:
        full = os.path.join(root, path)
        if os.path.isfile(full):
            found.append(path)
        for folder, _, names in os.walk(full):
            found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(name for name in found if not name.endswith(".pyc"))


def digest(contents):
    """Hash of (path, bytes) pairs, in the order given."""
    total = hashlib.sha256()
    for path, data in contents:
        total.update(path.encode() + b"\0" + hashlib.sha256(gate_record.normal(path, data)).digest())
    return total.hexdigest()[:16]


def content(root, paths=CORE):
    pairs = []
    for path in files_under(root, paths):
        with open(os.path.join(root, path), "rb") as file:
            pairs.append((path, file.read()))
    return digest(pairs)


def git(root, *arguments):
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True)
    return done.stdout if done.returncode == 0 else None


def content_at(root, revision, paths=CORE):
    """The same hash of a commit's files; None where the commit is not known here."""
    listed = git(root, "ls-tree", "-r", "-z", "--name-only", revision, "--", *paths)
    if listed is None:
        return None
    names = sorted(name.decode() for name in listed.split(b"\0") if name)
    return digest((name, git(root, "show", f"{revision}:{name}") or b"") for name in names)


def changed_after(root, moment, paths=CORE):
    """A source that was written after a moment, or None."""
    for path in files_under(root, paths):
        if os.path.getmtime(os.path.join(root, path)) > moment.timestamp():
            return path
    return None


def staleness(root, record, paths=CORE):
    """Why a record does not speak of the present sources; "" where it does.

    A record with a hash of what it judged is compared by it; one with a clean revision by that commit's files. A run on
    uncommitted changes counts where that commit has the present files and none was written since the run.
    """
    if record.get("judged"):
        return "" if record["judged"] == gate_record.content_hash(root) else CHANGED
    now = content(root, paths)
    if record.get("content"):
        return "" if record["content"] == now else CHANGED
    revision = record.get("revision") or ""
    clean = revision.removesuffix("-dirty")
    if not clean:
        return "the record names no revision"
    then = content_at(root, clean, paths)
    if then is None:
        return f"the record's revision {clean} is not known here"
    if then != now:
        return f"the sources changed since revision {revision}"
    if revision == clean:
        return ""
    later = changed_after(root, datetime.datetime.fromisoformat(record["date"]), paths)
    return f"{later} was written after the run on {revision}" if later else ""
