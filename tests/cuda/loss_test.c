/*
 * loss_test.c: the shipped plugin where the device is lost, or the driver has ended, each in a process of its own.
 *
 * Attackers played: stores that lose a whole context, losses that no call of the plugin has met, a driver that is gone before the program.
 * Promise: what is lost is left alone, and once its end is confirmed the module goes.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loaded.h"
#include "nxmem_registry.h"

static nx_loaded it;

static int set_up(void **state) {
  (void)state;
  nx_fake_driver();
  nx_fake_schedule("reset;devices=2");
  return 0;
}

/* A store through a read-only mapping loses the whole context: nothing of it is touched again. In a child: the loss is for good. */
static void lose_the_device(void) {
  nxmem_error error;
  nxmem_unload_info info;
  nx_load_and_open(&it, "cuda-vmm-shared");
  nxmem_prefix prefix;
  nxmem_group_outcome outcome;
  nxmem_allocation span = nx_span(&it, 4, 2), other = nx_span(&it, 2, 2);
  nx_ok(nxmem_prefix_create(it.allocator, NX_GRANULE, &prefix, &error), &error);
  nx_ok(nxmem_prefix_commit(prefix, &span, 1, 3 * NX_GRANULE, &outcome, &error), &error);
  const uint64_t shared = (uint64_t)(uintptr_t)span.ptr + 3 * NX_GRANULE;
  assert_int_equal(nx_fake_driver()->store(0, shared, 1), NX_CUDA_ILLEGAL_ADDRESS);
  assert_int_equal(nx_commit_granules(&it, other, 0, 2), NXMEM_OK); /* committed: the driver is not asked */
  assert_int_equal(nx_commit_granules(&it, span, 2, 1), NXMEM_ERR_PLUGIN);
  assert_int_equal(nx_stats(&it).device_lost, 1);
  nx_clear_log();
  assert_int_equal(nxmem_release(it.allocator, other, NULL, &error), NXMEM_ERR_QUARANTINED);
  assert_int_equal(nxmem_release(it.allocator, span, NULL, &error), NXMEM_ERR_QUARANTINED);
  nx_ok(nxmem_allocator_close(it.allocator, NXMEM_CLOSE_RELEASE_LIVE, &error), &error);
  assert_int_equal(nxmem_plugin_try_unload(it.plugin, &info, &error), NXMEM_ERR_BUSY);
  assert_int_equal(info.plugin.live_allocations + info.plugin.live_allocators + info.plugin.live_views, 0);
  assert_int_equal(nx_calls("cuMemUnmap") + nx_calls("cuMemRelease") + nx_calls("cuMemAddressFree"), 0);
  assert_int_equal(nx_fake_counts().calls_after_loss, 0);
}

static uint64_t given_back(void) {
  return nx_calls("cuMemUnmap") + nx_calls("cuMemRelease") + nx_calls("cuMemAddressFree");
}

/* No call of the plugin has met the loss, the program has: it says so to the registry, and sees the end of what ran there. Then the module goes. */
static void bury_the_device(void) {
  nxmem_error error;
  nxmem_registry registry;
  nxmem_context context;
  nxmem_authority authority;
  nxmem_mechanism mechanism;
  nxmem_binding binding;
  nxmem_bound bound;
  const nxmem_open_options options = {.mechanism = "cuda-vmm-shared"};
  nx_load(&it);
  nx_ok(nx_try_open(&it, "cuda-vmm", 0, &error), &error); /* a sibling on the same device */
  nx_ok(nxmem_registry_create(&registry, &error), &error);
  nx_ok(nxmem_context_create(registry, &context, &error), &error);
  nx_ok(nxmem_authority_create(registry, &authority, &error), &error);
  nx_ok(nxmem_mechanism_register(context, authority, it.plugin, &options, &mechanism, &error), &error);
  nx_ok(nxmem_bind_mechanism(mechanism, &binding, &error), &error);
  nx_ok(nxmem_bound_allocate(binding, 4 * NX_GRANULE, NX_GRANULE, NULL, &bound, &error), &error);
  nx_ok(nxmem_bound_release(&bound, &error), &error);
  const uint64_t gone = (uint64_t)(uintptr_t)bound.ptr;
  nx_ok(nxmem_bound_allocate(binding, 2 * NX_GRANULE, NX_GRANULE, NULL, &bound, &error), &error);
  assert_int_equal(nx_fake_driver()->store(0, gone + 3 * NX_GRANULE, 1), NX_CUDA_ILLEGAL_ADDRESS);
  nx_clear_log();
  const uint64_t calls = nx_fake_counts().calls;
  nx_ok(nxmem_mechanism_lose(mechanism, NULL, &error), &error);
  assert_int_equal(nxmem_plugin_try_unload(it.plugin, NULL, &error), NXMEM_ERR_BUSY);
  assert_int_equal(nxmem_mechanism_remove(mechanism, NULL, &error), NXMEM_ERR_BUSY);
  assert_int_equal(nx_fake_counts().calls, calls);
  nx_ok(nxmem_mechanism_confirm_terminated(mechanism, &error), &error);
  nx_ok(nxmem_binding_end(binding, 0, &error), &error);
  assert_int_equal(nx_stats(&it).device_lost, 0);
  nx_ok(nxmem_mechanism_remove(mechanism, NULL, &error), &error);
  assert_int_equal(nx_stats(&it).device_lost, 1); /* the sibling's, which has not called since */
  assert_int_equal(given_back(), 0);
  nx_ok(nxmem_allocator_close(it.allocator, 0, &error), &error);
  nx_ok(nxmem_plugin_try_unload(it.plugin, NULL, &error), &error);
  assert_int_equal(given_back(), 0);
  assert_int_equal(nx_fake_counts().calls_after_loss, 0);
  nx_ok(nxmem_authority_remove(authority, &error), &error);
  nx_ok(nxmem_context_remove(context, &error), &error);
  nx_ok(nxmem_registry_destroy(registry, &error), &error);
  nx_ok(nxmem_host_destroy(it.host, &error), &error);
}

/* At the process's end the driver is gone before the program gives back: that counts as given back, and no call follows. */
static void outlive_the_driver(void) {
  nxmem_error error;
  nxmem_unload_info info;
  nx_load_and_open(&it, "cuda-vmm-shared");
  nxmem_allocation span = nx_span(&it, 4, 4), other = nx_span(&it, 2, 2);
  nx_fake_schedule("end");
  nx_ok(nxmem_release(it.allocator, span, NULL, &error), &error);
  nx_ok(nxmem_release(it.allocator, other, NULL, &error), &error);
  nx_ok(nxmem_allocator_close(it.allocator, 0, &error), &error);
  nx_ok(nxmem_plugin_try_unload(it.plugin, &info, &error), &error);
  nx_ok(nxmem_host_destroy(it.host, &error), &error);
  assert_true(nx_fake_counts().calls_after_end <= 1); /* the one that said so */
}

static const char *self;

/* In a new image of this program: the driver of a forked child is none. */
static void in_a_process_of_its_own(const char *scene) {
  pid_t child = fork();
  if (child == 0) {
    execl(self, self, scene, (char *)NULL);
    _exit(126);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_lost_device_is_left_alone(void **state) {
  (void)state;
  in_a_process_of_its_own("lose");
}

static void a_confirmed_loss_lets_the_module_go(void **state) {
  (void)state;
  in_a_process_of_its_own("bury");
}

static void a_driver_that_ended_has_taken_everything(void **state) {
  (void)state;
  in_a_process_of_its_own("outlive");
}

static void run_scene(void **state) {
  if (strcmp(*state, "lose") == 0)
    lose_the_device();
  else if (strcmp(*state, "bury") == 0)
    bury_the_device();
  else
    outlive_the_driver();
}

static int scene(const char *name) {
  const struct CMUnitTest tests[] = {{name, run_scene, NULL, NULL, (void *)(uintptr_t)name}};
  cmocka_set_message_output(CM_OUTPUT_STDOUT); /* its rows are not the program's */
  if (freopen("/dev/null", "w", stdout) == NULL) return 125;
  return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

#define TEST(function) cmocka_unit_test_setup(function, set_up)

int main(int count, char **arguments) {
  self = arguments[0];
  if (count == 2) return scene(arguments[1]);
  const struct CMUnitTest tests[] = {
      TEST(a_lost_device_is_left_alone),
      TEST(a_confirmed_loss_lets_the_module_go),
      TEST(a_driver_that_ended_has_taken_everything),
  };
  return cmocka_run_group_tests_name("cuda_loss", tests, NULL, NULL);
}
