/*
 * rules_open.c: rules about opening, sharing and closing an allocator.
 * Attackers: a plugin that trusts its caller, counts wrongly, or keeps state between opens.
 * Promise: a refused open leaves every count of the unload report as it was.
 */
#include <inttypes.h>
#include <string.h>

#include "conform/expect.h"
#include "conform/families.h"
#include "conform/memory.h"
#include "conform/parallel.h"
#include "conform/slots.h"
#include "nxmem.h"
#include "nxmem/capability.h"

enum { OPEN_REQUEST_BYTES = 32 };

/* ---- Refused opens ----------------------------------------------------------------------------------------------- */

typedef struct opening {
  nx_trial *trial;
  NxmemAllocatorFactoryVtable factory;
  NxmemOpenRequest request;
  NxmemUnloadReport before;
} opening;

static opening begin(nx_trial *trial) {
  nx_plugin_ready(trial);
  opening out = {.trial = trial, .factory = nx_target_factory(trial)};
  out.request = nx_open_request(trial, &out.factory);
  out.before = nx_plugin_report(trial);
  return out;
}

static void must_refuse(const opening *o, const void *request, nx_codes accepted, const char *what) {
  const NxmemAllocatorVtable *table = NULL;
  nx_enter("open_allocator with %s", what);
  nx_expect_status(o->factory.open_allocator(o->factory.ctx, request, &table), accepted, what);
  nx_same_counts(o->trial, &o->before, "a refused open");
  nx_seen("%s, nothing opened", nx_codes_words(accepted));
}

static void short_request(nx_trial *trial, const void *with) {
  (void)with;
  opening o = begin(trial);
  uint32_t sizes[NX_SHORT_SIZES], count = nx_short_sizes(OPEN_REQUEST_BYTES, sizes);
  for (uint32_t i = 0; i < count; i++)
    must_refuse(&o, nx_short_copy(&o.request, sizes[i], OPEN_REQUEST_BYTES), NX_CODE(SHORT_STRUCT), "a short request");
}

static void null_request(nx_trial *trial, const void *with) {
  (void)with;
  opening o = begin(trial);
  must_refuse(&o, NULL, NX_CODE(INVALID_ARGUMENT), "a NULL request");
}

static void null_out(nx_trial *trial, const void *with) {
  (void)with;
  opening o = begin(trial);
  nx_enter("open_allocator with a NULL allocator_out");
  nx_expect_status(o.factory.open_allocator(o.factory.ctx, &o.request, NULL), NX_CODE(INVALID_ARGUMENT),
                   "a NULL allocator_out");
  nx_same_counts(trial, &o.before, "a refused open");
  nx_seen("INVALID_ARGUMENT, nothing opened");
}

static void wrong_device(nx_trial *trial, const void *with) {
  (void)with;
  opening o = begin(trial);
  o.request.device.index++;
  must_refuse(&o, &o.request, NX_CODE(WRONG_DEVICE), "another index");
  o.request = nx_open_request(trial, &o.factory);
  o.request.device.tier = o.request.device.tier == NXMEM_TIER_DISK ? NXMEM_TIER_HOST : NXMEM_TIER_DISK;
  must_refuse(&o, &o.request, NX_CODE(WRONG_DEVICE), "another tier");
}

/* The highest bit that neither we nor the table know. */
static void unknown_required(nx_trial *trial, const void *with) {
  (void)with;
  opening o = begin(trial);
  nx_opened opened = nx_open_once(trial, NULL);
  uint64_t bit = 1ull << 63;
  while (bit & opened.table.capability_flags) bit >>= 1;
  if (bit & NXMEM_CAPS_KNOWN) nx_does_not_apply("the table declares every bit");
  nx_close(&opened);
  o.before = nx_plugin_report(trial);
  o.request.required_capability_flags |= bit;
  must_refuse(&o, &o.request, NX_CODE(UNSUPPORTED_CAPABILITY), "a required capability that nobody defined");
}

static void absent_required(nx_trial *trial, const void *with) {
  (void)with;
  opening o = begin(trial);
  nx_opened opened = nx_open_once(trial, NULL);
  uint64_t absent = NXMEM_CAPS_KNOWN & ~opened.table.capability_flags;
  if (!absent) nx_does_not_apply("the mechanism has every capability");
  nx_close(&opened);
  o.before = nx_plugin_report(trial);
  for (uint64_t bit = 1; bit <= NXMEM_CAPS_KNOWN; bit <<= 1) {
    if (!(absent & bit)) continue;
    o.request.required_capability_flags = NXMEM_CAP_ALLOCATOR | bit;
    must_refuse(&o, &o.request, NX_CODE(UNSUPPORTED_CAPABILITY), "a required capability that it does not have");
  }
}

/* ---- Opens that succeed ------------------------------------------------------------------------------------------ */

static void must_open(const opening *o, const void *request, const char *what) {
  const NxmemAllocatorVtable *table = NULL;
  nx_opened opened;
  nx_enter("open_allocator with %s", what);
  nx_expect_status(o->factory.open_allocator(o->factory.ctx, request, &table), NX_CODE(OK), what);
  NX_GIVEN(nx_opened_read(o->trial, table, &opened).reason == NXMEM_REASON_NONE, "the table cannot be read");
  nx_block block = nx_take(&opened, 64, 16);
  nx_give(&opened, &block);
  nx_close(&opened);
  nx_seen("opened with %s, allocated, closed", what);
}

static void long_request(nx_trial *trial, const void *with) {
  (void)with;
  opening o = begin(trial);
  must_open(&o, nx_long_copy(&o.request, OPEN_REQUEST_BYTES), "a request of 96 bytes");
}

static void exact_memory(nx_trial *trial, const void *with) {
  (void)with;
  opening o = begin(trial);
  const NxmemHostCallbacks *original = o.request.callbacks;
  o.request.callbacks = nx_guarded(original, sizeof *original, 0);
  must_open(&o, nx_guarded(&o.request, sizeof o.request, 0), "a read-only request and callbacks of their exact size");
  NX_EXPECT(!memcmp(o.request.callbacks, original, sizeof *original),
            "the table of callbacks was made writable and changed");
}

static void required_ones(nx_trial *trial, const void *with) {
  (void)with;
  opening o = begin(trial);
  nx_opened opened = nx_open_once(trial, NULL);
  o.request.required_capability_flags = opened.caps;
  nx_close(&opened);
  must_open(&o, &o.request, "every capability it has required");
}

static void no_callbacks(nx_trial *trial, const void *with) {
  (void)with;
  opening o = begin(trial);
  const NxmemAllocatorVtable *table = NULL;
  o.request.callbacks = NULL;
  nx_enter("open_allocator without callbacks");
  if (o.factory.open_allocator(o.factory.ctx, &o.request, &table).code == NXMEM_STATUS_OK) {
    must_open(&o, &o.request, "no callbacks");
    return;
  }
  nx_same_counts(trial, &o.before, "a refused open");
  nx_seen("refused, nothing opened");
}

/* A host of 1.0: its table has the same two callbacks. */
static void older_callbacks(nx_trial *trial, const void *with) {
  (void)with;
  opening o = begin(trial);
  NxmemHostCallbacks old = *o.request.callbacks;
  old.abi_minor = 0;
  o.request.callbacks = &old;
  must_open(&o, &o.request, "callbacks of minor 0");
}

/* Header and host_ctx alone: a plugin that wants a callback finds none, and must not look behind the end. */
static void short_callbacks(nx_trial *trial, const void *with) {
  (void)with;
  opening o = begin(trial);
  const NxmemAllocatorVtable *table = NULL;
  nx_opened opened;
  o.request.callbacks = nx_short_copy(o.request.callbacks, 16, sizeof *o.request.callbacks);
  nx_enter("open_allocator with callbacks of 16 bytes");
  uint32_t code = o.factory.open_allocator(o.factory.ctx, &o.request, &table).code;
  if (code != NXMEM_STATUS_OK) {
    nx_same_counts(trial, &o.before, "a refused open");
    nx_seen("%s, nothing opened", nxmem_status_name(code));
    return;
  }
  NX_GIVEN(nx_opened_read(trial, table, &opened).reason == NXMEM_REASON_NONE, "the table cannot be read");
  nx_block block = nx_take(&opened, 64, 16);
  nx_give(&opened, &block);
  nx_close(&opened);
  nx_seen("opened, allocated, closed");
}

static void at_minor_0(nx_trial *trial, const void *with) {
  (void)with;
  NxmemNegotiateRequest offer = nx_plugin_offer();
  NxmemNegotiateResponse answer = nx_plugin_room();
  offer.host_range.minor_max = 0;
  nx_plugin_load(trial);
  nx_enter("NxmemNegotiate at 1.0");
  if (trial->negotiate(&offer, &answer).code != NXMEM_STATUS_OK) nx_does_not_apply("the plugin does not speak 1.0");
  trial->minor = 0;
  trial->caps = answer.capability_flags;
  nx_plugin_enumerate(trial);
  opening o = {.trial = trial, .factory = nx_target_factory(trial)};
  o.request = nx_open_request(trial, &o.factory);
  must_open(&o, &o.request, "a ceiling of 1.0");
}

/* ---- Counting ---------------------------------------------------------------------------------------------------- */

static void counts_to(nx_trial *trial, uint64_t wanted, const char *when) {
  uint64_t found = nx_plugin_report(trial).live_allocators;
  NX_EXPECT(found == wanted, "live_allocators is %" PRIu64 ", needed %" PRIu64 " %s", found, wanted, when);
}

static void counts_allocators(nx_trial *trial, const void *with) {
  (void)with;
  nx_plugin_ready(trial);
  counts_to(trial, 0, "before any open");
  nx_opened first = nx_open_once(trial, NULL);
  counts_to(trial, 1, "after one open");
  nx_opened second = nx_open_once(trial, NULL);
  counts_to(trial, 2, "after two opens");
  nx_close(&first);
  counts_to(trial, 1, "after one of two was released");
  nx_close(&second);
  counts_to(trial, 0, "after both were released");
  nx_seen("0, 1, 2, 1, 0");
}

static void references(nx_trial *trial, const void *with) {
  (void)with;
  nx_opened opened = nx_open_ready(trial);
  nx_enter("retain");
  opened.table.retain(opened.table.ctx);
  counts_to(trial, 1, "after retain: references are not counted");
  nx_close(&opened);
  counts_to(trial, 1, "while one of two references is held");
  nx_block block = nx_take(&opened, 64, 16);
  nx_give(&opened, &block);
  nx_close(&opened);
  counts_to(trial, 0, "after the last reference");
  nx_seen("lives as long as a reference is held");
}

static void opens_are_apart(nx_trial *trial, const void *with) {
  (void)with;
  nx_plugin_ready(trial);
  nx_opened first = nx_open_once(trial, NULL), second = nx_open_once(trial, NULL);
  nx_block block = nx_take(&second, 64, 16);
  nx_close(&first);
  nx_block other = nx_take(&second, 64, 16);
  nx_still_live(&second, &block, "another allocator closed");
  nx_give(&second, &other);
  nx_close(&second);
  nx_seen("the second serves after the first is gone");
}

static void table_stands_still(nx_trial *trial, const void *with) {
  (void)with;
  NxmemAllocatorVtable before, after;
  nx_opened opened = nx_open_ready(trial);
  size_t bytes = opened.table.struct_size < sizeof before ? opened.table.struct_size : sizeof before;
  size_t first = nx_read_memory(&before, opened.published, bytes);
  nx_block block = nx_take(&opened, 64, 16);
  nx_give(&opened, &block);
  nx_opened second = nx_open_once(trial, NULL);
  nx_close(&second);
  NX_EXPECT(nx_stands_still(opened.published, first) && nx_read_memory(&after, opened.published, first) == first &&
                !memcmp(&before, &after, first),
            "the table changed while the allocator was open");
  nx_seen("the same %zu bytes", first);
}

static void open_often(void *with, uint32_t thread) {
  (void)thread;
  for (int i = 0; i < 50; i++) {
    nx_opened opened = nx_open_once(with, NULL);
    opened.table.retain(opened.table.ctx);
    nx_close(&opened);
    nx_close(&opened);
  }
}

static void from_threads(nx_trial *trial, const void *with) {
  (void)with;
  nx_open_ready(trial);
  nx_parallel(open_often, trial);
  counts_to(trial, 1, "after 400 opens and closes from 8 threads beside one open");
  nx_seen("400 opens, retains and closes from %d threads", NX_THREADS);
}

#define OPN(name, text, place, need, function)                                                           \
  {                                                                                                      \
    .id = (name), .statement = (text), .section = (place), .scope = NX_SCOPE_MECHANISM, .needs = (need), \
    .check = (function)                                                                                  \
  }

static const nx_rule RULES[] = {
    OPN("NX-OPN-001", "A request below 32 bytes is SHORT_STRUCT, and nothing beyond it is read", "Sizes", "NX-TAB-006",
        short_request),
    OPN("NX-OPN-002", "A NULL request is INVALID_ARGUMENT", "Sizes", "NX-TAB-006", null_request),
    OPN("NX-OPN-003", "A NULL allocator_out is INVALID_ARGUMENT", "Sizes", "NX-TAB-006", null_out),
    OPN("NX-OPN-004", "Another device is WRONG_DEVICE", "Identity", "NX-TAB-006", wrong_device),
    OPN("NX-OPN-005", "A required capability that nobody defined is UNSUPPORTED_CAPABILITY", "Capabilities",
        "NX-TAB-006", unknown_required),
    OPN("NX-OPN-006", "A required capability that the mechanism does not have is UNSUPPORTED_CAPABILITY",
        "Capabilities", "NX-TAB-006", absent_required),
    OPN("NX-OPN-007", "A request longer than 32 bytes is taken, its tail not looked at", "Sizes", "NX-DEA-001",
        long_request),
    OPN("NX-OPN-008", "The request and the callbacks are not written to, and their exact size suffices", "Sizes",
        "NX-DEA-001", exact_memory),
    OPN("NX-OPN-009", "Every capability that the mechanism has can be required", "Capabilities", "NX-DEA-001",
        required_ones),
    OPN("NX-OPN-010", "Without callbacks it opens and serves, or refuses", "Ownership", "NX-DEA-001", no_callbacks),
    OPN("NX-OPN-011", "Callbacks of minor 0 are taken", "Versions", "NX-DEA-001", older_callbacks),
    {.id = "NX-OPN-012",
     .statement = "Nothing behind the end of a short table of callbacks is read",
     .section = "Sizes",
     .severity = NX_SEVERITY_WARNING,
     .scope = NX_SCOPE_MECHANISM,
     .needs = "NX-DEA-001",
     .check = short_callbacks},
    OPN("NX-OPN-013", "Under a ceiling of 1.0 it opens, allocates and releases through deallocate", "Versions",
        "NX-DEA-001", at_minor_0),
    OPN("NX-OPN-014", "live_allocators counts allocators whose final release has not come", "Unload report",
        "NX-DEA-001", counts_allocators),
    OPN("NX-OPN-015", "retain adds a reference, and the allocator serves until the last release", "Ownership",
        "NX-OPN-014", references),
    OPN("NX-OPN-016", "Two opens are two allocators: one goes, the other serves", "Ownership", "NX-DEA-001",
        opens_are_apart),
    OPN("NX-OPN-017", "The published table does not change while the allocator is open", "Ownership", "NX-DEA-001",
        table_stands_still),
    OPN("NX-OPN-018", "Eight threads open, retain and close at once", "Threads", "NX-OPN-015", from_threads),
};

const nx_family nx_open_rules = NX_FAMILY("open", "Opening, sharing and closing an allocator", RULES);
