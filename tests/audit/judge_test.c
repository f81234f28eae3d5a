/*
 * judge_test.c: each rule that an image alone decides, by one fact each; and a file without fault has no finding.
 * Attackers: none; facts are made here.
 * Promise: a fact fires its rule and no other.
 */
#include <stdlib.h>
#include <string.h>

#include "audit/facts.h"
#include "support.h"

typedef struct row {
  const char *name;
  void (*spoil)(nx_audit_facts *facts);
  nx_audit_rule_key rule;
  const char *evidence; /* NULL: whatever it says */
} row;

static void clean(nx_audit_facts *facts) {
  memset(facts, 0, sizeof *facts);
  for (int i = 0; i < NX_EXPORTS; i++) facts->base.exports[i] = NX_EXPORT_FUNCTION;
  facts->base.init_array = facts->base.fini_array = 1;
  facts->base.relro = NX_RELRO_FULL;
  facts->base.bind_now = 1;
  facts->base.stack = NX_STACK_PLAIN;
  facts->base.build_id_bytes = 20;
}

static char TEXT[4][64];

static char *text(int at, const char *word) {
  snprintf(TEXT[at], sizeof TEXT[at], "%s", word);
  return TEXT[at];
}

static nx_audit_symbol symbols[16];
static const char *strings[4];

static void export_name(nx_audit_facts *f, const char *name) {
  symbols[0] = (nx_audit_symbol){.name = name, .bytes = 8, .type = STT_FUNC};
  f->exports = (nx_audit_symbols){symbols, 1, 1};
}
static void import_name(nx_audit_facts *f, const char *name) {
  symbols[0] = (nx_audit_symbol){.name = name, .type = STT_FUNC};
  f->imports = (nx_audit_symbols){symbols, 1, 1};
}
static nx_audit_strings one_string(const char *name) {
  strings[0] = name;
  return (nx_audit_strings){strings, 1, 1};
}

static void missing(nx_audit_facts *f) { f->base.exports[2] = NX_EXPORT_MISSING; }
static void hidden(nx_audit_facts *f) { f->base.exports[0] = NX_EXPORT_HIDDEN; }
static void data(nx_audit_facts *f) { f->base.exports[1] = NX_EXPORT_NO_FUNCTION; }
static void asked_for(nx_audit_facts *f) { f->base.exports[1] = NX_EXPORT_UNDEFINED; }
static void mangled(nx_audit_facts *f) { f->base.exports[1] = NX_EXPORT_MANGLED; }
static void indirect(nx_audit_facts *f) { f->base.exports[0] = NX_EXPORT_INDIRECT; }
static void more(nx_audit_facts *f) { export_name(f, "of_its_own"); }
static void takes_malloc(nx_audit_facts *f) { export_name(f, "malloc"); }
static void takes_driver(nx_audit_facts *f) { export_name(f, "cuMemAlloc_v2"); }
static void reaches(nx_audit_facts *f) { import_name(f, "execve"); }
static void looks_up(nx_audit_facts *f) { import_name(f, "dlsym"); }
static nx_audit_calls calls(const char *where, uint64_t address, uint64_t count) {
  return (nx_audit_calls){{{where, address, address != 0}}, count};
}
static void constructs(nx_audit_facts *f) { f->at_load = calls("DT_INIT_ARRAY", 0x1130, 1); }
static void constructs_somewhere(nx_audit_facts *f) { f->at_load = calls("DT_INIT", 0, 1); }
static void destructs(nx_audit_facts *f) { f->at_unload = calls("DT_FINI", 0x1130, 1); }
static void destructs_often(nx_audit_facts *f) {
  f->at_unload = calls("DT_FINI_ARRAY", 1, 1000);
  for (int i = 1; i < NX_AUDIT_CALLS_KEPT; i++) f->at_unload.kept[i] = f->at_unload.kept[0];
}
static void preinit(nx_audit_facts *f) { f->preinit_bytes = 8; }
static void ifunc_symbol(nx_audit_facts *f) { f->base.ifunc_symbols = 1; }
static void ifunc_relocation(nx_audit_facts *f) { f->base.ifunc_relocations = 1; }
static void ifunc_relocations(nx_audit_facts *f) { f->base.ifunc_relocations = 2; }
static void textrel(nx_audit_facts *f) { f->base.text_relocations = 1; }
static void stack(nx_audit_facts *f) { f->base.stack = NX_STACK_EXECUTABLE; }
static void stack_unsaid(nx_audit_facts *f) { f->base.stack = NX_STACK_UNSTATED; }
static void writable(nx_audit_facts *f) { f->base.writable_code = 1; }
static void no_relro(nx_audit_facts *f) { f->base.relro = NX_RELRO_NONE; }
static void partial(nx_audit_facts *f) { f->base.relro = NX_RELRO_PARTIAL; }
static void lazy(nx_audit_facts *f) { f->base.bind_now = 0; }
static void runpath_relative(nx_audit_facts *f) { f->base.runpath = text(0, "/a:b"); }
static void runpath_empty(nx_audit_facts *f) { f->base.runpath = text(0, ""); }
static void rpath_ends(nx_audit_facts *f) { f->base.rpath = text(0, "/a:"); }
static void runpath_looks(nx_audit_facts *f) { f->base.runpath = text(0, "/a:$ORIGIN/b:${ORIGIN}"); }
static void needs_relative(nx_audit_facts *f) { f->needed = one_string("lib/x.so"); }
static void filters(nx_audit_facts *f) { f->filters = one_string("libm.so.6"); }
static void global(nx_audit_facts *f) { f->global = 1; }
static void interpose(nx_audit_facts *f) { f->interpose = 1; }
static void nodelete(nx_audit_facts *f) { f->base.nodelete = 1; }
static void noopen(nx_audit_facts *f) { f->base.noopen = 1; }
static void static_tls(nx_audit_facts *f) { f->base.static_tls = 1; }
static void thread_end(nx_audit_facts *f) { f->base.thread_destructors = 1; }
static void unnamed(nx_audit_facts *f) { f->base.build_id_bytes = 0; }
static void unique(nx_audit_facts *f) {
  f->base.unique_symbols.kept[0] = text(1, "one");
  f->base.unique_symbols.count = 1;
}
/* What is beyond the names that are kept is counted. */
static void unique_many(nx_audit_facts *f) {
  for (int i = 0; i < NX_NAMES_KEPT; i++) f->base.unique_symbols.kept[i] = text(1, "n");
  f->base.unique_symbols.count = 1000;
}
static void many(nx_audit_facts *f) {
  for (size_t i = 0; i < 16; i++) symbols[i] = (nx_audit_symbol){.name = "x", .bytes = 8, .type = STT_FUNC};
  f->exports = (nx_audit_symbols){symbols, 16, 16};
}
static void steers(nx_audit_facts *f) { export_name(f, "\x1b[31m"); }

static const row FACTS[] = {
    {"a missing export", missing, NX_AUDIT_MISSING_EXPORT, "NxmemQueryUnloadReadiness is not defined"},
    {"a hidden export", hidden, NX_AUDIT_MISSING_EXPORT, "NxmemNegotiate is defined, but hidden"},
    {"an export that is data", data, NX_AUDIT_MISSING_EXPORT, "NxmemCreateAllocatorFactories is no function"},
    {"an export that is asked for", asked_for, NX_AUDIT_MISSING_EXPORT, NULL},
    {"an export under a C++ name", mangled, NX_AUDIT_MISSING_EXPORT, NULL},
    {"an indirect export", indirect, NX_AUDIT_INDIRECT_EXPORT, NULL},
    {"one export more", more, NX_AUDIT_OTHER_EXPORT, "exports of_its_own"},
    {"sixteen exports more", many, NX_AUDIT_OTHER_EXPORT, "exports x, x, x, x, x, x, x, x and 8 more"},
    {"an export that steers a terminal", steers, NX_AUDIT_OTHER_EXPORT, "exports \\x1b[31m"},
    {"malloc", takes_malloc, NX_AUDIT_INTERPOSER, "exports malloc"},
    {"a driver's function", takes_driver, NX_AUDIT_INTERPOSER, "exports cuMemAlloc_v2"},
    {"a function that reaches out", reaches, NX_AUDIT_REACHES_OUT, "imports execve"},
    {"a function that looks others up", looks_up, NX_AUDIT_REACHES_OUT, "imports dlsym"},
    {"a constructor", constructs, NX_AUDIT_CONSTRUCTOR, "calls 0x1130 by DT_INIT_ARRAY"},
    {"a constructor somewhere", constructs_somewhere, NX_AUDIT_CONSTRUCTOR, "calls an unknown address by DT_INIT"},
    {"a destructor", destructs, NX_AUDIT_DESTRUCTOR, "calls 0x1130 by DT_FINI"},
    {"a thousand destructors", destructs_often, NX_AUDIT_DESTRUCTOR,
     "calls 0x1 by DT_FINI_ARRAY, 0x1 by DT_FINI_ARRAY, 0x1 by DT_FINI_ARRAY, 0x1 by DT_FINI_ARRAY, 0x1 by "
     "DT_FINI_ARRAY, 0x1 by DT_FINI_ARRAY, 0x1 by DT_FINI_ARRAY, 0x1 by DT_FINI_ARRAY and 992 more"},
    {"an entry for programs", preinit, NX_AUDIT_PREINIT, "DT_PREINIT_ARRAY of 8 bytes"},
    {"an indirect function", ifunc_symbol, NX_AUDIT_IFUNC, "1 symbol, 0 relocations"},
    {"a relocation of an indirect function", ifunc_relocation, NX_AUDIT_IFUNC, "0 symbols, 1 relocation"},
    {"relocations of indirect functions", ifunc_relocations, NX_AUDIT_IFUNC, "0 symbols, 2 relocations"},
    {"text relocations", textrel, NX_AUDIT_TEXTREL, NULL},
    {"an executable stack", stack, NX_AUDIT_STACK, "PT_GNU_STACK asks for it"},
    {"a stack that nothing is said of", stack_unsaid, NX_AUDIT_STACK, "there is no PT_GNU_STACK"},
    {"writable code", writable, NX_AUDIT_WRITABLE_CODE, "1 loaded segment"},
    {"no RELRO", no_relro, NX_AUDIT_NO_RELRO, NULL},
    {"partial RELRO", partial, NX_AUDIT_PARTIAL_RELRO, NULL},
    {"lazy binding", lazy, NX_AUDIT_LAZY_BINDING, NULL},
    {"a relative part", runpath_relative, NX_AUDIT_RELATIVE_PATH, "RUNPATH /a:b"},
    {"an empty path", runpath_empty, NX_AUDIT_RELATIVE_PATH, "RUNPATH (empty)"},
    {"an empty part at the end", rpath_ends, NX_AUDIT_RELATIVE_PATH, "RPATH /a:"},
    {"a search path", runpath_looks, NX_AUDIT_SEARCH_PATH, NULL},
    {"a dependency by a relative path", needs_relative, NX_AUDIT_RELATIVE_PATH, "dependency lib/x.so"},
    {"a filter", filters, NX_AUDIT_FILTER, "libm.so.6"},
    {"global", global, NX_AUDIT_GLOBAL, "DF_1_GLOBAL"},
    {"interpose", interpose, NX_AUDIT_GLOBAL, "DF_1_INTERPOSE"},
    {"nodelete", nodelete, NX_AUDIT_NODELETE, NULL},
    {"a unique symbol", unique, NX_AUDIT_UNIQUE, "one"},
    {"a thousand unique symbols", unique_many, NX_AUDIT_UNIQUE, "n, n, n, n, n, n, n, n and 992 more"},
    {"nodlopen", noopen, NX_AUDIT_NOOPEN, NULL},
    {"static TLS", static_tls, NX_AUDIT_STATIC_TLS, NULL},
    {"a thread's destructor", thread_end, NX_AUDIT_THREAD_DESTRUCTOR, NULL},
    {"no build-id", unnamed, NX_AUDIT_NO_BUILD_ID, NULL},
};

static void fires_its_rule(void **state) {
  const row *of = *state;
  nx_audit_facts facts;
  nx_audit_findings findings = {0};
  clean(&facts);
  of->spoil(&facts);
  nx_audit_judge(&facts, &findings);
  assert_int_equal(findings.count, 1);
  assert_string_equal(NX_AUDIT_RULE[findings.items[0].rule].id, NX_AUDIT_RULE[of->rule].id);
  if (of->evidence) assert_string_equal(findings.items[0].evidence, of->evidence);
  assert_int_equal(findings.tally[NX_AUDIT_RULE[of->rule].level], 1);
  nx_audit_findings_free(&findings);
}

static void clean_has_none(void **state) {
  (void)state;
  nx_audit_facts facts;
  nx_audit_findings findings = {0};
  clean(&facts);
  nx_audit_judge(&facts, &findings);
  assert_int_equal(findings.count, 0);
  nx_audit_findings_free(&findings);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_add(&suite, "a file without fault", clean_has_none, NULL);
  nx_suite_rows(&suite, ROWS(FACTS), fires_its_rule);
  return nx_suite_run(&suite, "audit judge");
}
