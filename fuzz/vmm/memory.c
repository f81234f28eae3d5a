/*
 * memory.c: the pages behind the driver's handles, and tags in them: what was written through one address is read back through it, and through no other.
 * Attackers: whoever maps one page for two blocks, or none for one.
 * Promise: an address that was handed out and committed is really there; what is not mapped really faults.
 */
#define _GNU_SOURCE /* memfd_create */
#include <sys/mman.h>
#include <unistd.h>

#include "vmm.h"

enum { HANDLE_BYTES = 1 << 18 };

static uint64_t region(void) {
  static uint64_t base;
  if (base != 0) return base;
  const uint64_t bytes = (uint64_t)(VM_SLOTS + 1) * VM_ARENA_BYTES;
  const void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  vm_expect(at != MAP_FAILED, "harness: no address space");
  base = ((uintptr_t)at + VM_ARENA_BYTES - 1u) & ~((uint64_t)VM_ARENA_BYTES - 1u);
  return base;
}

static int file(void) {
  static int descriptor = -1;
  if (descriptor >= 0) return descriptor;
  descriptor = memfd_create("nxmem-fuzz-vmm", MFD_CLOEXEC);
  vm_expect(descriptor >= 0 && ftruncate(descriptor, (off_t)VM_SLOTS * VM_HANDLES * HANDLE_BYTES) == 0,
            "harness: no file for pages");
  return descriptor;
}

uint64_t vm_pages_base(uint32_t slot) { return region() + (uint64_t)slot * VM_ARENA_BYTES; }

static void *at(uint64_t address) { return (void *)(uintptr_t)address; }

int vm_pages_map(uint32_t slot, uint64_t address, uint64_t bytes, uint64_t handle) {
  const off_t offset = (off_t)((slot * (uint64_t)VM_HANDLES + handle) * HANDLE_BYTES);
  return mmap(at(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file(), offset) != MAP_FAILED;
}

int vm_pages_unmap(uint64_t address, uint64_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return mmap(at(address), bytes, PROT_NONE, flags, -1, 0) != MAP_FAILED;
}

int vm_pages_access(uint64_t address, uint64_t bytes, int writable) {
  return mprotect(at(address), bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ) == 0;
}

/* ---- Tags ------------------------------------------------------------------------------------------------------------ */

static uint8_t tag_of(uint64_t id, uint32_t granule) { return (uint8_t)(id * 31u + granule * 7u + 1u); }

static volatile uint8_t *byte_at(uint64_t address) { return (volatile uint8_t *)(uintptr_t)address; }

/* The first and the last byte that a block has in a granule. 0: none. */
static int ends_in(const vm_block *b, uint32_t granule, uint64_t *first, uint64_t *last) {
  const vm_engine *e = b->engine;
  const uint64_t low = e->base + granule * e->granule, high = low + e->granule - 1u;
  const uint64_t end = b->first + b->name.bytes - 1u;
  *first = b->first > low ? b->first : low;
  *last = end < high ? end : high;
  return *first <= *last;
}

void vm_tag_block(vm_block *b) {
  const vm_engine *e = b->engine;
  uint64_t first, last;
  if (vm_is_dead(e)) return;
  b->tagged &= b->refs;
  for (uint32_t i = 0; i < e->granules; i++) {
    if ((b->refs & ~b->tagged & ~e->shared) >> i & 1u && ends_in(b, i, &first, &last)) {
      *byte_at(first) = tag_of(b->name.allocation_id, i);
      *byte_at(last) = tag_of(b->name.allocation_id, i);
      b->tagged |= 1ull << i;
    }
  }
}

void vm_check_tags(const vm_block *b) {
  const vm_engine *e = b->engine;
  uint64_t first, last;
  if (vm_is_dead(e)) return;
  for (uint32_t i = 0; i < e->granules; i++) {
    if (((b->tagged & b->refs) >> i & 1u) == 0 || !ends_in(b, i, &first, &last)) continue;
    vm_same("a block's first byte in a granule is another's", *byte_at(first), tag_of(b->name.allocation_id, i));
    vm_same("a block's last byte in a granule is another's", *byte_at(last), tag_of(b->name.allocation_id, i));
  }
  for (uint32_t i = 0; i < b->view_count; i++) vm_check_prefix(&it.prefixes[b->views[i].prefix], &b->views[i]);
}

static uint8_t prefix_tag(const vm_prefix *p, uint32_t i) { return (uint8_t)(p->handle.handle * 13u + i * 5u + 2u); }

void vm_tag_prefix(const vm_prefix *p) {
  const vm_engine *e = p->engine;
  if (vm_is_dead(e)) return;
  for (uint32_t i = 0; i < p->count; i++) *byte_at(e->base + (p->first + i) * e->granule + 5u) = prefix_tag(p, i);
}

void vm_check_prefix(const vm_prefix *p, const vm_view *view) {
  const vm_engine *e = p->engine;
  if (vm_is_dead(e)) return;
  uint32_t number = 0;
  for (uint32_t i = 0; i < e->granules; i++)
    if (view->granules >> i & 1u) {
      vm_same("a prefix's bytes through a view", *byte_at(e->base + i * e->granule + 5u), prefix_tag(p, number));
      number++;
    }
}
