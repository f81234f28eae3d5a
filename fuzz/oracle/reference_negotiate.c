/*
 * reference_negotiate.c: both halves as ordered lists of rules.
 * Attackers: none; it only ever sees numbers the harness owns.
 * Promise: every rule is evaluated, the first broken one answers; order and numbers are those of the headers' prose.
 */
#include "reference_negotiate.h"

#include <stddef.h>
#include <string.h>

typedef struct ref_rule {
  int broken;
  nxmem_verdict verdict;
} ref_rule;

static ref_rule rule(int broken, nxmem_reason reason, uint32_t field, uint64_t found, uint64_t needed) {
  const ref_rule made = {broken, {(uint32_t)reason, field, found, needed}};
  return made;
}

static nxmem_verdict first_broken(const ref_rule *rules, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (rules[i].broken) return rules[i].verdict;
  const nxmem_verdict none = {NXMEM_REASON_NONE, 0, 0, 0};
  return none;
}

static int within(uint64_t value, uint64_t low, uint64_t high) { return low <= value && value <= high; }

/* Which bound a value breaks; the low one first, as a range may be inverted. */
static uint64_t broken_bound(uint64_t value, uint64_t low, uint64_t high) { return value < low ? low : high; }

/* ALLOCATOR, VIRTUAL_BACKING, SHARED_MAPPING, DEFERRED_RELEASE from the start; STRUCTURED_RELEASE from minor 1. */
static uint64_t defined_at(uint32_t minor) { return minor >= 1 ? 0x1Fu : 0x0Fu; }

/* The highest number that both ranges hold is one of their ends; 0 and *none where no end is in both. */
static uint32_t highest_common(uint32_t a_min, uint32_t a_max, uint32_t b_min, uint32_t b_max, int *none) {
  const uint32_t ends[] = {a_min, a_max, b_min, b_max};
  uint32_t best = 0;
  *none = 1;
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    if (!within(ends[i], a_min, a_max) || !within(ends[i], b_min, b_max) || ends[i] < best) continue;
    best = ends[i];
    *none = 0;
  }
  return best;
}

static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t least(uint64_t a, uint64_t b) { return a > b ? b : a; }

nxmem_verdict ref_decide(const ref_side *host, const ref_side *plugin, ref_answer *answer) {
  int no_major;
  const uint32_t major =
      highest_common(host->major_min, host->major_max, plugin->major_min, plugin->major_max, &no_major);
  const uint64_t minor = least(host->minor_max, plugin->minor_max);
  const uint64_t floor = most(host->minor_min, plugin->minor_min);
  const uint64_t flags = plugin->flags & host->flags & defined_at((uint32_t)minor);
  const ref_rule rules[] = {
      rule(host->major_min > host->major_max, NXMEM_REASON_INVERTED_RANGE, 8, host->major_min, host->major_max),
      rule(host->minor_min > host->minor_max, NXMEM_REASON_INVERTED_RANGE, 16, host->minor_min, host->minor_max),
      rule(plugin->major_min > plugin->major_max, NXMEM_REASON_INVERTED_RANGE, 0, plugin->major_min, plugin->major_max),
      rule(plugin->minor_min > plugin->minor_max, NXMEM_REASON_INVERTED_RANGE, 8, plugin->minor_min, plugin->minor_max),
      rule(no_major, NXMEM_REASON_NO_COMMON_MAJOR, 8, least(host->major_max, plugin->major_max),
           most(host->major_min, plugin->major_min)),
      rule(minor < floor, NXMEM_REASON_NO_COMMON_MINOR, 16, minor, floor),
      rule((flags & 1u) == 0, NXMEM_REASON_NO_ALLOCATOR, 32, flags, 1),
  };
  const nxmem_verdict verdict = first_broken(rules, sizeof rules / sizeof rules[0]);
  const int agreed = verdict.reason == NXMEM_REASON_NONE;
  answer->struct_size = REF_ANSWER_BYTES;
  answer->agreed_major = agreed ? major : 0;
  answer->agreed_minor = agreed ? (uint32_t)minor : 0;
  answer->plugin = *plugin;
  answer->plugin.flags = agreed ? flags : 0;
  return verdict;
}

nxmem_verdict ref_judge(uint32_t status_code, const ref_answer *answer, const ref_side *host) {
  const ref_side *plugin = &answer->plugin;
  const uint32_t major = answer->agreed_major;
  const uint32_t minor = answer->agreed_minor;
  const uint64_t flags = plugin->flags;
  const ref_rule rules[] = {
      rule(status_code != 0, NXMEM_REASON_PLUGIN_REFUSED, 0, status_code, 0),
      rule(answer->struct_size < REF_ANSWER_BYTES, NXMEM_REASON_SHORT_RESPONSE, 0, answer->struct_size,
           REF_ANSWER_BYTES),
      rule(plugin->major_min > plugin->major_max, NXMEM_REASON_INVERTED_RANGE, 16, plugin->major_min,
           plugin->major_max),
      rule(plugin->minor_min > plugin->minor_max, NXMEM_REASON_INVERTED_RANGE, 24, plugin->minor_min,
           plugin->minor_max),
      rule(!within(major, host->major_min, host->major_max), NXMEM_REASON_MAJOR_OUT_OF_RANGE, 4, major,
           broken_bound(major, host->major_min, host->major_max)),
      rule(!within(minor, host->minor_min, host->minor_max), NXMEM_REASON_MINOR_OUT_OF_RANGE, 8, minor,
           broken_bound(minor, host->minor_min, host->minor_max)),
      rule(!within(major, plugin->major_min, plugin->major_max), NXMEM_REASON_MAJOR_OUT_OF_RANGE, 4, major,
           broken_bound(major, plugin->major_min, plugin->major_max)),
      rule(!within(minor, plugin->minor_min, plugin->minor_max), NXMEM_REASON_MINOR_OUT_OF_RANGE, 8, minor,
           broken_bound(minor, plugin->minor_min, plugin->minor_max)),
      rule(flags > 0x1F, NXMEM_REASON_UNKNOWN_CAPABILITY, 32, flags, 0x1F),
      rule((flags | host->flags) != host->flags, NXMEM_REASON_CAPS_BEYOND_OFFER, 32, flags, host->flags),
      rule(flags % 2 == 0, NXMEM_REASON_NO_ALLOCATOR, 32, flags, 1),
      rule((flags | defined_at(minor)) != defined_at(minor), NXMEM_REASON_CAPS_BEYOND_LEVEL, 32, flags,
           defined_at(minor)),
  };
  return first_broken(rules, sizeof rules / sizeof rules[0]);
}

static void put(uint8_t *bytes, uint32_t offset, uint32_t width, uint64_t value) {
  for (uint32_t i = 0; i < width; i++) bytes[offset + i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *bytes, uint32_t offset, uint32_t width) {
  uint64_t value = 0;
  for (uint32_t i = 0; i < width; i++) value |= (uint64_t)bytes[offset + i] << 8 * i;
  return value;
}

void ref_answer_bytes(const ref_answer *answer, uint8_t bytes[REF_ANSWER_BYTES]) {
  put(bytes, 0, 4, answer->struct_size);
  put(bytes, 4, 4, answer->agreed_major);
  put(bytes, 8, 4, answer->agreed_minor);
  put(bytes, 12, 4, 0);
  put(bytes, 16, 4, answer->plugin.major_min);
  put(bytes, 20, 4, answer->plugin.major_max);
  put(bytes, 24, 4, answer->plugin.minor_min);
  put(bytes, 28, 4, answer->plugin.minor_max);
  put(bytes, 32, 8, answer->plugin.flags);
}

void ref_side_from(const uint8_t bytes[24], ref_side *side) {
  side->major_min = (uint32_t)get(bytes, 0, 4);
  side->major_max = (uint32_t)get(bytes, 4, 4);
  side->minor_min = (uint32_t)get(bytes, 8, 4);
  side->minor_max = (uint32_t)get(bytes, 12, 4);
  side->flags = get(bytes, 16, 8);
}

void ref_answer_from(const uint8_t bytes[REF_ANSWER_BYTES], ref_answer *answer) {
  answer->struct_size = (uint32_t)get(bytes, 0, 4);
  answer->agreed_major = (uint32_t)get(bytes, 4, 4);
  answer->agreed_minor = (uint32_t)get(bytes, 8, 4);
  ref_side_from(bytes + 16, &answer->plugin);
}

uint32_t ref_answer_extent(uint32_t room) {
  static const uint32_t ends[] = {4, 8, 12, 16, 20, 24, 28, 32, 40};
  uint32_t extent = 0;
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
    if (ends[i] <= room) extent = ends[i];
  return extent;
}
