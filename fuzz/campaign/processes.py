"""Programs run by the driver: each a session of its own, each ended with all of it."""
import dataclasses
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from . import keeper

TICK = 0.1  # seconds between two looks


class Interrupted(Exception):
    """Somebody asked the campaign to end."""


class CouldNotRun(Exception):
    """What was asked for cannot be built or run; says why."""


@dataclasses.dataclass
class Result:
    code: int  # negative: the signal
    text: str
    timed_out: bool


def _in_child():
    os.setsid()
    keeper.dies_with_parent(signal.SIGKILL)


class Processes:
    """All that the driver started. `tick` is called while it waits."""

    def __init__(self):
        self.interrupted = False
        self.tick = lambda: None
        self._asked_at = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask)

    def _ask(self, number, frame):
        """A second request, once the first has been seen, waits for nothing."""
        now = time.monotonic()
        if self._asked_at is not None and now - self._asked_at > 2:
            keeper.end_all()
            os._exit(128 + number)
        self._asked_at = self._asked_at or now
        self.interrupted = True

    def start(self, command, log, environment=None, cwd=None):
        """Starts a program whose words go to the file `log`."""
        with open(log, "ab") as out:
            return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                    env={**os.environ, **(environment or {})}, cwd=cwd, preexec_fn=_in_child)

    def run(self, command, limit, environment=None, cwd=None, always=False, feed=None, look=None):
        """Runs a program to its end, `limit` seconds at most. Unless `always`, a request to end interrupts it. `look` is
        called again and again with the file in which its words are."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            with open(log, "wb") as out, open(feed or os.devnull, "rb") as words:
                process = subprocess.Popen([str(word) for word in command], stdin=words, stdout=out, stderr=out,
                                           env={**os.environ, **(environment or {})}, cwd=cwd, preexec_fn=_in_child)
            timed_out = not self._wait(process, limit, always, lambda: look and look(log))
            return Result(process.returncode, log.read_text(errors="replace"), timed_out)

    def _wait(self, process, limit, always, look):
        until = time.monotonic() + limit
        while process.poll() is None:
            if self.interrupted and not always:
                stop([process], signal.SIGKILL, 0)
                raise Interrupted
            if time.monotonic() > until:
                stop([process], signal.SIGABRT, 10)  # with handle_abort=1 it says where it is
                return False
            look()
            self.pause(0.02)
        return True

    def pause(self, seconds=TICK):
        self.tick()
        time.sleep(seconds)


def _signal_all(processes, number):
    """To each one's group, and to what left the group but not the family."""
    for process in processes:
        for other in [*keeper.descendants(process.pid), process.pid]:
            keeper.end([other], number)


def stop(processes, number=signal.SIGINT, grace=20):
    """Ends programs with all they started: asks, waits `grace` seconds, then insists. Returns when they are gone."""
    alive = [process for process in processes if process.poll() is None]
    families = {child for process in alive for child in keeper.descendants(process.pid)}
    keeper.end([process.pid for process in alive], number)
    until = time.monotonic() + grace
    while time.monotonic() < until and any(process.poll() is None for process in alive):
        time.sleep(0.02)
    left = [process for process in alive if process.poll() is None]
    _signal_all(left, signal.SIGKILL)
    keeper.end([child for child in families if _is_ours(child)], signal.SIGKILL)
    for process in alive:
        process.wait()


def _is_ours(process):
    """Still a descendant of this driver, which adopts orphans: the number was not given to another."""
    return process in keeper.descendants(os.getpid())
