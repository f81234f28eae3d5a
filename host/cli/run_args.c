/*
 * run_args.c: the command line of nxmem run.
 * Attackers: none: the caller's own words.
 * Promise: every number is in its range before anything is loaded.
 */
#include "run_args.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "exit_codes.h"
#include "text.h"
#include "words.h"

/* Long-only options: beyond every character. */
enum { KEY_ALIGN = 256, KEY_MINOR, KEY_DIRECT, KEY_RESERVE, KEY_JSON, KEY_POLICY };

enum { DEFAULT_BLOCKS = 64, DEFAULT_BYTES = 4096, DEFAULT_ALIGN = 64 };

#define DEFAULT_RESERVE (1ull << 40)
#define LEAST_RESERVE (64ull << 20)

static const struct argp_option OPTIONS[] = {
    {"mechanism", 'm', "NAME", 0, "Exercise this mechanism alone (default: every one)", 0},
    {"device", 'd', "TIER:INDEX", 0, "Only mechanisms on this device: device:0, host:0, disk:0", 0},
    {"blocks", 'n', "N", 0, "Allocations per mechanism (default 64)", 0},
    {"bytes", 'b', "B", 0, "Bytes of each, also 64K, 2M, 1G (default 4096)", 0},
    {"align", KEY_ALIGN, "B", 0, "Alignment of each, a power of two (default 64)", 0},
    {"minor", KEY_MINOR, "N", 0, "Speak as a host that knows no minor above N; 0 releases through deallocate", 0},
    {"direct", KEY_DIRECT, 0, 0, "Read plugin memory by plain loads: a bad pointer then kills this process", 0},
    {"reserve", KEY_RESERVE, "B", 0,
     "Address space to reserve where a mechanism has virtual backing: a power of two, at least 64M (default 1024G); "
     "half "
     "of it, and so on, where there is not enough",
     0},
    {"policy", KEY_POLICY, "FILE", 0,
     "Load only what this policy names: the file's bytes are copied, sealed, hashed and compared, and that copy is "
     "loaded, within the capabilities and bytes that its row grants. The libraries it needs are listed and not pinned",
     0},
    NX_JSON_OPTIONS(KEY_JSON),
    {0},
};

/* Decimal digits, then K, M or G where `suffixes` allows it. */
static int to_number(const char *word, int suffixes, uint64_t *out) {
  char *end = NULL;
  if (!isdigit((unsigned char)word[0])) return -1;
  errno = 0;
  unsigned long long number = strtoull(word, &end, 10);
  if (errno) return -1;
  const char *suffix = *end ? strchr("KMG", *end) : NULL;
  int shift = suffix && suffixes ? 10 * (int)(suffix - "KMG" + 1) : 0;
  if (shift) end++;
  if (*end || number > UINT64_MAX >> shift) return -1;
  *out = (uint64_t)number << shift;
  return 0;
}

/* Ends the process. */
static void refuse_word(const char *option, const char *word, const char *need, struct argp_state *state) {
  char *shown = nx_show_text(word);
  argp_error(state, "%s: found '%s', need %s", option, shown, need);
  free(shown);
}

static uint64_t number_option(const char *option, const char *word, int suffixes, struct argp_state *state) {
  static const char plain[] = "a whole number below 2^64";
  static const char suffixed[] = "a whole number, or one with K, M or G behind it, below 2^64";
  uint64_t number = 0;
  if (to_number(word, suffixes, &number)) refuse_word(option, word, suffixes ? suffixed : plain, state);
  return number;
}

static uint64_t positive_option(const char *option, const char *word, int suffixes, struct argp_state *state) {
  uint64_t number = number_option(option, word, suffixes, state);
  if (number == 0) refuse_word(option, word, "at least 1", state);
  return number;
}

static uint64_t align_option(const char *word, struct argp_state *state) {
  uint64_t align = number_option("--align", word, 1, state);
  if (align == 0 || (align & (align - 1)) != 0) refuse_word("--align", word, "a power of two", state);
  return align;
}

static uint64_t reserve_option(const char *word, struct argp_state *state) {
  const uint64_t bytes = number_option("--reserve", word, 1, state);
  if (bytes < LEAST_RESERVE || (bytes & (bytes - 1)) != 0)
    refuse_word("--reserve", word, "a power of two, at least 64M", state);
  return bytes;
}

static const char *policy_option(const char *word, struct argp_state *state) {
  if (!*word) refuse_word("--policy", word, "the name of a file", state);
  return word;
}

static uint32_t minor_option(const char *word, struct argp_state *state) {
  uint64_t minor = number_option("--minor", word, 0, state);
  char need[64];
  snprintf(need, sizeof need, "at most %u, the newest this host knows", NXMEM_ABI_VERSION_MINOR);
  if (minor > NXMEM_ABI_VERSION_MINOR) refuse_word("--minor", word, need, state);
  return (uint32_t)minor;
}

static NxmemDeviceId device_option(const char *word, struct argp_state *state) {
  const char *colon = strchr(word, ':');
  uint64_t index = 0;
  size_t length = colon ? (size_t)(colon - word) : 0;
  for (uint32_t tier = 0; colon && tier < NX_TIERS; tier++) {
    if (strlen(NX_TIER_WORD[tier]) != length || strncasecmp(word, NX_TIER_WORD[tier], length) != 0) continue;
    if (to_number(colon + 1, 0, &index) || index > UINT32_MAX) break;
    return (NxmemDeviceId){.tier = tier, .index = (uint32_t)index};
  }
  refuse_word("--device", word, "device:INDEX, host:INDEX or disk:INDEX", state);
  return (NxmemDeviceId){0};
}

static void take_file(nx_run_args *args, const char *word, struct argp_state *state) {
  if (args->file) argp_error(state, "found a second FILE, need one");
  args->file = word;
}

static void take_device(nx_run_args *args, const char *word, struct argp_state *state) {
  args->device = device_option(word, state);
  args->has_device = 1;
}

static error_t parse(int key, char *word, struct argp_state *state) {
  nx_run_args *args = state->input;
  switch (key) {
    case 'm':
      args->mechanism = word;
      return 0;
    case 'd':
      take_device(args, word, state);
      return 0;
    case 'n':
      args->blocks = positive_option("--blocks", word, 0, state);
      return 0;
    case 'b':
      args->bytes = positive_option("--bytes", word, 1, state);
      return 0;
    case KEY_ALIGN:
      args->align = align_option(word, state);
      return 0;
    case KEY_MINOR:
      args->minor = minor_option(word, state);
      return 0;
    case KEY_DIRECT:
      args->direct = 1;
      return 0;
    case KEY_RESERVE:
      args->reserve = reserve_option(word, state);
      return 0;
    case KEY_POLICY:
      args->policy = policy_option(word, state);
      return 0;
    case 'j':
    case KEY_JSON:
      nx_json_take(&args->json, word, state);
      return 0;
    case ARGP_KEY_ARG:
      take_file(args, word, state);
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "FILE is missing: name the plugin to load");
      return EINVAL;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp PARSER = {
    .options = OPTIONS,
    .parser = parse,
    .args_doc = "FILE",
    .doc =
        "Load a plugin behind the boundary, judge what it says, allocate from each mechanism, check that memory of "
        "tier host "
        "keeps what is written, release everything, walk through virtual memory (reserve, commit in steps, decommit, "
        "share, queue a release, drain) with the plugin's own figures where it exports them, unload, and look whether "
        "the module is really gone.\v"
        "The plugin's code runs in this process: what it says is judged, what it does is not contained. Memory is "
        "written where the plugin says it is, unless that is the stack or the image of this command or of a library "
        "it uses: any other address is trusted. A plugin that "
        "crashes ends the command by its signal; the last line on standard error names the step, also with --json. "
        "Numbers above 2^63-1 are text in JSON.\n\n"
        "A module that stays resident, and anything in the host's books that should be zero, is a "
        "finding.\n\n"
        "Under --policy a file that the policy does not allow, and a policy with a fault, are refused (1); a policy or "
        "a plugin that is not there, or that others could have written, cannot be run (3). Nothing of it is loaded "
        "then. nxmem_policy.h describes what a policy says.\n\n" NX_EXIT_CODES_HELP,
};

void nx_run_parse(int argc, char **argv, nx_run_args *out) {
  *out = (nx_run_args){.blocks = DEFAULT_BLOCKS,
                       .bytes = DEFAULT_BYTES,
                       .align = DEFAULT_ALIGN,
                       .reserve = DEFAULT_RESERVE,
                       .minor = NXMEM_ABI_VERSION_MINOR};
  if (argp_parse(&PARSER, argc, argv, 0, NULL, out)) exit(NX_EXIT_USAGE);
}
