/*
 * image_test.c: facts of an image, whatever was done to it. Runs under AddressSanitizer, each image in a block of its
 * exact size: a read behind its end, or of anything that libelf left undone, ends the test.
 * Attackers: the images here. Promise: a refusal is one printable line; facts are printable as findings and as JSON.
 */
#include <elf.h>

#include "audit/document.h"
#include "support.h"
#include "text.h"

typedef struct file {
  uint8_t *bytes;
  size_t size;
} file;

static file load(const char *name) {
  char path[4096];
  file out = {0};
  snprintf(path, sizeof path, "%s/%s", FIXTURES, name);
  FILE *from = fopen(path, "rb");
  assert_non_null(from);
  assert_int_equal(fseek(from, 0, SEEK_END), 0);
  out.size = (size_t)ftell(from);
  rewind(from);
  out.bytes = malloc(out.size);
  assert_non_null(out.bytes);
  assert_int_equal(fread(out.bytes, 1, out.size, from), out.size);
  fclose(from);
  return out;
}

/* 1: it has facts, which were looked at. */
static int look(const uint8_t *from, size_t size) {
  uint8_t *exact = malloc(size ? size : 1);
  nx_audit_facts facts;
  nx_audit_findings findings = {0};
  nx_problem why = {""};
  assert_non_null(exact);
  if (size) memcpy(exact, from, size);
  int has_facts = !nx_audit_facts_read(exact, size, &facts, &why);
  if (has_facts) {
    nx_audit_judge(&facts, &findings);
    for (size_t i = 0; i < findings.count; i++) assert_true(nx_is_printable(findings.items[i].evidence));
    json_decref(nx_audit_facts_json(&facts));
    json_decref(nx_audit_findings_json(&findings));
    nx_audit_findings_free(&findings);
    nx_audit_facts_free(&facts);
  } else {
    assert_true(why.message[0] && nx_is_printable(why.message));
  }
  free(exact);
  return has_facts;
}

static const char *name_of(void **state) { return *state; }

static void whole_is_read(void **state) {
  file image = load(name_of(state));
  nx_audit_facts facts;
  nx_problem why;
  assert_int_equal(nx_audit_facts_read(image.bytes, image.size, &facts, &why), 0);
  assert_true(nx_audit_is_plugin(&facts));
  /* Three exports, one more, and one absolute symbol for each version. */
  size_t named = 0, asked = 0;
  for (size_t i = 0; i < facts.exports.count; i++) named += !strcmp(facts.exports.items[i].name, "audited_extra");
  for (size_t i = 0; i < facts.imports.count; i++) asked += !strcmp(facts.imports.items[i].name, "printf");
  assert_int_equal(named, 1);
  assert_int_equal(asked, 1);
  assert_int_equal(facts.defines.count, 2);
  assert_string_equal(facts.defines.items[0].name, "AUDITED_1");
  size_t of_libc = 0;
  for (size_t i = 0; i < facts.needs.count; i++) of_libc += !strcmp(facts.needs.items[i].library, "libc.so.6");
  assert_true(of_libc >= 1);
  nx_audit_facts_free(&facts);
  free(image.bytes);
}

/* What is behind the section table's end is nothing, and that table comes last: each cut is seen. */
static void cut_at_every_length(void **state) {
  file image = load(name_of(state));
  for (size_t size = 0; size < image.size; size++) assert_false(look(image.bytes, size));
  assert_true(look(image.bytes, image.size));
  free(image.bytes);
}

/* Without a section table, a cut may leave all that is loaded: no crash is what counts. */
static void cut_without_sections(void **state) {
  file image = load(name_of(state));
  Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)image.bytes;
  header->e_shoff = 0;
  header->e_shnum = 0;
  header->e_shstrndx = 0;
  for (size_t size = 0; size < image.size; size += size < 4096 ? 1 : 7) look(image.bytes, size);
  free(image.bytes);
}

/* Bytes of headers and tables, one at a time, to their extremes. */
static void each_byte_damaged(void **state) {
  static const uint8_t values[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
  file image = load(name_of(state));
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)image.bytes;
  size_t tables = header->e_phoff + header->e_phnum * sizeof(Elf64_Phdr);
  for (size_t at = 0; at < image.size; at++) {
    /* Code and padding mean nothing to a reader. */
    if (at >= tables + 4096 && image.bytes[at] == 0) continue;
    for (size_t i = 0; i < sizeof values; i++) {
      uint8_t before = image.bytes[at];
      image.bytes[at] = values[i];
      look(image.bytes, image.size);
      image.bytes[at] = before;
      if (at >= tables) break;
    }
  }
  free(image.bytes);
}

/* Each dynamic entry's value at the ends of what a number can be. */
static void each_entry_damaged(void **state) {
  static const uint64_t values[] = {0, 1, 7, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFF0, 1u << 30};
  file image = load(name_of(state));
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)image.bytes;
  const Elf64_Phdr *segments = (const Elf64_Phdr *)(const void *)(image.bytes + header->e_phoff);
  for (size_t s = 0; s < header->e_phnum; s++) {
    if (segments[s].p_type != PT_DYNAMIC) continue;
    Elf64_Dyn *entries = (Elf64_Dyn *)(void *)(image.bytes + segments[s].p_offset);
    for (size_t i = 0; i < segments[s].p_filesz / sizeof *entries; i++) {
      const Elf64_Dyn before = entries[i];
      for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
        entries[i].d_un.d_val = values[v];
        look(image.bytes, image.size);
        entries[i] = before;
        entries[i].d_tag = (Elf64_Sxword)values[v];
        look(image.bytes, image.size);
        entries[i] = before;
      }
    }
  }
  free(image.bytes);
}

/* The loader's own words decide, not look-alikes. */
static void names_are_known(void **state) {
  (void)state;
  static const char *const ours[] = {"malloc",         "_Znwm",      "cuMemAlloc", "cudaMalloc",
                                     "pthread_create", "la_version", "dlopen"};
  static const char *const others[] = {"my_malloc", "malloc_",        "custom", "cube", "zero",
                                       "hipster",   "open_allocator", "reader", ""};
  for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) assert_true(nx_audit_is_system_name(ours[i]));
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) assert_false(nx_audit_is_system_name(others[i]));
  assert_true(nx_audit_reaches_out("socket"));
  assert_false(nx_audit_reaches_out("socketpair_of_mine"));
}

static void rules_are_whole(void **state) {
  (void)state;
  for (int i = 0; i < NX_AUDIT_RULES; i++) {
    const nx_audit_rule *rule = &NX_AUDIT_RULE[i];
    assert_true(rule->id && rule->name && rule->statement && strlen(rule->explanation) > 80);
    assert_ptr_equal(nx_audit_rule_find(rule->id), rule);
    assert_ptr_equal(nx_audit_rule_find(rule->name), rule);
  }
  assert_null(nx_audit_rule_find("NXA-000"));
}

int main(void) {
  static char gnu[] = "audited_gnu.so", sysv[] = "audited_sysv.so";
  const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(whole_is_read, gnu),
                                     cmocka_unit_test_prestate(whole_is_read, sysv),
                                     cmocka_unit_test_prestate(cut_at_every_length, gnu),
                                     cmocka_unit_test_prestate(cut_at_every_length, sysv),
                                     cmocka_unit_test_prestate(cut_without_sections, gnu),
                                     cmocka_unit_test_prestate(each_byte_damaged, gnu),
                                     cmocka_unit_test_prestate(each_byte_damaged, sysv),
                                     cmocka_unit_test_prestate(each_entry_damaged, gnu),
                                     cmocka_unit_test_prestate(each_entry_damaged, sysv),
                                     cmocka_unit_test(names_are_known),
                                     cmocka_unit_test(rules_are_whole)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
