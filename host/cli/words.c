/*
 * words.c: names for the library's numbers.
 * Attackers: numbers from a plugin (unknown bits, unknown tiers).
 * Promise: every bit and every tier is shown, known or not.
 */
#include "words.h"

#include <inttypes.h>

#include "text.h"

const char *const NX_TIER_WORD[NX_TIERS] = {
    [NXMEM_TIER_DEVICE] = "device", [NXMEM_TIER_HOST] = "host", [NXMEM_TIER_DISK] = "disk"};

/* By bit. */
static const char *const CAPABILITY_WORD[] = {"allocator", "virtual-backing", "shared-mapping", "deferred-release",
                                              "structured-release"};

enum { KNOWN_CAPABILITIES = sizeof CAPABILITY_WORD / sizeof CAPABILITY_WORD[0], FLAG_BITS = 64 };

void nx_set_capabilities(json_t *row, const char *key, uint64_t flags) {
  char unknown[16];
  json_t *names = json_array();
  if (!names) nx_out_of_memory();
  for (int bit = 0; bit < FLAG_BITS; bit++) {
    if (!(flags >> bit & 1)) continue;
    snprintf(unknown, sizeof unknown, "bit-%d", bit);
    nx_append_text(names, bit < KNOWN_CAPABILITIES ? CAPABILITY_WORD[bit] : unknown);
  }
  nx_set(row, key, names);
}

void nx_device_word(NxmemDeviceId device, char out[NX_DEVICE_WORD]) {
  if (device.tier < NX_TIERS) {
    snprintf(out, NX_DEVICE_WORD, "%s:%" PRIu32, NX_TIER_WORD[device.tier], device.index);
  } else {
    snprintf(out, NX_DEVICE_WORD, "%" PRIu32 ":%" PRIu32, device.tier, device.index);
  }
}

void nx_set_device(json_t *row, NxmemDeviceId device) {
  char text[NX_DEVICE_WORD];
  nx_device_word(device, text);
  nx_set_text(row, "device", text);
}

void nx_set_range(json_t *row, const char *key, const NxmemVersionRange *range) {
  char text[64];
  snprintf(text, sizeof text, "%" PRIu32 ".%" PRIu32 "..%" PRIu32 ".%" PRIu32, range->major_min, range->minor_min,
           range->major_max, range->minor_max);
  nx_set_text(row, key, text);
}

void nx_set_result(json_t *row, nxmem_result result) { nx_set_text(row, "result", nxmem_result_name(result)); }

void nx_set_error(json_t *row, const nxmem_error *error) {
  json_t *codes = json_object();
  if (!codes) nx_out_of_memory();
  nx_set_text(codes, "result", nxmem_result_name(error->result));
  if (error->reason) nx_set_number(codes, "reason", error->reason);
  if (error->reason) nx_set_text(codes, "reason_text", nxmem_reason_text(error->reason));
  nx_set_text(codes, "plugin_status", nxmem_status_name(error->plugin_status));
  nx_set_number(codes, "field", error->field);
  nx_set_number(codes, "found", error->found);
  nx_set_number(codes, "needed", error->needed);
  nx_set_text(codes, "message", error->message);
  nx_set_result(row, error->result);
  nx_set(row, "error", codes);
}
