/*
 * elf.c: what nxmem inspect and audit read out of a file, from its first byte to the findings and their JSON.
 * Attackers: every byte of the file.
 * Promise: nothing outside the file is read and none of it is written; read from memory or from a descriptor, once or
 * twice, it says the same; each name told is in the file; what is shown is printable.
 *
 * Input: the file.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "audit/document.h"
#include "harness.h"
#include "reference_text.h"
#include "text.h"

typedef struct reading {
  int refused;
  nx_problem why;
  nx_audit_facts facts;
  nx_audit_findings findings;
} reading;

static void look(uint8_t *image, size_t size, reading *out) {
  memset(out, 0, sizeof *out);
  out->refused = nx_audit_facts_read(image, size, &out->facts, &out->why);
  if (!out->refused) nx_audit_judge(&out->facts, &out->findings);
}

static void drop(reading *r) {
  if (!r->refused) nx_audit_facts_free(&r->facts);
  nx_audit_findings_free(&r->findings);
}

static void expect_printable(const char *oracle, const char *text) {
  const size_t length = strlen(text);
  if (length == 0 || !ref_is_printable((const uint8_t *)text, (uint32_t)length)) fuzz_fail(oracle, "not printable");
}

/* ---- From a descriptor ------------------------------------------------------------------------------------------- */

static void same_facts(const nx_facts *found, const nx_facts *expected) {
  fuzz_same_number("soname", found->soname != NULL, expected->soname != NULL);
  if (found->soname != NULL && strcmp(found->soname, expected->soname) != 0) fuzz_fail("soname", "differs");
  for (int i = 0; i < NX_EXPORTS; i++) fuzz_same_number("export", found->exports[i], expected->exports[i]);
  fuzz_same_number("needed", found->needed.count, expected->needed.count);
  fuzz_same_number("other exports", found->other_exports.count, expected->other_exports.count);
  fuzz_same_number("unique symbols", found->unique_symbols.count, expected->unique_symbols.count);
  fuzz_same_number("constructors", found->init_array, expected->init_array);
  fuzz_same_number("IFUNC symbols", found->ifunc_symbols, expected->ifunc_symbols);
  fuzz_same_number("IFUNC relocations", found->ifunc_relocations, expected->ifunc_relocations);
  fuzz_same_number("RELRO", found->relro, expected->relro);
  fuzz_same_number("stack", found->stack, expected->stack);
  fuzz_same_number("build id", found->build_id_bytes, expected->build_id_bytes);
  fuzz_same_bytes("build id", found->build_id, expected->build_id, found->build_id_bytes);
}

/* One file for all inputs. */
static int file_of(const uint8_t *data, size_t size) {
  static int fd = -1;
  if (fd < 0) fd = memfd_create("fuzz-elf", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size) fuzz_fail("harness", "no file");
  return fd;
}

/* Whoever reads more may refuse more. */
static void run_descriptor(const uint8_t *data, size_t size, const reading *r) {
  nx_facts facts;
  nx_problem why;
  if (nx_facts_read(file_of(data, size), &facts, &why)) {
    fuzz_same_number("refused from a descriptor, so in memory", (uint64_t)(r->refused != 0), 1);
    if (strcmp(why.message, r->why.message) != 0)
      fuzz_fail("message", "\"%s\", not \"%s\"", r->why.message, why.message);
    return;
  }
  if (!r->refused) same_facts(&r->facts.base, &facts);
  nx_facts_free(&facts);
}

/* ---- What is told ------------------------------------------------------------------------------------------------ */

static void expect_in_file(const uint8_t *data, size_t size, const char *name) {
  if (memmem(data, size, name, strlen(name) + 1) == NULL) fuzz_fail("name", "it is not in the file");
}

static void run_names(const uint8_t *data, size_t size, const nx_audit_facts *facts) {
  for (size_t i = 0; i < facts->exports.count; i++) {
    expect_in_file(data, size, facts->exports.items[i].name);
    if (i && strcmp(facts->exports.items[i - 1].name, facts->exports.items[i].name) > 0)
      fuzz_fail("exports", "not sorted");
  }
  for (size_t i = 0; i < facts->imports.count; i++) expect_in_file(data, size, facts->imports.items[i].name);
  for (size_t i = 0; i < facts->needs.count; i++) expect_in_file(data, size, facts->needs.items[i].name);
  for (size_t i = 0; i < facts->defines.count; i++) expect_in_file(data, size, facts->defines.items[i].name);
  for (size_t i = 0; i < facts->needed.count; i++) expect_in_file(data, size, facts->needed.items[i]);
}

static void run_findings(const reading *r) {
  size_t tally[NX_AUDIT_LEVELS] = {0};
  for (size_t i = 0; i < r->findings.count; i++) {
    expect_printable("evidence", r->findings.items[i].evidence);
    tally[NX_AUDIT_RULE[r->findings.items[i].rule].level]++;
  }
  for (int i = 0; i < NX_AUDIT_LEVELS; i++) fuzz_same_number("tally", r->findings.tally[i], tally[i]);
}

/* What JSON takes is UTF-8, and comes back as it went in. */
static void run_json(const reading *r) {
  json_t *whole = nx_audit_object();
  json_object_set_new(whole, "facts", nx_audit_facts_json(&r->facts));
  json_object_set_new(whole, "findings", nx_audit_findings_json(&r->findings));
  char *text = json_dumps(whole, JSON_COMPACT);
  if (text == NULL) fuzz_fail("json", "cannot be written");
  json_t *back = json_loads(text, 0, NULL);
  if (back == NULL || !json_equal(back, whole)) fuzz_fail("json", "comes back as another");
  json_decref(back);
  json_decref(whole);
  free(text);
}

/* ---- Twice ------------------------------------------------------------------------------------------------------- */

static void run_again(uint8_t *image, size_t size, const reading *first) {
  reading again;
  look(image, size, &again);
  fuzz_same_number("refused again", (uint64_t)(again.refused != 0), (uint64_t)(first->refused != 0));
  fuzz_same_number("findings again", again.findings.count, first->findings.count);
  for (size_t i = 0; i < again.findings.count; i++) {
    fuzz_same_number("rule again", again.findings.items[i].rule, first->findings.items[i].rule);
    if (strcmp(again.findings.items[i].evidence, first->findings.items[i].evidence) != 0)
      fuzz_fail("evidence again", "differs");
  }
  drop(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  (void)fuzz_begin(data, size);
  uint8_t *image = fuzz_exact(data, size), nothing = 0;
  reading r;
  look(image ? image : &nothing, size, &r);
  if (image) fuzz_same_bytes("the file is not written", image, data, size);
  if (r.refused) expect_printable("refusal", r.why.message);
  run_descriptor(data, size, &r);
  if (!r.refused) {
    run_names(data, size, &r.facts);
    run_findings(&r);
    run_json(&r);
    run_again(image, size, &r);
  }
  drop(&r);
  free(image);
  return 0;
}
