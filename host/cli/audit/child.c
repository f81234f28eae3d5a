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

#include "exit_codes.h"
#include "progress.h"
#include "text.h"

/* A conformance test of sixty-four mechanisms writes about ten. */
enum { RESULT_BYTES_MAX = 64 << 20 };

enum { RESULT_FD = 3, REPORT_FD = 4 };

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

_Noreturn static void run_inside(const nx_audit_child *child, int result, int report) {
  nx_audit_fences fences;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
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
  while (!ended && used < limit_ms) {
    ended = poll(&over, 1, LOOK_MS) > 0;
    used = now_ms() - began;
    nx_progress_tick(&progress, used / MS_PER_SECOND);
  }
  nx_progress_end(&progress);
  return ended;
}

/* Orphans come to us, as their subreaper. */
static void kill_children(void) {
  char path[64];
  int pid;
  snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
  FILE *children = fopen(path, "re");
  while (children && fscanf(children, "%d", &pid) == 1) kill(pid, SIGKILL);
  if (children) fclose(children);
}

/* A process that forks faster than it is killed would keep us: each round kills all there are. */
enum { ROUNDS_MAX = 1000, ROUND_US = 1000 };

static void end_all(pid_t pid) {
  kill(-pid, SIGKILL);
  for (int i = 0; i < ROUNDS_MAX; i++) {
    kill_children();
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
    if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD) return;
    usleep(ROUND_US);
  }
}

static void tell_ending(const nx_audit_child *child, int ended, int status, nx_audit_return *out) {
  out->exit_code = ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (!ended)
    snprintf(out->ending, sizeof out->ending, "no end within %llu s", (unsigned long long)child->limit_s);
  else if (WIFSIGNALED(status))
    snprintf(out->ending, sizeof out->ending, "killed by signal %d (%s)", WTERMSIG(status),
             strsignal(WTERMSIG(status)));
}

static json_t *read_result(int fd) {
  off_t size = lseek(fd, 0, SEEK_END);
  if (size <= 0 || size > RESULT_BYTES_MAX) return NULL;
  char *text = malloc((size_t)size);
  if (!text) nx_out_of_memory();
  ssize_t got = pread(fd, text, (size_t)size, 0);
  json_t *result = got > 0 ? json_loadb(text, (size_t)got, 0, NULL) : NULL;
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

static int follow(const nx_audit_child *child, pid_t pid, int report, nx_audit_return *out) {
  int status = 0, pidfd = pidfd_open(pid, 0);
  int unconfined = read_fences(report, &out->fences);
  int ended = pidfd >= 0 && !unconfined && wait_until(pidfd, child);
  if (!ended) kill(pid, SIGKILL);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  end_all(pid);
  if (pidfd >= 0) close(pidfd);
  tell_ending(child, ended, status, out);
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
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) run_inside(child, result, pipe_ends[1]);
  close(pipe_ends[1]);
  if (pid > 0) failed = follow(child, pid, pipe_ends[0], out);
  close(pipe_ends[0]);
  if (!failed) out->result = read_result(result);
  close(result);
  return failed;
}
