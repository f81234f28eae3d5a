/*
 * elf_read.c: facts from the segments and the dynamic segment of a plugin file.
 * Attackers: every byte of the file.
 * Promise: every string ends inside its table, every table inside a loaded segment; what cannot be read is a
 * problem, never a guess.
 */
#include "elf_read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

const char *const NX_EXPORT_NAME[NX_EXPORTS] = {"NxmemNegotiate", "NxmemCreateAllocatorFactories",
                                                "NxmemQueryUnloadReadiness"};

static const char DAMAGED[] = "the file is damaged, build or copy it again";

/* ---- Dynamic entries --------------------------------------------------------------------------------------------- */

int nx_dynamic_find(const nx_dynamic *dynamic, int64_t tag, uint64_t *value) {
  int found = 0;
  GElf_Dyn entry;
  for (size_t i = 0; i < dynamic->count; i++) {
    if (!gelf_getdyn(dynamic->entries, (int)i, &entry) || entry.d_tag != tag) continue;
    *value = entry.d_un.d_val;
    found = 1;
  }
  return found;
}

static int has(const nx_dynamic *dynamic, int64_t tag) {
  uint64_t ignored;
  return nx_dynamic_find(dynamic, tag, &ignored);
}

static uint64_t value_or_zero(const nx_dynamic *dynamic, int64_t tag) {
  uint64_t value = 0;
  nx_dynamic_find(dynamic, tag, &value);
  return value;
}

static int find_segment(const nx_elf *file, uint32_t type, GElf_Phdr *out) {
  for (size_t i = 0; i < file->segments; i++) {
    if (!nx_elf_segment(file, i, out) && out->p_type == type) return 1;
  }
  return 0;
}

/* Some hundred bytes and 16 per dependency in an honest file. */
enum { DYNAMIC_BYTES_MAX = 1 << 20 };

static int read_entries(nx_dynamic *dynamic, nx_problem *why) {
  GElf_Phdr segment;
  GElf_Dyn entry;
  if (!find_segment(dynamic->file, PT_DYNAMIC, &segment) || segment.p_filesz < sizeof(Elf64_Dyn)) {
    return nx_refuse(why, "found no dynamic segment, need that of a shared object; link it with -shared");
  }
  if (segment.p_filesz > DYNAMIC_BYTES_MAX) {
    return nx_refuse(why, "found a dynamic segment of %" PRIu64 " bytes, need at most %d; %s", segment.p_filesz,
                     DYNAMIC_BYTES_MAX, DAMAGED);
  }
  dynamic->entries = nx_elf_table(dynamic->file, segment.p_vaddr, segment.p_filesz, ELF_T_DYN, "dynamic segment", why);
  if (!dynamic->entries) return -1;
  size_t room = segment.p_filesz / sizeof(Elf64_Dyn);
  for (dynamic->count = 0; dynamic->count < room; dynamic->count++) {
    if (!gelf_getdyn(dynamic->entries, (int)dynamic->count, &entry)) break;
    if (entry.d_tag == DT_NULL) return 0;
  }
  return nx_refuse(why, "found %zu dynamic entries without an end mark; %s", dynamic->count, DAMAGED);
}

/*
 * The last byte must be NUL (System V gABI, "String Table"); so every offset inside the table starts a string that
 * ends inside it.
 */
static int read_strings(nx_dynamic *dynamic, nx_problem *why) {
  uint64_t address = 0, size = value_or_zero(dynamic, DT_STRSZ);
  if (!nx_dynamic_find(dynamic, DT_STRTAB, &address) || size == 0) return 0;
  dynamic->strings = nx_elf_table(dynamic->file, address, size, ELF_T_BYTE, "string table", why);
  if (!dynamic->strings) return -1;
  if (((const char *)dynamic->strings->d_buf)[size - 1] == '\0') return 0;
  return nx_refuse(why, "found a string table of %" PRIu64 " bytes without a final NUL; %s", size, DAMAGED);
}

int nx_dynamic_read(nx_dynamic *dynamic, nx_problem *why) {
  return read_entries(dynamic, why) || read_strings(dynamic, why) ? -1 : 0;
}

const char *nx_dynamic_string(const nx_dynamic *dynamic, uint64_t offset, nx_problem *why) {
  uint64_t size = dynamic->strings ? dynamic->strings->d_size : 0;
  if (offset < size) {
    const char *text = (const char *)dynamic->strings->d_buf + offset;
    return nx_elf_spend(dynamic->file, strlen(text), why) ? NULL : text;
  }
  nx_refuse(why, "found a name at byte %" PRIu64 " of a string table of %" PRIu64 " bytes; %s", offset, size, DAMAGED);
  return NULL;
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

char *nx_copy(const char *text) {
  char *copy = strdup(text);
  if (!copy) nx_out_of_memory();
  return copy;
}

void nx_names_add(nx_names *names, const char *name) {
  if (names->count < NX_NAMES_KEPT) names->kept[names->count] = nx_copy(name);
  names->count++;
}

static void names_free(nx_names *names) {
  for (size_t i = 0; i < NX_NAMES_KEPT; i++) free(names->kept[i]);
}

static int read_name(const nx_dynamic *dynamic, int64_t tag, char **out, nx_problem *why) {
  uint64_t offset = 0;
  if (!nx_dynamic_find(dynamic, tag, &offset)) return 0;
  const char *text = nx_dynamic_string(dynamic, offset, why);
  if (!text) return -1;
  *out = nx_copy(text);
  return 0;
}

static int read_needed(const nx_dynamic *dynamic, nx_names *needed, nx_problem *why) {
  GElf_Dyn entry;
  for (size_t i = 0; i < dynamic->count; i++) {
    if (!gelf_getdyn(dynamic->entries, (int)i, &entry) || entry.d_tag != DT_NEEDED) continue;
    const char *text = nx_dynamic_string(dynamic, entry.d_un.d_val, why);
    if (!text) return -1;
    nx_names_add(needed, text);
  }
  return 0;
}

static int read_names(const nx_dynamic *dynamic, nx_facts *out, nx_problem *why) {
  if (read_name(dynamic, DT_SONAME, &out->soname, why)) return -1;
  if (read_name(dynamic, DT_RPATH, &out->rpath, why)) return -1;
  if (read_name(dynamic, DT_RUNPATH, &out->runpath, why)) return -1;
  return read_needed(dynamic, &out->needed, why);
}

/* ---- Flags and counts -------------------------------------------------------------------------------------------- */

/* Entries of an array of functions, all of which lie in the file. */
static int read_array(const nx_dynamic *dynamic, int64_t tag, int64_t size_tag, uint64_t *count, nx_problem *why) {
  uint64_t address = 0, size = value_or_zero(dynamic, size_tag), offset = 0, room = 0;
  *count = size / sizeof(Elf64_Addr);
  if (size == 0 || !nx_dynamic_find(dynamic, tag, &address)) return 0;
  if (!nx_elf_locate(dynamic->file, address, &offset, &room) && size <= room) return 0;
  return nx_refuse(why,
                   "found an array of functions to run (%" PRIu64 " bytes at address 0x%" PRIx64
                   ") outside every loaded segment; %s",
                   size, address, DAMAGED);
}

static int read_code_at_load(const nx_dynamic *dynamic, nx_facts *out, nx_problem *why) {
  out->init = has(dynamic, DT_INIT);
  out->fini = has(dynamic, DT_FINI);
  if (read_array(dynamic, DT_INIT_ARRAY, DT_INIT_ARRAYSZ, &out->init_array, why)) return -1;
  return read_array(dynamic, DT_FINI_ARRAY, DT_FINI_ARRAYSZ, &out->fini_array, why);
}

static int read_flags(const nx_dynamic *dynamic, nx_facts *out, nx_problem *why) {
  uint64_t flags = value_or_zero(dynamic, DT_FLAGS), flags_1 = value_or_zero(dynamic, DT_FLAGS_1);
  if (flags_1 & DF_1_PIE)
    return nx_refuse(why, "found an executable (PIE), need a shared object; link it with -shared");
  out->text_relocations = has(dynamic, DT_TEXTREL) || (flags & DF_TEXTREL);
  out->bind_now = has(dynamic, DT_BIND_NOW) || (flags & DF_BIND_NOW) || (flags_1 & DF_1_NOW);
  out->static_tls = (flags & DF_STATIC_TLS) != 0;
  out->nodelete = (flags_1 & DF_1_NODELETE) != 0;
  out->noopen = (flags_1 & DF_1_NOOPEN) != 0;
  return 0;
}

static void read_protections(const nx_elf *file, nx_facts *out) {
  GElf_Phdr segment;
  for (size_t i = 0; i < file->segments; i++) {
    if (nx_elf_segment(file, i, &segment)) continue;
    int code = (segment.p_flags & PF_X) != 0;
    if (segment.p_type == PT_GNU_STACK) out->stack = code ? NX_STACK_EXECUTABLE : NX_STACK_PLAIN;
    if (segment.p_type == PT_LOAD) out->writable_code += code && (segment.p_flags & PF_W);
    if (segment.p_type == PT_GNU_RELRO) out->relro = NX_RELRO_PARTIAL;
  }
  if (out->relro == NX_RELRO_PARTIAL && out->bind_now) out->relro = NX_RELRO_FULL;
}

/* ---- Build id ---------------------------------------------------------------------------------------------------- */

/* An honest file has up to three note segments of some hundred bytes. */
enum { NOTE_SEGMENTS_MAX = 16, NOTE_BYTES_MAX = 65536 };

static void take_build_id(Elf_Data *notes, nx_facts *out) {
  GElf_Nhdr note;
  size_t next = 0, name = 0, content = 0;
  while (next < notes->d_size) {
    size_t after = gelf_getnote(notes, next, &note, &name, &content);
    if (after <= next) return;
    next = after;
    if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof ELF_NOTE_GNU) continue;
    if (memcmp((const char *)notes->d_buf + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) != 0) continue;
    out->build_id_bytes = note.n_descsz < NX_BUILD_ID_MAX ? note.n_descsz : NX_BUILD_ID_MAX;
    memcpy(out->build_id, (const char *)notes->d_buf + content, out->build_id_bytes);
  }
}

/* No build id is no problem, nor is a note segment that cannot be read: nothing depends on it. */
static void read_build_id(const nx_elf *file, nx_facts *out) {
  GElf_Phdr segment;
  size_t notes = 0;
  for (size_t i = 0; i < file->segments && notes < NOTE_SEGMENTS_MAX; i++) {
    if (nx_elf_segment(file, i, &segment) || segment.p_type != PT_NOTE) continue;
    if (segment.p_filesz == 0 || segment.p_filesz > NOTE_BYTES_MAX) continue;
    notes++;
    Elf_Type type = segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR;
    Elf_Data *data = elf_getdata_rawchunk(file->elf, (int64_t)segment.p_offset, segment.p_filesz, type);
    if (data) take_build_id(data, out);
  }
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

static int read_all(nx_elf *file, nx_facts *out, nx_problem *why) {
  nx_dynamic dynamic = {.file = file};
  out->machine = file->header.e_machine;
  read_build_id(file, out);
  if (nx_dynamic_read(&dynamic, why)) return -1;
  if (read_flags(&dynamic, out, why) || read_names(&dynamic, out, why)) return -1;
  if (read_code_at_load(&dynamic, out, why)) return -1;
  read_protections(file, out);
  if (nx_read_symbols(&dynamic, out, why)) return -1;
  if (nx_read_relocations(&dynamic, out, why)) return -1;
  nx_read_unexported(file, out);
  return 0;
}

int nx_facts_of_elf(nx_elf *file, nx_facts *out, nx_problem *why) {
  memset(out, 0, sizeof *out);
  int failed = read_all(file, out, why);
  if (failed) nx_facts_free(out);
  return failed;
}

int nx_facts_read(int fd, nx_facts *out, nx_problem *why) {
  nx_elf file;
  if (nx_elf_begin(fd, &file, why)) return -1;
  int failed = nx_facts_of_elf(&file, out, why);
  nx_elf_end(&file);
  return failed;
}

int nx_facts_of(const char *path, nx_facts *out, nx_problem *why) {
  int fd = nx_elf_open_file(path, why);
  if (fd < 0) return -1;
  int failed = nx_facts_read(fd, out, why);
  close(fd);
  return failed;
}

void nx_facts_free(nx_facts *facts) {
  for (int i = 0; i < NX_EXPORTS; i++) free(facts->mangled[i]);
  free(facts->soname);
  free(facts->rpath);
  free(facts->runpath);
  names_free(&facts->needed);
  names_free(&facts->other_exports);
  names_free(&facts->unique_symbols);
  memset(facts, 0, sizeof *facts);
}
