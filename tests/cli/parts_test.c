/*
 * parts_test.c: the command's small parts: touching memory (touch.c), whose memory it is (maps.c), showing text
 * (text.c), the counter line (progress.c).
 * Attackers played: addresses that fault, memory that changes, text that steers a terminal.
 * Promise: a fault is an answer, time after time, and faults elsewhere keep their meaning.
 */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "maps.h"
#include "progress.h"
#include "support.h"
#include "text.h"
#include "touch.h"

/* ---- Touching ---------------------------------------------------------------------------------------------------- */

enum { PAGE = 4096 };

typedef struct memory_row {
  const char *name;
  int protection;
  size_t file_bytes; /* the mapping is two pages of a file of this size */
  size_t at, bytes;  /* what is touched */
  nx_touch_result fill, verify;
  size_t fault_at;
} memory_row;

static uint8_t *map_memory(const memory_row *row) {
  int fd = memfd_create("touched", MFD_CLOEXEC);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, (off_t)row->file_bytes), 0);
  uint8_t *memory = mmap(NULL, 2 * PAGE, row->protection, MAP_SHARED, fd, 0);
  close(fd);
  assert_ptr_not_equal(memory, MAP_FAILED);
  return memory;
}

static void assert_touch(nx_touch got, nx_touch_result want, const uint8_t *fault_address) {
  assert_int_equal(got.result, want);
  if (want == NX_TOUCH_FAULT) assert_int_equal(got.address, (uintptr_t)fault_address);
}

/* Twice: the first fault must leave the second one catchable. */
static void touch_answers(void **state) {
  const memory_row *row = *state;
  nx_touch_guard guard;
  uint8_t *memory = map_memory(row);
  nx_touch_begin(&guard);
  for (int round = 0; round < 2; round++) {
    assert_touch(nx_touch_fill(memory + row->at, row->bytes, 7), row->fill, memory + row->fault_at);
    assert_touch(nx_touch_verify(memory + row->at, row->bytes, 7), row->verify, memory + row->fault_at);
  }
  nx_touch_end(&guard);
  munmap(memory, 2 * PAGE);
}

static const memory_row memory_rows[] = {
    {"plain memory", PROT_READ | PROT_WRITE, 2 * PAGE, 0, 2 * PAGE, NX_TOUCH_OK, NX_TOUCH_OK, 0},
    {"one byte at the very end", PROT_READ | PROT_WRITE, 2 * PAGE, 2 * PAGE - 1, 1, NX_TOUCH_OK, NX_TOUCH_OK, 0},
    {"memory that cannot be accessed", PROT_NONE, 2 * PAGE, 64, 8, NX_TOUCH_FAULT, NX_TOUCH_FAULT, 64},
    {"memory that can only be read", PROT_READ, 2 * PAGE, 64, 8, NX_TOUCH_FAULT, NX_TOUCH_CHANGED, 64},
    {"memory beyond the end of its file", PROT_READ | PROT_WRITE, PAGE, 0, PAGE + 1, NX_TOUCH_FAULT, NX_TOUCH_FAULT,
     PAGE},
};

static void change_is_found_where_it_is(void **state) {
  (void)state;
  uint8_t memory[256];
  nx_touch_guard guard;
  nx_touch_begin(&guard);
  assert_touch(nx_touch_fill(memory, sizeof memory, 3), NX_TOUCH_OK, NULL);
  memory[200] ^= 1;
  nx_touch found = nx_touch_verify(memory, sizeof memory, 3);
  nx_touch_end(&guard);
  assert_int_equal(found.result, NX_TOUCH_CHANGED);
  assert_int_equal(found.address, (uintptr_t)(memory + 200));
}

static void two_blocks_in_one_place_show(void **state) {
  (void)state;
  uint8_t memory[64];
  nx_touch_guard guard;
  nx_touch_begin(&guard);
  assert_touch(nx_touch_fill(memory, sizeof memory, 0), NX_TOUCH_OK, NULL);
  assert_touch(nx_touch_fill(memory, sizeof memory, 1), NX_TOUCH_OK, NULL);
  nx_touch first = nx_touch_verify(memory, sizeof memory, 0), second = nx_touch_verify(memory, sizeof memory, 1);
  nx_touch_end(&guard);
  assert_int_equal(first.result, NX_TOUCH_CHANGED);
  assert_int_equal(second.result, NX_TOUCH_OK);
}

enum { HANDLED = 77 };

static void leave(int number) {
  (void)number;
  _exit(HANDLED);
}

/* How a process ends that faults, not while it touches, with `handler` installed before. */
static int status_of_fault(void (*handler)(int)) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    nx_touch_guard guard;
    signal(SIGSEGV, handler);
    nx_touch_begin(&guard);
    volatile uint8_t *nowhere = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *nowhere = 1;
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

/* A fault that is not ours must end the process as it would have without us. */
static void fault_elsewhere_still_kills(void **state) {
  (void)state;
  int status = status_of_fault(SIG_DFL);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void fault_elsewhere_is_the_earlier_handlers(void **state) {
  (void)state;
  int status = status_of_fault(leave);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), HANDLED);
}

static void handlers_are_put_back(void **state) {
  (void)state;
  struct sigaction before, after;
  nx_touch_guard guard;
  sigaction(SIGSEGV, NULL, &before);
  nx_touch_begin(&guard);
  nx_touch_end(&guard);
  sigaction(SIGSEGV, NULL, &after);
  assert_true(before.sa_sigaction == after.sa_sigaction);
}

/* ---- Whose memory ------------------------------------------------------------------------------------------------ */

typedef struct overlap_row {
  const char *name;
  uint64_t start, bytes;
  int ours;
} overlap_row;

static void overlap_is_seen(void **state) {
  const overlap_row *row = *state;
  nx_range images[] = {{0x1000, 0x2000}, {0x4000, 0x5000}};
  const nx_ours ours = {.images = images, .count = 2, .stack = {0x8000, 0x9000}};
  assert_int_equal(nx_ours_overlap(&ours, row->start, row->bytes) != NULL, row->ours);
}

static const overlap_row overlap_rows[] = {
    {"overlap: the byte before an image", 0xFFF, 1, 0},
    {"overlap: the first byte of an image", 0x1000, 1, 1},
    {"overlap: the last byte of an image", 0x1FFF, 1, 1},
    {"overlap: the byte behind an image", 0x2000, 1, 0},
    {"overlap: up to an image", 0x800, 0x800, 0},
    {"overlap: into an image", 0x800, 0x801, 1},
    {"overlap: the whole gap between two images", 0x2000, 0x2000, 0},
    {"overlap: over an image", 0x3000, 0x4000, 1},
    {"overlap: the stack", 0x8FFF, 1, 1},
    {"overlap: behind the stack, to the end of the address space", 0x9000, UINT64_MAX, 0},
    {"overlap: a size that wraps", 0x3000, UINT64_MAX, 1},
};

/* What is asked about is the process's own: code and data of this test, of libc, and this very frame. */
static void own_memory_is_ours(void **state) {
  static int data;
  int local = 0;
  void *heap = malloc(1);
  nx_ours ours;
  (void)state;
  nx_ours_begin(&ours);
  assert_non_null(nx_ours_overlap(&ours, (uintptr_t)&data, sizeof data));
  assert_non_null(nx_ours_overlap(&ours, (uintptr_t)stdout, 1));
  assert_non_null(nx_ours_overlap(&ours, (uintptr_t)&local, sizeof local));
  assert_null(nx_ours_overlap(&ours, (uintptr_t)heap, 1));
  nx_ours_free(&ours);
  free(heap);
}

static void own_file_is_mapped(void **state) {
  (void)state;
  nx_mapped_file self = nx_mapped_as("/proc/self/exe"), missing = nx_mapped_as("/nonexistent");
  nx_mapped_file source = nx_mapped_as(__FILE__);
  assert_int_equal(nx_is_mapped(&self), 1);
  assert_int_equal(nx_is_mapped(&source), 0);
  assert_int_equal(nx_is_mapped(&missing), -1);
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

typedef struct text_row {
  const char *name;
  const char *bytes;
  const char *shown;
} text_row;

static void text_is_shown(void **state) {
  const text_row *row = *state;
  char *shown = nx_show_text(row->bytes);
  assert_string_equal(shown, row->shown);
  free(shown);
}

static const text_row text_rows[] = {
    {"plain text", "libm.so.6", "libm.so.6"},
    {"empty text", "", ""},
    {"escape sequence", "a\x1b[31mb", "a\\x1b[31mb"},
    {"line break", "a\nb", "a\\x0ab"},
    {"byte that is no UTF-8", "a\xff", "a\xEF\xBF\xBD"},
};

static void text_is_printable_only_as_shown(void **state) {
  const text_row *row = *state;
  assert_int_equal(nx_is_printable(row->bytes), !strcmp(row->bytes, row->shown));
  assert_true(nx_is_printable(row->shown));
}

static const text_row printable_rows[] = {
    {"printable: plain text", "libm.so.6", "libm.so.6"},
    {"printable: umlauts and beyond", "\xC3\xA4 \xF0\x9F\x98\x80", "\xC3\xA4 \xF0\x9F\x98\x80"},
    {"printable: not an escape sequence", "a\x1b[31mb", "a\\x1b[31mb"},
    {"printable: not a C1 control", "a\xC2\x9b", "a?"},
    {"printable: not DEL", "a\x7f", "a?"},
    {"printable: not a lone lead byte at the end", "a\xC3", "a?"},
};

static void long_text_is_cut_and_marked(void **state) {
  (void)state;
  char text[5000];
  memset(text, 'x', sizeof text);
  char *shown = nx_show(text, sizeof text);
  assert_int_equal(strlen(shown), 4096 + 3);
  assert_string_equal(shown + 4096, "...");
  free(shown);
}

static void bytes_as_hexadecimal(void **state) {
  (void)state;
  char *shown = nx_show_hex("\x00\x7f\xff", 3);
  assert_string_equal(shown, "007fff");
  free(shown);
}

/* ---- Counter line ------------------------------------------------------------------------------------------------ */

/* What `progress` writes to stderr for one tick and its end. */
static size_t written_by(nx_progress *progress, char *out, size_t room) {
  int ends[2], kept = dup(STDERR_FILENO);
  assert_int_equal(pipe(ends), 0);
  dup2(ends[1], STDERR_FILENO);
  nx_progress_tick(progress, 5);
  nx_progress_end(progress);
  dup2(kept, STDERR_FILENO);
  close(kept);
  close(ends[1]);
  ssize_t got = read(ends[0], out, room - 1);
  close(ends[0]);
  out[got > 0 ? got : 0] = '\0';
  return got > 0 ? (size_t)got : 0;
}

static void counter_shows_when_due(void **state) {
  (void)state;
  char text[256];
  nx_progress progress;
  nx_progress_begin(&progress, "released", 9);
  progress.on_terminal = 1;
  progress.next_ms = 0;
  assert_true(written_by(&progress, text, sizeof text) > 0);
  assert_non_null(strstr(text, "released 5 of 9"));
}

static void counter_is_silent_at_first(void **state) {
  (void)state;
  char text[256];
  nx_progress progress;
  nx_progress_begin(&progress, "released", 9);
  progress.on_terminal = 1;
  assert_int_equal(written_by(&progress, text, sizeof text), 0);
}

static void counter_is_silent_without_a_terminal(void **state) {
  (void)state;
  char text[256];
  nx_progress progress;
  nx_progress_begin(&progress, "released", 9);
  progress.on_terminal = 0;
  progress.next_ms = 0;
  assert_int_equal(written_by(&progress, text, sizeof text), 0);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(memory_rows), touch_answers);
  nx_suite_add(&suite, "a change is found where it is", change_is_found_where_it_is, NULL);
  nx_suite_add(&suite, "two blocks in one place show", two_blocks_in_one_place_show, NULL);
  nx_suite_add(&suite, "a fault elsewhere still kills", fault_elsewhere_still_kills, NULL);
  nx_suite_add(&suite, "a fault elsewhere is the earlier handler's", fault_elsewhere_is_the_earlier_handlers, NULL);
  nx_suite_add(&suite, "signal handlers are put back", handlers_are_put_back, NULL);
  nx_suite_rows(&suite, ROWS(overlap_rows), overlap_is_seen);
  nx_suite_add(&suite, "the process's own memory is ours, its heap is not", own_memory_is_ours, NULL);
  nx_suite_add(&suite, "a file is mapped or not, or not known", own_file_is_mapped, NULL);
  nx_suite_rows(&suite, ROWS(text_rows), text_is_shown);
  nx_suite_rows(&suite, ROWS(printable_rows), text_is_printable_only_as_shown);
  nx_suite_add(&suite, "long text is cut and marked", long_text_is_cut_and_marked, NULL);
  nx_suite_add(&suite, "bytes as hexadecimal", bytes_as_hexadecimal, NULL);
  nx_suite_add(&suite, "the counter line shows when it is due", counter_shows_when_due, NULL);
  nx_suite_add(&suite, "the counter line is silent at first", counter_is_silent_at_first, NULL);
  nx_suite_add(&suite, "the counter line is silent without a terminal", counter_is_silent_without_a_terminal, NULL);
  return nx_suite_run(&suite, "cli parts");
}
