"""Nothing is left running: a parent that outlives the driver, and takes along whatever the driver leaves behind.

AFL++'s fork server and the target beneath it are sessions of their own, and a target that stands still between two
inputs ends with nobody's process group. So orphans come to the keeper (a child subreaper), and it ends them all.
"""
import ctypes
import os
import signal
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
WATCHED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
_libc = ctypes.CDLL(None, use_errno=True)


def dies_with_parent(number):
    _libc.prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def adopt_orphans():
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "orphans cannot be adopted")


def _parents():
    """Each process and its parent."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                found[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
    return found


def descendants(ancestor):
    parents, found, wave = _parents(), [], [ancestor]
    while wave:
        wave = [child for child, parent in parents.items() if parent in wave]
        found += wave
    return found


def end(processes, number):
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass


def _reap(block):
    """Waits for children that ended; False where there are none at all."""
    try:
        while os.waitpid(-1, 0 if block else os.WNOHANG)[0] != 0:
            pass
        return True
    except ChildProcessError:
        return False


def end_all(keep=()):
    """Ends every descendant of this process, those of `keep` excepted, until none is left."""
    while True:
        left = [process for process in descendants(os.getpid()) if process not in keep]
        if not left:
            return
        end(left, signal.SIGKILL)
        if not keep:
            _reap(True)
        time.sleep(0.01)


def _watch(driver):
    """Hands signals on until the driver has ended. Returns its exit code."""
    while True:
        number = signal.sigwaitinfo(WATCHED).si_signo
        if number != signal.SIGCHLD:
            end([driver], number)
            continue
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == driver:
                return os.waitstatus_to_exitcode(status)
            if process == 0:
                break


def guarded(main):
    """Runs main() in a child; returns its exit code when nothing that it started runs any more."""
    adopt_orphans()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    driver = os.fork()
    if driver == 0:
        os.setpgid(0, 0)
        dies_with_parent(signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise SystemExit(main())
    code = _watch(driver)
    end_all()
    return code if code >= 0 else 128 - code
