/*
 * misuse.c: what no caller may ask, unloading under owners, and pages of what is bound.
 * Attackers: arguments that are NULL, unknown or contradict each other.
 * Promise: each is refused by its own code and changes nothing; a module goes only when nobody owns anything of it.
 */
#include <string.h>

#include "owners.h"

static nxmem_result bad_call(uint32_t kind, uint8_t which) {
  const own_mechanism *m = &own.mechanisms[which % OWN_MECHANISMS];
  const own_manager *manager = &own.managers[which % OWN_MANAGERS];
  const nxmem_registry registry = own.registries[which % OWN_REGISTRIES].handle;
  const nxmem_context context = {own.contexts[which % OWN_MEMBERS].handle};
  const nxmem_authority authority = {own.authorities[which % OWN_MEMBERS].handle};
  const nxmem_part parts[2] = {{it.plugins[0], NULL}, {it.plugins[0], NULL}};
  const nxmem_axes axes = {0, 0, 0};
  nxmem_mechanism mechanism = {0};
  switch (kind % 24u) {
    case 0:
      return nxmem_registry_create(NULL, NULL);
    case 1:
      return nxmem_registry_count(registry, NULL, NULL);
    case 2:
      return nxmem_context_create(registry, NULL, NULL);
    case 3:
      return nxmem_authority_create(registry, NULL, NULL);
    case 4:
      return nxmem_context_pins(context, NULL, NULL);
    case 5:
      return nxmem_mechanism_register(context, authority, it.plugins[0], NULL, NULL, NULL);
    case 6:
      return nxmem_mechanism_register_composite_trusted(context, authority, parts, kind & 32u ? 1u : 5u, &mechanism, NULL);
    case 7:
      return nxmem_mechanism_register_composite_trusted(context, authority, NULL, 2, &mechanism, NULL);
    case 8:
      return nxmem_mechanism_get_state(m->handle, NULL, NULL);
    case 9:
      return nxmem_registry_mechanisms(registry, 0, NULL, 1, NULL, NULL, NULL);
    case 10:
      return nxmem_registry_selected(registry, own_devices[0], NULL, NULL);
    case 11:
      return nxmem_bind_mechanism(m->handle, NULL, NULL);
    case 12:
      return nxmem_binding_get_info(own.bindings[which % OWN_BINDINGS].handle, NULL, NULL);
    case 13:
      return nxmem_bound_allocate(own.bindings[which % OWN_BINDINGS].handle, 1, 1, NULL, NULL, NULL);
    case 14:
      return nxmem_bound_release(NULL, NULL);
    case 15:
      return nxmem_bound_prepare(&own.blocks[which % LIFE_BLOCKS].bound, NULL, NULL);
    case 16:
      return nxmem_mechanism_quarantine(m->handle, 0, NULL, 1, NULL, NULL, NULL);
    case 17:
      return nxmem_manager_create(NULL, NULL);
    case 18:
      return nxmem_manager_set_budget(manager->handle, authority, NULL, NULL, NULL);
    case 19:
      return nxmem_manager_delegate(manager->handle, authority, NULL, NULL);
    case 20:
      return nxmem_manager_allocate(manager->handle, NULL, NULL, NULL, NULL, NULL);
    case 21:
      return nxmem_manager_add_pressure(manager->handle, NULL, NULL, 0, NULL, NULL);
    case 22:
      return kind & 32u ? nxmem_manager_ask(manager->handle, authority, &axes, NULL, NULL)
                        : nxmem_transaction_publish((nxmem_transaction){own.charges[which % OWN_CHARGES].handle}, NULL, NULL, NULL);
    default:
      return kind & 32u ? nxmem_manager_snapshot(manager->handle, NULL, NULL) : nxmem_bound_commit(NULL, (NxmemByteRange){0, 1}, NULL);
  }
}

void own_op_misuse(const life_record *op) { own_result("what no caller may ask", bad_call(op->b, op->a), NXMEM_ERR_INVALID_ARGUMENT); }

/* A second reference: its handle goes only where the last one could. */
void own_op_unload(const life_record *op) {
  if ((op->c & 1u) == 0 && !it.plugin_open[1]) {
    if (it.depth == 0) (void)life_load(1);
    return;
  }
  (void)life_unload(1);
}

/* ---- Pages -------------------------------------------------------------------------------------------------------- */

static int is_within(NxmemByteRange r, uint64_t bytes) { return r.bytes != 0 && r.offset <= bytes && r.bytes <= bytes - r.offset; }

static NxmemByteRange range_for(const life_record *op, uint64_t bytes) {
  NxmemByteRange r = {0, bytes};
  if ((op->c & 2u) != 0) r.offset = bytes == 0 ? 0 : op->x % bytes;
  r.bytes -= r.offset;
  if ((op->c & 4u) != 0) r.bytes = op->y;
  return r;
}

static nxmem_result may_change(const life_record *op, uint8_t block, const nxmem_bound *named, own_life last) {
  const own_block *b = &own.blocks[block];
  
  if (b->bound.id == 0) return NXMEM_ERR_STALE_HANDLE;
  const own_binding *binding = &own.bindings[b->binding];
  if (binding->there != OWN_LIVE || binding->handle.id != named->binding.id) return NXMEM_ERR_STALE_HANDLE;
  const nxmem_result work = own_work(own.mechanisms[binding->mechanism].life, last);
  if (work != NXMEM_OK) return work;
  if (b->state != OWN_OWNED) return NXMEM_ERR_UNKNOWN_ALLOCATION;
  return named->bytes == b->bound.bytes && named->align == b->bound.align ? NXMEM_OK : NXMEM_ERR_MISMATCH;
}

/* The host's part of it, and life's. */
static nxmem_result enter(life_frame *f, uint8_t block, uint32_t slots, NxmemByteRange range) {
  life_block *b = &it.blocks[block];
  life_allocator *a = life_owner(b);
  f->a = a;
  f->block = b;
  f->offset = range.offset;
  f->size = range.bytes;
  f->count = 1;
  f->out = 77;
  if ((a->backing & slots) != slots) return NXMEM_ERR_UNSUPPORTED_CAPABILITY;
  a->inside++;
  b->met |= b->pins != 0;
  b->pins++;
  return is_within(range, b->bytes) ? NXMEM_OK : NXMEM_ERR_INVALID_ARGUMENT;
}

/* Lost meanwhile: what it had pinned nobody else could keep. */
static nxmem_result leave(life_frame *f, uint8_t block, nxmem_result entered) {
  const own_life now = own_mechanism_of(block)->life;
  if (entered != NXMEM_ERR_UNSUPPORTED_CAPABILITY) {
    life_unpin(f->block);
    f->a->inside--;
  }
  if (now > OWN_RETIRED && own.blocks[block].state == OWN_OWNED && f->block->pins == 0) own_keep(block, NXMEM_KEPT_DEVICE_LOST);
  return now > OWN_RETIRED ? own_work(now, OWN_RETIRED) : f->result;
}

void own_op_pages(const life_record *op) {
  const uint8_t block = op->b % LIFE_BLOCKS;
  const int commits = (op->c & 1u) == 0;
  nxmem_bound named = own.blocks[block].bound;
  if ((op->d & 0xF0u) == 0xF0u) named.bytes = op->y;
  const NxmemByteRange range = range_for(op, own.blocks[block].bound.bytes);
  nxmem_result expected = may_change(op, block, &named, commits ? OWN_ACTIVE : OWN_RETIRED);
  life_frame *f = own_push(commits ? CALL_COMMIT : CALL_OTHER, own.blocks[block].mechanism);
  const uint8_t binding = own.blocks[block].binding;
  const int begun = expected == NXMEM_OK;
  if (begun) {
    own.bindings[binding].uses++;
    f->result = enter(f, block, commits ? 1u << 1 | 1u << 3 : 1u << 2, range);
  }
  const nxmem_result entered = f->result;
  uint64_t unmapped = 77;
  const nxmem_result found = commits ? nxmem_bound_commit(&named, range, NULL) : nxmem_bound_decommit(&named, range, &unmapped, NULL);
  own_expect((f->calls != 0) == (begun && entered == NXMEM_OK), "pages: the plugin was asked, or was not, wrongly");
  if (begun) {
    expected = leave(f, block, entered);
    own_unuse(binding);
  }
  own_pop();
  own_result("pages", found, expected);
}
