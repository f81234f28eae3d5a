/*
 * judge.c: the rules that a file's image alone decides.
 * Attackers: the facts of a hostile file.
 * Promise: the same image gives the same findings; evidence is printable.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/facts.h"

/* ---- Exports ----------------------------------------------------------------------------------------------------- */

static const char *const STATE_WORD[] = {[NX_EXPORT_MISSING] = "is not defined",
                                         [NX_EXPORT_FUNCTION] = "is a function",
                                         [NX_EXPORT_INDIRECT] = "is an indirect function",
                                         [NX_EXPORT_NO_FUNCTION] = "is no function",
                                         [NX_EXPORT_UNDEFINED] = "is only asked for",
                                         [NX_EXPORT_HIDDEN] = "is defined, but hidden",
                                         [NX_EXPORT_MANGLED] = "is defined under a C++ name"};

static void judge_entry_points(const nx_facts *base, nx_audit_findings *findings) {
  for (int i = 0; i < NX_EXPORTS; i++) {
    nx_export_state state = base->exports[i];
    if (state == NX_EXPORT_FUNCTION) continue;
    nx_audit_add(findings, state == NX_EXPORT_INDIRECT ? NX_AUDIT_INDIRECT_EXPORT : NX_AUDIT_MISSING_EXPORT, "%s %s",
                 NX_EXPORT_NAME[i], STATE_WORD[state]);
  }
}

int nx_audit_is_entry_point(const char *name) {
  for (int i = 0; i < NX_EXPORTS; i++)
    if (!strcmp(name, NX_EXPORT_NAME[i])) return 1;
  return 0;
}

static void judge_symbols(const nx_audit_facts *facts, nx_audit_findings *findings) {
  nx_audit_words taken = {0}, more = {0}, outward = {0};
  for (size_t i = 0; i < facts->exports.count; i++) {
    const nx_audit_symbol *symbol = &facts->exports.items[i];
    const int system = nx_audit_is_system_name(symbol->name);
    if (nx_audit_is_entry_point(symbol->name) || (symbol->taken && !system)) continue;
    nx_audit_word(system ? &taken : &more, symbol->name);
  }
  for (size_t i = 0; i < facts->imports.count; i++)
    if (nx_audit_reaches_out(facts->imports.items[i].name)) nx_audit_word(&outward, facts->imports.items[i].name);
  nx_audit_add_words(findings, NX_AUDIT_INTERPOSER, "exports ", &taken);
  nx_audit_add_words(findings, NX_AUDIT_OTHER_EXPORT, "exports ", &more);
  nx_audit_add_words(findings, NX_AUDIT_REACHES_OUT, "imports ", &outward);
}

/* ---- What loading and unloading run ------------------------------------------------------------------------------ */

static void judge_calls(const nx_audit_calls *calls, nx_audit_rule_key rule, nx_audit_findings *findings) {
  nx_audit_words words = {0};
  char text[64];
  for (size_t i = 0; i < NX_AUDIT_CALLS_KEPT && i < calls->count; i++) {
    const nx_audit_call *call = &calls->kept[i];
    if (call->known)
      snprintf(text, sizeof text, "0x%" PRIx64 " by %s", call->address, call->where);
    else
      snprintf(text, sizeof text, "an unknown address by %s", call->where);
    nx_audit_word(&words, text);
  }
  words.count = calls->count;
  nx_audit_add_words(findings, rule, "calls ", &words);
}

static const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }

static void judge_code_at_load(const nx_audit_facts *facts, nx_audit_findings *findings) {
  const nx_facts *base = &facts->base;
  const uint64_t symbols = base->ifunc_symbols, relocations = base->ifunc_relocations;
  judge_calls(&facts->at_load, NX_AUDIT_CONSTRUCTOR, findings);
  judge_calls(&facts->at_unload, NX_AUDIT_DESTRUCTOR, findings);
  if (facts->preinit_bytes)
    nx_audit_add(findings, NX_AUDIT_PREINIT, "DT_PREINIT_ARRAY of %" PRIu64 " byte%s", facts->preinit_bytes,
                 plural(facts->preinit_bytes));
  if (symbols || relocations)
    nx_audit_add(findings, NX_AUDIT_IFUNC, "%" PRIu64 " symbol%s, %" PRIu64 " relocation%s", symbols, plural(symbols),
                 relocations, plural(relocations));
}

static void judge_unloading(const nx_audit_facts *facts, nx_audit_findings *findings) {
  const nx_facts *base = &facts->base;
  nx_audit_words unique = {0};
  for (size_t i = 0; i < NX_NAMES_KEPT && i < base->unique_symbols.count; i++)
    nx_audit_word(&unique, base->unique_symbols.kept[i]);
  unique.count = base->unique_symbols.count;
  nx_audit_add_words(findings, NX_AUDIT_UNIQUE, "", &unique);
  if (base->nodelete) nx_audit_add(findings, NX_AUDIT_NODELETE, "DF_1_NODELETE is set");
  if (base->noopen) nx_audit_add(findings, NX_AUDIT_NOOPEN, "DF_1_NOOPEN is set");
  if (base->static_tls) nx_audit_add(findings, NX_AUDIT_STATIC_TLS, "DF_STATIC_TLS is set");
  if (base->thread_destructors) nx_audit_add(findings, NX_AUDIT_THREAD_DESTRUCTOR, "it asks for __cxa_thread_atexit");
}

/* ---- Protections ------------------------------------------------------------------------------------------------- */

static void judge_protections(const nx_facts *base, nx_audit_findings *findings) {
  if (base->text_relocations) nx_audit_add(findings, NX_AUDIT_TEXTREL, "DT_TEXTREL or DF_TEXTREL is there");
  if (base->stack != NX_STACK_PLAIN)
    nx_audit_add(findings, NX_AUDIT_STACK, "%s",
                 base->stack == NX_STACK_EXECUTABLE ? "PT_GNU_STACK asks for it" : "there is no PT_GNU_STACK");
  if (base->writable_code)
    nx_audit_add(findings, NX_AUDIT_WRITABLE_CODE, "%" PRIu64 " loaded segment%s", base->writable_code,
                 plural(base->writable_code));
  if (base->relro == NX_RELRO_NONE) nx_audit_add(findings, NX_AUDIT_NO_RELRO, "there is no PT_GNU_RELRO");
  if (base->relro == NX_RELRO_PARTIAL)
    nx_audit_add(findings, NX_AUDIT_PARTIAL_RELRO, "PT_GNU_RELRO without DF_BIND_NOW");
  if (!base->bind_now) nx_audit_add(findings, NX_AUDIT_LAZY_BINDING, "neither DF_BIND_NOW nor DF_1_NOW is set");
  if (!base->build_id_bytes) nx_audit_add(findings, NX_AUDIT_NO_BUILD_ID, "there is no NT_GNU_BUILD_ID note");
}

/* ---- Where libraries come from ----------------------------------------------------------------------------------- */

static int is_fixed(const char *part) {
  return *part == '/' || !strncmp(part, "$ORIGIN", 7) || !strncmp(part, "${ORIGIN}", 9);
}

int nx_audit_is_relative_list(const char *list) {
  for (const char *part = list;; part = strchr(part, ':') + 1) {
    if (!is_fixed(part)) return 1;
    if (!strchr(part, ':')) return 0;
  }
}

static void judge_list(const char *name, const char *list, nx_audit_findings *findings) {
  nx_audit_words words = {0};
  char lead[16];
  if (!list) return;
  strcpy(lead, name);
  nx_audit_word(&words, list);
  nx_audit_add_words(findings, nx_audit_is_relative_list(list) ? NX_AUDIT_RELATIVE_PATH : NX_AUDIT_SEARCH_PATH, lead,
                     &words);
}

static void judge_paths(const nx_audit_facts *facts, nx_audit_findings *findings) {
  nx_audit_words relative = {0}, filters = {0};
  judge_list("RPATH ", facts->base.rpath, findings);
  judge_list("RUNPATH ", facts->base.runpath, findings);
  for (size_t i = 0; i < facts->needed.count; i++) {
    const char *name = facts->needed.items[i];
    if (strchr(name, '/') && !is_fixed(name)) nx_audit_word(&relative, name);
  }
  for (size_t i = 0; i < facts->filters.count; i++) nx_audit_word(&filters, facts->filters.items[i]);
  nx_audit_add_words(findings, NX_AUDIT_RELATIVE_PATH, "dependency ", &relative);
  nx_audit_add_words(findings, NX_AUDIT_FILTER, "", &filters);
  if (facts->global || facts->interpose)
    nx_audit_add(findings, NX_AUDIT_GLOBAL, "%s%s%s", facts->global ? "DF_1_GLOBAL" : "",
                 facts->global && facts->interpose ? ", " : "", facts->interpose ? "DF_1_INTERPOSE" : "");
}

void nx_audit_judge(const nx_audit_facts *facts, nx_audit_findings *findings) {
  judge_entry_points(&facts->base, findings);
  judge_symbols(facts, findings);
  judge_code_at_load(facts, findings);
  judge_protections(&facts->base, findings);
  judge_paths(facts, findings);
  judge_unloading(facts, findings);
}
