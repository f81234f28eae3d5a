/*
 * policytest.h: what the tests of policies share: plugins of one's own making, policies that name them.
 *
 * Attackers: none; the rows play them.
 * Promise: a helper fails the running case; files it makes go when the program ends.
 */
#ifndef TESTS_POLICY_POLICYTEST_H
#define TESTS_POLICY_POLICYTEST_H

#include "nxmem_policy.h"
#include "support.h"

/* printf into a text of any length that lives as long as the program. */
const char *pt_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A path in the program's own folder, which only its user can write to; nothing is there yet. Valid until the program ends. */
const char *pt_path(const char *name);

/* nxmem_minimal with another mechanism name, of seven characters: a plugin that says which bytes it is. */
typedef struct pt_bytes {
  uint8_t *bytes;
  size_t count;
  char sha256[65];
} pt_bytes;
pt_bytes pt_minimal_as(const char name[8]);

/* A file as it is. */
pt_bytes pt_bytes_of(const char *path);

/* Free what pt_minimal_as() or pt_bytes_of() made. */
void pt_bytes_free(pt_bytes *bytes);

void pt_write(const char *path, const void *bytes, size_t count, unsigned mode);

/* A plugin's file, readable by all and written by its owner alone; its hash in *hash_out, where that is not NULL. */
const char *pt_plugin(const char name[8], char hash_out[65]);

/* Copies a file; and the hash of one, which lives as long as the program. */
void pt_copy(const char *from, const char *to);
const char *pt_sha256(const char *path);

/* A policy of one row with this path and hash, and `more` in place of its last three keys where it is not NULL. */
nxmem_policy *pt_policy_of(const char *path, const char *hash, const char *more);
nxmem_policy *pt_parsed(const char *text);

nxmem_host pt_host(void);
void pt_host_gone(nxmem_host host);

/* The first mechanism's name. */
void pt_assert_is(nxmem_plugin plugin, const char *name);

/* Unloaded, and nothing of it stays. */
void pt_unload(nxmem_plugin plugin);

/* Opens; the case fails where that is refused. */
nxmem_plugin pt_open(const nxmem_policy *policy, nxmem_host host, const char *path);

/* Refused with this code and a message of one line that has `part` in it; no descriptor and no mapping stays. */
void pt_assert_refused(const nxmem_policy *policy, nxmem_host host, const char *path, nxmem_result want,
                       const char *part);

void pt_assert_line(nxmem_result got, nxmem_result want, const nxmem_error *error, const char *part);

size_t pt_open_fds(void);

/* Mappings of sealed copies in this process. */
size_t pt_sealed_mappings(void);

/* A memfd of these bytes with these seals. */
int pt_memfd(const pt_bytes *bytes, int seals);

#endif /* TESTS_POLICY_POLICYTEST_H */
