/*
 * confine.c: no-new-privileges, capabilities, seccomp, Landlock, resource limits.
 * Attackers: the plugin that runs afterwards.
 * Promise: each fence by itself: one that the kernel has not keeps none of the others away.
 */
#include "audit/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

const nx_audit_fence_words NX_AUDIT_FENCE[NX_FENCES] = {
    [NX_FENCE_PRIVILEGES] = {"no-new-privileges", "rights of set-user-ID programs"},
    [NX_FENCE_CAPABILITIES] = {"capabilities", "rights of root but that of reading"},
    [NX_FENCE_SECCOMP] = {"seccomp",
                          "sockets, other programs, other processes' memory, owners and modes of files, objects "
                          "that outlive a process, mounts, kernel modules"},
    [NX_FENCE_FILES] = {"landlock-files", "writing to, making and removing files"},
    [NX_FENCE_TRUNCATE] = {"landlock-truncate", "emptying files"},
    [NX_FENCE_DEVICES] = {"landlock-devices", "commands to devices, terminals among them"},
    [NX_FENCE_TCP] = {"landlock-tcp", "TCP, beside seccomp"},
    [NX_FENCE_SIGNALS] = {"landlock-signals", "signals to processes outside, abstract sockets"},
    [NX_FENCE_TIME] = {"limit-time", "processor time without end"},
    [NX_FENCE_MEMORY] = {"limit-memory", "private memory above 8 GiB"},
    [NX_FENCE_DESCRIPTORS] = {"limit-descriptors", "more than 1024 open files, core dumps"},
    [NX_FENCE_PROCESSES] = {"limit-processes", "more than 4096 processes"},
    [NX_FENCE_LAST_MEMORY] = {"oom-score", "that another process is ended before it where memory is out"}};

/* ---- Capabilities ------------------------------------------------------------------------------------------------ */

/* Root reads what is others' all the same: the plugin may be one of theirs. */
static int fence_capabilities(void) {
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3];
  if (syscall(SYS_capget, &head, has)) return errno;
  const uint32_t kept = has[0].permitted & (1u << CAP_DAC_READ_SEARCH);
  memset(has, 0, sizeof has);
  has[0].permitted = has[0].effective = kept;
  return syscall(SYS_capset, &head, has) ? errno : 0;
}

/* ---- seccomp ----------------------------------------------------------------------------------------------------- */

/* A denied call answers EPERM, as it does for a process without the right. */
static const char *const DENIED[] = {"socket",
                                     "connect",
                                     "bind",
                                     "listen",
                                     "accept",
                                     "accept4",
                                     "sendmsg",
                                     "sendmmsg",
                                     "execve",
                                     "execveat",
                                     "ptrace",
                                     "process_vm_writev",
                                     "pidfd_getfd",
                                     "io_uring_setup",
                                     "mount",
                                     "umount2",
                                     "move_mount",
                                     "open_tree",
                                     "fsopen",
                                     "fspick",
                                     "mount_setattr",
                                     "pivot_root",
                                     "chroot",
                                     "unshare",
                                     "setns",
                                     "bpf",
                                     "perf_event_open",
                                     "userfaultfd",
                                     "fanotify_init",
                                     "keyctl",
                                     "add_key",
                                     "request_key",
                                     "init_module",
                                     "finit_module",
                                     "delete_module",
                                     "kexec_load",
                                     "kexec_file_load",
                                     "reboot",
                                     "swapon",
                                     "swapoff",
                                     "settimeofday",
                                     "clock_settime",
                                     "clock_adjtime",
                                     "adjtimex",
                                     "sethostname",
                                     "setdomainname",
                                     "syslog",
                                     "quotactl",
                                     "quotactl_fd",
                                     "open_by_handle_at",
                                     "acct",
                                     "iopl",
                                     "ioperm",
                                     "vhangup",
                                     "setuid",
                                     "setgid",
                                     "setresuid",
                                     "setresgid",
                                     "setreuid",
                                     "setregid",
                                     "setfsuid",
                                     "setfsgid",
                                     "setgroups",
                                     "capset",
                                     "mknod",
                                     "mknodat",
                                     "setsid",
                                     "setpgid",
                                     "setpriority",
                                     "ioprio_set",
                                     "sched_setscheduler",
                                     "sched_setparam",
                                     "sched_setattr",
                                     "chmod",
                                     "fchmod",
                                     "fchmodat",
                                     "fchmodat2",
                                     "chown",
                                     "lchown",
                                     "fchown",
                                     "fchownat",
                                     "utime",
                                     "utimes",
                                     "futimesat",
                                     "utimensat",
                                     "truncate",
                                     "setxattr",
                                     "lsetxattr",
                                     "fsetxattr",
                                     "setxattrat",
                                     "removexattr",
                                     "lremovexattr",
                                     "fremovexattr",
                                     "removexattrat",
                                     "shmget",
                                     "shmat",
                                     "semget",
                                     "msgget",
                                     "mq_open"};

/* Denied where one argument, as far as `mask` goes, has this value; with `others`, where it has not. */
typedef struct denied_argument {
  const char *call;
  unsigned argument;
  uint64_t mask, value;
  int others;
} denied_argument;

#define WHOLE UINT64_MAX
#define LOW_HALF 0xFFFFFFFFull /* all that the kernel looks at */

/* A pair of sockets can be had without socket(), and sends to any address. Limits of another process can end it. */
static const denied_argument DENIED_ARGUMENT[] = {{"sendto", 4, WHOLE, 0, 1},
                                                  {"prlimit64", 0, WHOLE, 0, 1},
                                                  {"ioctl", 1, LOW_HALF, TIOCSTI, 0},
                                                  {"ioctl", 1, LOW_HALF, TIOCLINUX, 0}};

/* Calls that can end the process outside that waits for this one: Landlock forbids more, where it knows signals. */
static const char *const SIGNALLING[] = {"kill",      "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo",
                                         "pidfd_open"};

static int known_call(const char *name) {
  const int number = seccomp_syscall_resolve_name(name);
  return number == __NR_SCMP_ERROR || number < 0 ? -1 : number;
}

static int deny_argument(scmp_filter_ctx filter, const denied_argument *denied) {
  const int number = known_call(denied->call);
  const struct scmp_arg_cmp compare = {.arg = denied->argument,
                                       .op = denied->others ? SCMP_CMP_NE : SCMP_CMP_MASKED_EQ,
                                       .datum_a = denied->others ? denied->value : denied->mask,
                                       .datum_b = denied->others ? 0 : denied->value};
  return number < 0 ? 0 : -seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), number, 1, &compare);
}

/* The parent, its group, and everybody at once. */
static int deny_signals(scmp_filter_ctx filter) {
  const pid_t parent = getppid(), targets[] = {parent, -getpgid(parent), -1};
  int failed = 0;
  for (size_t i = 0; i < sizeof SIGNALLING / sizeof SIGNALLING[0]; i++) {
    for (size_t j = 0; j < sizeof targets / sizeof targets[0] && !failed; j++) {
      const denied_argument one = {SIGNALLING[i], 0, LOW_HALF, (uint32_t)targets[j], 0};
      failed = deny_argument(filter, &one);
    }
  }
  return failed;
}

/* An unknown name is one that this machine has no call for, or that the library is too old for: newer kernels' calls. */
static int deny_all(scmp_filter_ctx filter) {
  int failed = deny_signals(filter);
  for (size_t i = 0; i < sizeof DENIED / sizeof DENIED[0] && !failed; i++) {
    const int number = known_call(DENIED[i]);
    if (number >= 0) failed = -seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0);
  }
  for (size_t i = 0; i < sizeof DENIED_ARGUMENT / sizeof DENIED_ARGUMENT[0] && !failed; i++)
    failed = deny_argument(filter, &DENIED_ARGUMENT[i]);
  return failed;
}

static int fence_seccomp(void) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (!filter) return ENOMEM;
  int failed = deny_all(filter);
  if (!failed) failed = -seccomp_load(filter);
  seccomp_release(filter);
  return failed;
}

/* ---- Landlock ---------------------------------------------------------------------------------------------------- */

/* linux/landlock.h, of ABI 6; the headers of older distributions know less than their users' kernels. */
typedef struct ruleset {
  uint64_t files, network, scopes;
} ruleset;

typedef struct __attribute__((packed)) beneath {
  uint64_t allowed;
  int32_t folder;
} beneath;

#define LL_WRITE_FILE (1ull << 1)
#define LL_REMOVE_AND_MAKE 0x1FF0ull /* REMOVE_DIR to MAKE_SYM, bits 4 to 12 */
#define LL_REFER (1ull << 13)        /* from 2 */
#define LL_TRUNCATE (1ull << 14)     /* from 3 */
#define LL_IOCTL_DEV (1ull << 15)    /* from 5 */
#define LL_TCP 3ull                  /* bind and connect; from 4 */
#define LL_SCOPES 3ull               /* abstract sockets and signals; from 6 */

enum { LL_CREATE = 444, LL_ADD = 445, LL_RESTRICT = 446, LL_ASK_VERSION = 1, LL_PATH_BENEATH = 1 };

/* What mechanisms of devices, and the C library itself, have to write to. */
static const char *const WRITABLE[] = {
    "/dev/null",        "/dev/zero",    "/dev/full",    "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset",
    "/dev/nvidia-caps", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2",   "/dev/nvidia3",    "/dev/nvidia4",
    "/dev/nvidia5",     "/dev/nvidia6", "/dev/nvidia7", "/dev/dxg",       "/dev/dri",        "/dev/kfd"};

static void allow_devices(int rules, uint64_t files) {
  for (size_t i = 0; i < sizeof WRITABLE / sizeof WRITABLE[0]; i++) {
    beneath rule = {files & (LL_WRITE_FILE | LL_TRUNCATE | LL_IOCTL_DEV), open(WRITABLE[i], O_PATH | O_CLOEXEC)};
    if (rule.folder < 0) continue;
    syscall(LL_ADD, rules, LL_PATH_BENEATH, &rule, 0);
    close(rule.folder);
  }
}

static int restrict_by(const ruleset *wanted) {
  int rules = (int)syscall(LL_CREATE, wanted, sizeof *wanted, 0);
  if (rules < 0) return errno;
  allow_devices(rules, wanted->files);
  int failed = syscall(LL_RESTRICT, rules, 0) ? errno : 0;
  close(rules);
  return failed;
}

/* An older kernel takes the part that it knows: what stands behind it must be zero. */
static void fence_landlock(nx_audit_fences *out) {
  long version = syscall(LL_CREATE, NULL, 0, LL_ASK_VERSION);
  ruleset wanted = {LL_WRITE_FILE | LL_REMOVE_AND_MAKE, 0, 0};
  int failed = version < 1 ? errno : 0;
  if (version >= 2) wanted.files |= LL_REFER;
  if (version >= 3) wanted.files |= LL_TRUNCATE;
  if (version >= 4) wanted.network = LL_TCP;
  if (version >= 5) wanted.files |= LL_IOCTL_DEV;
  if (version >= 6) wanted.scopes = LL_SCOPES;
  if (!failed) failed = restrict_by(&wanted);
  out->failed[NX_FENCE_FILES] = failed;
  out->failed[NX_FENCE_TRUNCATE] = failed ? failed : version >= 3 ? 0 : ENOSYS;
  out->failed[NX_FENCE_TCP] = failed ? failed : version >= 4 ? 0 : ENOSYS;
  out->failed[NX_FENCE_DEVICES] = failed ? failed : version >= 5 ? 0 : ENOSYS;
  out->failed[NX_FENCE_SIGNALS] = failed ? failed : version >= 6 ? 0 : ENOSYS;
}

/* ---- Limits ------------------------------------------------------------------------------------------------------ */

#define MEMORY_MAX (8ull << 30)
enum { DESCRIPTORS_MAX = 1024, PROCESSES_MAX = 4096 };

static int limit(int what, uint64_t most) {
  struct rlimit now;
  if (getrlimit((__rlimit_resource_t)what, &now)) return errno;
  if (now.rlim_max != RLIM_INFINITY && now.rlim_max < most) most = now.rlim_max;
  const struct rlimit wanted = {most, most};
  return setrlimit((__rlimit_resource_t)what, &wanted) ? errno : 0;
}

/* Private writable memory of this process in bytes; a sanitizer's shadow is terabytes of it. */
static uint64_t private_bytes(void) {
  char line[128];
  uint64_t kilobytes = 0;
  FILE *status = fopen("/proc/self/status", "re");
  while (status && fgets(line, sizeof line, status))
    if (sscanf(line, "VmData: %" SCNu64, &kilobytes) == 1) break;
  if (status) fclose(status);
  return kilobytes << 10;
}

/* Before Landlock, which forbids the writing. */
static int fence_last_memory(void) {
  static const char most[] = "1000";
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  int failed = write(fd, most, sizeof most - 1) < 0 ? errno : 0;
  close(fd);
  return failed;
}

static void fence_limits(uint64_t seconds, nx_audit_fences *out) {
  out->failed[NX_FENCE_TIME] = limit(RLIMIT_CPU, seconds);
  out->failed[NX_FENCE_MEMORY] = private_bytes() > MEMORY_MAX / 2 ? EOVERFLOW : limit(RLIMIT_DATA, MEMORY_MAX);
  out->failed[NX_FENCE_DESCRIPTORS] = limit(RLIMIT_NOFILE, DESCRIPTORS_MAX) | limit(RLIMIT_CORE, 0);
  /* The kernel does not hold root to it. */
  out->failed[NX_FENCE_PROCESSES] = geteuid() == 0 ? EPERM : limit(RLIMIT_NPROC, PROCESSES_MAX);
}

void nx_audit_confine(uint64_t seconds, nx_audit_fences *out) {
  memset(out, 0, sizeof *out);
  out->failed[NX_FENCE_PRIVILEGES] = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? errno : 0;
  out->failed[NX_FENCE_LAST_MEMORY] = fence_last_memory();
  fence_limits(seconds, out);
  out->failed[NX_FENCE_CAPABILITIES] = fence_capabilities();
  fence_landlock(out);
  out->failed[NX_FENCE_SECCOMP] = fence_seccomp();
}
