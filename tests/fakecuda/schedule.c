/*
 * schedule.c: reads the schedule that fakecuda.h describes.
 *
 * Attackers: none; a typing error in a test must not pass as a schedule.
 * Promise: an item that is not understood is named by its number; those before it are in force.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

void fc_defaults(fc_settings *set) {
  memset(set, 0, sizeof *set);
  set->devices = 1;
  set->memory = 32ull << 30;
  set->granularity_minimum = set->granularity_recommended = 2ull << 20;
  set->reserve_max = UINT64_MAX;
  set->version = 12040;
}

/* A number that ends at one of `ends` or with the text; 0 where there is none. */
static int number(const char **text, const char *ends, uint64_t *out) {
  if (**text < '0' || **text > '9') return 0;
  char *end;
  errno = 0;
  *out = strtoull(*text, &end, 0);
  if (errno != 0 || (*end != '\0' && strchr(ends, *end) == NULL)) return 0;
  *text = end;
  return 1;
}

/* CALL:N[+]:CODE[:sticky] */
static int add_fault(const char *text) {
  const char *colon = strchr(text, ':');
  if (colon == NULL || fc.fault_count == FC_FAULTS) return 0;
  int id = fc_id_of(text, (uint64_t)(colon - text));
  fc_fault fault = {.call = (fc_id)id};
  uint64_t code;
  text = colon + 1;
  if (id < 0 || !number(&text, ":+", &fault.left) || fault.left == 0) return 0;
  fault.repeats = *text == '+';
  text += fault.repeats;
  if (*text++ != ':' || !number(&text, ":", &code) || code == 0) return 0;
  fault.code = (uint32_t)code;
  fault.sticky = strcmp(text, ":sticky") == 0;
  if (*text != '\0' && !fault.sticky) return 0;
  fc.faults[fc.fault_count++] = fault;
  fc.counts.faults_pending++;
  return 1;
}

static int set_missing(const char *name) {
  int id = fc_id_of(name, strlen(name));
  if (id >= 0) fc.set.missing[id] = 1;
  return id >= 0;
}

static int set_granularity(const char *text) {
  uint64_t least, best;
  if (!number(&text, "/", &least)) return 0;
  best = least;
  if (*text == '/') {
    text++;
    if (!number(&text, "", &best)) return 0;
  }
  fc.set.granularity_minimum = least;
  fc.set.granularity_recommended = best;
  return *text == '\0';
}

static int set_path(char *to, const char *path) {
  if (strlen(path) >= 256) return 0;
  strcpy(to, path);
  return 1;
}

static int set_number(const char *text, uint64_t *to, uint64_t most) {
  uint64_t value;
  if (!number(&text, "", &value) || value > most) return 0;
  *to = value;
  return 1;
}

static int set_int(const char *text, int *to, uint64_t most) {
  uint64_t value;
  if (!set_number(text, &value, most)) return 0;
  *to = (int)value;
  return 1;
}

static int take_value(const char *key, const char *value) {
  if (strcmp(key, "fail") == 0) return add_fault(value);
  if (strcmp(key, "devices") == 0) return set_int(value, &fc.set.devices, FC_DEVICES);
  if (strcmp(key, "memory") == 0) return set_number(value, &fc.set.memory, UINT64_MAX);
  if (strcmp(key, "granularity") == 0) return set_granularity(value);
  if (strcmp(key, "reserve-max") == 0) return set_number(value, &fc.set.reserve_max, UINT64_MAX);
  if (strcmp(key, "version") == 0) return set_int(value, &fc.set.version, 1000000);
  if (strcmp(key, "missing") == 0) return set_missing(value);
  if (strcmp(key, "log") == 0) return set_path(fc.set.log_path, value);
  if (strcmp(key, "report") == 0) return set_path(fc.set.report_path, value);
  return 0;
}

/* Settings go back to what they were at first; objects, counts and paths stay. */
static void reset(void) {
  fc_settings kept = fc.set;
  fc_defaults(&fc.set);
  memcpy(fc.set.log_path, kept.log_path, sizeof kept.log_path);
  memcpy(fc.set.report_path, kept.report_path, sizeof kept.report_path);
  fc.set.leaks_exit = kept.leaks_exit;
  fc.fault_count = 0;
  fc.counts.faults_pending = 0;
}

static int take_word(const char *word) {
  static const struct {
    const char *word;
    int *flag;
  } flags[] = {{"no-vmm", &fc.set.no_vmm},
               {"rdma", &fc.set.rdma},
               {"rdma-refused", &fc.set.rdma_refused},
               {"no-read-only", &fc.set.no_read_only},
               {"delay-events", &fc.set.delay_events},
               {"capture", &fc.set.capture},
               {"leaks=exit", &fc.set.leaks_exit}};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    if (strcmp(word, flags[i].word) != 0) continue;
    *flags[i].flag = 1;
    if (flags[i].flag == &fc.set.rdma_refused) fc.set.rdma = 1;
    return 1;
  }
  if (strcmp(word, "no-capture") == 0)
    fc.set.capture = 0;
  else if (strcmp(word, "no-delay") == 0)
    fc.set.delay_events = 0;
  else if (strcmp(word, "end") == 0)
    fc.counts.ended = 1;
  else if (strcmp(word, "reset") == 0)
    reset();
  else
    return 0;
  return 1;
}

static int take_item(char *item) {
  if (*item == '\0' || take_word(item)) return 1;
  char *equals = strchr(item, '=');
  if (equals == NULL) return 0;
  *equals = '\0';
  return take_value(item, equals + 1);
}

int fc_schedule(const char *text) {
  char copy[4096];
  if (strlen(text) >= sizeof copy) return 1;
  strcpy(copy, text);
  int at = 0;
  char *rest = copy;
  for (char *item = strsep(&rest, ";"); item != NULL; item = strsep(&rest, ";")) {
    at++;
    if (!take_item(item)) return at;
  }
  return 0;
}
