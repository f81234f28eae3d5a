/*
 * under_policy.c: load only what a policy names, byte for byte, and keep it within what that grants.
 *
 *     under_policy /absolute/path/policy.json /absolute/path/plugin.so
 *
 * Attackers: whoever can write to the plugin's file or to the policy; the plugin, as far as it is asked.
 * Promise: prints what was verified, what was not, and the limit refusing; 1 with the first refusal otherwise, and then nothing was loaded.
 */
#include <inttypes.h>
#include <nxmem_policy.h>
#include <stdio.h>
#include <stdlib.h>

static nxmem_error error;

static void must(nxmem_result result) {
  if (result == NXMEM_OK) return;
  fprintf(stderr, "%s\n", error.message);
  exit(1);
}

/* Of the plugin itself every byte was compared; of the libraries that it needs none was. */
static void show(const nxmem_policy_report *report) {
  printf("verified: sha256 %s%s%s\n", report->sha256, report->key_id[0] ? ", signed by " : "", report->key_id);
  printf("granted: %" PRIu64 " owned bytes\n", report->max_owned_bytes);
  for (uint32_t i = 0; i < report->dependency_count; i++) printf("not pinned: %s\n", report->dependencies[i]);
}

/* One byte more than it was granted; that is the policy's word, and no fault of the plugin's. */
static void ask_for_more(nxmem_plugin plugin, uint64_t granted) {
  nxmem_mechanism_info first;
  nxmem_allocator allocator;
  nxmem_allocation block;
  must(nxmem_plugin_mechanism(plugin, 0, &first, &error));
  must(nxmem_allocator_open(plugin, &(nxmem_open_options){.mechanism = first.name}, &allocator, &error));
  if (nxmem_allocate(allocator, granted + 1, 16, NULL, &block, &error) != NXMEM_ERR_OVER_LIMIT) exit(1);
  printf("%" PRIu64 " bytes: refused\n", granted + 1);
  must(nxmem_allocator_close(allocator, 0, &error));
}

int main(int count, char **arguments) {
  if (count != 3) return fputs("usage: under_policy POLICY PLUGIN\n", stderr), 2;
  nxmem_host host;
  nxmem_policy *policy = NULL;
  nxmem_policy_report *report = NULL;
  nxmem_plugin plugin;
  must(nxmem_policy_load(arguments[1], &policy, &error));
  must(nxmem_host_create(NULL, &host, &error));
  must(nxmem_policy_open(policy, host, arguments[2], &plugin, &report, &error));
  nxmem_policy_free(policy);
  show(report);
  ask_for_more(plugin, report->max_owned_bytes);
  nxmem_policy_report_free(report);
  must(nxmem_plugin_try_unload(plugin, NULL, &error));
  must(nxmem_host_destroy(host, &error));
  return 0;
}
