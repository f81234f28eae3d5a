/*
 * pressure.c: allocation while this process gets no more memory.
 * Attackers: a plugin that does not expect to be refused.
 * Promise: the limit on the address space is lifted again.
 */
#include "conform/pressure.h"

#include <sys/resource.h>

#include "conform/usage.h"

enum { BLOCK_BYTES = 1 << 20, MOST_BLOCKS = 4096 };

static nx_block blocks[MOST_BLOCKS];

static void exhaust(const nx_opened *opened, nx_pressed *out) {
  for (; out->count < MOST_BLOCKS; out->count++) {
    nx_block *block = &out->blocks[out->count];
    NxmemAllocRequest request = nx_request(opened, BLOCK_BYTES, 16);
    block->result = nx_blank_result();
    out->code = nx_allocate(opened, &request, &block->result).code;
    if (out->code != NXMEM_STATUS_OK) break;
    block->allocation = nx_allocation_of(&request, &block->result);
  }
}

nx_pressed nx_press(const nx_opened *opened) {
  nx_pressed out = {.blocks = blocks, .code = NXMEM_STATUS_OK};
  struct rlimit before, none;
  getrlimit(RLIMIT_AS, &before);
  none = (struct rlimit){nx_virtual_bytes(), before.rlim_max};
  NX_GIVEN(none.rlim_cur && setrlimit(RLIMIT_AS, &none) == 0, "the address space cannot be limited");
  nx_host_is_generous(0);
  exhaust(opened, &out);
  nx_host_is_generous(1);
  setrlimit(RLIMIT_AS, &before);
  return out;
}
