/*
 * confine_test.c: the fences on kernels that have not all of them, which a filter plays.
 * Attackers played: the code that runs behind them.
 * Promise: what is missing is named, and all the rest stands.
 */
#include "audit/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { LANDLOCK_CREATE = 444 };

/* What a child behind the fences saw. */
typedef struct seen {
  nx_audit_fences fences;
  int socket, kill_parent, kill_all, kill_group, kill_thread, queue_parent, watch_parent, kill_self, write, limit;
} seen;

typedef struct row {
  const char *name;
  void (*before)(void); /* in the child; NULL: nothing */
  void (*check)(const seen *saw);
} row;

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

static void without_call(int number, int answer) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (!filter || seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint32_t)answer), number, 0) || seccomp_load(filter))
    _exit(1);
  seccomp_release(filter);
}

static void without_landlock(void) { without_call(LANDLOCK_CREATE, ENOSYS); }

/* The library asks for it in either way. */
static void without_seccomp(void) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  const struct scmp_arg_cmp set = SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP);
  if (!filter || seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(prctl), 1, &set) ||
      seccomp_rule_add(filter, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(seccomp), 0) || seccomp_load(filter))
    _exit(1);
  seccomp_release(filter);
}

static void with_fewer_descriptors(void) {
  const struct rlimit few = {100, 100};
  if (setrlimit(RLIMIT_NOFILE, &few)) _exit(1);
}

/* ---- In the child ------------------------------------------------------------------------------------------------ */

static int answer_of(long result) { return result < 0 ? errno : 0; }

static void try_all(seen *saw) {
  const pid_t parent = getppid();
  siginfo_t told = {.si_code = SI_QUEUE};
  struct rlimit limit;
  saw->socket = answer_of(socket(AF_INET, SOCK_STREAM, 0));
  saw->kill_parent = answer_of(kill(parent, 0));
  saw->kill_all = answer_of(kill(-1, 0));
  saw->kill_group = answer_of(kill(-getpgid(parent), 0));
  saw->kill_thread = answer_of(syscall(SYS_tgkill, parent, parent, 0));
  saw->queue_parent = answer_of(syscall(SYS_rt_sigqueueinfo, parent, 0, &told));
  saw->watch_parent = answer_of(syscall(SYS_pidfd_open, parent, 0));
  saw->kill_self = answer_of(kill(getpid(), 0));
  saw->write = answer_of(open("/proc/self/comm", O_WRONLY));
  getrlimit(RLIMIT_NOFILE, &limit);
  saw->limit = (int)limit.rlim_max;
}

static void is_fenced(void **state) {
  const row *of = *state;
  int status = 1;
  seen *saw = mmap(NULL, sizeof *saw, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(saw, MAP_FAILED);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    if (of->before) of->before();
    nx_audit_confine(60, &saw->fences);
    try_all(saw);
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  of->check(saw);
  munmap(saw, sizeof *saw);
}

/* ---- What they see ----------------------------------------------------------------------------------------------- */

static const nx_audit_fence BY_LANDLOCK[] = {NX_FENCE_FILES, NX_FENCE_TRUNCATE, NX_FENCE_DEVICES, NX_FENCE_TCP,
                                             NX_FENCE_SIGNALS};

static int is_by_landlock(int fence) {
  for (size_t i = 0; i < sizeof BY_LANDLOCK / sizeof BY_LANDLOCK[0]; i++)
    if (BY_LANDLOCK[i] == (nx_audit_fence)fence) return 1;
  return 0;
}

/* A sanitizer's shadow passes for private memory; the kernel does not hold root to a number of processes. */
static int may_be_missing(int fence) { return fence == NX_FENCE_MEMORY || fence == NX_FENCE_PROCESSES; }

static void all_stand_but(const seen *saw, int (*left_out)(int fence)) {
  for (int i = 0; i < NX_FENCES; i++) {
    if (!left_out(i) && !may_be_missing(i) && saw->fences.failed[i])
      fail_msg("%s: %s", NX_AUDIT_FENCE[i].name, strerror(saw->fences.failed[i]));
  }
}

/* The parent is out of reach, in every way to it, while the child reaches itself. */
static void seccomp_stands(const seen *saw) {
  assert_int_equal(saw->socket, EPERM);
  assert_int_equal(saw->kill_parent, EPERM);
  assert_int_equal(saw->kill_all, EPERM);
  assert_int_equal(saw->kill_group, EPERM);
  assert_int_equal(saw->kill_thread, EPERM);
  assert_int_equal(saw->queue_parent, EPERM);
  assert_int_equal(saw->watch_parent, EPERM);
  assert_int_equal(saw->kill_self, 0);
}

static void seccomp_alone(const seen *saw) {
  all_stand_but(saw, is_by_landlock);
  for (size_t i = 0; i < sizeof BY_LANDLOCK / sizeof BY_LANDLOCK[0]; i++)
    assert_int_equal(saw->fences.failed[BY_LANDLOCK[i]], ENOSYS);
  assert_int_equal(saw->write, 0);
  seccomp_stands(saw);
}

static void landlock_alone(const seen *saw) {
  assert_int_not_equal(saw->fences.failed[NX_FENCE_SECCOMP], 0);
  assert_int_equal(saw->fences.failed[NX_FENCE_PRIVILEGES], 0);
  assert_int_equal(saw->socket, 0);
  if (saw->fences.failed[NX_FENCE_FILES] == 0) assert_int_equal(saw->write, EACCES);
  if (saw->fences.failed[NX_FENCE_SIGNALS] == 0) assert_int_equal(saw->kill_parent, EPERM);
}

static void as_it_is(const seen *saw) {
  all_stand_but(saw, is_by_landlock); /* which the running kernel may lack */
  seccomp_stands(saw);
  assert_int_equal(saw->limit, 1024);
}

static void fewer_stay_fewer(const seen *saw) {
  assert_int_equal(saw->limit, 100);
  assert_int_equal(saw->fences.failed[NX_FENCE_DESCRIPTORS], 0);
}

static const row ROWS_OF_KERNELS[] = {{"this kernel", NULL, as_it_is},
                                      {"a kernel without Landlock", without_landlock, seccomp_alone},
                                      {"a kernel without seccomp", without_seccomp, landlock_alone},
                                      {"a caller with fewer descriptors", with_fewer_descriptors, fewer_stay_fewer}};

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(ROWS_OF_KERNELS), is_fenced);
  return nx_suite_run(&suite, "audit confine");
}
