/*
 * child_test.c: a child that does everything but what it was started for, and what comes back from it; a file that
 * changes while it is looked at.
 * Attackers played: the code in the child; whoever may write to the file.
 * Promise: the call ends, with its answer; no process is left; nothing that was there before is gone.
 */
#include "audit/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/image.h"
#include "support.h"

/* What the child says of its other processes; shared with it. */
typedef struct board {
  volatile pid_t left[64];
  volatile int count;
} board;

static board *shared;

static void say(pid_t pid) {
  if (shared->count < 64) shared->left[shared->count++] = pid;
}

/* ---- Children ---------------------------------------------------------------------------------------------------- */

static void put(const char *text) {
  if (write(3, text, strlen(text)) < 0) _exit(9);
}

static int answers(int argc, char **argv) {
  (void)argc;
  (void)argv;
  put("{\"steps\": []}");
  return 1;
}

static int hangs(int argc, char **argv) {
  (void)argc;
  (void)argv;
  while (pause()) continue;
  return 0;
}

static int stops(int argc, char **argv) {
  (void)argc;
  (void)argv;
  while (!raise(SIGSTOP)) continue;
  return 0;
}

static int crashes(int argc, char **argv) {
  (void)argc;
  (void)argv;
  raise(SIGKILL);
  return 0;
}

static int ends_parent(int argc, char **argv) {
  (void)argc;
  (void)argv;
  kill(getppid(), SIGKILL);
  put("{}");
  return 0;
}

static int closes_all(int argc, char **argv) {
  (void)argc;
  (void)argv;
  for (int fd = 0; fd < 64; fd++) close(fd);
  return 0;
}

/* One whose parent is gone, one that left session and group where it may. */
static int leaves_others(int argc, char **argv) {
  (void)argc;
  (void)argv;
  for (int i = 0; i < 4; i++) {
    if (fork() != 0) continue;
    if (i & 1) setsid();
    if (fork() != 0) _exit(0);
    say(getpid());
    for (;;) pause();
  }
  while (shared->count < 4) usleep(1000);
  put("{}");
  return 0;
}

static int writes_much(int argc, char **argv) {
  static char block[1 << 20];
  (void)argc;
  (void)argv;
  memset(block, ' ', sizeof block);
  put("{}");
  for (int i = 0; i < 65; i++)
    if (write(3, block, sizeof block) < 0) return 1;
  return 0;
}

/* "{}," three million times: a gigabyte where each is kept. */
static int writes_weight(int argc, char **argv) {
  static char block[3 << 20];
  (void)argc;
  (void)argv;
  for (size_t i = 0; i < sizeof block; i++) block[i] = "{},"[i % 3];
  put("[");
  for (int i = 0; i < 3; i++)
    if (write(3, block, sizeof block) < 0) return 1;
  put("{}]");
  return 0;
}

static int writes_nonsense(int argc, char **argv) {
  (void)argc;
  (void)argv;
  put("\x1b[31m{\xff");
  return 0;
}

typedef struct row {
  const char *name;
  int (*run)(int argc, char **argv);
  uint64_t limit_s;
  int exit_code;      /* -1: it did not end by itself */
  const char *ending; /* NULL: by itself */
  int has_result;
} row;

enum { NO_HURRY = 600, SOON = 1 };

static const row CHILDREN[] = {{"answers", answers, NO_HURRY, 1, NULL, 1},
                               {"hangs", hangs, SOON, -1, "no end within 1 s", 0},
                               {"stops itself", stops, SOON, -1, "no end within 1 s", 0},
                               {"is killed", crashes, NO_HURRY, -1, "killed by signal 9", 0},
                               {"would end its parent", ends_parent, NO_HURRY, 0, NULL, 1},
                               {"closes all descriptors", closes_all, NO_HURRY, 0, NULL, 0},
                               {"leaves others behind", leaves_others, NO_HURRY, 0, NULL, 1},
                               {"writes much", writes_much, NO_HURRY, 0, NULL, 0},
                               {"writes what is heavy", writes_weight, NO_HURRY, 0, NULL, 0},
                               {"writes nonsense", writes_nonsense, NO_HURRY, 0, NULL, 0}};

static void is_ended(void **state) {
  const row *of = *state;
  static char name[] = "child";
  char *words[] = {name, NULL};
  const nx_audit_child child = {of->run, words, 1, of->limit_s, "seconds"};
  nx_audit_return back;
  shared->count = 0;
  assert_int_equal(nx_audit_child_run(&child, &back), 0);
  assert_int_equal(back.exit_code, of->exit_code);
  assert_int_equal(strncmp(back.ending, of->ending ? of->ending : "", of->ending ? strlen(of->ending) : 1), 0);
  assert_int_equal(back.result != NULL, of->has_result);
  json_decref(back.result);
  assert_int_equal(back.left, shared->count);
  for (int i = 0; i < shared->count; i++) {
    assert_int_equal(kill(shared->left[i], 0), -1);
    assert_int_equal(errno, ESRCH);
  }
}

/* Of a shell that became us, say: it outlives the plugin's. */
static void ours_is_spared(void **state) {
  const pid_t *ours = *state;
  int status = 1;
  assert_int_equal(waitpid(*ours, &status, WNOHANG), 0);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/nxmem-child-XXXXXX";

static const char *in_folder(const char *name) {
  static char paths[4][64];
  static unsigned next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static void fill(const char *path, const char *text) {
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void same(const char *path) { (void)path; }
static void grows(const char *path) { fill(path, "content and more"); }
static void differs(const char *path) { fill(path, "contents"); }
static void goes(const char *path) { unlink(path); }
static void is_replaced(const char *path) {
  fill(in_folder("other"), "contents");
  rename(in_folder("other"), path);
}
/* Byte by byte and by its number the same, but for what was there meanwhile. */
static void comes_back(const char *path) {
  rename(path, in_folder("away"));
  fill(path, "another");
  rename(in_folder("away"), path);
}
static void is_marked(const char *path) { chmod(path, 0600); }
static void becomes_fifo(const char *path) {
  unlink(path);
  mkfifo(path, 0600);
}

typedef struct change {
  const char *name;
  void (*make)(const char *path);
  int changed;
} change;

static const change CHANGES[] = {{"nothing", same, 0},
                                 {"it grows", grows, 1},
                                 {"other bytes", differs, 1},
                                 {"it goes", goes, 1},
                                 {"it is replaced", is_replaced, 1},
                                 {"it comes back", comes_back, 1},
                                 {"another mode", is_marked, 1},
                                 {"a FIFO in its place", becomes_fifo, 1}};

static void is_noticed(void **state) {
  const change *of = *state;
  const char *path = in_folder("file");
  nx_audit_image image;
  nx_problem why;
  unlink(path);
  fill(path, "content.");
  assert_int_equal(nx_audit_image_read(path, &image, &why), NX_AUDIT_READ);
  usleep(20000); /* a clock of a file system may be as coarse as that */
  of->make(path);
  assert_int_equal(nx_audit_image_changed(path, &image), of->changed);
  nx_audit_image_free(&image);
}

int main(void) {
  nx_suite suite = {0};
  pid_t ours = fork();
  if (ours == 0)
    for (;;) pause();
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || !mkdtemp(folder)) return 1;
  nx_suite_rows(&suite, ROWS(CHILDREN), is_ended);
  nx_suite_add(&suite, "a child that was there before", ours_is_spared, &ours);
  nx_suite_rows(&suite, ROWS(CHANGES), is_noticed);
  int failed = nx_suite_run(&suite, "audit child");
  kill(ours, SIGKILL);
  waitpid(ours, NULL, 0);
  unlink(in_folder("file"));
  rmdir(folder);
  return failed;
}
