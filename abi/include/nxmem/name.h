/*
 * name.h: is this a name that may be kept, compared and shown?
 *
 * Attackers: a plugin whose name is empty, endless, not UTF-8, or carries control characters.
 * Promise: an accepted name is 1 to 255 bytes of valid UTF-8 without control characters, followed by a NUL.
 */
#ifndef NXMEM_NAME_H
#define NXMEM_NAME_H

#include "nxmem/verdict.h"
#include "nxmem_memory_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NXMEM_NAME_MAX = 255, NXMEM_NAME_BUF = 256 };

/*
 * Judge the host's own copy of a name's first bytes.
 *
 * bytes       `available` readable bytes; available at most NXMEM_NAME_BUF.
 * length_out  Bytes before the NUL; written only on NXMEM_REASON_NONE.
 *
 * EMPTY_NAME; UNTERMINATED_NAME (no NUL among the bytes); BAD_UTF8 and CONTROL_CHARACTER at the first offending offset.
 */
nxmem_verdict nxmem_check_name(const uint8_t *bytes, uint32_t available, uint32_t *length_out);

/* 1 where two accepted names (each with its NUL inside NXMEM_NAME_BUF bytes) are the same bytes. */
int nxmem_same_name(const uint8_t *a, const uint8_t *b);

#ifdef __cplusplus
}
#endif

#endif /* NXMEM_NAME_H */
