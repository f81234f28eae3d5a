/*
 * elf_facts_test.c: what is read out of a file that loads (elf_read.c, elf_symbols.c), also where only a few bytes
 * differ.
 * Attackers played: files whose section table is gone or lies, which the loader does not mind.
 * Promise: the facts are those of the dynamic segment; each mark shows when it is set and only then.
 */
#include "image.h"

typedef struct fact_row {
  const char *name;
  const char *fixture;
  void (*edit)(nx_image *image);
  int (*holds)(const nx_facts *facts);
} fact_row;

/* ---- What holds of the clean file -------------------------------------------------------------------------------- */

static int exports_found(const nx_facts *f) {
  return f->exports[0] == NX_EXPORT_FUNCTION && f->exports[1] == NX_EXPORT_FUNCTION &&
         f->exports[2] == NX_EXPORT_FUNCTION;
}
static int exports_missing(const nx_facts *f) {
  return f->exports[0] == NX_EXPORT_MISSING && f->exports[1] == NX_EXPORT_MISSING && f->exports[2] == NX_EXPORT_MISSING;
}
static int no_others(const nx_facts *f) { return f->other_exports.count == 0; }
static int soname_read(const nx_facts *f) { return f->soname && !strcmp(f->soname, "libinspected.so.1"); }
static int no_soname(const nx_facts *f) { return f->soname == NULL; }
static int needs_libc(const nx_facts *f) { return f->needed.count == 1 && !strncmp(f->needed.kept[0], "libc.so", 7); }
static int build_id_read(const nx_facts *f) {
  static const uint8_t want[] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF};
  return f->build_id_bytes == sizeof want && !memcmp(f->build_id, want, sizeof want);
}
static int no_build_id(const nx_facts *f) { return f->build_id_bytes == 0; }
static int full_relro(const nx_facts *f) { return f->relro == NX_RELRO_FULL && f->bind_now; }
static int partial_relro(const nx_facts *f) { return f->relro == NX_RELRO_PARTIAL && !f->bind_now; }
static int no_relro(const nx_facts *f) { return f->relro == NX_RELRO_NONE; }
static int plain_stack(const nx_facts *f) { return f->stack == NX_STACK_PLAIN; }
static int executable_stack(const nx_facts *f) { return f->stack == NX_STACK_EXECUTABLE; }
static int unstated_stack(const nx_facts *f) { return f->stack == NX_STACK_UNSTATED; }
static int marked_textrel(const nx_facts *f) { return f->text_relocations; }
static int marked_nodelete(const nx_facts *f) { return f->nodelete && f->bind_now; }
static int marked_noopen(const nx_facts *f) { return f->noopen && f->bind_now; }
static int marked_static_tls(const nx_facts *f) { return f->static_tls; }
static int no_marks(const nx_facts *f) {
  return !f->text_relocations && !f->nodelete && !f->noopen && !f->static_tls && !f->writable_code &&
         !f->ifunc_symbols && !f->ifunc_relocations && !f->unique_symbols.count && !f->rpath && !f->runpath;
}
static int writable_code(const nx_facts *f) { return f->writable_code == 1; }
static int three_constructors(const nx_facts *f) { return f->init && f->init_array == 3; }
static int no_constructors(const nx_facts *f) { return !f->init && f->init_array == 0; }
static int rpath_read(const nx_facts *f) { return f->rpath && !strcmp(f->rpath, "libinspected.so.1"); }
static int runpath_read(const nx_facts *f) { return f->runpath && !strcmp(f->runpath, "libinspected.so.1"); }
static int first_hidden(const nx_facts *f) { return f->exports[0] == NX_EXPORT_HIDDEN; }
static int first_unique(const nx_facts *f) { return f->unique_symbols.count == 1; }
static int first_indirect(const nx_facts *f) { return f->exports[0] == NX_EXPORT_INDIRECT && f->ifunc_symbols == 1; }
static int first_data(const nx_facts *f) { return f->exports[0] == NX_EXPORT_NO_FUNCTION; }
static int first_undefined(const nx_facts *f) { return f->exports[0] == NX_EXPORT_UNDEFINED; }
static int first_missing(const nx_facts *f) {
  return f->exports[0] == NX_EXPORT_MISSING && f->exports[1] == NX_EXPORT_FUNCTION;
}

/* ---- Edits ------------------------------------------------------------------------------------------------------- */

static void nothing(nx_image *i) { (void)i; }
static void no_sections(nx_image *i) {
  nx_image_header(i)->e_shoff = 0;
  nx_image_header(i)->e_shnum = 0;
  nx_image_header(i)->e_shstrndx = 0;
}
static void sections_of_noise(nx_image *i) {
  memset(i->bytes + nx_image_header(i)->e_shoff, 0xA5, nx_image_header(i)->e_shnum * sizeof(Elf64_Shdr));
}
static void retag(nx_image *i, int64_t from, int64_t to) { nx_image_dynamic(i, from)->d_tag = to; }
static void flag(nx_image *i, int64_t tag, uint64_t bit) { nx_image_dynamic(i, tag)->d_un.d_val |= bit; }
static void drop_soname(nx_image *i) { retag(i, DT_SONAME, DT_DEBUG); }
static void soname_as_rpath(nx_image *i) { retag(i, DT_SONAME, DT_RPATH); }
static void soname_as_runpath(nx_image *i) { retag(i, DT_SONAME, DT_RUNPATH); }
static void drop_hash(nx_image *i) { retag(i, DT_GNU_HASH, DT_DEBUG); }
static void textrel_tag(nx_image *i) { retag(i, DT_SONAME, DT_TEXTREL); }
static void textrel_flag(nx_image *i) { flag(i, DT_FLAGS, DF_TEXTREL); }
static void static_tls_flag(nx_image *i) { flag(i, DT_FLAGS, DF_STATIC_TLS); }
static void nodelete_flag(nx_image *i) { flag(i, DT_FLAGS_1, DF_1_NODELETE); }
static void noopen_flag(nx_image *i) { flag(i, DT_FLAGS_1, DF_1_NOOPEN); }
static void drop_now(nx_image *i) {
  nx_image_dynamic(i, DT_FLAGS)->d_un.d_val = 0;
  nx_image_dynamic(i, DT_FLAGS_1)->d_un.d_val = 0;
}
static void now_by_tag(nx_image *i) {
  drop_now(i);
  retag(i, DT_SONAME, DT_BIND_NOW);
}
static void drop_relro(nx_image *i) { nx_image_segment(i, PT_GNU_RELRO)->p_type = PT_NULL; }
static void drop_stack(nx_image *i) { nx_image_segment(i, PT_GNU_STACK)->p_type = PT_NULL; }
static void open_stack(nx_image *i) { nx_image_segment(i, PT_GNU_STACK)->p_flags |= PF_X; }
static void open_code(nx_image *i) { nx_image_segment(i, PT_LOAD)->p_flags = PF_R | PF_W | PF_X; }
static void more_constructors(nx_image *i) { nx_image_dynamic(i, DT_INIT_ARRAYSZ)->d_un.d_val = 24; }
static void drop_constructors(nx_image *i) {
  retag(i, DT_INIT, DT_DEBUG);
  retag(i, DT_INIT_ARRAYSZ, DT_DEBUG);
}
static void drop_notes(nx_image *i) { nx_image_segment(i, PT_NOTE)->p_filesz = 0; }

static Elf64_Sym *symbol_named(const nx_image *i, const char *name) {
  Elf64_Sym *symbol = (void *)nx_image_at(i, nx_image_dynamic(i, DT_SYMTAB)->d_un.d_ptr);
  const char *strings = (void *)nx_image_at(i, nx_image_dynamic(i, DT_STRTAB)->d_un.d_ptr);
  while (strcmp(strings + symbol->st_name, name) != 0) symbol++;
  return symbol;
}
static Elf64_Sym *negotiate(const nx_image *i) { return symbol_named(i, NX_EXPORT_NAME[0]); }
static void set_kind(nx_image *i, unsigned bind, unsigned type) {
  negotiate(i)->st_info = (unsigned char)ELF64_ST_INFO(bind, type);
}
static void hide(nx_image *i) { negotiate(i)->st_other = STV_HIDDEN; }
static void protect(nx_image *i) { negotiate(i)->st_other = STV_PROTECTED; }
static void make_local(nx_image *i) { set_kind(i, STB_LOCAL, STT_FUNC); }
static void make_weak(nx_image *i) { set_kind(i, STB_WEAK, STT_FUNC); }
static void make_unique(nx_image *i) { set_kind(i, STB_GNU_UNIQUE, STT_OBJECT); }
static void make_indirect(nx_image *i) { set_kind(i, STB_GLOBAL, STT_GNU_IFUNC); }
static void make_data(nx_image *i) { set_kind(i, STB_GLOBAL, STT_OBJECT); }
static void undefine(nx_image *i) { negotiate(i)->st_shndx = SHN_UNDEF; }

static void holds(void **state) {
  const fact_row *row = *state;
  nx_facts facts;
  nx_image image = nx_image_load(row->fixture);
  row->edit(&image);
  assert_int_equal(nx_image_read(&image, &facts), 0);
  assert_true(row->holds(&facts));
  nx_facts_free(&facts);
  nx_image_free(&image);
}

static const fact_row fact_rows[] = {
    {"three exports", FIXTURE, nothing, exports_found},
    {"three exports by a System V hash table", FIXTURE_SYSV, nothing, exports_found},
    {"no other export", FIXTURE, nothing, no_others},
    {"soname", FIXTURE, nothing, soname_read},
    {"no soname", FIXTURE, drop_soname, no_soname},
    {"dependency", FIXTURE, nothing, needs_libc},
    {"build id", FIXTURE, nothing, build_id_read},
    {"no build id", FIXTURE, drop_notes, no_build_id},
    {"no mark on a clean file", FIXTURE, nothing, no_marks},
    {"full RELRO", FIXTURE, nothing, full_relro},
    {"full RELRO by DT_BIND_NOW", FIXTURE, now_by_tag, full_relro},
    {"partial RELRO", FIXTURE, drop_now, partial_relro},
    {"no RELRO", FIXTURE, drop_relro, no_relro},
    {"plain stack", FIXTURE, nothing, plain_stack},
    {"executable stack", FIXTURE, open_stack, executable_stack},
    {"unstated stack", FIXTURE, drop_stack, unstated_stack},
    {"text relocations by tag", FIXTURE, textrel_tag, marked_textrel},
    {"text relocations by flag", FIXTURE, textrel_flag, marked_textrel},
    {"static TLS", FIXTURE, static_tls_flag, marked_static_tls},
    {"nodelete", FIXTURE, nodelete_flag, marked_nodelete},
    {"noopen", FIXTURE, noopen_flag, marked_noopen},
    {"writable code", FIXTURE, open_code, writable_code},
    {"three constructors", FIXTURE, more_constructors, three_constructors},
    {"no constructors", FIXTURE, drop_constructors, no_constructors},
    {"rpath", FIXTURE, soname_as_rpath, rpath_read},
    {"runpath", FIXTURE, soname_as_runpath, runpath_read},
    {"exports without a section table", FIXTURE, no_sections, exports_found},
    {"marks without a section table", FIXTURE, no_sections, no_marks},
    {"exports beside a section table of noise", FIXTURE, sections_of_noise, exports_found},
    {"no export without a hash table", FIXTURE, drop_hash, exports_missing},
    {"a hidden export", FIXTURE, hide, first_hidden},
    {"a protected export", FIXTURE, protect, exports_found},
    {"a local symbol is no export", FIXTURE, make_local, first_missing},
    {"a weak export", FIXTURE, make_weak, exports_found},
    {"a unique symbol", FIXTURE, make_unique, first_unique},
    {"an indirect export", FIXTURE, make_indirect, first_indirect},
    {"a data export", FIXTURE, make_data, first_data},
    {"an undefined export", FIXTURE, undefine, first_undefined},
};

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(fact_rows), holds);
  return nx_suite_run(&suite, "cli elf facts");
}
