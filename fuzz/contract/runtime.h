/*
 * runtime.h: what becomes of a violated clause.
 * Attackers: none beyond the inputs of the target.
 * Promise: a violation is told once, with function, clause and text, and never returns.
 */
#ifndef NX_CONTRACT_RUNTIME_H
#define NX_CONTRACT_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

typedef struct contract_violation {
  const char *function;
  const char *clause; /* its label, behind that of its behaviour; its kind where it has none */
  const char *kind;   /* Precondition, Postcondition, ... */
  const char *text;
} contract_violation;

/* Called for each violation. What it is until somebody sets it: one line "ORACLE contract ..." and abort. */
typedef void (*contract_reporter)(const contract_violation *violation);
void contract_set_reporter(contract_reporter reporter);

/* Tells the reporter. Does not return, whatever the reporter does. */
_Noreturn void contract_violated(const contract_violation *violation);

/* The planted fault that happens, where planted.py put some in; 0 for none. */
extern int contract_fault;

/*
 * The function that the target is about to call, and the input it takes the arguments from. A broken precondition of
 * that one is the target's own fault: "DRIVER" instead of "ORACLE", and exit code 3.
 */
void contract_enter(const char *function, const uint8_t *input, size_t bytes);

#endif /* NX_CONTRACT_RUNTIME_H */
