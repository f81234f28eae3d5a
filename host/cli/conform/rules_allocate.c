/*
 * rules_allocate.c: rules about what allocate hands out.
 * Attackers: addresses that are NULL, misaligned, wrapping or another block's; counts that are not written.
 * Promise: memory is touched on tier host alone, and not before its address was judged.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "conform/families.h"
#include "conform/memory.h"
#include "conform/slots.h"
#include "nxmem.h"
#include "nxmem/outcome.h"
#include "nxmem/range.h"
#include "touch.h"

static void allocates(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  NxmemAllocRequest request = nx_request(&opened, 64, 16);
  NxmemAllocResult result = nx_blank_result();
  nx_expect_status(nx_allocate(&opened, &request, &result), NX_CODE(OK), "64 bytes aligned to 16");
  nx_seen("OK");
}

typedef struct allocated {
  NxmemAllocRequest request;
  NxmemAllocResult result;
  uint32_t code;
} allocated;

static allocated allocate_of(const nx_opened *opened, uint64_t bytes, uint64_t align) {
  allocated out = {.request = nx_request(opened, bytes, align), .result = nx_blank_result()};
  out.code = nx_allocate(opened, &out.request, &out.result).code;
  return out;
}

static uint64_t address_of(const allocated *block) { return (uint64_t)(uintptr_t)block->result.ptr; }

static const uint64_t SIZES[] = {1, 7, 64, 4095, 4096, 4097, 65537};
static const uint64_t ALIGNMENTS[] = {1, 2, 8, 16, 64, 256, 4096, 65536};

enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0], ALIGNMENT_COUNT = sizeof ALIGNMENTS / sizeof ALIGNMENTS[0] };

/* Each size at each alignment; a refusal is no finding of the rules that use this. */
typedef void (*see_block)(const nx_opened *opened, const allocated *block);

static void for_each_shape(nx_trial *trial, see_block see) {
  nx_opened opened = nx_open_ready(trial);
  for (int i = 0; i < SIZE_COUNT; i++) {
    for (int j = 0; j < ALIGNMENT_COUNT; j++) {
      allocated block = allocate_of(&opened, SIZES[i], ALIGNMENTS[j]);
      if (block.code == NXMEM_STATUS_OK) see(&opened, &block);
    }
  }
  nx_seen("%d sizes at %d alignments", SIZE_COUNT, ALIGNMENT_COUNT);
}

static void all_shapes(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  for (int i = 0; i < SIZE_COUNT; i++) {
    for (int j = 0; j < ALIGNMENT_COUNT; j++) {
      allocated block = allocate_of(&opened, SIZES[i], ALIGNMENTS[j]);
      NX_EXPECT(block.code == NXMEM_STATUS_OK, "%" PRIu64 " bytes aligned to %" PRIu64 ": %s", SIZES[i], ALIGNMENTS[j],
                nxmem_status_name(block.code));
    }
  }
  nx_seen("%d sizes at %d alignments", SIZE_COUNT, ALIGNMENT_COUNT);
}

static void see_address(const nx_opened *opened, const allocated *block) {
  (void)opened;
  NX_EXPECT(block->result.ptr, "OK with a NULL address for %" PRIu64 " bytes", block->request.bytes);
}

static void has_address(nx_trial *trial, const void *with) {
  (void)with;
  for_each_shape(trial, see_address);
}

static void see_alignment(const nx_opened *opened, const allocated *block) {
  (void)opened;
  NX_EXPECT(address_of(block) % block->request.align == 0, "0x%" PRIx64 " is not aligned to %" PRIu64,
            address_of(block), block->request.align);
}

static void is_aligned(nx_trial *trial, const void *with) {
  (void)with;
  for_each_shape(trial, see_alignment);
}

static void see_end(const nx_opened *opened, const allocated *block) {
  (void)opened;
  NX_EXPECT(nxmem_range_is_whole(address_of(block), block->request.bytes),
            "0x%" PRIx64 " with %" PRIu64 " bytes goes past the end of memory", address_of(block),
            block->request.bytes);
}

static void does_not_wrap(nx_trial *trial, const void *with) {
  (void)with;
  for_each_shape(trial, see_end);
}

/* Of all blocks together: a host adds them up. */
static uint64_t owned_total, mapped_total;

static void see_counts(const nx_opened *opened, const allocated *block) {
  (void)opened;
  const NxmemAllocResult *r = &block->result;
  NX_EXPECT(r->owned_bytes != NX_UNWRITTEN, "owned_bytes was left unwritten");
  NX_EXPECT(r->mapped_bytes != NX_UNWRITTEN, "mapped_bytes was left unwritten");
  NX_EXPECT(r->owned_bytes <= INT64_MAX && r->mapped_bytes <= INT64_MAX,
            "owned_bytes %" PRIu64 ", mapped_bytes %" PRIu64 ": no total can hold them", r->owned_bytes,
            r->mapped_bytes);
  owned_total += r->owned_bytes;
  mapped_total += r->mapped_bytes;
  NX_EXPECT(owned_total <= INT64_MAX && mapped_total <= INT64_MAX,
            "all together beyond 2^63: owned %" PRIu64 ", mapped %" PRIu64, owned_total, mapped_total);
}

static void counts_are_written(nx_trial *trial, const void *with) {
  (void)with;
  for_each_shape(trial, see_counts);
}

static void see_size(const nx_opened *opened, const allocated *block) {
  (void)opened;
  NX_EXPECT(block->result.struct_size >= NX_RESULT_BYTES, "struct_size is %" PRIu32 ", 32 were written",
            block->result.struct_size);
}

static void says_its_size(nx_trial *trial, const void *with) {
  (void)with;
  for_each_shape(trial, see_size);
}

/* ---- Many blocks ------------------------------------------------------------------------------------------------- */

enum { BLOCKS = 256, BLOCK_BYTES = 192 };

/* Small ones beside large ones: either may lie inside the other. */
static void take_all(const nx_opened *opened, nx_block blocks[BLOCKS]) {
  static const uint64_t larger[] = {0, 3 * BLOCK_BYTES, 40 * BLOCK_BYTES};
  for (uint64_t i = 0; i < BLOCKS; i++) blocks[i] = nx_take(opened, BLOCK_BYTES + larger[i % 3] + i % 7, 16);
}

static void do_not_overlap_among(const nx_block *blocks, int count) {
  for (int i = 0; i < count; i++) {
    const NxmemAllocation *a = &blocks[i].allocation;
    for (int j = 0; j < i; j++) {
      const NxmemAllocation *b = &blocks[j].allocation;
      NX_EXPECT(!nxmem_ranges_overlap((uintptr_t)a->ptr, a->bytes, (uintptr_t)b->ptr, b->bytes),
                "blocks %d and %d, both live, overlap at %p", j, i, (void *)a->ptr);
    }
  }
}

static void do_not_overlap(nx_trial *trial, const void *with) {
  (void)with;
  static nx_block blocks[BLOCKS];
  nx_opened opened = nx_open_ready(trial);
  take_all(&opened, blocks);
  do_not_overlap_among(blocks, BLOCKS);
  nx_seen("%d live blocks", BLOCKS);
}

static void opens_do_not_overlap(nx_trial *trial, const void *with) {
  (void)with;
  static nx_block blocks[BLOCKS];
  nx_opened opened[2] = {nx_open_ready(trial), nx_open_once(trial, NULL)};
  for (uint64_t i = 0; i < BLOCKS; i++) blocks[i] = nx_take(&opened[i % 2], BLOCK_BYTES + i % 7, 16);
  do_not_overlap_among(blocks, BLOCKS);
  nx_seen("%d live blocks of two opens", BLOCKS);
}

static void keep_content(nx_trial *trial, const void *with) {
  (void)with;
  static nx_block blocks[BLOCKS];
  nx_touch_guard guard;
  nx_opened opened = nx_open_ready(trial);
  if (!nx_may_touch(&opened)) nx_does_not_apply("the memory is not the CPU's to touch");
  take_all(&opened, blocks);
  nx_enter("writing to %d blocks", BLOCKS);
  nx_touch_begin(&guard);
  for (uint64_t i = 0; i < BLOCKS; i++) {
    nx_touch found = nx_touch_fill(blocks[i].allocation.ptr, blocks[i].allocation.bytes, i);
    NX_EXPECT(found.result == NX_TOUCH_OK, "0x%" PRIx64 " cannot be written", found.address);
  }
  for (uint64_t i = 0; i < BLOCKS; i++) {
    nx_touch found = nx_touch_verify(blocks[i].allocation.ptr, blocks[i].allocation.bytes, i);
    NX_EXPECT(found.result == NX_TOUCH_OK, "0x%" PRIx64 " does not hold what was written", found.address);
  }
  nx_touch_end(&guard);
  nx_seen("%d blocks written, then read back", BLOCKS);
}

static void counts_to(nx_trial *trial, uint64_t wanted, const char *when) {
  uint64_t found = nx_plugin_report(trial).live_allocations;
  NX_EXPECT(found == wanted, "live_allocations is %" PRIu64 ", needed %" PRIu64 " %s", found, wanted, when);
}

static void counts_allocations(nx_trial *trial, const void *with) {
  (void)with;
  static nx_block blocks[BLOCKS];
  nx_opened opened = nx_open_ready(trial);
  counts_to(trial, 0, "before any allocation");
  take_all(&opened, blocks);
  counts_to(trial, BLOCKS, "after 256 allocations");
  for (int i = 0; i < BLOCKS; i++) nx_give(&opened, &blocks[i]);
  counts_to(trial, 0, "after all were given back");
  nx_seen("0, %d, 0", BLOCKS);
}

/* Even numbers first, then odd ones backwards: no order of release may matter. */
static void any_order(nx_trial *trial, const void *with) {
  (void)with;
  static nx_block blocks[BLOCKS];
  uint64_t unmapped = 0;
  nx_opened opened = nx_open_ready(trial);
  take_all(&opened, blocks);
  for (int i = 0; i < BLOCKS; i++) {
    int at = i < BLOCKS / 2 ? 2 * i : 2 * BLOCKS - 1 - 2 * i;
    nx_expect_status(nx_deallocate(&opened, &blocks[at].allocation, &unmapped), NX_CODE(OK), "a live block");
  }
  counts_to(trial, 0, "after all were given back");
  nx_seen("%d blocks in a mixed order", BLOCKS);
}

/* The last reference goes while blocks are live: their memory and their count stay. */
static void outlive_the_allocator(nx_trial *trial, const void *with) {
  (void)with;
  nx_touch_guard guard;
  nx_opened opened = nx_open_ready(trial);
  nx_block block = nx_take(&opened, BLOCK_BYTES, 16);
  nx_close(&opened);
  counts_to(trial, 1, "after the last release with one block live");
  if (nx_may_touch(&opened)) {
    nx_enter("writing to a block whose allocator was released");
    nx_touch_begin(&guard);
    nx_touch found = nx_touch_fill(block.allocation.ptr, block.allocation.bytes, 1);
    nx_touch_end(&guard);
    NX_EXPECT(found.result == NX_TOUCH_OK, "0x%" PRIx64 " was taken back", found.address);
  }
  nx_seen("still there, still counted");
}

enum { WATCHES = 4 };

/* What the plugin keeps of the caller's record is a pointer into its stack. */
static void leaves_the_result(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  for (int i = 0; i < WATCHES; i++) {
    NxmemAllocRequest request = nx_request(&opened, 4096, 64);
    NxmemAllocResult result = nx_blank_result();
    NX_GIVEN(nx_allocate(&opened, &request, &result).code == NXMEM_STATUS_OK, "allocate was refused");
    NX_EXPECT(nx_stands_still(&result, sizeof result), "the result changed behind the call");
  }
  nx_seen("unchanged %d times", WATCHES);
}

#define ALC(name, text, place, need, function)                                                           \
  {                                                                                                      \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = (need), \
    .check = (function)                                                                                  \
  }

static const nx_rule RULES[] = {
    ALC("NX-ALC-001", "allocate answers OK to 64 bytes aligned to 16", "Required slots", "NX-TAB-006", allocates),
    ALC("NX-ALC-002", "OK comes with an address", "Ownership", "NX-ALC-001", has_address),
    ALC("NX-ALC-003", "The address is aligned as asked", "Ownership", "NX-ALC-002", is_aligned),
    ALC("NX-ALC-004", "The block ends below the end of memory", "Ownership", "NX-ALC-003", does_not_wrap),
    ALC("NX-ALC-005", "owned_bytes and mapped_bytes are written, and add up below 2^63", "Sizes", "NX-ALC-004",
        counts_are_written),
    ALC("NX-ALC-006", "The result says in struct_size that its 32 bytes were written", "Sizes", "NX-ALC-005",
        says_its_size),
    ALC("NX-ALC-007", "Sizes that are no multiple of anything, and alignments from 1 to 65536, are served", "Ownership",
        "NX-ALC-005", all_shapes),
    ALC("NX-ALC-008", "Live blocks do not overlap", "Ownership", "NX-ALC-005", do_not_overlap),
    ALC("NX-ALC-009", "Host memory can be written, and keeps what was written while others are in use", "Ownership",
        "NX-ALC-008", keep_content),
    ALC("NX-ALC-010", "live_allocations counts blocks handed out and not given back", "Unload report", "NX-DEA-001",
        counts_allocations),
    ALC("NX-ALC-011", "Blocks can be given back in any order", "Ownership", "NX-ALC-010", any_order),
    ALC("NX-ALC-012", "Blocks that are live at the allocator's last release keep their memory and their count",
        "Ownership", "NX-ALC-010", outlive_the_allocator),
    ALC("NX-ALC-042", "Live blocks of two opens do not overlap", "Ownership", "NX-ALC-008", opens_do_not_overlap),
    ALC("NX-ALC-041", "The result is not written to behind the call", "Threads", "NX-ALC-005", leaves_the_result),
};

const nx_family nx_allocate_rules = NX_FAMILY("allocate", "What allocate hands out", RULES);
