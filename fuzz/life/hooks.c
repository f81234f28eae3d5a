/*
 * hooks.c: what the plugin library's exports and slots lead to.
 * Attackers: none by itself.
 * Promise: each slot leads to the model's own; the library finds the table by its name.
 */
#include "life.h"

const fuzz_hooks nxmem_fuzz_hooks = {
    .negotiate = life_negotiate,
    .create_factories = life_create_factories,
    .query_unload = life_query_unload,
    .slots =
        {
            .factory = {.open_allocator = life_open_allocator, .release = life_release_factory},
            .allocator = {.allocate = life_allocate,
                          .deallocate = life_deallocate,
                          .retain = life_retain_allocator,
                          .release = life_release_allocator,
                          .enqueue_release = life_enqueue_release,
                          .drain_releases = life_drain_releases,
                          .pending_release_count = life_pending_release_count,
                          .release_allocation = life_release_allocation},
            .backing = {.allocate_committed = life_allocate,
                        .commit_range = life_commit_range,
                        .decommit_range = life_decommit_range,
                        .mapped_bytes_for_ranges = life_mapped_bytes_for_ranges,
                        .mapped_bytes_for_allocation = life_mapped_bytes_for_allocation,
                        .committed_bytes = life_committed_bytes},
            .sharing = {.create_shared_prefix = life_create_shared_prefix,
                        .retain_shared_prefix = life_retain_shared_prefix,
                        .release_shared_prefix = life_release_shared_prefix,
                        .incremental_owned_bytes = life_incremental_owned_bytes,
                        .commit_shared_prefix = life_commit_shared_prefix},
        },
};
