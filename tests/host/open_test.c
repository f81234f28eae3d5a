/*
 * open_test.c: which files may be loaded, which are one module, and what a refused file leaves.
 *
 * Attackers played: paths to everything that is no plugin; truncated, foreign and damaged objects; borrowed exports.
 * Promise: a refused file is not mapped, no descriptor stays, and nothing of it ran that need not run.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "puppet.h"

static nx_refusal refusal(nxmem_result result) { return (nx_refusal){result, 0, 0, 0, 0, 0}; }

/* ---- Paths ------------------------------------------------------------------------------------------------------- */

typedef struct path_row {
  const char *name;
  nx_modes modes;
  const char *(*make)(void);
  nxmem_result want;
} path_row;

static const char *null_path(void) { return NULL; }
static const char *empty_path(void) { return ""; }
static const char *relative_path(void) { return "libnxmem_minimal.so"; }
static const char *dotted_path(void) { return "./libnxmem_minimal.so"; }
static const char *absent(void) { return nx_fresh_path("absent.so"); }
static const char *endless(void) {
  static char path[8192];
  memset(path, 'a', sizeof path - 1);
  path[0] = '/';
  return path;
}
static const char *folder(void) {
  const char *path = nx_fresh_path("folder.so");
  assert_int_equal(mkdir(path, 0700), 0);
  return path;
}
static const char *below_a_file(void) { return nx_name("%s/x", nx_plugin_copy("libnxmem_minimal.so")); }
static const char *fifo(void) {
  const char *path = nx_fresh_path("fifo.so");
  assert_int_equal(mkfifo(path, 0600), 0);
  return path;
}
static const char *link_to_fifo(void) {
  const char *path = nx_fresh_path("link.so");
  assert_int_equal(symlink(fifo(), path), 0);
  return path;
}
static const char *bound_socket(void) {
  const char *path = nx_fresh_path("socket.so");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
  close(fd);
  return path;
}
static const char *device(void) { return "/dev/zero"; }
static const char *dangling(void) {
  const char *path = nx_fresh_path("dangling.so");
  assert_int_equal(symlink(absent(), path), 0);
  return path;
}
static const char *loop(void) {
  const char *path = nx_fresh_path("loop.so");
  assert_int_equal(symlink(path, path), 0);
  return path;
}
static const char *nothing_in_it(void) { return nx_file_of("", 0); }
static const char *text(void) { return nx_file_of("#!/bin/sh\nexit 0\n", 17); }

static const path_row path_rows[] = {
    {"path is NULL", 0, null_path, NXMEM_ERR_INVALID_ARGUMENT},
    {"path is empty", 0, empty_path, NXMEM_ERR_INVALID_ARGUMENT},
    {"path without a slash", 0, relative_path, NXMEM_ERR_INVALID_ARGUMENT},
    {"path from here", 0, dotted_path, NXMEM_ERR_INVALID_ARGUMENT},
    {"nothing there", 0, absent, NXMEM_ERR_CANNOT_OPEN},
    {"path longer than any", 0, endless, NXMEM_ERR_CANNOT_OPEN},
    {"a folder", 0, folder, NXMEM_ERR_CANNOT_OPEN},
    {"below a file", 0, below_a_file, NXMEM_ERR_CANNOT_OPEN},
    {"a FIFO nobody writes to", 0, fifo, NXMEM_ERR_CANNOT_OPEN},
    {"a symbolic link to a FIFO", 0, link_to_fifo, NXMEM_ERR_CANNOT_OPEN},
    {"a socket", 0, bound_socket, NXMEM_ERR_CANNOT_OPEN},
    {"a device", 0, device, NXMEM_ERR_CANNOT_OPEN},
    {"a dangling link", 0, dangling, NXMEM_ERR_CANNOT_OPEN},
    {"a link to itself", 0, loop, NXMEM_ERR_CANNOT_OPEN},
    {"an empty file", 0, nothing_in_it, NXMEM_ERR_CANNOT_OPEN},
    {"a text", 0, text, NXMEM_ERR_CANNOT_OPEN},
};

/* nx_is_mapped would look for "/" and find it. */
static int is_searchable(const char *path) { return path != NULL && strlen(path) > 10 && strlen(path) < 1000; }

static void test_path(void **state) {
  const path_row *row = *state;
  const char *path = row->make();
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  if (is_searchable(path)) {
    nx_assert_open_refused(host, path, refusal(row->want), 0);
  } else {
    nxmem_plugin plugin = {7};
    nxmem_error error = nx_blank_error();
    nx_assert_refused(nxmem_plugin_open(host, path, &plugin, &error), &error, refusal(row->want));
    assert_int_equal(plugin.id, 7);
  }
  nx_host_gone(host);
}

/* ---- Damaged files ----------------------------------------------------------------------------------------------- */

typedef struct damage_row {
  const char *name;
  nx_modes modes;
  void (*damage)(uint8_t *bytes, size_t *size);
} damage_row;

static Elf64_Ehdr *header_of(uint8_t *bytes) { return (Elf64_Ehdr *)(void *)bytes; }

static Elf64_Phdr *last_load(uint8_t *bytes) {
  Elf64_Phdr *segments = (Elf64_Phdr *)(void *)(bytes + header_of(bytes)->e_phoff);
  Elf64_Phdr *last = NULL;
  for (int i = 0; i < header_of(bytes)->e_phnum; i++)
    if (segments[i].p_type == PT_LOAD) last = &segments[i];
  return last;
}

static void cut_16(uint8_t *bytes, size_t *size) {
  (void)bytes;
  *size = 16;
}
static void cut_63(uint8_t *bytes, size_t *size) {
  (void)bytes;
  *size = 63;
}
static void cut_header_alone(uint8_t *bytes, size_t *size) {
  (void)bytes;
  *size = 64;
}
static void cut_in_half(uint8_t *bytes, size_t *size) { *size = (size_t)last_load(bytes)->p_offset / 2; }
static void cut_a_byte_of_data(uint8_t *bytes, size_t *size) {
  *size = (size_t)(last_load(bytes)->p_offset + last_load(bytes)->p_filesz - 1);
}
static void no_magic(uint8_t *bytes, size_t *size) {
  (void)size;
  bytes[0] ^= 1;
}
static void class_32(uint8_t *bytes, size_t *size) {
  (void)size;
  bytes[EI_CLASS] = ELFCLASS32;
}
static void other_machine(uint8_t *bytes, size_t *size) {
  (void)size;
  header_of(bytes)->e_machine ^= 0x1234;
}
static void executable(uint8_t *bytes, size_t *size) {
  (void)size;
  header_of(bytes)->e_type = ET_EXEC;
}
static void core_file(uint8_t *bytes, size_t *size) {
  (void)size;
  header_of(bytes)->e_type = ET_CORE;
}
static void odd_segments(uint8_t *bytes, size_t *size) {
  (void)size;
  header_of(bytes)->e_phentsize = 57;
}
static void segments_far_away(uint8_t *bytes, size_t *size) {
  (void)size;
  header_of(bytes)->e_phoff = 0xFFFFFFFFFFFFFFF0ull;
}
static void segments_beyond(uint8_t *bytes, size_t *size) { header_of(bytes)->e_phoff = *size; }
static void endless_segment(uint8_t *bytes, size_t *size) {
  (void)size;
  last_load(bytes)->p_filesz = 0xFFFFFFFFFFFFFFFFull;
}
static void wrapping_segment(uint8_t *bytes, size_t *size) {
  (void)size;
  last_load(bytes)->p_offset = 0xFFFFFFFFFFFFF000ull;
}
static void no_segments(uint8_t *bytes, size_t *size) {
  (void)size;
  header_of(bytes)->e_phnum = 0;
}

static const damage_row damage_rows[] = {
    {"16 bytes of a plugin", 0, cut_16},
    {"63 bytes of a plugin", 0, cut_63},
    {"the header alone", 0, cut_header_alone},
    {"half a plugin", 0, cut_in_half},
    {"a plugin short of one byte of its data", 0, cut_a_byte_of_data},
    {"another magic", 0, no_magic},
    {"32-bit", 0, class_32},
    {"another machine", 0, other_machine},
    {"an executable", 0, executable},
    {"a core file", 0, core_file},
    {"segment headers of 57 bytes", 0, odd_segments},
    {"segment headers at 2^64-16", 0, segments_far_away},
    {"segment headers behind the end", 0, segments_beyond},
    {"a segment of 2^64-1 bytes", 0, endless_segment},
    {"a segment whose offset wraps", 0, wrapping_segment},
    {"no segments", 0, no_segments},
};

static const char *damaged(void (*damage)(uint8_t *bytes, size_t *size)) {
  size_t size = 0;
  uint8_t *bytes = nx_file_bytes(NXMEM_PLUGIN_DIR "/libnxmem_minimal.so", &size);
  damage(bytes, &size);
  const char *path = nx_file_of(bytes, size);
  free(bytes);
  return path;
}

static void test_damage(void **state) {
  const damage_row *row = *state;
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  nx_assert_open_refused(host, damaged(row->damage), refusal(NXMEM_ERR_CANNOT_OPEN), 0);
  nx_host_gone(host);
}

/* The loader would refuse these too, later and in its own words: they never get to it. */
typedef struct named_row {
  const char *name;
  nx_modes modes;
  const char *(*make)(void);
  const char *says;
} named_row;

static const char *of_another_machine(void) { return damaged(other_machine); }
static const char *of_another_kind(void) { return damaged(executable); }

static const named_row named_rows[] = {
    {"a folder is named as what it is", 0, folder, "no regular file"},
    {"a device is named as what it is", 0, device, "no regular file"},
    {"another machine is named as what it is", 0, of_another_machine, "an object of another machine"},
    {"an executable is named as what it is", 0, of_another_kind, "no shared object"},
};

static void test_named(void **state) {
  const named_row *row = *state;
  const char *path = row->make();
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  nxmem_plugin plugin = {7};
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_plugin_open(host, path, &plugin, &error), &error, NXMEM_ERR_CANNOT_OPEN);
  assert_memory_equal(error.message, "check ", 6);
  assert_non_null(strstr(error.message, row->says));
  nx_host_gone(host);
}

/* ---- Objects without what is needed ------------------------------------------------------------------------------ */

typedef struct object_row {
  const char *name;
  nx_modes modes;
  const char *library;
  nxmem_result want;
} object_row;

static const object_row object_rows[] = {
    {"no export", 0, "libnxmem_test_no_exports.so", NXMEM_ERR_MISSING_SYMBOL},
    {"exports of a dependency", 0, "libnxmem_test_borrower.so", NXMEM_ERR_MISSING_SYMBOL},
    {"an undefined symbol", 0, "libnxmem_test_undefined.so", NXMEM_ERR_CANNOT_OPEN},
    {"an export that is data", 0, "libnxmem_test_data_export.so", NXMEM_ERR_MISSING_SYMBOL},
};

static void test_object(void **state) {
  const object_row *row = *state;
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  const char *path = nx_plugin_copy(row->library);
  for (int i = 0; i < 2; i++) nx_assert_open_refused(host, path, refusal(row->want), 0);
  assert_false(nx_is_mapped("libnxmem_test_lender"));
  assert_int_equal(nx_counts(host).contract_violations, 0);
  nx_host_gone(host);
}

/* ---- One file, several names ------------------------------------------------------------------------------------- */

typedef struct alias_row {
  const char *name;
  nx_modes modes;
  const char *(*alias)(const char *path);
  int same; /* one module */
} alias_row;

static const char *itself(const char *path) { return path; }
static const char *hard_link(const char *path) {
  const char *other = nx_fresh_path("hard.so");
  assert_int_equal(link(path, other), 0);
  return other;
}
static const char *symbolic_link(const char *path) {
  const char *other = nx_fresh_path("soft.so");
  assert_int_equal(symlink(path, other), 0);
  return other;
}
static const char *through_dots(const char *path) {
  const int folder_length = (int)(strrchr(path, '/') - path);
  return nx_name("%.*s/./%s", folder_length, path, path + folder_length + 1);
}
static const char *other_copy(const char *path) {
  (void)path;
  return nx_puppet_copy();
}

static const alias_row alias_rows[] = {
    {"the same path", 0, itself, 1},
    {"a hard link", 0, hard_link, 1},
    {"a symbolic link", 0, symbolic_link, 1},
    {"a path with dots", 0, through_dots, 1},
    {"a copy", 0, other_copy, 0},
};

static uint64_t references(nxmem_plugin plugin) {
  nxmem_plugin_info info;
  assert_int_equal(nxmem_plugin_get_info(plugin, &info, NULL), NXMEM_OK);
  return info.references;
}

static void test_alias(void **state) {
  const alias_row *row = *state;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  const char *path = nx_puppet_copy();
  const char *alias = row->alias(path);
  nxmem_plugin first = nx_must_open(host, path);
  nxmem_plugin second = {0};
  assert_int_equal(nxmem_plugin_open(host, alias, &second, NULL), NXMEM_OK);
  assert_int_not_equal(first.id, second.id);
  assert_int_equal(nx_puppet_calls(NX_IN_NEGOTIATE), row->same ? 1 : 2);
  assert_int_equal(nx_puppet_calls(NX_IN_CONSTRUCTOR), row->same ? 1 : 2);
  assert_int_equal(references(first), row->same ? 2 : 1);
  assert_int_equal(references(second), row->same ? 2 : 1);
  assert_int_equal(nx_counts(host).open_plugins, 2);

  /* Each handle gives its own reference back, once; factories and the module go with the last. */
  nxmem_unload_info info;
  assert_int_equal(nxmem_plugin_try_unload(first, &info, NULL), NXMEM_OK);
  assert_int_equal(info.references, row->same);
  assert_int_equal(info.unmapped, !row->same);
  assert_int_equal(nxmem_plugin_try_unload(first, &info, NULL), NXMEM_ERR_STALE_HANDLE);
  assert_int_equal(nx_puppet_factory_releases(), row->same ? 0 : 1);
  if (row->same) {
    nxmem_allocator allocator = nx_must_open_mechanism(second, "puppet");
    nx_must_close(allocator);
  }
  assert_int_equal(nxmem_plugin_try_unload(second, &info, NULL), NXMEM_OK);
  assert_int_equal(info.references, 0);
  assert_int_equal(info.unmapped, 1);
  assert_int_equal(nx_puppet_factory_releases(), row->same ? 1 : 2);
  nx_host_gone(host);
}

/* Two hosts may load one file: the loader maps it once, each host owns its own factories. */
static void test_two_hosts(void **state) {
  (void)state;
  nx_puppet_reset();
  nxmem_host one = nx_host_in(NXMEM_FETCH_GUARDED), two = nx_host_in(NXMEM_FETCH_DIRECT);
  const char *path = nx_puppet_copy();
  nxmem_plugin first = nx_must_open(one, path), second = nx_must_open(two, path);
  assert_int_equal(nx_puppet_calls(NX_IN_NEGOTIATE), 2);
  assert_int_equal(nx_puppet_calls(NX_IN_CONSTRUCTOR), 1);
  nxmem_unload_info info;
  assert_int_equal(nxmem_plugin_try_unload(first, &info, NULL), NXMEM_OK);
  assert_int_equal(info.references, 0);
  assert_int_equal(info.unmapped, 0); /* the other host's reference keeps it */
  assert_int_equal(nx_counts(one).forced_leaks, 0);
  nx_must_unload(second, path);
  assert_int_equal(nx_puppet_factory_releases(), 2);
  nx_host_gone(one);
  nx_host_gone(two);
}

static void test_null_out(void **state) {
  (void)state;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  nxmem_error error = nx_blank_error();
  nx_assert_code(nxmem_plugin_open(host, nx_puppet_copy(), NULL, &error), &error, NXMEM_ERR_INVALID_ARGUMENT);
  assert_int_equal(nx_puppet_calls(NX_IN_CONSTRUCTOR), 0);
  nx_host_gone(host);
}

/* A plugin opened, unloaded and opened again starts anew. */
static void test_again(void **state) {
  (void)state;
  nx_puppet_reset();
  nxmem_host host = nx_host_in(NXMEM_FETCH_GUARDED);
  const char *path = nx_puppet_copy();
  const size_t fds = nx_open_fds();
  for (int i = 0; i < 20; i++) {
    atomic_store(&puppet.calls[NX_IN_DESTRUCTOR], 0);
    nx_must_unload(nx_must_open(host, path), path);
  }
  assert_int_equal(nx_open_fds(), fds);
  assert_int_equal(nx_puppet_calls(NX_IN_CONSTRUCTOR), 20);
  assert_int_equal(nx_puppet_factory_releases(), 20);
  nx_host_gone(host);
}

int main(void) {
  alarm(100);
  nx_suite suite = {0};
  nx_suite_rows(&suite, ROWS(path_rows), test_path);
  nx_suite_rows(&suite, ROWS(damage_rows), test_damage);
  nx_suite_rows(&suite, ROWS(named_rows), test_named);
  nx_suite_rows(&suite, ROWS(object_rows), test_object);
  nx_suite_rows(&suite, ROWS(alias_rows), test_alias);
  nx_suite_add(&suite, "one file in two hosts", test_two_hosts, NULL);
  nx_suite_add(&suite, "out is NULL", test_null_out, NULL);
  nx_suite_add(&suite, "opened and unloaded twenty times", test_again, NULL);
  return nx_suite_run(&suite, "host_open");
}
