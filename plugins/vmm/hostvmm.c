/*
 * hostvmm.c: the driver whose memory is the host's own: address space by mmap, pages of one memfd per engine.
 *
 * Attackers: a kernel that is out of memory, mappings or address space; a limit on any of them.
 * Promise: what is not mapped, or not made accessible, faults; a handle that is destroyed has given its pages back; one descriptor per engine, however many handles.
 *
 * A physical handle is the offset of one granule in the memfd. New ones are taken from the low end upwards, so that granules committed side by side are side by side
 * in the file and the kernel keeps one mapping for them. Pages come when they are touched. There are no streams: a mark is passed when it is made.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "driver.h"
#include "nxmem_memory_abi.h"

/* Large enough that a commit is worth its calls and that the kernel's 65,530 mappings reach 64 GiB; one page is the least. */
enum { RECOMMENDED_BYTES = 2 << 20 };

typedef struct hostvmm {
  int descriptor;
  uint64_t handle_bytes; /* of every handle: the engine makes them all of one size */
  uint64_t file_bytes;
  uint64_t next;   /* the first offset that never was a handle */
  uint64_t *freed; /* offsets that were given back */
  uint64_t freed_count, freed_room;
  void *ballast; /* NULL: none */
  int ballast_is_whole;
} hostvmm;

static nx_vmm_answer done(void) { return (nx_vmm_answer){NX_VMM_DONE, 0, NULL, NULL}; }

static nx_vmm_answer refused(const char *call, int error) {
  const int is_full = error == ENOMEM || error == ENOSPC || error == EFBIG;
  const uint32_t outcome = is_full ? NX_VMM_NO_MEMORY : NX_VMM_REFUSED;
  return (nx_vmm_answer){outcome, error, call, strerrorname_np(error)};
}

static nx_vmm_answer result_of(const char *call, int failed) { return failed ? refused(call, errno) : done(); }

static void *at(uint64_t address) { return (void *)(uintptr_t)address; }

/* ---- The device ---------------------------------------------------------------------------------------------------- */

static nx_vmm_answer describe(void *self, nx_vmm_device *out) {
  (void)self;
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  *out = (nx_vmm_device){(uint64_t)page, RECOMMENDED_BYTES, pages > 0 ? (uint64_t)pages * (uint64_t)page : 0u};
  return done();
}

static nx_vmm_answer no_context(void *self) {
  (void)self;
  return done();
}

/* ---- Address space ------------------------------------------------------------------------------------------------- */

/* mmap aligns to pages: reserve what the alignment may cost, and give back both ends. */
static nx_vmm_answer reserve(void *self, uint64_t bytes, uint64_t align, uint64_t *address_out) {
  (void)self;
  void *region = mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) return refused("mmap", errno);
  const uint64_t first = (uintptr_t)region, base = (first + align - 1u) & ~(align - 1u);
  if (base != first) munmap(region, base - first);
  munmap(at(base + bytes), first + align - base);
  *address_out = base;
  return done();
}

static nx_vmm_answer unreserve(void *self, uint64_t address, uint64_t bytes) {
  (void)self;
  return result_of("munmap", munmap(at(address), bytes) != 0);
}

/* ---- Handles ------------------------------------------------------------------------------------------------------- */

static uint64_t most_of_a_file(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/* The file's size costs nothing; it grows in large steps. Beyond the process's limit a file is not grown: the kernel would send SIGXFSZ. */
static int make_room(hostvmm *host, uint64_t bytes) {
  enum { STEP = 1 << 30 };
  if (bytes <= host->file_bytes) return 1;
  const uint64_t steps = (bytes + STEP - 1u) / STEP * STEP, most = most_of_a_file();
  const uint64_t wanted = steps > most ? bytes : steps;
  if (wanted > most) {
    errno = EFBIG;
    return 0;
  }
  if (ftruncate(host->descriptor, (off_t)wanted) != 0) return 0;
  host->file_bytes = wanted;
  return 1;
}

/* Room to note it when it is given back: giving back never needs memory. */
static int make_note(hostvmm *host, uint64_t handles) {
  if (handles <= host->freed_room) return 1;
  const uint64_t room = host->freed_room == 0u ? 64u : host->freed_room * 2u;
  uint64_t *wider = realloc(host->freed, room * sizeof *wider);
  if (wider == NULL) return 0;
  host->freed = wider;
  host->freed_room = room;
  return 1;
}

static nx_vmm_answer create(void *self, uint64_t bytes, uint64_t *handle_out) {
  hostvmm *host = self;
  host->handle_bytes = bytes;
  if (host->freed_count != 0u) {
    *handle_out = host->freed[--host->freed_count];
    return done();
  }
  if (!make_note(host, host->next / bytes + 1u)) return refused("realloc", ENOMEM);
  if (!make_room(host, host->next + bytes)) return refused("ftruncate", errno);
  *handle_out = host->next;
  host->next += bytes;
  return done();
}

/* The engine gives a handle back when nothing maps it any more: only then may its pages go. */
static nx_vmm_answer destroy(void *self, uint64_t handle) {
  hostvmm *host = self;
  const int flags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (fallocate(host->descriptor, flags, (off_t)handle, (off_t)host->handle_bytes) != 0)
    return refused("fallocate", errno);
  host->freed[host->freed_count++] = handle;
  return done();
}

/* ---- Mappings ------------------------------------------------------------------------------------------------------ */

static nx_vmm_answer map(void *self, uint64_t address, uint64_t bytes, uint64_t handle) {
  const hostvmm *host = self;
  const void *mapped = mmap(at(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, host->descriptor, (off_t)handle);
  return result_of("mmap", mapped == MAP_FAILED);
}

/*
 * Mappings that stand for nothing. A process that has as many as the kernel allows cannot even replace one by another; then these go first, and what is unmapped
 * joins its neighbours and leaves room for them again.
 */
enum { BALLAST_PAGES = 9 };

static int drop_ballast(hostvmm *host) {
  if (host->ballast == NULL) return 0;
  munmap(host->ballast, BALLAST_PAGES * (size_t)sysconf(_SC_PAGESIZE));
  host->ballast = NULL;
  host->ballast_is_whole = 0;
  return 1;
}

/* Every other page of another kind, so that each is a mapping. */
static void take_ballast(hostvmm *host) {
  if (host->ballast_is_whole) return;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  (void)drop_ballast(host);
  uint8_t *pages = mmap(NULL, BALLAST_PAGES * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return;
  host->ballast = pages;
  host->ballast_is_whole = 1;
  for (size_t i = 1u; i < BALLAST_PAGES; i += 2u)
    if (mprotect(pages + i * page, page, PROT_READ) != 0) host->ballast_is_whole = 0;
}

/* Reserved again, not left to whoever maps next. */
static int reserve_again(uint64_t address, uint64_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return mmap(at(address), bytes, PROT_NONE, flags, -1, 0) != MAP_FAILED;
}

static nx_vmm_answer unmap(void *self, uint64_t address, uint64_t bytes) {
  hostvmm *host = self;
  int is_done = reserve_again(address, bytes);
  if (!is_done && errno == ENOMEM && drop_ballast(host)) is_done = reserve_again(address, bytes);
  const nx_vmm_answer answer = result_of("mmap", !is_done);
  take_ballast(host);
  return answer;
}

static nx_vmm_answer set_access(void *self, uint64_t address, uint64_t bytes, nx_vmm_access access) {
  const int flags = access == NX_VMM_READ_ONLY ? PROT_READ : PROT_READ | PROT_WRITE;
  (void)self;
  return result_of("mprotect", mprotect(at(address), bytes, flags) != 0);
}

/* ---- Marks: a program's stores are done when it makes one ---------------------------------------------------------- */

static nx_vmm_answer mark(void *self, uint64_t *mark_out) {
  (void)self;
  *mark_out = 0u;
  return done();
}

static nx_vmm_answer of_mark(void *self, uint64_t made) {
  (void)self;
  (void)made;
  return done();
}

/* ---- Opening ------------------------------------------------------------------------------------------------------- */

static void close_host(void *self) {
  hostvmm *host = self;
  (void)drop_ballast(host);
  close(host->descriptor);
  free(host->freed);
  free(host);
}

static nx_vmm_answer cannot_open(hostvmm *host, const char *call, int error, char why[200]) {
  free(host);
  snprintf(why, 200, "%s: %s", call, strerror(error));
  return refused(call, error);
}

static nx_vmm_answer open_host(const nx_vmm_offer *offer, nx_vmm_driver *out, int *unsupported_out, char why[200]) {
  (void)offer;
  hostvmm *host = calloc(1u, sizeof *host);
  if (host == NULL) return cannot_open(host, "calloc", ENOMEM, why);
  host->descriptor = memfd_create("nxmem-hostvmm", MFD_CLOEXEC);
  if (host->descriptor < 0) {
    *unsupported_out = errno == ENOSYS;
    return cannot_open(host, "memfd_create", errno, why);
  }
  take_ballast(host);
  *out = (nx_vmm_driver){.self = host,
                         .describe = describe,
                         .bind = no_context,
                         .unbind = no_context,
                         .reserve = reserve,
                         .unreserve = unreserve,
                         .create = create,
                         .destroy = destroy,
                         .map = map,
                         .unmap = unmap,
                         .set_access = set_access,
                         .mark = mark,
                         .mark_state = of_mark,
                         .drop_mark = of_mark,
                         .close = close_host};
  return done();
}

/* From 4 TiB, so that a block of one has room beside others; down to 1 GiB: under valgrind no more than 32 can be reserved. */
static const nx_vmm_offer offers[] = {{.name = "hostvmm",
                                       .mechanism_id = 0x686F7374766D6Dull, /* spells the name */
                                       .tier = NXMEM_TIER_HOST,
                                       .index = 0u,
                                       .capabilities = NXMEM_CAP_ALLOCATOR | NXMEM_CAP_VIRTUAL_BACKING |
                                                       NXMEM_CAP_SHARED_MAPPING | NXMEM_CAP_DEFERRED_RELEASE |
                                                       NXMEM_CAP_STRUCTURED_RELEASE,
                                       .ladder_floor_bytes = 1ull << 42,
                                       .ladder_minimum_bytes = 1ull << 30,
                                       .pool_bytes = 256ull << 20,
                                       .open = open_host}};

uint32_t nx_vmm_offers(const nx_vmm_offer **out) {
  *out = offers;
  return 1u;
}
