/*
 * usage.c: /proc/self of a child.
 * Attackers: a plugin that leaks.
 * Promise: what is not known counts as 0 and never as growth.
 */
#include "conform/usage.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conform/trial.h"

static uint64_t entries_of(const char *folder) {
  uint64_t count = 0;
  DIR *dir = opendir(folder);
  if (!dir) return 0;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) count += entry->d_name[0] != '.';
  closedir(dir);
  return count;
}

static uint64_t lines_of(const char *path) {
  uint64_t count = 0;
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  for (int c; (c = getc(file)) != EOF;) count += c == '\n';
  fclose(file);
  return count;
}

/* Counted page by page; the counts in statm and status lag behind by whole batches. */
static uint64_t anonymous_bytes(void) {
  unsigned long long kilobytes = 0;
  char line[256];
  FILE *file = fopen("/proc/self/smaps_rollup", "re");
  if (!file) return 0;
  while (fgets(line, sizeof line, file) && sscanf(line, "Anonymous: %llu kB", &kilobytes) != 1) continue;
  fclose(file);
  return kilobytes * 1024;
}

nx_usage nx_usage_now(void) {
  nx_usage now = {0};
  now.mappings = lines_of("/proc/self/maps");
  now.descriptors = entries_of("/proc/self/fd");
  now.threads = entries_of("/proc/self/task");
  now.anonymous_bytes = anonymous_bytes();
  return now;
}

uint32_t nx_cycles(const nx_trial *trial, uint32_t divisor) {
  if (trial->cycles == 0) nx_does_not_apply("no cycles are wanted");
  return trial->cycles / divisor + 1;
}

/* Below one of each per 16 cycles, and 8 bytes of memory per cycle, nothing grows with the cycles. */
enum { CYCLES_PER_OBJECT = 16, BYTES_PER_CYCLE = 8, SLACK_OBJECTS = 4, SLACK_BYTES = 64 * 1024 };

static uint64_t growth(uint64_t before, uint64_t after) { return after > before ? after - before : 0; }

void nx_usage_judge(const nx_usage *before, uint64_t cycles, const char *cycle) {
  nx_usage now = nx_usage_now();
  uint64_t objects = SLACK_OBJECTS + cycles / CYCLES_PER_OBJECT, bytes = SLACK_BYTES + cycles * BYTES_PER_CYCLE;
  uint64_t maps = growth(before->mappings, now.mappings), fds = growth(before->descriptors, now.descriptors);
  uint64_t threads = growth(before->threads, now.threads);
  uint64_t memory = growth(before->anonymous_bytes, now.anonymous_bytes);
  NX_EXPECT(maps <= objects, "%" PRIu64 " more mappings after %" PRIu64 " times: %s", maps, cycles, cycle);
  NX_EXPECT(fds <= objects, "%" PRIu64 " more descriptors after %" PRIu64 " times: %s", fds, cycles, cycle);
  NX_EXPECT(threads <= objects, "%" PRIu64 " more threads after %" PRIu64 " times: %s", threads, cycles, cycle);
  NX_EXPECT(memory <= bytes, "%" PRIu64 " more bytes of memory after %" PRIu64 " times: %s", memory, cycles, cycle);
  nx_seen("%" PRIu64 " times: %s; mappings +%" PRIu64 ", descriptors +%" PRIu64 ", bytes of memory +%" PRIu64, cycles,
          cycle, maps, fds, memory);
}

int nx_is_executable(const void *address) {
  uint64_t start, end;
  char mode[8];
  int found = 0;
  FILE *maps = fopen("/proc/self/maps", "re");
  char line[4352];
  if (!maps) return 1;
  while (!found && fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end, mode) != 3) continue;
    found = (uint64_t)(uintptr_t)address >= start && (uint64_t)(uintptr_t)address < end && strchr(mode, 'x') != NULL;
  }
  fclose(maps);
  return found;
}

uint64_t nx_virtual_bytes(void) {
  unsigned long long pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file) return 0;
  if (fscanf(file, "%llu", &pages) != 1) pages = 0;
  fclose(file);
  return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
