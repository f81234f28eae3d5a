/*
 * elf_symbols.c: what a plugin file exports, and what its symbols and relocations make the loader do.
 * Attackers: hash tables, symbols and relocations that lie about counts and offsets.
 * Promise: the number of symbols comes from the hash table and the relocations, as for the loader; each word read is
 * inside a loaded segment and paid for (nx_elf_spend), so a file cannot keep us.
 */
#include <inttypes.h>
#include <string.h>

#include "elf_read.h"

/* ---- How many symbols -------------------------------------------------------------------------------------------- */

/* DT_GNU_HASH: four words, a Bloom filter of 8-byte words, buckets, then one chain word per symbol from `first` on. */
typedef struct gnu_hash {
  uint32_t buckets;
  uint32_t first;
  uint32_t bloom_words;
  uint32_t bloom_shift;
} gnu_hash;

/* Each read looks through every segment first. */
enum { WORDS_AT_ONCE = 16384 };

/* Their table must fit a chunk; more buckets or chain words than symbols are of no use to anybody. */
enum { SYMBOLS_MAX = NX_CHUNK_MAX / sizeof(Elf64_Sym) };

static int check_count(uint64_t count, const char *what, nx_problem *why) {
  if (count <= SYMBOLS_MAX) return 0;
  return nx_refuse(why, "found more than %d %s, need fewer; this is no plugin, or it is damaged", (int)SYMBOLS_MAX,
                   what);
}

static int highest_bucket(nx_elf *file, uint64_t address, uint32_t buckets, uint32_t *highest, nx_problem *why) {
  uint32_t words[WORDS_AT_ONCE];
  if (check_count(buckets, "buckets of a hash table", why)) return -1;
  for (uint32_t done = 0; done < buckets;) {
    uint32_t some = buckets - done < WORDS_AT_ONCE ? buckets - done : WORDS_AT_ONCE;
    if (nx_elf_bytes(file, address + 4ull * done, words, 4ull * some, "hash table", why)) return -1;
    for (uint32_t i = 0; i < some; i++) *highest = words[i] > *highest ? words[i] : *highest;
    done += some;
  }
  return 0;
}

/* The highest chain ends at the first odd word; the symbol there is the last one. */
static int chain_end(nx_elf *file, uint64_t chain, uint32_t start, uint64_t *last, nx_problem *why) {
  uint64_t offset = 0, room = 0;
  uint32_t words[WORDS_AT_ONCE];
  for (uint64_t at = start, some = 0;; at += some) {
    if (check_count(at, "chain words of a hash table", why)) return -1;
    if (nx_elf_locate(file, chain + 4 * at, &offset, &room) || room < 4) {
      return nx_refuse(why, "found a hash chain without an end; the file is damaged, build or copy it again");
    }
    some = room / 4 < WORDS_AT_ONCE ? room / 4 : WORDS_AT_ONCE;
    if (nx_elf_bytes(file, chain + 4 * at, words, 4 * some, "hash table", why)) return -1;
    for (uint64_t i = 0; i < some; i++) {
      if (!(words[i] & 1)) continue;
      *last = at + i;
      return 0;
    }
  }
}

static int count_by_gnu_hash(nx_elf *file, uint64_t address, uint64_t *count, nx_problem *why) {
  gnu_hash head;
  uint32_t highest = 0;
  uint64_t last = 0;
  if (nx_elf_bytes(file, address, &head, sizeof head, "hash table", why)) return -1;
  uint64_t buckets = address + sizeof head + 8ull * head.bloom_words;
  if (highest_bucket(file, buckets, head.buckets, &highest, why)) return -1;
  *count = head.first;
  if (highest < head.first) return 0;
  if (chain_end(file, buckets + 4ull * head.buckets, highest - head.first, &last, why)) return -1;
  *count = head.first + last + 1;
  return 0;
}

/* DT_HASH: number of buckets, number of chain words; the latter is the number of symbols. */
static int count_by_sysv_hash(nx_elf *file, uint64_t address, uint64_t *count, nx_problem *why) {
  uint32_t head[2];
  if (nx_elf_bytes(file, address, head, sizeof head, "hash table", why)) return -1;
  *count = head[1];
  return 0;
}

/* Without a hash table the loader finds nothing. */
static int count_symbols(const nx_dynamic *dynamic, uint64_t *count, nx_problem *why) {
  uint64_t address = 0;
  *count = 0;
  if (nx_dynamic_find(dynamic, DT_GNU_HASH, &address)) return count_by_gnu_hash(dynamic->file, address, count, why);
  if (nx_dynamic_find(dynamic, DT_HASH, &address)) return count_by_sysv_hash(dynamic->file, address, count, why);
  return 0;
}

/* ---- Symbols ----------------------------------------------------------------------------------------------------- */

nx_export_state nx_symbol_state(const GElf_Sym *symbol) {
  int visibility = GELF_ST_VISIBILITY(symbol->st_other), type = GELF_ST_TYPE(symbol->st_info);
  if (symbol->st_shndx == SHN_UNDEF) return NX_EXPORT_UNDEFINED;
  if (visibility != STV_DEFAULT && visibility != STV_PROTECTED) return NX_EXPORT_HIDDEN;
  if (type == STT_GNU_IFUNC) return NX_EXPORT_INDIRECT;
  return type == STT_FUNC || type == STT_NOTYPE ? NX_EXPORT_FUNCTION : NX_EXPORT_NO_FUNCTION;
}

static int is_visible(nx_export_state state) {
  return state == NX_EXPORT_FUNCTION || state == NX_EXPORT_INDIRECT || state == NX_EXPORT_NO_FUNCTION;
}

static void take_symbol(const GElf_Sym *symbol, const char *name, nx_facts *out) {
  nx_export_state state = nx_symbol_state(symbol);
  out->ifunc_symbols += GELF_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC && state != NX_EXPORT_UNDEFINED;
  if (GELF_ST_BIND(symbol->st_info) == STB_GNU_UNIQUE && is_visible(state)) nx_names_add(&out->unique_symbols, name);
  for (int i = 0; i < NX_EXPORTS; i++) {
    if (strcmp(name, NX_EXPORT_NAME[i]) != 0) continue;
    if (!is_visible(out->exports[i])) out->exports[i] = state;
    return;
  }
  if (state == NX_EXPORT_UNDEFINED) {
    out->thread_destructors |= !strcmp(name, "__cxa_thread_atexit") || !strcmp(name, "__cxa_thread_atexit_impl");
  }
  if (!is_visible(state)) return;
  nx_names_add(&out->other_exports, name);
  for (int i = 0; i < NX_EXPORTS; i++) {
    if (nx_is_mangled(name, i) && !out->mangled[i]) out->mangled[i] = nx_copy(name);
  }
}

/* Local symbols are of the file alone; the null symbol 0 and section symbols are among them. */
static int take_symbols(const nx_dynamic *dynamic, Elf_Data *table, uint64_t count, nx_facts *out, nx_problem *why) {
  GElf_Sym symbol;
  for (uint64_t i = 1; i < count; i++) {
    if (!gelf_getsym(table, (int)i, &symbol)) {
      return nx_refuse(why, "symbol %" PRIu64 " is not readable; the file is damaged, build or copy it again", i);
    }
    if (GELF_ST_BIND(symbol.st_info) == STB_LOCAL) continue;
    const char *name = nx_dynamic_string(dynamic, symbol.st_name, why);
    if (!name) return -1;
    take_symbol(&symbol, name, out);
  }
  return 0;
}

/* Symbols that no hash word leads to, and relocations name all the same, are bound like the others. */
static int count_by_relocations(const nx_dynamic *dynamic, int64_t table_tag, int64_t size_tag, uint64_t *count,
                                nx_problem *why) {
  Elf64_Rela some[1024];
  uint64_t address = 0, size = 0;
  if (!nx_dynamic_find(dynamic, table_tag, &address) || !nx_dynamic_find(dynamic, size_tag, &size)) return 0;
  for (uint64_t left = size / sizeof some[0], now; left; left -= now, address += now * sizeof some[0]) {
    now = left < sizeof some / sizeof some[0] ? left : sizeof some / sizeof some[0];
    if (nx_elf_bytes(dynamic->file, address, some, now * sizeof some[0], "relocation table", why)) return -1;
    for (uint64_t i = 0; i < now; i++) {
      uint64_t symbol = ELF64_R_SYM(some[i].r_info);
      if (symbol >= *count) *count = symbol + 1;
    }
  }
  return check_count(*count, "symbols", why);
}

int nx_dynamic_symbols(const nx_dynamic *dynamic, Elf_Data **table, uint64_t *count, nx_problem *why) {
  uint64_t address = 0, kind = 0;
  *table = NULL;
  if (count_symbols(dynamic, count, why)) return -1;
  if (count_by_relocations(dynamic, DT_RELA, DT_RELASZ, count, why)) return -1;
  if (nx_dynamic_find(dynamic, DT_PLTREL, &kind) && kind == DT_RELA &&
      count_by_relocations(dynamic, DT_JMPREL, DT_PLTRELSZ, count, why))
    return -1;
  if (*count < 2 || !nx_dynamic_find(dynamic, DT_SYMTAB, &address)) return 0;
  *table = nx_elf_table(dynamic->file, address, *count * sizeof(Elf64_Sym), ELF_T_SYM, "symbol table", why);
  return *table ? 0 : -1;
}

int nx_read_symbols(const nx_dynamic *dynamic, nx_facts *out, nx_problem *why) {
  Elf_Data *table = NULL;
  uint64_t count = 0;
  if (nx_dynamic_symbols(dynamic, &table, &count, why)) return -1;
  return table ? take_symbols(dynamic, table, count, out, why) : 0;
}

/* ---- Relocations ------------------------------------------------------------------------------------------------- */

/* The relocation that calls an IFUNC resolver; 0 where this command does not know the processor's. */
static uint32_t ifunc_relocation(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return R_X86_64_IRELATIVE;
    case EM_AARCH64:
      return R_AARCH64_IRELATIVE;
    case EM_PPC64:
      return R_PPC64_IRELATIVE;
    case EM_S390:
      return R_390_IRELATIVE;
    case EM_RISCV:
      return R_RISCV_IRELATIVE;
    default:
      return 0;
  }
}

static int count_ifunc_relocations(const nx_dynamic *dynamic, int64_t table_tag, int64_t size_tag, nx_facts *out,
                                   nx_problem *why) {
  uint64_t address = 0, size = 0;
  GElf_Rela relocation;
  uint32_t wanted = ifunc_relocation(out->machine);
  if (!nx_dynamic_find(dynamic, table_tag, &address) || !nx_dynamic_find(dynamic, size_tag, &size)) return 0;
  if (size < sizeof(Elf64_Rela) || wanted == 0) return 0;
  Elf_Data *table = nx_elf_table(dynamic->file, address, size, ELF_T_RELA, "relocation table", why);
  if (!table) return -1;
  for (uint64_t i = 0; i < size / sizeof(Elf64_Rela); i++) {
    if (!gelf_getrela(table, (int)i, &relocation)) break;
    out->ifunc_relocations += GELF_R_TYPE(relocation.r_info) == wanted;
  }
  return 0;
}

int nx_read_relocations(const nx_dynamic *dynamic, nx_facts *out, nx_problem *why) {
  if (count_ifunc_relocations(dynamic, DT_RELA, DT_RELASZ, out, why)) return -1;
  if (!nx_dynamic_find(dynamic, DT_JMPREL, &(uint64_t){0})) return 0;
  uint64_t kind = 0;
  nx_dynamic_find(dynamic, DT_PLTREL, &kind);
  return kind == DT_RELA ? count_ifunc_relocations(dynamic, DT_JMPREL, DT_PLTRELSZ, out, why) : 0;
}
