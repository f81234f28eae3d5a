/*
 * torch_cudavmm_test.c: the adapter on the shipped libnxmem_cudavmm.so, with the simulated driver: streams, events that are late, several devices, faults.
 *
 * Attackers played: a driver that is out of memory, that fails for good while a release is queued, that completes nothing.
 * Promise: memory is used again only when the events of all its streams have completed; no call waits; no fault of the driver ends the process.
 */
#include "fake.h"
#include "torchtest.h"

#define PLUGIN "libnxmem_cudavmm.so"

enum { DEVICES = 2, STREAMS = 3 };

static const nx_fake *fake;
static nx_cuda_stream streams[STREAMS];

static void schedule(const char *text) { CHECK(fake->schedule(text) == 0); }

/* Devices, streams, and the plugin. The case's own context stays current for the calling thread. */
static void begin(void) {
  nx_cuda_result (*create)(nx_cuda_stream *, unsigned);
  fake = nx_fake_driver();
  schedule("devices=2");
  nx_fake_enter(0);
  nx_fake_entry("cuStreamCreate", &create, sizeof create);
  for (int i = 0; i < STREAMS; i++) CHECK(create(&streams[i], 1) == NX_CUDA_SUCCESS);
  nx_torch_must_load(PLUGIN, "cuda-vmm");
}

static uint64_t reserved(void) { return nx_fake_counts().reservations; }

static void two_devices(void) {
  begin();
  void *first = nx_torch_must_malloc(100000, 0, streams[0]), *second = nx_torch_must_malloc(100000, 1, NULL);
  CHECK(reserved() == 2 && nx_torch_now().streams == 2);
  nxmem_torch_free(second, 100000, 1, NULL);
  nxmem_torch_free(first, 100000, 0, streams[0]);
  nxmem_torch_reset();
  CHECK(nx_torch_now().pending == 0 && nx_fake_counts().mapped_bytes == 0 && nx_fake_counts().rule_refusals == 0);
  CHECK(nx_fake_counts().context_depth == 1);
  CHECK(nxmem_torch_malloc(64, 2, NULL) == NULL);
}

/* Two streams are known: a release waits for both, whichever it was freed on. */
static void behind_all_streams(void) {
  begin();
  void *ptr = nx_torch_must_malloc(4096, 0, streams[0]), *other = nx_torch_must_malloc(4096, 0, streams[1]);
  fake->clear_log();
  schedule("delay-events");
  nxmem_torch_free(ptr, 4096, 0, streams[0]);
  CHECK(fake->calls("cuEventRecord") == 2 && nx_torch_now().pending == 1);
  for (int i = 0; i < 50; i++) CHECK(nx_torch_must_malloc(4096, 0, streams[i % 2]) != ptr);
  CHECK(fake->complete(1) == 1);
  nxmem_torch_reset();
  CHECK(nx_torch_now().pending == 1); /* one of two */
  CHECK(fake->complete(1) == 1);
  nxmem_torch_reset();
  CHECK(nx_torch_now().pending == 0 && nx_torch_now().drained == 1);
  nxmem_torch_free(other, 4096, 0, streams[2]); /* a third is registered on the way */
  CHECK(nx_torch_now().streams == 3 && fake->calls("cuEventRecord") == 5);
}

static void forgotten_stream(void) {
  begin();
  void *ptr = nx_torch_must_malloc(4096, 0, streams[0]), *other = nx_torch_must_malloc(4096, 0, streams[1]);
  CHECK(nxmem_torch_forget_stream(0, streams[1]) == NXMEM_OK);
  fake->clear_log();
  nxmem_torch_free(ptr, 4096, 0, streams[0]);
  CHECK(fake->calls("cuEventRecord") == 1);
  nxmem_torch_free(other, 4096, 0, streams[0]);
  CHECK(fake->calls("cuEventRecord") == 2);
}

/* A device of 64 MiB that is full of what is freed and not yet done. */
static void memory_comes_back_under_pressure(void) {
  enum { BLOCKS = 32, BYTES = 2 << 20 };
  void *blocks[BLOCKS];
  fake = nx_fake_driver();
  schedule("memory=67108864");
  begin();
  for (int i = 0; i < BLOCKS; i++) blocks[i] = nx_torch_must_malloc(BYTES, 0, NULL);
  CHECK(nxmem_torch_malloc(BYTES, 0, NULL) == NULL && nx_torch_said("OUT_OF_MEMORY"));
  schedule("delay-events");
  for (int i = 0; i < BLOCKS; i++) nxmem_torch_free(blocks[i], BYTES, 0, NULL);
  CHECK(nxmem_torch_malloc(BYTES, 0, NULL) == NULL && nx_torch_now().pending == BLOCKS);
  CHECK(fake->complete(UINT64_MAX) == BLOCKS);
  (void)nx_torch_must_malloc(BLOCKS * BYTES, 0, NULL); /* all of it: sixteen at a time are not enough */
  CHECK(nx_torch_now().retried_mallocs == 1 && nx_torch_now().pending == 0);
}

static void create_fails_once(void) {
  begin();
  schedule("fail=cuMemCreate:1+:2");
  CHECK(nxmem_torch_malloc(4096, 0, NULL) == NULL && nx_torch_now().live_blocks == 0);
  schedule("reset;devices=2");
  nxmem_torch_free(nx_torch_must_malloc(4096, 0, NULL), 4096, 0, NULL);
}

/* An event cannot be recorded: the block stays, and goes with the next call. */
static void record_fails_once(void) {
  begin();
  void *ptr = nx_torch_must_malloc(4096, 0, streams[0]);
  schedule("fail=cuEventRecord:1:1;fail=cuEventRecord:2:1");
  nxmem_torch_free(ptr, 4096, 0, streams[0]);
  CHECK(nx_torch_now().kept_blocks == 1 && nx_torch_now().pending == 0);
  nxmem_torch_reset();
  CHECK(nx_torch_now().kept_blocks == 0 && nx_torch_now().queued_frees == 1 && nx_torch_now().pending == 0);
}

static void device_is_lost(void) {
  begin();
  void *ptr = nx_torch_must_malloc(4096, 0, streams[0]), *other = nx_torch_must_malloc(4096, 0, streams[0]);
  schedule("fail=cuEventRecord:1:700:sticky");
  nxmem_torch_free(ptr, 4096, 0, streams[0]);
  CHECK(nxmem_torch_malloc(4096, 0, streams[0]) == NULL);
  nxmem_torch_free(other, 4096, 0, streams[0]);
  nxmem_torch_reset();
  CHECK(nx_torch_now().live_blocks == 0 &&
        nx_torch_now().kept_blocks + nx_torch_now().lost_blocks + nx_torch_now().pending == 2);
  CHECK(nx_fake_counts().calls_after_loss == 0);
}

static void threads(void) {
  fake = nx_fake_driver();
  schedule("devices=2");
  nx_torch_must_load(PLUGIN, "cuda-vmm-shared");
  nx_torch_threads(DEVICES, 1);
  CHECK(nx_fake_counts().mapped_bytes == 0 && nx_fake_counts().rule_refusals == 0 && nx_torch_now().streams == DEVICES);
}

static void several_names(void) {
  fake = nx_fake_driver();
  CHECK(nx_torch_load(PLUGIN, NULL) == NXMEM_ERR_UNKNOWN_MECHANISM && nx_torch_said("cuda-vmm"));
}

static void exits_with_live_blocks(void) {
  begin();
  for (int i = 0; i < 50; i++) (void)nx_torch_must_malloc(100000, i % DEVICES, NULL);
  schedule("delay-events");
  nxmem_torch_free(nx_torch_must_malloc(100000, 0, streams[0]), 100000, 0, streams[0]);
}

static const nx_torch_case cases[] = {
    {"two devices", two_devices, 1},
    {"behind all streams", behind_all_streams, 0},
    {"a forgotten stream", forgotten_stream, 0},
    {"memory comes back under pressure", memory_comes_back_under_pressure, 1},
    {"create fails once", create_fails_once, 1},
    {"record fails once", record_fails_once, 1},
    {"the device is lost", device_is_lost, 2},
    {"eight threads", threads, 0},
    {"several names", several_names, 1},
    {"exit with live blocks", exits_with_live_blocks, 0},
};

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(cases), nx_torch_run);
  return nx_suite_run(&suite, "torch_cudavmm");
}
