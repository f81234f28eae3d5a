/*
 * file_args.c: reading [--json[=FILE]] FILE.
 * Attackers: the words of the command line.
 * Promise: as in the header.
 */
#include "file_args.h"

typedef struct reading {
  nx_file_args *args;
  const char *missing;
} reading;

/* Long-only: beyond every character. */
enum { KEY_JSON = 256 };

static const struct argp_option OPTIONS[] = {
    NX_JSON_OPTIONS(KEY_JSON),
    {0},
};

void nx_json_take(nx_json_args *json, const char *word, struct argp_state *state) {
  if (word && !*word) argp_error(state, "--json: found '', need the name of a file, or no = at all");
  if (word) json->file = word;
  json->printed = !json->file;
}

static error_t parse(int key, char *word, struct argp_state *state) {
  const reading *r = state->input;
  switch (key) {
    case 'j':
    case KEY_JSON:
      nx_json_take(&r->args->json, word, state);
      return 0;
    case ARGP_KEY_ARG:
      if (r->args->file) argp_error(state, "found a second FILE, need one");
      r->args->file = word;
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "%s", r->missing);
      return EINVAL;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

int nx_file_args_parse(int argc, char **argv, const char *doc, const char *missing, nx_file_args *out) {
  const struct argp parser = {.options = OPTIONS, .parser = parse, .args_doc = "FILE", .doc = doc};
  reading r = {out, missing};
  *out = (nx_file_args){0};
  return argp_parse(&parser, argc, argv, 0, NULL, &r) ? -1 : 0;
}
