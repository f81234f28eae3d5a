/*
 * child.c: fork, confine, run, wait, read.
 * Attackers: the plugin in the child.
 * Promise: the fences are reported before any of the plugin's code runs, over a pipe that is closed then; processes that
 * the child leaves behind are adopted and ended.
 */
#include "audit/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "descendants.h"
#include "exit_codes.h"
#include "progress.h"
#include "text.h"

/* A conformance test of sixty-four mechanisms writes about ten. */
enum { RESULT_BYTES_MAX = 64 << 20, PARSED_BYTES_MAX = 512 << 20 };

enum { RESULT_FD = 3, REPORT_FD = 4 };

/* ---- Interruptions ----------------------------------------------------------------------------------------------- */

/* Whoever ends us means the plugin too. */
static const int INTERRUPTIONS[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

enum { INTERRUPTION_COUNT = sizeof INTERRUPTIONS / sizeof INTERRUPTIONS[0] };

static struct sigaction before[INTERRUPTION_COUNT];
static volatile sig_atomic_t interrupted; /* by this signal; 0: by none */

static void note(int number) { interrupted = number; }

/* What the caller ignores stays ignored. */
static void interrupt_begin(void) {
  const struct sigaction noting = {.sa_handler = note};
  for (size_t i = 0; i < INTERRUPTION_COUNT; i++) {
    sigaction(INTERRUPTIONS[i], NULL, &before[i]);
    if (before[i].sa_handler != SIG_IGN) sigaction(INTERRUPTIONS[i], &noting, NULL);
  }
}

static void interrupt_end(void) {
  for (size_t i = 0; i < INTERRUPTION_COUNT; i++) sigaction(INTERRUPTIONS[i], &before[i], NULL);
}

/* ---- In the child ------------------------------------------------------------------------------------------------ */

/* Both above what they become, so that neither is overwritten. */
static int settle_descriptors(int result, int report) {
  int null = open("/dev/null", O_RDWR);
  int high_result = fcntl(result, F_DUPFD, REPORT_FD + 1), high_report = fcntl(report, F_DUPFD, REPORT_FD + 1);
  if (null < 0 || high_result < 0 || high_report < 0) return -1;
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (dup2(null, fd) < 0) return -1;
  if (dup2(high_result, RESULT_FD) < 0 || dup2(high_report, REPORT_FD) < 0) return -1;
  return close_range(REPORT_FD + 1, ~0u, 0);
}

/* A session of its own: no terminal to type into, and one group, which it cannot leave behind seccomp. */
_Noreturn static void run_inside(const nx_audit_child *child, pid_t parent, int result, int report) {
  nx_audit_fences fences;
  interrupt_end();
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  if (getppid() != parent) _exit(NX_EXIT_COULD_NOT_RUN);
  if (settle_descriptors(result, report)) _exit(NX_EXIT_COULD_NOT_RUN);
  nx_audit_confine(child->limit_s, &fences);
  if (write(REPORT_FD, &fences, sizeof fences) != sizeof fences) _exit(NX_EXIT_COULD_NOT_RUN);
  close(REPORT_FD);
  exit(child->run(child->argc, child->argv));
}

/* ---- In the parent ----------------------------------------------------------------------------------------------- */

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* How often the progress line is thought of, in milliseconds. */
enum { LOOK_MS = 200, MS_PER_SECOND = 1000 };

/* 1 when it ended by itself. */
static int wait_until(int pidfd, const nx_audit_child *child) {
  nx_progress progress;
  uint64_t began = now_ms(), limit_ms = child->limit_s * MS_PER_SECOND, used = 0;
  struct pollfd over = {.fd = pidfd, .events = POLLIN};
  int ended = 0;
  nx_progress_begin(&progress, child->what, child->limit_s);
  while (!ended && !interrupted && used < limit_ms) {
    ended = poll(&over, 1, LOOK_MS) > 0;
    used = now_ms() - began;
    nx_progress_tick(&progress, used / MS_PER_SECOND);
  }
  nx_progress_end(&progress);
  return ended;
}

static void tell_ending(const nx_audit_child *child, int ended, const siginfo_t *how, nx_audit_return *out) {
  int exited = how->si_code == CLD_EXITED;
  out->exit_code = ended && exited ? how->si_status : -1;
  if (!ended)
    snprintf(out->ending, sizeof out->ending, "no end within %llu s", (unsigned long long)child->limit_s);
  else if (!exited)
    snprintf(out->ending, sizeof out->ending, "killed by signal %d (%s)", how->si_status, strsignal(how->si_status));
}

/* ---- What comes back --------------------------------------------------------------------------------------------- */

/* Text of a few megabytes can be written so that it takes thousands of times as much to hold. */
static size_t parse_room;

static void *bounded_malloc(size_t bytes) {
  if (bytes > parse_room) return NULL;
  parse_room -= bytes;
  return malloc(bytes);
}

static json_t *parse(const char *text, size_t bytes) {
  json_malloc_t take;
  json_free_t give;
  json_get_alloc_funcs(&take, &give);
  parse_room = PARSED_BYTES_MAX;
  json_set_alloc_funcs(bounded_malloc, free);
  json_t *result = json_loadb(text, bytes, 0, NULL);
  json_set_alloc_funcs(take, give);
  return result;
}

static json_t *read_result(int fd) {
  off_t size = lseek(fd, 0, SEEK_END);
  if (size <= 0 || size > RESULT_BYTES_MAX) return NULL;
  char *text = malloc((size_t)size);
  if (!text) nx_out_of_memory();
  ssize_t got = pread(fd, text, (size_t)size, 0);
  json_t *result = got > 0 ? parse(text, (size_t)got) : NULL;
  free(text);
  return result;
}

/* Short of that, the child never came to the plugin. */
static int read_fences(int fd, nx_audit_fences *out) {
  ssize_t got;
  do got = read(fd, out, sizeof *out);
  while (got < 0 && errno == EINTR);
  return got == sizeof *out ? 0 : -1;
}

/* Its number stays its own until it is reaped: the group of that number, too. */
static size_t end_group(pid_t pid, int ended, siginfo_t *how) {
  if (!ended) kill(pid, SIGKILL);
  while (waitid(P_PID, (id_t)pid, how, WEXITED | WNOWAIT) < 0 && errno == EINTR) continue;
  const size_t left = ended ? nx_descendants_left() : 0;
  kill(-pid, SIGKILL);
  nx_descendants_end();
  return left;
}

static int follow(const nx_audit_child *child, pid_t pid, int report, nx_audit_return *out) {
  siginfo_t how = {0};
  int pidfd = pidfd_open(pid, 0);
  int unconfined = read_fences(report, &out->fences);
  int ended = pidfd >= 0 && !unconfined && wait_until(pidfd, child);
  out->left = end_group(pid, ended, &how);
  if (pidfd >= 0) close(pidfd);
  tell_ending(child, ended, &how, out);
  if (!unconfined) return 0;
  errno = EIO;
  return -1;
}

int nx_audit_child_run(const nx_audit_child *child, nx_audit_return *out) {
  int pipe_ends[2], result = memfd_create("nxmem-audit", MFD_CLOEXEC), failed = -1;
  *out = (nx_audit_return){0};
  if (result < 0) return -1;
  if (pipe2(pipe_ends, O_CLOEXEC)) {
    close(result);
    return -1;
  }
  nx_descendants_adopt();
  fflush(NULL);
  interrupt_begin();
  pid_t parent = getpid(), pid = fork();
  if (pid == 0) run_inside(child, parent, result, pipe_ends[1]);
  close(pipe_ends[1]);
  if (pid > 0) failed = follow(child, pid, pipe_ends[0], out);
  close(pipe_ends[0]);
  interrupt_end();
  if (interrupted) raise(interrupted);
  if (!failed) out->result = read_result(result);
  close(result);
  return failed;
}
