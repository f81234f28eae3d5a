/*
 * startup.h: what the loader calls when a file is loaded and unloaded, and whether it is the compiler's own.
 * Attackers: every byte of the image: entries, relocations, code that looks like the compiler's.
 * Promise: code passes for the compiler's own only where each of its bytes does, down to whom it calls; all else is told.
 */
#ifndef NXMEM_AUDIT_STARTUP_H
#define NXMEM_AUDIT_STARTUP_H

#include "audit/facts.h"

/* What a word of the file holds once the loader has relocated it. */
typedef enum nx_audit_word_kind {
  NX_WORD_UNKNOWN, /* nothing that could be told: reported */
  NX_WORD_ADDRESS, /* an address of the file itself */
  NX_WORD_SYMBOL   /* what a symbol is bound to */
} nx_audit_word_kind;

typedef struct nx_audit_relocated {
  nx_audit_word_kind kind;
  uint64_t value; /* the address, or the symbol's number */
} nx_audit_relocated;

nx_audit_relocated nx_audit_relocated_word(const nx_dynamic *dynamic, uint64_t address);

/* Is the word bound to this name, which the file does not define itself? */
int nx_audit_is_bound_to(const nx_dynamic *dynamic, uint64_t address, const char *name);

/* Is the code at this address what gcc or clang put into every shared object? (startup_forms.c) */
int nx_audit_is_compilers_own(const nx_dynamic *dynamic, uint64_t address);

#endif /* NXMEM_AUDIT_STARTUP_H */
