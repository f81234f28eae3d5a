/*
 * open.c: from a path to a plugin that the policy allows: trust, copy, seal, hash, compare, load.
 *
 * Attackers: whoever can write to the file or its names while it is opened; files that are not what the policy says.
 * Promise: each check is of the sealed copy, and the sealed copy is what is loaded; the first that fails ends it.
 */
#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "policy.h"
#include "report.h"
#include "sealed.h"
#include "trust.h"

enum { SIGNATURE_FILE_MAX = 16384, HEX_ROOM = 2 * NX_SHA256_BYTES + 1 };

/* One opening. */
typedef struct opening {
  const nxmem_policy *policy;
  const char *path;
  nx_sealed copy;
  nx_findings found;
  nxmem_error *error;
} opening;

static nxmem_result find_row(opening *o) {
  char have[HEX_ROOM], want[HEX_ROOM];
  (void)crypto_hash_sha256(o->found.sha256, o->copy.bytes, o->copy.count);
  (void)sodium_bin2hex(have, sizeof have, o->found.sha256, sizeof o->found.sha256);
  const nx_policy_row *row = nx_policy_find(o->policy, o->path, o->found.sha256);
  if (row == NULL)
    return nx_fail(o->error, NXMEM_ERR_NOT_ALLOWED, "allow %s: no row names it (sha256 %s)", o->path, have);
  o->found.row = row;
  if (memcmp(row->sha256, o->found.sha256, sizeof row->sha256) == 0) return NXMEM_OK;
  (void)sodium_bin2hex(want, sizeof want, row->sha256, sizeof row->sha256);
  return nx_fail(o->error, NXMEM_ERR_NOT_ALLOWED, "allow %s: found sha256 %s, needed %s", o->path, have, want);
}

static nxmem_result check_signature(opening *o) {
  const nx_policy_row *row = o->found.row;
  if (row->signature_path == NULL) return NXMEM_OK;
  char *text = NULL;
  size_t bytes = 0;
  const nxmem_result r = nx_trust_read("signature", row->signature_path, SIGNATURE_FILE_MAX, &text, &bytes, o->error);
  if (r != NXMEM_OK) return r;
  const char *fault = nx_signature_fault(text, bytes, &row->key, o->copy.bytes, o->copy.count, o->found.comment);
  free(text);
  if (fault == NULL) return NXMEM_OK;
  return nx_fail(o->error, NXMEM_ERR_NOT_ALLOWED, "allow %s: its signature %s %s", o->path, row->signature_path, fault);
}

static nxmem_result check_contents(opening *o) {
  const nx_build_id *want = &o->found.row->build_id, *have = &o->found.contents.build_id;
  if (!nx_contents_read(o->copy.bytes, o->copy.count, &o->found.contents))
    return nx_fail(o->error, NXMEM_ERR_CANNOT_OPEN, "look into %s: found no ELF file that can be read", o->path);
  if (want->count == 0) return NXMEM_OK;
  if (want->count == have->count && memcmp(want->bytes, have->bytes, want->count) == 0) return NXMEM_OK;
  return nx_fail(o->error, NXMEM_ERR_NOT_ALLOWED, "allow %s: found %s build id, needed the policy's", o->path,
                 have->count == 0 ? "no" : "another");
}

static nxmem_result check(opening *o) {
  nxmem_result r = find_row(o);
  if (r == NXMEM_OK) r = check_signature(o);
  if (r == NXMEM_OK) r = check_contents(o);
  if (r == NXMEM_OK) r = nx_isolation_check(o->found.row->isolation, o->path, o->error);
  return r;
}

static nxmem_result load(const opening *o, nxmem_host host, nxmem_plugin *out) {
  const nx_policy_row *row = o->found.row;
  const nxmem_sealed_options options = {.name = o->path,
                                        .capability_flags = row->capability_flags,
                                        .max_owned_bytes = row->max_owned_bytes,
                                        .max_mapped_bytes = row->max_mapped_bytes};
  return nxmem_plugin_open_sealed(host, o->copy.fd, &options, out, o->error);
}

/* The report is made first: once the plugin is loaded, nothing can fail any more. */
static nxmem_result open_copy(opening *o, nxmem_host host, nxmem_plugin *out, nxmem_policy_report **report_out) {
  nxmem_result r = check(o);
  if (r != NXMEM_OK) return r;
  o->found.file_bytes = o->copy.count;
  nxmem_policy_report *report = nx_report_make(&o->found);
  if (report == NULL) return nx_fail(o->error, NXMEM_ERR_OUT_OF_MEMORY, "allow %s: no memory for a report", o->path);
  r = load(o, host, out);
  if (r == NXMEM_OK && report_out != NULL)
    *report_out = report;
  else
    nxmem_policy_report_free(report);
  return r;
}

nxmem_result nxmem_policy_open(const nxmem_policy *policy, nxmem_host host, const char *path, nxmem_plugin *out,
                               nxmem_policy_report **report_out, nxmem_error *error) {
  if (policy == NULL || path == NULL || out == NULL)
    return nx_fail(error, NXMEM_ERR_INVALID_ARGUMENT, "open under a policy: policy, path or out is NULL");
  int fd = -1;
  nxmem_result r = nx_trust_open("plugin", path, &fd, error);
  if (r != NXMEM_OK) return r;
  opening o = {.policy = policy, .path = path, .error = error};
  r = nx_sealed_copy(fd, path, policy->max_file_bytes, &o.copy, error);
  (void)close(fd);
  if (r != NXMEM_OK) return r;
  r = open_copy(&o, host, out, report_out);
  nx_sealed_close(&o.copy);
  return r;
}
