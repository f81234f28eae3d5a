/*
 * hosttest.h: what the host's tests share: a module of one's own per test, a look at the address space, refusals by
 * number.
 *
 * Attackers: none; the plugins under test play them.
 * Promise: every refusal is compared in code, reason, field and numbers, and its message is checked to be one printable
 * line.
 */
#ifndef TESTS_HOST_HOSTTEST_H
#define TESTS_HOST_HOSTTEST_H

#include "nxmem.h"
#include "nxmem/unload.h"
#include "support.h"

/* Whether ThreadSanitizer looks on. */
#if defined(__SANITIZE_THREAD__)
#define NX_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NX_THREAD_SANITIZER 1
#endif
#endif
#ifndef NX_THREAD_SANITIZER
#define NX_THREAD_SANITIZER 0
#endif

/* ---- Rows in both fetch modes ------------------------------------------------------------------------------------ */

typedef enum nx_modes {
  NX_BOTH_MODES = 0,
  NX_GUARDED_ONLY = 1 /* in the direct mode this row's pointer would fault, by design */
} nx_modes;

/* How a row of these tests begins. */
typedef struct nx_row_head {
  const char *name;
  nx_modes modes;
} nx_row_head;

/* What *state points to in a test that nx_suite_modes added. */
typedef struct nx_case {
  nxmem_fetch_mode mode;
  const void *row;
} nx_case;

/* Each row once per fetch mode it may run in, as a case of its own. */
void nx_suite_modes(nx_suite *suite, const void *rows, size_t row_bytes, size_t count, CMUnitTestFunction run);

/* ---- Plugins ----------------------------------------------------------------------------------------------------- */

/*
 * A fresh copy of a built plugin ("libnxmem_minimal.so"): its own inode, so its own module. Valid until the program
 * ends.
 */
const char *nx_plugin_copy(const char *library);

/* A path in the program's own folder that nothing has yet. */
const char *nx_fresh_path(const char *suffix);

/* Write a file of these bytes; returns its path. */
const char *nx_file_of(const void *bytes, size_t size);

/* The whole file; *size_out its length. Free it. */
uint8_t *nx_file_bytes(const char *path, size_t *size_out);

/* 1 where /proc/self/maps names the file, deleted or not. */
int nx_is_mapped(const char *path);

/* Open descriptors of this process. */
size_t nx_open_fds(void);

/* ---- Hosts ------------------------------------------------------------------------------------------------------- */

/* Of hosts made from here on: CHECKED at first; TRUSTED for plugins that are played to hand out one address again and again. */
extern nxmem_overlap_check nx_overlap;

nxmem_host nx_host_in(nxmem_fetch_mode mode);

/* A host of versions 1.0 to 1.minor_max that offers `flags`. */
nxmem_host nx_host_of_level(nxmem_fetch_mode mode, uint32_t minor_max, uint64_t flags);

nxmem_host_counts nx_counts(nxmem_host host);
void nx_host_gone(nxmem_host host);

/* ---- Steps that must succeed ------------------------------------------------------------------------------------- */

nxmem_plugin nx_must_open(nxmem_host host, const char *path);
nxmem_allocator nx_must_open_mechanism(nxmem_plugin plugin, const char *mechanism);
nxmem_allocation nx_must_allocate(nxmem_allocator allocator, uint64_t bytes, uint64_t align);
void nx_must_release(nxmem_allocator allocator, nxmem_allocation allocation);
void nx_must_close(nxmem_allocator allocator);

/* Unloads, and sees that nothing of the file stays mapped. */
void nx_must_unload(nxmem_plugin plugin, const char *path);

/* ---- Steps that must be refused ---------------------------------------------------------------------------------- */

typedef struct nx_refusal {
  nxmem_result result;
  uint32_t reason;
  uint32_t field;
  uint64_t found;
  uint64_t needed;
  uint32_t plugin_status;
} nx_refusal;

/* For `found` and `needed`: an address that no row can know. */
#define NX_ANY 0x5A5A5A5A5A5A5A5Aull

void nx_assert_refused(nxmem_result got, const nxmem_error *error, nx_refusal want);

/* Only the code, for calls that carry no numbers; the message is checked as always. */
void nx_assert_code(nxmem_result got, const nxmem_error *error, nxmem_result want);

/* A message that is there, is one line, is valid UTF-8 without control characters, and ends inside its buffer. */
void nx_assert_line(const char *message, size_t room);

/* An error filled with 0xA5, so that what a call left unwritten shows. */
nxmem_error nx_blank_error(void);

/* The open is refused, the handle is not written, no descriptor stays, and the file is (not) mapped. */
void nx_assert_open_refused(nxmem_host host, const char *path, nx_refusal want, int stays_mapped);

/* An unload that is BUSY with this reason, axis and number. */
nxmem_unload_info nx_assert_unload_busy(nxmem_plugin plugin, uint32_t reason, uint32_t axis, uint64_t found);

/* Give up a plugin whose gate is shut: the module stays, one forced leak more. */
void nx_force_leak(nxmem_host host, nxmem_plugin plugin, const char *path);

/* ---- Scripted modules -------------------------------------------------------------------------------------------- */

/*
 * Their counters (scripted_probe.h), also after the module is gone; zeroed and registered for the modules loaded next.
 */
extern uint64_t nx_seen[];
void nx_observe(void);

/* Every factory and every allocator given back exactly once, and no stray call. */
void nx_assert_books_closed(void);

#endif /* TESTS_HOST_HOSTTEST_H */
