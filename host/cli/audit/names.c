/*
 * names.c: names that a plugin should not define, and names whose use a reviewer wants to know.
 * Attackers: names of a file.
 * Promise: exact names and beginnings; nothing is read but the name.
 */
#include <string.h>

#include "audit/facts.h"

static const char *const SYSTEM_NAMES[] = {
    /* memory */
    "malloc", "free", "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc", "posix_memalign", "valloc",
    "pvalloc", "malloc_usable_size", "cfree", "mmap", "mmap64", "munmap", "mremap", "mprotect", "madvise", "brk",
    "sbrk", "memcpy", "memmove", "memset", "memcmp", "memchr", "strlen", "strcmp", "strncmp", "strcpy", "strncpy",
    "strdup", "strchr", "strstr",
    /* the loader */
    "dlopen", "dlmopen", "dlclose", "dlsym", "dlvsym", "dlerror", "dladdr", "dladdr1", "dl_iterate_phdr", "dlinfo",
    /* files, processes, signals */
    "open", "open64", "openat", "openat64", "close", "read", "write", "pread", "pwrite", "readv", "writev", "fopen",
    "fopen64", "fread", "fwrite", "fclose", "printf", "fprintf", "vprintf", "puts", "stat", "fstat", "lstat", "access",
    "unlink", "rename", "ioctl", "fcntl", "poll", "select", "socket", "connect", "bind", "send", "recv", "sendto",
    "recvfrom", "getaddrinfo", "fork", "vfork", "clone", "execve", "execv", "execvp", "system", "popen", "waitpid",
    "kill", "raise", "signal", "sigaction", "sigprocmask", "abort", "exit", "_exit", "_Exit", "quick_exit", "atexit",
    "on_exit", "at_quick_exit", "syscall", "prctl", "getenv", "secure_getenv", "setenv", "putenv", "unsetenv", "getpid",
    "getuid", "geteuid", "time", "clock_gettime", "gettimeofday", "nanosleep", "usleep", "sleep", "getrandom", "rand",
    "setjmp", "_setjmp", "longjmp", "siglongjmp", "environ", "stdin", "stdout", "stderr", "errno", "main"};

/* Behind `start` must come a capital where `capital` is set: cuMemAlloc is the driver's, custom is not. */
typedef struct family {
  const char *start;
  int capital;
} family;

static const family SYSTEM_FAMILIES[] = {
    {"_Znw", 0},    {"_Zna", 0},      {"_ZdlPv", 0},      {"_ZdaPv", 0},    {"pthread_", 0},  {"__pthread_", 0},
    {"__libc_", 0}, {"__cxa_", 0},    {"_dl_", 0},        {"_rtld_", 0},    {"__tls_get", 0}, {"_Unwind_", 0},
    {"la_", 0},     {"__malloc_", 0}, {"__stack_chk", 0}, {"__fortify", 0}, {"cu", 1},        {"cuda", 1},
    {"nvml", 1},    {"hip", 1},       {"ze", 1}};

static const char *const OUTWARD_NAMES[] = {"socket",
                                            "connect",
                                            "bind",
                                            "listen",
                                            "accept",
                                            "accept4",
                                            "send",
                                            "sendto",
                                            "sendmsg",
                                            "recv",
                                            "recvfrom",
                                            "recvmsg",
                                            "getaddrinfo",
                                            "gethostbyname",
                                            "execve",
                                            "execv",
                                            "execvp",
                                            "execvpe",
                                            "execl",
                                            "execlp",
                                            "execle",
                                            "fexecve",
                                            "execveat",
                                            "posix_spawn",
                                            "posix_spawnp",
                                            "system",
                                            "popen",
                                            "fork",
                                            "vfork",
                                            "clone",
                                            "dlopen",
                                            "dlmopen",
                                            "dlsym",
                                            "dlvsym",
                                            "ptrace",
                                            "process_vm_writev",
                                            "process_vm_readv",
                                            "kill",
                                            "tgkill",
                                            "sigqueue",
                                            "setuid",
                                            "seteuid",
                                            "setresuid",
                                            "setreuid",
                                            "setgid",
                                            "setgroups",
                                            "capset",
                                            "prctl",
                                            "unshare",
                                            "setns",
                                            "mount",
                                            "umount2",
                                            "chroot",
                                            "pivot_root",
                                            "init_module",
                                            "finit_module",
                                            "reboot",
                                            "setenv",
                                            "putenv",
                                            "unsetenv",
                                            "unlink",
                                            "unlinkat",
                                            "rename",
                                            "renameat",
                                            "remove",
                                            "chmod",
                                            "fchmod",
                                            "chown",
                                            "ld_audit",
                                            "syscall",
                                            "userfaultfd",
                                            "keyctl",
                                            "bpf",
                                            "perf_event_open",
                                            "shm_open",
                                            "mq_open"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int is_among(const char *name, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(name, names[i])) return 1;
  return 0;
}

static int is_of(const char *name, const family *kin) {
  size_t length = strlen(kin->start);
  if (strncmp(name, kin->start, length) != 0) return 0;
  return !kin->capital || (name[length] >= 'A' && name[length] <= 'Z');
}

int nx_audit_is_system_name(const char *name) {
  for (size_t i = 0; i < COUNT(SYSTEM_FAMILIES); i++)
    if (is_of(name, &SYSTEM_FAMILIES[i])) return 1;
  return is_among(name, SYSTEM_NAMES, COUNT(SYSTEM_NAMES));
}

int nx_audit_reaches_out(const char *name) { return is_among(name, OUTWARD_NAMES, COUNT(OUTWARD_NAMES)); }
