/*
 * scenario.c: reading a scenario, and opening what it names.
 * Attackers: the file, any bytes.
 * Promise: as in the header.
 */
#include "scenario.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text.h"
#include "words.h"

static int wrong(nx_scenario *s, const char *where, const char *what) {
  char *shown = nx_show_text(where);
  (void)snprintf(s->why, sizeof s->why, "%.480s: %.1023s", shown, what);
  free(shown);
  return -1;
}

static int failed(nx_scenario *s, const char *where, const nxmem_error *error) {
  return wrong(s, where, error->message);
}

nx_named *nx_named_find(nx_names *names, const char *name) {
  for (uint32_t i = 0; name != NULL && i < names->count; i++)
    if (strcmp(names->entries[i].name, name) == 0) return &names->entries[i];
  return NULL;
}

static nx_named *add(nx_scenario *s, nx_names *names, const char *name) {
  if (names->count == NX_SCENARIO_MAX) {
    (void)wrong(s, name, "found more than 32 of its kind");
    return NULL;
  }
  nx_named *entry = &names->entries[names->count++];
  *entry = (nx_named){.name = name};
  return entry;
}

int nx_number_read(nx_scenario *s, const json_t *object, const char *key, const char *where, uint64_t *out) {
  const json_t *value = json_object_get(object, key);
  if (value == NULL) return 0;
  if (!json_is_integer(value) || json_integer_value(value) < 0)
    return wrong(s, where, "need whole numbers from 0 to 9223372036854775807");
  *out = (uint64_t)json_integer_value(value);
  return 0;
}

/* A word that is misspelt would go unheard. `known` ends with NULL. */
int nx_keys_check(nx_scenario *s, json_t *object, const char *where, const char *const *known) {
  const char *key = NULL;
  json_t *value = NULL;
  if (!json_is_object(object)) return wrong(s, where, "need an object");
  json_object_foreach(object, key, value) {
    uint32_t i = 0;
    while (known[i] != NULL && strcmp(known[i], key) != 0) i++;
    if (known[i] == NULL) return wrong(s, key, "the key is unknown here");
  }
  return 0;
}

static const char *const SCENARIO_KEYS[] = {"plugins", "authorities", "limits", "mechanisms", "steps", NULL};
static const char *const AUTHORITY_KEYS[] = {"tier", "budget", NULL};
static const char *const MECHANISM_KEYS[] = {"plugin", "mechanism", "authority", NULL};
const char *const NX_AXES_KEYS[] = {"charged", "physical", "mapped", NULL};

/* An axis that is not named stays as it was. */
int nx_axes_read(nx_scenario *s, json_t *value, const char *where, nxmem_axes *out) {
  if (nx_keys_check(s, value, where, NX_AXES_KEYS)) return -1;
  if (nx_number_read(s, value, "charged", where, &out->charged) ||
      nx_number_read(s, value, "physical", where, &out->physical))
    return -1;
  return nx_number_read(s, value, "mapped", where, &out->mapped);
}

int nx_tier_read(nx_scenario *s, const json_t *value, const char *where, uint32_t *out) {
  const char *word = json_string_value(value);
  for (uint32_t i = 0; word != NULL && i < NX_TIERS; i++) {
    if (strcmp(word, NX_TIER_WORD[i]) != 0) continue;
    *out = i;
    return 0;
  }
  return wrong(s, where, "need a tier: device, host or disk");
}

/* A FIFO would keep us waiting, and a scenario is small. */
static int open_file(nx_scenario *s, const char *path) {
  struct stat status;
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return wrong(s, "open", strerror(errno));
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= NX_SCENARIO_BYTES) return fd;
  (void)close(fd);
  return wrong(s, "open", "need a regular file of at most 16 MiB");
}

int nx_scenario_read(nx_scenario *s, const char *path) {
  json_error_t why;
  const int fd = open_file(s, path);
  if (fd < 0) return -1;
  s->document = json_loadfd(fd, JSON_REJECT_DUPLICATES, &why);
  (void)close(fd);
  if (s->document == NULL) {
    char text[64];
    (void)snprintf(text, sizeof text, "line %d, column %d", why.line, why.column);
    return wrong(s, text, why.text);
  }
  return nx_keys_check(s, s->document, "scenario", SCENARIO_KEYS);
}

void nx_scenario_free(nx_scenario *s) { json_decref(s->document); }

/* ---- What it names ----------------------------------------------------------------------------------------------- */

static int open_plugin(nx_scenario *s, const char *name, json_t *value) {
  nxmem_error error;
  char path[4096];
  nx_named *entry = add(s, &s->plugins, name);
  const char *file = json_string_value(value);
  if (entry == NULL) return -1;
  if (file == NULL) return wrong(s, name, "need the path of a plugin");
  const int size =
      file[0] == '/' ? snprintf(path, sizeof path, "%s", file) : snprintf(path, sizeof path, "%s/%s", s->folder, file);
  if (size < 0 || (size_t)size >= sizeof path) return wrong(s, name, "the path is too long");
  return nxmem_plugin_open(s->host, path, &entry->plugin, &error) == NXMEM_OK ? 0 : failed(s, name, &error);
}

static int open_authority(nx_scenario *s, const char *name, json_t *value) {
  nxmem_error error;
  nxmem_axes budget = NXMEM_AXES_UNLIMITED;
  uint32_t tier = 0;
  nx_named *entry = add(s, &s->authorities, name);
  if (entry == NULL || nx_keys_check(s, value, name, AUTHORITY_KEYS)) return -1;
  if (nx_tier_read(s, json_object_get(value, "tier"), name, &tier)) return -1;
  json_t *named = json_object_get(value, "budget");
  if (named != NULL && nx_axes_read(s, named, name, &budget)) return -1;
  if (nxmem_authority_create(s->registry, &entry->authority, &error) != NXMEM_OK) return failed(s, name, &error);
  return nxmem_manager_add_authority(s->manager, entry->authority, tier, &budget, &error) == NXMEM_OK
             ? 0
             : failed(s, name, &error);
}

static int open_mechanism(nx_scenario *s, const char *name, json_t *value) {
  nxmem_error error;
  nx_named *entry = add(s, &s->mechanisms, name);
  const nx_named *plugin = nx_named_find(&s->plugins, json_string_value(json_object_get(value, "plugin")));
  const nx_named *authority = nx_named_find(&s->authorities, json_string_value(json_object_get(value, "authority")));
  const nxmem_open_options options = {.mechanism = json_string_value(json_object_get(value, "mechanism"))};
  if (entry == NULL || nx_keys_check(s, value, name, MECHANISM_KEYS)) return -1;
  if (plugin == NULL || authority == NULL || options.mechanism == NULL)
    return wrong(s, name, "need plugin and authority that are named above, and a mechanism of the plugin");
  entry->of = (uint32_t)(authority - s->authorities.entries);
  if (nxmem_mechanism_register(s->context, authority->authority, plugin->plugin, &options, &entry->mechanism, &error) !=
          NXMEM_OK ||
      nxmem_bind_mechanism(entry->mechanism, &entry->binding, &error) != NXMEM_OK)
    return failed(s, name, &error);
  return 0;
}

static int set_limit(nx_scenario *s, const char *name, json_t *value) {
  nxmem_error error;
  nxmem_axes limit = NXMEM_AXES_UNLIMITED;
  uint32_t tier = 0;
  json_t *word = json_string(name);
  const int unknown = nx_tier_read(s, word, name, &tier);
  json_decref(word);
  if (unknown || nx_axes_read(s, value, name, &limit)) return -1;
  return nxmem_manager_set_limit(s->manager, tier, &limit, NULL, &error) == NXMEM_OK ? 0 : failed(s, name, &error);
}

typedef int (*open_fn)(nx_scenario *s, const char *name, json_t *value);

static int each(nx_scenario *s, const char *key, open_fn open) {
  json_t *all = json_object_get(s->document, key), *value = NULL;
  const char *name = NULL;
  if (all == NULL) return 0;
  if (!json_is_object(all)) return wrong(s, key, "need an object");
  json_object_foreach(all, name, value) if (open(s, name, value)) return -1;
  return 0;
}

int nx_scenario_open(nx_scenario *s) {
  nxmem_error error;
  if (nxmem_host_create(NULL, &s->host, &error) != NXMEM_OK ||
      nxmem_registry_create(&s->registry, &error) != NXMEM_OK ||
      nxmem_context_create(s->registry, &s->context, &error) != NXMEM_OK ||
      nxmem_manager_create(&s->manager, &error) != NXMEM_OK)
    return failed(s, "open", &error);
  if (each(s, "plugins", open_plugin) || each(s, "authorities", open_authority)) return -1;
  return each(s, "limits", set_limit) || each(s, "mechanisms", open_mechanism) ? -1 : 0;
}
