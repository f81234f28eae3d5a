/*
 * run.h: one session of nxmem run: a host, a plugin, and what was found so far.
 * Attackers: the plugin, as far as libnxmem lets anything through; its texts arrive validated or escaped.
 * Promise: each step is a row; a refusal is shown with all its codes and the session goes on with what is left.
 */
#ifndef NXMEM_CLI_RUN_H
#define NXMEM_CLI_RUN_H

#include "maps.h"
#include "nxmem.h"
#include "report.h"
#include "run_args.h"

typedef struct nx_session {
  const nx_run_args *args;
  const char *path; /* absolute */
  nx_report report;
  nxmem_host host;
  nxmem_plugin plugin;
  nx_ours ours;
  nx_mapped_file file;
  int loaded;    /* some of its code may have run */
  int unloaded;  /* the library's answer: gone (1) or resident (0); -1: none yet */
  int exit_code; /* only ever rises */
} nx_session;

/* The exit code that a refusal stands for. */
int nx_exit_of(nxmem_result result);

void nx_session_raise(nx_session *session, int exit_code);

/* A row about a mechanism, or about the whole plugin when `mechanism` is NULL. */
json_t *nx_step(const char *name, nx_row_verdict verdict, const nxmem_mechanism_info *mechanism);

/*
 * Adds the row of a refused step and raises the exit code. `row` may hold facts already (nx_step with
 * NX_ROW_REFUSED).
 */
void nx_step_refused(nx_session *session, json_t *row, const nxmem_error *error);

/* Open as nxmem_plugin_open() does, by the policy of the command line; a row says what was verified. */
nxmem_result nx_run_open_by_policy(nx_session *session, nxmem_error *error);

/* Open, allocate, touch, release, close. */
void nx_run_mechanism(nx_session *session, const nxmem_mechanism_info *mechanism);

/* Virtual backing, shared mapping, queued releases: each that is effective, once. */
void nx_run_capabilities(nx_session *session, const nxmem_mechanism_info *mechanism, nxmem_allocator allocator,
                         uint64_t effective_flags);

/* A walk through virtual memory, with the plugin's own figures where it exports them; what is not offered is shown as such. */
void nx_run_virtual(nx_session *session, const nxmem_mechanism_info *mechanism, nxmem_allocator allocator);

/* Both tallies while `live` blocks of a mechanism are held: an unload that must be refused. */
void nx_run_gate(nx_session *session, const nxmem_mechanism_info *mechanism, uint64_t live);

/* Ask both sides, unload or give up, and show the tallies. */
void nx_run_unload(nx_session *session);

/* The host's own counts: what should be zero by now. */
void nx_run_books(nx_session *session);

#endif /* NXMEM_CLI_RUN_H */
