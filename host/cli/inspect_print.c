/*
 * inspect_print.c: facts about a plugin file as rows with a verdict.
 * Attackers: names inside the file.
 * Promise: names are escaped before they reach a row; the verdict depends on the facts alone.
 */
#include <stdlib.h>
#include <string.h>

#include "inspect.h"
#include "text.h"

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static void add(nx_report *report, const char *name, nx_row_verdict verdict, json_t *value, const char *message) {
  json_t *row = nx_row(name, verdict);
  nx_set(row, "value", value);
  if (message) nx_set_text(row, "message", message);
  nx_report_add(report, row);
}

static json_t *shown_text(const char *raw) {
  if (!raw) return json_null();
  char *shown = nx_show_text(raw);
  json_t *value = json_string(shown);
  free(shown);
  return value;
}

static json_t *shown_names(const nx_names *names) {
  json_t *list = json_array();
  if (!list) nx_out_of_memory();
  for (size_t i = 0; i < NX_NAMES_KEPT && i < names->count; i++) {
    char *shown = nx_show_text(names->kept[i]);
    nx_append_text(list, shown);
    free(shown);
  }
  return list;
}

/* Names with their full count, which may be above the number of names listed. */
static void add_names(nx_report *report, const char *name, nx_row_verdict verdict, const nx_names *names,
                      const char *message) {
  json_t *row = nx_row(name, verdict);
  nx_set_number(row, "count", names->count);
  nx_set(row, "value", shown_names(names));
  if (message) nx_set_text(row, "message", message);
  nx_report_add(report, row);
}

static json_t *number(uint64_t count) { return json_integer((json_int_t)count); }

/* A mark that a plugin should not carry. */
static void add_mark(nx_report *report, const char *name, int set, nx_row_verdict if_set, const char *message) {
  add(report, name, set ? if_set : NX_ROW_OK, json_boolean(set), set ? message : NULL);
}

/* ---- What it is -------------------------------------------------------------------------------------------------- */

static void identity_rows(const nx_facts *facts, nx_report *report) {
  char *build_id = facts->build_id_bytes ? nx_show_hex(facts->build_id, facts->build_id_bytes) : NULL;
  add(report, "format", NX_ROW_OK, json_string("ELF64 shared object"), NULL);
  add(report, "machine", NX_ROW_OK, json_string(nx_machine_name(facts->machine)), NULL);
  add(report, "soname", NX_ROW_OK, shown_text(facts->soname), NULL);
  add(report, "build_id", build_id ? NX_ROW_OK : NX_ROW_NOTE, shown_text(build_id),
      build_id ? NULL : "nothing ties a report to this build; link with -Wl,--build-id");
  free(build_id);
}

typedef struct export_words {
  const char *value;
  nx_row_verdict verdict;
  const char *message;
} export_words;

static const export_words EXPORT_WORDS[] = {
    [NX_EXPORT_MISSING] = {"missing", NX_ROW_WARNING, "not defined, and a host refuses a plugin without it"},
    [NX_EXPORT_FUNCTION] = {"function", NX_ROW_OK, NULL},
    [NX_EXPORT_INDIRECT] = {"indirect function", NX_ROW_NOTE, "its resolver runs when a host looks the name up"},
    [NX_EXPORT_NO_FUNCTION] = {"no function", NX_ROW_WARNING, "a host refuses data; define a function of this name"},
    [NX_EXPORT_UNDEFINED] = {"undefined", NX_ROW_WARNING, "it is asked for, not defined; define it here"},
    [NX_EXPORT_HIDDEN] = {"hidden", NX_ROW_WARNING, "it is defined: give it default visibility, without static"},
    [NX_EXPORT_MANGLED] = {"mangled", NX_ROW_WARNING, "needs extern \"C\" at global scope"},
};

static void export_row(const nx_facts *facts, int i, nx_report *report) {
  const export_words *words = &EXPORT_WORDS[facts->exports[i]];
  json_t *row = nx_row(NX_EXPORT_NAME[i], words->verdict);
  nx_set_text(row, "value", words->value);
  if (facts->exports[i] == NX_EXPORT_MANGLED) nx_set(row, "as", shown_text(facts->mangled[i]));
  if (words->message) nx_set_text(row, "message", words->message);
  nx_report_add(report, row);
}

static void export_rows(const nx_facts *facts, nx_report *report) {
  static const char keep_inside[] =
      "a host needs the three alone: mark those __attribute__((visibility(\"default\"))), compile with "
      "-fvisibility=hidden; a version script also hides what C++ library headers export";
  for (int i = 0; i < NX_EXPORTS; i++) export_row(facts, i, report);
  int more = facts->other_exports.count != 0;
  add_names(report, "other_exports", more ? NX_ROW_NOTE : NX_ROW_OK, &facts->other_exports, more ? keep_inside : NULL);
}

/* ---- What loading it does ---------------------------------------------------------------------------------------- */

/* A dependency named by a path without a leading slash is looked for in the working directory of the process. */
static int has_relative_path(const nx_names *needed) {
  for (size_t i = 0; i < NX_NAMES_KEPT && i < needed->count; i++) {
    if (needed->kept[i][0] != '/' && strchr(needed->kept[i], '/')) return 1;
  }
  return 0;
}

/* The first entry of an array is the compiler's own (crtbegin) in nearly every shared object. */
static void array_row(nx_report *report, const char *name, uint64_t entries, const char *message) {
  add(report, name, entries > 1 ? NX_ROW_NOTE : NX_ROW_OK, number(entries), entries > 1 ? message : NULL);
}

static void loading_rows(const nx_facts *facts, nx_report *report) {
  static const char constructors[] = "code that runs when the file is loaded, before a host can judge anything";
  static const char destructors[] = "code that runs when the file is unloaded, after a host's last check";
  int relative = has_relative_path(&facts->needed);
  uint64_t ifuncs = facts->ifunc_symbols + facts->ifunc_relocations;
  add_names(report, "needed", relative ? NX_ROW_WARNING : NX_ROW_OK, &facts->needed,
            relative ? "a relative path depends on the working directory; name the library alone" : NULL);
  add(report, "init", NX_ROW_OK, json_boolean(facts->init), NULL);
  array_row(report, "init_array", facts->init_array, constructors);
  add(report, "fini", NX_ROW_OK, json_boolean(facts->fini), NULL);
  array_row(report, "fini_array", facts->fini_array, destructors);
  add(report, "ifuncs", ifuncs ? NX_ROW_NOTE : NX_ROW_OK, number(ifuncs),
      ifuncs ? "resolvers run while the file is loaded" : NULL);
  add_mark(report, "static_tls", facts->static_tls, NX_ROW_NOTE,
           "loading fails once the process has used up its static TLS");
  add_mark(report, "noopen", facts->noopen, NX_ROW_WARNING,
           "the loader refuses it at run time; link without -z nodlopen");
}

/* Each part of a colon-separated list: empty and relative parts are looked up in the working directory. */
static int is_relative_list(const char *list) {
  for (const char *part = list;; part = strchr(part, ':') + 1) {
    if (*part != '/' && strncmp(part, "$ORIGIN", 7) != 0 && strncmp(part, "${ORIGIN}", 9) != 0) return 1;
    if (!strchr(part, ':')) return 0;
  }
}

static void path_row(nx_report *report, const char *name, const char *list) {
  if (!list) {
    add(report, name, NX_ROW_OK, json_null(), NULL);
  } else if (is_relative_list(list)) {
    add(report, name, NX_ROW_WARNING, shown_text(list),
        "a relative part depends on the working directory; use $ORIGIN");
  } else {
    add(report, name, NX_ROW_NOTE, shown_text(list), "libraries it needs are looked for here first");
  }
}

/* ---- Protections and unloading ----------------------------------------------------------------------------------- */

static void relro_rows(const nx_facts *facts, nx_report *report) {
  static const export_words words[] = {
      [NX_RELRO_NONE] = {"none", NX_ROW_WARNING, "its tables stay writable; link with -Wl,-z,relro,-z,now"},
      [NX_RELRO_PARTIAL] = {"partial", NX_ROW_NOTE, "its call table stays writable; link with -Wl,-z,now"},
      [NX_RELRO_FULL] = {"full", NX_ROW_OK, NULL},
  };
  const export_words *found = &words[facts->relro];
  add(report, "relro", found->verdict, json_string(found->value), found->message);
  add(report, "bind_now", facts->bind_now ? NX_ROW_OK : NX_ROW_NOTE, json_boolean(facts->bind_now),
      facts->bind_now ? NULL : "a missing symbol shows at load only if the host asks for it; link with -Wl,-z,now");
}

static void stack_row(const nx_facts *facts, nx_report *report) {
  static const export_words words[] = {
      [NX_STACK_UNSTATED] = {"unstated", NX_ROW_WARNING,
                             "the loader takes this for executable; link with -Wl,-z,noexecstack"},
      [NX_STACK_PLAIN] = {"not executable", NX_ROW_OK, NULL},
      [NX_STACK_EXECUTABLE] = {"executable", NX_ROW_WARNING,
                               "loading it makes the process's stacks executable; link with -Wl,-z,noexecstack"},
  };
  const export_words *found = &words[facts->stack];
  add(report, "stack", found->verdict, json_string(found->value), found->message);
}

static void protection_rows(const nx_facts *facts, nx_report *report) {
  relro_rows(facts, report);
  stack_row(facts, report);
  add_mark(report, "textrel", facts->text_relocations, NX_ROW_WARNING,
           "code pages are written at load; compile with -fPIC");
  add(report, "writable_code", facts->writable_code ? NX_ROW_WARNING : NX_ROW_OK, number(facts->writable_code),
      facts->writable_code ? "segments both writable and executable; link with -Wl,-z,separate-code" : NULL);
}

static void unloading_rows(const nx_facts *facts, nx_report *report) {
  int unique = facts->unique_symbols.count != 0;
  add_mark(report, "nodelete", facts->nodelete, NX_ROW_WARNING,
           "it stays mapped after unloading; link without -z nodelete");
  add_mark(report, "thread_destructors", facts->thread_destructors, NX_ROW_NOTE,
           "a thread-local destructor that has not run may keep the module mapped");
  add_names(report, "unique_symbols", unique ? NX_ROW_WARNING : NX_ROW_OK, &facts->unique_symbols,
            unique ? "it stays mapped after unloading; compile with -fno-gnu-unique" : NULL);
}

void nx_inspect_rows(const nx_facts *facts, nx_report *report) {
  identity_rows(facts, report);
  export_rows(facts, report);
  loading_rows(facts, report);
  path_row(report, "rpath", facts->rpath);
  path_row(report, "runpath", facts->runpath);
  protection_rows(facts, report);
  unloading_rows(facts, report);
}
