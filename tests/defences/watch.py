"""A program watched while it runs: what it prints, how it ends, what processor time it takes. For run.py."""
import os
import re
import signal
import subprocess
import threading
import time

PLAN = re.compile(r"^1\.\.(\d+)")
ROW = re.compile(r"^(not ok|ok) \d+ ?(?:- )?(.*)$")
MESSAGE = re.compile(r" (?=Could not run test: )")  # cmocka puts it behind the name


class Ended:
    """How a command ended. `red`: why a test that prints TAP is not green, "" where it is."""

    def __init__(self, output, code, late, processor, seconds, red=""):
        self.output, self.code, self.late = output, code, late
        self.processor, self.seconds, self.red = processor, seconds, red


def stop(process):
    """The whole group: a test's own children as well. Only while it is not waited for: its number is nobody else's."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Reader:
    """Rows of a TAP program as they come; the first that is not ok is all that is needed."""

    def __init__(self):
        self.planned, self.seen, self.red = None, 0, ""

    def take(self, line):
        plan, row = PLAN.match(line), ROW.match(line)
        if plan:
            self.planned = (self.planned or 0) + int(plan.group(1))
        elif row:
            self.seen += 1
            if row.group(1) == "not ok" and "# TODO" not in line:
                self.red = MESSAGE.split(row.group(2))[0].strip() or "a row without a name"

    def judge(self, code, late, limit):
        if self.red:
            return self.red
        after = f" after row {self.seen} of {self.planned}" if self.planned else ""
        if late:
            return f"not done in {limit:.0f} s{after}"
        if code < 0:
            return f"ended by {signal.Signals(-code).name}{after}"
        if code != 0:
            return f"exit code {code}{after}"
        if self.planned is not None and self.seen < self.planned:
            return f"ended with code 0{after}"
        return ""


def run(command, limit, environment=None, folder=None, tap=False):
    started = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if tap else subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True, cwd=folder,
                               env={**os.environ, **(environment or {})})
    late = threading.Event()
    timer = threading.Timer(limit, lambda: (late.set(), stop(process)))
    timer.start()
    reader, lines = Reader(), []
    for line in process.stdout:
        lines.append(line)
        if tap:
            reader.take(line.rstrip())
        if reader.red:
            break
    if not reader.red:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its number stays its own
    timer.cancel()
    timer.join()
    stop(process)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    red = reader.judge(code, late.is_set(), limit) if tap else ""
    return Ended("".join(lines), code, late.is_set(), usage.ru_utime + usage.ru_stime, time.monotonic() - started, red)
