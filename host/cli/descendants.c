/*
 * descendants.c: adopting, ending and reaping.
 * Attackers: as in the header.
 * Promise: whoever left its group is found as our child once its parent is gone.
 */
#include "descendants.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Nobody starts us with more; any beyond would be taken for a plugin's. */
enum { SPARED_MAX = 256 };

static pid_t spared[SPARED_MAX];
static size_t spared_count;

/* Returns 1 to be counted. */
typedef int (*see_child)(pid_t pid);

static size_t each_child(see_child see) {
  char path[64];
  int pid;
  size_t count = 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  FILE *children = fopen(path, "re");
  while (children && fscanf(children, "%d", &pid) == 1) count += (size_t)see(pid);
  if (children) fclose(children);
  return count;
}

static int is_spared(pid_t pid) {
  for (size_t i = 0; i < spared_count; i++)
    if (spared[i] == pid) return 1;
  return 0;
}

static int spare(pid_t pid) {
  if (spared_count < SPARED_MAX) spared[spared_count++] = pid;
  return 1;
}

static int end_one(pid_t pid) {
  if (is_spared(pid)) return 0;
  kill(pid, SIGKILL);
  while (waitpid(pid, NULL, WNOHANG) > 0) continue;
  return 1;
}

/* One that has ended and waits to be reaped runs no more. The state stands behind the name, which may hold anything. */
static int runs(pid_t pid) {
  char path[64], line[256] = "";
  if (is_spared(pid)) return 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  const char *name_end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
  fclose(file);
  return name_end && name_end[1] == ' ' && name_end[2] != 'Z' && name_end[2] != 'X';
}

/* Who is told to go with its parent needs a moment; one that hands itself on by forking is between two for a shorter one. */
enum { LOOKS = 50, LOOKS_WITHOUT = 3, LOOK_US = 2000 };

size_t nx_descendants_left(void) {
  size_t found = 0;
  for (int i = 0, without = 0; i < LOOKS && without < LOOKS_WITHOUT; i++) {
    const size_t now = each_child(runs);
    without = now ? 0 : without + 1;
    found = without == LOOKS_WITHOUT ? 0 : now ? now : found;
    usleep(LOOK_US);
  }
  return found;
}

void nx_descendants_adopt(void) {
  static pid_t adopter; /* what our parent adopted is not ours */
  if (adopter == getpid()) return;
  adopter = getpid();
  spared_count = 0;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  each_child(spare);
}

/* One that forks faster than it is found would keep us: each round ends all there are. */
enum { ROUNDS_MAX = 1000, ROUND_US = 1000 };

void nx_descendants_end(void) {
  for (int i = 0; i < ROUNDS_MAX && each_child(end_one) > 0; i++) usleep(ROUND_US);
}
