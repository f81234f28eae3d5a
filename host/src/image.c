/*
 * image.c: dlopen, dlsym, dlclose, and an honest look afterwards.
 *
 * Attackers: a file without the exports, one that borrows them from a dependency, one that cannot be unmapped.
 * Promise: a refused file leaves no mapping and no reference; "unmapped" is said only after looking.
 */
#include "image.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* POSIX lets a data pointer from dlsym stand for a function; ISO C has no cast for it. */
_Static_assert(sizeof(void *) == sizeof(nx_negotiate_fn), "function pointers fit");

/* The address of a function that this very object defines, or NULL. */
static void *own_symbol(void *dl, const struct link_map *map, const char *name) {
  void *symbol = dlsym(dl, name);
  Dl_info info;
  struct link_map *definer = NULL;
  if (symbol == NULL || dladdr1(symbol, &info, (void **)&definer, RTLD_DL_LINKMAP) == 0) return NULL;
  return definer == map ? symbol : NULL;
}

static int resolve(void *dl, const struct link_map *map, const char *name, void *function_out) {
  void *symbol = own_symbol(dl, map, name);
  if (symbol == NULL) return 0;
  memcpy(function_out, &symbol, sizeof symbol);
  return 1;
}

/* The name of the first export that is missing, or NULL when all are there. */
static const char *resolve_exports(nx_image *image, const struct link_map *map) {
  if (!resolve(image->dl, map, "NxmemNegotiate", &image->negotiate)) return "NxmemNegotiate";
  if (!resolve(image->dl, map, "NxmemCreateAllocatorFactories", &image->create_factories))
    return "NxmemCreateAllocatorFactories";
  if (!resolve(image->dl, map, "NxmemQueryUnloadReadiness", &image->query_unload)) return "NxmemQueryUnloadReadiness";
  return NULL;
}

static nxmem_result fill(nx_image *image, const char *path, nxmem_error *error) {
  struct link_map *map = NULL;
  if (dlinfo(image->dl, RTLD_DI_LINKMAP, &map) != 0 || map == NULL)
    return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "load %s: the loader does not say where it is", path);
  const char *missing = resolve_exports(image, map);
  if (missing != NULL)
    return nx_fail(error, NXMEM_ERR_MISSING_SYMBOL, "load %s: resolve: export %s is missing, needed all three", path,
                   missing);
  image->base = (uintptr_t)map->l_addr;
  image->path = strdup(map->l_name);
  if (image->path == NULL) return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "load %s: no memory for its record", path);
  return NXMEM_OK;
}

nxmem_result nx_image_open(const char *path, nx_image *out, nxmem_error *error) {
  nx_image image = {0};
  image.dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (image.dl == NULL) {
    const char *why = dlerror();
    return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "load %s: %s", path, why == NULL ? "the loader gives no reason" : why);
  }
  const nxmem_result filled = fill(&image, path, error);
  if (filled != NXMEM_OK) {
    (void)dlclose(image.dl);
    return filled;
  }
  *out = image;
  return NXMEM_OK;
}

static int is_this_image(struct dl_phdr_info *info, size_t size, void *wanted) {
  (void)size;
  const nx_image *image = wanted;
  return (uintptr_t)info->dlpi_addr == image->base && info->dlpi_name != NULL &&
         strcmp(info->dlpi_name, image->path) == 0;
}

void nx_image_abandon(nx_image *image) {
  free(image->path);
  image->path = NULL;
}

int nx_image_close(nx_image *image) {
  (void)dlclose(image->dl);
  const int gone = dl_iterate_phdr(is_this_image, image) == 0;
  nx_image_abandon(image);
  return gone;
}
