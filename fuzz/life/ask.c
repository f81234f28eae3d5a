/*
 * ask.c: what a caller asks of a loaded plugin: what it agreed to, what it publishes, what else it exports.
 * Attackers: callers with stale handles, indices behind the last, names of the contract's own exports; a plugin that
 * agreed to something strange.
 * Promise: the answers are those of the negotiation and the enumeration as the model saw them.
 */
#include <string.h>

#include "life.h"

static nxmem_result entry_of(uint32_t which) {
  if (!it.plugin_open[which]) return NXMEM_ERR_STALE_HANDLE;
  return it.module.state == MODULE_LIVE ? NXMEM_OK : NXMEM_ERR_BUSY;
}

static void ask_info(uint32_t which) {
  nxmem_plugin_info info;
  memset(&info, FUZZ_CANARY, sizeof info);
  const nxmem_result entry = entry_of(which);
  life_same_result("plugin info", nxmem_plugin_get_info(it.plugins[which], &info, NULL), entry);
  if (entry != NXMEM_OK) {
    life_expect(fuzz_untouched(&info, sizeof info), "plugin info: refused, and something is written");
    return;
  }
  fuzz_same_number("life, minor agreed to", info.agreed_minor, it.module.minor);
  fuzz_same_number("life, capabilities agreed to", info.capability_flags, it.module.caps);
  fuzz_same_number("life, mechanisms", info.mechanism_count, it.module.factory_count);
  fuzz_same_number("life, references", info.references, it.module.references);
}

static void ask_mechanism(uint32_t which, uint32_t index) {
  nxmem_mechanism_info info;
  nxmem_result expected = entry_of(which);
  if (expected == NXMEM_OK && index >= it.module.factory_count) expected = NXMEM_ERR_UNKNOWN_MECHANISM;
  life_same_result("mechanism info", nxmem_plugin_mechanism(it.plugins[which], index, &info, NULL), expected);
  if (expected != NXMEM_OK) return;
  const life_factory *f = &it.factories[it.module.listed[index]];
  fuzz_same_number("life, tier of a mechanism", info.device.tier, f->device.tier);
  fuzz_same_number("life, index of a mechanism", info.device.index, f->device.index);
  life_expect(strcmp(info.name, f->name) == 0, "mechanism info: another name");
}

static void ask_symbol(uint32_t which, uint32_t kind) {
  static const struct {
    const char *name;
    nxmem_result result;
  } names[] = {
      {"nxmem_fuzz_beside", NXMEM_OK},
      {"NxmemNegotiate", NXMEM_ERR_INVALID_ARGUMENT},
      {"NxmemQueryUnloadReadiness", NXMEM_ERR_INVALID_ARGUMENT},
      {"nxmem_fuzz_nothing", NXMEM_ERR_MISSING_SYMBOL},
      {"malloc", NXMEM_ERR_MISSING_SYMBOL}, /* of a library that it needs */
      {"", NXMEM_ERR_INVALID_ARGUMENT},
  };
  const uint32_t i = kind % (uint32_t)(sizeof names / sizeof names[0]);
  const nxmem_result entry = names[i].name[0] == '\0' ? NXMEM_OK : entry_of(which);
  void *address = NULL;
  const nxmem_result found = nxmem_plugin_symbol(it.plugins[which], names[i].name, &address, NULL);
  life_same_result("plugin symbol", found, entry != NXMEM_OK ? entry : names[i].result);
  life_expect((found == NXMEM_OK) == (address != NULL), "plugin symbol: whether an address is written");
}

/* ---- What no caller may ask -------------------------------------------------------------------------------------- */

static nxmem_result host_with(const nxmem_host_options *options) {
  nxmem_host host = {0};
  const nxmem_result result = nxmem_host_create(options, &host, NULL);
  life_expect(host.id == 0, "create host: refused, and a handle is written");
  return result;
}

static nxmem_result bad_host(uint32_t kind) {
  nxmem_host_options options;
  nxmem_host_options_default(&options);
  if (kind == 0) options.range.minor_max = options.range.minor_min - 1u;
  if (kind == 1) options.range.major_max = 2;
  if (kind == 2) options.range.minor_max++;
  if (kind == 3) options.capability_flags = 2; /* without the allocator */
  if (kind == 4) options.capability_flags |= 1ull << 63;
  if (kind == 5) options.fetch = (nxmem_fetch_mode)7;
  if (kind == 6) options.overlap = (nxmem_overlap_check)7;
  return kind == 7 ? nxmem_host_create(&options, NULL, NULL) : host_with(&options);
}

/* Whatever is asked of an allocator or a prefix without a place for the answer, or about nothing. */
static nxmem_result bad_call(uint32_t kind, uint32_t which) {
  static const nxmem_pin_source half = {.pin = NULL, .unpin = NULL};
  const nxmem_open_options pinned = {.mechanism = "life", .pins = &half};
  const nxmem_allocator a = it.allocators[which % LIFE_ALLOCATORS].handle;
  nxmem_allocation nobody = {0};
  nxmem_allocator opened;
  nxmem_group_outcome outcome;
  uint64_t out = 0;
  if (kind == 0) return nxmem_allocator_open(it.plugins[which], NULL, &opened, NULL);
  if (kind == 1) return nxmem_allocator_open(it.plugins[which], &pinned, &opened, NULL);
  if (kind == 2) return nxmem_cost_of_ranges(a, nobody, NULL, 0, &out, NULL);
  if (kind == 3) return nxmem_prefix_commit((nxmem_prefix){0}, &nobody, 0, 0, &outcome, NULL);
  if (kind == 4) return nxmem_host_violations(it.host, NULL, 0, NULL, NULL);
  if (kind == 5) return nxmem_host_quarantine(it.host, 0, NULL, 1, NULL, NULL, NULL);
  if (kind == 6) return nxmem_plugin_get_info(it.plugins[which], NULL, NULL);
  return nxmem_plugin_mechanism(it.plugins[which], 0, NULL, NULL);
}

static void ask_badly(uint32_t which, uint32_t kind) {
  const nxmem_result found = kind % 16u < 8u ? bad_host(kind % 8u) : bad_call(kind % 8u, which);
  life_same_result("an argument that no caller may give", found, NXMEM_ERR_INVALID_ARGUMENT);
}

void life_op_ask(const life_record *op) {
  const uint32_t which = op->a % LIFE_PLUGINS;
  switch (op->c % 4u) {
    case 0:
      ask_info(which);
      return;
    case 1:
      ask_mechanism(which, op->b);
      return;
    case 2:
      ask_badly(which, op->b);
      return;
    default:
      ask_symbol(which, op->b);
      return;
  }
}
