/*
 * run.c: nxmem run FILE: the whole path from a file to an unloaded module, step by step.
 * Attackers: the plugin. Its code runs in this process, behind libnxmem.
 * Promise: every verdict is shown as it falls; the last word is whether the module is really gone.
 */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "crash.h"
#include "elf_read.h"
#include "exit_codes.h"
#include "nxmem/capability.h"
#include "path.h"
#include "text.h"
#include "words.h"

int nx_exit_of(nxmem_result result) {
  switch (result) {
    case NXMEM_OK:
      return NX_EXIT_FINE;
    case NXMEM_ERR_CANNOT_OPEN:
    case NXMEM_ERR_MISSING_SYMBOL:
    case NXMEM_ERR_OUT_OF_MEMORY:
      return NX_EXIT_COULD_NOT_RUN;
    default:
      return NX_EXIT_FINDINGS;
  }
}

void nx_session_raise(nx_session *session, int exit_code) {
  if (exit_code > session->exit_code) session->exit_code = exit_code;
}

json_t *nx_step(const char *name, nx_row_verdict verdict, const nxmem_mechanism_info *mechanism) {
  json_t *row = nx_row(name, verdict);
  if (verdict != NX_ROW_REFUSED) nx_set_result(row, NXMEM_OK);
  if (!mechanism) return row;
  nx_set_text(row, "mechanism", mechanism->name);
  nx_set_device(row, mechanism->device);
  return row;
}

void nx_step_refused(nx_session *session, json_t *row, const nxmem_error *error) {
  nx_set_error(row, error);
  nx_session_raise(session, nx_exit_of(error->result));
  nx_report_add(&session->report, row);
}

/* ---- Host and plugin --------------------------------------------------------------------------------------------- */

static int step_host(nx_session *session) {
  nxmem_host_options options;
  nxmem_error error;
  nxmem_host_options_default(&options);
  options.range.minor_max = session->args->minor;
  options.capability_flags &= nxmem_caps_at(session->args->minor);
  options.fetch = session->args->direct ? NXMEM_FETCH_DIRECT : NXMEM_FETCH_GUARDED;
  if (nxmem_host_create(&options, &session->host, &error) != NXMEM_OK) {
    nx_step_refused(session, nx_step("host", NX_ROW_REFUSED, NULL), &error);
    return -1;
  }
  json_t *row = nx_step("host", NX_ROW_OK, NULL);
  nx_set_range(row, "speaks", &options.range);
  nx_set_capabilities(row, "offers", options.capability_flags);
  nx_set_text(row, "reads_plugin_memory", session->args->direct ? "directly" : "guarded");
  nx_report_add(&session->report, row);
  return 0;
}

/* Where inspect finds fault with a file that was never loaded, its words say more. */
static void say_no_plugin(nx_session *session, json_t *row, const nxmem_error *error) {
  nx_problem why;
  nx_facts facts = {0};
  int loaded = nx_is_mapped(&session->file) > 0;
  int unfit = !loaded && !session->args->policy && error->result == NXMEM_ERR_CANNOT_OPEN &&
              nx_facts_of(session->path, &facts, &why);
  nx_report_problem(&session->report, row, unfit ? why.message : error->message);
  nx_facts_free(&facts);
}

/* A policy is read, and what it says looked at, before anything is loaded. */
static int may_be_loaded(nxmem_result result) {
  return result != NXMEM_ERR_CANNOT_OPEN && result != NXMEM_ERR_NOT_ALLOWED && result != NXMEM_ERR_INVALID_ARGUMENT;
}

/* What is no plugin at all is said on stderr: there is nothing to report about. */
static int step_open(nx_session *session) {
  nxmem_error error;
  nx_crash_entering("open (load, negotiate, enumerate)", NULL);
  nxmem_result result = session->args->policy
                            ? nx_run_open_by_policy(session, &error)
                            : nxmem_plugin_open(session->host, session->path, &session->plugin, &error);
  session->loaded = may_be_loaded(result);
  if (result == NXMEM_OK) {
    json_t *opened = nx_step("open", NX_ROW_OK, NULL);
    nx_set_text(opened, "value", "loaded, three exports found");
    nx_report_add(&session->report, opened);
    return 0;
  }
  json_t *row = nx_step("open", NX_ROW_REFUSED, NULL);
  if (nx_exit_of(result) != NX_EXIT_COULD_NOT_RUN) {
    nx_step_refused(session, row, &error);
    return -1;
  }
  nx_set_error(row, &error);
  say_no_plugin(session, row, &error);
  nx_session_raise(session, NX_EXIT_COULD_NOT_RUN);
  return -1;
}

/* One that was left out was published, for newer hosts. */
static nx_row_verdict verdict_of(const nxmem_plugin_info *info) {
  if (info->left_out) return NX_ROW_NOTE;
  return info->mechanism_count ? NX_ROW_OK : NX_ROW_WARNING;
}

static uint32_t step_negotiated(nx_session *session) {
  nxmem_plugin_info info;
  nxmem_error error;
  char version[32];
  if (nxmem_plugin_get_info(session->plugin, &info, &error) != NXMEM_OK) {
    nx_step_refused(session, nx_step("negotiated", NX_ROW_REFUSED, NULL), &error);
    return 0;
  }
  json_t *row = nx_step("negotiated", verdict_of(&info), NULL);
  snprintf(version, sizeof version, "%u.%u", info.agreed_major, info.agreed_minor);
  nx_set_text(row, "version", version);
  nx_set_range(row, "plugin_speaks", &info.plugin_range);
  nx_set_capabilities(row, "capabilities", info.capability_flags);
  nx_set_number(row, "mechanisms", info.mechanism_count);
  nx_set_number(row, "left_out", info.left_out);
  if (verdict_of(&info) == NX_ROW_WARNING) {
    nx_set_text(row, "message", "the plugin publishes no mechanism: nothing of it can be used");
    nx_session_raise(session, NX_EXIT_FINDINGS);
  }
  nx_report_add(&session->report, row);
  return info.mechanism_count;
}

/* ---- Mechanisms -------------------------------------------------------------------------------------------------- */

static int get_mechanism(nx_session *session, uint32_t index, nxmem_mechanism_info *out) {
  nxmem_error error;
  if (nxmem_plugin_mechanism(session->plugin, index, out, &error) == NXMEM_OK) return 0;
  nx_step_refused(session, nx_step("mechanism", NX_ROW_REFUSED, NULL), &error);
  return -1;
}

static void list_mechanisms(nx_session *session, uint32_t count) {
  nxmem_mechanism_info info;
  for (uint32_t i = 0; i < count; i++) {
    if (get_mechanism(session, i, &info)) return;
    json_t *row = nx_step("mechanism", NX_ROW_OK, &info);
    nx_set_number(row, "level", info.abi_minor);
    nx_set_capabilities(row, "advertises", info.advertised_flags);
    nx_report_add(&session->report, row);
  }
}

static int is_wanted(const nx_run_args *args, const nxmem_mechanism_info *info) {
  if (args->mechanism && strcmp(args->mechanism, info->name) != 0) return 0;
  return !args->has_device || (args->device.tier == info->device.tier && args->device.index == info->device.index);
}

/* "mine (host:0), other (disk:1)": as many as fit, or "none". */
static void list_names(nx_session *session, uint32_t count, char *out, size_t room) {
  nxmem_mechanism_info info;
  char device[NX_DEVICE_WORD];
  size_t used = 0;
  snprintf(out, room, "none");
  for (uint32_t i = 0; i < count && used < room && !get_mechanism(session, i, &info); i++) {
    nx_device_word(info.device, device);
    used += (size_t)snprintf(out + used, room - used, "%s%s (%s)", i ? ", " : "", info.name, device);
  }
}

/* The caller asked for what the plugin does not list. */
static void refuse_selection(nx_session *session, uint32_t count) {
  const nx_run_args *args = session->args;
  nxmem_error error = {.result = NXMEM_ERR_UNKNOWN_MECHANISM};
  char device[NX_DEVICE_WORD], listed[512];
  char *name = nx_show_text(args->mechanism ? args->mechanism : "");
  nx_device_word(args->device, device);
  list_names(session, count, listed, sizeof listed);
  snprintf(error.message, sizeof error.message, "found no mechanism%s%.400s%s%s%s; listed: %s",
           args->mechanism ? " '" : "", name, args->mechanism ? "'" : "", args->has_device ? " on " : "",
           args->has_device ? device : "", listed);
  free(name);
  nx_step_refused(session, nx_step("select", NX_ROW_REFUSED, NULL), &error);
}

static void exercise(nx_session *session, uint32_t count) {
  nxmem_mechanism_info info;
  uint32_t exercised = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (get_mechanism(session, i, &info)) return;
    if (!is_wanted(session->args, &info)) continue;
    exercised++;
    nx_run_mechanism(session, &info);
  }
  if (exercised == 0 && (session->args->mechanism || session->args->has_device)) refuse_selection(session, count);
}

/* ---- The session ------------------------------------------------------------------------------------------------- */

static void step_plugin(nx_session *session) {
  if (!step_open(session)) {
    uint32_t count = step_negotiated(session);
    list_mechanisms(session, count);
    exercise(session, count);
    nx_run_unload(session);
  }
  if (session->exit_code != NX_EXIT_COULD_NOT_RUN) nx_run_books(session);
}

static void run_session(nx_session *session) {
  nxmem_error error;
  if (step_host(session)) return;
  session->file = nx_mapped_as(session->path);
  nx_ours_begin(&session->ours);
  step_plugin(session);
  nx_ours_free(&session->ours);
  if (nxmem_host_destroy(session->host, &error) != NXMEM_OK) {
    nx_step_refused(session, nx_step("host", NX_ROW_REFUSED, NULL), &error);
  }
}

static const char *result_of(const nx_session *session) {
  if (session->exit_code == NX_EXIT_FINE) return "ok";
  if (session->exit_code == NX_EXIT_COULD_NOT_RUN) return "could-not-run";
  return session->report.count[NX_ROW_REFUSED] ? "refused" : "findings";
}

/*
 * 1: gone, 0: resident, -1: nothing to say. Gone only when neither this look nor the library's own found it: a
 * plugin can hide from a look at mappings, and one that was refused while it opened has no answer of the library.
 */
static int is_gone(const nx_session *session) {
  int mapped = nx_is_mapped(&session->file);
  if (!session->loaded && mapped <= 0) return -1;
  if (mapped < 0) return session->unloaded;
  return !mapped && session->unloaded != 0;
}

static int end_session(nx_session *session) {
  int gone = is_gone(session);
  nx_set(session->report.root, "unmapped", gone < 0 ? json_null() : json_boolean(gone));
  if (gone == 0) nx_session_raise(session, NX_EXIT_FINDINGS);
  nx_set_text(session->report.root, "result", result_of(session));
  return nx_report_end(&session->report, session->exit_code);
}

static void begin_report(nx_session *session) {
  static const nx_report_style style = {"run", "steps", 12};
  char *shown = nx_show_text(session->path);
  nx_report_begin(&session->report, &style, shown, &session->args->json);
  free(shown);
}

static void refuse_path(nx_session *session, int cause) {
  char message[256];
  snprintf(message, sizeof message, "cannot find it: %s; name a readable plugin file", strerror(cause));
  nx_report_problem(&session->report, NULL, message);
  nx_session_raise(session, NX_EXIT_COULD_NOT_RUN);
}

int nx_run(int argc, char **argv) {
  nx_run_args args;
  int cause = 0;
  nx_run_parse(argc, argv, &args);
  /* Under a policy a link is refused, not followed: nothing may resolve it first. */
  char *path = args.policy ? nx_absolute_as_written(args.file) : nx_absolute(args.file, &cause);
  nx_session session = {.args = &args, .path = path, .unloaded = -1};
  begin_report(&session);
  if (args.json.printed && nx_report_own_output(&session.report)) nx_out_of_memory();
  nx_crash_watch();
  if (cause) {
    refuse_path(&session, cause);
  } else {
    run_session(&session);
  }
  int exit_code = end_session(&session);
  free(path);
  return exit_code;
}
