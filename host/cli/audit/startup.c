/*
 * startup.c: entries that the loader calls, and the relocations that decide what they are.
 * Attackers: as in the header.
 * Promise: as in the header; each table is read as often as there are few entries, and paid for.
 */
#include "audit/startup.h"

#include <string.h>

/* ---- Relocations ------------------------------------------------------------------------------------------------- */

/* The numbers of one processor. */
typedef struct numbers {
  uint16_t machine;
  uint32_t relative, slot, call, copy, pair;
} numbers;

static const numbers KNOWN[] = {
    {EM_X86_64, R_X86_64_RELATIVE, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, R_X86_64_COPY, 36},
    {EM_AARCH64, R_AARCH64_RELATIVE, R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT, R_AARCH64_COPY, R_AARCH64_TLSDESC}};

/* Looking for what is written to one word. */
typedef struct looking {
  const nx_dynamic *dynamic;
  const numbers *of;
  uint64_t address, hits;
  nx_audit_relocated found;
} looking;

enum { WORD = sizeof(Elf64_Addr) };

static int reaches(const looking *at, const Elf64_Rela *one) {
  const uint64_t length = ELF64_R_TYPE(one->r_info) == at->of->pair ? 2 * WORD : WORD;
  return one->r_offset < at->address + WORD && at->address < one->r_offset + length;
}

/* `relative`: the loader takes it for one whatever it says (DT_RELACOUNT). */
static void take(looking *at, const Elf64_Rela *one, int relative) {
  const uint32_t type = ELF64_R_TYPE(one->r_info);
  if (type == at->of->copy) at->hits += 2; /* of any length: it may write anywhere */
  if (!reaches(at, one)) return;
  at->hits++;
  if (one->r_offset != at->address) return;
  if (relative || type == at->of->relative)
    at->found = (nx_audit_relocated){NX_WORD_ADDRESS, (uint64_t)one->r_addend};
  else if (type == at->of->slot || type == at->of->call)
    at->found = (nx_audit_relocated){NX_WORD_SYMBOL, ELF64_R_SYM(one->r_info)};
}

static int look_through(looking *at, int64_t table_tag, int64_t size_tag, uint64_t relative) {
  Elf64_Rela some[1024];
  nx_problem ignored;
  uint64_t address = 0, size = 0;
  if (!nx_dynamic_find(at->dynamic, table_tag, &address) || !nx_dynamic_find(at->dynamic, size_tag, &size)) return 0;
  for (uint64_t left = size / sizeof some[0], now, done = 0; left; left -= now, address += now * sizeof some[0]) {
    now = left < sizeof some / sizeof some[0] ? left : sizeof some / sizeof some[0];
    if (nx_elf_bytes(at->dynamic->file, address, some, now * sizeof some[0], "relocation table", &ignored)) return -1;
    for (uint64_t i = 0; i < now; i++) take(at, &some[i], done++ < relative);
  }
  return 0;
}

/* What stands in the file is the address then. */
static void take_packed(looking *at, uint64_t where) {
  nx_problem ignored;
  const Elf64_Rela one = {.r_offset = where, .r_info = ELF64_R_INFO(0, at->of->relative)};
  if (!reaches(at, &one)) return;
  take(at, &one, 1);
  if (where == at->address &&
      nx_elf_bytes(at->dynamic->file, where, &at->found.value, WORD, "word that is relocated", &ignored))
    at->found.kind = NX_WORD_UNKNOWN;
}

/* DT_RELR: an even word is an address, an odd one says which of the 63 words behind it follow. */
static int look_through_packed(looking *at) {
  uint64_t some[1024], address = 0, size = 0, next = 0;
  nx_problem ignored;
  if (!nx_dynamic_find(at->dynamic, DT_RELR, &address) || !nx_dynamic_find(at->dynamic, DT_RELRSZ, &size)) return 0;
  for (uint64_t left = size / WORD, now; left; left -= now, address += now * WORD) {
    now = left < sizeof some / WORD ? left : sizeof some / WORD;
    if (nx_elf_bytes(at->dynamic->file, address, some, now * WORD, "relocation table", &ignored)) return -1;
    for (uint64_t i = 0; i < now; i++) {
      const int single = !(some[i] & 1);
      if (single) take_packed(at, some[i]);
      for (uint64_t bit = 1; !single && bit < 64; bit++)
        if (some[i] >> bit & 1) take_packed(at, next + (bit - 1) * WORD);
      next = single ? some[i] + WORD : next + 63 * WORD;
    }
  }
  return 0;
}

static const numbers *numbers_of(uint16_t machine) {
  for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
    if (KNOWN[i].machine == machine) return &KNOWN[i];
  return NULL;
}

nx_audit_relocated nx_audit_relocated_word(const nx_dynamic *dynamic, uint64_t address) {
  const nx_audit_relocated unknown = {NX_WORD_UNKNOWN, 0};
  looking at = {dynamic, numbers_of(dynamic->file->header.e_machine), address, 0, unknown};
  uint64_t relative = 0;
  if (!at.of) return unknown;
  nx_dynamic_find(dynamic, DT_RELACOUNT, &relative);
  if (look_through(&at, DT_RELA, DT_RELASZ, relative) || look_through(&at, DT_JMPREL, DT_PLTRELSZ, 0) ||
      look_through_packed(&at))
    return unknown;
  return at.hits == 1 ? at.found : unknown;
}

int nx_audit_is_bound_to(const nx_dynamic *dynamic, uint64_t address, const char *name) {
  const nx_audit_relocated word = nx_audit_relocated_word(dynamic, address);
  uint64_t table = 0;
  Elf64_Sym symbol;
  nx_problem ignored;
  if (word.kind != NX_WORD_SYMBOL || !nx_dynamic_find(dynamic, DT_SYMTAB, &table)) return 0;
  if (nx_elf_bytes(dynamic->file, table + word.value * sizeof symbol, &symbol, sizeof symbol, "symbol", &ignored))
    return 0;
  const char *found = nx_dynamic_string(dynamic, symbol.st_name, &ignored);
  return found && symbol.st_shndx == SHN_UNDEF && !strcmp(found, name);
}

/* ---- Entries ----------------------------------------------------------------------------------------------------- */

static void add(nx_audit_calls *calls, const char *where, const nx_audit_relocated *word) {
  const size_t at = (size_t)calls->count++;
  if (at < NX_AUDIT_CALLS_KEPT) calls->kept[at] = (nx_audit_call){where, word->value, word->kind == NX_WORD_ADDRESS};
}

static void read_function(const nx_dynamic *dynamic, int64_t tag, const char *where, nx_audit_calls *out) {
  nx_audit_relocated word = {NX_WORD_ADDRESS, 0};
  if (!nx_dynamic_find(dynamic, tag, &word.value)) return;
  if (!nx_audit_is_compilers_own(dynamic, word.value)) add(out, where, &word);
}

/* The compiler's own is among the first; behind those nobody looks. */
enum { LOOKED_AT = NX_AUDIT_CALLS_KEPT + 1 };

static void read_array(const nx_dynamic *dynamic, int64_t tag, uint64_t count, const char *where, nx_audit_calls *out) {
  const nx_audit_relocated unknown = {NX_WORD_UNKNOWN, 0};
  uint64_t address = 0;
  nx_dynamic_find(dynamic, tag, &address);
  for (uint64_t i = 0; i < count && i < LOOKED_AT; i++) {
    const nx_audit_relocated word = nx_audit_relocated_word(dynamic, address + i * WORD);
    const int own = word.kind == NX_WORD_ADDRESS && nx_audit_is_compilers_own(dynamic, word.value);
    if (!own) add(out, where, &word);
  }
  for (uint64_t i = LOOKED_AT; i < count; i++) add(out, where, &unknown);
}

void nx_audit_read_startup(const nx_dynamic *dynamic, nx_audit_facts *out) {
  read_function(dynamic, DT_INIT, "DT_INIT", &out->at_load);
  read_array(dynamic, DT_INIT_ARRAY, out->base.init_array, "DT_INIT_ARRAY", &out->at_load);
  read_array(dynamic, DT_FINI_ARRAY, out->base.fini_array, "DT_FINI_ARRAY", &out->at_unload);
  read_function(dynamic, DT_FINI, "DT_FINI", &out->at_unload);
}
