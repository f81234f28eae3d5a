/*
 * kernel.c: getpid, getrandom, membarrier, process_vm_readv and process_vm_writev, as the linker puts them in the host's
 * way (--wrap).
 * Attackers: the input, through the addresses that the plugin publishes.
 * Promise: an address inside a block that the model published is read and written in the program, and what is poisoned
 * there is seen; each other one goes to the kernel, so one that leads nowhere is refused by who refuses it in the field.
 *
 * A guarded fetch costs as much as all the rest of an operation, and nearly all fetches are of readable tables.
 */
#define _GNU_SOURCE
#include "kernel.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "harness.h"

pid_t __wrap_getpid(void);
pid_t __real_getpid(void);
ssize_t __wrap_getrandom(void *out, size_t bytes, unsigned int flags);
long __wrap_syscall(long number, long a, long b, long c);
long __real_syscall(long number, ...);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                                const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                                const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
                                 const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t __real_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
                                 const struct iovec *remote, unsigned long remote_count, unsigned long flags);

/* ---- Who ---------------------------------------------------------------------------------------------------------- */

static pid_t own_pid;

static void forget_pid(void) { own_pid = 0; }

pid_t __wrap_getpid(void) {
  if (own_pid != 0) return own_pid;
  if (pthread_atfork(NULL, NULL, forget_pid) != 0) return __real_getpid();
  own_pid = __real_getpid();
  return own_pid;
}

/* ---- Random numbers ----------------------------------------------------------------------------------------------- */

static const uint64_t first_state = 0x9E3779B97F4A7C15ull;
static uint64_t random_state = first_state;

void life_restart_random(void) { random_state = first_state; }

/* SplitMix64. */
static uint64_t next_random(void) {
  uint64_t z = random_state += 0x9E3779B97F4A7C15ull;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}

ssize_t __wrap_getrandom(void *out, size_t bytes, unsigned int flags) {
  (void)flags;
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t drawn = next_random();
    memcpy((uint8_t *)out + at, &drawn, bytes - at < sizeof drawn ? bytes - at : sizeof drawn);
  }
  return (ssize_t)bytes;
}

/* ---- Barriers ----------------------------------------------------------------------------------------------------- */

/* There is one thread: what it wrote it sees. The host gives no call more than three numbers. */
long __wrap_syscall(long number, long a, long b, long c) {
  if (number == SYS_membarrier && a == MEMBARRIER_CMD_PRIVATE_EXPEDITED) return 0;
  return __real_syscall(number, a, b, c);
}

/* ---- What is published -------------------------------------------------------------------------------------------- */

enum { PUBLISHED = 64 };
typedef struct published {
  const uint8_t *block;
  size_t bytes;
} published;

/* In order of their making, without gaps. */
static published there[PUBLISHED];
static uint32_t count;

void life_lend(const void *at, size_t bytes) {
  if (count == PUBLISHED) fuzz_fail("harness", "more than %d blocks are published", PUBLISHED);
  there[count++] = (published){at, bytes};
}

size_t life_take_back(const void *at) {
  uint32_t i = 0;
  while (i < count && there[i].block != at) i++;
  if (i == count) fuzz_fail("harness", "withdrawn, and not published");
  const size_t bytes = there[i].bytes;
  there[i] = there[--count];
  return bytes;
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------- */

/* AddressSanitizer's, where the program has it. */
void __asan_poison_memory_region(void const volatile *at, size_t bytes) __attribute__((weak));
void __asan_unpoison_memory_region(void const volatile *at, size_t bytes) __attribute__((weak));

/*
 * What is withdrawn is poisoned and kept for a later one of its size, for the allocator and its books cost more than what
 * the host makes of a table. It rests until so many others of its size were withdrawn.
 */
enum { SIZES = 512, RESTING = 8 };
typedef struct shelf {
  uint8_t *resting[RESTING];
  uint32_t withdrawn;
} shelf;

static shelf shelves[SIZES];

static uint8_t *take_rested(size_t bytes) {
  if (bytes >= SIZES) return NULL;
  shelf *s = &shelves[bytes];
  uint8_t **oldest = &s->resting[s->withdrawn % RESTING];
  uint8_t *block = *oldest;
  *oldest = NULL;
  if (block != NULL && __asan_unpoison_memory_region != NULL) __asan_unpoison_memory_region(block, bytes);
  return block;
}

static void rest(uint8_t *block, size_t bytes) {
  if (bytes >= SIZES) {
    free(block);
    return;
  }
  shelf *s = &shelves[bytes];
  uint8_t **oldest = &s->resting[s->withdrawn++ % RESTING];
  free(*oldest);
  *oldest = block;
  if (__asan_poison_memory_region != NULL)
    __asan_poison_memory_region(block, bytes);
  else
    fuzz_fill(block, bytes);
}

void *life_publish(const void *from, size_t bytes) {
  uint8_t *block = take_rested(bytes);
  if (block == NULL)
    block = from == NULL ? fuzz_exact_canary(bytes) : fuzz_exact(from, bytes);
  else if (from != NULL)
    fuzz_copy(block, from, bytes);
  life_lend(block, bytes);
  return block;
}

void life_withdraw(void *block) {
  if (block != NULL) rest(block, life_take_back(block));
}

static int is_published(const void *address, size_t bytes) {
  for (uint32_t i = 0; i < count; i++) {
    const uintptr_t offset = (uintptr_t)address - (uintptr_t)there[i].block;
    if (offset < there[i].bytes && bytes <= there[i].bytes - offset) return 1;
  }
  return 0;
}

static int is_simple(pid_t pid, const struct iovec *local, unsigned long local_count, const struct iovec *remote,
                     unsigned long remote_count, unsigned long flags) {
  return local_count == 1 && remote_count == 1 && local->iov_len == remote->iov_len && flags == 0 &&
         pid == __wrap_getpid() && is_published(remote->iov_base, remote->iov_len);
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                                const struct iovec *remote, unsigned long remote_count, unsigned long flags) {
  if (!is_simple(pid, local, local_count, remote, remote_count, flags))
    return __real_process_vm_readv(pid, local, local_count, remote, remote_count, flags);
  memcpy(local->iov_base, remote->iov_base, remote->iov_len);
  return (ssize_t)remote->iov_len;
}

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
                                 const struct iovec *remote, unsigned long remote_count, unsigned long flags) {
  if (!is_simple(pid, local, local_count, remote, remote_count, flags))
    return __real_process_vm_writev(pid, local, local_count, remote, remote_count, flags);
  memcpy(remote->iov_base, local->iov_base, remote->iov_len);
  return (ssize_t)remote->iov_len;
}
