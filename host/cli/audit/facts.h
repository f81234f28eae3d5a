/*
 * facts.h: what a plugin file says about itself, beyond what nxmem inspect shows: all its symbols, versions, segments.
 * Attackers: every byte of the image.
 * Promise: no code of it runs and nothing but the image is read; each count is bounded by the image; facts are complete
 * or there is a problem.
 */
#ifndef NXMEM_AUDIT_FACTS_H
#define NXMEM_AUDIT_FACTS_H

#include "audit/findings.h"
#include "elf_read.h"

/* A name points into the image: raw, valid until nx_audit_facts_free(). */
typedef struct nx_audit_symbol {
  const char *name;
  uint64_t bytes;
  uint8_t type;    /* STT_ */
  uint8_t binding; /* STB_ */
  uint8_t taken;   /* a library that the file needs defines the name, too */
} nx_audit_symbol;

typedef struct nx_audit_symbols {
  nx_audit_symbol *items;
  size_t count, room;
} nx_audit_symbols;

/* A version that is needed of a library, or (library NULL) defined here. */
typedef struct nx_audit_version {
  const char *library, *name;
  int weak; /* its absence is no failure */
} nx_audit_version;

typedef struct nx_audit_versions {
  nx_audit_version *items;
  size_t count, room;
} nx_audit_versions;

typedef struct nx_audit_strings {
  const char **items;
  size_t count, room;
} nx_audit_strings;

/* A function that the loader calls. */
typedef struct nx_audit_call {
  const char *where; /* the dynamic entry; ours */
  uint64_t address;
  int known; /* is the address? */
} nx_audit_call;

/* Those that no compiler put there by itself: the first are kept, all are counted. */
enum { NX_AUDIT_CALLS_KEPT = 8 };

typedef struct nx_audit_calls {
  nx_audit_call kept[NX_AUDIT_CALLS_KEPT];
  uint64_t count;
} nx_audit_calls;

typedef struct nx_audit_facts {
  nx_elf elf;
  nx_facts base;
  nx_audit_symbols exports, imports;
  nx_audit_versions needs, defines;
  nx_audit_strings needed;  /* DT_NEEDED */
  nx_audit_strings filters; /* DT_FILTER, DT_AUXILIARY, DT_AUDIT, DT_DEPAUDIT */
  nx_audit_calls at_load, at_unload;
  uint64_t preinit_bytes;
  uint64_t name_bytes; /* of all names above */
  int global, interpose;
} nx_audit_facts;

/* `image` must outlive the facts. 0 and nx_audit_facts_free() is owed, or -1 and *why. */
int nx_audit_facts_read(uint8_t *image, uint64_t size, nx_audit_facts *out, nx_problem *why);
void nx_audit_facts_free(nx_audit_facts *facts);

/* Has it any of the three exports, however spoiled? */
int nx_audit_is_plugin(const nx_audit_facts *facts);

int nx_audit_is_entry_point(const char *name);

/* Every rule that the image alone decides. */
void nx_audit_judge(const nx_audit_facts *facts, nx_audit_findings *findings);

/* Parts of a colon-separated list: is any empty or relative? */
int nx_audit_is_relative_list(const char *list);

/* ---- Names (names.c) --------------------------------------------------------------------------------------------- */

/* Does the name belong to the C library, the loader, the language or a driver? */
int nx_audit_is_system_name(const char *name);

/* Does the function of this name reach beyond memory? */
int nx_audit_reaches_out(const char *name);

/* ---- Shared by facts.c, versions.c and startup.c ---------------------------------------------------------------------------- */

/* Room for one more item of `bytes`; ends the process when memory is out. */
void *nx_audit_grow(void *items, size_t *room, size_t count, size_t bytes);
int nx_audit_read_versions(const nx_dynamic *dynamic, nx_audit_facts *out, nx_problem *why);

/* What the loader calls (startup.c). What cannot be read is told as a call of an unknown address. */
void nx_audit_read_startup(const nx_dynamic *dynamic, nx_audit_facts *out);

#endif /* NXMEM_AUDIT_FACTS_H */
