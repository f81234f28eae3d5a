/* The plugin that serves: named by the program or the environment, loaded once, never unloaded. Private to the adapter. */
#ifndef NX_TORCH_PLUGIN_H
#define NX_TORCH_PLUGIN_H

#include "nxmem.h"
#include "nxmem/streams.h"

typedef struct nx_torch_plugin {
  nxmem_host host;
  nxmem_plugin plugin;
  char mechanism[256];
  NxmemStreamFunction add_stream; /* NULL: not exported */
  NxmemStreamFunction remove_stream;
} nx_torch_plugin;

/* The plugin, loaded from the environment where nobody has named one; NULL: reported. */
const nx_torch_plugin *nx_torch_plugin_get(void);

/* The plugin where it is loaded, else NULL. */
const nx_torch_plugin *nx_torch_plugin_loaded(void);

/* 1 once exit() has begun or in a forked child: the plugin is not to be called any more. Counted and reported. */
int nx_torch_is_late(void);

#endif /* NX_TORCH_PLUGIN_H */
