/*
 * elf_read.h: the facts about a plugin file that can be known without running any of its code.
 * Attackers: every byte of the file.
 * Promise: facts are complete or there is a problem; they say what the loader would see of an honest file. They are
 * no boundary: a file made to deceive readers can still differ from what the loader maps, so nxmem run and the host
 * judge again.
 */
#ifndef NXMEM_CLI_ELF_READ_H
#define NXMEM_CLI_ELF_READ_H

#include <stddef.h>
#include <stdint.h>

#include "elf_file.h"

enum { NX_EXPORTS = 3, NX_NAMES_KEPT = 32, NX_BUILD_ID_MAX = 64 };

extern const char *const NX_EXPORT_NAME[NX_EXPORTS];

typedef enum nx_export_state {
  NX_EXPORT_MISSING,
  NX_EXPORT_FUNCTION,
  NX_EXPORT_INDIRECT,    /* an IFUNC: its resolver runs when the name is looked up */
  NX_EXPORT_NO_FUNCTION, /* defined, but data */
  NX_EXPORT_UNDEFINED,   /* only asked for, not defined here */
  NX_EXPORT_HIDDEN,      /* defined, but not visible to the loader */
  NX_EXPORT_MANGLED      /* defined under a C++ name */
} nx_export_state;

/* Names as they stand in the file: not yet fit to be shown. The first NX_NAMES_KEPT are kept, all are counted. */
typedef struct nx_names {
  char *kept[NX_NAMES_KEPT];
  uint64_t count;
} nx_names;

typedef enum nx_relro { NX_RELRO_NONE, NX_RELRO_PARTIAL, NX_RELRO_FULL } nx_relro;
typedef enum nx_stack { NX_STACK_UNSTATED, NX_STACK_PLAIN, NX_STACK_EXECUTABLE } nx_stack;

typedef struct nx_facts {
  uint16_t machine;
  char *soname; /* NULL: none; owned by the facts, as rpath and runpath are */
  char *rpath;
  char *runpath;
  uint8_t build_id[NX_BUILD_ID_MAX];
  size_t build_id_bytes;
  nx_export_state exports[NX_EXPORTS];
  char *mangled[NX_EXPORTS]; /* the C++ name, as it stands in the file; NULL: none; owned */
  nx_names needed;
  nx_names other_exports;
  int thread_destructors;  /* it registers destructors of thread-local objects; a pending one keeps it mapped */
  nx_names unique_symbols; /* GNU_UNIQUE: the loader keeps such a module for good */
  int init;                /* DT_INIT */
  int fini;
  uint64_t init_array; /* entries */
  uint64_t fini_array;
  uint64_t ifunc_symbols;
  uint64_t ifunc_relocations;
  nx_relro relro;
  int bind_now;
  nx_stack stack;
  int text_relocations;
  int nodelete;
  int noopen;
  int static_tls;
  uint64_t writable_code; /* loaded segments that are both writable and executable */
} nx_facts;

/*
 * 0: *out is filled and nx_facts_free() is owed. -1: *why says what is wrong, nothing is owed. `fd`: a regular file,
 * stays the caller's.
 */
int nx_facts_read(int fd, nx_facts *out, nx_problem *why);

/* The same of a file that is being read already. */
int nx_facts_of_elf(nx_elf *file, nx_facts *out, nx_problem *why);
void nx_facts_free(nx_facts *facts);

/* The same of a file by its name. */
int nx_facts_of(const char *path, nx_facts *out, nx_problem *why);

/* ---- Shared by elf_read.c, elf_symbols.c and elf_unexported.c --------------------------------------------------- */

/* The dynamic segment and its strings. */
typedef struct nx_dynamic {
  nx_elf *file;
  Elf_Data *entries;
  size_t count;      /* entries before DT_NULL */
  Elf_Data *strings; /* NULL: none */
} nx_dynamic;

/* The caller has set `file`. 0 or -1. */
int nx_dynamic_read(nx_dynamic *dynamic, nx_problem *why);

/* The last entry of a tag counts, as for the loader. 1 when there is one. */
int nx_dynamic_find(const nx_dynamic *dynamic, int64_t tag, uint64_t *value);

/* A NUL-terminated string inside the string table, paid for; or NULL and a problem. */
const char *nx_dynamic_string(const nx_dynamic *dynamic, uint64_t offset, nx_problem *why);

char *nx_copy(const char *text); /* ends the process when memory is out */
void nx_names_add(nx_names *names, const char *name);

/* As many symbols as the loader can find or relocations name, or none: *table is NULL then. */
int nx_dynamic_symbols(const nx_dynamic *dynamic, Elf_Data **table, uint64_t *count, nx_problem *why);

nx_export_state nx_symbol_state(const GElf_Sym *symbol);
int nx_read_symbols(const nx_dynamic *dynamic, nx_facts *out, nx_problem *why);

/* Is `name` this export's C++ name, in any namespace? */
int nx_is_mangled(const char *name, int export);

/*
 * Where an export is missing, what the file's own symbol table knows: hidden, or under a C++ name. That table is for
 * people and debuggers and may be stripped or damaged: then the export stays missing, and nothing else is lost.
 */
void nx_read_unexported(nx_elf *file, nx_facts *out);
int nx_read_relocations(const nx_dynamic *dynamic, nx_facts *out, nx_problem *why);

#endif /* NXMEM_CLI_ELF_READ_H */
