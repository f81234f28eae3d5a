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

void life_op_ask(const life_record *op) {
  const uint32_t which = op->a % LIFE_PLUGINS;
  switch (op->c % 3u) {
    case 0:
      ask_info(which);
      return;
    case 1:
      ask_mechanism(which, op->b);
      return;
    default:
      ask_symbol(which, op->b);
      return;
  }
}
