/*
 * document_test.c: what is no policy, row by row.
 *
 * Attackers played: whoever writes the policy.
 * Promise: each defect refuses the whole, in one line that says where.
 */
#include "policytest.h"

#define HASH "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define OTHER "10112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define HEAD "{\"version\": 1, \"plugins\": ["
#define REST "\"max_owned_bytes\": 4096, \"max_mapped_bytes\": \"unlimited\", \"isolation\": \"none\"}"
#define CAPS "\"capabilities\": [\"allocator\"], "
#define NAMED "{\"path\": \"/a/b.so\", \"sha256\": \"" HASH "\", "
#define ROW NAMED CAPS REST
/* A public key of minisign's form. */
#define KEY "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"

#define TEN "0000000000"
#define LONG TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

typedef struct document_row {
  const char *name;
  const char *text;
  const char *part; /* of the message; NULL: a good one */
} document_row;

static const document_row rows[] = {
    {"a row by path", HEAD ROW "]}", NULL},
    {"no rows", HEAD "]}", NULL},
    {"a row by build id", HEAD "{\"build_id\": \"0a1b\", \"sha256\": \"" HASH "\", " CAPS REST "]}", NULL},
    {"a signature", HEAD NAMED "\"signature\": {\"file\": \"/a/s\", \"public_key\": \"" KEY "\"}, " CAPS REST "]}",
     NULL},
    {"a limit on files", "{\"version\": 1, \"max_file_bytes\": 1073741824, \"plugins\": []}", NULL},
    {"one hash under two paths", HEAD ROW ", {\"path\": \"/a/c.so\", \"sha256\": \"" HASH "\", " CAPS REST "]}", NULL},
    {"one hash under a path and by build id",
     HEAD ROW ", {\"build_id\": \"0a\", \"sha256\": \"" HASH "\", " CAPS REST "]}", NULL},
    {"one hash and one build id under two paths",
     HEAD "{\"path\": \"/a/b.so\", \"build_id\": \"0a\", \"sha256\": \"" HASH "\", " CAPS REST
          ", {\"path\": \"/a/c.so\", \"build_id\": \"0a\", \"sha256\": \"" HASH "\", " CAPS REST "]}",
     NULL},
    {"empty", "", "line "},
    {"not JSON", "policy", "line 1"},
    {"cut off", HEAD ROW, "line "},
    {"something behind it", HEAD ROW "]} x", "line 1"},
    {"a list", "[]", "needed an object"},
    {"a key twice", "{\"version\": 1, \"version\": 1, \"plugins\": []}", "duplicate"},
    {"a key of a row twice", HEAD NAMED "\"path\": \"/a/b.so\", " CAPS REST "]}", "duplicate"},
    {"an unknown key", "{\"version\": 1, \"plugins\": [], \"comment\": \"\"}", "comment: found a key that is unknown"},
    {"an unknown key of a row", HEAD NAMED "\"sha512\": 1, " CAPS REST "]}", "plugins[0].sha512: found a key"},
    {"an unknown key with a control character", "{\"version\": 1, \"plugins\": [], \"a\\u0007\": 1}", "unknown"},
    {"a zero in a text", HEAD "{\"path\": \"/a\\u0000b\"}]}", "line 1"},
    {"no version", "{\"plugins\": []}", "version: found none"},
    {"another version", "{\"version\": 2, \"plugins\": []}", "version: needed the number 1"},
    {"a version that is text", "{\"version\": \"1\", \"plugins\": []}", "version: needed the number 1"},
    {"no rows key", "{\"version\": 1}", "plugins: found none"},
    {"rows that are no list", "{\"version\": 1, \"plugins\": {}}", "plugins: needed a list"},
    {"a row that is no object", HEAD "1]}", "plugins[0]: needed an object"},
    {"files of no bytes", "{\"version\": 1, \"max_file_bytes\": 0, \"plugins\": []}", "max_file_bytes: needed"},
    {"files beyond the most", "{\"version\": 1, \"max_file_bytes\": 1073741825, \"plugins\": []}",
     "max_file_bytes: needed"},
    {"files of a half", "{\"version\": 1, \"max_file_bytes\": 1.5, \"plugins\": []}", "max_file_bytes: needed"},
    {"neither path nor build id", HEAD "{\"sha256\": \"" HASH "\", " CAPS REST "]}", "needed a path or a build_id"},
    {"a relative path", HEAD "{\"path\": \"b.so\", \"sha256\": \"" HASH "\", " CAPS REST "]}",
     "path: needed an absolute"},
    {"a path of the root", HEAD "{\"path\": \"/\", \"sha256\": \"" HASH "\", " CAPS REST "]}",
     "path: needed an absolute"},
    {"a path with ..", HEAD "{\"path\": \"/a/../b.so\", \"sha256\": \"" HASH "\", " CAPS REST "]}", "path: needed"},
    {"a path with .", HEAD "{\"path\": \"/a/./b.so\", \"sha256\": \"" HASH "\", " CAPS REST "]}", "path: needed"},
    {"a path with //", HEAD "{\"path\": \"/a//b.so\", \"sha256\": \"" HASH "\", " CAPS REST "]}", "path: needed"},
    {"a path with a slash at its end", HEAD "{\"path\": \"/a/b/\", \"sha256\": \"" HASH "\", " CAPS REST "]}",
     "path: needed"},
    {"a path that is a number", HEAD "{\"path\": 1, \"sha256\": \"" HASH "\", " CAPS REST "]}", "path: needed"},
    {"no hash", HEAD "{\"path\": \"/a/b.so\", " CAPS REST "]}", "sha256: found none"},
    {"a short hash", HEAD "{\"path\": \"/a/b.so\", \"sha256\": \"00\", " CAPS REST "]}", "sha256: needed 64"},
    {"a long hash", HEAD "{\"path\": \"/a/b.so\", \"sha256\": \"" HASH "00\", " CAPS REST "]}", "sha256: needed 64"},
    {"a hash with another digit", HEAD "{\"path\": \"/a/b.so\", \"sha256\": \"g" HASH "\", " CAPS REST "]}",
     "sha256: needed"},
    {"an odd build id", HEAD "{\"build_id\": \"0a1\", \"sha256\": \"" HASH "\", " CAPS REST "]}", "build_id: needed"},
    {"an empty build id", HEAD "{\"build_id\": \"\", \"sha256\": \"" HASH "\", " CAPS REST "]}", "build_id: needed"},
    {"one path twice", HEAD ROW ", {\"path\": \"/a/b.so\", \"sha256\": \"" OTHER "\", " CAPS REST "]}",
     "plugins[1]: found a file"},
    {"one hash twice, by build id",
     HEAD "{\"build_id\": \"0a\", \"sha256\": \"" HASH "\", " CAPS REST ", {\"build_id\": \"0b\", \"sha256\": \"" HASH
          "\", " CAPS REST "]}",
     "plugins[1]: found a file"},
    {"no capabilities", HEAD NAMED REST "]}", "capabilities: found none"},
    {"capabilities without the first", HEAD NAMED "\"capabilities\": [\"shared-mapping\"], " REST "]}",
     "needed \"allocator\""},
    {"an unknown capability", HEAD NAMED "\"capabilities\": [\"allocator\", \"all\"], " REST "]}", "needed words"},
    {"a capability twice", HEAD NAMED "\"capabilities\": [\"allocator\", \"allocator\"], " REST "]}",
     "found a word twice"},
    {"capabilities that are text", HEAD NAMED "\"capabilities\": \"allocator\", " REST "]}", "needed a list"},
    {"no limit", HEAD NAMED CAPS "\"max_owned_bytes\": 1, \"isolation\": \"none\"}]}", "max_mapped_bytes: found none"},
    {"a limit of nothing",
     HEAD NAMED CAPS "\"max_owned_bytes\": 0, \"max_mapped_bytes\": 1, \"isolation\": \"none\"}]}",
     "max_owned_bytes: needed"},
    {"a limit below nothing",
     HEAD NAMED CAPS "\"max_owned_bytes\": -1, \"max_mapped_bytes\": 1, \"isolation\": \"none\"}]}",
     "max_owned_bytes: needed"},
    {"a limit that is another word",
     HEAD NAMED CAPS "\"max_owned_bytes\": \"1G\", \"max_mapped_bytes\": 1, \"isolation\": \"none\"}]}",
     "max_owned_bytes: needed"},
    {"a limit beyond numbers",
     HEAD NAMED CAPS "\"max_owned_bytes\": 9223372036854775808, \"max_mapped_bytes\": 1, \"isolation\": \"none\"}]}",
     "line 1"},
    {"no isolation", HEAD NAMED CAPS "\"max_owned_bytes\": 1, \"max_mapped_bytes\": 1}]}", "isolation: found none"},
    {"an unknown isolation",
     HEAD NAMED CAPS "\"max_owned_bytes\": 1, \"max_mapped_bytes\": 1, \"isolation\": \"full\"}]}",
     "isolation: needed"},
    {"a signature that is text", HEAD NAMED "\"signature\": \"/a/s\", " CAPS REST "]}", "signature: needed an object"},
    {"a signature without a key", HEAD NAMED "\"signature\": {\"file\": \"/a/s\"}, " CAPS REST "]}",
     "public_key: found none"},
    {"a signature without a file", HEAD NAMED "\"signature\": {\"public_key\": \"" KEY "\"}, " CAPS REST "]}",
     "file: found none"},
    {"a key that is cut", HEAD NAMED "\"signature\": {\"file\": \"/a/s\", \"public_key\": \"RWQf\"}, " CAPS REST "]}",
     "public_key: needed"},
    {"a key with a letter that base64 has not",
     HEAD NAMED "\"signature\": {\"file\": \"/a/s\", \"public_key\": "
                "\"RWQf6LRCGA9i\xc3\xa9mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"}, " CAPS REST "]}",
     "public_key: needed"},
    {"a key of another kind",
     HEAD NAMED "\"signature\": {\"file\": \"/a/s\", \"public_key\": "
                "\"AWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"}, " CAPS REST "]}",
     "public_key: needed"},
};

/* What JSON readers differ about. */
#define LIMIT(number) \
  HEAD NAMED CAPS "\"max_owned_bytes\": " number ", \"max_mapped_bytes\": 1, \"isolation\": \"none\"}]}"
static const document_row odd_rows[] = {
    {"the largest number", LIMIT("9223372036854775807"), NULL},
    {"a number that is none", LIMIT("NaN"), "line 1"},
    {"a number without end", LIMIT("Infinity"), "line 1"},
    {"a number beyond doubles", LIMIT("1e999"), "line 1"},
    {"a number of a hundred digits", LIMIT("1" TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN), "line 1"},
    {"a number with a fraction of nothing", LIMIT("4096.0"), "max_owned_bytes: needed"},
    {"a number with an exponent", LIMIT("4096e0"), "max_owned_bytes: needed"},
    {"a number with a zero before it", LIMIT("04096"), "line 1"},
    {"a number with a plus", LIMIT("+4096"), "line 1"},
    {"a number in base 16", LIMIT("0x1000"), "line 1"},
    {"less than nothing", LIMIT("-0"), "max_owned_bytes: needed"},
    {"a truth for a number", LIMIT("true"), "max_owned_bytes: needed"},
    {"null for a number", LIMIT("null"), "max_owned_bytes: needed"},
    {"a version of 1.0", "{\"version\": 1.0, \"plugins\": []}", "version: needed the number 1"},
    {"a text that is not UTF-8", HEAD "{\"path\": \"/a\xff\"}]}", "unable to decode"},
    {"a key that is not UTF-8", "{\"version\": 1, \"\xc0\xaf\": 1}", "unable to decode"},
    {"an overlong slash", HEAD "{\"path\": \"\xc0\xaf\"}]}", "unable to decode"},
    {"a surrogate alone", HEAD "{\"path\": \"/\\ud800\"}]}", "line 1"},
    {"a mark of byte order", "\xef\xbb\xbf{\"version\": 1, \"plugins\": []}", "line 1"},
    {"a key twice, once escaped", "{\"version\": 1, \"\\u0076ersion\": 1, \"plugins\": []}", "duplicate"},
    {"a comment", "{\"version\": 1, /* */ \"plugins\": []}", "line 1"},
    {"a comma too many", "{\"version\": 1, \"plugins\": [],}", "line 1"},
    {"single quotes", "{'version': 1, 'plugins': []}", "line 1"},
    {"two documents", "{\"version\": 1, \"plugins\": []}{\"version\": 1, \"plugins\": []}", "line 1"},
    {"a path with an escaped ..", HEAD "{\"path\": \"/a/\\u002e./b\", \"sha256\": \"" HASH "\", " CAPS REST "]}",
     "path: needed"},
    {"a key that is longer than a line", "{\"version\": 1, \"" LONG "\": 1, \"plugins\": []}", "unknown"},
};

static void test_document(void **state) {
  const document_row *row = *state;
  nxmem_policy *policy = NULL;
  nxmem_error error;
  memset(&error, 0xA5, sizeof error);
  const nxmem_result got = nxmem_policy_parse(row->text, strlen(row->text), &policy, &error);
  if (row->part == NULL && got != NXMEM_OK) fail_msg("%s", error.message);
  if (row->part != NULL) pt_assert_line(got, NXMEM_ERR_INVALID_ARGUMENT, &error, row->part);
  assert_int_equal(policy != NULL, row->part == NULL);
  nxmem_policy_free(policy);
}

/* Lists in lists, as deep as the room allows: refused, and no stack runs out. */
static void test_deep(void **state) {
  (void)state;
  static const char begin[] = "{\"version\": 1, \"plugins\": ";
  for (size_t depth = 2040; depth <= (1u << 20) - sizeof begin; depth = depth < 2060 ? depth + 1 : depth * 4) {
    const size_t bytes = sizeof begin - 1 + depth;
    char *text = malloc(bytes);
    memset(text, '[', bytes);
    memcpy(text, begin, sizeof begin - 1);
    nxmem_policy *policy = NULL;
    nxmem_error error;
    pt_assert_line(nxmem_policy_parse(text, bytes, &policy, &error), NXMEM_ERR_INVALID_ARGUMENT, &error, "line 1");
    free(text);
  }
}

/* A zero is no end of a text whose length is said. */
static void test_zero_behind(void **state) {
  (void)state;
  static const char text[] = "{\"version\": 1, \"plugins\": []}";
  nxmem_policy *policy = NULL;
  nxmem_error error;
  pt_assert_line(nxmem_policy_parse(text, sizeof text, &policy, &error), NXMEM_ERR_INVALID_ARGUMENT, &error, "line 1");
  assert_int_equal(nxmem_policy_parse(text, sizeof text - 1, &policy, &error), NXMEM_OK);
  nxmem_policy_free(policy);
}

/* As many rows as may be, and one more. */
static void test_rows(void **state) {
  (void)state;
  char *text = malloc(1 << 20), *at = text + sprintf(text, HEAD);
  for (int i = 0; i < 4097; i++) at += sprintf(at, "%s{\"build_id\":\"%04x\"}", i == 0 ? "" : ",", i);
  memcpy(at, "]}", 2);
  nxmem_policy *policy = NULL;
  nxmem_error error;
  pt_assert_line(nxmem_policy_parse(text, (size_t)(at - text) + 2, &policy, &error), NXMEM_ERR_INVALID_ARGUMENT, &error,
                 "at most 4096");
  free(text);
}

/* Whatever is cut off a good one, it is none any more; and no byte behind it is looked at. */
static void test_every_length(void **state) {
  (void)state;
  static const char whole[] = HEAD ROW "]}";
  for (size_t length = 0; length < sizeof whole - 1; length++) {
    char *cut = (char *)nx_exact_block(length);
    memcpy(cut, whole, length);
    nxmem_policy *policy = NULL;
    assert_int_equal(nxmem_policy_parse(cut, length, &policy, NULL), NXMEM_ERR_INVALID_ARGUMENT);
    free(cut);
  }
}

static void test_size(void **state) {
  (void)state;
  const size_t bytes = (1u << 20) + 1;
  char *text = malloc(bytes);
  memset(text, ' ', bytes);
  memcpy(text, HEAD "]}", strlen(HEAD "]}"));
  nxmem_policy *policy = NULL;
  nxmem_error error;
  pt_assert_line(nxmem_policy_parse(text, bytes, &policy, &error), NXMEM_ERR_INVALID_ARGUMENT, &error, "1048576");
  assert_int_equal(nxmem_policy_parse(text, bytes - 1, &policy, &error), NXMEM_OK);
  nxmem_policy_free(policy);
  free(text);
}

int main(void) {
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(rows), test_document);
  nx_suite_rows(&suite, ROWS(odd_rows), test_document);
  nx_suite_add(&suite, "lists in lists", test_deep, NULL);
  nx_suite_add(&suite, "a zero behind it", test_zero_behind, NULL);
  nx_suite_add(&suite, "more rows than may be", test_rows, NULL);
  nx_suite_add(&suite, "a good one, cut at every length", test_every_length, NULL);
  nx_suite_add(&suite, "a document that is too large", test_size, NULL);
  return nx_suite_run(&suite, "policy_document");
}
