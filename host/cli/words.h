/*
 * words.h: what the library's numbers are called: capabilities, devices, results, as parts of a report row.
 * Attackers: numbers from a plugin (unknown bits, unknown tiers).
 * Promise: every bit and every tier is shown, known or not.
 */
#ifndef NXMEM_CLI_WORDS_H
#define NXMEM_CLI_WORDS_H

#include "nxmem.h"
#include "report.h"

enum { NX_TIERS = 3, NX_DEVICE_WORD = 24 };

/* By NXMEM_TIER_...: "device", "host", "disk". */
extern const char *const NX_TIER_WORD[NX_TIERS];

/* An array of names: "allocator", "structured-release", "bit-17". */
void nx_set_capabilities(json_t *row, const char *key, uint64_t flags);

/* "host:0"; a tier without a name as its number. */
void nx_device_word(NxmemDeviceId device, char out[NX_DEVICE_WORD]);
void nx_set_device(json_t *row, NxmemDeviceId device);

void nx_set_range(json_t *row, const char *key, const NxmemVersionRange *range);

/* "result", and for a refusal "error" with its codes and numbers; without a reason where the core was not asked. */
void nx_set_result(json_t *row, nxmem_result result);
void nx_set_error(json_t *row, const nxmem_error *error);

#endif /* NXMEM_CLI_WORDS_H */
