/* Words and numbers of a policy. Private to the library. */
#ifndef NX_POLICY_WORDS_H
#define NX_POLICY_WORDS_H

#include "policy.h"

/* Each: 1, or 0 where it is none. */
int nx_capability_of(const char *word, uint64_t *flag_out);
int nx_isolation_of(const char *word, nx_isolation *out);

/* Hexadecimal digits, two to a byte: `*count_out` of at most `room`, at least one. */
int nx_hex_of(const char *text, uint8_t *out, size_t room, size_t *count_out);

#endif /* NX_POLICY_WORDS_H */
