/*
 * isolation.c: are all threads of this process under no-new-privileges, and under a seccomp filter?
 *
 * Attackers: a thread that was started before the process confined itself, and starts others.
 * Promise: NXMEM_OK only where a whole look at the threads found each of them confined; where the kernel does not say, it is a refusal.
 *
 * A new thread has what its maker has. So an unconfined one can only hide by ending while we look; then we look again.
 */
#include "isolation.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

enum { LOOKS = 64 };

typedef enum sight { CONFINED, LOOSE, GONE, UNKNOWN } sight;

/* "Seccomp:\t2" of a status file; -1: no such line. */
static int value_of(const char *line, const char *key) {
  const size_t length = strlen(key);
  return strncmp(line, key, length) == 0 ? atoi(line + length) : -1;
}

static sight look_at(const char *thread, nx_isolation needed) {
  char path[320], line[256];
  (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
  FILE *status = fopen(path, "re");
  if (status == NULL) return errno == ENOENT || errno == ESRCH ? GONE : UNKNOWN;
  int no_new_privs = -1, seccomp = -1;
  while (fgets(line, sizeof line, status) != NULL) {
    if (no_new_privs < 0) no_new_privs = value_of(line, "NoNewPrivs:");
    if (seccomp < 0) seccomp = value_of(line, "Seccomp:");
  }
  const int failed = ferror(status);
  (void)fclose(status);
  if (failed) return GONE;
  if (no_new_privs < 0 || seccomp < 0) return UNKNOWN;
  return no_new_privs == 1 && (needed < NX_ISOLATION_SECCOMP || seccomp == 2) ? CONFINED : LOOSE;
}

static sight look_at_all(nx_isolation needed) {
  DIR *threads = opendir("/proc/self/task");
  if (threads == NULL) return UNKNOWN;
  sight found = UNKNOWN;
  for (const struct dirent *thread; (thread = readdir(threads)) != NULL;) {
    if (thread->d_name[0] == '.') continue;
    found = look_at(thread->d_name, needed);
    if (found != CONFINED) break;
  }
  (void)closedir(threads);
  return found;
}

nxmem_result nx_isolation_check(nx_isolation needed, const char *shown, nxmem_error *error) {
  if (needed == NX_ISOLATION_NONE) return NXMEM_OK;
  static const nx_context context = {NX_RECORD_SAID, "confine the whole process before it loads plugins"};
  sight found = GONE;
  for (int i = 0; i < LOOKS && found == GONE; i++) found = look_at_all(needed);
  if (found == CONFINED) return NXMEM_OK;
  const char *have = found == LOOSE ? "a thread without it" : "no way to tell";
  return nx_fail_in(error, NXMEM_ERR_NOT_ALLOWED, (nxmem_verdict){NXMEM_REASON_NONE, 0, 0, 0}, context,
                    "allow %s: the policy needs %s; found %s", shown,
                    needed == NX_ISOLATION_SECCOMP ? "no-new-privs and a seccomp filter" : "no-new-privs", have);
}
