/*
 * confine_test.c: the fences on kernels that have not all of them, which a filter plays.
 * Attackers played: the code that runs behind them.
 * Promise: what is missing is named, and all the rest stands.
 */
#include "audit/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { LANDLOCK_CREATE = 444 };

/* What a child behind the fences saw. */
typedef struct seen {
  nx_audit_fences fences;
  int socket, kill_parent, kill_all, kill_group, kill_thread, queue_parent, watch_parent, kill_self, write, limit,
      no_new_privileges;
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
  const struct scmp_arg_cmp set = SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP, 0);
  /* The fence alone is to forbid new privileges; a filter without them is root's to load. */
  if (filter && geteuid() == 0 && seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0)) _exit(1);
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
  saw->no_new_privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
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
  assert_int_equal(saw->no_new_privileges, 1);
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

/* ---- One attempt each -------------------------------------------------------------------------------------------- */

/* 0: it succeeded, or what was expected to be forbidden is not; errno else. `of`: a file of ours, and its name. */
typedef struct target {
  int fd;
  char path[64];
} target;

typedef struct attempt {
  const char *name;
  nx_audit_fence fence;
  int (*make)(const target *of);
  int expected; /* errno */
} attempt;

static int makes_socket(const target *of) { return (void)of, answer_of(socket(AF_INET6, SOCK_DGRAM, 0)); }

static const struct sockaddr_un NOBODY = {.sun_family = AF_UNIX, .sun_path = "/nowhere/at/all"};

static int sends_to(const target *of) {
  int pair[2];
  (void)of;
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return 0;
  return answer_of(sendto(pair[0], "x", 1, 0, (const struct sockaddr *)&NOBODY, sizeof NOBODY));
}

static int sends_message(const target *of) {
  struct sockaddr_un to = NOBODY;
  struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to};
  int pair[2];
  (void)of;
  return socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) ? 0 : answer_of(sendmsg(pair[0], &message, 0));
}

static int connects(const target *of) {
  int pair[2];
  (void)of;
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return 0;
  return answer_of(connect(pair[0], (const struct sockaddr *)&NOBODY, sizeof NOBODY));
}

static int writes(const target *of) { return answer_of(open(of->path, O_WRONLY)); }
static int empties(const target *of) { return answer_of(open(of->path, O_RDONLY | O_TRUNC)); }
static int empties_by_name(const target *of) { return answer_of(truncate(of->path, 0)); }
static int removes(const target *of) { return answer_of(unlink(of->path)); }
static const char FOLDER[] = "/tmp/nxmem-confine-folder";
static int makes_folder(const target *of) { return (void)of, answer_of(mkdir(FOLDER, 0700)); }
static int sets_mode(const target *of) { return answer_of(chmod(of->path, 0600)); }
static int sets_mode_of_open(const target *of) { return answer_of(fchmod(of->fd, 0600)); }
static int sets_owner(const target *of) { return answer_of(chown(of->path, geteuid(), getegid())); }
static int sets_times(const target *of) { return answer_of(utimensat(AT_FDCWD, of->path, NULL, 0)); }
static int shares(const target *of) { return (void)of, answer_of(shmget(IPC_PRIVATE, 4096, 0600)); }
static int leaves_session(const target *of) { return (void)of, answer_of(setsid()); }
static int leaves_group(const target *of) { return (void)of, answer_of(setpgid(0, 0)); }
static int runs_program(const target *of) {
  char *const words[] = {(char *)(uintptr_t)of->path, NULL};
  return answer_of(execve("/nowhere/at/all", words, words));
}
static int limits_parent(const target *of) {
  struct rlimit now;
  return (void)of, answer_of(prlimit(getppid(), RLIMIT_CPU, NULL, &now));
}
static int schedules(const target *of) {
  const struct sched_param quiet = {0};
  return (void)of, answer_of(sched_setscheduler(0, SCHED_BATCH, &quiet));
}

/* No terminal is needed to be told that it is forbidden; the kernel looks at the low half alone. */
static int types(const target *of) {
  return answer_of(syscall(SYS_ioctl, of->fd, 0xFFFFFFFF00000000ul | TIOCSTI, "x"));
}

static int commands_device(const target *of) {
  int number, fd = open("/dev/ptmx", O_RDONLY | O_NOCTTY);
  (void)of;
  return fd < 0 ? EACCES : answer_of(ioctl(fd, TIOCGPTN, &number));
}

static int takes_memory(const target *of) {
  (void)of;
  return mmap(NULL, 9ul << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED
             ? errno
             : 0;
}

static int has_rights(const target *of) {
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct has[2] = {{0}};
  (void)of;
  if (syscall(SYS_capget, &head, has)) return 0;
  return has[1].permitted || (has[0].permitted & ~(1u << CAP_DAC_READ_SEARCH)) ? 0 : EPERM;
}

static int has_new_privileges(const target *of) {
  return (void)of, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? EPERM : 0;
}

static int is_spared_by_the_kernel(const target *of) {
  char score[16] = "";
  int fd = open("/proc/self/oom_score_adj", O_RDONLY);
  (void)of;
  return fd >= 0 && read(fd, score, sizeof score - 1) > 0 && atoi(score) == 1000 ? EPERM : 0;
}

static int keeps_processor(const target *of) {
  struct rlimit limit;
  (void)of;
  return getrlimit(RLIMIT_CPU, &limit) || limit.rlim_max > 60 ? 0 : EPERM;
}

static int dumps_core(const target *of) {
  struct rlimit limit;
  (void)of;
  return getrlimit(RLIMIT_CORE, &limit) || limit.rlim_max > 0 ? 0 : EPERM;
}

static const attempt ATTEMPTS[] = {{"a socket", NX_FENCE_SECCOMP, makes_socket, EPERM},
                                   {"a datagram to an address", NX_FENCE_SECCOMP, sends_to, EPERM},
                                   {"a message to an address", NX_FENCE_SECCOMP, sends_message, EPERM},
                                   {"a connection", NX_FENCE_SECCOMP, connects, EPERM},
                                   {"writing to a file", NX_FENCE_FILES, writes, EACCES},
                                   {"removing a file", NX_FENCE_FILES, removes, EACCES},
                                   {"making a folder", NX_FENCE_FILES, makes_folder, EACCES},
                                   {"emptying a file", NX_FENCE_TRUNCATE, empties, EACCES},
                                   {"emptying a file by its name", NX_FENCE_SECCOMP, empties_by_name, EPERM},
                                   {"the mode of a file", NX_FENCE_SECCOMP, sets_mode, EPERM},
                                   {"the mode of an open file", NX_FENCE_SECCOMP, sets_mode_of_open, EPERM},
                                   {"the owner of a file", NX_FENCE_SECCOMP, sets_owner, EPERM},
                                   {"the times of a file", NX_FENCE_SECCOMP, sets_times, EPERM},
                                   {"shared memory that stays", NX_FENCE_SECCOMP, shares, EPERM},
                                   {"leaving the session", NX_FENCE_SECCOMP, leaves_session, EPERM},
                                   {"leaving the group", NX_FENCE_SECCOMP, leaves_group, EPERM},
                                   {"another program", NX_FENCE_SECCOMP, runs_program, EPERM},
                                   {"limits of the parent", NX_FENCE_SECCOMP, limits_parent, EPERM},
                                   {"scheduling", NX_FENCE_SECCOMP, schedules, EPERM},
                                   {"typing into a terminal", NX_FENCE_SECCOMP, types, EPERM},
                                   {"commands to a device", NX_FENCE_DEVICES, commands_device, EACCES},
                                   {"memory without end", NX_FENCE_MEMORY, takes_memory, ENOMEM},
                                   {"rights of root", NX_FENCE_CAPABILITIES, has_rights, EPERM},
                                   {"new privileges", NX_FENCE_PRIVILEGES, has_new_privileges, EPERM},
                                   {"memory that others pay for", NX_FENCE_LAST_MEMORY, is_spared_by_the_kernel, EPERM},
                                   {"processor time without end", NX_FENCE_TIME, keeps_processor, EPERM},
                                   {"dumps", NX_FENCE_DESCRIPTORS, dumps_core, EPERM}};

typedef struct outcome {
  nx_audit_fences fences;
  int answer;
} outcome;

/* What the kernel has not is named: then there is nothing to try. */
static void is_forbidden(void **state) {
  const attempt *of = *state;
  int status = 1;
  target file = {.path = "/tmp/nxmem-confine-XXXXXX"};
  outcome *out = mmap(NULL, sizeof *out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(out, MAP_FAILED);
  file.fd = mkstemp(file.path);
  assert_true(file.fd >= 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    nx_audit_confine(60, &out->fences);
    out->answer = of->make(&file);
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  close(file.fd);
  unlink(file.path);
  rmdir(FOLDER);
  assert_int_equal(status, 0);
  if (out->fences.failed[of->fence] == 0) assert_int_equal(out->answer, of->expected);
  munmap(out, sizeof *out);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(ATTEMPTS), is_forbidden);
  nx_suite_rows(&suite, ROWS(ROWS_OF_KERNELS), is_fenced);
  return nx_suite_run(&suite, "audit confine");
}
