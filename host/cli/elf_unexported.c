/*
 * elf_unexported.c: exports that a file defines and does not export, from the symbol table that only linkers read.
 * Attackers: section headers, symbols and strings that lie about counts and offsets.
 * Promise: every range is bounded by the file before use; what cannot be read adds nothing, never a wrong word.
 */
#include <stdio.h>
#include <string.h>

#include "elf_read.h"

/* Itanium C++ ABI: a name is its length and its letters, after the prefix and any namespaces. */
int nx_is_mangled(const char *name, int export) {
  char part[64];
  snprintf(part, sizeof part, "%zu%s", strlen(NX_EXPORT_NAME[export]), NX_EXPORT_NAME[export]);
  return !strncmp(name, "_Z", 2) && strstr(name, part) != NULL;
}

/* The symbol table's section and that of its names; both lie inside `sections`. */
static int find_sections(const Elf_Data *sections, const Elf64_Shdr **symbols, const Elf64_Shdr **names) {
  const Elf64_Shdr *section = sections->d_buf;
  size_t count = sections->d_size / sizeof *section;
  for (size_t i = 0; i < count; i++) {
    if (section[i].sh_type != SHT_SYMTAB || section[i].sh_link >= count) continue;
    *symbols = &section[i];
    *names = &section[section[i].sh_link];
    return 0;
  }
  return -1;
}

static void take_unexported(const char *name, nx_facts *out) {
  for (int i = 0; i < NX_EXPORTS; i++) {
    if (out->exports[i] != NX_EXPORT_MISSING) continue;
    if (!strcmp(name, NX_EXPORT_NAME[i])) out->exports[i] = NX_EXPORT_HIDDEN;
    if (!nx_is_mangled(name, i)) continue;
    out->exports[i] = NX_EXPORT_MANGLED;
    out->mangled[i] = nx_copy(name);
  }
}

/* Names are followed only into a table that ends in NUL. */
static void take_symbols(nx_elf *file, Elf_Data *symbols, const Elf_Data *names, nx_facts *out) {
  const char *text = names->d_buf;
  nx_problem ignored;
  GElf_Sym symbol;
  if (text[names->d_size - 1] != '\0') return;
  for (size_t i = 0; i < symbols->d_size / sizeof(Elf64_Sym); i++) {
    if (!gelf_getsym(symbols, (int)i, &symbol)) return;
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names->d_size) continue;
    if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
    if (nx_elf_spend(file, strlen(text + symbol.st_name), &ignored)) return;
    take_unexported(text + symbol.st_name, out);
  }
}

static void read_symbol_table(nx_elf *file, nx_facts *out) {
  const GElf_Ehdr *header = &file->header;
  const Elf64_Shdr *symbols = NULL, *names = NULL;
  if (header->e_shentsize != sizeof *symbols) return;
  Elf_Data *sections = nx_elf_chunk(file, header->e_shoff, header->e_shnum * sizeof *symbols, ELF_T_SHDR);
  if (!sections || find_sections(sections, &symbols, &names)) return;
  Elf_Data *table = nx_elf_chunk(file, symbols->sh_offset, symbols->sh_size, ELF_T_SYM);
  Elf_Data *text = nx_elf_chunk(file, names->sh_offset, names->sh_size, ELF_T_BYTE);
  if (table && text) take_symbols(file, table, text, out);
}

void nx_read_unexported(nx_elf *file, nx_facts *out) {
  int missing = 0;
  for (int i = 0; i < NX_EXPORTS; i++) {
    if (out->exports[i] != NX_EXPORT_MISSING) continue;
    if (out->mangled[i]) out->exports[i] = NX_EXPORT_MANGLED;
    missing |= !out->mangled[i];
  }
  if (missing) read_symbol_table(file, out);
}
