/*
 * plugin.c: which plugin serves, and when it is no longer to be called.
 *
 * Attackers: whoever sets the environment of a process with more rights than their own; a plugin that fails to load; threads that all come first.
 * Promise: one plugin, loaded whole or not at all; nothing of it is called once the process ends or in a forked child.
 */
#include "plugin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "blocks.h"
#include "counts.h"
#include "errors.h"
#include "latch.h"
#include "nxmem_torch.h"

#define PLUGIN_VARIABLE "NXMEM_TORCH_PLUGIN"
#define MECHANISM_VARIABLE "NXMEM_TORCH_MECHANISM"

static nx_torch_latch latch;
static nx_torch_plugin serving;
/* The environment is read once: where that gave a plugin, nobody asks again. */
static atomic_int environment_failed;

/* ---- The end ----------------------------------------------------------------------------------------------------- */

static atomic_int is_exiting, is_forked;

/* Runs before any library's destructors: those of the plugin are behind it. */
static void at_exit(void) { atomic_store(&is_exiting, 1); }
static void in_child(void) { atomic_store(&is_forked, 1); }

static int watch_the_end(void) {
  static atomic_int watched;
  if (atomic_exchange(&watched, 1) == 0) return atexit(at_exit) == 0 && pthread_atfork(NULL, NULL, in_child) == 0;
  return 1;
}

int nx_torch_is_late(void) {
  const int forked = atomic_load_explicit(&is_forked, memory_order_relaxed);
  if (!forked && !atomic_load_explicit(&is_exiting, memory_order_relaxed)) return 0;
  atomic_fetch_add(&nx_torch_counted.late_calls, 1u);
  if (forked)
    nx_torch_report(NX_TORCH_LATE, NULL,
                    "found a forked child of the process that loaded the plugin; start workers afresh");
  return 1;
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* The name that all mechanisms share. */
static nxmem_result only_name(nxmem_plugin plugin, char out[256], nxmem_error *error) {
  nxmem_mechanism_info first, other;
  nxmem_plugin_info info;
  nxmem_result r = nxmem_plugin_get_info(plugin, &info, error);
  if (r == NXMEM_OK) r = nxmem_plugin_mechanism(plugin, 0, &first, error);
  for (uint32_t i = 1; r == NXMEM_OK && i < info.mechanism_count; i++) {
    r = nxmem_plugin_mechanism(plugin, i, &other, error);
    if (r != NXMEM_OK || strcmp(first.name, other.name) == 0) continue;
    nx_torch_report(NX_TORCH_CONFIGURE, NULL, "found mechanisms %s and %s, need the name of one: set %s or pass it",
                    first.name, other.name, MECHANISM_VARIABLE);
    return NXMEM_ERR_UNKNOWN_MECHANISM;
  }
  if (r == NXMEM_OK)
    memcpy(out, first.name, sizeof first.name);
  else
    nx_torch_report(NX_TORCH_CONFIGURE, error, "choose a mechanism");
  return r;
}

/* One with this name at least; which devices it serves shows when they are opened. */
static nxmem_result named(nxmem_plugin plugin, const char *name, char out[256]) {
  nxmem_mechanism_info info;
  for (uint32_t i = 0; nxmem_plugin_mechanism(plugin, i, &info, NULL) == NXMEM_OK; i++) {
    if (strcmp(info.name, name) != 0) continue;
    memcpy(out, info.name, sizeof info.name);
    return NXMEM_OK;
  }
  nx_torch_report(NX_TORCH_CONFIGURE, NULL, "found no mechanism %.255s; 'nxmem run' lists what the plugin has", name);
  return NXMEM_ERR_UNKNOWN_MECHANISM;
}

static NxmemStreamFunction stream_function(nxmem_plugin plugin, const char *name) {
  void *address = NULL;
  NxmemStreamFunction function = NULL;
  if (nxmem_plugin_symbol(plugin, name, &address, NULL) == NXMEM_OK) memcpy(&function, &address, sizeof address);
  return function;
}

static nxmem_result open_plugin(nx_torch_plugin *made, const char *path, const char *mechanism) {
  nxmem_error error;
  nxmem_result r = nxmem_plugin_open(made->host, path, &made->plugin, &error);
  if (r != NXMEM_OK) {
    nx_torch_report(NX_TORCH_CONFIGURE, &error, "load the plugin");
    return r;
  }
  r = mechanism == NULL ? only_name(made->plugin, made->mechanism, &error)
                        : named(made->plugin, mechanism, made->mechanism);
  if (r != NXMEM_OK) {
    (void)!nxmem_plugin_destroy(made->plugin, NULL, NULL);
    return r;
  }
  made->add_stream = stream_function(made->plugin, NXMEM_ADD_STREAM_EXPORT);
  made->remove_stream = stream_function(made->plugin, NXMEM_REMOVE_STREAM_EXPORT);
  return NXMEM_OK;
}

static nxmem_result load(const char *path, const char *mechanism) {
  nxmem_error error;
  nx_torch_plugin made = {{0}, {0}, "", NULL, NULL};
  if (!watch_the_end()) {
    nx_torch_report(NX_TORCH_CONFIGURE, NULL, "found no room to be told of the process's end");
    return NXMEM_ERR_OUT_OF_MEMORY;
  }
  nxmem_result r = nxmem_host_create(NULL, &made.host, &error);
  if (r != NXMEM_OK) {
    nx_torch_report(NX_TORCH_CONFIGURE, &error, "create a host");
    return r;
  }
  r = open_plugin(&made, path, mechanism);
  if (r != NXMEM_OK) {
    (void)!nxmem_host_destroy(made.host, NULL);
    return r;
  }
  nx_torch_blocks_begin();
  serving = made;
  return NXMEM_OK;
}

/* ---- Who names it ------------------------------------------------------------------------------------------------ */

nxmem_result nxmem_torch_configure(const char *path, const char *mechanism) {
  if (nx_torch_is_late()) return NXMEM_ERR_FORKED;
  const nx_torch_turn turn = nx_torch_latch_enter(&latch, 0);
  if (turn != NX_TORCH_MINE) {
    nx_torch_report(NX_TORCH_CONFIGURE, NULL,
                    "found a plugin loaded already, or being loaded; name it before the first use");
    return NXMEM_ERR_BUSY;
  }
  const nxmem_result r = load(path, mechanism);
  nx_torch_latch_leave(&latch, r == NXMEM_OK);
  return r;
}

/* Why what the environment names is not taken; NULL: it is. */
static const char *why_not(const char *path) {
  if (getauxval(AT_SECURE) != 0) return "the environment of a process with more rights than its caller is not read";
  return path == NULL || path[0] == '\0' ? "it names no plugin" : NULL;
}

static int load_from_environment(void) {
  const char *path = getenv(PLUGIN_VARIABLE), *mechanism = getenv(MECHANISM_VARIABLE);
  const char *refused = why_not(path);
  if (refused != NULL) {
    nx_torch_report(NX_TORCH_CONFIGURE, NULL, "%s: %s; call nxmem_torch_configure()", PLUGIN_VARIABLE, refused);
    return 0;
  }
  return load(path, mechanism == NULL || mechanism[0] == '\0' ? NULL : mechanism) == NXMEM_OK;
}

const nx_torch_plugin *nx_torch_plugin_loaded(void) { return nx_torch_latch_is_done(&latch) ? &serving : NULL; }

static const nx_torch_plugin *refuse_first_use(const char *why) {
  nx_torch_report(NX_TORCH_CONFIGURE, NULL, "no plugin is loaded: %s", why);
  return NULL;
}

/* Of threads that come first together one reads the environment; where that came to nothing the others do not read it again. */
const nx_torch_plugin *nx_torch_plugin_get(void) {
  static const char failed[] = "what the environment names could not be; call nxmem_torch_configure()";
  if (nx_torch_latch_is_done(&latch)) return &serving;
  const nx_torch_turn turn = nx_torch_latch_enter(&latch, 1);
  if (turn == NX_TORCH_DONE) return &serving;
  if (turn == NX_TORCH_TAKEN_UP)
    return refuse_first_use("found a call from within the plugin while it is being loaded");
  const int is_second = atomic_exchange(&environment_failed, 1);
  const int loaded = !is_second && load_from_environment();
  nx_torch_latch_leave(&latch, loaded);
  if (loaded) return &serving;
  return is_second ? refuse_first_use(failed) : NULL;
}
