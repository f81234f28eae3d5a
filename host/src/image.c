/*
 * image.c: dlopen, dlsym, dlclose, and an honest look afterwards.
 *
 * Attackers: a file without the exports, one whose exports are data, one that borrows them from a dependency, one that cannot be unmapped.
 * Promise: a refused file leaves no mapping and no reference; "unmapped" is said only after looking.
 */
#include "image.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "mapping.h"

/* POSIX lets a data pointer from dlsym stand for a function; ISO C has no cast for it. */
_Static_assert(sizeof(void *) == sizeof(nx_negotiate_fn), "function pointers fit");

/* What the loader's tables say about a name. */
typedef enum export_state { EXPORT_FUNCTION, EXPORT_MISSING, EXPORT_NO_FUNCTION } export_state;

/* Data would be jumped into. A type is what the file says: hand-written code may carry none. */
static int is_data(const void *symbol, const Dl_info *info, const ElfW(Sym) * entry) {
  if (entry == NULL || info->dli_saddr != symbol) return 0;
  const int type = ELF64_ST_TYPE(entry->st_info);
  return type == STT_OBJECT || type == STT_COMMON;
}

/* Where an object begins is its name in memory; only for one whose first page is not at its base the loader is asked. */
static int is_of(const struct link_map *map, const void *symbol, const Dl_info *info) {
  if ((uintptr_t)info->dli_fbase == map->l_addr) return 1;
  Dl_info unused;
  struct link_map *definer = NULL;
  return dladdr1(symbol, &unused, (void **)&definer, RTLD_DL_LINKMAP) != 0 && definer == map;
}

/* A function that this very object defines: a dependency's is not its own. */
static export_state resolve(void *dl, const struct link_map *map, const char *name, void *function_out) {
  void *symbol = dlsym(dl, name);
  Dl_info info;
  const ElfW(Sym) *entry = NULL;
  if (symbol == NULL || dladdr1(symbol, &info, (void **)&entry, RTLD_DL_SYMENT) == 0 || !is_of(map, symbol, &info))
    return EXPORT_MISSING;
  if (is_data(symbol, &info, entry)) return EXPORT_NO_FUNCTION;
  memcpy(function_out, &symbol, sizeof symbol);
  return EXPORT_FUNCTION;
}

/* The contract's three, and where an image keeps each. */
enum { EXPORTS = 3 };
typedef struct export {
  const char *name;
  void *function_out;
}
export;

static void exports_of(nx_image *image, export out[EXPORTS]) {
  out[0] = (export){"NxmemNegotiate", &image->negotiate};
  out[1] = (export){"NxmemCreateAllocatorFactories", &image->create_factories};
  out[2] = (export){"NxmemQueryUnloadReadiness", &image->query_unload};
}

static nxmem_result resolve_exports(nx_image *image, const struct link_map *map, const char *path, nxmem_error *error) {
  export exports[EXPORTS];
  exports_of(image, exports);
  for (size_t i = 0; i < EXPORTS; i++) {
    const export_state found = resolve(image->dl, map, exports[i].name, exports[i].function_out);
    if (found == EXPORT_FUNCTION) continue;
    return nx_fail(error, NXMEM_ERR_MISSING_SYMBOL, "load %s: resolve: export %s is %s", path, exports[i].name,
                   found == EXPORT_MISSING ? "missing, needed all three" : "no function, needed one to call");
  }
  return NXMEM_OK;
}

/* What the loader has under a name, before and after it is asked for it. */
static int has_name(struct dl_phdr_info *info, size_t size, void *wanted) {
  (void)size;
  return info->dlpi_name != NULL && strcmp(info->dlpi_name, *(const char **)wanted) == 0;
}
static int is_loaded(const char *path) { return dl_iterate_phdr(has_name, &path) != 0; }

/* A name, and where the headers of what has it lie. */
typedef struct named {
  const char *name;
  const void *headers;
} named;

static int note_name(struct dl_phdr_info *info, size_t size, void *with) {
  (void)size;
  named *n = with;
  if (info->dlpi_name == NULL || strcmp(info->dlpi_name, n->name) != 0) return 0;
  n->headers = info->dlpi_phdr;
  return 1;
}

int nx_image_is_mapped(const char *path, const nx_file_identity *file) {
  named n = {path, NULL};
  return dl_iterate_phdr(note_name, &n) != 0 && nx_mapping_is(n.headers, file);
}

/*
 * Is the library that the loader answered with the file that was checked: under the name it goes by, and by what is mapped? What it had not before under this very
 * name it has just opened by it; only of what was there already must be asked what file it once was. A pinned file has a number for a name, which may be anybody's: there
 * the mapping must say that it is the one.
 */
static int is_checked_file(const struct link_map *map, const nx_source *source, int was_loaded) {
  const nx_file_identity *file = &source->file;
  struct stat found;
  if (stat(map->l_name, &found) != 0) return 0;
  if ((uint64_t)found.st_dev != file->device || (uint64_t)found.st_ino != file->inode) return 0;
  if (source->pin != NULL) return nx_mapping_is(map->l_ld, file);
  if (!was_loaded && strcmp(map->l_name, source->path) == 0) return 1;
  return nx_mapping_may_be(map->l_ld, map->l_name, file);
}

static nxmem_result another_file(const struct link_map *map, const char *path, nxmem_error *error) {
  static const nx_context context = {NX_RECORD_SAID, "unload that first, or load this one under a name of its own"};
  return nx_fail_in(error, NXMEM_ERR_CANNOT_OPEN, (nxmem_verdict){NXMEM_REASON_NONE, 0, 0, 0}, context,
                    "load %s: the loader answered with an earlier or another file that is loaded as %s", path,
                    map->l_name);
}

static nxmem_result fill(nx_image *image, const nx_source *source, int was_loaded, nxmem_error *error) {
  struct link_map *map = NULL;
  if (dlinfo(image->dl, RTLD_DI_LINKMAP, &map) != 0 || map == NULL)
    return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "load %s: the loader does not say where it is", source->shown);
  if (!is_checked_file(map, source, was_loaded)) return another_file(map, source->shown, error);
  const nxmem_result resolved = resolve_exports(image, map, source->shown, error);
  if (resolved != NXMEM_OK) return resolved;
  image->base = (uintptr_t)map->l_addr;
  image->path = strdup(map->l_name);
  if (image->path == NULL)
    return nx_fail(error, NXMEM_ERR_OUT_OF_MEMORY, "load %s: no memory for its record", source->shown);
  return NXMEM_OK;
}

/* The loader begins with the file's name where it knows it; the message has it already. */
static nxmem_result refuse_load(const nx_source *source, nxmem_error *error) {
  const char *why = dlerror();
  if (why == NULL) why = "the loader gives no reason";
  const size_t length = strlen(source->path);
  if (strncmp(why, source->path, length) == 0 && strncmp(why + length, ": ", 2) == 0) why += length + 2;
  return nx_fail(error, NXMEM_ERR_CANNOT_OPEN, "load %s: %s%s", source->shown, why,
                 strstr(why, "undefined symbol") == NULL ? "" : " (linked with -Wl,-z,defs it would not have built)");
}

nxmem_result nx_image_open(const nx_source *source, nx_image *out, nxmem_error *error) {
  nx_image image = {0};
  const int was_loaded = is_loaded(source->path);
  image.dl = dlopen(source->path, RTLD_NOW | RTLD_LOCAL);
  if (image.dl == NULL) return refuse_load(source, error);
  const nxmem_result filled = fill(&image, source, was_loaded, error);
  if (filled != NXMEM_OK) {
    (void)dlclose(image.dl);
    return filled;
  }
  *out = image;
  return NXMEM_OK;
}

/* By name, and by address: an alias of one of the three is one of them. */
static int is_contract(const nx_image *image, const char *name, const void *symbol) {
  nx_image copy = *image;
  export exports[EXPORTS];
  exports_of(&copy, exports);
  for (size_t i = 0; i < EXPORTS; i++) {
    if (strcmp(exports[i].name, name) == 0 || memcmp(exports[i].function_out, &symbol, sizeof symbol) == 0) return 1;
  }
  return 0;
}

/* A thread-local or absolute symbol leads to no address of the image, and so counts as missing. */
nxmem_result nx_image_symbol(const nx_image *image, const char *name, void **out, nxmem_error *error) {
  static const nx_context of_contract = {NX_RECORD_SAID, "call the host's own functions instead"};
  static const nx_context absent = {NX_RECORD_SAID, "look at what the plugin exports ('nxmem inspect')"};
  struct link_map *map = NULL;
  Dl_info info;
  void *symbol = dlsym(image->dl, name);
  if (is_contract(image, name, symbol))
    return nx_fail_in(error, NXMEM_ERR_INVALID_ARGUMENT, (nxmem_verdict){NXMEM_REASON_NONE, 0, 0, 0}, of_contract,
                      "plugin symbol %s: it is one of the contract's three exports, which the host alone calls", name);
  if (symbol == NULL || dladdr(symbol, &info) == 0 || dlinfo(image->dl, RTLD_DI_LINKMAP, &map) != 0 ||
      !is_of(map, symbol, &info))
    return nx_fail_in(error, NXMEM_ERR_MISSING_SYMBOL, (nxmem_verdict){NXMEM_REASON_NONE, 0, 0, 0}, absent,
                      "plugin symbol %s: found no such export of %s itself", name, image->path);
  *out = symbol;
  return NXMEM_OK;
}

static int is_this_image(struct dl_phdr_info *info, size_t size, void *wanted) {
  (void)size;
  const nx_image *image = *(const nx_image **)wanted;
  return (uintptr_t)info->dlpi_addr == image->base && info->dlpi_name != NULL &&
         strcmp(info->dlpi_name, image->path) == 0;
}

int nx_image_close(const nx_image *image) {
  (void)dlclose(image->dl);
  return dl_iterate_phdr(is_this_image, &image) == 0;
}

void nx_image_forget(nx_image *image) {
  free(image->path);
  image->path = NULL;
}
