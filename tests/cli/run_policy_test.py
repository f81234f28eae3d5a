#!/usr/bin/env python3
"""nxmem run --policy FILE: what is allowed, what is refused and how that is said. Prints TAP."""
import hashlib
import json
import os
import shutil

from harness import document, equal, fits_a_terminal, main, nxmem, plugin, refused_in_one_line, scratch, write

OTHER = "0" * 64


class Case:
    """A plugin of its own, and a policy that allows it until a row changes something."""

    made = 0

    def __init__(self):
        Case.made += 1
        self.file = os.fsdecode(scratch(f"{Case.made}.so"))
        shutil.copyfile(plugin("minimal"), self.file)
        os.chmod(self.file, 0o644)
        with open(self.file, "rb") as file:
            self.sha256 = hashlib.sha256(file.read()).hexdigest()
        self.row = {"path": self.file, "sha256": self.sha256, "capabilities": ["allocator"],
                    "max_owned_bytes": 1 << 20, "max_mapped_bytes": "unlimited", "isolation": "none"}
        self.text = None

    def policy(self):
        content = self.text if self.text is not None else json.dumps({"version": 1, "plugins": [self.row]})
        path = os.fsdecode(write(f"{Case.made}.json", content.encode()))
        os.chmod(path, 0o644)
        return path

    def run(self, *args, policy=None):
        return nxmem("run", "--policy", policy or self.policy(), *args, self.file)


def steps(found, name):
    return [row for row in found["steps"] if row["name"] == name]


def allowed():
    case = Case()
    found = document(case.run("--json"), 0)
    equal((found["result"], found["unmapped"]), ("ok", True))
    row = steps(found, "policy")[0]
    equal({key: row[key] for key in ("verdict", "sha256", "ceiling", "max_owned_bytes", "max_mapped_bytes")},
          {"verdict": "ok", "sha256": case.sha256, "ceiling": ["allocator"], "max_owned_bytes": 1 << 20, "max_mapped_bytes": "unlimited"})
    assert any(name.startswith("libc.so") for name in row["not_pinned"]), row["not_pinned"]
    assert "signed_by" not in row and "trusted_comment" not in row, row
    equal(steps(found, "negotiated")[0]["capabilities"], ["allocator"])


def said_in_lines():
    case = Case()
    done = case.run()
    equal((done.returncode, done.stderr), (0, b""))
    line = [line for line in fits_a_terminal(done.stdout).splitlines() if line.split()[:2] == ["ok", "policy"]]
    equal(len(line), 1)
    assert f"sha256 {case.sha256}" in line[0] and "not pinned " in line[0] and "libc.so" in line[0], line[0]


def document_beside_the_lines():
    case = Case()
    path = os.fsdecode(scratch("beside.json"))
    done = case.run(f"--json={path}")
    equal(done.returncode, 0)
    with open(path, encoding="utf-8") as file:
        equal(steps(json.load(file), "policy")[0]["sha256"], case.sha256)


def relative_paths():
    """A path of the command line is made absolute; what a policy writes must be so already."""
    case = Case()
    folder, name = os.path.split(case.file)
    done = nxmem("run", "--policy", os.path.basename(case.policy()), name, "--json", cwd=folder)
    equal(steps(document(done, 0), "policy")[0]["sha256"], case.sha256)


def over_the_limit():
    case = Case()
    case.row["max_owned_bytes"] = 4096
    found = document(case.run("--json"), 1)
    refused = [row for row in found["steps"] if row["verdict"] == "refused"]
    equal([(row["name"], row["result"]) for row in refused], [("allocate", "over-limit")])
    equal(found["unmapped"], True)


# What a row changes, the result, words of the message.

def wrong_hash(case):
    case.row["sha256"] = OTHER


def other_path(case):
    case.row["path"] = "/another.so"


def unknown_key(case):
    case.row["comment"] = "me"


def key_twice(case):
    case.text = json.dumps({"version": 1, "plugins": [case.row]})[:-1] + ', "version": 1}'


def no_json(case):
    case.text = "path = /p.so"


def isolation(case):
    case.row["isolation"] = "seccomp"


def changed(case):
    with open(case.file, "ab") as file:
        file.write(b"x")


REFUSED = [("a wrong hash", wrong_hash, "not-allowed", ["needed " + OTHER]),
           ("a file that no row names", other_path, "not-allowed", ["no row names it"]),
           ("a file with one byte more", changed, "not-allowed", ["found sha256"]),
           ("an isolation that there is not", isolation, "not-allowed", ["seccomp"]),
           ("an unknown key", unknown_key, "invalid-argument", ["plugins[0].comment", "unknown"]),
           ("a key twice", key_twice, "invalid-argument", ["duplicate"]),
           ("a policy that is no JSON", no_json, "invalid-argument", ["line 1"])]


def is_refused(change, result, words):
    """Exit code 1; in lines it is one of them, and the document has the same."""
    def row():
        case = Case()
        change(case)
        found = document(case.run("--json"), 1)
        refused = [step for step in found["steps"] if step["verdict"] == "refused"]
        equal([(step["name"], step["result"]) for step in refused], [("open", result)])
        equal((found["result"], found["unmapped"], steps(found, "policy")), ("refused", None, []))
        done = case.run()
        equal((done.returncode, done.stderr), (1, b""))
        lines = [line for line in fits_a_terminal(done.stdout).splitlines() if line.split()[0] == "refused"]
        equal(len(lines), 1)
        for word in words:
            assert word in lines[0] and word in refused[0]["error"]["message"], lines[0]
    return row


def world_writable_policy(case):
    path = case.policy()
    os.chmod(path, 0o666)
    return path


def world_writable_plugin(case):
    os.chmod(case.file, 0o666)
    return case.policy()


def missing_policy(case):
    return os.path.join(os.path.dirname(case.file), "missing.json")


def linked_policy(case):
    link = os.fsdecode(scratch(f"{Case.made}-link.json"))
    os.symlink(case.policy(), link)
    return link


def linked_plugin(case):
    os.rename(case.file, case.file + ".real")
    os.symlink(case.file + ".real", case.file)
    return case.policy()


def missing_plugin(case):
    os.unlink(case.file)
    return case.policy()


def fifo(case):
    path = os.fsdecode(scratch("fifo.json"))
    os.mkfifo(path, 0o600)
    return path


def grown(case):
    case.text = json.dumps({"version": 1, "max_file_bytes": 100, "plugins": [case.row]})
    return case.policy()


COULD_NOT = [("a policy that others can write", world_writable_policy, ".json can be written by its group or others"),
             ("a plugin that others can write", world_writable_plugin, ".so can be written by its group or others"),
             ("a missing policy", missing_policy, "missing.json cannot be opened: No such file"),
             ("a link to a policy", linked_policy, "-link.json is a symbolic link"),
             ("a link to a plugin", linked_plugin, ".so is a symbolic link"),
             ("a missing plugin", missing_plugin, ".so cannot be opened: No such file"),
             ("a FIFO for a policy", fifo, "fifo.json is no regular file"),
             ("a file larger than the policy allows", grown, "more than the 100 bytes")]


def could_not(arrange, words):
    """Exit code 3 and one line on standard error, which the document has as well."""
    def row():
        case = Case()
        policy = arrange(case)
        done = case.run(policy=policy)
        refused_in_one_line(done)
        assert words in done.stderr.decode(), done.stderr
        assert b" policy " not in done.stdout, done.stdout
        path = os.fsdecode(scratch("could-not.json"))
        equal(case.run(f"--json={path}", policy=policy).returncode, 3)
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        equal((found["result"], found["unmapped"], found["exit_code"]), ("could-not-run", None, 3))
        assert words in found["message"], found["message"]
    return row


def make_rows():
    rows = [("allowed: the report says what was verified, and what is not pinned", allowed),
            ("allowed: the same in lines", said_in_lines),
            ("allowed: a document beside the lines", document_beside_the_lines),
            ("allowed: relative paths on the command line", relative_paths),
            ("more bytes than granted", over_the_limit)]
    rows += [("refused: " + name, is_refused(change, result, words)) for name, change, result, words in REFUSED]
    rows += [("could not run: " + name, could_not(arrange, words)) for name, arrange, words in COULD_NOT]
    return rows


if __name__ == "__main__":
    main(make_rows)
