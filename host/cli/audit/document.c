/*
 * document.c: facts and findings as JSON.
 * Attackers: names inside the file.
 * Promise: every text is escaped here, once.
 */
#include "audit/document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "text.h"

static json_t *made(json_t *value) {
  if (!value) nx_out_of_memory();
  return value;
}

json_t *nx_audit_object(void) { return made(json_object()); }
json_t *nx_audit_array(void) { return made(json_array()); }

void nx_audit_append(json_t *array, json_t *item) {
  if (json_array_append_new(array, item)) nx_out_of_memory();
}

void nx_audit_set_raw(json_t *row, const char *key, const char *raw) {
  if (!raw) {
    nx_set(row, key, json_null());
    return;
  }
  char *shown = nx_show_text(raw);
  nx_set_text(row, key, shown);
  free(shown);
}

const char *nx_audit_text(const json_t *row, const char *key) {
  const char *text = json_string_value(json_object_get(row, key));
  return text ? text : "";
}

/* ---- Facts ------------------------------------------------------------------------------------------------------- */

static void append_raw(json_t *array, const char *raw) {
  char *shown = nx_show_text(raw);
  nx_append_text(array, shown);
  free(shown);
}

static json_t *names_json(const nx_audit_symbols *symbols) {
  json_t *out = nx_audit_array();
  for (size_t i = 0; i < symbols->count; i++) append_raw(out, symbols->items[i].name);
  return out;
}

static json_t *strings_json(const nx_audit_strings *strings) {
  json_t *out = nx_audit_array();
  for (size_t i = 0; i < strings->count; i++) append_raw(out, strings->items[i]);
  return out;
}

static json_t *versions_json(const nx_audit_versions *versions) {
  json_t *out = nx_audit_array();
  for (size_t i = 0; i < versions->count; i++) {
    const nx_audit_version *version = &versions->items[i];
    char *joined = NULL;
    if (asprintf(&joined, "%s%s%s%s", version->library ? version->library : "", version->library ? " " : "",
                 version->name, version->weak ? " (weak)" : "") < 0)
      nx_out_of_memory();
    append_raw(out, joined);
    free(joined);
  }
  return out;
}

static void set_marks(json_t *out, const nx_audit_facts *facts) {
  static const char *const relro[] = {"none", "partial", "full"};
  static const char *const stack[] = {"unstated", "not executable", "executable"};
  const nx_facts *base = &facts->base;
  nx_set_text(out, "relro", relro[base->relro]);
  nx_set_text(out, "stack", stack[base->stack]);
  nx_set_flag(out, "bind_now", base->bind_now);
  nx_set_flag(out, "text_relocations", base->text_relocations);
  nx_set_flag(out, "nodelete", base->nodelete);
  nx_set_flag(out, "noopen", base->noopen);
  nx_set_flag(out, "static_tls", base->static_tls);
  nx_set_flag(out, "global", facts->global);
  nx_set_flag(out, "interpose", facts->interpose);
  nx_set_flag(out, "thread_destructors", base->thread_destructors);
  nx_set_number(out, "writable_code", base->writable_code);
  nx_set_number(out, "constructors", base->init_array);
  nx_set_number(out, "destructors", base->fini_array);
  nx_set_flag(out, "init", base->init);
  nx_set_flag(out, "fini", base->fini);
  nx_set_number(out, "ifuncs", base->ifunc_symbols + base->ifunc_relocations);
}

static const char *type_word(uint32_t type) {
  switch (type) {
    case PT_LOAD:
      return "load";
    case PT_DYNAMIC:
      return "dynamic";
    case PT_NOTE:
      return "note";
    case PT_TLS:
      return "tls";
    case PT_GNU_EH_FRAME:
      return "eh-frame";
    case PT_GNU_STACK:
      return "stack";
    case PT_GNU_RELRO:
      return "relro";
    default:
      return "other";
  }
}

/* What is mapped where, and with which rights. */
static json_t *segments_json(const nx_audit_facts *facts) {
  json_t *out = nx_audit_array();
  GElf_Phdr segment;
  char line[128];
  for (size_t i = 0; i < facts->elf.segments; i++) {
    if (nx_elf_segment(&facts->elf, i, &segment)) continue;
    snprintf(line, sizeof line, "%s %s%s%s at 0x%" PRIx64 ", %" PRIu64 " bytes, %" PRIu64 " of the file",
             type_word(segment.p_type), segment.p_flags & PF_R ? "r" : "-", segment.p_flags & PF_W ? "w" : "-",
             segment.p_flags & PF_X ? "x" : "-", segment.p_vaddr, segment.p_memsz, segment.p_filesz);
    nx_append_text(out, line);
  }
  return out;
}

json_t *nx_audit_facts_json(const nx_audit_facts *facts) {
  const nx_facts *base = &facts->base;
  json_t *out = nx_audit_object(), *marks = nx_audit_object();
  char *build_id = base->build_id_bytes ? nx_show_hex(base->build_id, base->build_id_bytes) : NULL;
  nx_set_text(out, "machine", nx_machine_name(base->machine));
  nx_audit_set_raw(out, "soname", base->soname);
  nx_audit_set_raw(out, "build_id", build_id);
  free(build_id);
  nx_set_number(out, "bytes", facts->elf.size);
  nx_audit_set_raw(out, "rpath", base->rpath);
  nx_audit_set_raw(out, "runpath", base->runpath);
  set_marks(marks, facts);
  nx_set(out, "marks", marks);
  nx_set(out, "exports", names_json(&facts->exports));
  nx_set(out, "imports", names_json(&facts->imports));
  nx_set(out, "filters", strings_json(&facts->filters));
  nx_set(out, "versions_needed", versions_json(&facts->needs));
  nx_set(out, "versions_defined", versions_json(&facts->defines));
  nx_set(out, "segments", segments_json(facts));
  return out;
}

/* ---- Findings ---------------------------------------------------------------------------------------------------- */

static json_t *finding_json(const nx_audit_finding *finding) {
  const nx_audit_rule *rule = &NX_AUDIT_RULE[finding->rule];
  json_t *row = nx_audit_object();
  nx_set_text(row, "rule", rule->id);
  nx_set_text(row, "name", rule->name);
  nx_set_text(row, "level", NX_AUDIT_LEVEL_WORD[rule->level]);
  nx_set_text(row, "statement", rule->statement);
  nx_set_text(row, "evidence", finding->evidence);
  return row;
}

/* The gravest first; within a level, as they were found. */
json_t *nx_audit_findings_json(const nx_audit_findings *findings) {
  json_t *out = nx_audit_array();
  for (int level = NX_AUDIT_LEVELS - 1; level >= 0; level--)
    for (size_t i = 0; i < findings->count; i++)
      if ((int)NX_AUDIT_RULE[findings->items[i].rule].level == level)
        nx_audit_append(out, finding_json(&findings->items[i]));
  return out;
}
