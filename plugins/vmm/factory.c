/*
 * factory.c: a factory for each offer, and what it opens.
 *
 * Attackers: requests that are short, for another device, or for what is not there; a host of an older minor.
 * Promise: a capability is in the table only when the driver's probe has shown it; a refused open leaves nothing.
 */
#include "factory.h"

#include "fork.h"
#include "records.h"
#include "slots.h"

enum { LEVEL = 1, OFFERS_MAX = 64, ALLOCATOR_TABLE_BYTES = 128, FACTORY_TABLE_BYTES = 56 };

typedef struct factory {
  NxmemAllocatorFactoryVtable table;
  const nx_vmm_offer *offer;
  nx_books books;
} factory;

static factory factories[OFFERS_MAX];

/* ---- Opening ------------------------------------------------------------------------------------------------------- */

static void publish(nx_engine *engine) {
  const uint64_t flags = engine->capabilities;
  const int backed = (flags & NXMEM_CAP_VIRTUAL_BACKING) != 0u, shared = (flags & NXMEM_CAP_SHARED_MAPPING) != 0u;
  const int deferred = (flags & NXMEM_CAP_DEFERRED_RELEASE) != 0u;
  const int structured = (flags & NXMEM_CAP_STRUCTURED_RELEASE) != 0u;
  nx_backing_fill(engine, &engine->backing);
  nx_sharing_fill(engine, &engine->sharing);
  engine->slots = (NxmemAllocatorVtable){.struct_size = ALLOCATOR_TABLE_BYTES,
                                         .abi_minor = LEVEL,
                                         .mechanism_id = engine->offer->mechanism_id,
                                         .device = {engine->offer->tier, engine->offer->index},
                                         .capability_flags = flags,
                                         .name = (const uint8_t *)engine->offer->name,
                                         .ctx = engine,
                                         .allocate = nx_slot_allocate,
                                         .deallocate = nx_slot_deallocate,
                                         .retain = nx_slot_retain,
                                         .release = nx_slot_release,
                                         .virtual_backing = backed ? &engine->backing : NULL,
                                         .shared_mapping = shared ? &engine->sharing : NULL,
                                         .enqueue_release = deferred ? nx_slot_enqueue_release : NULL,
                                         .drain_releases = deferred ? nx_slot_drain_releases : NULL,
                                         .pending_release_count = deferred ? nx_slot_pending_release_count : NULL,
                                         .release_allocation = structured ? nx_slot_release_allocation : NULL};
}

static nx_said check_open(const factory *made, const NxmemOpenRequest *request) {
  if (request->struct_size < NX_OPEN_REQUEST_BYTES)
    return nx_say(NXMEM_STATUS_SHORT_STRUCT, "open: request shorter than 32 bytes");
  if (request->device.tier != made->offer->tier || request->device.index != made->offer->index)
    return nx_say(NXMEM_STATUS_WRONG_DEVICE, "open: the factory serves another device");
  if ((request->required_capability_flags & ~made->offer->capabilities) != 0u)
    return nx_say(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "open: the mechanism has no such capability");
  const NxmemHostCallbacks *callbacks = request->callbacks;
  if (callbacks == NULL) return nx_fine();
  if (nx_unusable(callbacks)) return nx_say(NXMEM_STATUS_INVALID_ARGUMENT, "open: misaligned callbacks");
  if (callbacks->struct_size < NX_CALLBACKS_BYTES)
    return nx_say(NXMEM_STATUS_SHORT_STRUCT, "open: callbacks shorter than 32 bytes");
  return nx_fine();
}

static NxmemStatus open_allocator(void *ctx, const NxmemOpenRequest *request,
                                  const NxmemAllocatorVtable **allocator_out) {
  factory *made = ctx;
  nx_engine *engine = NULL;
  char why[200] = "open";
  nx_said checked = nx_check_call(ctx, request, allocator_out);
  if (nx_failed(checked)) return nx_refused(checked);
  checked = check_open(made, request);
  if (nx_failed(checked)) return nx_refused(checked);
  if (!nx_fork_watch()) return nx_status(NXMEM_STATUS_UNSUPPORTED_CAPABILITY, "open: no page that a fork empties");
  const uint32_t status = nx_engine_open(made->offer, request->required_capability_flags, &made->books, &engine, why);
  if (status != NXMEM_STATUS_OK) return nx_status(status, why);
  engine->callbacks = request->callbacks;
  publish(engine);
  *allocator_out = &engine->slots;
  return nx_ok();
}

/* Factories are the module's: there is nothing to give back. */
static void release_factory(void *ctx) { (void)ctx; }

/* ---- The list ------------------------------------------------------------------------------------------------------ */

static void make(factory *made, const nx_vmm_offer *offer) {
  if (made->offer != NULL) return;
  made->table = (NxmemAllocatorFactoryVtable){.struct_size = FACTORY_TABLE_BYTES,
                                              .abi_minor = LEVEL,
                                              .name = (const uint8_t *)offer->name,
                                              .device = {offer->tier, offer->index},
                                              .capability_flags = offer->capabilities,
                                              .ctx = made,
                                              .open_allocator = open_allocator,
                                              .release = release_factory};
  made->offer = offer;
}

uint32_t nx_factories(const NxmemAllocatorFactoryVtable **tables_out, uint64_t room) {
  const nx_vmm_offer *offers = NULL;
  uint32_t count = nx_vmm_offers(&offers);
  if (count > OFFERS_MAX) count = OFFERS_MAX;
  if (count > room) return count;
  for (uint32_t i = 0u; i < count; i++) {
    make(&factories[i], &offers[i]);
    tables_out[i] = &factories[i].table;
  }
  return count;
}

const nx_books *nx_find_books(uint64_t mechanism_id, uint32_t tier, uint32_t index, uint32_t *status_out) {
  *status_out = NXMEM_STATUS_WRONG_MECHANISM;
  for (int i = 0; i < OFFERS_MAX && factories[i].offer != NULL; i++) {
    const nx_vmm_offer *offer = factories[i].offer;
    if (offer->mechanism_id != mechanism_id) continue;
    *status_out = NXMEM_STATUS_WRONG_DEVICE;
    if (offer->tier == tier && offer->index == index) return &factories[i].books;
  }
  return NULL;
}
