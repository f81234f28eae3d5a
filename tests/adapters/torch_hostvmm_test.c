/*
 * torch_hostvmm_test.c: the adapter on the shipped libnxmem_hostvmm.so: real pages of the processor.
 *
 * Attackers played: none; what PyTorch does all day.
 * Promise: everything that was freed is given back, and the plugin's own figures say so.
 */
#include "nxmem/statistics.h"
#include "torchtest.h"

#define PLUGIN "libnxmem_hostvmm.so"

/* The very module that the adapter has loaded: it is asked beside the host's back, which its statistics allow. */
static NxmemVmmStats figures(void) {
  NxmemVmmStats stats = {.struct_size = sizeof stats};
  NxmemVmmStatisticsFunction ask;
  nxmem_host host;
  nxmem_plugin plugin;
  nxmem_allocator allocator;
  nxmem_allocator_info info;
  void *address;
  const nxmem_open_options options = {.mechanism = "hostvmm"};
  CHECK(nxmem_host_create(NULL, &host, NULL) == NXMEM_OK);
  CHECK(nxmem_plugin_open(host, nx_torch_library(PLUGIN), &plugin, NULL) == NXMEM_OK);
  CHECK(nxmem_plugin_symbol(plugin, NXMEM_STATISTICS_EXPORT, &address, NULL) == NXMEM_OK);
  CHECK(nxmem_allocator_open(plugin, &options, &allocator, NULL) == NXMEM_OK);
  CHECK(nxmem_allocator_get_info(allocator, &info, NULL) == NXMEM_OK);
  memcpy(&ask, &address, sizeof address);
  CHECK(ask(info.mechanism_id, info.device.tier, info.device.index, &stats) == NXMEM_STATUS_OK);
  CHECK(nxmem_allocator_close(allocator, 0, NULL) == NXMEM_OK);
  return stats;
}

static void pages_go_back(void) {
  nx_torch_must_load(PLUGIN, NULL);
  void *small = nx_torch_must_malloc(1000, 0, NULL), *large = nx_torch_must_malloc(33 << 20, 0, nx_torch_stream(0x100));
  CHECK(figures().committed_bytes >= 33u << 20);
  nxmem_torch_free(small, 1000, 0, NULL);
  nxmem_torch_free(large, 33 << 20, 0, nx_torch_stream(0x100));
  nxmem_torch_reset();
  CHECK(nx_torch_now().queued_frees == 2 && nx_torch_now().drained == 2 && nx_torch_now().pending == 0);
  CHECK(figures().committed_bytes == 0 && figures().quarantined_spans == 0);
}

static void threads(void) {
  nx_torch_must_load(PLUGIN, "hostvmm");
  nx_torch_threads(1, 5);
  CHECK(figures().committed_bytes == 0 && figures().refcount_underflows == 0);
}

static void more_than_there_is(void) {
  nx_torch_must_load(PLUGIN, NULL);
  CHECK(nxmem_torch_malloc((ssize_t)1 << 50, 0, NULL) == NULL && nx_torch_now().failed_mallocs == 1);
  (void)nx_torch_must_malloc(4096, 0, NULL);
}

static void exits_with_live_blocks(void) {
  nx_torch_must_load(PLUGIN, NULL);
  for (int i = 1; i < 50; i++) (void)nx_torch_must_malloc(i * 10000, 0, NULL);
}

static const nx_torch_case cases[] = {
    {"pages go back", pages_go_back, 0},
    {"eight threads", threads, 0},
    {"more than there is", more_than_there_is, 1},
    {"exit with live blocks", exits_with_live_blocks, 0},
};

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(cases), nx_torch_run);
  return nx_suite_run(&suite, "torch_hostvmm");
}
