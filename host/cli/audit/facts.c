/*
 * facts.c: reading the facts of an image.
 * Attackers: every byte of the image.
 * Promise: names stay pointers into the image, so many symbols of one long name cost no copies; what is read is paid
 * for (nx_elf_spend), so a file cannot keep us.
 */
#include "audit/facts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

void *nx_audit_grow(void *items, size_t *room, size_t count, size_t bytes) {
  if (count < *room) return items;
  *room = *room ? *room * 2 : 16;
  void *more = reallocarray(items, *room, bytes);
  if (!more) nx_out_of_memory();
  return more;
}

static void add_string(nx_audit_strings *strings, const char *text) {
  strings->items = nx_audit_grow(strings->items, &strings->room, strings->count, sizeof *strings->items);
  strings->items[strings->count++] = text;
}

static void add_symbol(nx_audit_symbols *symbols, const GElf_Sym *symbol, const char *name) {
  symbols->items = nx_audit_grow(symbols->items, &symbols->room, symbols->count, sizeof *symbols->items);
  symbols->items[symbols->count++] = (nx_audit_symbol){.name = name,
                                                       .bytes = symbol->st_size,
                                                       .type = (uint8_t)GELF_ST_TYPE(symbol->st_info),
                                                       .binding = (uint8_t)GELF_ST_BIND(symbol->st_info)};
}

/* ---- What is kept ------------------------------------------------------------------------------------------------ */

/* Of names that are shown later, each escaped: symbols may share one, so no bound on the file bounds them. */
enum { NAMES_BYTES_MAX = 64 << 20 };

static int keep(nx_audit_facts *out, const char *name, nx_problem *why) {
  out->name_bytes += strlen(name);
  if (out->name_bytes <= NAMES_BYTES_MAX) return 0;
  return nx_refuse(why, "found names of more than %d bytes, need fewer; this is no plugin, or it is damaged",
                   NAMES_BYTES_MAX);
}

/* ---- Symbols ----------------------------------------------------------------------------------------------------- */

static void take_symbol(const GElf_Sym *symbol, const char *name, nx_audit_facts *out) {
  nx_export_state state = nx_symbol_state(symbol);
  if (!*name || state == NX_EXPORT_HIDDEN) return;
  add_symbol(state == NX_EXPORT_UNDEFINED ? &out->imports : &out->exports, symbol, name);
}

static int by_name(const void *left, const void *right) {
  const nx_audit_symbol *a = left, *b = right;
  int order = a->name == b->name ? 0 : strcmp(a->name, b->name);
  if (order) return order;
  return a->name < b->name ? -1 : a->name > b->name;
}

static void sort(nx_audit_symbols *symbols) {
  if (symbols->count) qsort(symbols->items, symbols->count, sizeof *symbols->items, by_name);
}

/* Sorting compares names: beyond this many, a long common start of theirs would keep us. No plugin comes near. */
enum { SYMBOLS_MAX = 1 << 20, NAME_BYTES_MAX = 1 << 16 };

static int read_symbols(const nx_dynamic *dynamic, nx_audit_facts *out, nx_problem *why) {
  Elf_Data *table = NULL;
  uint64_t count = 0;
  GElf_Sym symbol;
  if (nx_dynamic_symbols(dynamic, &table, &count, why)) return -1;
  if (table && count > SYMBOLS_MAX)
    return nx_refuse(why, "found %" PRIu64 " symbols, need at most %d; this is no plugin, or it is damaged", count,
                     SYMBOLS_MAX);
  for (uint64_t i = 1; table && i < count; i++) {
    if (!gelf_getsym(table, (int)i, &symbol)) return nx_refuse(why, "symbol %" PRIu64 " is not readable", i);
    if (GELF_ST_BIND(symbol.st_info) == STB_LOCAL) continue;
    const char *name = nx_dynamic_string(dynamic, symbol.st_name, why);
    if (!name) return -1;
    if (strnlen(name, NAME_BYTES_MAX) == NAME_BYTES_MAX)
      return nx_refuse(why,
                       "found a symbol's name of %d bytes or more, need fewer; this is no plugin, or it is damaged",
                       NAME_BYTES_MAX);
    if (keep(out, name, why)) return -1;
    take_symbol(&symbol, name, out);
  }
  return 0;
}

/* ---- Dynamic entries --------------------------------------------------------------------------------------------- */

static nx_audit_strings *list_of(nx_audit_facts *out, int64_t tag) {
  switch (tag) {
    case DT_NEEDED:
      return &out->needed;
    case DT_FILTER:
    case DT_AUXILIARY:
    case DT_AUDIT:
    case DT_DEPAUDIT:
      return &out->filters;
    default:
      return NULL;
  }
}

static int read_lists(const nx_dynamic *dynamic, nx_audit_facts *out, nx_problem *why) {
  GElf_Dyn entry;
  for (size_t i = 0; i < dynamic->count; i++) {
    if (!gelf_getdyn(dynamic->entries, (int)i, &entry)) continue;
    nx_audit_strings *list = list_of(out, entry.d_tag);
    if (!list) continue;
    const char *text = nx_dynamic_string(dynamic, entry.d_un.d_val, why);
    if (!text || keep(out, text, why)) return -1;
    add_string(list, text);
  }
  return 0;
}

static void read_marks(const nx_dynamic *dynamic, nx_audit_facts *out) {
  uint64_t flags = 0, ignored;
  nx_dynamic_find(dynamic, DT_FLAGS_1, &flags);
  nx_dynamic_find(dynamic, DT_PREINIT_ARRAYSZ, &out->preinit_bytes);
  if (!out->preinit_bytes && nx_dynamic_find(dynamic, DT_PREINIT_ARRAY, &ignored)) out->preinit_bytes = 1;
  out->global = (flags & DF_1_GLOBAL) != 0;
  out->interpose = (flags & DF_1_INTERPOSE) != 0;
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

static int read_more(nx_audit_facts *out, nx_problem *why) {
  nx_dynamic dynamic = {.file = &out->elf};
  if (nx_dynamic_read(&dynamic, why)) return -1;
  read_marks(&dynamic, out);
  if (read_lists(&dynamic, out, why) || read_symbols(&dynamic, out, why)) return -1;
  if (nx_audit_read_versions(&dynamic, out, why)) return -1;
  nx_audit_read_startup(&dynamic, out);
  sort(&out->exports);
  sort(&out->imports);
  return 0;
}

int nx_audit_facts_read(uint8_t *image, uint64_t size, nx_audit_facts *out, nx_problem *why) {
  memset(out, 0, sizeof *out);
  if (nx_elf_begin_image(image, size, &out->elf, why)) return -1;
  if (!nx_facts_of_elf(&out->elf, &out->base, why) && !read_more(out, why)) return 0;
  nx_audit_facts_free(out);
  return -1;
}

void nx_audit_facts_free(nx_audit_facts *facts) {
  free(facts->exports.items);
  free(facts->imports.items);
  free(facts->needs.items);
  free(facts->defines.items);
  free(facts->needed.items);
  free(facts->filters.items);
  nx_facts_free(&facts->base);
  nx_elf_end(&facts->elf);
  memset(facts, 0, sizeof *facts);
}

int nx_audit_is_plugin(const nx_audit_facts *facts) {
  for (int i = 0; i < NX_EXPORTS; i++)
    if (facts->base.exports[i] != NX_EXPORT_MISSING && facts->base.exports[i] != NX_EXPORT_UNDEFINED) return 1;
  return 0;
}
