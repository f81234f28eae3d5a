/*
 * torch_streams_test.c: releases behind streams: which the plugin is told of, when, and what becomes of memory whose stream it does not take.
 *
 * Attackers played: a plugin that refuses a stream; streams whose meaning depends on the thread; a plugin that cannot order releases.
 * Promise: memory is used again only behind the work of its stream; where that cannot be promised none is handed out, or none comes back.
 */
#include "torchtest.h"

#define SERVED "libnxmem_test_served.so"
#define UNORDERED "libnxmem_test_unordered.so"

static void told_before_memory_is_given(void) {
  nx_torch_must_load(SERVED, "served");
  void *first = nx_torch_must_malloc(64, 0, nx_torch_stream(0x100));
  CHECK(nx_told.adds == 1 && nx_told.streams[0] == 0x100);
  void *second = nx_torch_must_malloc(64, 0, nx_torch_stream(0x100));
  void *third = nx_torch_must_malloc(64, 0, nx_torch_stream(0x200));
  void *fourth = nx_torch_must_malloc(64, 0, NULL);
  CHECK(nx_told.adds == 3 && nx_told.streams[1] == 0x200 && nx_told.streams[2] == 0);
  nxmem_torch_free(first, 64, 0, nx_torch_stream(0x100));
  nxmem_torch_free(second, 64, 0, nx_torch_stream(0x100));
  nxmem_torch_free(third, 64, 0, nx_torch_stream(0x200));
  nxmem_torch_free(fourth, 64, 0, NULL);
  CHECK(nx_told.adds == 3 && nx_told.enqueues == 4 && nx_torch_now().streams == 3);
}

/* The same stream of another device is another one. */
static void each_device_has_its_own(void) {
  nx_torch_must_load(SERVED, "served");
  (void)nx_torch_must_malloc(64, 0, nx_torch_stream(0x100));
  (void)nx_torch_must_malloc(64, 1, nx_torch_stream(0x100));
  CHECK(nx_told.adds == 2 && nx_torch_now().streams == 2);
}

static void legacy_is_the_default(void) {
  nx_torch_must_load(SERVED, "served");
  void *ptr = nx_torch_must_malloc(64, 0, nx_torch_stream(1));
  CHECK(nx_told.adds == 1 && nx_told.streams[0] == 0);
  nxmem_torch_free(ptr, 64, 0, NULL);
  CHECK(nx_told.adds == 1);
}

static void per_thread_is_refused(void) {
  nx_torch_must_load(SERVED, "served");
  CHECK(nxmem_torch_malloc(64, 0, nx_torch_stream(2)) == NULL && nx_torch_said("depends on the thread"));
  void *ptr = nx_torch_must_malloc(64, 0, NULL);
  nxmem_torch_free(ptr, 64, 0, nx_torch_stream(2));
  CHECK(nx_told.enqueues == 0 && nx_torch_now().kept_blocks == 1 && nx_told.adds == 1);
}

static void refused_stream_gives_no_memory(void) {
  nx_torch_must_load(SERVED, "served");
  nx_told.add_status = NXMEM_STATUS_OUT_OF_MEMORY;
  CHECK(nxmem_torch_malloc(64, 0, nx_torch_stream(0x100)) == NULL && nx_torch_said("OUT_OF_MEMORY"));
  CHECK(nx_torch_now().live_blocks == 0 && nx_torch_now().streams == 0);
  nx_told.add_status = NXMEM_STATUS_OK;
  (void)nx_torch_must_malloc(64, 0, nx_torch_stream(0x100));
}

/* The program told the plugin itself. */
static void registered_before(void) {
  nx_torch_must_load(SERVED, "served");
  nx_told.add_status = NXMEM_STATUS_INVALID_ARGUMENT;
  (void)nx_torch_must_malloc(64, 0, nx_torch_stream(0x100));
  CHECK(nx_torch_now().streams == 1);
}

static void freed_on_a_stream_not_seen(void) {
  nx_torch_must_load(SERVED, "served");
  void *ptr = nx_torch_must_malloc(64, 0, NULL);
  nxmem_torch_free(ptr, 64, 0, nx_torch_stream(0x100));
  CHECK(nx_told.enqueues == 1 && nx_told.adds_at_enqueue == 2 && nx_told.streams[1] == 0x100);
}

static void freed_on_a_stream_refused(void) {
  nx_torch_must_load(SERVED, "served");
  void *ptr = nx_torch_must_malloc(64, 0, NULL);
  nx_told.add_status = NXMEM_STATUS_OUT_OF_MEMORY;
  nxmem_torch_free(ptr, 64, 0, nx_torch_stream(0x100));
  CHECK(nx_told.enqueues == 0 && nx_torch_now().kept_blocks == 1);
  nx_told.add_status = NXMEM_STATUS_OK;
  void *other = nx_torch_must_malloc(64, 0, NULL);
  CHECK(other != NULL && nx_told.enqueues == 1 && nx_told.adds_at_enqueue == 2 && nx_torch_now().kept_blocks == 0);
}

static void recorded_stream(void) {
  nx_torch_must_load(SERVED, "served");
  void *ptr = nx_torch_must_malloc(64, 0, NULL);
  nxmem_torch_record_stream(ptr, nx_torch_stream(0x300));
  CHECK(nx_told.adds == 2 && nx_told.streams[1] == 0x300);
  nxmem_torch_record_stream(ptr, nx_torch_stream(0x300));
  nxmem_torch_record_stream(NULL, nx_torch_stream(0x400));
  nxmem_torch_record_stream(&nx_told, nx_torch_stream(0x400));
  CHECK(nx_told.adds == 2 && nx_torch_said("not live"));
}

static void forgotten_stream(void) {
  CHECK(nxmem_torch_forget_stream(0, NULL) == NXMEM_ERR_INVALID_ARGUMENT); /* nothing is loaded */
  nx_torch_must_load(SERVED, "served");
  (void)nx_torch_must_malloc(64, 0, nx_torch_stream(0x100));
  (void)nx_torch_must_malloc(64, 0, nx_torch_stream(0x200));
  CHECK(nxmem_torch_forget_stream(0, nx_torch_stream(0x300)) == NXMEM_ERR_INVALID_ARGUMENT);
  CHECK(nxmem_torch_forget_stream(1, nx_torch_stream(0x100)) == NXMEM_ERR_INVALID_ARGUMENT);
  CHECK(nxmem_torch_forget_stream(0, nx_torch_stream(0x100)) == NXMEM_OK);
  CHECK(nx_told.removes == 1 && nx_torch_now().streams == 1);
  CHECK(nxmem_torch_forget_stream(0, nx_torch_stream(0x100)) == NXMEM_ERR_INVALID_ARGUMENT);
  (void)nx_torch_must_malloc(64, 0, nx_torch_stream(0x200));
  CHECK(nx_told.adds == 2);
  (void)nx_torch_must_malloc(64, 0, nx_torch_stream(0x100));
  CHECK(nx_told.adds == 3 && nx_torch_now().streams == 2);
}

static void more_streams_than_room(void) {
  enum { ROOM = 256 };
  nx_torch_must_load(SERVED, "served");
  for (uintptr_t i = 0; i < ROOM; i++) (void)nx_torch_must_malloc(8, 0, nx_torch_stream(0x1000 + i * 16));
  CHECK(nxmem_torch_malloc(8, 0, nx_torch_stream(0x90000)) == NULL && nx_torch_said("no room"));
  CHECK(nxmem_torch_forget_stream(0, nx_torch_stream(0x1000)) == NXMEM_OK);
  (void)nx_torch_must_malloc(8, 0, nx_torch_stream(0x90000));
  CHECK(nx_torch_now().streams == ROOM);
}

/* While the work is not done, nobody gets the memory; and nobody waits. */
static void not_before_the_work_is_done(void) {
  nx_torch_must_load(SERVED, "served");
  void *ptr = nx_torch_must_malloc(4096, 0, NULL);
  nx_told.hold = 1;
  nxmem_torch_free(ptr, 4096, 0, NULL);
  for (int i = 0; i < 200; i++) CHECK(nx_torch_must_malloc(4096, 0, NULL) != ptr);
  CHECK(nx_torch_now().pending == 1 && nx_torch_now().queued_frees == 1 && nx_torch_now().drained == 0);
  nx_told.hold = 0;
  nxmem_torch_reset();
  CHECK(nx_torch_now().pending == 0 && nx_torch_now().drained == 1);
}

/* ---- Plugins that know no streams -------------------------------------------------------------------------------- */

static void default_stream_alone(void) {
  nx_torch_must_load(UNORDERED, "served");
  void *ptr = nx_torch_must_malloc(64, 0, NULL);
  CHECK(nxmem_torch_malloc(64, 0, nx_torch_stream(0x100)) == NULL && nx_torch_said("default stream alone"));
  CHECK(nxmem_torch_malloc(64, 0, nx_torch_stream(2)) == NULL);
  nxmem_torch_free(ptr, 64, 0, nx_torch_stream(0x100)); /* not where it was allocated */
  CHECK(nx_told.enqueues == 0 && nx_torch_now().kept_blocks == 1);
  ptr = nx_torch_must_malloc(64, 0, nx_torch_stream(1));
  nxmem_torch_free(ptr, 64, 0, NULL);
  CHECK(nx_told.enqueues == 1);
}

static void memory_of_the_host_has_no_streams(void) {
  nx_torch_must_load(UNORDERED, "hosted");
  for (uintptr_t i = 0; i < 3; i++) {
    void *ptr = nx_torch_must_malloc(64, 0, nx_torch_stream(i * 2));
    nxmem_torch_free(ptr, 64, 0, nx_torch_stream(0x500));
  }
  CHECK(nx_told.enqueues == 3 && nx_torch_now().kept_blocks == 0 && nx_told.opened_tier == NXMEM_TIER_HOST);
  CHECK(nxmem_torch_malloc(64, 1, NULL) == NULL); /* host:1 is not listed */
  (void)nx_torch_must_malloc(64, 2, NULL);
}

/* ---- Mechanisms that cannot queue -------------------------------------------------------------------------------- */

static void device_that_cannot_queue(void) {
  nx_torch_must_load(SERVED, "unqueued");
  CHECK(nxmem_torch_malloc(64, 0, NULL) == NULL && nx_torch_said("deferred-release"));
  CHECK(nxmem_torch_malloc(64, 0, NULL) == NULL);
  CHECK(nx_torch_now().live_blocks == 0 && nx_told.adds == 0);
}

static void host_that_cannot_queue(void) {
  nx_torch_must_load(SERVED, "unqueued");
  void *ptr = nx_torch_must_malloc(64, 2, NULL);
  nxmem_torch_free(ptr, 64, 2, NULL);
  CHECK(nx_torch_now().frees == 1 && nx_torch_now().queued_frees == 0 && nx_told.enqueues == 0 && nx_told.drains == 0);
  CHECK(nx_torch_now().pending == 0);
}

static void disks_are_no_memory(void) {
  nx_torch_must_load(SERVED, "filed");
  CHECK(nxmem_torch_malloc(64, 0, NULL) == NULL && nx_told.opens == 0);
}

static const nx_torch_case cases[] = {
    {"the plugin is told before memory is given", told_before_memory_is_given, 0},
    {"each device has its own", each_device_has_its_own, 0},
    {"the legacy stream is the default", legacy_is_the_default, 0},
    {"the per-thread stream is refused", per_thread_is_refused, 1},
    {"a refused stream gives no memory", refused_stream_gives_no_memory, 1},
    {"a stream that the program registered", registered_before, 0},
    {"freed on a stream not seen before", freed_on_a_stream_not_seen, 0},
    {"freed on a stream that is refused", freed_on_a_stream_refused, 1},
    {"a recorded stream", recorded_stream, 1},
    {"a forgotten stream", forgotten_stream, 0},
    {"more streams than room", more_streams_than_room, 1},
    {"not before the work is done", not_before_the_work_is_done, 0},
    {"without stream functions, the default stream alone", default_stream_alone, 1},
    {"memory of the host has no streams", memory_of_the_host_has_no_streams, 1},
    {"a device that cannot queue is refused", device_that_cannot_queue, 1},
    {"memory of the host goes back at once", host_that_cannot_queue, 0},
    {"a disk is no memory", disks_are_no_memory, 1},
};

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(cases), nx_torch_run);
  return nx_suite_run(&suite, "torch_streams");
}
