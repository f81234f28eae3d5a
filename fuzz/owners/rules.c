/*
 * rules.c: who owns what, and what follows when it ends.
 * Attackers: whatever order the input chooses.
 * Promise: written from the headers' prose; nothing of registry, managers or core is called.
 */
#include <string.h>

#include "nxmem/handle.h"
#include "owners.h"

owners own;

const NxmemDeviceId own_devices[OWN_DEVICES] = {{NXMEM_TIER_HOST, 0}, {NXMEM_TIER_DEVICE, 1}, {NXMEM_TIER_HOST, 2}};

own_mechanism *own_mechanism_of(uint8_t block) { return &own.mechanisms[own.blocks[block].mechanism]; }

nxmem_result own_work(own_life now, own_life last) {
  static const nxmem_result codes[] = {NXMEM_OK, NXMEM_ERR_RETIRED, NXMEM_ERR_DEVICE_LOST, NXMEM_ERR_TERMINATED};
  return now <= last ? NXMEM_OK : codes[now];
}

/* The last use of a dropped binding ends it. */
void own_unuse(uint8_t binding) {
  own_binding *b = &own.bindings[binding];
  own_expect(b->uses != 0, "harness: a use too few");
  b->uses--;
  if (b->uses != 0 || b->there != OWN_DROPPED) return;
  b->there = OWN_GONE;
  own.mechanisms[b->mechanism].bindings--;
}

void own_settle(uint8_t block, nxmem_keeping keeping, uint32_t status) {
  own_block *b = &own.blocks[block];
  b->state = keeping == NXMEM_KEPT_NOT ? OWN_ENDED : OWN_KEPT;
  b->keeping = keeping;
  b->status = status;
  if (b->charge != OWN_NOBODY) own_charge_ended(b->charge, keeping != NXMEM_KEPT_NOT);
  own_unuse(b->binding);
}

static nxmem_keeping keeping_of(own_life now, nxmem_keeping otherwise) {
  if (now == OWN_LOST) return NXMEM_KEPT_DEVICE_LOST;
  return now == OWN_TERMINATED ? NXMEM_KEPT_TERMINATED : otherwise;
}

void own_keep(uint8_t block, nxmem_keeping why) {
  life_block *b = &it.blocks[block];
  life_finish(b, 0, 0, LIFE_UNWRITTEN, NXMEM_STATUS_OK);
  life_owner(b)->live--;
  own_settle(block, keeping_of(own_mechanism_of(block)->life, why), NXMEM_STATUS_OK);
}

static int is_kept_with(const own_block *b, uint8_t mechanism, uint8_t binding) {
  return b->state == OWN_OWNED && b->mechanism == mechanism && (binding == OWN_NOBODY || b->binding == binding);
}

/* The next that goes: part by part, in the order of the host's records, which is that of its list of what is kept. */
static uint8_t next_kept(uint8_t mechanism, uint8_t binding, uint8_t part) {
  uint8_t next = OWN_NOBODY;
  for (uint8_t i = 0; i < LIFE_BLOCKS; i++) {
    if (!is_kept_with(&own.blocks[i], mechanism, binding) || it.blocks[i].pins != 0 || it.blocks[i].owner != part)
      continue;
    if (next == OWN_NOBODY || nxmem_handle_slot(it.blocks[i].id) < nxmem_handle_slot(it.blocks[next].id)) next = i;
  }
  return next;
}

uint64_t own_keep_all(uint8_t mechanism, uint8_t binding, nxmem_keeping why) {
  const own_mechanism *m = &own.mechanisms[mechanism];
  uint64_t kept = 0;
  for (uint32_t part = 0; part < m->part_count; part++) {
    if (m->parts[part] == OWN_NOBODY) continue;
    for (uint8_t i = next_kept(mechanism, binding, m->parts[part]); i != OWN_NOBODY;
         i = next_kept(mechanism, binding, m->parts[part])) {
      own_keep(i, why);
      kept++;
    }
  }
  return kept;
}

int own_is_part(const own_mechanism *m, uint32_t allocator) {
  for (uint32_t i = 0; i < m->part_count; i++)
    if (m->parts[i] == allocator) return 1;
  return 0;
}

uint64_t own_inside(const own_mechanism *m) {
  uint64_t inside = 0;
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++)
    if (own_is_part(m, i)) inside += it.allocators[i].inside;
  return inside;
}

void own_drop_selection(uint8_t mechanism) {
  const own_mechanism *m = &own.mechanisms[mechanism];
  uint8_t *selected = &own.registries[m->registry].selected[m->device];
  if (*selected == mechanism) *selected = OWN_NOBODY;
}

nxmem_holdings own_holdings(const own_mechanism *m) {
  nxmem_holdings h = {.calls_inside = own_inside(m), .prepared = m->prepared, .bindings = m->bindings};
  for (uint32_t i = 0; i < LIFE_ALLOCATORS; i++) {
    if (!own_is_part(m, i)) continue;
    h.live += it.allocators[i].live;
    h.quarantined += it.allocators[i].quarantined;
  }
  h.live -= m->prepared;
  return h;
}
