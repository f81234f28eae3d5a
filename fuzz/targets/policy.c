/*
 * policy.c: what is read before a file may be loaded: a policy, a signature file, a public key, what an ELF file says of itself.
 * Attackers: every byte of each.
 * Promise: a policy is what the second reader makes of the same text, row by row, or it is refused in one printable line; a signature is accepted only
 * where it is, byte for byte, the one that the key made; every text that is told lies in the file.
 *
 * Input: what it is (0 policy, 1 signature, 2 public key, 3 ELF file), then its text. Of a signature: flags (1 prehashed, 2 a text of the input's own), how many
 * bytes are signed, them, how many edits, each of a position of two bytes, a kind (0 replaced, 1 put in, 2 taken out) and a byte; then the trusted comment.
 */
#include "policy.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contents.h"
#include "harness.h"
#include "reference_policy.h"
#include "reference_text.h"
#include "report.h"

enum { KINDS = 4, SIGNED_MAX = 64, EDITS_MAX = 8, FILE_MAX = 2048 };

static void expect_line(const nxmem_error *error) {
  const char *end = memchr(error->message, '\0', sizeof error->message);
  const size_t length = end == NULL ? 0 : (size_t)(end - error->message);
  if (length == 0) fuzz_fail("refusal", "no line");
  if (!ref_is_printable((const uint8_t *)error->message, (uint32_t)length)) fuzz_fail("refusal", "not printable");
}

/* ---- Policies ---------------------------------------------------------------------------------------------------- */

static void same_text(const char *oracle, const char *found, int expected, const char *text) {
  fuzz_same_number(oracle, found != NULL, (uint64_t)expected);
  if (expected && strcmp(found, text) != 0) fuzz_fail(oracle, "another text");
}

static void same_row(const nx_policy_row *found, const ref_policy_row *expected) {
  same_text("path", found->path, expected->has_path, expected->path);
  same_text("signature's path", found->signature_path, expected->has_signature, expected->signature_path);
  fuzz_same_number("build id's bytes", found->build_id.count, expected->build_id_bytes);
  fuzz_same_bytes("build id", found->build_id.bytes, expected->build_id, expected->build_id_bytes);
  fuzz_same_bytes("sha256", found->sha256, expected->sha256, sizeof expected->sha256);
  if (expected->has_signature) {
    fuzz_same_bytes("key's id", found->key.id, expected->key + 2, sizeof found->key.id);
    fuzz_same_bytes("key", found->key.key, expected->key + 10, sizeof found->key.key);
  }
  fuzz_same_number("capabilities", found->capability_flags, expected->capabilities);
  fuzz_same_number("owned bytes", found->max_owned_bytes, expected->max_owned);
  fuzz_same_number("mapped bytes", found->max_mapped_bytes, expected->max_mapped);
  fuzz_same_number("isolation", (uint64_t)found->isolation, (uint64_t)expected->isolation);
}

/* The row without a path that has this hash. */
static const nx_policy_row *by_hash(const nxmem_policy *policy, const uint8_t *hash) {
  for (size_t i = 0; i < policy->count; i++)
    if (policy->rows[i].path == NULL && memcmp(policy->rows[i].sha256, hash, NX_SHA256_BYTES) == 0)
      return &policy->rows[i];
  return NULL;
}

/* Each row is found by its path, whatever the hash; a file of another path by a hash alone, where a row without a path has it. */
static void run_find(const nxmem_policy *policy) {
  static const uint8_t no_hash[NX_SHA256_BYTES] = {0xA5};
  for (size_t i = 0; i < policy->count; i++) {
    const nx_policy_row *row = &policy->rows[i];
    if (row->path != NULL && nx_policy_find(policy, row->path, no_hash) != row) fuzz_fail("find", "another row");
    if (nx_policy_find(policy, "/none/names/this", row->sha256) != by_hash(policy, row->sha256))
      fuzz_fail("find", "a row that names it not");
  }
}

static void run_policy(const uint8_t *data, size_t size) {
  static ref_policy expected;
  if (size > REF_POLICY_TEXT - 2) return;
  char *text = fuzz_exact(data, size), nothing = 0;
  nxmem_policy *policy = NULL;
  nxmem_error error;
  const nxmem_result r = nxmem_policy_parse(text == NULL ? &nothing : text, size, &policy, &error);
  const int good = ref_policy_read(data, size, &expected);
  fuzz_same_number("accepted", r == NXMEM_OK, (uint64_t)good);
  if (good) {
    fuzz_same_number("file bytes", policy->max_file_bytes, expected.max_file_bytes);
    fuzz_same_number("rows", policy->count, expected.count);
    for (size_t i = 0; i < expected.count; i++) same_row(&policy->rows[i], &expected.rows[i]);
    run_find(policy);
  } else {
    fuzz_same_number("refused as", (uint64_t)r, NXMEM_ERR_INVALID_ARGUMENT);
    if (policy != NULL) fuzz_fail("refused", "something was written");
    expect_line(&error);
  }
  nxmem_policy_free(policy);
  free(text);
}

/* ---- Signatures -------------------------------------------------------------------------------------------------- */

/* What the key made: the file before its edits, and what it says. */
typedef struct made {
  uint8_t head[2 + NX_KEY_ID_BYTES + REF_SIGNATURE_BYTES];
  uint8_t of_comment[REF_SIGNATURE_BYTES];
  uint8_t comment[REF_COMMENT];
  size_t comment_bytes;
  uint8_t file[FILE_MAX];
  size_t file_bytes;
} made;

static uint8_t secret[crypto_sign_ed25519_SECRETKEYBYTES];
static nx_public_key key = {.id = {1, 2, 3, 4, 5, 6, 7, 8}};

/* Before any input: none differs for being the first. */
__attribute__((constructor)) static void make_key(void) {
  static const uint8_t seed[crypto_sign_ed25519_SEEDBYTES] = "a key for tests that signs files";
  if (sodium_init() < 0) fuzz_fail("harness", "no libsodium");
  (void)crypto_sign_ed25519_seed_keypair(key.key, secret, seed);
}

static void sign(made *m, const uint8_t *bytes, size_t count, int prehashed) {
  uint8_t hash[64], both[REF_SIGNATURE_BYTES + REF_COMMENT];
  memcpy(m->head, prehashed ? "ED" : "Ed", 2);
  memcpy(m->head + 2, key.id, sizeof key.id);
  (void)crypto_generichash(hash, sizeof hash, bytes, count, NULL, 0);
  (void)crypto_sign_ed25519_detached(m->head + 10, NULL, prehashed ? hash : bytes, prehashed ? sizeof hash : count,
                                     secret);
  memcpy(both, m->head + 10, REF_SIGNATURE_BYTES);
  memcpy(both + REF_SIGNATURE_BYTES, m->comment, m->comment_bytes);
  (void)crypto_sign_ed25519_detached(m->of_comment, NULL, both, REF_SIGNATURE_BYTES + m->comment_bytes, secret);
}

static void add(made *m, const void *bytes, size_t count) {
  memcpy(m->file + m->file_bytes, bytes, count);
  m->file_bytes += count;
}

static void add_coded(made *m, const uint8_t *bytes, size_t count) {
  char coded[256];
  (void)sodium_bin2base64(coded, sizeof coded, bytes, count, sodium_base64_VARIANT_ORIGINAL);
  add(m, coded, strlen(coded));
}

static void write_file(made *m) {
  m->file_bytes = 0;
  add(m, "untrusted comment: x\n", 21);
  add_coded(m, m->head, sizeof m->head);
  add(m, "\ntrusted comment: ", 18);
  add(m, m->comment, m->comment_bytes);
  add(m, "\n", 1);
  add_coded(m, m->of_comment, sizeof m->of_comment);
  add(m, "\n", 1);
}

typedef struct edit {
  uint16_t at;
  uint8_t kind, byte;
} edit;

static void apply(made *m, edit e) {
  const size_t at = e.at % (m->file_bytes + 1), behind = m->file_bytes - at;
  if (e.kind % 3 == 0 && behind != 0) m->file[at] = e.byte;
  if (e.kind % 3 == 1 && m->file_bytes < FILE_MAX) {
    memmove(m->file + at + 1, m->file + at, behind);
    m->file[at] = e.byte;
    m->file_bytes++;
  }
  if (e.kind % 3 == 2 && behind != 0) {
    memmove(m->file + at, m->file + at + 1, behind - 1);
    m->file_bytes--;
  }
}

/* Why it is refused, by comparing with what was made; NULL: it is not. */
static const char *reference_fault(const made *m) {
  ref_signature s;
  if (!ref_signature_read(m->file, m->file_bytes, &s)) return "is no signature file of minisign";
  if (s.kind[0] != 'E' || (s.kind[1] != 'd' && s.kind[1] != 'D')) return "is of an unknown kind";
  if (memcmp(s.id, key.id, sizeof key.id) != 0) return "is by another key";
  if (memcmp(s.kind, m->head, 2) != 0 || memcmp(s.of_bytes, m->head + 10, sizeof s.of_bytes) != 0)
    return "is not of these bytes";
  if (s.comment_bytes != m->comment_bytes || memcmp(s.comment, m->comment, s.comment_bytes) != 0 ||
      memcmp(s.of_comment, m->of_comment, sizeof s.of_comment) != 0)
    return "has a trusted comment that was not signed";
  return NULL;
}

static void judge(const made *m, const uint8_t *bytes, size_t count) {
  char shown[NX_COMMENT_ROOM], none = 0;
  uint8_t expected[NX_COMMENT_ROOM];
  char *text = fuzz_exact(m->file, m->file_bytes);
  const char *found = nx_signature_fault(text == NULL ? &none : text, m->file_bytes, &key, bytes, count, shown);
  const char *fault = reference_fault(m);
  fuzz_same_number("signature accepted", found == NULL, fault == NULL);
  if (fault != NULL && strcmp(found, fault) != 0) fuzz_fail("signature's fault", "\"%s\", not \"%s\"", found, fault);
  if (fault == NULL) {
    const uint32_t length = ref_show(m->comment, (uint32_t)m->comment_bytes, expected, sizeof expected);
    fuzz_same_bytes("comment", shown, expected, length + 1);
  }
  free(text);
}

static void run_signature(fuzz_input *in) {
  static made m;
  edit edits[EDITS_MAX];
  const uint8_t flags = fuzz_take_u8(in), count = fuzz_take_u8(in) % SIGNED_MAX;
  uint8_t bytes[SIGNED_MAX];
  fuzz_take(in, bytes, count);
  const size_t edit_count = fuzz_take_u8(in) % (EDITS_MAX + 1);
  for (size_t i = 0; i < edit_count; i++) edits[i] = (edit){fuzz_take_u16(in), fuzz_take_u8(in), fuzz_take_u8(in)};
  m.comment_bytes = in->left < REF_COMMENT ? in->left : REF_COMMENT;
  const size_t own = in->left < FILE_MAX ? in->left : FILE_MAX;
  memcpy(m.comment, in->at, m.comment_bytes);
  sign(&m, bytes, count, flags & 1);
  write_file(&m);
  if ((flags & 2) != 0) {
    memcpy(m.file, in->at, own);
    m.file_bytes = own;
  }
  for (size_t i = 0; i < edit_count; i++) apply(&m, edits[i]);
  judge(&m, bytes, count);
}

/* ---- Keys, files ------------------------------------------------------------------------------------------------- */

static void run_key(const uint8_t *data, size_t size) {
  const uint8_t *zero = memchr(data, 0, size);
  const size_t length = zero == NULL ? size : (size_t)(zero - data);
  char *text = malloc(length + 1), shown[2 * NX_KEY_ID_BYTES + 1], expected[2 * NX_KEY_ID_BYTES + 1];
  uint8_t raw[REF_KEY_BYTES];
  nx_public_key found;
  if (text == NULL) fuzz_fail("harness", "no memory");
  memcpy(text, data, length);
  text[length] = '\0';
  const int good = ref_base64(data, length, raw, sizeof raw) && raw[0] == 'E' && raw[1] == 'd';
  fuzz_same_number("key accepted", (uint64_t)nx_public_key_read(text, &found), (uint64_t)good);
  if (good) {
    fuzz_same_bytes("id", found.id, raw + 2, sizeof found.id);
    fuzz_same_bytes("public key", found.key, raw + 10, sizeof found.key);
    nx_key_id_text(&found, shown);
    for (int i = 0; i < NX_KEY_ID_BYTES; i++) (void)snprintf(expected + (ptrdiff_t)2 * i, 3, "%02x", raw[9 - i]);
    fuzz_same_bytes("id's text", shown, expected, sizeof expected);
  }
  free(text);
}

static void expect_in_file(const uint8_t *image, size_t size, const char *text) {
  const uint8_t *at = (const uint8_t *)text;
  if (at < image || at >= image + size) fuzz_fail("name", "it is not in the file");
  if (memchr(at, 0, size - (size_t)(at - image)) == NULL) fuzz_fail("name", "it does not end in the file");
}

static void expect_shown(const char *text) {
  const size_t length = strlen(text);
  if (length != 0 && !ref_is_printable((const uint8_t *)text, (uint32_t)length)) fuzz_fail("report", "not printable");
}

static void run_report(const nx_contents *contents) {
  nx_policy_row row = {.path = NULL};
  nx_findings found = {.row = &row, .contents = *contents};
  nxmem_policy_report *report = nx_report_make(&found);
  if (report == NULL) fuzz_fail("harness", "no memory");
  fuzz_same_number("libraries", report->dependency_count, contents->dependency_count);
  for (uint32_t i = 0; i < report->dependency_count; i++) expect_shown(report->dependencies[i]);
  fuzz_same_number("search path", report->search_path != NULL, contents->search_path != NULL);
  if (report->search_path != NULL) expect_shown(report->search_path);
  fuzz_same_number("build id's digits", strlen(report->build_id), 2 * contents->build_id.count);
  nxmem_policy_report_free(report);
}

static void run_contents(const uint8_t *data, size_t size) {
  static nx_contents contents;
  uint8_t *image = fuzz_exact(data, size), nothing = 0;
  const uint8_t *bytes = image == NULL ? &nothing : image;
  if (nx_contents_read(bytes, size, &contents)) {
    for (uint32_t i = 0; i < contents.dependency_count; i++) expect_in_file(bytes, size, contents.dependencies[i]);
    if (contents.search_path != NULL) expect_in_file(bytes, size, contents.search_path);
    if (contents.build_id.count > sizeof contents.build_id.bytes) fuzz_fail("build id", "longer than its room");
    run_report(&contents);
  }
  if (size != 0) fuzz_same_bytes("the file is not written", image, data, size);
  free(image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = fuzz_begin(data, size);
  switch (fuzz_take_u8(&in) % KINDS) {
    case 0:
      run_policy(in.at, in.left);
      break;
    case 1:
      run_signature(&in);
      break;
    case 2:
      run_key(in.at, in.left);
      break;
    default:
      run_contents(in.at, in.left);
      break;
  }
  return 0;
}
