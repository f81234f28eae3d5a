#!/usr/bin/env python3
"""A host that gains rights when it is executed (set-group-id, set-user-id, a file's capability) reads no policy that its environment names; the same file without
them does. HOST: secure_host. Where this user or this file system cannot give rights to a file, the row is not run. Prints TAP."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HOST = Path(sys.argv[1])
NOBODY = 65534
# No policy: whoever read it says so, whatever the system's own says.
POLICY = "[]"
READ = "needed an object"


class NotRun(Exception):
    """Why a row could not be tried here."""


def as_nobody(program, policy):
    """What the host says, started by a user without rights, with an environment that names this policy."""
    done = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", f"NXMEM_POLICY={policy}", program],
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout.splitlines()


def plain(program):
    del program
    return "0"


def group(program):
    """The kernel's own mark needs another effective group than the starter's, no matter which."""
    os.chown(program, 0, 0)
    os.chmod(program, 0o2755)
    return "1"


def user(program):
    os.chown(program, 0, 0)
    os.chmod(program, 0o4755)
    return "1"


def capability(program):
    done = subprocess.run(["setcap", "cap_net_bind_service=ep", program], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotRun(f"setcap: {done.stderr.strip()}")
    return "1"


def tried(give):
    def row():
        if os.geteuid() != 0:
            raise NotRun("only the superuser can give a file more rights than its starter has")
        with tempfile.TemporaryDirectory(prefix="nxmem-secure-") as folder:
            place = Path(folder)
            place.chmod(0o755)
            if os.statvfs(place).f_flag & os.ST_NOSUID:
                raise NotRun(f"{place} is mounted nosuid")
            program, policy = place / "host", place / "policy.json"
            shutil.copyfile(HOST, program)
            program.chmod(0o755)
            policy.write_text(POLICY, encoding="utf-8")
            os.chown(policy, NOBODY, NOBODY)
            policy.chmod(0o644)
            os.chown(place, NOBODY, NOBODY)
            secure = give(program)
            said = as_nobody(program, policy)
            if secure == "1" and said[0] != "secure 1":
                raise NotRun("the kernel gave the file's rights to nobody (no new privileges, or a namespace)")
            assert said[0] == f"secure {secure}", said
            assert (READ in said[1]) == (secure == "0"), said
    return row


ROWS = [("without more rights: the environment's policy is read", plain), ("a set-group-id file: it is not", group),
        ("a set-user-id file: it is not", user), ("a file with a capability: it is not", capability)]


def main():
    failed = 0
    for number, (name, give) in enumerate(ROWS, 1):
        try:
            tried(give)()
            print(f"ok {number} - {name}", flush=True)
        except NotRun as why:
            print(f"ok {number} - {name} # SKIP {why}", flush=True)
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            failed = 1
            print(f"not ok {number} - {name}\n# {error}", flush=True)
    print(f"1..{len(ROWS)}")
    return failed


sys.exit(main())
