"""What the command's tests share: the real binary, files made for them, and one TAP row per case.

Rows assert exit codes, JSON fields and numbers, not message text. Every call has a time limit: a command that hangs
fails its row.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_SECONDS = 20


class Setting:
    """Paths of this build; filled by main()."""

    nxmem = plugins = cc = include = minimal = scratch = None


def environment():
    """Under a sanitizer an allocation that cannot be met returns NULL, and a crash is a signal, as without one."""
    plain = ["allocator_may_return_null=1", "handle_segv=0", "handle_sigbus=0", "handle_sigfpe=0", "handle_sigill=0",
             "handle_abort=0"]
    changed = dict(os.environ)
    for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"):
        changed[name] = ":".join(filter(None, [changed.get(name), *plain]))
    return changed


def nxmem(*args, **options):
    options.setdefault("env", environment())
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([Setting.nxmem, *args], stdin=subprocess.DEVNULL, timeout=LIMIT_SECONDS, **options)


def plugin(name):
    path = os.path.join(Setting.plugins, f"libnxmem_{name}.so")
    assert os.path.exists(path), f"{path} is not built"
    return path


def scratch(name):
    return os.path.join(os.fsencode(Setting.scratch), os.fsencode(name))


def write(name, content):
    path = scratch(name)
    with open(path, "wb") as file:
        file.write(content)
    return path


def compile_so(name, sources, flags=(), kind="-shared"):
    """A shared object (or, by `kind`, something else) from C; a compiler that fails, fails the row."""
    path = os.path.join(Setting.scratch, name + ".so")
    command = [Setting.cc, kind, "-fPIC", "-O1", "-o", path, *sources, *flags]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    assert done.returncode == 0, done.stdout.decode(errors="replace")
    return path


def fits_a_terminal(raw):
    """UTF-8 without control characters, apart from line ends."""
    text = raw.decode("utf-8")
    bad = [c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)]
    assert not bad, f"control characters {bad!r}"
    return text


def document(done, code):
    """The JSON of a call that ended with `code`."""
    assert done.returncode == code, f"exit {done.returncode}, need {code}; {done.stderr.decode(errors='replace')}"
    fits_a_terminal(done.stdout)
    found = json.loads(done.stdout)
    assert found["exit_code"] == code, f"exit_code {found['exit_code']} in JSON, {code} in truth"
    return found


def refused_in_one_line(done, code=3):
    assert done.returncode == code, f"exit {done.returncode}, need {code}"
    lines = fits_a_terminal(done.stderr).splitlines()
    assert len(lines) == 1 and lines[0], f"need one line on stderr, found {lines!r}"


def equal(found, needed):
    assert found == needed, f"found {found!r}, need {needed!r}"


def run_rows(rows):
    failed = 0
    print(f"1..{len(rows)}")
    for number, (name, case) in enumerate(rows, 1):
        try:
            case()
        except (AssertionError, LookupError, ValueError, OSError, StopIteration, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"not ok {number} - {name}")
            for line in f"{type(error).__name__}: {error}".splitlines():
                print(f"# {line}")
        else:
            print(f"ok {number} - {name}")
    return 1 if failed else 0


def main(make_rows):
    parser = argparse.ArgumentParser()
    for name in ("nxmem", "plugins", "cc", "include", "minimal"):
        parser.add_argument("--" + name, required=True)
    vars_of_setting = vars(parser.parse_args())
    for name, value in vars_of_setting.items():
        setattr(Setting, name, value)
    with tempfile.TemporaryDirectory(prefix="nxmem-cli-") as folder:
        Setting.scratch = os.path.realpath(folder)
        sys.exit(run_rows(make_rows()))
