/*
 * error_test.c: making one line out of anything. Looks inside the host.
 *
 * Attackers played: text of any bytes and any length; statuses with lying lengths.
 * Promise: whatever goes in, the message is one printable line of UTF-8 that ends inside its buffer, and its advice is
 * there.
 */
#include "error.h"

#include "puppet.h"

typedef struct text_row {
  const char *name;
  const char *text;
} text_row;

static const text_row text_rows[] = {
    {"plain", "open /lib/x.so"},
    {"empty", ""},
    {"two lines", "one\ntwo\r\n"},
    {"an escape", "\x1B]0;title\x07\x1B[31m"},
    {"bytes that are no UTF-8", "\xFF\xFE\x80\xC0\xAF\xED\xA0\x80"},
    {"C1 controls", "\xC2\x9B\xC2\x85"},
    {"cut in a character", "\xE2\x82"},
    {"percent signs", "%s%n%d%%"},
    {"four bytes long", "\xF0\x9F\x92\xBE"},
};

static void assert_error(const nxmem_error *error, nxmem_result result) {
  assert_int_equal(error->result, result);
  nx_assert_line(error->message, sizeof error->message);
  assert_non_null(strchr(error->message, ';'));
}

static void test_text(void **state) {
  const text_row *row = *state;
  nxmem_error error = nx_blank_error();
  assert_int_equal(nx_fail(&error, NXMEM_ERR_BUSY, "%s", row->text), NXMEM_ERR_BUSY);
  assert_error(&error, NXMEM_ERR_BUSY);
  assert_int_equal(error.reason, 0);
  assert_int_equal(error.found, 0);
  assert_int_equal(error.plugin_status, 0);
}

/* Every length around the buffer's, in one byte and in many bytes a character. */
static void test_lengths(void **state) {
  const char *unit = *state;
  static char text[4096];
  for (size_t n = 0; n < 1100; n++) {
    text[0] = '\0';
    for (size_t used = 0; used + strlen(unit) <= n; used += strlen(unit)) memcpy(text + used, unit, strlen(unit) + 1);
    nxmem_error error = nx_blank_error();
    (void)nx_fail(&error, NXMEM_ERR_CONTRACT, "%s", text);
    assert_error(&error, NXMEM_ERR_CONTRACT);
    nx_error_append(&error, "; something that was found out later");
    nx_assert_line(error.message, sizeof error.message);
  }
}

static void test_status(void **state) {
  (void)state;
  static const uint32_t lengths[] = {0, 1, 254, 255, 256, 0x7FFFFFFFu, 0xFFFFFFFFu};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
    for (int byte = 0; byte < 256; byte++) {
      NxmemStatus status = {(uint32_t)byte * 1000003u, lengths[i], {0}};
      memset(status.message, byte, sizeof status.message);
      nxmem_error error = nx_blank_error();
      (void)nx_fail_status(&error, NXMEM_ERR_PLUGIN, &status, "open %s", "x");
      assert_error(&error, NXMEM_ERR_PLUGIN);
      assert_int_equal(error.plugin_status, status.code);
    }
}

static void test_verdict(void **state) {
  (void)state;
  for (uint32_t reason = 0; reason < 128; reason++) {
    const nxmem_verdict v = {reason, 0xFFFFFFFFu, 0xFFFFFFFFFFFFFFFFull, 1};
    nxmem_error error = nx_blank_error();
    (void)nx_fail_verdict(&error, NXMEM_ERR_CONTRACT, v, "open %s", "x");
    assert_error(&error, NXMEM_ERR_CONTRACT);
    assert_int_equal(error.reason, reason);
    assert_int_equal(error.field, 0xFFFFFFFFu);
    assert_int_equal(error.found, 0xFFFFFFFFFFFFFFFFull);
    assert_int_equal(error.needed, 1);
  }
}

/* ---- Room for what is found out later ---------------------------------------------------------------------------- */

/* What belongs to a result, however the line begins. */
static const char *advice_of(nxmem_result result) {
  static nxmem_error error;
  (void)nx_fail(&error, result, "x");
  assert_memory_equal(error.message, "x; ", 3);
  return error.message + 3;
}

static void assert_room_left(nxmem_error *error) {
  char debt[NX_APPEND_ROOM + 1];
  memset(debt, 'd', sizeof debt);
  memcpy(debt + sizeof debt - 4, "end", 4);
  assert_error(error, NXMEM_ERR_PLUGIN);
  const char *advice = strstr(error->message, advice_of(NXMEM_ERR_PLUGIN));
  assert_non_null(advice);
  assert_string_equal(advice, advice_of(NXMEM_ERR_PLUGIN)); /* the line ends with it */
  char before[NXMEM_ERROR_MESSAGE_BUF];
  strcpy(before, error->message);
  nx_error_append(error, debt);
  nx_assert_line(error->message, sizeof error->message);
  assert_memory_equal(error->message, before, strlen(before));
  assert_string_equal(error->message + strlen(before), debt);
  nx_error_append(error, debt); /* what there is no room for is cut, and the line still ends */
  nx_assert_line(error->message, sizeof error->message);
}

/* A status full of one byte, and a path as long as any: each byte of either may be shown as four. */
static void test_room(void **state) {
  const int byte = *(const unsigned char *)*state;
  static char path[4096];
  for (size_t length = 0; length < sizeof path; length = length < 1100 ? length + 7 : length * 2) {
    memset(path, length % 2 == 0 ? byte : 'p', sizeof path);
    path[length] = '\0';
    NxmemStatus status = {NXMEM_STATUS_DEVICE_ERROR, 255, {0}};
    memset(status.message, byte, 255);
    nxmem_error error = nx_blank_error();
    (void)nx_fail_status(&error, NXMEM_ERR_PLUGIN, &status, "load %s: enumerate", path);
    assert_room_left(&error);
    error = nx_blank_error();
    (void)nx_fail(&error, NXMEM_ERR_PLUGIN, "load %s", path);
    assert_room_left(&error);
    error = nx_blank_error();
    (void)nx_fail_verdict(&error, NXMEM_ERR_PLUGIN, (nxmem_verdict){NXMEM_REASON_SHORT_TABLE, 8, 7, 9}, "load %s",
                          path);
    assert_room_left(&error);
  }
}

/* "dir/./././file": as long as a caller likes, and the same file. */
static const char *long_way_to(const char *path, size_t detours) {
  static char way[4000];
  const char *file = strrchr(path, '/') + 1;
  size_t used = (size_t)(file - path);
  memcpy(way, path, used);
  for (size_t i = 0; i < detours; i++, used += 2) memcpy(way + used, "./", 2);
  strcpy(way + used, file);
  return way;
}

/* A refused plugin that must stay mapped cannot push that out of the message. */
static void test_debt_is_told(void **state) {
  const unsigned char byte = *(const unsigned char *)*state;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  const char *path = long_way_to(nx_puppet_copy(), 500);
  NxmemStatus status = {NXMEM_STATUS_DEVICE_ERROR, 255, {0}};
  memset(status.message, byte, 255);
  puppet.open_answer = status;
  nxmem_plugin plugin = {0};
  nxmem_error error = nx_blank_error();
  puppet.create_code = NXMEM_STATUS_DEVICE_ERROR;
  puppet.own_report = 1;
  puppet.report = (NxmemUnloadReport){48, 0, 0, 0, 3, 0, 0};
  nx_assert_code(nxmem_plugin_open(host, path, &plugin, &error), &error, NXMEM_ERR_PLUGIN);
  assert_non_null(strstr(error.message, "; it stays mapped: "));
  const char *reason = nxmem_reason_text(NXMEM_REASON_PLUGIN_HOLDS);
  assert_string_equal(error.message + strlen(error.message) - strlen(reason), reason);

  /* And the same of an allocator whose release cannot be found, opened with all that behind it. */
  puppet.create_code = NXMEM_STATUS_OK;
  assert_int_equal(nxmem_plugin_open(host, path, &plugin, NULL), NXMEM_OK);
  const nxmem_open_options options = {.mechanism = "puppet"};
  nxmem_allocator none;
  nx_assert_code(nxmem_allocator_open(plugin, &options, &none, &error), &error, NXMEM_ERR_PLUGIN);
  puppet.open_answer.code = NXMEM_STATUS_OK;
  puppet.published = NULL;
  assert_int_equal(nxmem_allocator_open(plugin, &options, &none, &error), NXMEM_ERR_CONTRACT);
  assert_non_null(strstr(error.message, "its module stays mapped"));
  nx_assert_line(error.message, sizeof error.message);
  assert_int_equal(nxmem_plugin_destroy(plugin, NULL, NULL), NXMEM_OK);
  nx_host_gone(host);
}

static void test_every_result(void **state) {
  (void)state;
  for (int result = -1; result < 40; result++) {
    nxmem_error error = nx_blank_error();
    assert_int_equal(nx_fail(&error, (nxmem_result)result, "x"), (nxmem_result)result);
    assert_error(&error, (nxmem_result)result);
  }
}

static void test_nobody_listens(void **state) {
  (void)state;
  const NxmemStatus status = {1, 0, {0}};
  assert_int_equal(nx_fail(NULL, NXMEM_ERR_BUSY, "x"), NXMEM_ERR_BUSY);
  assert_int_equal(nx_fail_verdict(NULL, NXMEM_ERR_BUSY, (nxmem_verdict){1, 0, 0, 0}, "x"), NXMEM_ERR_BUSY);
  assert_int_equal(nx_fail_status(NULL, NXMEM_ERR_BUSY, &status, "x"), NXMEM_ERR_BUSY);
  nx_error_append(NULL, "x");
}

/* ---- Which result stands for a reason ---------------------------------------------------------------------------- */

typedef struct result_row {
  const char *name;
  uint32_t reason;
  nxmem_result want;
} result_row;

static const result_row result_rows[] = {
    {"nothing", NXMEM_REASON_NONE, NXMEM_OK},
    {"unreadable", NXMEM_REASON_UNREADABLE, NXMEM_ERR_UNREADABLE_MEMORY},
    {"required capability", NXMEM_REASON_REQUIRED_MISSING, NXMEM_ERR_UNSUPPORTED_CAPABILITY},
    {"stale", NXMEM_REASON_STALE_HANDLE, NXMEM_ERR_STALE_HANDLE},
    {"in use", NXMEM_REASON_IN_USE, NXMEM_ERR_BUSY},
    {"zero bytes", NXMEM_REASON_ZERO_BYTES, NXMEM_ERR_INVALID_ARGUMENT},
    {"alignment", NXMEM_REASON_BAD_ALIGNMENT, NXMEM_ERR_INVALID_ARGUMENT},
    {"size wraps", NXMEM_REASON_SIZE_WRAPS, NXMEM_ERR_INVALID_ARGUMENT},
    {"short table", NXMEM_REASON_SHORT_TABLE, NXMEM_ERR_CONTRACT},
    {"a reason of tomorrow", 9999, NXMEM_ERR_CONTRACT},
};

static void test_result(void **state) {
  const result_row *row = *state;
  assert_int_equal(nx_result_of((nxmem_verdict){row->reason, 0, 0, 0}), row->want);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(text_rows), test_text);
  nx_suite_rows(&suite, ROWS(result_rows), test_result);
  nx_suite_add(&suite, "every length, letters", test_lengths, "x");
  nx_suite_add(&suite, "every length, euro signs", test_lengths, "\xE2\x82\xAC");
  nx_suite_add(&suite, "every length, disks", test_lengths, "\xF0\x9F\x92\xBE");
  nx_suite_add(&suite, "every length, newlines", test_lengths, "\n");
  nx_suite_add(&suite, "every length, stray bytes", test_lengths, "\xFF");
  static const struct {
    const char *name, *byte;
  } fillings[] = {{"control bytes", "\x01"},   {"escapes", "\x1B"}, {"stray bytes", "\xFF"},
                  {"half characters", "\xC3"}, {"letters", "x"},    {"deletes", "\x7F"}};
  for (size_t i = 0; i < sizeof fillings / sizeof fillings[0]; i++) {
    nx_suite_add(&suite, nx_name("room for a debt behind %s", fillings[i].name), test_room, fillings[i].byte);
    nx_suite_add(&suite, nx_name("a debt told behind %s", fillings[i].name), test_debt_is_told, fillings[i].byte);
  }
  nx_suite_add(&suite, "statuses of every byte and length", test_status, NULL);
  nx_suite_add(&suite, "verdicts of every reason", test_verdict, NULL);
  nx_suite_add(&suite, "advice for every result", test_every_result, NULL);
  nx_suite_add(&suite, "an error nobody wants", test_nobody_listens, NULL);
  return nx_suite_run(&suite, "host_error");
}
