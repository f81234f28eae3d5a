/*
 * plugin.c: plugin handles: opening, asking, unloading, giving up.
 *
 * Attackers: callers with stale handles or racing unloads; a plugin that re-enters from any of its exports.
 * Promise: one handle is one reference; it goes exactly once, whoever asks.
 */
#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "image.h"
#include "module.h"
#include "nxmem/count.h"
#include "nxmem_policy.h"

_Static_assert(NXMEM_UNLIMITED == NXMEM_TOTAL_MAX, "no limit is the most that any total may be");

/* Of a plugin that nobody pinned. */
static const nx_terms no_limits = {UINT64_MAX, NXMEM_TOTAL_MAX, NXMEM_TOTAL_MAX};

static void show_handle(nx_plugin *plugin, nx_module *module, nxmem_plugin *out) {
  atomic_store_explicit(&plugin->module, module->slot.self, memory_order_relaxed);
  out->id = nx_slot_handle(&plugin->slot);
  nx_slot_set(&plugin->slot, NXMEM_SLOT_LIVE);
}

/* The handle's slot is taken before the module: once the plugin is loaded, nothing can fail any more. */
static nxmem_result open_source(nx_host *host, const nx_source *source, nxmem_plugin *out, nxmem_error *error) {
  nx_plugin *plugin = (nx_plugin *)(void *)nx_table_take(&nx_plugins);
  if (plugin == NULL)
    return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "open plugin %s: no room for another handle", source->shown);
  nx_module *module = NULL;
  const nxmem_result r = nx_module_acquire(host, source, &module, error);
  if (r == NXMEM_OK)
    show_handle(plugin, module, out);
  else
    nx_table_give(&nx_plugins, &plugin->slot);
  return r;
}

/* What a caller asks to be opened: a path, or sealed bytes. */
typedef struct asked {
  const char *path; /* NULL: sealed bytes */
  int fd;
  const nxmem_sealed_options *options;
} asked;

static nxmem_result open_path(nx_host *host, const asked *ask, nxmem_plugin *out, nxmem_error *error) {
  nx_source source = {.path = ask->path, .shown = ask->path, .terms = no_limits};
  const nxmem_result r = nx_file_check(ask->path, &source.file, error);
  return r == NXMEM_OK ? open_source(host, &source, out, error) : r;
}

static nxmem_result refuse_terms(const char *name, const char *why, nxmem_error *error) {
  return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "open %s: %s", name, why);
}

static nxmem_result check_terms(const nx_terms *terms, const char *name, nxmem_error *error) {
  if ((terms->capability_flags & NXMEM_CAP_ALLOCATOR) == 0)
    return refuse_terms(name, "the ceiling lacks ALLOCATOR, without which nothing can be agreed", error);
  if (terms->owned_max > NXMEM_TOTAL_MAX || terms->mapped_max > NXMEM_TOTAL_MAX)
    return refuse_terms(name, "a limit of bytes is above NXMEM_UNLIMITED", error);
  return NXMEM_OK;
}

/* The pin is the call's until the module is a user of its own. */
static nxmem_result open_sealed(nx_host *host, const asked *ask, nxmem_plugin *out, nxmem_error *error) {
  const nxmem_sealed_options *o = ask->options;
  nx_source source = {.shown = o == NULL || o->name == NULL ? "sealed file" : o->name, .terms = no_limits};
  if (o != NULL) source.terms = (nx_terms){o->capability_flags, o->max_owned_bytes, o->max_mapped_bytes};
  nxmem_result r = check_terms(&source.terms, source.shown, error);
  if (r == NXMEM_OK) r = nx_pin_take(ask->fd, source.shown, &source.pin, error);
  if (r != NXMEM_OK) return r;
  source.path = source.pin->path;
  source.file = source.pin->file;
  r = open_source(host, &source, out, error);
  nx_pin_give(source.pin);
  return r;
}

typedef nxmem_result (*open_fn)(nx_host *host, const asked *ask, nxmem_plugin *out, nxmem_error *error);

/* Counted first, looked at second, like every other pin: a host that is destroyed meanwhile sees the count, or we see its state. */
static nxmem_result open_counted(nxmem_host handle, open_fn open, const asked *ask, nxmem_plugin *out,
                                 nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "open plugin: out is NULL");
  nx_host *host = NULL;
  nxmem_result r = nx_host_find(handle, &host, error);
  if (r != NXMEM_OK) return r;
  atomic_fetch_add(&host->open_plugins, 1u);
  r = nx_host_find(handle, &host, error);
  if (r == NXMEM_OK) r = open(host, ask, out, error);
  if (r != NXMEM_OK) atomic_fetch_sub(&host->open_plugins, 1u);
  return r;
}

nxmem_result nxmem_plugin_open(nxmem_host handle, const char *path, nxmem_plugin *out, nxmem_error *error) {
  return open_counted(handle, open_path, &(asked){.path = path}, out, error);
}

nxmem_result nxmem_plugin_open_sealed(nxmem_host handle, int fd, const nxmem_sealed_options *options, nxmem_plugin *out,
                                      nxmem_error *error) {
  return open_counted(handle, open_sealed, &(asked){.fd = fd, .options = options}, out, error);
}

nxmem_result nxmem_plugin_get_info(nxmem_plugin handle, nxmem_plugin_info *out, nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "plugin info: out is NULL");
  nx_module *module = NULL;
  const nxmem_result r = nx_plugin_enter(handle, &module, error);
  if (r != NXMEM_OK) return r;
  const nxmem_plugin_info info = {
      .agreed_major = module->agreed.agreed_major,
      .agreed_minor = module->agreed.agreed_minor,
      .plugin_range = module->agreed.plugin_range,
      .capability_flags = module->agreed.capability_flags,
      .mechanism_count = module->factory_count,
      .left_out = module->left_out,
      .references = nx_module_references(module),
  };
  nx_plugin_leave(module);
  *out = info;
  return NXMEM_OK;
}

nxmem_result nxmem_plugin_mechanism(nxmem_plugin handle, uint32_t index, nxmem_mechanism_info *out,
                                    nxmem_error *error) {
  if (out == NULL) return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "mechanism info: out is NULL");
  nx_module *module = NULL;
  nxmem_result r = nx_plugin_enter(handle, &module, error);
  if (r != NXMEM_OK) return r;
  if (index < module->factory_count) {
    const nx_factory *factory = &module->factories[index];
    memcpy(out->name, factory->name, sizeof out->name);
    out->device = factory->table.device;
    out->advertised_flags = factory->table.capability_flags;
    out->abi_minor = factory->table.abi_minor;
  } else {
    r = nx_fail(error, NXMEM_ERR_UNKNOWN_MECHANISM, "mechanism %" PRIu32 ": the plugin publishes %" PRIu32, index,
                module->factory_count);
  }
  nx_plugin_leave(module);
  return r;
}

nxmem_result nxmem_plugin_symbol(nxmem_plugin handle, const char *name, void **address_out, nxmem_error *error) {
  if (name == NULL || name[0] == '\0' || address_out == NULL)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "plugin symbol: %s",
                   address_out == NULL ? "address_out is NULL" : "found no name");
  nx_module *module = NULL;
  nxmem_result r = nx_plugin_enter(handle, &module, error);
  if (r != NXMEM_OK) return r;
  r = nx_image_symbol(&module->image, name, address_out, error);
  nx_plugin_leave(module);
  return r;
}

/*
 * Take a plugin handle out of everybody's hands: LIVE → RELEASING. Its module is not pinned: the claimed handle's reference holds it,
 * and the pin would stand in the way of the very unload it is for.
 */
static nxmem_result claim(nxmem_plugin handle, nx_plugin **plugin_out, nx_module **module_out, nxmem_error *error) {
  nx_module *module = NULL;
  const nxmem_result r = nx_plugin_enter(handle, &module, error);
  if (r != NXMEM_OK) return r;
  nx_plugin *plugin = (nx_plugin *)(void *)nx_table_find(&nx_plugins, handle.id);
  const int claimed = nx_slot_move(&plugin->slot, handle.id, NXMEM_SLOT_LIVE, NXMEM_SLOT_RELEASING);
  nx_plugin_leave(module);
  if (!claimed) return nx_fail(error, NXMEM_ERR_BUSY, "unload: another thread is unloading through the same handle");
  *plugin_out = plugin;
  *module_out = module;
  return NXMEM_OK;
}

static void give_handle(nx_plugin *plugin, nx_host *host) {
  nx_table_give(&nx_plugins, &plugin->slot);
  atomic_fetch_sub(&host->open_plugins, 1u);
}

nxmem_result nxmem_plugin_try_unload(nxmem_plugin handle, nxmem_unload_info *info_out, nxmem_error *error) {
  nx_plugin *plugin = NULL;
  nx_module *module = NULL;
  nxmem_result r = claim(handle, &plugin, &module, error);
  if (r != NXMEM_OK) return r;
  nx_host *host = nx_host_of(module->host);
  nxmem_unload_info info;
  memset(&info, 0, sizeof info);
  r = nx_module_try_release(module, &info, error);
  if (r == NXMEM_OK)
    give_handle(plugin, host);
  else
    nx_slot_set(&plugin->slot, NXMEM_SLOT_LIVE);
  if (info_out != NULL) *info_out = info;
  return r;
}

nxmem_result nxmem_plugin_destroy(nxmem_plugin handle, nxmem_unload_info *info_out, nxmem_error *error) {
  nx_plugin *plugin = NULL;
  nx_module *module = NULL;
  nxmem_result r = claim(handle, &plugin, &module, error);
  if (r != NXMEM_OK) return r;
  nx_host *host = nx_host_of(module->host);
  nxmem_unload_info info;
  memset(&info, 0, sizeof info);
  r = nx_module_try_release(module, &info, error);
  if (r != NXMEM_OK && info.reason == NXMEM_REASON_NONE) { /* not even asked: another thread is at it */
    nx_slot_set(&plugin->slot, NXMEM_SLOT_LIVE);
    return r;
  }
  if (r != NXMEM_OK) nx_module_drop(host, module, &info);
  give_handle(plugin, host);
  if (info_out != NULL) *info_out = info;
  return NXMEM_OK;
}
