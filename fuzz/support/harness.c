/*
 * harness.c: input, memory with hard edges, and failing.
 * Attackers: the input itself.
 * Promise: nothing here depends on the engine, the time or earlier inputs.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "harness.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t own_count;
static uint64_t *inputs_run = &own_count;

fuzz_input fuzz_begin(const uint8_t *data, size_t size) {
  (*inputs_run)++;
  const fuzz_input in = {data, size};
  return in;
}

void fuzz_take(fuzz_input *in, void *out, size_t bytes) {
  const size_t there = in->left < bytes ? in->left : bytes;
  fuzz_copy(out, in->at, there);
  in->at += there;
  in->left -= there;
  fuzz_clear((uint8_t *)out + there, bytes - there);
}

uint8_t fuzz_take_u8(fuzz_input *in) {
  uint8_t value;
  fuzz_take(in, &value, sizeof value);
  return value;
}

uint16_t fuzz_take_u16(fuzz_input *in) {
  uint16_t value;
  fuzz_take(in, &value, sizeof value);
  return value;
}

uint32_t fuzz_take_u32(fuzz_input *in) {
  uint32_t value;
  fuzz_take(in, &value, sizeof value);
  return value;
}

uint64_t fuzz_take_u64(fuzz_input *in) {
  uint64_t value;
  fuzz_take(in, &value, sizeof value);
  return value;
}

/* Eight bytes at a time, and no call: the sanitizers' own memset, memcpy and memcmp ask about all of it first. */
static void fill(uint8_t *at, size_t bytes, uint64_t eight) {
  for (; bytes >= sizeof eight; bytes -= sizeof eight, at += sizeof eight) memcpy(at, &eight, sizeof eight);
  for (size_t i = 0; i < bytes; i++) at[i] = (uint8_t)eight;
}

void fuzz_fill(void *block, size_t bytes) { fill(block, bytes, FUZZ_CANARY * 0x0101010101010101ull); }

void fuzz_clear(void *block, size_t bytes) { fill(block, bytes, 0); }

void fuzz_copy(void *to, const void *from, size_t bytes) {
  uint8_t *out = to;
  const uint8_t *in = from;
  for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), out += sizeof(uint64_t), in += sizeof(uint64_t)) {
    uint64_t eight;
    memcpy(&eight, in, sizeof eight);
    memcpy(out, &eight, sizeof eight);
  }
  for (size_t i = 0; i < bytes; i++) out[i] = in[i];
}

static int is_same(const uint8_t *a, const uint8_t *b, size_t bytes) {
  for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), a += sizeof(uint64_t), b += sizeof(uint64_t)) {
    uint64_t left, right;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    if (left != right) return 0;
  }
  for (size_t i = 0; i < bytes; i++)
    if (a[i] != b[i]) return 0;
  return 1;
}

static void *allocate(size_t bytes) {
  if (bytes == 0) return NULL;
  void *block = malloc(bytes);
  if (block == NULL) fuzz_fail("harness", "out of memory for %zu bytes", bytes);
  return block;
}

void *fuzz_exact(const void *from, size_t bytes) {
  void *block = allocate(bytes);
  if (block != NULL) memcpy(block, from, bytes);
  return block;
}

void *fuzz_exact_canary(size_t bytes) {
  void *block = allocate(bytes);
  if (block != NULL) memset(block, FUZZ_CANARY, bytes);
  return block;
}

static void *kept(unsigned int number, size_t bytes) {
  static void *blocks[FUZZ_KEPT][FUZZ_KEPT_BYTES + 1];
  if (number >= FUZZ_KEPT || bytes > FUZZ_KEPT_BYTES) fuzz_fail("harness", "block %u of %zu bytes", number, bytes);
  void **block = &blocks[number][bytes];
  if (*block == NULL) *block = allocate(bytes);
  return *block;
}

void *fuzz_kept(unsigned int number, const void *from, size_t bytes) {
  void *block = kept(number, bytes);
  if (block != NULL && from != NULL) fuzz_copy(block, from, bytes);
  return block;
}

void *fuzz_kept_canary(unsigned int number, size_t bytes) {
  void *block = kept(number, bytes);
  fuzz_fill(block, bytes);
  return block;
}

void *fuzz_kept_end(unsigned int number, size_t bytes) {
  if (bytes > FUZZ_KEPT_BYTES - FUZZ_KEPT_BEFORE) fuzz_fail("harness", "the last %zu bytes of a block", bytes);
  return (uint8_t *)kept(number, FUZZ_KEPT_BYTES) + FUZZ_KEPT_BYTES - bytes;
}

/*
 * FUZZ_GUARDED_MAX writable bytes, then a page that cannot be read. Assumes pages of 4096 bytes or a divisor of them.
 */
static uint8_t *guarded_region(void) {
  static uint8_t *region;
  if (region != NULL) return region;
  void *fresh = mmap(NULL, 2u * FUZZ_GUARDED_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) fuzz_fail("harness", "no memory for the guard page");
  if (mprotect((uint8_t *)fresh + FUZZ_GUARDED_MAX, FUZZ_GUARDED_MAX, PROT_NONE) != 0)
    fuzz_fail("harness", "the guard page could not be closed");
  region = fresh;
  return region;
}

/* Shared, so that what a forked child adds is seen. */
static uint64_t *shared_counts(const char *variable, size_t bytes) {
  const char *path = getenv(variable);
  if (path == NULL) return NULL;
  const int file = open(path, O_RDWR);
  void *shared = file < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  if (shared == MAP_FAILED) fuzz_fail("harness", "%s: %s cannot be mapped", variable, path);
  return shared;
}

/* Reached, triggered. */
static uint64_t *canary_counts;

int nxmem_fuzz_canary(int triggered) {
  if (canary_counts == NULL) return triggered;
  canary_counts[0]++;
  canary_counts[1] += triggered != 0;
  return triggered;
}

static int planted;

int nxmem_fuzz_planted(int number) { return number == planted; }

void fuzz_start(void) {
  const char *asked = getenv("NXMEM_FUZZ_PLANTED");
  planted = asked == NULL ? 0 : atoi(asked);
  guarded_region();
  uint64_t *inputs = shared_counts("NXMEM_FUZZ_COUNTER", sizeof(uint64_t));
  if (inputs != NULL) inputs_run = inputs;
  canary_counts = shared_counts("NXMEM_FUZZ_CANARY", 2u * sizeof(uint64_t));
}

void *fuzz_at_guard(const void *from, size_t bytes) {
  if (bytes > FUZZ_GUARDED_MAX) fuzz_fail("harness", "%zu bytes do not fit before the guard page", bytes);
  uint8_t *start = guarded_region() + FUZZ_GUARDED_MAX - bytes;
  if (bytes != 0) memcpy(start, from, bytes);
  return start;
}

uintptr_t fuzz_unreadable(void) { return (uintptr_t)(guarded_region() + FUZZ_GUARDED_MAX); }

/* Eight bytes at a time: this is asked after every refusal. */
int fuzz_untouched(const void *block, size_t bytes) {
  const uint8_t *at = block;
  const uint64_t eight = FUZZ_CANARY * 0x0101010101010101ull;
  for (; bytes >= sizeof eight; bytes -= sizeof eight, at += sizeof eight) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    if (word != eight) return 0;
  }
  for (size_t i = 0; i < bytes; i++)
    if (at[i] != FUZZ_CANARY) return 0;
  return 1;
}

void fuzz_fail(const char *oracle, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "ORACLE %s: ", oracle);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  fflush(stderr);
  abort();
}

void fuzz_other_verdict(const char *oracle, nxmem_verdict found, nxmem_verdict expected) {
  fuzz_fail(oracle,
            "verdict: reason %" PRIu32 " field %" PRIu32 " found %#" PRIx64 " needed %#" PRIx64
            ", expected reason %" PRIu32 " field %" PRIu32 " found %#" PRIx64 " needed %#" PRIx64,
            found.reason, found.field, found.found, found.needed, expected.reason, expected.field, expected.found,
            expected.needed);
}

void fuzz_same_bytes(const char *oracle, const void *found, const void *expected, size_t bytes) {
  if (is_same(found, expected, bytes)) return;
  const uint8_t *a = found;
  const uint8_t *b = expected;
  size_t at = 0;
  while (a[at] == b[at]) at++;
  fuzz_fail(oracle, "byte %zu of %zu: %#x, expected %#x", at, bytes, a[at], b[at]);
}

void fuzz_other_number(const char *oracle, uint64_t found, uint64_t expected) {
  fuzz_fail(oracle, "%#" PRIx64 ", expected %#" PRIx64, found, expected);
}
