/* Which address is which allocation. Private to the adapter. */
#ifndef NX_TORCH_BLOCKS_H
#define NX_TORCH_BLOCKS_H

#include <stdint.h>

#include "nxmem.h"

/* Made by malloc, owned by the table while it is live, by whoever took it afterwards. */
typedef struct nx_torch_block {
  struct nx_torch_block *next;
  nxmem_allocation allocation;
  uint64_t bytes;
  int device;
  void *stream; /* that it was freed behind */
} nx_torch_block;

/* Once, before anything else. */
void nx_torch_blocks_begin(void);

/* 1, or 0 where that address is live already: the block stays the caller's. */
int nx_torch_blocks_add(nx_torch_block *block);

typedef enum nx_torch_take { NX_TORCH_TAKEN, NX_TORCH_NOT_LIVE, NX_TORCH_DIFFERS } nx_torch_take;

/* Take a block out, if it is live and of these bytes and this device. DIFFERS: it stays, and *out is a copy of what is there. */
nx_torch_take nx_torch_blocks_take(const void *ptr, uint64_t bytes, int device, nx_torch_block **taken,
                                   nx_torch_block *out);

/* The device of a live block, or -1. */
int nx_torch_blocks_device(const void *ptr);

#endif /* NX_TORCH_BLOCKS_H */
