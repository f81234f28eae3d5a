/*
 * child.c: fork, wait, judge how it ended.
 * Attackers: the plugin in the child.
 * Promise: a crash, an exit and a hang are findings that name the step; a verdict counts only beside its exit code.
 */
#include "conform/child.h"

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
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conform/plugin.h"
#include "descendants.h"
#include "text.h"

int nx_runner_begin(nx_runner *runner) {
  void *shared = mmap(NULL, sizeof(nx_board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return -1;
  runner->board = shared;
  return 0;
}

void nx_runner_end(nx_runner *runner) { munmap(runner->board, sizeof *runner->board); }

/* ---- In the child ----------------------------------------------------------------------------------------------- */

/* What the plugin prints goes to standard error, as with run; the report is the parent's alone. */
static void settle_in(void) {
  const struct rlimit none = {0, 0};
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setrlimit(RLIMIT_CORE, &none);
  signal(SIGPIPE, SIG_DFL);
  int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  if (null > STDERR_FILENO) close(null);
}

/* ---- In the parent ---------------------------------------------------------------------------------------------- */

typedef struct ending {
  int hung;
  int status; /* as waitpid() gives it */
} ending;

static int is_over(int pidfd, uint64_t wait_ms) {
  struct pollfd over = {.fd = pidfd, .events = POLLIN};
  int ready;
  do ready = poll(&over, 1, (int)wait_ms);
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

/* A trial of many steps ends here whatever the board says. */
enum { STEPS_AT_LIMIT = 100 };

/* What is left of the present step's time, in milliseconds. The board's time may be made up: in the future it is now. */
static uint64_t time_left(const nx_runner *runner) {
  uint64_t began = atomic_load(&runner->board->step_began_us), now = nx_now_us();
  uint64_t used_ms = began > now ? 0 : (now - began) / 1000;
  return used_ms >= runner->limit_ms ? 0 : runner->limit_ms - used_ms;
}

/* The limit holds for each step: one that began meanwhile has its own time. */
static ending wait_for(const nx_runner *runner, pid_t pid, int pidfd) {
  ending end = {0, 0};
  uint64_t wait_ms = runner->limit_ms, last_us = nx_now_us() + STEPS_AT_LIMIT * runner->limit_ms * 1000;
  while (!end.hung && !is_over(pidfd, wait_ms)) {
    wait_ms = time_left(runner);
    end.hung = wait_ms == 0 || nx_now_us() > last_us;
  }
  kill(-pid, SIGKILL);
  kill(pid, SIGKILL);
  while (waitpid(pid, &end.status, 0) < 0 && errno == EINTR) continue;
  nx_descendants_end();
  return end;
}

static int run_child(const nx_runner *runner, nx_trial *trial, ending *out) {
  memset(runner->board, 0, sizeof *runner->board);
  strcpy(runner->board->step, "start");
  atomic_store(&runner->board->step_began_us, nx_now_us());
  runner->board->ruling = NX_RULINGS; /* none yet: an exit code alone is no verdict */
  nx_descendants_adopt();
  fflush(NULL);
  pid_t pid = fork();
  if (pid < 0) return -1;
  if (pid == 0) {
    settle_in();
    nx_trial_run(trial);
  }
  setpgid(pid, pid);
  int pidfd = pidfd_open(pid, 0);
  if (pidfd < 0) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return -1;
  }
  *out = wait_for(runner, pid, pidfd);
  close(pidfd);
  return 0;
}

/* ---- How it ended ----------------------------------------------------------------------------------------------- */

static char *shown_board_text(const char *text, size_t room) { return nx_show(text, strnlen(text, room)); }

static char *say(const char *format, const char *what, const char *step) {
  char *text = NULL;
  if (asprintf(&text, format, what, step) < 0) nx_out_of_memory();
  return text;
}

static void judge_death(const nx_runner *runner, const ending *end, nx_finding *out) {
  char what[64];
  char *step = shown_board_text(runner->board->step, NX_STEP_BYTES);
  out->ruling = NX_RULING_FAIL;
  if (end->hung) {
    snprintf(what, sizeof what, "no answer within %g s", (double)runner->limit_ms / 1000.0);
  } else if (WIFSIGNALED(end->status)) {
    snprintf(what, sizeof what, "killed by signal %d (%s)", WTERMSIG(end->status), strsignal(WTERMSIG(end->status)));
  } else {
    snprintf(what, sizeof what, "the process exited with code %d", WEXITSTATUS(end->status));
  }
  out->evidence = say("%s during: %s", what, step);
  free(step);
}

static void judge_end(const nx_runner *runner, const ending *end, nx_finding *out) {
  const nx_board *board = runner->board;
  if (end->hung || !WIFEXITED(end->status) || WEXITSTATUS(end->status) != NX_CHILD_RULED ||
      board->ruling >= NX_RULINGS) {
    judge_death(runner, end, out);
    return;
  }
  out->ruling = (nx_ruling)board->ruling;
  out->evidence = shown_board_text(board->evidence, NX_EVIDENCE_BYTES);
}

int nx_runner_try(nx_runner *runner, const nx_rule *rule, const nx_target *target, nx_finding *out) {
  nx_trial trial = {
      .board = runner->board, .rule = rule, .target = target, .path = runner->path, .cycles = runner->cycles};
  uint64_t began = nx_now_us();
  ending end;
  if (run_child(runner, &trial, &end)) return -1;
  *out = (nx_finding){.rule = rule, .target = target};
  judge_end(runner, &end, out);
  out->elapsed_us = nx_now_us() - began;
  return 0;
}

/* ---- The list of mechanisms ------------------------------------------------------------------------------------- */

static const nx_rule LOOK = {.id = "list", .check = nx_plugin_list_targets};

uint32_t nx_runner_targets(nx_runner *runner, nx_target out[NX_FACTORIES]) {
  nx_finding found;
  if (nx_runner_try(runner, &LOOK, NULL, &found)) return 0;
  free(found.evidence);
  uint32_t count = runner->board->target_count;
  if (found.ruling != NX_RULING_PASS || count > NX_FACTORIES) return 0;
  memcpy(out, runner->board->targets, sizeof runner->board->targets);
  for (uint32_t i = 0; i < count; i++) out[i].name[NX_LABEL_BYTES - 1] = '\0';
  return count;
}
