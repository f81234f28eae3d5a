/*
 * reference_negotiate.h: what two sides must agree on, written a second time.
 * Attackers: none; it only ever sees numbers the harness owns.
 * Promise: rules as a list, the first broken one is the answer; nothing from the core but the names of its reasons.
 */
#ifndef NXMEM_FUZZ_REFERENCE_NEGOTIATE_H
#define NXMEM_FUZZ_REFERENCE_NEGOTIATE_H

#include <stdint.h>

#include "nxmem/verdict.h"

typedef struct ref_side {
  uint32_t major_min, major_max, minor_min, minor_max;
  uint64_t flags;
} ref_side;

/* A response by its fields; ref_answer_bytes() lays it out. */
typedef struct ref_answer {
  uint32_t struct_size, agreed_major, agreed_minor;
  ref_side plugin;
} ref_answer;

enum { REF_REQUEST_BYTES = 32, REF_ANSWER_BYTES = 40 };

/* Plugin half: the verdict and the whole response. */
nxmem_verdict ref_decide(const ref_side *host, const ref_side *plugin, ref_answer *answer);

/* Host half. */
nxmem_verdict ref_judge(uint32_t status_code, const ref_answer *answer, const ref_side *host);

/* The wire layout, byte by byte. */
void ref_answer_bytes(const ref_answer *answer, uint8_t bytes[REF_ANSWER_BYTES]);
void ref_answer_from(const uint8_t bytes[REF_ANSWER_BYTES], ref_answer *answer);
void ref_side_from(const uint8_t bytes[24], ref_side *side);

/* The most bytes of whole fields that fit a room. */
uint32_t ref_answer_extent(uint32_t room);

#endif /* NXMEM_FUZZ_REFERENCE_NEGOTIATE_H */
