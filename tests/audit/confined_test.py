#!/usr/bin/env python3
"""What hostile code tries in the confined child of nxmem audit: nothing gets out, nothing stays, the audit ends. Prints TAP."""
import os
import pty
import resource
import signal
import socket
import subprocess
import time

from common import above_note, audit, evidence, names, one, source
from harness import Setting, compile_so, environment, equal, main, nxmem, scratch

TRIES = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#define THERE "%(scratch)s/there"
static char *const none[] = {0};
static int id;
static struct rlimit limits;
static struct sched_param quiet;

/* From a pair of sockets, which no call of its own makes. */
static int sends(int by_message) {
  struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "%(scratch)s/listens"};
  struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to};
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return 0;
  if (by_message) return sendmsg(pair[0], &message, 0) == 0;
  return sendto(pair[0], "x", 1, 0, (struct sockaddr *)&to, sizeof to) == 1;
}

static int connects(void) {
  struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "%(scratch)s/listens"};
  int pair[2];
  return !socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) && !connect(pair[0], (struct sockaddr *)&to, sizeof to);
}

/* In a child of its own: what it does to itself ends there. */
static int in_child(int (*act)(void)) {
  int status = 1;
  pid_t pid = fork();
  if (pid == 0) _exit(act() != 0);
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int leaves_session(void) { return setsid() < 0; }
static int leaves_group(void) { return setpgid(0, 0); }
static int calls_as_32_bit(void) {
#ifdef __x86_64__
  long answer;
  __asm__ volatile("int $0x80" : "=a"(answer) : "a"(20L) : "memory");
  return answer <= 0;
#else
  return 0;
#endif
}

static int has_rights(void) {
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct has[2] = {{0}};
  syscall(SYS_capget, &head, has);
  return has[1].permitted || (has[0].permitted & ~(1u << CAP_DAC_READ_SEARCH));
}

static int is_last_to_go(void) {
  int score = 0;
  FILE *file = fopen("/proc/self/oom_score_adj", "r");
  if (!file || fscanf(file, "%%d", &score) != 1) return 1;
  fclose(file);
  return score != 1000;
}

static int is_limited(int what, rlim_t most) { return !getrlimit(what, &limits) && limits.rlim_max <= most; }

__attribute__((constructor)) static void attempt(void) {
  (void)none, (void)id, (void)quiet, (void)sends, (void)connects, (void)in_child, (void)leaves_session, (void)leaves_group;
  (void)calls_as_32_bit, (void)has_rights, (void)is_last_to_go, (void)is_limited;
  if (%(condition)s) abort();
}
"""

# What must not succeed behind the fences, and does without them; and the fence that keeps it away.
ATTEMPTS = [
    ("seccomp", "a TCP socket", "socket(AF_INET, SOCK_STREAM, 0) >= 0"),
    ("seccomp", "a UDP socket", "socket(AF_INET6, SOCK_DGRAM, 0) >= 0"),
    ("seccomp", "a UNIX socket", "socket(AF_UNIX, SOCK_STREAM, 0) >= 0"),
    ("seccomp", "a netlink socket", "socket(AF_NETLINK, SOCK_RAW, 0) >= 0"),
    ("seccomp", "a datagram out of a pair", "sends(0)"), ("seccomp", "a message out of a pair", "sends(1)"),
    ("seccomp", "a connection of one of a pair", "connects()"),
    ("landlock-files", "making a file", 'open("%(scratch)s/made", O_CREAT | O_WRONLY, 0600) >= 0'),
    ("landlock-files", "a temporary file", 'open("%(scratch)s", O_TMPFILE | O_WRONLY, 0600) >= 0'),
    ("landlock-files", "writing to a file", "open(THERE, O_WRONLY) >= 0"),
    ("landlock-files", "writing to a process's memory", 'open("/proc/%(outside)d/mem", O_RDWR) >= 0'),
    ("seccomp", "emptying a file", "truncate(THERE, 0) == 0"),
    ("landlock-truncate", "emptying a file that it only reads", "open(THERE, O_RDONLY | O_TRUNC) >= 0"),
    ("landlock-files", "renaming a file", 'rename(THERE, "%(scratch)s/there2") == 0 || rename("%(scratch)s/there2", THERE) == 0'),
    ("landlock-files", "linking a file", '(unlink("%(scratch)s/link"), link(THERE, "%(scratch)s/link") == 0)'),
    ("landlock-files", "a symbolic link", '(unlink("%(scratch)s/symlink"), symlink(THERE, "%(scratch)s/symlink") == 0)'),
    ("landlock-files", "removing a file", '(close(open("%(scratch)s/goes", O_CREAT | O_WRONLY, 0600)), unlink("%(scratch)s/goes") == 0)'),
    ("landlock-files", "making a folder", '(rmdir("%(scratch)s/folder"), mkdir("%(scratch)s/folder", 0700) == 0)'),
    ("landlock-files", "making a FIFO", '(unlink("%(scratch)s/pipe"), mkfifo("%(scratch)s/pipe", 0600) == 0)'),
    ("seccomp", "the mode of a file", "chmod(THERE, 0666) == 0"),
    ("seccomp", "the mode of an open file", "fchmod(open(THERE, O_RDONLY), 0666) == 0"),
    ("seccomp", "the owner of a file", "chown(THERE, 0, 0) == 0"),
    ("seccomp", "the owner of an open file", "fchown(open(THERE, O_RDONLY), 0, 0) == 0"),
    ("seccomp", "the times of a file", "utimes(THERE, NULL) == 0"),
    ("seccomp", "the times of a file, finer", "utimensat(AT_FDCWD, THERE, NULL, 0) == 0"),
    ("seccomp", "an attribute of a file", 'setxattr(THERE, "user.x", "y", 1, 0) == 0 || setxattr(THERE, "trusted.x", "y", 1, 0) == 0'),
    ("seccomp", "shared memory that stays", "(id = shmget(IPC_PRIVATE, 4096, 0600)) >= 0 && shmctl(id, IPC_RMID, NULL) == 0"),
    ("seccomp", "semaphores that stay", "(id = semget(IPC_PRIVATE, 1, 0600)) >= 0 && semctl(id, 0, IPC_RMID) == 0"),
    ("seccomp", "a queue that stays", "(id = msgget(IPC_PRIVATE, 0600)) >= 0 && msgctl(id, IPC_RMID, NULL) == 0"),
    ("seccomp", "another program", '(execve("/bin/true", none, none), errno != EPERM)'),
    ("seccomp", "limits of another process", "prlimit(%(outside)d, RLIMIT_CORE, NULL, &limits) == 0"),
    ("seccomp", "scheduling", "sched_setscheduler(0, SCHED_BATCH, &quiet) == 0"),
    ("seccomp", "the priority of another process", "setpriority(PRIO_PROCESS, %(outside)d, getpriority(PRIO_PROCESS, %(outside)d)) == 0"),
    ("seccomp", "leaving the session", "in_child(leaves_session)"), ("seccomp", "leaving the group", "in_child(leaves_group)"),
    ("seccomp", "calls of another machine", "in_child(calls_as_32_bit)"),
    ("landlock-signals", "a signal to a process outside", "kill(%(outside)d, 0) == 0"),
    ("landlock-devices", "commands to a device", '(id = open("/dev/ptmx", O_RDONLY | O_NOCTTY)) >= 0 && ioctl(id, TIOCGPTN, &id) == 0'),
    ("no-new-privileges", "new privileges", "prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1"),
    ("capabilities", "rights of root", "has_rights()"), ("oom-score", "memory that others pay for", "is_last_to_go()"),
    ("limit-memory", "memory without end", "mmap(NULL, 9ul << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED"),
    ("limit-time", "time without end", "!is_limited(RLIMIT_CPU, 300)"),
    ("limit-descriptors", "descriptors without end", "!is_limited(RLIMIT_NOFILE, 1024) || !is_limited(RLIMIT_CORE, 0)"),
]


def plugin_of(name, text):
    return compile_so(name, [Setting.minimal, source(name, text)],
                      ["-I", Setting.include, "-Wl,-z,relro,-z,now,-z,noexecstack", "-fvisibility=hidden"])


def constructor(body, more=""):
    head = "\n".join(f"#include <{name}.h>" for name in ("errno", "fcntl", "signal", "stdlib", "stdio", "string", "sys/prctl", "sys/wait", "unistd"))
    return f"#define _GNU_SOURCE\n{head}\n{more}\n__attribute__((constructor)) static void act(void) {{ {body} }}\n"


def prepare():
    for name in ("there", "goes"):
        with open(scratch(name), "w", encoding="utf-8") as file:
            file.write("content")
        os.chmod(scratch(name), 0o600)


def looks(path):
    status = os.stat(path)
    with open(path, "rb") as file:
        return status.st_mode, status.st_uid, status.st_ctime_ns, file.read()


def is_here(file, fence):
    """Where the kernel has it not, that has to be said."""
    row = next(row for row in file["running"]["confinement"] if row["name"] == fence)
    assert row["available"] or any(text.startswith(fence) for text in evidence(file, "unconfined")), row
    return row["available"]


def attempt_fails(number, fence, condition):
    def case():
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listens:
            if os.path.exists(scratch("listens")):
                os.unlink(scratch("listens"))
            listens.bind(scratch("listens"))
            words = {"scratch": Setting.scratch, "outside": os.getpid()}
            path = plugin_of(f"attempt{number}", TRIES % (words | {"condition": condition % words}))
            prepare()
            free = nxmem("conform", "--rule", "NX-MOD-001", path)
            equal(free.returncode, 1)  # the attempt is one: without the fences it succeeds and ends the process
            prepare()
            before = looks(scratch("there"))
            file = one("--cycles", "0", path)
            if is_here(file, fence):
                equal(names(file) & {"refused", "breaks-rule", "unjudged"}, set())
                equal(looks(scratch("there")), before)
    return case


def fences_are_told():
    file = one("--cycles", "0", plugin_of("fenced", ""), code=0)
    fences = file["running"]["confinement"]
    missing = [fence["name"] for fence in fences if not fence["available"]]
    equal([text.split()[0] for text in evidence(file, "unconfined")], missing)
    assert {fence for fence, _, _ in ATTEMPTS} <= {fence["name"] for fence in fences}, fences


# ---- What it does to its judges


MARKS = iter(range(1000))


def left_of(mark):
    name, value = mark
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"{name}={value}".encode() in file.read().split(b"\0"):
                    found.append(pid)
        except OSError:
            pass
    return found


def new_mark():
    return "NXMEM_AUDIT_MARK", f"{os.getpid()}-{next(MARKS)}"


FORKS = "static void go_on(void) { for (;;) { if (fork() != 0) _exit(0); setsid(); setpgid(0, 0); usleep(100); } }\n"

# How long a row waits for what never ends; another is given what a busy machine may take.
NEVER_ENDS = "3"
ENDS = "300"

# name, source, the rules of which one must be found; none: nothing above a note
DEEDS = [
    ("prints", constructor('for (int i = 1; i < 3; i++) if (write(i, "\\x1b[31mnoise", 10) != 10) abort();'), set()),
    ("closes all descriptors", constructor("for (int i = 0; i < 1024; i++) close(i);"), {"unjudged", "refused"}),
    ("ends its judge", constructor("kill(getppid(), SIGKILL);"), {"unjudged"}),
    ("ends its group", constructor("kill(0, SIGKILL);"), {"unjudged", "refused"}),
    ("hangs", constructor("for (;;) pause();"), {"refused"}),
    ("hangs and hears nothing", constructor("sigset_t all; sigfillset(&all); sigprocmask(SIG_SETMASK, &all, NULL); for (;;) pause();"), {"refused"}),
    ("spins", constructor("for (;;) continue;"), {"refused"}),
    ("stops itself", constructor("raise(SIGSTOP);"), {"refused"}),
    ("hangs when it goes", "#include <unistd.h>\n__attribute__((destructor)) static void go(void) { for (;;) pause(); }\n", {"refused", "breaks-rule"}),
    ("ends", constructor("_exit(0);"), {"refused"}),
    ("ends well", constructor("exit(0);"), {"refused"}),
    ("takes all memory", constructor("while (malloc(64 << 20)) continue; abort();"), {"refused"}),
    ("takes all descriptors", constructor('while (open("/dev/null", O_RDONLY) >= 0) continue;'), {"refused", "unjudged", "breaks-rule"}),
    ("forbids all calls", constructor("struct sock_filter end = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS}; struct sock_fprog all = {1, &end};"
                                     "prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all);",
                                     "#include <linux/filter.h>\n#include <linux/seccomp.h>"), {"refused"}),
    ("writes its own result", constructor('if (write(3, "\\x1b[31m{", 6) != 6) _exit(0);'), set()),
    ("writes a large result", constructor("static char block[1 << 20]; memset(block, '[', sizeof block);"
                                          "for (int i = 0; i < 80; i++) if (write(3, block, sizeof block) < 0) break; _exit(0);"), {"refused"}),
    ("its processes go with it", constructor("if (fork() == 0) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) pause(); } if (fork() == 0) _exit(0);"), set()),
    ("stays", constructor("if (fork() == 0) { setsid(); if (fork() == 0) for (;;) pause(); _exit(0); }"), {"leaves-processes"}),
    ("stays, and adopts", constructor("prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); if (fork() == 0) { if (fork() == 0) for (;;) pause(); _exit(0); }"), {"leaves-processes"}),
    ("forks away", constructor("if (fork() == 0) go_on();", FORKS), {"leaves-processes"}),
    ("ends its child's parent", constructor("prctl(PR_SET_PDEATHSIG, 0); if (fork() == 0) for (;;) pause();"), {"leaves-processes"}),
]


def deed(number, name, text, rules):
    def case():
        mark = new_mark()
        path = plugin_of(f"deed{number}", text)
        limit = NEVER_ENDS if name.startswith(("hangs", "spins", "stops")) else ENDS
        document, done = audit("--cycles", "0", "--timeout", limit, path, env=dict([mark]))
        file = document["files"][0]
        assert b"noise" not in done.stdout + done.stderr, done
        equal(left_of(mark), [])
        equal(len(done.stdout.splitlines()[-1].split(b",")), 5)
        if rules:
            assert names(file) & rules, names(file)
            equal(done.returncode, 1)
        else:
            equal(above_note(file), [])
    return case


def conform_leaves_nothing():
    """Without fences it may leave group and session; the conformance test ends it all the same."""
    mark = new_mark()
    path = plugin_of("conform_leaves", constructor("if (fork() == 0) { setsid(); if (fork() == 0) for (;;) pause(); _exit(0); }"))
    done = nxmem("conform", "--rule", "NX-MOD-001", path, env={**environment(), mark[0]: mark[1]})
    equal(done.returncode, 0)
    equal(left_of(mark), [])


def small_text_of_great_weight():
    """Objects that take a hundred times the room of their text; who judges must not hold them all."""
    path = plugin_of("weighs", constructor("static char block[3 << 20]; for (size_t i = 0; i < sizeof block; i++) block[i] = \"{},\"[i % 3];"
                                           "if (write(3, \"[\", 1) != 1) _exit(1);"
                                           "for (int i = 0; i < 8; i++) if (write(3, block, sizeof block) < 0) _exit(1);"
                                           "if (write(3, \"{}]\", 3) != 3) _exit(1); _exit(0);"))
    process = subprocess.Popen([Setting.nxmem, "audit", "--cycles", "0", "--timeout", ENDS, path], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=environment())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    equal(process.returncode, 1)
    assert usage.ru_maxrss < 1 << 20, f"{usage.ru_maxrss} KiB"


def no_terminal():
    """What runs on a terminal could type into it."""
    path = plugin_of("types", constructor('if (open("/dev/tty", O_RDONLY) >= 0) abort();'))

    def on_terminal(*words):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(Setting.nxmem, [Setting.nxmem, *words])
        shown = b""
        try:
            while piece := os.read(terminal, 4096):
                shown += piece
        except OSError:
            pass  # how a terminal says that nobody is left
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown
    equal(on_terminal("conform", "--rule", "NX-MOD-001", path)[0], 1)
    code, shown = on_terminal("audit", "--cycles", "0", path)
    assert code == 0, shown


def ended_from_outside(number):
    """The plugin, and what it left, end with the audit."""
    def case():
        mark = new_mark()
        path = plugin_of(f"ended{number}", constructor("if (fork() == 0) for (;;) pause(); for (;;) pause();"))
        running = subprocess.Popen([Setting.nxmem, "audit", "--cycles", "0", "--timeout", "600", path], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env={**environment(), mark[0]: mark[1]})
        while len(left_of(mark)) < 3:
            time.sleep(0.05)
            equal(running.poll(), None)
        running.send_signal(number)
        equal(running.wait(timeout=600), -number)
        equal(left_of(mark), [])
    return case


def others_are_spared():
    """A shell's children are still there when the shell has become the audit."""
    path = plugin_of("spares", constructor("if (fork() == 0) for (;;) pause();"))
    done = subprocess.run(["sh", "-c", 'sleep 3000 >/dev/null 2>&1 & echo $! && exec "$0" audit --cycles 0 "$1"', Setting.nxmem, path],
                          stdout=subprocess.PIPE, env=environment(), check=False)
    equal(done.returncode, 1)
    pid = int(done.stdout.split()[0])
    os.kill(pid, signal.SIGKILL)  # fails where it is gone


def make_rows():
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    rows = [("the fences are told, each", fences_are_told)]
    rows += [(f"confined: {name}", attempt_fails(i, fence, condition)) for i, (fence, name, condition) in enumerate(ATTEMPTS)]
    rows += [(f"judged: {name}", deed(i, name, text, rules)) for i, (name, text, rules) in enumerate(DEEDS)]
    rows += [("nothing stays behind conform", conform_leaves_nothing)]
    rows += [("judged: a small text of great weight", small_text_of_great_weight), ("no terminal", no_terminal),
             ("ended by SIGINT", ended_from_outside(signal.SIGINT)), ("ended by SIGTERM", ended_from_outside(signal.SIGTERM)),
             ("children of others are spared", others_are_spared)]
    return rows


if __name__ == "__main__":
    main(make_rows)
