/* Making errors: one line, printable, from a result, what the core said, and what the plugin said. Private to the host. */
#ifndef NX_ERROR_H
#define NX_ERROR_H

#include "nxmem.h"
#include "nxmem/verdict.h"

#if defined(__GNUC__)
#define NX_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define NX_PRINTF(at, first)
#endif

/*
 * Each fills *error (nothing where it is NULL) and returns `result`. The text says what failed; detail from the verdict or the status and
 * the advice that belongs to the result are appended. Bytes from a plugin may be passed as they are: the whole line is made printable here.
 */
nxmem_result nx_fail(nxmem_error *error, nxmem_result result, const char *format, ...) NX_PRINTF(3, 4);
nxmem_result nx_fail_verdict(nxmem_error *error, nxmem_result result, nxmem_verdict verdict, const char *format, ...)
    NX_PRINTF(4, 5);
nxmem_result nx_fail_status(nxmem_error *error, nxmem_result result, const NxmemStatus *status, const char *format, ...)
    NX_PRINTF(4, 5);

/* The result that stands for a refused table, name, answer or handle. */
nxmem_result nx_result_of(nxmem_verdict verdict);

/* The field at an offset of the allocator's or the factory's table, for people ("slot allocate"). */
const char *nx_allocator_field(uint32_t offset);
const char *nx_factory_field(uint32_t offset);

/* Append to a finished message, where there is one: what became of a debt. */
void nx_error_append(nxmem_error *error, const char *text);

#endif /* NX_ERROR_H */
