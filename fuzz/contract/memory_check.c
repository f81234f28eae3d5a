/*
 * memory_check.c: is what translated contracts hold for readable what AddressSanitizer does? TAP.
 * Attackers: none.
 * Promise: every place and length in and around blocks of every small size is compared.
 */
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>

#include "translated.h"

enum { BLOCK_MAX = 70, AROUND = 16 };

static uint8_t global[BLOCK_MAX];

/* Memory that nobody has told AddressSanitizer of it holds for readable, but for NULL. */
static int expected(const uint8_t *at, size_t bytes) {
  return bytes == 0 || (at != NULL && __asan_region_is_poisoned((void *)(uintptr_t)at, bytes) == NULL);
}

/* As the translated code asks: not under the sanitizer itself. */
CONTRACT_PLAIN static int wrong_at(const uint8_t *at, size_t bytes) {
  const int found = __e_acsl_valid_read((void *)(uintptr_t)at, bytes, NULL, NULL) != 0;
  if (found == expected(at, bytes)) return 0;
  printf("# %zu bytes at %p: %d\n", bytes, (const void *)at, found);
  return 1;
}

static int wrong_around(const uint8_t *block, size_t size) {
  int wrong = 0;
  for (const uint8_t *at = block - AROUND; at <= block + size + AROUND; at++)
    for (size_t bytes = 0; bytes <= size + 2u * AROUND; bytes++) wrong += wrong_at(at, bytes);
  return wrong;
}

static int wrong_in_heap(void) {
  int wrong = 0;
  for (size_t size = 1; size <= BLOCK_MAX; size++) {
    uint8_t *block = malloc(size);
    if (block == NULL) abort();
    wrong += wrong_around(block, size);
    free(block);
    wrong += wrong_around(block, size);
  }
  return wrong;
}

static int wrong_in_global(void) {
  int wrong = wrong_around(global, sizeof global);
  for (size_t closed = 0; closed <= BLOCK_MAX; closed++) {
    __asan_poison_memory_region(global, sizeof global);
    __asan_unpoison_memory_region(global + 8, closed < 8 ? 0 : closed - 8);
    wrong += wrong_around(global, sizeof global);
  }
  __asan_unpoison_memory_region(global, sizeof global);
  return wrong;
}

static int wrong_elsewhere(void) {
  static const uintptr_t places[] = {0,          1, 8, 127, 0x7FFF7FFFu, 0x7FFF8000u, 0x10007FFF7FFFu, UINTPTR_MAX - 7u,
                                     UINTPTR_MAX};
  int wrong = 0;
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
    for (size_t bytes = 0; bytes <= 8; bytes++) wrong += wrong_at((const uint8_t *)places[i], bytes);
  return wrong;
}

static int say(int number, const char *name, int wrong) {
  printf("%s %d - %s\n", wrong == 0 ? "ok" : "not ok", number, name);
  return wrong != 0;
}

int main(void) {
  printf("1..3\n");
  int failed = say(1, "blocks of the heap, and freed", wrong_in_heap());
  failed |= say(2, "a global of which parts are closed", wrong_in_global());
  failed |= say(3, "where no block is", wrong_elsewhere());
  return failed;
}
