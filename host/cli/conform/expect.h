/*
 * expect.h: which statuses a rule accepts.
 * Attackers: codes that a plugin makes up.
 * Promise: sets hold known codes only; an unknown one is in none.
 */
#ifndef NXMEM_CONFORM_EXPECT_H
#define NXMEM_CONFORM_EXPECT_H

#include <stdint.h>

#include "conform/trial.h"

typedef uint32_t nx_codes; /* bit n: status code n */

#define NX_CODE(name) (1u << NXMEM_STATUS_##name)

enum { NX_KNOWN_CODES = 15 };

/* Every known refusal. */
#define NX_ANY_REFUSAL (((1u << NX_KNOWN_CODES) - 1u) & ~NX_CODE(OK))

/* Fails unless the code is in the set; `what` is what was asked. */
void nx_expect_code(uint32_t code, nx_codes accepted, const char *what);

/* The same of a whole status: a refusal is shown with the plugin's own message. */
void nx_expect_status(NxmemStatus status, nx_codes accepted, const char *what);

/* Ends the trial as "could not tell" unless the status is OK: `what` answered its code, with the plugin's own message. */
void nx_given_ok(NxmemStatus status, const char *what);

/* "BUSY (3 blocks live)"; the code alone where there is no message. Valid until the next call. */
const char *nx_status_words(const NxmemStatus *status);

/* "INVALID_ARGUMENT or SHORT_STRUCT" */
const char *nx_codes_words(nx_codes codes);

#endif /* NXMEM_CONFORM_EXPECT_H */
