/*
 * grant.c: when a plugin's own limit refuses, and how that is said.
 *
 * Attackers: plugins that are asked for more than they were granted, or that report what cannot be.
 * Promise: a plugin is not blamed for a limit, and a lie does not pass as one.
 */
#include "grant.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "nxmem/count.h"

nx_module *nx_grant_of(const nx_module *module) {
  const int limited = module->terms.owned_max != NXMEM_TOTAL_MAX || module->terms.mapped_max != NXMEM_TOTAL_MAX;
  return limited ? nx_module_at(module->slot.self) : NULL;
}

int nx_grant_refuse(const nx_allocator *a, nxmem_verdict refused, nxmem_verdict alone) {
  return a->limits != NULL && refused.reason == NXMEM_REASON_TOTAL_TOO_LARGE && alone.reason == NXMEM_REASON_NONE;
}

nxmem_result nx_grant_fail(nxmem_error *error, nxmem_verdict refused, const char *format, ...) {
  static const nx_context context = {NX_RECORD_SAID, "release what is not needed, or have the policy grant more"};
  char what[96];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  return nx_fail_in(error, NXMEM_ERR_OVER_LIMIT, refused, context,
                    "%s: beyond what the plugin was granted (found %" PRIu64 ", needed at most %" PRIu64 ")", what,
                    refused.found, refused.needed);
}
