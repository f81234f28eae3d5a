/*
 * symbol_test.c: what a plugin exports beside the contract, found by name.
 *
 * Attackers played: a caller with no name, a wrong one, one of the contract's three or a stale handle; names of a dependency, aliases, thread-local data.
 * Promise: an address is of the plugin itself or there is none, and what was asked for in vain changes nothing.
 */
#include "hosttest.h"

static nx_refusal refusal(nxmem_result result) { return (nx_refusal){result, 0, 0, 0, 0, 0}; }

typedef struct symbol_row {
  const char *name;
  const char *symbol;
  nxmem_result want;
} symbol_row;

static const symbol_row rows[] = {
    {"a function", "nxmem_test_extra", NXMEM_OK},
    {"data", "nxmem_test_number", NXMEM_OK},
    {"a hidden function", "nxmem_test_hidden", NXMEM_ERR_MISSING_SYMBOL},
    {"thread-local data", "nxmem_test_own", NXMEM_ERR_MISSING_SYMBOL},
    {"a dependency's own", "nxmem_test_something", NXMEM_ERR_MISSING_SYMBOL},
    {"the C library's", "malloc", NXMEM_ERR_MISSING_SYMBOL},
    {"nothing of that name", "NxmemVmmStatistics", NXMEM_ERR_MISSING_SYMBOL},
    {"a name of control characters", "\x1b[31m\n", NXMEM_ERR_MISSING_SYMBOL},
    {"the contract's first", "NxmemNegotiate", NXMEM_ERR_INVALID_ARGUMENT},
    {"the contract's second", "NxmemCreateAllocatorFactories", NXMEM_ERR_INVALID_ARGUMENT},
    {"the contract's third", "NxmemQueryUnloadReadiness", NXMEM_ERR_INVALID_ARGUMENT},
    {"the contract's first by another name", "nxmem_test_alias", NXMEM_ERR_INVALID_ARGUMENT},
    {"an empty name", "", NXMEM_ERR_INVALID_ARGUMENT},
    {"no name", NULL, NXMEM_ERR_INVALID_ARGUMENT},
};

static void end(nxmem_host host, nxmem_plugin plugin) {
  nxmem_unload_info info;
  assert_int_equal(nxmem_plugin_try_unload(plugin, &info, NULL), NXMEM_OK);
  assert_int_equal(info.unmapped, 1);
  nx_host_gone(host);
}

static void test_symbol(void **state) {
  const symbol_row *row = *state;
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  nxmem_plugin plugin = nx_must_open(host, nx_plugin_copy("libnxmem_test_extras.so"));
  void *const untouched = &host;
  void *address = untouched;
  nxmem_error error = nx_blank_error();
  const nxmem_result found = nxmem_plugin_symbol(plugin, row->symbol, &address, &error);
  if (row->want == NXMEM_OK) {
    assert_int_equal(found, NXMEM_OK);
    assert_ptr_not_equal(address, untouched);
  } else {
    nx_assert_refused(found, &error, refusal(row->want));
    assert_ptr_equal(address, untouched);
    assert_int_equal(nxmem_plugin_symbol(plugin, row->symbol, &address, NULL), row->want);
  }
  end(host, plugin);
}

/* The addresses are the real ones: of two modules each has its own. */
static void test_use(void **state) {
  (void)state;
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  nxmem_plugin one = nx_must_open(host, nx_plugin_copy("libnxmem_test_extras.so"));
  nxmem_plugin other = nx_must_open(host, nx_plugin_copy("libnxmem_test_extras.so"));
  void *function = NULL, *data = NULL, *elsewhere = NULL;
  assert_int_equal(nxmem_plugin_symbol(one, "nxmem_test_extra", &function, NULL), NXMEM_OK);
  assert_int_equal(nxmem_plugin_symbol(one, "nxmem_test_number", &data, NULL), NXMEM_OK);
  assert_int_equal(nxmem_plugin_symbol(other, "nxmem_test_extra", &elsewhere, NULL), NXMEM_OK);
  assert_ptr_not_equal(function, elsewhere);
  int (*extra)(int) = NULL;
  memcpy(&extra, &function, sizeof function);
  assert_int_equal(extra(41), 42);
  assert_int_equal(*(const uint64_t *)data, 42);
  assert_int_equal(nxmem_plugin_try_unload(other, NULL, NULL), NXMEM_OK);
  end(host, one);
}

static void test_no_place_for_it(void **state) {
  (void)state;
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  nxmem_plugin plugin = nx_must_open(host, nx_plugin_copy("libnxmem_test_extras.so"));
  nxmem_error error = nx_blank_error();
  nx_assert_refused(nxmem_plugin_symbol(plugin, "nxmem_test_extra", NULL, &error), &error,
                    refusal(NXMEM_ERR_INVALID_ARGUMENT));
  end(host, plugin);
}

static void test_stale(void **state) {
  (void)state;
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  nxmem_plugin plugin = nx_must_open(host, nx_plugin_copy("libnxmem_test_extras.so"));
  assert_int_equal(nxmem_plugin_try_unload(plugin, NULL, NULL), NXMEM_OK);
  const nxmem_plugin bads[] = {{0}, plugin, {plugin.id + (1ull << 32)}, {UINT64_MAX}};
  for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
    void *address = &host;
    nxmem_error error = nx_blank_error();
    nx_assert_code(nxmem_plugin_symbol(bads[i], "nxmem_test_extra", &address, &error), &error, NXMEM_ERR_STALE_HANDLE);
    assert_ptr_equal(address, &host);
  }
  nx_host_gone(host);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(rows), test_symbol);
  nx_suite_add(&suite, "an address is used", test_use, NULL);
  nx_suite_add(&suite, "no place for the address", test_no_place_for_it, NULL);
  nx_suite_add(&suite, "a handle that names nothing", test_stale, NULL);
  return nx_suite_run(&suite, "host_symbol");
}
