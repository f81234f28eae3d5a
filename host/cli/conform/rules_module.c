/*
 * rules_module.c: rules about the file: it loads, exports what it must, and goes again.
 * Attackers: constructors, destructors, linker flags.
 * Promise: each rule looks at one thing.
 */

#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>

#include "conform/families.h"
#include "conform/plugin.h"
#include "conform/usage.h"

static void *open_module(nx_trial *trial) {
  nx_enter("dlopen");
  void *module = dlopen(trial->path, RTLD_NOW | RTLD_LOCAL);
  NX_GIVEN(module, "not loaded: %s", dlerror());
  return module;
}

static void loads(nx_trial *trial, const void *with) {
  (void)with;
  nx_enter("dlopen");
  NX_EXPECT(dlopen(trial->path, RTLD_NOW | RTLD_LOCAL), "%s", dlerror());
  nx_seen("loaded");
}

static void exports(nx_trial *trial, const void *with) {
  void *address = dlsym(open_module(trial), with);
  Dl_info info;
  NX_EXPECT(address, "%s is not exported: give it default visibility and C linkage", (const char *)with);
  NX_EXPECT(nx_is_executable(address), "%s is exported, but is no function", (const char *)with);
  NX_EXPECT(dladdr(address, &info) && info.dli_sname, "%s lies in no library", (const char *)with);
  nx_seen("exported");
}

static void unloads(nx_trial *trial, const void *with) {
  (void)with;
  nx_mapped_file file = nx_mapped_as(trial->path);
  void *module = open_module(trial);
  nx_enter("dlclose");
  NX_EXPECT(dlclose(module) == 0, "%s", dlerror());
  NX_EXPECT(nx_is_mapped(&file) == 0, "still mapped: nodelete, a unique symbol, or a thread-local destructor");
  nx_seen("gone after dlclose");
}

/* The honest life of a module, without any allocator. */
static void live_and_go(nx_trial *trial) {
  nx_plugin_ready(trial);
  nx_plugin_release_factories(trial);
  nx_enter("dlclose");
  NX_GIVEN(dlclose(trial->module) == 0, "%s", dlerror());
}

static void unloads_after_use(nx_trial *trial, const void *with) {
  (void)with;
  nx_mapped_file file = nx_mapped_as(trial->path);
  live_and_go(trial);
  NX_EXPECT(nx_is_mapped(&file) == 0, "still mapped after its factories were released");
  nx_seen("gone after its factories were released");
}

/* A load costs as much as many blocks. */
enum { CYCLES_PER_LOAD = 32 };

static void load_cycles(nx_trial *trial, const void *with) {
  (void)with;
  uint32_t cycles = nx_cycles(trial, CYCLES_PER_LOAD);
  for (uint32_t i = 0; i <= cycles / 10; i++) live_and_go(trial);
  nx_usage before = nx_usage_now();
  for (uint32_t i = 0; i < cycles; i++) live_and_go(trial);
  nx_usage_judge(&before, cycles, "load, negotiate, enumerate, unload");
}

static void constructor_is_quiet(nx_trial *trial, const void *with) {
  (void)with;
  nx_usage before = nx_usage_now();
  open_module(trial);
  nx_usage after = nx_usage_now();
  NX_EXPECT(after.threads == before.threads, "loading starts %" PRIu64 " threads", after.threads - before.threads);
  NX_EXPECT(after.descriptors == before.descriptors, "loading opens %" PRIu64 " descriptors",
            after.descriptors - before.descriptors);
  nx_seen("no thread and no descriptor");
}

#define MODULE(name, text, need, function, argument)                                                    \
  {                                                                                                     \
    .id = (name), .statement = (text), .section = "Exports", .scope = NX_SCOPE_MODULE, .needs = (need), \
    .check = (function), .with = (argument)                                                             \
  }

static const nx_rule RULES[] = {
    MODULE("NX-MOD-001", "The library loads with every symbol resolved", NULL, loads, NULL),
    MODULE("NX-MOD-002", "NxmemNegotiate is an exported function", "NX-MOD-001", exports, "NxmemNegotiate"),
    MODULE("NX-MOD-003", "NxmemCreateAllocatorFactories is an exported function", "NX-MOD-001", exports,
           "NxmemCreateAllocatorFactories"),
    MODULE("NX-MOD-004", "NxmemQueryUnloadReadiness is an exported function", "NX-MOD-001", exports,
           "NxmemQueryUnloadReadiness"),
    MODULE("NX-MOD-005", "A library that was not used is gone after dlclose", "NX-MOD-001", unloads, NULL),
    {.id = "NX-MOD-008",
     .statement = "Loading starts no thread and opens no descriptor",
     .section = "Threads",
     .severity = NX_SEVERITY_WARNING,
     .needs = "NX-MOD-001",
     .check = constructor_is_quiet},
};

/* What rests on the list of factories. */
static const nx_rule LIFE_RULES[] = {
    MODULE("NX-MOD-006", "A library whose factories were released is gone after dlclose", "NX-ENU-018",
           unloads_after_use, NULL),
    MODULE("NX-MOD-007", "Loading and unloading again and again uses up no memory and no descriptors", "NX-MOD-006",
           load_cycles, NULL),
};

const nx_family nx_module_life_rules =
    NX_FAMILY("module life", "Loading and unloading a module that was used", LIFE_RULES);

const nx_family nx_module_rules = NX_FAMILY("module", "The file: loading, exports, unloading", RULES);
