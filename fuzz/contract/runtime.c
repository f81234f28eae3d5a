/*
 * runtime.c: the run-time of translated contracts, for libFuzzer and AddressSanitizer: E-ACSL's own keeps a shadow
 * memory, which AddressSanitizer's excludes. Only what contracts of flat C need.
 * Attackers: none beyond the inputs of the target.
 * Promise: each clause that is false ends the process with its text; validity is what AddressSanitizer knows.
 */
#include <sanitizer/asan_interface.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "translated.h"

int contract_fault;

/* ---- Which calls are checked, of those that would cost too much ------------------------------------------------- */

enum { ALWAYS_UP_TO = 8, ODDS = 2 };

/* `state` is made of the input when the first is drawn. */
typedef struct draws {
  const uint8_t *input;
  size_t bytes;
  uint64_t state;
} draws;
static draws drawn;

static uint64_t mixed(uint64_t number) {
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9u;
  number = (number ^ (number >> 27)) * 0x94D049BB133111EBu;
  return number ^ (number >> 31);
}

static uint64_t draw(void) {
  if (drawn.state == 0)
    for (size_t i = 0; i < drawn.bytes; i++) drawn.state = (drawn.state ^ drawn.input[i]) * 0x100000001B3u;
  drawn.state += 0x9E3779B97F4A7C15u;
  return mixed(drawn.state);
}

int contract_leaves_out(uint64_t size) { return size > ALWAYS_UP_TO && draw() % size >= ODDS; }

/* ---- Violations ----------------------------------------------------------------------------------------------- */

static const char *entered = "";

void contract_enter(const char *function, const uint8_t *input, size_t bytes) {
  entered = function;
  drawn = (draws){input, bytes, 0};
  contract_numbers_forget();
}

static void say_and_abort(const contract_violation *v) {
  fprintf(stderr, "ORACLE contract %s: %s %s: %s\n", v->function, v->kind, v->clause, v->text);
}

static contract_reporter report = say_and_abort;

void contract_set_reporter(contract_reporter reporter) { report = reporter; }

void contract_violated(const contract_violation *violation) {
  report(violation);
  abort();
}

static void blame_driver(const contract_violation *v) {
  fprintf(stderr, "DRIVER called %s against %s: %s\n", v->function, v->clause, v->text);
  _Exit(3);
}

void contract_false(const contract_violation *v) {
  if (strcmp(v->kind, "Precondition") == 0 && strcmp(v->function, entered) == 0) blame_driver(v);
  contract_violated(v);
}

/* ---- Memory --------------------------------------------------------------------------------------------------- */

#ifdef __x86_64__
static void compare_shadow(void) {
  size_t scale = 0;
  size_t offset = 0;
  __asan_get_shadow_mapping(&scale, &offset);
  if (scale == 3 && offset == CONTRACT_SHADOW) return;
  fprintf(stderr, "DRIVER memory: AddressSanitizer's shadow is not where translated.h has it\n");
  _Exit(3);
}

/* As AddressSanitizer's own answer, for blocks of the usual size in a fifth of the time. 0 is no answer. */
static int is_open(uintptr_t first, size_t bytes) {
  const uintptr_t last = first + bytes - 1u;
  if (bytes > 4096u || !contract_is_upper(first)) return 0;
  for (uintptr_t eight = first >> 3; eight < last >> 3; eight++)
    if (((const int8_t *)CONTRACT_SHADOW)[eight] != 0) return 0;
  return contract_is_open_up_to(last);
}
#else
static void compare_shadow(void) {}
static int is_open(uintptr_t first, size_t bytes) { return 0 * (first == 0) * (bytes == 0); }
#endif

__attribute__((constructor)) static void start(void) {
  compare_shadow();
  contract_numbers_start();
}

int contract_reachable(const void *at, size_t bytes) {
  if (bytes == 0) return 1;
  if (is_open((uintptr_t)at, bytes)) return 1;
  return at != NULL && __asan_region_is_poisoned((void *)(uintptr_t)at, bytes) == NULL;
}

/* ---- Behaviours ----------------------------------------------------------------------------------------------- */

int __e_acsl_contract_partial_count_behaviors(const struct __e_acsl_contract_t *contract, size_t count, ...) {
  va_list which;
  int assumed = 0;
  va_start(which, count);
  for (size_t i = 0; i < count; i++)
    assumed += __e_acsl_contract_get_behavior_assumes(contract, (size_t)va_arg(which, int));
  va_end(which);
  return assumed < 2 ? assumed : 2;
}
