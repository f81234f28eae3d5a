/*
 * runtime.c: the run-time of translated contracts, for libFuzzer and AddressSanitizer: E-ACSL's own keeps a shadow
 * memory, which AddressSanitizer's excludes. Only what contracts of flat C need.
 * Attackers: none beyond the inputs of the target.
 * Promise: each clause that is false ends the process with its text; validity is what AddressSanitizer knows.
 */
#include "runtime.h"

#include <sanitizer/asan_interface.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names and layout are the translator's (e_acsl_assert_data.h of Frama-C 25); the values of terms are not asked for. */
typedef struct e_acsl_assert_data {
  int blocking;
  const char *kind;
  const char *name;
  const char *pred_txt;
  const char *file;
  const char *fct;
  int line;
  void *values;
} e_acsl_assert_data;
typedef struct e_acsl_contract e_acsl_contract;
void __e_acsl_assert(int holds, e_acsl_assert_data *data);
int __e_acsl_valid_read(void *at, size_t bytes, void *base, void *base_address);
int __e_acsl_valid(void *at, size_t bytes, void *base, void *base_address);
int __e_acsl_separated(size_t count, ...);
e_acsl_contract *__e_acsl_contract_init(size_t count);
void __e_acsl_contract_clean(e_acsl_contract *contract);
void __e_acsl_contract_set_behavior_assumes(e_acsl_contract *contract, size_t i, int assumed);
int __e_acsl_contract_get_behavior_assumes(const e_acsl_contract *contract, size_t i);
int __e_acsl_contract_partial_count_all_behaviors(const e_acsl_contract *contract);
int __e_acsl_contract_partial_count_behaviors(const e_acsl_contract *contract, size_t count, ...);

/* ---- Violations ----------------------------------------------------------------------------------------------- */

static const char *entered = "";

void contract_enter(const char *function) { entered = function; }

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

/*
 * What the translator adds to \separated, that both blocks are whole, is no clause of ours: a table may end early or
 * not be there at all, and comparing addresses needs neither.
 */
static int is_ours(const e_acsl_assert_data *data) {
  return data->name == NULL || strcmp(data->name, "separated_guard") != 0;
}

/* That behaviours are complete and disjoint is checked as a precondition without a name. */
static const char *clause_of(const e_acsl_assert_data *data) {
  if (data->name != NULL) return data->name;
  if (strcmp(data->pred_txt, "all behaviors complete") == 0) return "complete";
  if (strcmp(data->pred_txt, "all behaviors disjoint") == 0) return "disjoint";
  return data->kind;
}

void __e_acsl_assert(int holds, e_acsl_assert_data *data) {
  if (holds || !is_ours(data)) return;
  const contract_violation v = {data->fct, clause_of(data), data->kind, data->pred_txt};
  if (data->name != NULL && strcmp(v.kind, "Precondition") == 0 && strcmp(v.function, entered) == 0) blame_driver(&v);
  contract_violated(&v);
}

/* ---- Memory --------------------------------------------------------------------------------------------------- */

static int reachable(void *at, size_t bytes) {
  return bytes == 0 || (at != NULL && __asan_region_is_poisoned(at, bytes) == NULL);
}

int __e_acsl_valid_read(void *at, size_t bytes, void *base, void *base_address) {
  (void)base;
  (void)base_address;
  return reachable(at, bytes);
}

int __e_acsl_valid(void *at, size_t bytes, void *base, void *base_address) {
  (void)base;
  (void)base_address;
  return reachable(at, bytes);
}

enum { BLOCKS_MAX = 8 };

/* `count` pairs of address and size. */
int __e_acsl_separated(size_t count, ...) {
  uintptr_t low[BLOCKS_MAX];
  uintptr_t high[BLOCKS_MAX];
  va_list blocks;
  if (count > BLOCKS_MAX) abort();
  va_start(blocks, count);
  for (size_t i = 0; i < count; i++) {
    low[i] = (uintptr_t)va_arg(blocks, void *);
    high[i] = low[i] + va_arg(blocks, size_t);
  }
  va_end(blocks);
  for (size_t i = 0; i < count; i++)
    for (size_t j = i + 1; j < count; j++)
      if (low[i] < high[j] && low[j] < high[i]) return 0;
  return 1;
}

/* ---- Behaviours: which of a contract's are assumed in this call ------------------------------------------------ */

enum { BEHAVIORS_MAX = 32, CALLS_MAX = 64 };

struct e_acsl_contract {
  size_t count;
  int assumed[BEHAVIORS_MAX];
};

/* Calls nest: the last begun ends first. */
static e_acsl_contract calls[CALLS_MAX];
static size_t depth;

e_acsl_contract *__e_acsl_contract_init(size_t count) {
  if (count > BEHAVIORS_MAX || depth == CALLS_MAX) abort();
  e_acsl_contract *contract = &calls[depth++];
  memset(contract, 0, sizeof *contract);
  contract->count = count;
  return contract;
}

void __e_acsl_contract_clean(e_acsl_contract *contract) {
  if (contract != &calls[depth - 1]) abort();
  depth--;
}

void __e_acsl_contract_set_behavior_assumes(e_acsl_contract *contract, size_t i, int assumed) {
  contract->assumed[i] = assumed != 0;
}

int __e_acsl_contract_get_behavior_assumes(const e_acsl_contract *contract, size_t i) { return contract->assumed[i]; }

/* 0, 1, or 2 for more. */
int __e_acsl_contract_partial_count_all_behaviors(const e_acsl_contract *contract) {
  int assumed = 0;
  for (size_t i = 0; i < contract->count && assumed < 2; i++) assumed += contract->assumed[i];
  return assumed;
}

int __e_acsl_contract_partial_count_behaviors(const e_acsl_contract *contract, size_t count, ...) {
  va_list which;
  int assumed = 0;
  va_start(which, count);
  for (size_t i = 0; i < count; i++) assumed += contract->assumed[va_arg(which, int)];
  va_end(which);
  return assumed < 2 ? assumed : 2;
}
