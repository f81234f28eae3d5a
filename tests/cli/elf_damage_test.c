/*
 * elf_damage_test.c: reading plugin files that are cut off or damaged (elf_file.c, elf_read.c, elf_symbols.c,
 * elf_unexported.c).
 * Attackers played: every length of a real file, seeded changes in each of its tables, and one deliberate lie per row.
 * Promise: a refusal with one printable line or complete facts; nothing read outside what was read in (watched by
 * AddressSanitizer).
 */
#include <unistd.h>

#include "image.h"

/* ---- Cut off at every length ------------------------------------------------------------------------------------- */

enum { CUT_GROUPS = 16 };

typedef struct cut_row {
  const char *name;
  unsigned group;
} cut_row;

/* The group's share of all lengths below the full one, longest first. */
static void is_refused_at_every_length(void **state) {
  const cut_row *row = *state;
  nx_image image = nx_image_load(FIXTURE);
  int fd = nx_image_file(&image);
  size_t from = image.size * row->group / CUT_GROUPS, to = image.size * (row->group + 1) / CUT_GROUPS;
  for (size_t length = to; length-- > from;) {
    nx_facts facts;
    nx_problem why = {""};
    assert_int_equal(ftruncate(fd, (off_t)length), 0);
    assert_int_equal(nx_facts_read(fd, &facts, &why), -1);
    nx_assert_one_line(&why);
  }
  close(fd);
  nx_image_free(&image);
}

/* ---- Seeded changes ---------------------------------------------------------------------------------------------- */

typedef struct place {
  size_t offset;
  size_t bytes;
} place;

static place of_header(const nx_image *image) {
  (void)image;
  return (place){0, sizeof(Elf64_Ehdr)};
}

static place of_segments(const nx_image *image) {
  return (place){nx_image_header(image)->e_phoff, nx_image_header(image)->e_phnum * sizeof(Elf64_Phdr)};
}

static place of_dynamic(const nx_image *image) {
  const Elf64_Phdr *segment = nx_image_segment(image, PT_DYNAMIC);
  return (place){segment->p_offset, segment->p_filesz};
}

static place of_table(const nx_image *image, int64_t tag, size_t bytes) {
  return (place){(size_t)(nx_image_at(image, nx_image_dynamic(image, tag)->d_un.d_ptr) - image->bytes), bytes};
}

static place of_hash(const nx_image *image) { return of_table(image, DT_GNU_HASH, 64); }
static place of_symbols(const nx_image *image) { return of_table(image, DT_SYMTAB, 8 * sizeof(Elf64_Sym)); }
static place of_strings(const nx_image *image) {
  return of_table(image, DT_STRTAB, nx_image_dynamic(image, DT_STRSZ)->d_un.d_val);
}
static place of_relocations(const nx_image *image) {
  return of_table(image, DT_RELA, nx_image_dynamic(image, DT_RELASZ)->d_un.d_val);
}
static place of_notes(const nx_image *image) {
  const Elf64_Phdr *segment = nx_image_segment(image, PT_NOTE);
  return (place){segment->p_offset, segment->p_filesz};
}
static place of_sections(const nx_image *image) {
  return (place){nx_image_header(image)->e_shoff, nx_image_header(image)->e_shnum * sizeof(Elf64_Shdr)};
}
/* The symbol table that linkers read, and its names behind it, as this linker lays them out. */
static place of_section(const nx_image *image, uint32_t type) {
  const Elf64_Ehdr *header = nx_image_header(image);
  const Elf64_Shdr *sections = (const void *)(image->bytes + header->e_shoff);
  for (unsigned i = 0; i < header->e_shnum; i++) {
    if (sections[i].sh_type != type) continue;
    return (place){sections[i].sh_offset, sections[i].sh_size + sections[sections[i].sh_link].sh_size};
  }
  fail_msg("no section of type %u", type);
  return (place){0, 0};
}
static place of_unexported(const nx_image *image) { return of_section(image, SHT_SYMTAB); }
static place of_everything(const nx_image *image) { return (place){0, image->size}; }

enum { CHANGED_FILES = 2000, CHANGES_MAX = 4 };

typedef struct change_row {
  const char *name;
  place (*where)(const nx_image *image);
  uint64_t seed;
  const char *file; /* NULL: FIXTURE */
} change_row;

/* xorshift64: the same changes in every run. */
static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

/* Values at the edges of counts and offsets find more than random ones. */
static uint8_t changed_byte(uint8_t old, uint64_t random) {
  static const uint8_t edges[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
  uint64_t kind = random >> 8 & 7;
  return kind < sizeof edges ? edges[kind] : (uint8_t)(old ^ (1u << (random & 7)));
}

static void change(nx_image *image, place where, uint64_t *seed) {
  uint64_t changes = 1 + next_random(seed) % CHANGES_MAX;
  for (uint64_t i = 0; i < changes; i++) {
    size_t at = where.offset + next_random(seed) % where.bytes;
    image->bytes[at] = changed_byte(image->bytes[at], next_random(seed));
  }
}

static void assert_whole(const nx_facts *facts) {
  for (int i = 0; i < NX_EXPORTS; i++) {
    assert_true(facts->exports[i] <= NX_EXPORT_MANGLED);
    assert_true(facts->exports[i] != NX_EXPORT_MANGLED || facts->mangled[i]);
  }
  for (uint64_t i = 0; i < NX_NAMES_KEPT && i < facts->other_exports.count; i++)
    assert_non_null(facts->other_exports.kept[i]);
  for (uint64_t i = 0; i < NX_NAMES_KEPT && i < facts->needed.count; i++) assert_non_null(facts->needed.kept[i]);
  assert_true(facts->build_id_bytes <= NX_BUILD_ID_MAX);
}

static void survives_changes(void **state) {
  const change_row *row = *state;
  const char *file = row->file ? row->file : FIXTURE;
  nx_image clean = nx_image_load(file), image = nx_image_load(file);
  place where = row->where(&clean);
  uint64_t seed = row->seed;
  for (int i = 0; i < CHANGED_FILES; i++) {
    nx_facts facts;
    memcpy(image.bytes, clean.bytes, clean.size);
    change(&image, where, &seed);
    if (nx_image_read(&image, &facts)) continue;
    assert_whole(&facts);
    nx_facts_free(&facts);
  }
  nx_image_free(&clean);
  nx_image_free(&image);
}

static const change_row change_rows[] = {
    {"changes in the ELF header", of_header, 1, NULL},
    {"changes in the segment table", of_segments, 2, NULL},
    {"changes in the dynamic segment", of_dynamic, 3, NULL},
    {"other changes in the dynamic segment", of_dynamic, 33, NULL},
    {"changes in the hash table", of_hash, 4, NULL},
    {"changes in the symbols", of_symbols, 5, NULL},
    {"changes in the strings", of_strings, 6, NULL},
    {"changes in the relocations", of_relocations, 7, NULL},
    {"changes in the notes", of_notes, 8, NULL},
    {"changes in the section table", of_sections, 9, NULL},
    {"changes anywhere", of_everything, 10, NULL},
    {"other changes anywhere", of_everything, 110, NULL},
    {"changes in the section table of a file with names", of_sections, 11, FIXTURE_NAMED},
    {"changes in the names that linkers read", of_unexported, 12, FIXTURE_NAMED},
    {"changes anywhere in a file with names", of_everything, 13, FIXTURE_NAMED},
};

/* ---- One lie each ------------------------------------------------------------------------------------------------ */

typedef struct lie_row {
  const char *name;
  void (*tell)(nx_image *image);
} lie_row;

static void class_32(nx_image *i) { i->bytes[EI_CLASS] = ELFCLASS32; }
static void class_none(nx_image *i) { i->bytes[EI_CLASS] = 0; }
static void byte_order(nx_image *i) { i->bytes[EI_DATA] ^= 3; }
static void ident_version(nx_image *i) { i->bytes[EI_VERSION] = 2; }
static void version(nx_image *i) { nx_image_header(i)->e_version = 0; }
static void machine(nx_image *i) { nx_image_header(i)->e_machine ^= 1; }
static void object_file(nx_image *i) { nx_image_header(i)->e_type = ET_REL; }
static void executable(nx_image *i) { nx_image_header(i)->e_type = ET_EXEC; }
static void core_dump(nx_image *i) { nx_image_header(i)->e_type = ET_CORE; }
static void no_segments(nx_image *i) { nx_image_header(i)->e_phnum = 0; }
static void many_segments(nx_image *i) { nx_image_header(i)->e_phnum = PN_XNUM; }
static void segment_size(nx_image *i) { nx_image_header(i)->e_phentsize = 32; }
static void segments_outside(nx_image *i) { nx_image_header(i)->e_phoff = i->size - 8; }
static void segments_wrap(nx_image *i) { nx_image_header(i)->e_phoff = UINT64_MAX - 8; }
static void sections_outside(nx_image *i) { nx_image_header(i)->e_shoff = i->size - 8; }
static void sections_wrap(nx_image *i) { nx_image_header(i)->e_shoff = UINT64_MAX - 8; }
static void sections_many(nx_image *i) { nx_image_header(i)->e_shnum = 65279; }
static void sections_uncounted(nx_image *i) { nx_image_header(i)->e_shnum = 0; }
static void load_outside(nx_image *i) { nx_image_segment(i, PT_LOAD)->p_offset = i->size; }
static void frames_outside(nx_image *i) { nx_image_segment(i, PT_GNU_EH_FRAME)->p_offset = i->size; }
static void frames_endless(nx_image *i) { nx_image_segment(i, PT_GNU_EH_FRAME)->p_filesz = UINT64_MAX; }
static void load_wraps(nx_image *i) { nx_image_segment(i, PT_LOAD)->p_offset = UINT64_MAX - 16; }
static void load_huge(nx_image *i) { nx_image_segment(i, PT_LOAD)->p_filesz = UINT64_MAX; }
/* The second of the loaded segments. */
static Elf64_Phdr *second(nx_image *i) {
  Elf64_Phdr *at = nx_image_segment(i, PT_LOAD) + 1;
  while (at->p_type != PT_LOAD) at++;
  return at;
}
static void load_over(nx_image *i) { second(i)->p_vaddr = nx_image_segment(i, PT_LOAD)->p_vaddr; }
static void load_on_page(nx_image *i) { second(i)->p_vaddr = (nx_image_segment(i, PT_LOAD)->p_memsz - 1) & ~7ull; }
static void load_before(nx_image *i) { nx_image_segment(i, PT_LOAD)->p_vaddr = 1ull << 32; }
static void load_more_of_file(nx_image *i) { second(i)->p_memsz = second(i)->p_filesz - 1; }
static void load_to_the_end(nx_image *i) { second(i)->p_memsz = UINT64_MAX - second(i)->p_vaddr; }
static void two_dynamic(nx_image *i) { *nx_image_segment(i, PT_GNU_EH_FRAME) = *nx_image_segment(i, PT_DYNAMIC); }
static void no_dynamic(nx_image *i) { nx_image_segment(i, PT_DYNAMIC)->p_type = PT_NULL; }
static void dynamic_empty(nx_image *i) { nx_image_segment(i, PT_DYNAMIC)->p_filesz = 0; }
static void dynamic_elsewhere(nx_image *i) { nx_image_segment(i, PT_DYNAMIC)->p_vaddr = 1ull << 40; }
static void dynamic_endless(nx_image *i) { nx_image_segment(i, PT_DYNAMIC)->p_filesz = 2 * sizeof(Elf64_Dyn); }
static void set(nx_image *i, int64_t tag, uint64_t value) { nx_image_dynamic(i, tag)->d_un.d_val = value; }
static void strings_elsewhere(nx_image *i) { set(i, DT_STRTAB, 1ull << 40); }
static void strings_huge(nx_image *i) { set(i, DT_STRSZ, UINT64_MAX); }
static void strings_unterminated(nx_image *i) { set(i, DT_STRSZ, 2); }
static void no_strings(nx_image *i) { set(i, DT_STRSZ, 0); }
static void name_outside(nx_image *i) { set(i, DT_SONAME, 1u << 30); }
static void needed_outside(nx_image *i) { set(i, DT_NEEDED, 1u << 30); }
static void constructors_elsewhere(nx_image *i) { set(i, DT_INIT_ARRAY, 1ull << 40); }
static void constructors_many(nx_image *i) { set(i, DT_INIT_ARRAYSZ, 1ull << 62); }
static void destructors_elsewhere(nx_image *i) { set(i, DT_FINI_ARRAY, 1ull << 40); }
static void destructors_many(nx_image *i) { set(i, DT_FINI_ARRAYSZ, UINT64_MAX - 7); }
static void relocation_names_outside(nx_image *i) {
  Elf64_Rela *first = (void *)nx_image_at(i, nx_image_dynamic(i, DT_RELA)->d_un.d_ptr);
  first->r_info = ELF64_R_INFO(1u << 20, ELF64_R_TYPE(first->r_info));
}
static void relocation_names_much(nx_image *i) {
  Elf64_Rela *first = (void *)nx_image_at(i, nx_image_dynamic(i, DT_RELA)->d_un.d_ptr);
  first->r_info = ELF64_R_INFO(UINT32_MAX, ELF64_R_TYPE(first->r_info));
}
static void symbols_elsewhere(nx_image *i) { set(i, DT_SYMTAB, 1ull << 40); }
static void relocations_elsewhere(nx_image *i) { set(i, DT_RELA, 1ull << 40); }
static void relocations_huge(nx_image *i) { set(i, DT_RELASZ, UINT64_MAX); }
/* Still inside the file, but no longer inside the loaded segment. */
static void relocations_past_segment(nx_image *i) {
  const Elf64_Phdr *first = nx_image_segment(i, PT_LOAD);
  set(i, DT_RELASZ, first->p_vaddr + first->p_filesz - nx_image_dynamic(i, DT_RELA)->d_un.d_ptr + sizeof(Elf64_Rela));
}
static void hash_elsewhere(nx_image *i) { set(i, DT_GNU_HASH, 1ull << 40); }
static uint32_t *hash_words(nx_image *i) {
  return (void *)nx_image_at(i, nx_image_dynamic(i, DT_GNU_HASH)->d_un.d_ptr);
}
static void hash_buckets(nx_image *i) { hash_words(i)[0] = UINT32_MAX; }
static void hash_bloom(nx_image *i) { hash_words(i)[2] = UINT32_MAX; }
static void hash_chain(nx_image *i) { hash_words(i)[4 + 2 * hash_words(i)[2]] = UINT32_MAX; }

/* Read as a System V table, the second word is the number of symbols. */
static void sysv_count(nx_image *i) {
  hash_words(i)[1] = UINT32_MAX;
  nx_image_dynamic(i, DT_GNU_HASH)->d_tag = DT_HASH;
}

static void symbol_name(nx_image *i) {
  Elf64_Sym *symbols = (void *)nx_image_at(i, nx_image_dynamic(i, DT_SYMTAB)->d_un.d_ptr);
  symbols[hash_words(i)[1]].st_name = UINT32_MAX;
}

static void pie(nx_image *i) {
  Elf64_Dyn *entry = nx_image_dynamic(i, DT_FLAGS_1);
  entry->d_un.d_val |= DF_1_PIE;
}

static void is_refused(void **state) {
  const lie_row *row = *state;
  nx_facts facts;
  nx_image image = nx_image_load(FIXTURE);
  assert_int_equal(nx_image_read(&image, &facts), 0);
  nx_facts_free(&facts);
  row->tell(&image);
  assert_int_equal(nx_image_read(&image, &facts), -1);
  nx_image_free(&image);
}

static const lie_row lie_rows[] = {
    {"32-bit class", class_32},
    {"no class", class_none},
    {"other byte order", byte_order},
    {"unknown version in the identification", ident_version},
    {"unknown version", version},
    {"another machine", machine},
    {"an object file", object_file},
    {"an executable", executable},
    {"a core dump", core_dump},
    {"a position-independent executable", pie},
    {"no segments", no_segments},
    {"more segments than any plugin has", many_segments},
    {"segment entries of another size", segment_size},
    {"segment table outside the file", segments_outside},
    {"segment table that wraps", segments_wrap},
    {"section table outside the file", sections_outside},
    {"section table that wraps", sections_wrap},
    {"more sections than the file holds", sections_many},
    {"a section table without a count", sections_uncounted},
    {"loaded segment outside the file", load_outside},
    {"a segment that is not loaded outside the file", frames_outside},
    {"a segment that is not loaded without end", frames_endless},
    {"loaded segment that wraps", load_wraps},
    {"loaded segment of 2^64-1 bytes", load_huge},
    {"a loaded segment over another", load_over},
    {"a loaded segment on another's last page", load_on_page},
    {"a loaded segment before another", load_before},
    {"a loaded segment with more bytes of the file than its own", load_more_of_file},
    {"a loaded segment to the end of all addresses", load_to_the_end},
    {"two dynamic segments", two_dynamic},
    {"no dynamic segment", no_dynamic},
    {"empty dynamic segment", dynamic_empty},
    {"dynamic segment at an address that is not loaded", dynamic_elsewhere},
    {"dynamic segment without an end mark", dynamic_endless},
    {"string table at an address that is not loaded", strings_elsewhere},
    {"string table of 2^64-1 bytes", strings_huge},
    {"string table without a final NUL", strings_unterminated},
    {"names without a string table", no_strings},
    {"soname outside the string table", name_outside},
    {"dependency outside the string table", needed_outside},
    {"symbol name outside the string table", symbol_name},
    {"symbol table at an address that is not loaded", symbols_elsewhere},
    {"relocations at an address that is not loaded", relocations_elsewhere},
    {"a relocation of a symbol outside the table", relocation_names_outside},
    {"a relocation of symbol 2^32-1", relocation_names_much},
    {"constructors at an address that is not loaded", constructors_elsewhere},
    {"2^59 constructors", constructors_many},
    {"destructors at an address that is not loaded", destructors_elsewhere},
    {"destructors without end", destructors_many},
    {"relocations of 2^64-1 bytes", relocations_huge},
    {"relocations that leave their segment", relocations_past_segment},
    {"hash table at an address that is not loaded", hash_elsewhere},
    {"hash table with 2^32-1 buckets", hash_buckets},
    {"hash table with a filter of 2^32-1 words", hash_bloom},
    {"hash chain that starts outside", hash_chain},
    {"hash table that claims 2^32-1 symbols", sysv_count},
};

int main(void) {
  nx_suite suite = {0};
  static cut_row cuts[CUT_GROUPS];
  for (unsigned i = 0; i < CUT_GROUPS; i++) {
    cuts[i] = (cut_row){nx_name("cut off: every length of part %u of %d", i + 1, CUT_GROUPS), i};
  }
  nx_suite_rows(&suite, ROWS(cuts), is_refused_at_every_length);
  nx_suite_rows(&suite, ROWS(change_rows), survives_changes);
  nx_suite_rows(&suite, ROWS(lie_rows), is_refused);
  return nx_suite_run(&suite, "cli elf damage");
}
