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

/* What a verdict's offset counts in, so that the field gets its name. */
typedef enum nx_record {
  NX_RECORD_NONE,
  NX_RECORD_SAID, /* the caller's text says it all: nothing is added but the advice */
  NX_RECORD_RESPONSE,
  NX_RECORD_FACTORY,
  NX_RECORD_NAME, /* bytes of a name */
  NX_RECORD_ALLOCATOR,
  NX_RECORD_RESULT,
  NX_RECORD_RANGE,
  NX_RECORD_PREFIX,
  NX_RECORD_COMMIT,
  NX_RECORD_UNLOAD /* the plugin's report, or the host's axis */
} nx_record;

/* Where a verdict fell. advice NULL: what belongs to the result. */
typedef struct nx_context {
  nx_record record;
  const char *advice;
} nx_context;

/*
 * Each fills *error (nothing where it is NULL) and returns `result`. The text says what failed; detail from the verdict or the status and
 * the advice that belongs to the result are appended. Bytes from a plugin may be passed as they are: the whole line is made printable here.
 */
nxmem_result nx_fail(nxmem_error *error, nxmem_result result, const char *format, ...) NX_PRINTF(3, 4);
nxmem_result nx_fail_in(nxmem_error *error, nxmem_result result, nxmem_verdict verdict, nx_context context,
                        const char *format, ...) NX_PRINTF(5, 6);
nxmem_result nx_fail_verdict(nxmem_error *error, nxmem_result result, nxmem_verdict verdict, const char *format, ...)
    NX_PRINTF(4, 5);
nxmem_result nx_fail_status(nxmem_error *error, nxmem_result result, const NxmemStatus *status, const char *format, ...)
    NX_PRINTF(4, 5);

/* The result that stands for a refused table, name, answer or handle. */
nxmem_result nx_result_of(nxmem_verdict verdict);

/* The field that a verdict names ("allocate"), or NULL. */
const char *nx_field_name(nx_record record, nxmem_verdict verdict);

/* "host:0"; a tier without a name as its number. */
enum { NX_DEVICE_TEXT = 24 };
void nx_device_text(NxmemDeviceId device, char out[NX_DEVICE_TEXT]);

/* Append to a finished message, where there is one: what became of a debt. There is room for this many bytes in all, whatever the plugin said. */
enum { NX_APPEND_ROOM = 256 };
void nx_error_append(nxmem_error *error, const char *text);

#endif /* NX_ERROR_H */
