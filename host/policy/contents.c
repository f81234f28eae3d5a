/*
 * contents.c: notes and the dynamic section, through libelf.
 *
 * Attackers: whoever made the file; but only files whose hash the policy names come here.
 * Promise: every text ends inside the file; what cannot be read is a failure.
 */
#include "contents.h"

#include <gelf.h>
#include <libelf.h>
#include <string.h>

typedef struct view {
  Elf *elf;
  const uint8_t *bytes;
  size_t count;
  size_t segments;
} view;

static int segment_of(const view *v, size_t i, uint32_t type, GElf_Phdr *out) {
  return gelf_getphdr(v->elf, (int)i, out) != NULL && out->p_type == type;
}

/* ---- Notes ------------------------------------------------------------------------------------------------------- */

static int take_note(const Elf_Data *data, const GElf_Nhdr *note, size_t name, size_t description, nx_build_id *out) {
  const uint8_t *at = data->d_buf;
  if (note->n_type != NT_GNU_BUILD_ID || note->n_namesz != sizeof ELF_NOTE_GNU) return 0;
  if (memcmp(at + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) != 0) return 0;
  if (note->n_descsz == 0 || note->n_descsz > sizeof out->bytes) return 0;
  memcpy(out->bytes, at + description, note->n_descsz);
  out->count = note->n_descsz;
  return 1;
}

static int find_note(const view *v, const GElf_Phdr *segment, nx_build_id *out) {
  Elf_Data *data = elf_getdata_rawchunk(v->elf, (int64_t)segment->p_offset, segment->p_filesz,
                                        segment->p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
  GElf_Nhdr note;
  size_t name = 0, description = 0;
  if (data == NULL) return 0;
  for (size_t at = 0; (at = gelf_getnote(data, at, &note, &name, &description)) > 0;)
    if (take_note(data, &note, name, description, out)) return 1;
  return 0;
}

static void find_build_id(const view *v, nx_build_id *out) {
  GElf_Phdr segment;
  for (size_t i = 0; i < v->segments; i++)
    if (segment_of(v, i, PT_NOTE, &segment) && find_note(v, &segment, out)) return;
}

/* ---- The dynamic section ----------------------------------------------------------------------------------------- */

/* Where in the file an address of the image lies; 0: nowhere. */
static uint64_t offset_of(const view *v, uint64_t address) {
  GElf_Phdr segment;
  for (size_t i = 0; i < v->segments; i++) {
    if (!segment_of(v, i, PT_LOAD, &segment) || address < segment.p_vaddr) continue;
    if (address - segment.p_vaddr < segment.p_filesz) return segment.p_offset + (address - segment.p_vaddr);
  }
  return 0;
}

/* NULL where it does not end inside the file. */
static const char *text_at(const view *v, uint64_t table, uint64_t index) {
  if (table == 0 || table >= v->count || index >= v->count - table) return NULL;
  const uint8_t *text = v->bytes + table + index;
  return memchr(text, '\0', v->count - (size_t)(table + index)) == NULL ? NULL : (const char *)text;
}

static int take_entry(const view *v, const GElf_Dyn *entry, uint64_t strings, nx_contents *out) {
  if (entry->d_tag != DT_NEEDED && entry->d_tag != DT_RUNPATH && entry->d_tag != DT_RPATH) return 1;
  const char *text = text_at(v, strings, entry->d_un.d_val);
  if (text == NULL) return 0;
  if (entry->d_tag == DT_RUNPATH || (entry->d_tag == DT_RPATH && out->search_path == NULL)) out->search_path = text;
  if (entry->d_tag != DT_NEEDED) return 1;
  if (out->dependency_count == NX_DEPENDENCIES_MAX) return 0;
  out->dependencies[out->dependency_count++] = text;
  return 1;
}

static int read_dynamic(const view *v, const GElf_Phdr *segment, nx_contents *out) {
  Elf_Data *data = elf_getdata_rawchunk(v->elf, (int64_t)segment->p_offset, segment->p_filesz, ELF_T_DYN);
  if (data == NULL) return 0;
  GElf_Dyn entry;
  uint64_t strings = 0;
  for (int i = 0; gelf_getdyn(data, i, &entry) != NULL && entry.d_tag != DT_NULL; i++)
    if (entry.d_tag == DT_STRTAB) strings = offset_of(v, entry.d_un.d_ptr);
  for (int i = 0; gelf_getdyn(data, i, &entry) != NULL && entry.d_tag != DT_NULL; i++)
    if (!take_entry(v, &entry, strings, out)) return 0;
  return 1;
}

static int read_elf(view *v, nx_contents *out) {
  GElf_Phdr segment;
  if (elf_kind(v->elf) != ELF_K_ELF || elf_getphdrnum(v->elf, &v->segments) != 0) return 0;
  find_build_id(v, &out->build_id);
  for (size_t i = 0; i < v->segments; i++)
    if (segment_of(v, i, PT_DYNAMIC, &segment)) return read_dynamic(v, &segment, out);
  return 1;
}

int nx_contents_read(const uint8_t *bytes, size_t count, nx_contents *out) {
  memset(out, 0, sizeof *out);
  if (elf_version(EV_CURRENT) == EV_NONE) return 0;
  view v = {.bytes = bytes, .count = count};
  v.elf = elf_memory((char *)(uintptr_t)bytes, count);
  if (v.elf == NULL) return 0;
  const int read = read_elf(&v, out);
  (void)elf_end(v.elf);
  return read;
}
