/*
 * host_test.c: creating hosts, and the words for codes.
 *
 * Attackers played: options that this library could not honour; codes that do not exist.
 * Promise: a bad option is refused and nothing is written; every code has its own word.
 */
#include "nxmem/verdict.h"
#include "puppet.h"

#define U32_MAX 0xFFFFFFFFu

/* ---- Options ----------------------------------------------------------------------------------------------------- */

typedef struct option_row {
  const char *name;
  NxmemVersionRange range;
  uint64_t flags;
  int fetch;
  nxmem_result want;
} option_row;

#define OURS \
  { 1, 1, 0, 1 }
#define NO NXMEM_ERR_INVALID_ARGUMENT

static const option_row option_rows[] = {
    {"the defaults", OURS, 31, 0, NXMEM_OK},
    {"direct fetch", OURS, 31, 1, NXMEM_OK},
    {"1.0 alone", {1, 1, 0, 0}, 31, 0, NXMEM_OK},
    {"1.1 alone", {1, 1, 1, 1}, 31, 0, NXMEM_OK},
    {"the allocator alone", OURS, 1, 0, NXMEM_OK},
    {"majors inverted", {1, 0, 0, 1}, 31, 0, NO},
    {"minors inverted", {1, 1, 1, 0}, 31, 0, NO},
    {"major 0 to 1", {0, 1, 0, 1}, 31, 0, NO},
    {"major 1 to 2", {1, 2, 0, 1}, 31, 0, NO},
    {"major 2", {2, 2, 0, 1}, 31, 0, NO},
    {"every byte 0", {0, 0, 0, 0}, 0, 0, NO},
    {"minor 2", {1, 1, 0, 2}, 31, 0, NO},
    {"minor 2^32-1", {1, 1, 0, U32_MAX}, 31, 0, NO},
    {"no capability", OURS, 0, 0, NO},
    {"no allocator", OURS, 30, 0, NO},
    {"an unknown bit", OURS, 33, 0, NO},
    {"every bit", OURS, 0xFFFFFFFFFFFFFFFFull, 0, NO},
    {"fetch mode 2", OURS, 31, 2, NO},
    {"fetch mode -1", OURS, 31, -1, NO},
};

static void test_option(void **state) {
  const option_row *row = *state;
  const nxmem_host_options options = {
      .range = row->range, .capability_flags = row->flags, .fetch = (nxmem_fetch_mode)row->fetch};
  nxmem_host host = {77};
  nxmem_error error = nx_blank_error();
  const nxmem_result got = nxmem_host_create(&options, &host, &error);
  if (row->want != NXMEM_OK) {
    nx_assert_refused(got, &error, (nx_refusal){row->want, 0, 0, 0, 0, 0});
    assert_int_equal(host.id, 77);
    return;
  }
  assert_int_equal(got, NXMEM_OK);
  const nxmem_host_counts counts = nx_counts(host);
  const nxmem_host_counts none = {.refused_callbacks = counts.refused_callbacks}; /* of the whole process */
  assert_memory_equal(&counts, &none, sizeof none);
  nx_host_gone(host);
}

static void test_defaults(void **state) {
  (void)state;
  nxmem_host_options options;
  memset(&options, 0xA5, sizeof options);
  nxmem_host_options_default(&options);
  assert_int_equal(options.range.major_min, 1);
  assert_int_equal(options.range.major_max, 1);
  assert_int_equal(options.range.minor_min, 0);
  assert_int_equal(options.range.minor_max, 1);
  assert_int_equal(options.capability_flags, 31);
  assert_int_equal(options.fetch, NXMEM_FETCH_GUARDED);
  nxmem_host_options_default(NULL);
}

static void test_null_outs(void **state) {
  (void)state;
  nx_puppet_reset();
  nx_stage stage = nx_stage_set(NXMEM_FETCH_GUARDED);
  nxmem_error error;
  nx_assert_code(nxmem_host_create(NULL, NULL, &error), &error, NO);
  nx_assert_code(nxmem_host_count(stage.host, NULL, &error), &error, NO);
  nx_assert_code(nxmem_plugin_get_info(stage.plugin, NULL, &error), &error, NO);
  nx_assert_code(nxmem_plugin_mechanism(stage.plugin, 0, NULL, &error), &error, NO);
  nx_assert_code(nxmem_allocator_get_info(stage.allocator, NULL, &error), &error, NO);
  nx_assert_code(nxmem_allocate(stage.allocator, 64, 8, NULL, NULL, &error), &error, NO);
  assert_int_equal(nx_puppet_calls(NX_IN_ALLOCATE), 0);
  nx_stage_strike(&stage);
}

/* Many hosts at once, each its own handle; a destroyed one's slot is used again under another handle. */
static void test_many(void **state) {
  (void)state;
  enum { N = 100 };
  nxmem_host hosts[N];
  for (int i = 0; i < N; i++) hosts[i] = nx_host_in(NXMEM_FETCH_GUARDED);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < i; j++) assert_int_not_equal(hosts[i].id, hosts[j].id);
  for (int i = 0; i < N; i++) nx_host_gone(hosts[i]);
  const nxmem_host next = nx_host_in(NXMEM_FETCH_GUARDED);
  for (int i = 0; i < N; i++) {
    assert_int_not_equal(next.id, hosts[i].id);
    assert_int_equal(nxmem_host_destroy(hosts[i], NULL), NXMEM_ERR_STALE_HANDLE);
  }
  nx_host_gone(next);
}

/* ---- Words ------------------------------------------------------------------------------------------------------- */

static int same(const char *a, const char *b) { return strcmp(a, b) == 0; }

static void test_result_names(void **state) {
  (void)state;
  for (int i = 0; i <= NXMEM_ERR_NOT_ALLOWED; i++) {
    const char *word = nxmem_result_name((nxmem_result)i);
    nx_assert_line(word, 64);
    assert_false(same(word, "unknown"));
    for (int j = 0; j < i; j++) assert_false(same(word, nxmem_result_name((nxmem_result)j)));
  }
  assert_string_equal(nxmem_result_name((nxmem_result)(NXMEM_ERR_NOT_ALLOWED + 1)), "unknown");
  assert_string_equal(nxmem_result_name((nxmem_result)-1), "unknown");
}

static const uint32_t reasons[] = {0,   1,   2,   3,   4,   5,   6,   7,   10,  11,  12,  13,  14,  20,  21,  22,  23,
                                   24,  25,  26,  27,  28,  29,  40,  41,  50,  51,  52,  53,  60,  61,  62,  63,  64,
                                   65,  66,  67,  68,  69,  70,  71,  72,  73,  74,  80,  81,  82,  83,  84,  85,  86,
                                   87,  88,  89,  90,  91,  92,  93,  95,  96,  100, 110, 111, 112, 113, 114, 115, 120,
                                   130, 131, 132, 133, 134, 135, 136, 137, 138, 140, 141, 142, 143, 144, 150, 151, 152};
enum { REASONS = sizeof reasons / sizeof reasons[0] };

static void test_reason_texts(void **state) {
  (void)state;
  uint32_t known = 0;
  for (uint32_t i = 0; i < 256; i++) known += !same(nxmem_reason_text(i), "unknown");
  assert_int_equal(known, REASONS);
  for (size_t i = 0; i < REASONS; i++) {
    nx_assert_line(nxmem_reason_text(reasons[i]), 128);
    for (size_t j = 0; j < i; j++) assert_false(same(nxmem_reason_text(reasons[i]), nxmem_reason_text(reasons[j])));
  }
  assert_string_equal(nxmem_reason_text(U32_MAX), "unknown");
}

static void test_status_names(void **state) {
  (void)state;
  assert_string_equal(nxmem_status_name(NXMEM_STATUS_OK), "OK");
  assert_string_equal(nxmem_status_name(NXMEM_STATUS_SHORT_STRUCT), "SHORT_STRUCT");
  assert_string_equal(nxmem_status_name(NXMEM_STATUS_WRONG_MECHANISM), "WRONG_MECHANISM");
  assert_string_equal(nxmem_status_name(NXMEM_STATUS_BUSY), "BUSY");
  assert_string_equal(nxmem_status_name(15), "unknown");
  assert_string_equal(nxmem_status_name(U32_MAX), "unknown");
  for (uint32_t i = 0; i <= NXMEM_STATUS_BUSY; i++)
    for (uint32_t j = 0; j < i; j++) assert_false(same(nxmem_status_name(i), nxmem_status_name(j)));
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(option_rows), test_option);
  nx_suite_add(&suite, "the defaults as they are", test_defaults, NULL);
  nx_suite_add(&suite, "every out that is NULL", test_null_outs, NULL);
  nx_suite_add(&suite, "a hundred hosts", test_many, NULL);
  nx_suite_add(&suite, "a word for each result", test_result_names, NULL);
  nx_suite_add(&suite, "a phrase for each reason", test_reason_texts, NULL);
  nx_suite_add(&suite, "a name for each status", test_status_names, NULL);
  return nx_suite_run(&suite, "host_host");
}
