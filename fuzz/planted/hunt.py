"""One run of an engine until it finds something or its processor time is spent. For layers.py."""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from campaign.places import most_bytes  # noqa: E402

ALARM = re.compile(rb"ORACLE .*|DRIVER .*|[^\n]*runtime error: .*|SUMMARY: \w*Sanitizer: .*|==\d+==ERROR: [^\n]*"
                   rb"|ERROR: libFuzzer: .*|.*results in a (?:crash|timeout).*")
TICK = os.sysconf("SC_CLK_TCK")
# Against a machine so busy that the processor time is never spent.
WALL_TIMES = 30


stopping = threading.Event()  # the whole run is to end


class CouldNotRun(Exception):
    """What stands in the way, in one line."""


class Stopped(Exception):
    """Nothing was answered, for the run was ended from outside."""


class Hunt:
    """`seconds` of processor time; `found`: it ended by itself with a finding; `alarm`: what it said; `far`: the canary."""

    def __init__(self, seconds, found, alarm, far):
        self.seconds, self.found, self.alarm, self.far = seconds, found, alarm, far


def group_seconds(group):
    """Processor time of all processes of a group, and of those of their children that have ended."""
    ticks = 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                words = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[2]) == group:
            ticks += sum(int(word) for word in words[11:15])
    return ticks / TICK


def own_seconds(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            words = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(word) for word in words[11:15]) / TICK


def has_ended(pid):
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def stop(process, gently):
    """The whole group. AFL++ gives its shared memory back only where it is asked."""
    for number, patience in ((signal.SIGINT, 100), (signal.SIGKILL, 0))[0 if gently else 1:]:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        for _ in range(patience):
            if has_ended(process.pid):
                break
            time.sleep(0.1)


def watch(command, budget, environment, log, folder, gently=False):
    """(exit code, or None where the processor time was spent first; processor seconds)"""
    limited = ["prlimit", f"--cpu={int(budget) + 30}", "--", *command]  # should nobody watch any more
    with open(log, "wb") as file:
        process = subprocess.Popen(limited, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=folder,
                                   env={**os.environ, **environment}, start_new_session=True)
    measure = group_seconds if gently else own_seconds
    until, seconds, spent = time.monotonic() + WALL_TIMES * budget + 60, 0.0, False
    try:
        while not has_ended(process.pid):
            seconds = max(seconds, measure(process.pid))
            spent = seconds >= budget or time.monotonic() > until or stopping.is_set()
            if spent:
                break
            time.sleep(0.1)
    finally:
        if not spent:
            seconds = max(seconds, measure(process.pid))
        stop(process, gently)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if stopping.is_set():
        raise Stopped
    return None if spent else process.returncode, max(seconds, usage.ru_utime + usage.ru_stime)


def first_alarm(path):
    with open(path, "rb") as file:
        found = ALARM.search(file.read())
    return found.group(0).decode(errors="replace").strip()[:300] if found else ""


class Canary:
    """The file in which the fault's place counts: reached, triggered."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.write(bytes(16))

    def far(self):
        with open(self.path, "rb") as file:
            counts = file.read(16)
        return "triggered" if any(counts[8:]) else "reached" if any(counts[:8]) else "-"


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)


def known_inputs(source, target):
    """The folders that a campaign begins with: seeds, finds, and what campaigns found beyond them."""
    return [path for kind in ("seeds", "found", "corpus") if os.path.isdir(path := f"{source}/fuzz/{kind}/{target}")]


def dictionary(source, target):
    path = f"{source}/fuzz/dict/{target}.dict"
    return path if os.path.exists(path) else None


def libfuzzer(source, build, target, folder, seed, budget, bare):
    fresh(f"{folder}/corpus")
    canary = Canary(f"{folder}/canary")
    words = dictionary(source, target)
    # Too slow is what hangs, not what a busy machine delays.
    command = [f"{build}/bin/fuzz_{target}", f"-seed={seed}", "-entropic=0", "-reduce_inputs=0", "-print_funcs=0",
               f"-max_len={most_bytes(target)}", "-timeout=60", "-rss_limit_mb=2048",
               f"-artifact_prefix={folder}/", *([f"-dict={words}"] if words else []),
               f"{folder}/corpus", *([] if bare else known_inputs(source, target))]
    code, seconds = watch(command, budget, {"NXMEM_FUZZ_CANARY": canary.path}, f"{folder}/log", folder)
    found = code not in (None, 0, 72)
    alarm = first_alarm(f"{folder}/log") if found else ""
    if code is not None and not alarm:
        raise CouldNotRun(f"libFuzzer ended with {code} and without a finding: {folder}/log")
    return Hunt(seconds, found, alarm, canary.far())


AFL = {"AFL_QUIET": "1", "AFL_NO_UI": "1", "AFL_SKIP_CPUFREQ": "1", "AFL_NO_AFFINITY": "1",
       "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1", "AFL_BENCH_UNTIL_CRASH": "1", "AFL_EXIT_ON_SEED_ISSUES": "1",
       "AFL_NO_COLOR": "1", "AFL_FORKSRV_INIT_TMOUT": "60000"}


def stage(source, target, folder, bare):
    """AFL++ takes its first inputs from one folder, and wants one at least."""
    fresh(f"{folder}/in")
    if bare:
        with open(f"{folder}/in/nothing", "wb") as file:
            file.write(bytes(1))
    for known in [] if bare else known_inputs(source, target):
        for name in os.listdir(known):
            path = f"{known}/{name}"
            if not name.startswith(".") and os.path.isfile(path) and os.path.getsize(path):
                shutil.copy(path, f"{folder}/in/{os.path.basename(os.path.dirname(known))}-{name}")


def said_by(build, target, path, folder):
    """What the target says of a crashing input: AFL++ itself keeps no words."""
    with open(path, "rb") as data, open(f"{folder}/said", "wb") as said:
        try:
            ended = subprocess.run([f"{build}/bin/fuzz_{target}"], stdin=data, stdout=said, stderr=said, timeout=120,
                                   cwd=folder, check=False)
            how = f"ended with {ended.returncode}"
        except subprocess.TimeoutExpired:
            how = "does not end"
    return first_alarm(f"{folder}/said") or how


def afl(source, build, target, folder, seed, budget, bare):
    fresh(folder)
    canary = Canary(f"{folder}/canary")
    stage(source, target, folder, bare)
    words = dictionary(source, target)
    command = ["afl-fuzz", "-i", f"{folder}/in", "-o", f"{folder}/out", *(["-x", words] if words else []), "-s", str(seed),
               "-G", str(most_bytes(target)), "-t", "10000", "-m", "none", "--", f"{build}/bin/fuzz_{target}"]
    library = f"{build}/bin/fuzz_mutator_{target}.so"
    environment = {**AFL, "NXMEM_FUZZ_CANARY": canary.path,
                   **({"AFL_CUSTOM_MUTATOR_LIBRARY": library} if os.path.exists(library) else {})}
    code, seconds = watch(command, budget, environment, f"{folder}/log", folder, gently=True)
    crashes = sorted(glob.glob(f"{folder}/out/default/crashes/id*"))
    if crashes:
        return Hunt(seconds, True, said_by(build, target, crashes[0], folder), canary.far())
    alarm = first_alarm(f"{folder}/log")
    if code is not None and not alarm:
        raise CouldNotRun(f"AFL++ ended with {code} and without a finding: {folder}/log")
    seed_at_fault = re.search(r"[\w/.:+,-]*/in/[\w.-]+|id:\w+,[\w:,.-]*orig:[\w.-]+", alarm)
    if code is not None and seed_at_fault:
        name = re.split(r"/in/|orig:", seed_at_fault.group(0))[-1].strip("'")
        alarm = said_by(build, target, f"{folder}/in/{name}", folder)
    return Hunt(seconds, code is not None, alarm if code is not None else "", canary.far())


ENGINES = {"libfuzzer": libfuzzer, "afl": afl}
