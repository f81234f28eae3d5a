/*
 * report.c: what tests ask, and what is said when the process ends: objects that were not given back, faults that never fired.
 *
 * Attackers: none.
 * Promise: nothing that the driver still holds goes unsaid, unless its device was lost or the driver itself had ended.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "state.h"

FC_PUBLIC fakecuda_count_fn fakecuda_count;
FC_PUBLIC fakecuda_schedule_fn fakecuda_schedule;
FC_PUBLIC fakecuda_calls_fn fakecuda_calls;
FC_PUBLIC fakecuda_log_fn fakecuda_log;
FC_PUBLIC fakecuda_clear_log_fn fakecuda_clear_log;
FC_PUBLIC fakecuda_name_fn fakecuda_name;

void fakecuda_count(fakecuda_counts *out) {
  pthread_mutex_lock(&fc.lock);
  *out = fc.counts;
  out->context_depth = fc_depth();
  pthread_mutex_unlock(&fc.lock);
}

int fakecuda_schedule(const char *text) {
  pthread_mutex_lock(&fc.lock);
  int bad = fc_schedule(text);
  pthread_mutex_unlock(&fc.lock);
  return bad;
}

uint64_t fakecuda_calls(const char *name) {
  pthread_mutex_lock(&fc.lock);
  int id = name == NULL ? 0 : fc_id_of(name, strlen(name));
  uint64_t count = name == NULL ? fc.log_count - fc.log_from : id < 0 ? 0 : fc.calls[id];
  pthread_mutex_unlock(&fc.lock);
  return count;
}

int fakecuda_log(uint64_t index, fakecuda_entry *out) {
  pthread_mutex_lock(&fc.lock);
  uint64_t at = fc.log_from + index;
  int there = at >= fc.log_from && at < fc.log_count && fc.log_count - at <= FC_LOG;
  if (there) *out = fc.log[at % FC_LOG];
  pthread_mutex_unlock(&fc.lock);
  return there;
}

void fakecuda_clear_log(void) {
  pthread_mutex_lock(&fc.lock);
  fc.log_from = fc.log_count;
  memset(fc.calls, 0, sizeof fc.calls);
  pthread_mutex_unlock(&fc.lock);
}

const char *fakecuda_name(uint32_t index) { return index < FC_IDS ? fc_names[index] : NULL; }

/* ---- The end ----------------------------------------------------------------------------------------------------- */

typedef struct fc_line {
  const char *name;
  uint64_t count;
} fc_line;

static void write_report(const fc_line *lines, size_t count) {
  FILE *file = fc.set.report_path[0] == '\0' ? NULL : fopen(fc.set.report_path, "w");
  if (file == NULL) return;
  fprintf(file, "{");
  for (size_t i = 0; i < count; i++) {
    fprintf(file, "%s\"%s\": %" PRIu64, i ? ", " : "", lines[i].name, lines[i].count);
  }
  fprintf(file, "}\n");
  fclose(file);
}

static int say_faults(void) {
  int silent = 0;
  for (uint32_t i = 0; i < fc.fault_count; i++) {
    if (fc.faults[i].fired) continue;
    silent++;
    fprintf(stderr, "fakecuda: a scheduled fault of %s never fired: %" PRIu64 " more calls were needed\n",
            fc_names[fc.faults[i].call], fc.faults[i].left);
  }
  return silent;
}

static int say_objects(const fc_line *lines, size_t count) {
  int left = 0;
  if (fc.counts.ended || fc.counts.lost_devices) return 0;
  for (size_t i = 0; i < count; i++) {
    if (lines[i].count == 0) continue;
    left++;
    fprintf(stderr, "fakecuda: not given back: %" PRIu64 " %s\n", lines[i].count, lines[i].name);
  }
  return left;
}

static void __attribute__((destructor)) end(void) {
  if (fc.pid != 0 && fc.pid != (int)getpid()) return;
  const fc_line lines[] = {{"reservations", fc.counts.reservations},
                           {"handles", fc.counts.handles},
                           {"mappings", fc.counts.mappings},
                           {"events", fc.counts.events},
                           {"streams", fc.counts.streams},
                           {"retained contexts", fc.counts.retained},
                           {"rule refusals", fc.counts.rule_refusals},
                           {"capture breaks", fc.counts.capture_breaks},
                           {"calls after loss", fc.counts.calls_after_loss},
                           {"calls after end", fc.counts.calls_after_end},
                           {"faults pending", fc.counts.faults_pending},
                           {"faults fired", fc.counts.faults_fired},
                           {"lost devices", fc.counts.lost_devices},
                           {"ended", fc.counts.ended}};
  if (fc.log_file != NULL) fclose(fc.log_file);
  write_report(lines, sizeof lines / sizeof lines[0]);
  int wrong = say_objects(lines, 6) + say_faults();
  if (wrong > 0 && fc.set.leaks_exit) _exit(97);
}
